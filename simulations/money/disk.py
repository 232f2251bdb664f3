"""A journal that writes when the simulation lets it, and what a crash leaves of it."""

import queue
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq

from kreach.adsystem.ledger.compaction import listed_files
from kreach.adsystem.ledger.journal import FILE, Done, Journal
from kreach.service.logs import Log

__all__ = ["DurableState", "SteppedJournal", "copy_journal", "empty_journal"]

_WAL = FILE + "-wal"


@dataclass
class DurableState:
    """What a log holds, read when it has changed."""

    rows: list[tuple[int, int, int, int]]  # impression, campaign, micros, bid time
    grants: dict[int, int]


def durable_state(connection: sqlite3.Connection, folder: Path) -> DurableState:
    """Read a log: live rows, and those of the files that it lists."""
    live = connection.execute("SELECT impression, campaign, micros, bid_ts FROM impressions")
    rows = live.fetchall()
    for file in listed_files(connection, folder)[0]:
        rows += _rows_of(file)
    grants = connection.execute("SELECT campaign, micros FROM grants")
    return DurableState(rows, dict(grants.fetchall()))


@cache
def _rows_of(file: Path) -> list[tuple[int, int, int, int]]:
    """The rows of a file, which never changes."""
    table = pq.ParquetFile(file).read(
        ["impression_id", "campaign_number", "price_micros", "bid_ts"]
    )
    ids, *numbers, times = (
        column.to_pylist()
        for column in table.set_column(3, "bid_ts", table.column("bid_ts").cast("int64")).columns
    )
    return list(zip((int(text, 16) for text in ids), *numbers, times, strict=True))


class SteppedJournal(Journal):
    """The real journal without its thread: `step` commits what was submitted."""

    def _start_writer(self) -> None:
        self._connection.execute("PRAGMA synchronous = OFF")  # a crash is a copy of the files
        self._state: tuple[DurableState | None, int] = (None, 0)

    at_once = False  # whether what is submitted is written at once, as when somebody waits for it

    def submit(self, kind: str, values: tuple[Any, ...], done: Done | None = None) -> None:
        """Have a record written, when the simulation lets it."""
        super().submit(kind, values, done)
        if self.at_once:
            self.step()

    def durable(self) -> DurableState:
        """What a crash would leave."""
        state, commits = self._state
        if state is None or commits != self.commits:
            state = durable_state(self._connection, self._path.parent)
            self._state = (state, self.commits)
        return state

    def _take(self) -> list[Any]:
        records = []
        while not self._queue.empty():
            record = self._queue.get_nowait()
            if record is not None:
                records.append(record)
        return records

    def step(self, *, fails: bool = False) -> None:
        """Commit all that waits, or have the disk refuse it."""
        records = self._take()
        if not records:
            return
        if fails:
            error = sqlite3.OperationalError("disk I/O error")
            self._report(error)
            for _, _, done in records:
                if done is not None:
                    done(error)
            return
        self._commit(records)

    def run_now(self, job: Callable[[sqlite3.Connection], object]) -> Exception | None:
        """Commit a job and all that waits before it."""
        ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self.run(job, ended.put)
        self.step()
        return ended.get_nowait()

    def crash(self, chance: random.Random) -> None:
        """Die while what waits is being written: all of it is there, nothing, or a torn tail."""
        wal = self._path.with_name(_WAL)
        safe = wal.stat().st_size if wal.exists() else 0
        records = [(kind, values, None) for kind, values, _ in self._take()]
        how = chance.choice(["written", "lost", "torn"]) if records else "lost"
        if how != "lost":
            self._commit(cast(Any, records))
        remains = [(path, path.read_bytes()) for path in (self._path, wal) if path.exists()]
        self._connection.close()
        self.release()
        for path in self._path.parent.glob(FILE + "*"):
            path.unlink()
        peek = self._path.parent / "peek"  # opening the files themselves would mend them
        peek.mkdir(exist_ok=True)
        for path, content in remains:
            left = content
            if path == wal and how == "torn" and len(content) > safe:
                cut = chance.randrange(safe, len(content))  # the commit's last page is not whole
                left = content[:cut] + chance.randbytes(chance.randrange(64))
            path.write_bytes(left)
            (peek / path.name).write_bytes(left)
        with closing(sqlite3.connect(peek / FILE)) as connection:
            self._state = (durable_state(connection, self._path.parent), self.commits)
        shutil.rmtree(peek)

    def close(self) -> None:
        """Write what was submitted, then close; what is on the disk stays known."""
        self.step()
        self.durable()
        self._connection.close()
        self.release()


def empty_journal(folder: Path) -> Path:
    """A journal that was just made: copying it is quicker than making one."""
    journal = SteppedJournal(folder, Log("simulation", lambda _: None))
    journal.run_now(lambda log: log.execute("INSERT INTO catalogues VALUES (1, 'v1')"))
    journal.close()
    return folder / FILE


def copy_journal(template: Path, folder: Path) -> None:
    """Begin a log with a copy."""
    folder.mkdir(parents=True)
    shutil.copyfile(template, folder / FILE)
