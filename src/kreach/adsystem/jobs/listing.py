"""Lists the log files of all bidders of a store, and up to when they are complete.

A bidder's journal lists its files and holds the rows that are not in files yet. Rows get their
times in the order in which they are written, so a log is complete up to its oldest live row. A
journal without live rows is complete up to its bidder's last heartbeat (`moment`), which queues
behind all rows before it. A bidder that has written nothing for a while is down, and its next row
will have a time after its restart. The mirror of a bidder on another machine is complete up to the
last heartbeat that arrived: its bidder may run while nothing arrives.
"""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from glob import escape
from hashlib import sha256
from pathlib import Path

from kreach.adsystem.ledger.compaction import LOG_FOLDER
from kreach.adsystem.ledger.journal import FILE, is_copy, open_reader
from kreach.adsystem.store_layout import BIDDERS_FOLDER, log_folders
from kreach.boundary.duckdb import scratch_connection, sql_text, translate_errors
from kreach.boundary.times import HOUR_SECONDS, MICROS, from_micros, from_seconds, to_micros
from kreach.errors import KreachError

__all__ = [
    "BidderLog",
    "ListedFile",
    "LogView",
    "digest",
    "first_times",
    "view_log",
]

_SILENT = timedelta(minutes=10)  # a bidder that runs writes its heartbeat every few seconds
_NAME = re.compile(r"day=(\d{4}-\d\d-\d\d)/[^/]+\.parquet")
_READY = """SELECT count(*) FROM sqlite_master WHERE type = 'table'
    AND name IN ('impressions', 'compacted', 'meta')"""
_HOUR_MICROS = HOUR_SECONDS * MICROS


@dataclass(frozen=True)
class ListedFile:
    """A file that holds rows of one day; `name` as its journal lists it."""

    bidder: str
    name: str
    path: Path
    day: date
    rows: int

    @property
    def line(self) -> str:
        """Identifies this file in the store."""
        return f"{self.bidder}\t{self.name}\t{self.rows}\n"


@dataclass(frozen=True)
class BidderLog:
    """One bidder's files at one instant; `name` is empty for the only bidder of a store.

    `waiting` has, for each hour with live rows (micros of its start), when the last of their
    tokens expires (in seconds): until then no file can have them.
    """

    name: str
    files: tuple[ListedFile, ...]
    complete_until: datetime
    waiting: tuple[tuple[int, int], ...]

    def expires(self, end: datetime) -> datetime | None:
        """When all live rows before `end` will have expired; None if there are none."""
        limit = to_micros(end)
        seconds = [expires for hour, expires in self.waiting if hour < limit]
        return from_seconds(max(seconds)) if seconds else None


@dataclass(frozen=True)
class LogView:
    """The files of all bidders, each read at one instant."""

    bidders: tuple[BidderLog, ...]

    @property
    def complete_until(self) -> datetime:
        """Up to here every impression of every bidder is in a file."""
        return min(bidder.complete_until for bidder in self.bidders)

    def slowest(self) -> BidderLog:
        """The bidder that the others wait for."""
        return min(self.bidders, key=lambda bidder: bidder.complete_until)

    def of_day(self, day: date) -> list[ListedFile]:
        """The files of one day, in a fixed order."""
        return [file for file in self.before(day + timedelta(days=1)) if file.day == day]

    def before(self, day: date) -> list[ListedFile]:
        """The files of all days before one, in a fixed order."""
        files = (file for bidder in self.bidders for file in bidder.files if file.day < day)
        return sorted(files, key=lambda file: (file.day, file.bidder, file.name))


def digest(files: Iterable[ListedFile]) -> str:
    """A digest of a set of files: files never change, so the same digest means the same rows."""
    lines = sorted(file.line for file in files)
    return sha256("".join(lines).encode()).hexdigest()


def view_log(store: Path, now: datetime, bidders: Sequence[str] = ()) -> LogView:
    """Read every journal of a store; those of the given bidders must be there.

    `now` must not be later than the reading.
    """
    folders = {"" if folder == store else folder.name: folder for folder in log_folders(store)}
    folders = {name: folder for name, folder in folders.items() if (folder / FILE).exists()}
    missing = [name for name in bidders if name not in folders]
    if missing or not folders:
        rule = f"hold the logs of its bidders ({BIDDERS_FOLDER}/NAME/{FILE})"
        problem = f"none of {', '.join(missing)}" if missing else f"none in {store}"
        raise KreachError.rule("store", rule, problem)
    return LogView(tuple(_read(name, folder, now) for name, folder in folders.items()))


def _read(name: str, folder: Path, now: datetime) -> BidderLog:
    silent = now - _SILENT
    try:
        with closing(open_reader(folder)) as reader:
            reader.execute("BEGIN")  # files and live rows of one instant
            if reader.execute(_READY).fetchone()[0] < 3:  # a bidder that is just starting
                return BidderLog(name, (), silent, ())
            listed = reader.execute("SELECT file, rows FROM compacted ORDER BY file").fetchall()
            oldest = reader.execute("SELECT min(ts) FROM impressions").fetchone()[0]
            mirrored = is_copy(reader)
            moment = reader.execute("SELECT value FROM meta WHERE name = 'moment'").fetchone()
            waiting = reader.execute(
                f"""SELECT ts / {_HOUR_MICROS} * {_HOUR_MICROS}, max(expires) FROM impressions
                GROUP BY 1 ORDER BY 1"""
            ).fetchall()
    except sqlite3.Error as error:
        problem = f"{folder / FILE} ({error})"
        raise KreachError.rule("store", "hold a log that can be read", problem) from None
    files = tuple(_listed(name, folder, *row) for row in listed)
    if oldest is not None:
        complete = from_micros(oldest)
    elif mirrored:
        complete = from_micros(moment[0] if moment else 0)
    else:
        complete = max(from_micros(moment[0]) if moment else silent, silent)
    return BidderLog(name, files, complete, tuple(waiting))


def _listed(bidder: str, folder: Path, name: str, rows: int) -> ListedFile:
    match = _NAME.fullmatch(name)
    try:
        day = date.fromisoformat(match[1]) if match else None
    except ValueError:
        day = None
    if day is None:
        raise KreachError.rule("store", "list files by day", f"{name} in {folder / FILE}")
    return ListedFile(bidder, name, folder / LOG_FOLDER / name, day, rows)


def first_times(files: Iterable[ListedFile]) -> dict[ListedFile, datetime]:
    """The first time in each file, from its Parquet metadata; refuses a file that lost rows."""
    named = {str(file.path): file for file in files}
    for file in named.values():
        if not file.path.is_file():
            raise KreachError.rule("store", "hold the files that it lists", f"no {file.path}")
    if not named:
        return {}
    with scratch_connection() as engine:
        listed = ", ".join(f"'{sql_text(escape(path))}'" for path in named)
        with translate_errors("store", "hold files that can be read"):
            metadata = engine.execute(
                f"""SELECT file_name, sum(row_group_num_rows)::BIGINT,
                epoch_us(min(CAST(stats_min_value AS TIMESTAMPTZ)))
                FROM parquet_metadata([{listed}]) WHERE path_in_schema = 'ts' GROUP BY ALL"""
            ).fetchall()
    facts = {path: (rows, first) for path, rows, first in metadata}
    times: dict[ListedFile, datetime] = {}
    for path, file in named.items():
        rows, first = facts.get(path, (0, None))
        if rows != file.rows:
            rule = f"hold the rows that it lists ({file.rows} in {file.name})"
            raise KreachError.rule("store", rule, rows)
        midnight = datetime.combine(file.day, time.min, UTC)
        times[file] = midnight if first is None else from_micros(first)
    return times
