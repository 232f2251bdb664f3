"""Snapshots of the live log: the files that journals list, and the rows not yet in files.

Bidders' journals are only read. New rows are copied into an engine of our own, so that a report
reads only rows since the last one; rows that moved into files are dropped. A snapshot reads each
journal in one transaction and copies it in one transaction of the engine: each row is in it once,
whatever the bidders do meanwhile.
"""

import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np

from kreach.adsystem.ledger.compaction import listed_files
from kreach.adsystem.ledger.journal import FILE, open_reader
from kreach.adsystem.log.duckdb_engine import EmbeddedEngine
from kreach.adsystem.log.engine import Columns
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.tables import LogTable
from kreach.adsystem.store_layout import log_folders
from kreach.boundary.duckdb import new_engine, sql_text, translate_errors
from kreach.boundary.times import Window
from kreach.errors import KreachError
from kreach.service.tracing import traced

__all__ = [
    "NEWER_ROWS",
    "LiveLog",
    "LogIncomplete",
    "LogUnavailable",
    "Snapshot",
    "journal_reader",
]

_TABLE = "live"
_MARKS = "kreach_marks"
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
_ROWS_PER_BATCH = 100_000
_NO_NUMBER = -1  # of a catalogue that is not in the log


class LogUnavailable(RuntimeError):
    """The log cannot be read; the caller is not at fault."""


class LogIncomplete(LogUnavailable):
    """The logs of some bidders on other machines have not arrived yet."""


@contextmanager
def journal_reader(folder: Path) -> Iterator[sqlite3.Connection | None]:
    """A reader of a journal; None while the bidder has not created it."""
    try:
        with closing(open_reader(folder)) as reader:
            yield reader if reader.execute(_READY).fetchone()[0] == 4 else None
    except sqlite3.Error as error:
        raise LogUnavailable(f"the log cannot be read ({type(error).__name__})") from error


@dataclass(frozen=True)
class Snapshot:
    """Each row of the log once, with campaigns, catalogues and groups by number.

    A journal's rows up to its `last_rows` are here, those up to its `compacted_rows` in files.
    """

    engine: EmbeddedEngine
    files: tuple[Path, ...]
    last_rows: tuple[int, ...]
    compacted_rows: tuple[int, ...]
    generation: int  # changes when another store appears under the same name
    catalogue_numbers: Mapping[str, int]  # by version

    def place(self, campaign: int, version: str) -> Place:
        """A campaign on a catalogue; a catalogue that is not in the log has no rows."""
        return Place(campaign, self.catalogue_numbers.get(version, _NO_NUMBER))

    def table(self, window: Window | None = None) -> LogTable:
        """All rows, or at least those in a window: files are by day."""
        files = self.files if window is None else _of_days(self.files, window)
        with _unavailable():
            return _numbered(self.engine.read("log", [*files, f"#{_TABLE}"]))

    def newer(self, rows: tuple[int, ...], query: ir.Table) -> Columns:
        """Run a query on `NEWER_ROWS`: those after a given one of each journal.

        None of them may be in a file. The given rows are a table and not constants of the query,
        so that it is built and compiled once for all snapshots.
        """
        with _unavailable():
            self.engine.values({"journal": range(len(rows)), "mark": rows}, {}, name=_MARKS)
        return self.columns(query)

    def values(
        self, numbers: Mapping[str, Sequence[int]], instants: Mapping[str, Sequence[int]]
    ) -> ir.Table:
        """A table of whole numbers and of instants (in micros), to be joined to the log."""
        with _unavailable():
            return self.engine.values(numbers, instants)

    @contextmanager
    def temporary(self, query: ir.Table) -> Iterator[ir.Table]:
        """The result of a query as a table, until the block ends."""
        with _unavailable():
            table = self.engine.materialize(query)
        yield table
        with _unavailable():
            self.engine.drop_temp_table(table.get_name())

    def columns(self, query: ir.Table) -> Columns:
        """Run a query on a table of this snapshot."""
        with _unavailable():
            return self.engine.columns(query)


def _newer_rows() -> LogTable:
    numbers = ("part", "row", "campaign_number", "catalogue_number", "group_number")
    schema = dict.fromkeys((*numbers, "price_micros"), "int64") | {"ts": "timestamp('UTC')"}
    live = ibis.table(schema, name=_TABLE)
    marks = ibis.table({"journal": "int64", "mark": "int64"}, name=_MARKS)
    later = [live["part"] == marks["journal"], live["row"] > marks["mark"]]
    return _numbered(live.inner_join(marks, later))


def _numbered(rows: ir.Table) -> LogTable:
    return LogTable(
        rows.select(
            "ts",
            "price_micros",
            campaign="campaign_number",
            catalogue="catalogue_number",
            group="group_number",
        ),
        unique_ids=True,
    )


NEWER_ROWS = _newer_rows()
"""The rows that `Snapshot.newer` looks at."""


@contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except KreachError as error:
        raise LogUnavailable(str(error)) from error


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
class _Journal:
    """One bidder's journal, and how far it was read."""

    folder: Path
    inode: tuple[int, int]
    reader: sqlite3.Connection
    files: tuple[Path, ...] = ()
    last_row: int = 0
    compacted_row: int = 0


class LiveLog:
    """The log of a store, of one bidder or several. For use by several threads."""

    def __init__(
        self, store: Path, memory: str, missing: Callable[[], Sequence[str]] = tuple
    ) -> None:
        """`missing` names bidders whose logs are not here: without them nothing is shown."""
        self._store, self._missing = store, missing
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
        self._journals: list[_Journal] = []
        self._generation = 0
        self._reset()

    def _reset(self) -> None:
        for journal in self._journals:
            journal.reader.close()
        self._journals = []
        self._engine.execute(_EMPTY)
        self._generation += 1
        self._catalogue_numbers: dict[str, int] = {}
        self.live_rows = 0
        self.newest_micros = 0

    def close(self) -> None:
        """Close journals and engine."""
        with self._lock:
            self._reset()
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
            snapshot = Snapshot(
                EmbeddedEngine.on(connection),
                tuple(file for journal in self._journals for file in journal.files),
                tuple(journal.last_row for journal in self._journals),
                tuple(journal.compacted_row for journal in self._journals),
                self._generation,
                dict(self._catalogue_numbers),
            )
        try:
            yield snapshot
        finally:
            snapshot.engine.close()

    @traced("read new rows")
    def _refresh(self) -> None:
        missing = self._missing()
        if missing:
            raise LogIncomplete(f"the log of {', '.join(missing)} has not arrived yet")
        try:
            self._connect()
            for at, journal in enumerate(self._journals):
                journal.reader.execute("BEGIN")
                try:
                    if journal.reader.execute(_READY).fetchone()[0] == 4:
                        self._read_new(at, journal)
                finally:
                    journal.reader.execute("ROLLBACK")
        except (sqlite3.Error, OSError) as error:
            self._reset()
            raise LogUnavailable(f"the log cannot be read ({type(error).__name__})") from error

    def _connect(self) -> None:
        """Open the journals of the store; if they have been replaced, start over."""
        journals = []
        for folder in log_folders(self._store):
            if (folder / FILE).exists():
                facts = (folder / FILE).stat()
                journals.append((folder, (facts.st_dev, facts.st_ino)))
        if journals != [(journal.folder, journal.inode) for journal in self._journals]:
            self._reset()
            for folder, inode in journals:
                self._journals.append(_Journal(folder, inode, open_reader(folder)))

    def _read_new(self, at: int, journal: _Journal) -> None:
        """Add new rows and drop those that moved, in one transaction."""
        files, compacted = listed_files(journal.reader, journal.folder)
        numbers = {
            version: number
            for number, version in journal.reader.execute("SELECT * FROM catalogues")
        }
        last, newest, added = max(journal.last_row, compacted), self.newest_micros, 0
        self._engine.execute("BEGIN")
        try:
            if compacted > journal.compacted_row:
                self._engine.execute(
                    f"""CREATE OR REPLACE TABLE {_TABLE} AS
                    SELECT * FROM {_TABLE} WHERE part <> {at} OR row > {compacted}"""
                )
            rows = journal.reader.execute(_NEWER, (last,))
            while block := rows.fetchmany(_ROWS_PER_BATCH):
                values = np.array(block, dtype=np.int64)
                self._append([np.full(len(values), at), *values.T])
                last, added = int(values[-1, 0]), added + len(block)
                newest = max(newest, int(values[:, 4].max()))
            self._engine.execute("COMMIT")
        except BaseException:
            self._engine.execute("ROLLBACK")
            raise
        journal.files = tuple(files)
        self._catalogue_numbers |= numbers
        journal.last_row, journal.compacted_row = last, compacted
        self.newest_micros = newest
        if added or compacted:
            counted = self._engine.execute(f"SELECT count(*) FROM {_TABLE}").fetchone()
            self.live_rows = int(counted[0])

    def _append(self, columns: Any) -> None:
        self._engine.register("rows", dict(zip(_COLUMNS, columns, strict=True)))
        selected = ", ".join(f"{value} AS {name}" for name, value in _COLUMNS.items())
        self._engine.execute(f"INSERT INTO {_TABLE} BY NAME SELECT {selected} FROM rows")
        self._engine.unregister("rows")
