"""The durable store of showings (who saw which campaign): one SQLite file, one writer thread.

A showing is on disk before `record` returns. The thread commits all waiting showings in one
transaction, so that they share one wait for the disk. People are pseudonyms.
"""

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kreach.errors import KreachError
from kreach.publisher.gateway.pseudonyms import make_key, read_key
from kreach.service.sqlite import OtherSchema, Schema, create_private, open_store

__all__ = [
    "FILE",
    "MAX_PRUNED",
    "MAX_WAITING",
    "SCHEMA",
    "Showing",
    "ShowingStore",
    "StoreUnavailable",
    "check_writable",
]

FILE = "showings.sqlite"
_MAX_BATCH = 1_000
MAX_WAITING = 20_000
_BUSY_SECONDS = 5.0
_PROBE_SECONDS = 1.0
_PRUNE_SECONDS = 60.0
MAX_PRUNED = 1_000
_JOIN_SECONDS = 30.0

_TABLES = """
CREATE TABLE IF NOT EXISTS showing (
    user BLOB NOT NULL, impression BLOB NOT NULL, campaign TEXT NOT NULL, at_us INTEGER NOT NULL,
    shown_as TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (user, impression)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS showing_age ON showing (campaign, at_us);
CREATE TABLE IF NOT EXISTS latest (one INTEGER PRIMARY KEY CHECK (one = 1), at_us INTEGER NOT NULL);
"""


def _add_shown_as(database: sqlite3.Connection) -> None:
    database.execute("ALTER TABLE showing ADD COLUMN shown_as TEXT NOT NULL DEFAULT ''")


SCHEMA = Schema(
    2,
    _TABLES,
    {1: _add_shown_as},
    application_id=0x6B726368,  # "krch": whose file it is
)
_INSERT = """INSERT OR IGNORE INTO showing (user, impression, campaign, at_us, shown_as)
    VALUES (?, ?, ?, ?, ?)"""
_ADVANCE_CLOCK = """INSERT INTO latest VALUES (1, ?)
    ON CONFLICT (one) DO UPDATE SET at_us = max(at_us, excluded.at_us)"""
_COUNT = """SELECT count(*) FROM
    (SELECT 1 FROM showing WHERE user = ? AND at_us > ? LIMIT ?)"""
_NEXT_CAMPAIGN = "SELECT campaign FROM showing WHERE campaign > ? ORDER BY campaign LIMIT 1"
_PRUNE = """DELETE FROM showing WHERE (user, impression) IN
    (SELECT user, impression FROM showing WHERE campaign = ? AND at_us <= ? LIMIT ?)"""


class StoreUnavailable(Exception):
    """The store cannot be read or written now; the request had no effect."""


@dataclass(frozen=True, slots=True)
class Showing:
    """One row of the store. `shown_as` is where a panel counts it; hard caps need no group."""

    user: bytes
    impression: bytes
    campaign: str
    at_us: int
    shown_as: str = ""


_Waiting = tuple[Showing, "asyncio.Future[bool | None]"]
PruneBefore = Callable[[str], int | None]
"""Campaign → the time (µs) up to which its rows can be deleted; None to keep all."""


class ShowingStore:
    """The store. `failure` says why it cannot be written now; the writer retries by itself.

    `database` is the writer's connection, None while it is closed.
    """

    def __init__(self, folder: Path, prune_before: PruneBefore) -> None:
        self.key = _make_folder(folder)
        self._path = folder / FILE
        self._prune_before = prune_before
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.database: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._prune_due = time.monotonic()
        self.failure: str | None = None
        self.rows = 0
        self.latest_us = 0
        self.batches = 0
        self._log_due = False
        with suppress(StoreUnavailable):  # a full disk may have room later
            self._attempt(lambda: None)
        self._close()

    # The service's side: called in its event loop.

    def start(self) -> None:
        """Start the writer, for the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._writer = threading.Thread(target=self._write_loop, name="showings", daemon=True)
        self._writer.start()

    def stop(self) -> None:
        """Write the waiting showings, then close."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._waiting.put(None)
            writer.join(_JOIN_SECONDS)
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    async def record(self, showing: Showing) -> bool:
        """Store a showing; False if it is a duplicate."""
        if self._writer is None or self._loop is None:
            raise StoreUnavailable("the store is not open")
        if self._waiting.qsize() >= MAX_WAITING:
            raise StoreUnavailable("too many showings are waiting to be written")
        result: asyncio.Future[bool | None] = self._loop.create_future()
        self._waiting.put((showing, result))
        new = await result
        if new is None:
            raise StoreUnavailable(self.failure or "the store could not be written")
        return new

    def count(self, user: bytes, after_us: int, limit: int) -> int:
        """The showings of a user (of one campaign) after a time, counted up to `limit`."""
        try:
            if self._reader is None:
                # not open_read_only, which cannot read a WAL file that no writer has open
                self._reader = open_store(self._path, SCHEMA, busy_seconds=0.1)
                self._reader.execute("PRAGMA query_only = 1")
            row = self._reader.execute(_COUNT, (user, after_us, limit)).fetchone()
        except sqlite3.Error as error:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
            raise StoreUnavailable(f"the store cannot be read: {_reason(error)}") from None
        return int(row[0])

    def read(self, sql: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Rows by a connection of their own, for another thread than the service's."""
        try:
            with closing(open_store(self._path, SCHEMA, busy_seconds=_BUSY_SECONDS)) as reader:
                reader.execute("PRAGMA query_only = 1")
                return reader.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the store cannot be read: {_reason(error)}") from None

    # The writer's side: one thread.

    def _write_loop(self) -> None:
        running = True
        while running:
            batch, running = self._next_batch()
            news: list[bool] | list[None] = [None] * len(batch)
            try:
                news = self._attempt(partial(self._commit, batch))
            except StoreUnavailable:
                pass  # `failure` says why
            except KreachError:  # the file was replaced
                self.failure = "the store cannot be written: it belongs to another program"
            except Exception as error:  # no request may wait forever
                self._close()
                self.failure = f"the store cannot be written: {type(error).__name__}"
            if batch and self._loop is not None:
                with suppress(RuntimeError):  # the loop was closed in the meantime
                    self._loop.call_soon_threadsafe(_set_results, batch, news)
        self._close()

    def _next_batch(self) -> tuple[list[_Waiting], bool]:
        """The waiting showings, after waiting for one; and whether to continue."""
        batch: list[_Waiting] = []
        try:
            pause = _PROBE_SECONDS if self.failure else self._prune_due - time.monotonic()
            item = self._waiting.get(block=pause > 0, timeout=pause if pause > 0 else None)
            while item is not None:
                batch.append(item)
                if len(batch) == _MAX_BATCH:
                    return batch, True
                item = self._waiting.get(block=False)
            return batch, False
        except queue.Empty:
            return batch, True

    def _attempt(self, work: Callable[[], Any]) -> Any:
        """Run `work` on an open database; on failure close it, to reopen it next time."""
        try:
            if self.database is None:
                self._open()
            result = work()
        except KreachError:
            self._close()
            raise
        except (sqlite3.Error, OSError) as error:
            self._close()
            self.failure = f"the store cannot be written: {_reason(error)}"
            raise StoreUnavailable(self.failure) from None
        self.failure = None
        return result

    def _open(self) -> None:
        create_private(self._path)
        with _our_file(self._path):
            database = open_store(
                self._path, SCHEMA, busy_seconds=_BUSY_SECONDS, secure_delete="ON"
            )
        self.database = database
        self.rows = database.execute("SELECT count(*) FROM showing").fetchone()[0]
        latest = database.execute("SELECT at_us FROM latest").fetchone()
        self.latest_us = max(self.latest_us, latest[0] if latest else 0)

    def _close(self) -> None:
        if self.database is not None:
            with suppress(sqlite3.Error):
                self.database.close()  # rolls back an open transaction
            self.database = None

    def _commit(self, batch: list[_Waiting]) -> list[bool]:
        """Write the batch in one transaction and, from time to time, delete old rows.

        After a failure an empty batch is written too, to see whether writing works again.
        """
        due = time.monotonic() >= self._prune_due
        database = self.database
        if database is None or not (batch or due or self.failure):
            return []
        database.execute("BEGIN IMMEDIATE")
        news = [
            database.execute(
                _INSERT, (s.user, s.impression, s.campaign, s.at_us, s.shown_as)
            ).rowcount
            == 1
            for s, _ in batch
        ]
        latest_us = max((s.at_us for s, _ in batch), default=self.latest_us)
        database.execute(_ADVANCE_CLOCK, (latest_us,))
        pruned, more = self._prune(database) if due else (0, False)
        database.execute("COMMIT")
        self.rows += sum(news) - pruned
        self.latest_us = max(self.latest_us, latest_us)
        self.batches += bool(batch)
        if pruned or (due and self._log_due):
            self._erase_log(database)
        if due and not more:
            self._prune_due = time.monotonic() + _PRUNE_SECONDS
        return news

    def _erase_log(self, database: sqlite3.Connection) -> None:
        """Truncate the write-ahead log, which holds rows as they were before they were deleted.

        In the file itself deleted rows are overwritten. While somebody reads the log cannot be
        truncated; the next pruning, or the close, does it.
        """
        busy = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        self._log_due = bool(busy)

    def _prune(self, database: sqlite3.Connection) -> tuple[int, bool]:
        """Delete some rows that no cap needs; how many, and whether there may be more."""
        left = MAX_PRUNED
        row = database.execute(_NEXT_CAMPAIGN, ("",)).fetchone()
        while row is not None and left:
            old_us = self._prune_before(row[0])
            if old_us is not None:
                left -= database.execute(_PRUNE, (row[0], old_us, left)).rowcount
            row = database.execute(_NEXT_CAMPAIGN, row).fetchone()
        return MAX_PRUNED - left, left == 0


def _set_results(batch: list[_Waiting], news: list[bool] | list[None]) -> None:
    for (_, result), new in zip(batch, news, strict=True):
        if not result.done():
            result.set_result(new)


def _make_folder(folder: Path) -> bytes:
    """Create the folder if it is missing, and return its key."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        rule = "be a folder or a path where one can be created"
        raise KreachError.rule("store", rule, f"{folder} ({error.strerror})") from None
    key = read_key(folder)
    if key is None and (folder / FILE).exists():
        rule = f"hold the key that {FILE} was written with"
        raise KreachError.rule("store", rule, f"{folder} without a key")
    return make_key(folder) if key is None else key


def check_writable(path: Path) -> None:
    """Refuse a file that is not a store or cannot be written; no row changes."""
    with (
        _our_file(path),
        closing(open_store(path, SCHEMA, busy_seconds=_BUSY_SECONDS)) as database,
    ):
        database.execute("BEGIN IMMEDIATE")
        database.execute(_ADVANCE_CLOCK, (0,))
        database.execute("ROLLBACK")


@contextmanager
def _our_file(path: Path) -> Iterator[None]:
    """Refuse what another program wrote, or a file that is no database at all."""
    try:
        yield
    except (sqlite3.OperationalError, OtherSchema):
        raise
    except sqlite3.DatabaseError:
        raise KreachError.rule("store", f"hold a {FILE} of this gateway", str(path)) from None


def _reason(error: Exception) -> str:
    """The reason, as the database or the system gives it; it quotes no row."""
    if isinstance(error, OSError):
        return str(error.strerror)
    return str(error) if isinstance(error, sqlite3.OperationalError) else type(error).__name__
