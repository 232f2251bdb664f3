"""A bidder's own rows, in their order: from the live log, or from the files they moved into."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.ledger.compaction import listed_files
from kreach.adsystem.ledger.journal import open_reader
from kreach.adsystem.sharing.redis_pool import Place, Rows
from kreach.boundary.duckdb import scratch_connection, sql_text
from kreach.numeric.types import IntArray

__all__ = ["last_row", "own_counts", "rolling_since", "rows_after"]

_MOST = 5_000


def rolling_since(campaigns: Iterable[StoredCampaign], now: float) -> dict[int, int]:
    """Campaigns with rolling caps, and since when their impressions matter, in µs."""
    return {
        kept.number: int((now - max(cap.span_seconds or now for cap in kept.campaign.caps)) * 1e6)
        for kept in campaigns
        if kept.campaign.cap is None
    }


def last_row(folder: Path) -> int:
    """The newest row of a log."""
    reader = open_reader(folder)
    try:
        live = reader.execute("SELECT max(row) FROM impressions").fetchone()[0] or 0
        return max(int(live), listed_files(reader, folder)[1])
    finally:
        reader.close()


def rows_after(folder: Path, row: int, most: int = _MOST) -> Rows:
    """The next rows after one; none if there are none."""
    reader = open_reader(folder)
    try:
        reader.execute("BEGIN")
        files, compacted = listed_files(reader, folder)
        versions: dict[int, str] = dict(reader.execute("SELECT number, version FROM catalogues"))
        if row < compacted:
            names = _later(reader, row)
            found = _from_files([file for file in files if file.name in names], row, most)
        else:
            found = reader.execute(
                """SELECT row, campaign, catalogue, grp, bid_ts FROM impressions WHERE row > ?
                ORDER BY row LIMIT ?""",
                (row, most),
            ).fetchall()
    finally:
        reader.close()
    table = np.array(found, dtype=np.int64).reshape(-1, 5)
    named = np.array([versions[number] for number in table[:, 2].tolist()], dtype=object)
    return Rows(table[:, 0], table[:, 1], named, table[:, 3], table[:, 4])


def _later(reader: sqlite3.Connection, row: int) -> set[str]:
    found = reader.execute("SELECT file FROM compacted WHERE last_row > ?", (row,))
    return {str(name).rpartition("/")[2] for (name,) in found}


def _from_files(files: list[Path], row: int, most: int) -> list[Any]:
    with scratch_connection() as engine:
        listed = ", ".join(f"'{sql_text(file)}'" for file in files)
        found: list[Any] = engine.execute(
            f"""SELECT row, campaign_number, catalogue_number, group_number, epoch_us(bid_ts)
            FROM read_parquet([{listed}]) WHERE row > {row} ORDER BY row LIMIT {most}"""
        ).fetchall()
        return found


def own_counts(folder: Path, places: set[Place], up_to: int) -> dict[Place, tuple[IntArray, ...]]:
    """Impressions by group of one's own rows up to one of them: groups, and how many."""
    reader = open_reader(folder)
    try:
        reader.execute("BEGIN")
        files, _ = listed_files(reader, folder)
        versions: dict[int, str] = dict(reader.execute("SELECT number, version FROM catalogues"))
        found = reader.execute(
            """SELECT campaign, catalogue, grp, count(*) FROM impressions WHERE row <= ?
            GROUP BY 1, 2, 3""",
            (up_to,),
        ).fetchall()
    finally:
        reader.close()
    table = np.array(found, dtype=np.int64).reshape(-1, 4)
    if files:
        with scratch_connection() as engine:
            listed = ", ".join(f"'{sql_text(file)}'" for file in files)
            columns = engine.execute(
                f"""SELECT campaign_number AS c, catalogue_number AS v, group_number AS g,
                count(*) AS n FROM read_parquet([{listed}]) WHERE row <= {up_to} GROUP BY ALL"""
            ).fetchnumpy()
        moved = np.stack([columns[name].astype(np.int64) for name in "cvgn"], axis=1)
        table = np.concatenate([table, moved])
    result: dict[Place, tuple[IntArray, ...]] = {}
    for campaign, version in places:
        number = next((n for n, known in versions.items() if known == version), -1)
        here = (table[:, 0] == campaign) & (table[:, 1] == number)
        result[campaign, version] = (table[here, 2], table[here, 3])
    return result
