"""The store of closed chapters. A chapter never changes once it was shown.

A restart, other settings, a second process or a late row must not move a chapter's edge or change
its content: the difference to what was shown before would disclose few people. So a chapter is
stored before it is shown, and only a writer that has read all chapters before it may add one.
"""

import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from kreach.adsystem.disclosure.chapters.chapter import Chapter, ChapterCounts, ChapterList
from kreach.adsystem.disclosure.chapters.times import packed_times, unpacked_times
from kreach.adsystem.log.place import Place
from kreach.numeric.types import IntArray
from kreach.service.sqlite import Schema, open_read_only, open_store, store_errors, transaction

__all__ = [
    "FILE",
    "SCHEMA",
    "ChapterStore",
    "Flight",
    "SetStates",
    "fence_chapters",
    "stored_audiences",
]

FILE = "chapters.sqlite3"
_TABLES = """
CREATE TABLE IF NOT EXISTS chapters (
    campaign INTEGER NOT NULL, catalogue TEXT NOT NULL, number INTEGER NOT NULL,
    start INTEGER NOT NULL, end INTEGER NOT NULL, impressions INTEGER NOT NULL,
    rows INTEGER NOT NULL, spend INTEGER NOT NULL, final INTEGER NOT NULL, content BLOB NOT NULL,
    times BLOB,
    PRIMARY KEY (campaign, catalogue, number)
);
CREATE TABLE IF NOT EXISTS flights (
    campaign INTEGER PRIMARY KEY, end INTEGER NOT NULL, moved INTEGER, ended INTEGER
);
CREATE TABLE IF NOT EXISTS audiences (
    catalogue TEXT NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL, counts BLOB NOT NULL,
    PRIMARY KEY (catalogue, number), UNIQUE (catalogue, name)
);
CREATE TABLE IF NOT EXISTS sets (
    catalogue TEXT NOT NULL, campaigns TEXT NOT NULL, chapters TEXT NOT NULL,
    PRIMARY KEY (catalogue, campaigns)
);
CREATE TABLE IF NOT EXISTS restores (at INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS resumptions (
    campaign INTEGER NOT NULL, catalogue TEXT NOT NULL, chapters INTEGER NOT NULL,
    at INTEGER NOT NULL, PRIMARY KEY (campaign, catalogue, chapters)
);
"""


def _add_times(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE chapters ADD COLUMN times BLOB")


def _add_sets(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE IF NOT EXISTS sets (
            catalogue TEXT NOT NULL, campaigns TEXT NOT NULL, chapters TEXT NOT NULL,
            PRIMARY KEY (catalogue, campaigns)
        )"""
    )


def _add_restores(connection: sqlite3.Connection) -> None:
    """From version 3: the table of restores, which is there by now."""


def _add_resumptions(connection: sqlite3.Connection) -> None:
    """From version 4: the table of resumptions, which is there by now."""


SCHEMA = Schema(5, _TABLES, {1: _add_times, 2: _add_sets, 3: _add_restores, 4: _add_resumptions})
_AT_ONCE = 16  # chapters that are read together
_FIELDS = "start, end, impressions, rows, spend, final"
_HERE = "campaign = ? AND catalogue = ?"
_RULE = "be a folder that can be written"


SetStates = dict[tuple[int, ...], tuple[int, ...]]
"""Chapters shown of each campaign of a set, by the campaigns' numbers, ascending."""


class Flight(NamedTuple):
    """The end of a campaign's flight as it was last seen, when it was seen to have been moved
    into the past, and when the campaign was first seen ended."""

    end_micros: int
    moved_micros: int | None
    ended_micros: int | None


_AUDIENCES = "SELECT name, counts FROM audiences WHERE catalogue = ? ORDER BY number"


def stored_audiences(folder: Path, catalogue: str) -> dict[str, bytes]:
    """As `ChapterStore.audiences`, without writing to the store."""
    file = folder / FILE
    if not file.exists():
        return {}
    still = not file.with_name(f"{FILE}-wal").exists()  # no process has it open
    with (
        store_errors(_RULE, folder),
        closing(open_read_only(file, SCHEMA, immutable=still, older=True)) as connection,
    ):
        known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'audiences'")
        rows = connection.execute(_AUDIENCES, (catalogue,)) if known.fetchone() else ()
        return {str(name): bytes(counts) for name, counts in rows}


def fence_chapters(path: Path, now_us: int) -> None:
    """Record that the chapters were restored: newer ones may have been shown before."""
    with closing(open_store(path, SCHEMA)) as connection, transaction(connection):
        connection.execute("INSERT OR IGNORE INTO restores VALUES (?)", (now_us,))


class ChapterStore:
    """Chapters, flights and usable audiences. For use by several threads and processes."""

    def __init__(self, folder: Path) -> None:
        with store_errors(_RULE, folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = open_store(folder / FILE, SCHEMA)
            newest = self._connection.execute("SELECT max(at) FROM restores").fetchone()[0]
        self.restored_micros: int | None = newest
        """When the store was last restored from a backup: later chapters may have been shown."""
        self._lock = Lock()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def chapters(self, place: Place) -> ChapterList:
        """All closed chapters of a place."""
        sql = f"SELECT {_FIELDS} FROM chapters WHERE {_HERE} ORDER BY number"
        return ChapterList.of(Chapter.of(row) for row in self._read(sql, place))

    def contents(self, place: Place, chosen: range) -> Iterator[ChapterCounts]:
        """The contents of some chapters, one by one."""
        sql = f"""SELECT content, times, rows, spend FROM chapters WHERE {_HERE}
            AND number >= ? AND number < ? ORDER BY number"""
        for first in chosen[::_AT_ONCE]:
            stop = min(first + _AT_ONCE, chosen.stop)
            for packed, times, rows, spend in self._read(sql, (*place, first, stop)):
                groups, counts = _unpacked(packed)
                yield ChapterCounts(groups, counts, rows, spend, unpacked_times(times))

    def add(
        self,
        place: Place,
        known: ChapterList,
        chapters: Sequence[tuple[Chapter, ChapterCounts]],
        first: int,
    ) -> bool:
        """Store chapters, from number `first` on; False if another process wrote first.

        `known` are the chapters before them. Besides new ones only the withheld chapter may be
        replaced (`first` is its number): nobody has seen it.
        """
        with self._changing() as connection:
            sql = f"SELECT {_FIELDS} FROM chapters WHERE {_HERE} ORDER BY number"
            stored = connection.execute(sql, place).fetchall()
            if stored != [tuple(row) for row in known.table.tolist()] or first < known.shown_count:
                return False
            for number, (chapter, content) in enumerate(chapters, first):
                connection.execute(
                    "INSERT OR REPLACE INTO chapters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*place, number, *chapter, _packed(content), packed_times(content)),
                )
        return True

    def places(self) -> list[Place]:
        """The places that have chapters."""
        rows = self._read("SELECT DISTINCT campaign, catalogue FROM chapters", ())
        return [Place(campaign, catalogue) for campaign, catalogue in rows]

    def resumptions(self) -> dict[Place, int]:
        """Places whose log lost rows, and how many chapters had been closed when that was accepted.

        Rows from before the end of these chapters are in no later one, whatever becomes of the log.
        """
        sql = "SELECT campaign, catalogue, max(chapters) FROM resumptions GROUP BY 1, 2"
        return {Place(one, version): count for one, version, count in self._read(sql, ())}

    def resume(self, place: Place, now_us: int) -> int:
        """Accept that the log lacks rows of a place's chapters; how many chapters there are."""
        with self._changing() as connection:
            sql = f"SELECT count(*) FROM chapters WHERE {_HERE}"
            count = int(connection.execute(sql, place).fetchone()[0])
            connection.execute(
                "INSERT OR IGNORE INTO resumptions VALUES (?, ?, ?, ?)", (*place, count, now_us)
            )
        return count

    def flight(self, campaign: int) -> Flight | None:
        """The recorded end of a campaign."""
        rows = self._read("SELECT end, moved, ended FROM flights WHERE campaign = ?", (campaign,))
        return Flight(*rows[0]) if rows else None

    def store_flight(self, campaign: int, flight: Flight) -> None:
        """Record the end of a campaign."""
        with self._changing() as connection:
            values = (campaign, *flight)
            connection.execute("INSERT OR REPLACE INTO flights VALUES (?, ?, ?, ?)", values)

    def audiences(self, catalogue: str) -> dict[str, bytes]:
        """Audiences that advertisers could use, in order, with their packed head-counts."""
        return {str(name): bytes(counts) for name, counts in self._read(_AUDIENCES, (catalogue,))}

    def store_audiences(self, catalogue: str, known: int, new: Mapping[str, bytes]) -> bool:
        """Store new audiences after `known` ones; False if another process wrote first."""
        with self._changing() as connection:
            sql = "SELECT count(*) FROM audiences WHERE catalogue = ?"
            if connection.execute(sql, (catalogue,)).fetchone() != (known,):
                return False
            connection.executemany(
                "INSERT INTO audiences VALUES (?, ?, ?, ?)",
                [(catalogue, number, *one) for number, one in enumerate(new.items(), known)],
            )
        return True

    def sets(self, catalogue: str) -> SetStates:
        """The state of each set of campaigns that was released."""
        rows = self._read("SELECT campaigns, chapters FROM sets WHERE catalogue = ?", (catalogue,))
        return {_numbers(campaigns): _numbers(chapters) for campaigns, chapters in rows}

    def store_sets(self, catalogue: str, known: SetStates, new: SetStates) -> bool:
        """Store new states of sets; False if another process released some since `known`."""
        with self._changing() as connection:
            sql = "SELECT campaigns, chapters FROM sets WHERE catalogue = ?"
            rows = connection.execute(sql, (catalogue,))
            if {_numbers(one): _numbers(chapters) for one, chapters in rows} != known:
                return False
            connection.executemany(
                "INSERT OR REPLACE INTO sets VALUES (?, ?, ?)",
                [(catalogue, _text(one), _text(chapters)) for one, chapters in new.items()],
            )
        return True

    def _read(self, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, transaction(self._connection) as connection:
            yield connection


def _text(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def _packed(content: ChapterCounts) -> bytes:
    steps = np.diff(content.groups, prepend=0)
    return zlib.compress(np.concatenate([steps, content.counts]).astype("<u4").tobytes(), 1)


def _unpacked(packed: bytes) -> tuple[IntArray, IntArray]:
    both = np.frombuffer(zlib.decompress(packed), dtype="<u4").astype(np.int64)
    steps, counts = np.split(both, 2)
    return np.cumsum(steps), counts
