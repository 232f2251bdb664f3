"""The log at one instant: the files that are listed, and the rows that are not in files yet.

Bidders' journals are only read. Their newest rows are kept in an engine of our own, so that a
report looks at what is new since the last one and not at all rows; what has moved into files is
dropped. A snapshot is one transaction of each journal turned into one transaction of the engine:
each row is in it once, whatever the bidders do meanwhile.
"""

import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.ledger.compaction import listed_files
from kreach.adsystem.ledger.journal import FILE, open_reader
from kreach.adsystem.log.duckdb_engine import EmbeddedEngine
from kreach.adsystem.log.engine import Columns
from kreach.adsystem.store_layout import log_folders
from kreach.boundary.duckdb import new_engine, sql_text, translate_errors
from kreach.boundary.times import Window
from kreach.errors import KreachError

__all__ = ["LiveLog", "LogFailing", "Snapshot", "journal_reader", "micros_of"]

_TABLE = "live"
_COLUMNS = {
    "part": "part",
    "row": "row",
    "campaign_number": "campaign_number",
    "catalogue_number": "catalogue_number",
    "group_number": "group_number",
    "ts": "make_timestamptz(ts)",
    "price_micros": "price_micros",
}
_EMPTY = f"""CREATE OR REPLACE TABLE {_TABLE} (part BIGINT, row BIGINT, campaign_number BIGINT,
    catalogue_number BIGINT, group_number BIGINT, ts TIMESTAMPTZ, price_micros BIGINT)"""
_NEWER = """SELECT row, campaign, catalogue, grp, ts, micros FROM impressions
    WHERE row > ? ORDER BY row"""
_READY = """SELECT count(*) FROM sqlite_master WHERE type = 'table'
    AND name IN ('impressions', 'compacted', 'catalogues', 'pacing')"""
_AT_ONCE = 100_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LogFailing(RuntimeError):
    """The log cannot be read: not the fault of whoever asked."""


def micros_of(moment: datetime) -> int:
    """Millionths of a second since 1970."""
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


@contextmanager
def journal_reader(folder: Path) -> Iterator[sqlite3.Connection | None]:
    """A reader of the journal for one question; None while no bidder has made one."""
    try:
        with closing(open_reader(folder)) as reader:
            yield reader if reader.execute(_READY).fetchone()[0] == 4 else None
    except sqlite3.Error as error:
        raise LogFailing(f"the log cannot be read ({type(error).__name__})") from error


@dataclass(frozen=True)
class Snapshot:
    """Each row of the log once.

    A journal's rows up to its `last_rows` are here, those up to its `compacted_rows` in files.
    """

    engine: EmbeddedEngine
    files: tuple[Path, ...]
    last_rows: tuple[int, ...]
    compacted_rows: tuple[int, ...]
    generation: int  # another store under the same name has another
    numbers: Mapping[str, int]  # by version of a catalogue

    def rows(self, window: Window | None = None) -> str:
        """The name of all rows, or at least of those in a window: files are by day."""
        files = self.files if window is None else _of_days(self.files, window)
        try:
            return str(self.engine.read("log", [*files, f"#{_TABLE}"]).get_name())
        except KreachError as error:
            raise LogFailing(str(error)) from error

    def ask(self, sql: str) -> Columns:
        """Columns of a query."""
        try:
            with translate_errors("log", "be readable to the end"):
                return self.engine.answer(sql)
        except KreachError as error:
            raise LogFailing(str(error)) from error

    def newer(self, rows: tuple[int, ...]) -> str:
        """The rows after one of each journal that is not in a file; as text for a query."""
        later = (f"(part = {part} AND row > {row})" for part, row in enumerate(rows))
        return f"(SELECT * FROM {_TABLE} WHERE {' OR '.join(later)})"


def _of_days(files: tuple[Path, ...], window: Window) -> tuple[Path, ...]:
    first = window.start.date() if window.start else date.min
    last = window.end.date() if window.end else date.max
    chosen = []
    for file in files:
        _, mark, text = file.parent.name.partition("day=")
        if not mark or first <= date.fromisoformat(text) <= last:
            chosen.append(file)
    return tuple(chosen)


@dataclass
class _Part:
    """One bidder's journal, and how much of it is at hand."""

    folder: Path
    held: tuple[int, int]
    reader: sqlite3.Connection
    files: tuple[Path, ...] = ()
    last_row: int = 0
    compacted_row: int = 0


class LiveLog:
    """The log of a store, of one bidder or several, kept at hand. For use by several threads."""

    def __init__(self, store: Path, memory: str) -> None:
        self._store = store
        self._engine = new_engine()
        with translate_errors("memory", "be an amount such as 1500MB"):
            self._engine.execute(f"SET memory_limit = '{sql_text(memory)}'")
        spill = tempfile.mkdtemp(prefix="kreach-")
        self._clean_up = weakref.finalize(self, shutil.rmtree, spill, ignore_errors=True)
        self._engine.execute(f"SET temp_directory = '{sql_text(spill)}'")
        self._engine.execute("SET preserve_insertion_order = false")
        with suppress(KreachError), translate_errors("cache", "be known to this engine"):
            self._engine.execute("SET parquet_metadata_cache = true")  # files never change
        self._lock = threading.Lock()
        self._parts: list[_Part] = []
        self._generation = 0
        self._forget()

    def _forget(self) -> None:
        for part in self._parts:
            part.reader.close()
        self._parts = []
        self._engine.execute(_EMPTY)
        self._generation += 1
        self._numbers: dict[str, int] = {}
        self.live_rows = 0
        self.newest_micros = 0

    def close(self) -> None:
        """Give back what is held."""
        with self._lock:
            self._forget()
            self._engine.close()
            self._clean_up()

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The log as it is now."""
        with self._lock:
            self._refresh()
            connection = self._engine.cursor()
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("BEGIN")
            connection.execute(f"SELECT count(*) FROM {_TABLE}").fetchone()  # sees it from here on
            taken = Snapshot(
                EmbeddedEngine.on(connection),
                tuple(file for part in self._parts for file in part.files),
                tuple(part.last_row for part in self._parts),
                tuple(part.compacted_row for part in self._parts),
                self._generation,
                dict(self._numbers),
            )
        try:
            yield taken
        finally:
            taken.engine.close()

    def _refresh(self) -> None:
        try:
            self._connect()
            for at, part in enumerate(self._parts):
                part.reader.execute("BEGIN")
                try:
                    if part.reader.execute(_READY).fetchone()[0] == 4:
                        self._take_over(at, part)
                finally:
                    part.reader.execute("ROLLBACK")
        except (sqlite3.Error, OSError) as error:
            self._forget()
            raise LogFailing(f"the log cannot be read ({type(error).__name__})") from error

    def _connect(self) -> None:
        """Open the journals that are there now; if they are others than before, begin anew."""
        found = []
        for folder in log_folders(self._store):
            if (folder / FILE).exists():
                facts = (folder / FILE).stat()
                found.append((folder, (facts.st_dev, facts.st_ino)))
        if found != [(part.folder, part.held) for part in self._parts]:
            self._forget()
            for folder, held in found:
                self._parts.append(_Part(folder, held, open_reader(folder)))

    def _take_over(self, at: int, part: _Part) -> None:
        """Add rows that are new, drop those that moved; all of it or nothing."""
        files, compacted = listed_files(part.reader, part.folder)
        numbers = {
            version: number for number, version in part.reader.execute("SELECT * FROM catalogues")
        }
        last, newest, added = max(part.last_row, compacted), self.newest_micros, 0
        self._engine.execute("BEGIN")
        try:
            if compacted > part.compacted_row:
                self._engine.execute(
                    f"""CREATE OR REPLACE TABLE {_TABLE} AS
                    SELECT * FROM {_TABLE} WHERE part <> {at} OR row > {compacted}"""
                )
            rows = part.reader.execute(_NEWER, (last,))
            while block := rows.fetchmany(_AT_ONCE):
                values = np.array(block, dtype=np.int64)
                self._append([np.full(len(values), at), *values.T])
                last, added = int(values[-1, 0]), added + len(block)
                newest = max(newest, int(values[:, 4].max()))
            self._engine.execute("COMMIT")
        except BaseException:
            self._engine.execute("ROLLBACK")
            raise
        part.files = tuple(files)
        self._numbers |= numbers
        part.last_row, part.compacted_row = last, compacted
        self.newest_micros = newest
        if added or compacted:
            counted = self._engine.execute(f"SELECT count(*) FROM {_TABLE}").fetchone()
            self.live_rows = int(counted[0])

    def _append(self, columns: Any) -> None:
        self._engine.register("rows", dict(zip(_COLUMNS, columns, strict=True)))
        told = ", ".join(f"{value} AS {name}" for name, value in _COLUMNS.items())
        self._engine.execute(f"INSERT INTO {_TABLE} BY NAME SELECT {told} FROM rows")
        self._engine.unregister("rows")
