"""Compaction: rows of the journal move into Parquet files by day, which every log engine reads.

Only rows whose tokens have expired move: a repeated notice for one of them is refused as expired,
so files need not be searched for duplicates. A complete file is listed in `compacted` in the same
transaction that deletes its rows from the journal: at every instant each row is in exactly one of
the two.
"""

import json
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.store_layout import sync_path
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.duckdb import scratch_connection, sql_text
from kreach.boundary.times import DAY_SECONDS, MICROS, from_seconds
from kreach.errors import KreachError

__all__ = ["LOG_FOLDER", "NAMES_FOLDER", "compact", "listed_files", "sweep_unlisted"]

LOG_FOLDER = "log"
NAMES_FOLDER = "catalogues"
_MAX_ROWS = 500_000
_DAY_MICROS = DAY_SECONDS * MICROS

COLUMNS = ("row", "impression", "campaign", "catalogue", "grp", "ts", "bid_ts", "expires", "micros")


class GroupNames:
    """Versions and group ids by catalogue number.

    The store keeps those of every catalogue that had a row, so that rows can be written out under
    their names long after the catalogue itself is gone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / NAMES_FOLDER
        self._known: dict[int, tuple[str, np.ndarray[Any, Any]]] = {}

    def keep(self, number: int, catalogue: Catalogue) -> None:
        """Write the names of a catalogue, once."""
        path = self._folder / f"{number}.json"
        if path.exists():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        with draft.open("w", encoding="utf-8") as file:
            json.dump({"version": catalogue.version, "groups": catalogue.groups}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        sync_path(self._folder)

    def know(self, number: int, catalogue: Catalogue) -> None:
        """Cache the names of a catalogue that is loaded."""
        self._known[number] = (catalogue.version, np.array(catalogue.groups, dtype=object))

    def __getitem__(self, number: int) -> tuple[str, np.ndarray[Any, Any]]:
        if number not in self._known:
            facts = json.loads((self._folder / f"{number}.json").read_text(encoding="utf-8"))
            self._known[number] = (facts["version"], np.array(facts["groups"], dtype=object))
        return self._known[number]

    def __contains__(self, number: object) -> bool:
        return number in self._known or (self._folder / f"{number}.json").exists()


Names = GroupNames | Mapping[int, tuple[str, "np.ndarray[Any, Any]"]]


def listed_files(connection: sqlite3.Connection, folder: Path) -> tuple[list[Path], int]:
    """The files that hold rows of this log, and the last row that is in them."""
    rows = connection.execute("SELECT file, last_row FROM compacted ORDER BY file").fetchall()
    return [folder / LOG_FOLDER / row[0] for row in rows], max((row[1] for row in rows), default=0)


def sweep_unlisted(connection: sqlite3.Connection, folder: Path) -> int:
    """Delete files that a run wrote and did not live to list."""
    listed = set(listed_files(connection, folder)[0])
    unlisted = [file for file in (folder / LOG_FOLDER).rglob("*.parquet*") if file not in listed]
    given = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'impressions'")
    last_row = (given.fetchone() or (0,))[0]
    for file in unlisted:
        first_row = file.name.split("-")[1] if file.name.count("-") == 2 else ""
        if first_row.isdigit() and int(first_row) > last_row:  # the journal is another one, or new
            raise KreachError(
                f"store {folder} has {file.name} but not the journal that wrote it: restore both "
                "from one backup"
            )
    for file in unlisted:
        file.unlink()
    return len(unlisted)


def compact(
    journal: Journal,
    folder: Path,
    campaigns: Mapping[int, str],
    groups: Names,
    now: float,
    min_rows: int = 1,
    bidder: str = "",
    max_row: int | None = None,
) -> int:
    """Move expired rows into files; returns how many, 0 if there were too few.

    `campaigns` gives each number its id, `groups` each catalogue's number its version and group
    ids. Rows of a catalogue without known names stay in the journal. A named bidder prefixes its
    impression ids with its name, so that they are unique in the fleet. Rows after `max_row` stay.
    """
    rows = _expired(journal, now, groups, campaigns)
    if max_row is not None:
        rows = [row for row in rows if row[0] <= max_row]
    if len(rows) < max(min_rows, 1):
        return 0
    table = dict(zip(COLUMNS, np.array(rows, dtype=np.int64).T, strict=True))
    written = []
    days = table["ts"] // _DAY_MICROS
    for day in np.unique(days).tolist():
        part = {name: values[days == day] for name, values in table.items()}
        written.append(_write_day(folder / LOG_FOLDER, day, part, campaigns, groups, bidder))
    first, last = int(table["row"][0]), int(table["row"][-1])

    def move(connection: sqlite3.Connection) -> None:
        connection.executemany(
            "INSERT OR REPLACE INTO compacted VALUES (?, ?, ?, ?)",
            [(file, first, last, count) for file, count in written],
        )
        connection.execute("DELETE FROM impressions WHERE row BETWEEN ? AND ?", (first, last))
        # Their tokens must stay expired, also if the clock is set back before the next start.
        connection.execute(
            """INSERT INTO meta VALUES ('moment', ?)
            ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)""",
            (int(now * MICROS),),
        )

    if journal.run_now(move) is not None:
        return 0  # nothing moved as far as we know; unlisted files do not count
    return len(rows)


def _expired(
    journal: Journal, now: float, groups: Names, campaigns: Mapping[int, str]
) -> list[tuple[int, ...]]:
    """The oldest rows, up to the first whose token may still come."""
    columns = ", ".join(COLUMNS)
    sql = f"SELECT {columns} FROM impressions ORDER BY row LIMIT {_MAX_ROWS}"
    rows = []
    for row in journal.read(sql):
        if row[7] >= now or row[3] not in groups or row[2] not in campaigns:
            break
        rows.append(row)
    return rows


def _write_day(
    folder: Path,
    day: int,
    part: dict[str, Any],
    campaigns: Mapping[int, str],
    groups: Names,
    bidder: str,
) -> tuple[str, int]:
    date = from_seconds(day * DAY_SECONDS).date().isoformat()
    name = f"day={date}/part-{part['row'][0]:012d}-{part['row'][-1]:012d}.parquet"
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    ids = np.empty(len(part["grp"]), dtype=object)
    versions = np.empty(len(ids), dtype=object)
    for number in np.unique(part["catalogue"]).tolist():
        here = part["catalogue"] == number
        versions[here] = groups[number][0]
        ids[here] = groups[number][1][part["grp"][here]]
    names = np.array([campaigns[number] for number in part["campaign"].tolist()], dtype=object)
    with scratch_connection() as engine:
        engine.register("part", part | {"id": ids, "version": versions, "name": names})
        draft = folder / f"{name}.draft"
        engine.execute(
            f"""COPY (SELECT printf('{bidder and bidder + "-"}%x', impression) AS impression_id,
                name AS campaign,
                id AS "group", make_timestamptz(ts) AS ts, micros / 1e6 AS price,
                version AS catalogue, micros AS price_micros, make_timestamptz(bid_ts) AS bid_ts,
                campaign AS campaign_number, catalogue AS catalogue_number, grp AS group_number, row
                FROM part ORDER BY ts) TO '{sql_text(draft)}' (FORMAT parquet)"""
        )
    sync_path(draft)
    draft.rename(folder / name)
    sync_path((folder / name).parent)
    sync_path(folder)
    return name, len(ids)
