"""Rows of a bidder's own log, in order: from the journal, or the files they were moved to."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.campaigns.family import Family, counts_by_time, longest_span
from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.ledger.compaction import listed_files
from kreach.adsystem.ledger.journal import open_reader
from kreach.adsystem.sharing.redis_pool import LogRows, SharedPlace
from kreach.boundary.duckdb import scratch_connection, sql_text
from kreach.numeric.types import IntArray

__all__ = ["last_row", "own_counts", "rolling_since", "rows_after"]

_MAX_ROWS = 5_000


def rolling_since(
    campaigns: Iterable[tuple[StoredCampaign, Family | None]], now: float
) -> dict[int, int]:
    """Campaigns with rolling caps, their own or of their family, and since when their
    impressions matter, in µs."""
    return {
        stored.number: int((now - longest_span(stored.campaign, family, now)) * 1e6)
        for stored, family in campaigns
        if counts_by_time(stored.campaign, family)
    }


def last_row(folder: Path) -> int:
    """The newest row of a log."""
    reader = open_reader(folder)
    try:
        live = reader.execute("SELECT max(row) FROM impressions").fetchone()[0] or 0
        return max(int(live), listed_files(reader, folder)[1])
    finally:
        reader.close()


def rows_after(folder: Path, row: int, limit: int = _MAX_ROWS) -> LogRows:
    """The next rows after one; none if there are none."""
    reader = open_reader(folder)
    try:
        reader.execute("BEGIN")
        files, compacted = listed_files(reader, folder)
        versions: dict[int, str] = dict(reader.execute("SELECT number, version FROM catalogues"))
        if row < compacted:
            names = _files_after(reader, row)
            rows = _from_files([file for file in files if file.name in names], row, limit)
        else:
            rows = reader.execute(
                """SELECT row, campaign, catalogue, grp, bid_ts FROM impressions WHERE row > ?
                ORDER BY row LIMIT ?""",
                (row, limit),
            ).fetchall()
    finally:
        reader.close()
    table = np.array(rows, dtype=np.int64).reshape(-1, 5)
    catalogues = np.array([versions[number] for number in table[:, 2].tolist()], dtype=object)
    return LogRows(table[:, 0], table[:, 1], catalogues, table[:, 3], table[:, 4])


def _files_after(reader: sqlite3.Connection, row: int) -> set[str]:
    names = reader.execute("SELECT file FROM compacted WHERE last_row > ?", (row,))
    return {str(name).rpartition("/")[2] for (name,) in names}


def _from_files(files: list[Path], row: int, limit: int) -> list[Any]:
    with scratch_connection() as engine:
        listed = ", ".join(f"'{sql_text(file)}'" for file in files)
        rows: list[Any] = engine.execute(
            f"""SELECT row, campaign_number, catalogue_number, group_number, epoch_us(bid_ts)
            FROM read_parquet([{listed}]) WHERE row > {row} ORDER BY row LIMIT {limit}"""
        ).fetchall()
        return rows


def own_counts(
    folder: Path, places: set[SharedPlace], up_to: int
) -> dict[SharedPlace, tuple[IntArray, ...]]:
    """Impressions by group of the own rows up to a row: groups, and how many."""
    reader = open_reader(folder)
    try:
        reader.execute("BEGIN")
        files, _ = listed_files(reader, folder)
        versions: dict[int, str] = dict(reader.execute("SELECT number, version FROM catalogues"))
        rows = reader.execute(
            """SELECT campaign, catalogue, grp, count(*) FROM impressions WHERE row <= ?
            GROUP BY 1, 2, 3""",
            (up_to,),
        ).fetchall()
    finally:
        reader.close()
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    if files:
        with scratch_connection() as engine:
            listed = ", ".join(f"'{sql_text(file)}'" for file in files)
            columns = engine.execute(
                f"""SELECT campaign_number AS c, catalogue_number AS v, group_number AS g,
                count(*) AS n FROM read_parquet([{listed}]) WHERE row <= {up_to} GROUP BY ALL"""
            ).fetchnumpy()
        moved = np.stack([columns[name].astype(np.int64) for name in "cvgn"], axis=1)
        table = np.concatenate([table, moved])
    result: dict[SharedPlace, tuple[IntArray, ...]] = {}
    for campaign, version in places:
        number = next((n for n, known in versions.items() if known == version), -1)
        here = (table[:, 0] == campaign) & (table[:, 1] == number)
        result[campaign, version] = (table[here, 2], table[here, 3])
    return result
