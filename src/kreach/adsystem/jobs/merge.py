"""Merges a day of all bidders into a few large files, sorted by campaign and time.

The output is counted again and checked against the sources before it is published: impressions and
money must agree exactly, by bidder, campaign and catalogue.
"""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import ibis
import ibis.expr.types as ir

from kreach.adsystem.jobs.engines import JobEngine
from kreach.adsystem.jobs.listing import ListedFile, first_times
from kreach.adsystem.jobs.reach import Period, refuse_duplicates
from kreach.adsystem.log.engine import Engine
from kreach.boundary.duckdb import scratch_connection, sql_text
from kreach.errors import KreachError

__all__ = ["LOG_COLUMNS", "merge_day"]

LOG_COLUMNS = {
    "impression_id": "VARCHAR",
    "campaign": "VARCHAR",
    "catalogue": "VARCHAR",
    "group": "VARCHAR",
    "ts": "TIMESTAMPTZ",
    "bid_ts": "TIMESTAMPTZ",
    "price": "DOUBLE",
    "price_micros": "BIGINT",
    "bidder": "VARCHAR",
}
_ORDER = ("campaign", "ts", "impression_id")

_Sums = dict[tuple[str, str, str], tuple[int, int]]
"""Bidder, campaign, catalogue: impressions and micros."""


def merge_day(
    engine: JobEngine, files: Sequence[ListedFile], period: Period, folder: Path, rows_per_file: int
) -> dict[str, int]:
    """Write the rows of a day's files into `folder`; the new files and their sizes in bytes.

    Refuses sources that hold an impression twice, and output that does not agree with them.
    """
    first_times(files)  # checks that files exist, are readable and have as many rows as listed
    if not files:
        _write_empty(folder / "part-0000.parquet")
        return _sizes(folder)
    refuse_duplicates(engine, [file.path for file in files], period)
    rows = _together(engine, files)
    before = _sums(engine, rows, period)
    listed = sum(file.rows for file in files)
    if _total(before)[0] != listed:
        rule = f"hold the rows that are listed, all of their own day ({listed})"
        raise KreachError.rule("log", rule, _total(before)[0])
    engine.write_sorted(rows, _ORDER, folder, -(-listed // rows_per_file))
    written = _sizes(folder)
    after = _sums(engine, engine.read("log", [folder / name for name in written]), period)
    if after != before:
        totals = f"{_total(after)} for {_total(before)} (impressions, micros)"
        raise KreachError.rule("merged log", "agree with its sources", totals)
    return written


def _together(engine: Engine, files: Sequence[ListedFile]) -> ir.Table:
    """The rows of all bidders, with their names."""
    tables = []
    for bidder, own in groupby(sorted(files, key=lambda f: f.bidder), key=lambda f: f.bidder):
        raw = engine.read("log", [file.path for file in own])
        columns = [name for name in LOG_COLUMNS if name != "bidder"]
        tables.append(raw.select(*columns, bidder=ibis.literal(bidder)))
    return tables[0] if len(tables) == 1 else ibis.union(*tables)


def _sums(engine: Engine, rows: ir.Table, period: Period) -> _Sums:
    """Impressions and money of the day, by bidder, campaign and catalogue."""
    rows = rows.filter(rows["ts"].date() == ibis.date(period.start.date().isoformat()))
    sums = engine.columns(
        rows.group_by("bidder", "campaign", "catalogue").aggregate(
            rows=rows.count(), micros=rows["price_micros"].sum().cast("int64")
        )
    )
    columns = (sums[name] for name in ("bidder", "campaign", "catalogue", "rows", "micros"))
    return {
        (str(bidder), str(campaign), str(catalogue)): (int(count), int(micros))
        for bidder, campaign, catalogue, count, micros in zip(*columns, strict=True)
    }


def _total(sums: _Sums) -> tuple[int, int]:
    return sum(count for count, _ in sums.values()), sum(micros for _, micros in sums.values())


def _sizes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in sorted(folder.glob("part-*.parquet"))}


def _write_empty(file: Path) -> None:
    """A day without impressions is a file without rows, so that readers get the columns."""
    columns = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in LOG_COLUMNS.items())
    with scratch_connection() as engine:
        engine.execute(
            f"COPY (SELECT {columns} WHERE false) TO '{sql_text(file)}' (FORMAT parquet)"
        )
