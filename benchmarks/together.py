"""Thirty campaigns on a million groups together: union, overlaps and their matrix from one scan.

`--rows`, `--groups` and `--campaigns` for other sizes. The rival is the bare count by campaign and
group, which any answer needs; figures are read one after the other.
"""

import argparse
import tempfile
import time
from pathlib import Path

import duckdb

import kreach as kr
from benchmarks.log import visit_model
from benchmarks.timing import duration, print_table
from kreach.boundary.visit_model import VisitModel

__all__ = ["run"]


def run(rows: int = 10_000_000, groups: int = 1_000_000, campaigns: int = 30) -> None:
    """Generate a log, count it barely, then measure all campaigns together."""
    with tempfile.TemporaryDirectory(prefix="kreach-bench-") as folder:
        log = Path(folder) / "log.parquet"
        table = Path(folder) / "groups.parquet"
        with duckdb.connect() as database:
            database.execute("SET threads = 2")
            database.execute(
                f"""COPY (SELECT 'c' || (hash(i) % {campaigns})::INTEGER AS campaign,
                'g' || (hash(i + 7) % {groups})::INTEGER AS "group",
                TIMESTAMP '2026-10-01' + to_microseconds((hash(i + 13) % 2592000000000)::BIGINT)
                AS ts FROM range({rows}) t(i)) TO '{log}' (FORMAT parquet)"""
            )
            database.execute(
                f"""COPY (SELECT 'g' || i AS "group", 20 AS size FROM range({groups}) t(i))
                TO '{table}' (FORMAT parquet)"""
            )
            start = time.perf_counter()
            database.execute(
                f"""SELECT count(*), sum(n) FROM (SELECT campaign, "group", count(*) AS n
                FROM '{log}' GROUP BY ALL)"""
            ).fetchone()
            bare = time.perf_counter() - start
        print(f"{rows:,} impressions of {campaigns} campaigns on {groups:,} groups of 20.")
        lines = [("bare count by campaign and group", duration(bare), "1.0")]
        for name, model in (("", None), (", visit model", visit_model())):
            for what, seconds in _timed(log, table, campaigns, model):
                lines.append((what + name, duration(seconds), f"{seconds / bare:.1f}"))
        print_table("Campaigns together", ("", "time", "of the bare count"), lines)


def _timed(
    log: Path, table: Path, campaigns: int, model: VisitModel | None
) -> list[tuple[str, float]]:
    names = [f"c{at}" for at in range(campaigns)]
    result = []
    with kr.EmbeddedEngine(memory="4GB") as engine:
        start = time.perf_counter()
        groups = kr.open_groups(engine, table)
        opened = kr.ImpressionLog.open(engine, log)
        found = kr.measure_together(opened, groups, [1], campaigns=names, model=model)
        together = found.at(1)
        result.append(("one scan", time.perf_counter() - start))
        for what, figure in (
            ("union, its std", lambda: together.union.std),
            ("matrix of pairs", lambda: together.overlap_matrix),
            ("only, of each", lambda: [one.reach for one in together.only.values()]),
            ("overlap, its std", lambda: together.overlap.std),
        ):
            start = time.perf_counter()
            figure()
            result.append((what, time.perf_counter() - start))
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, default=1_000_000)
    parser.add_argument("--campaigns", type=int, default=30)
    given = parser.parse_args()
    run(given.rows, given.groups, given.campaigns)
