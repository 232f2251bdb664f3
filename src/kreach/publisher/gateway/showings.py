"""Who was shown which campaign, durably: one SQLite file, written by one thread.

A showing is on the disk before `record` returns. The thread commits whatever has come in the
meantime together, so that many showings share one wait for the disk. People are pseudonyms.
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

__all__ = ["FILE", "Showing", "Showings", "StoreDown", "try_file"]

FILE = "showings.sqlite"
_MAX_BATCH = 1_000
_MAX_WAITING = 20_000
_BUSY_SECONDS = 5.0
_PROBE_SECONDS = 1.0
_PRUNE_SECONDS = 60.0
_PRUNED_AT_ONCE = 1_000
_JOIN_SECONDS = 30.0

_TABLES = """
CREATE TABLE IF NOT EXISTS showing (
    user BLOB NOT NULL, impression BLOB NOT NULL, campaign TEXT NOT NULL, at_us INTEGER NOT NULL,
    PRIMARY KEY (user, impression)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS showing_age ON showing (campaign, at_us);
CREATE TABLE IF NOT EXISTS latest (one INTEGER PRIMARY KEY CHECK (one = 1), at_us INTEGER NOT NULL);
"""
_SCHEMA = Schema(1, _TABLES, application_id=0x6B726368)  # "krch": whose file it is
_INSERT = "INSERT OR IGNORE INTO showing (user, impression, campaign, at_us) VALUES (?, ?, ?, ?)"
_MOVE_CLOCK = """INSERT INTO latest VALUES (1, ?)
    ON CONFLICT (one) DO UPDATE SET at_us = max(at_us, excluded.at_us)"""
_COUNT = """SELECT count(*) FROM
    (SELECT 1 FROM showing WHERE user = ? AND at_us > ? LIMIT ?)"""
_NEXT_CAMPAIGN = "SELECT campaign FROM showing WHERE campaign > ? ORDER BY campaign LIMIT 1"
_PRUNE = """DELETE FROM showing WHERE (user, impression) IN
    (SELECT user, impression FROM showing WHERE campaign = ? AND at_us <= ? LIMIT ?)"""


class StoreDown(Exception):
    """The store cannot be read or written now; what was asked for was not done."""


@dataclass(frozen=True, slots=True)
class Showing:
    """One row: all that is kept of an impression."""

    user: bytes
    impression: bytes
    campaign: str
    at_us: int


_Waiting = tuple[Showing, "asyncio.Future[bool | None]"]
KeptFrom = Callable[[str], int | None]
"""Campaign → the time (µs) up to which its rows are not needed any more, None to keep all."""


class Showings:
    """The store. `trouble` says why it cannot be written now; it tries again by itself."""

    def __init__(self, folder: Path, kept_from: KeptFrom) -> None:
        self.key = _make_folder(folder)
        self._path = folder / FILE
        self._kept_from = kept_from
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._database: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._prune_due = time.monotonic()
        self.trouble: str | None = None
        self.rows = 0
        self.latest_us = 0
        self.batches = 0
        with suppress(StoreDown):  # a full disk may have room again soon; what is foreign may not
            self._attempt(lambda: None)
        self._close()

    # The service's side: called in its event loop.

    def start(self) -> None:
        """Begin to write, for the event loop that runs now."""
        self._loop = asyncio.get_running_loop()
        self._writer = threading.Thread(target=self._write_on, name="showings", daemon=True)
        self._writer.start()

    def stop(self) -> None:
        """Write what is waiting, then close."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._waiting.put(None)
            writer.join(_JOIN_SECONDS)
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    async def record(self, showing: Showing) -> bool:
        """Keep a showing; True if it is new, False if the same impression was kept before."""
        if self._writer is None or self._loop is None:
            raise StoreDown("the store is not open")
        if self._waiting.qsize() >= _MAX_WAITING:
            raise StoreDown("too many showings are waiting to be written")
        kept: asyncio.Future[bool | None] = self._loop.create_future()
        self._waiting.put((showing, kept))
        new = await kept
        if new is None:
            raise StoreDown(self.trouble or "the store could not be written")
        return new

    def count(self, user: bytes, after_us: int, most: int) -> int:
        """How often a user was shown a campaign after a time, counted up to `most`."""
        try:
            if self._reader is None:
                # not open_read_only, which cannot read a WAL file that no writer has open
                self._reader = open_store(self._path, _SCHEMA, busy_seconds=0.1)
                self._reader.execute("PRAGMA query_only = 1")
            found = self._reader.execute(_COUNT, (user, after_us, most)).fetchone()
        except sqlite3.Error as error:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
            raise StoreDown(f"the store cannot be read: {_reason(error)}") from None
        return int(found[0])

    # The writer's side: one thread.

    def _write_on(self) -> None:
        going = True
        while going:
            batch, going = self._next_batch()
            news: list[bool] | list[None] = [None] * len(batch)
            try:
                news = self._attempt(partial(self._commit, batch))
            except StoreDown:
                pass  # `trouble` says why
            except KreachError:  # another file was put in its place
                self.trouble = "the store cannot be written: it is not this gateway's"
            except Exception as error:  # whatever it is, nobody may wait for ever
                self._close()
                self.trouble = f"the store cannot be written: {type(error).__name__}"
            if batch and self._loop is not None:
                with suppress(RuntimeError):  # the loop was closed in the meantime
                    self._loop.call_soon_threadsafe(_settle, batch, news)
        self._close()

    def _next_batch(self) -> tuple[list[_Waiting], bool]:
        """What waits, after waiting for something to; and whether to go on."""
        batch: list[_Waiting] = []
        try:
            pause = _PROBE_SECONDS if self.trouble else self._prune_due - time.monotonic()
            one = self._waiting.get(block=pause > 0, timeout=pause if pause > 0 else None)
            while one is not None:
                batch.append(one)
                if len(batch) == _MAX_BATCH:
                    return batch, True
                one = self._waiting.get(block=False)
            return batch, False
        except queue.Empty:
            return batch, True

    def _attempt(self, work: Callable[[], Any]) -> Any:
        """Do something with an open database, or say why not and start afresh next time."""
        try:
            if self._database is None:
                self._open()
            done = work()
        except KreachError:
            self._close()
            raise
        except (sqlite3.Error, OSError) as error:
            self._close()
            self.trouble = f"the store cannot be written: {_reason(error)}"
            raise StoreDown(self.trouble) from None
        self.trouble = None
        return done

    def _open(self) -> None:
        create_private(self._path)
        with _our_file(self._path):
            database = open_store(
                self._path, _SCHEMA, busy_seconds=_BUSY_SECONDS, secure_delete="FAST"
            )
        self._database = database
        self.rows = database.execute("SELECT count(*) FROM showing").fetchone()[0]
        latest = database.execute("SELECT at_us FROM latest").fetchone()
        self.latest_us = max(self.latest_us, latest[0] if latest else 0)

    def _close(self) -> None:
        if self._database is not None:
            with suppress(sqlite3.Error):
                self._database.close()  # which rolls back what was begun
            self._database = None

    def _commit(self, batch: list[_Waiting]) -> list[bool]:
        """One transaction: the batch and, from time to time, old rows out.

        In trouble an empty batch is written too: the clock's row tells whether writing works again.
        """
        due = time.monotonic() >= self._prune_due
        database = self._database
        if database is None or not (batch or due or self.trouble):
            return []
        database.execute("BEGIN IMMEDIATE")
        news = [
            database.execute(_INSERT, (s.user, s.impression, s.campaign, s.at_us)).rowcount == 1
            for s, _ in batch
        ]
        latest_us = max((s.at_us for s, _ in batch), default=self.latest_us)
        database.execute(_MOVE_CLOCK, (latest_us,))
        pruned, more = self._prune(database) if due else (0, False)
        database.execute("COMMIT")
        self.rows += sum(news) - pruned
        self.latest_us = max(self.latest_us, latest_us)
        self.batches += bool(batch)
        if due and not more:
            self._prune_due = time.monotonic() + _PRUNE_SECONDS
        return news

    def _prune(self, database: sqlite3.Connection) -> tuple[int, bool]:
        """Delete some rows that no span needs; how many, and whether there may be more."""
        left = _PRUNED_AT_ONCE
        found = database.execute(_NEXT_CAMPAIGN, ("",)).fetchone()
        while found is not None and left:
            old_us = self._kept_from(found[0])
            if old_us is not None:
                left -= database.execute(_PRUNE, (found[0], old_us, left)).rowcount
            found = database.execute(_NEXT_CAMPAIGN, found).fetchone()
        return _PRUNED_AT_ONCE - left, left == 0


def _settle(batch: list[_Waiting], news: list[bool] | list[None]) -> None:
    for (_, kept), new in zip(batch, news, strict=True):
        if not kept.done():
            kept.set_result(new)


def _make_folder(folder: Path) -> bytes:
    """Make the folder if need be; its key."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        rule = "be a folder or a place where one can be made"
        raise KreachError.rule("store", rule, f"{folder} ({error.strerror})") from None
    key = read_key(folder)
    if key is None and (folder / FILE).exists():
        rule = f"hold the key that {FILE} was written with"
        raise KreachError.rule("store", rule, f"{folder} without a key")
    return make_key(folder) if key is None else key


def try_file(path: Path) -> None:
    """Refuse a file that is not a store or cannot be written; no row changes."""
    with (
        _our_file(path),
        closing(open_store(path, _SCHEMA, busy_seconds=_BUSY_SECONDS)) as database,
    ):
        database.execute("BEGIN IMMEDIATE")
        database.execute(_MOVE_CLOCK, (0,))
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
    """Why, in the database's or the system's words, which quote no row."""
    if isinstance(error, OSError):
        return str(error.strerror)
    return str(error) if isinstance(error, sqlite3.OperationalError) else type(error).__name__
