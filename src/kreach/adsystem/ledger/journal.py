"""The journal: the live log in SQLite, written by one thread, many records to a commit.

A submitted record is durable when `done` is called without an error. The journal is the truth:
budgets and counters are folds of it.

    impressions   one row per impression, in the order in which they were posted
    grants        money that may be reserved for bids, written before it is used; of a campaign, or
                  of a family by its key (`ledger.family_key`)
    pacing        multiplier, spend and tallies of each campaign, at intervals
    memory        what was learned (multipliers, markets, traffic), and requests by hour
                  (`request_rows.py`): useful, never needed
    compacted     Parquet files that took rows over; a file that is not listed does not exist
    losses        bids that were lost, many to a row, until the last of them expires
    conflicts     billing notices that named another price than the one that was booked
    steps         steps of the machine's clock that were accepted: no time passed in between
    doubts        when the machine's clock was not believed, and the rows written meanwhile
    adjustments   what bids cost that a restored backup does not know (`restored_rows.py`)
"""

import fcntl
import hashlib
import json
import os
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from kreach.adsystem.ledger.clock_rows import read_steps
from kreach.adsystem.ledger.restored_rows import check_settled
from kreach.boundary.times import MICROS
from kreach.errors import KreachError
from kreach.service.clock import ClockMark
from kreach.service.logs import Log
from kreach.service.metrics import LATENCY_SECONDS, Histogram
from kreach.service.sqlite import (
    Schema,
    check_intact,
    open_empty,
    open_read_only,
    open_store,
    transaction,
)

__all__ = [
    "FILE",
    "SCHEMA",
    "Done",
    "ImpressionRow",
    "Journal",
    "end_copy",
    "is_copy",
    "lock_store",
    "open_copy",
    "open_reader",
]

FILE = "live.sqlite3"
LOCK = "bidder.lock"
_COPY = "copy"
ImpressionRow = tuple[int, int, int, int, int, int, int, int]
"""Impression number, campaign, catalogue, group, ts and bid_ts in µs, expires in s, micros."""

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS catalogues (number INTEGER PRIMARY KEY, version TEXT UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS impressions (
    row INTEGER PRIMARY KEY AUTOINCREMENT, impression INTEGER UNIQUE NOT NULL,
    campaign INTEGER NOT NULL, catalogue INTEGER NOT NULL, grp INTEGER NOT NULL,
    ts INTEGER NOT NULL, bid_ts INTEGER NOT NULL, expires INTEGER NOT NULL, micros INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS grants (campaign INTEGER PRIMARY KEY, micros INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS pacing (
    campaign INTEGER NOT NULL, ts INTEGER NOT NULL, multiplier REAL, spent INTEGER NOT NULL,
    reserved INTEGER NOT NULL, carried INTEGER NOT NULL, requests INTEGER NOT NULL,
    bids INTEGER NOT NULL, wins INTEGER NOT NULL, losses INTEGER NOT NULL,
    PRIMARY KEY (campaign, ts)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS memory (name TEXT PRIMARY KEY, ts INTEGER NOT NULL, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS compacted (
    file TEXT PRIMARY KEY, first_row INTEGER NOT NULL, last_row INTEGER NOT NULL,
    rows INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS losses (
    batch INTEGER PRIMARY KEY, until INTEGER NOT NULL, impressions BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS conflicts (
    impression INTEGER NOT NULL, campaign INTEGER NOT NULL, micros INTEGER NOT NULL,
    other_micros INTEGER NOT NULL, ts INTEGER NOT NULL, PRIMARY KEY (impression, other_micros)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS steps (before INTEGER NOT NULL, after INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS doubts (
    number INTEGER PRIMARY KEY, began INTEGER NOT NULL, lead_seconds REAL NOT NULL,
    ended INTEGER, outcome TEXT, first_row INTEGER NOT NULL, last_row INTEGER
);
CREATE TABLE IF NOT EXISTS adjustments (
    restored INTEGER NOT NULL, campaign INTEGER NOT NULL, micros INTEGER NOT NULL,
    PRIMARY KEY (restored, campaign)
) WITHOUT ROWID;
"""


def _new_tables(connection: sqlite3.Connection) -> None:
    """To versions 2 (losses, conflicts, steps, doubts) and 3 (adjustments): they are there."""


SCHEMA = Schema(3, _TABLES, {1: _new_tables, 2: _new_tables})

_WRITES = {
    "grant": "INSERT OR REPLACE INTO grants VALUES (?, ?)",
    "pacing": "INSERT OR REPLACE INTO pacing VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "forget_pacing": "DELETE FROM pacing WHERE ts < ?",
    "memory": "INSERT OR REPLACE INTO memory VALUES (?, ?, ?)",
    "moment": """INSERT INTO meta VALUES ('moment', ?)
        ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)""",
    "losses": "INSERT INTO losses (until, impressions) VALUES (?, ?)",
    "forget_losses": "DELETE FROM losses WHERE until < ?",
    "mark": "INSERT OR REPLACE INTO meta VALUES ('mark', ?), ('boot', ?), ('uptime', ?)",
}
# one statement for all impressions of a commit: with one for each, this thread would wait for the
# interpreter lock, beside the thread that answers requests, once for every row
_IMPRESSIONS = """INSERT OR IGNORE INTO impressions
    (impression, campaign, catalogue, grp, ts, bid_ts, expires, micros)
    SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3,
           value ->> 4, value ->> 5, value ->> 6, value ->> 7 FROM json_each(?)"""
_MAX_PER_COMMIT = 5_000

Done = Callable[[Exception | None], None]
_Record = tuple[str, Any, Done | None]


def open_reader(folder: Path) -> sqlite3.Connection:
    """A connection that only reads; a store without a journal has no rows."""
    path = folder / FILE
    if not path.exists():
        return open_empty(SCHEMA)
    return open_read_only(path, SCHEMA, older=True)  # which lacks only tables


def open_copy(folder: Path) -> sqlite3.Connection:
    """A connection that writes a copy of a journal of another machine; see `is_copy`."""
    connection = open_store(folder / FILE, SCHEMA)
    connection.execute("INSERT OR IGNORE INTO meta VALUES (?, 1)", (_COPY,))
    return connection


def is_copy(connection: sqlite3.Connection) -> bool:
    """Whether a journal is a copy: its rows come from elsewhere, and no bidder may write to it."""
    return _read_meta(connection, _COPY) == 1


def end_copy(connection: sqlite3.Connection) -> None:
    """Have a copy be a journal that a bidder may open."""
    connection.execute("DELETE FROM meta WHERE name = ?", (_COPY,))


class Journal:
    """One bidder's log. Every opening starts a new `epoch`."""

    def __init__(self, folder: Path, log: Log) -> None:
        self._log = log
        self._lock = lock_store(folder)
        try:
            self._path = folder / FILE
            self._connection = open_store(self._path, SCHEMA)
            check_intact(self._connection)
            check_settled(self._connection, folder)
            self._refuse_copy(folder)
            self.epoch = self._next_epoch()
            self.id = format(self._meta("id"), "x")
            self.clock_mark = self.mark_of(self._connection)
            self.steps = read_steps(self._connection)  # of the clock, that were accepted
            self.fenced_epoch = self._meta("fence")  # whose bids a repair of the clock ended
        except (sqlite3.Error, KreachError) as error:
            os.close(self._lock)
            if isinstance(error, KreachError):
                raise
            raise KreachError.rule("store", "hold a log that can be written", str(error)) from None
        self.failure: str | None = None
        self.commits = 0
        self.commit_seconds = Histogram(LATENCY_SECONDS)  # to write and sync a batch
        self.when_replicated: Callable[[Done], None] | None = None
        """Calls back when all that is committed is also elsewhere; grants wait for it."""
        self._queue: queue.SimpleQueue[_Record | None] = queue.SimpleQueue()
        self._start_writer()

    def _refuse_copy(self, folder: Path) -> None:
        if is_copy(self._connection):
            raise KreachError(
                f"store {folder} is a mirror of a bidder on another machine: rebuild the bidder "
                "with kreach repair bidder"
            )

    def _start_writer(self) -> None:
        self._writer = threading.Thread(target=self._write, name="journal", daemon=True)
        self._writer.start()

    def _next_epoch(self) -> int:
        with transaction(self._connection) as connection:
            connection.execute(
                """INSERT INTO meta VALUES ('epoch', 1)
                ON CONFLICT (name) DO UPDATE SET value = value + 1"""
            )
            identity = (secrets.randbits(62) | 1,)
            connection.execute("INSERT OR IGNORE INTO meta VALUES ('id', ?)", identity)
        # Out of the WAL: a torn one must not bring back an epoch whose tokens are still valid.
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return self._meta("epoch")

    def _meta(self, name: str) -> int:
        return _read_meta(self._connection, name)

    def last_moment(self) -> float:
        """The latest time in the log, in seconds."""
        return self.mark_of(self._connection).not_before

    @staticmethod
    def mark_of(connection: sqlite3.Connection) -> ClockMark:
        """What a log knows of time."""
        last = connection.execute("SELECT max(ts) FROM impressions").fetchone()[0] or 0
        moment, mark, boot, uptime = (
            _read_meta(connection, name) for name in ("moment", "mark", "boot", "uptime")
        )
        return ClockMark(max(last, moment) / MICROS, mark / MICROS, boot, uptime / MICROS)

    def catalogue_number(self, version: str) -> int:
        """The number under which a catalogue's rows are stored; waits for the log.

        It is made of the version, so that bidders who never met give a catalogue the same one.
        """
        digest = hashlib.blake2b(version.encode(), digest_size=4, person=b"kreach-number").digest()
        number = int.from_bytes(digest) >> 1
        add = "INSERT OR IGNORE INTO catalogues VALUES (?, ?)"
        if self.run_now(lambda connection: connection.execute(add, (number, version))) is not None:
            raise KreachError.rule("store", "hold a log that can be written", self.failure)
        numbers = dict(self.read("SELECT version, number FROM catalogues"))
        if version not in numbers:  # a collision of 31-bit hashes
            raise KreachError(
                f"catalogue {version} has the number of another one: release it under a new version"
            )
        return int(numbers[version])

    def submit(self, kind: str, values: tuple[Any, ...], done: Done | None = None) -> None:
        """Write a record; `done` is called from the writing thread."""
        self._queue.put((kind, values, done))

    def run(self, job: Callable[[sqlite3.Connection], object], done: Done | None = None) -> None:
        """Commit the statements of a job, alone or with other records."""
        self._queue.put(("job", job, done))

    def run_now(self, job: Callable[[sqlite3.Connection], object]) -> Exception | None:
        """Commit a job and wait for it; returns the error, if any."""
        ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self.run(job, ended.put)
        while True:
            try:
                return ended.get(timeout=1.0)
            except queue.Empty:
                if not self._writer.is_alive() and ended.empty():
                    return RuntimeError("the log was closed")

    def read(self, sql: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Rows as they are committed, over a connection of its own."""
        with closing(open_read_only(self._path, SCHEMA)) as connection:
            yield from connection.execute(sql, values)

    def close(self) -> None:
        """Write what was submitted, then close."""
        self._queue.put(None)
        self._writer.join()
        self._connection.close()
        self.release()

    def release(self) -> None:
        """Let others open the store."""
        os.close(self._lock)

    def _write(self) -> None:
        ended = False
        while not ended:
            batch = [self._queue.get()]
            while len(batch) < _MAX_PER_COMMIT and batch[-1] is not None:
                try:
                    batch.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            ended = batch[-1] is None
            records = [record for record in batch if record is not None]
            if records:
                self._commit(records)

    def _commit(self, records: list[_Record]) -> None:
        error: Exception | None = None
        begun = time.perf_counter()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            by_kind: dict[str, list[Any]] = {}
            for kind, values, _ in records:
                by_kind.setdefault(kind, []).append(values)
            for kind, rows in by_kind.items():
                if kind == "job":
                    for job in rows:
                        job(self._connection)
                elif kind == "impression":
                    self._connection.execute(_IMPRESSIONS, (json.dumps(rows),))
                else:
                    self._connection.executemany(_WRITES[kind], rows)
            self._connection.execute("COMMIT")
            self.commits += 1
            self.commit_seconds.observe(time.perf_counter() - begun)
        except Exception as caught:
            error = caught
            self._roll_back()
        self._report(error)
        for kind, _, done in records:
            if done is None:
                continue
            if kind == "grant" and error is None and self.when_replicated is not None:
                self.when_replicated(done)
            else:
                done(error)

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass

    def _report(self, error: Exception | None) -> None:
        if error is None:
            if self.failure is not None:
                self._log.info("log can be written again")
            self.failure = None
            return
        reason = str(error) if isinstance(error, sqlite3.Error) else type(error).__name__
        if self.failure != reason:
            self._log.error("log cannot be written", reason=reason)
        self.failure = reason


def _read_meta(connection: sqlite3.Connection, name: str) -> int:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return 0 if row is None else int(row[0])


def lock_store(folder: Path) -> int:
    """The lock of a store's log, to be closed: one writer per store, a second one is refused."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise KreachError.rule("store", "be a folder that can be written", str(folder)) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise KreachError(f"store {folder} is in use by another bidder: stop it first") from None
    return handle
