"""A log as platforms have it: not sorted, 1,000 campaigns of very different size, ids that repeat.

    python -m benchmarks.log_scale --rows 10000000

The log is written by DuckDB in files of `--chunk` rows and removed at the end. Measured against the
bare count of the engine on the same rows: a window report of the largest campaign (half of all
rows) with and without looking for repeated ids, and all campaigns counted in one pass. Every way
runs in a process of its own, in turns.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

import kreach as kr
from benchmarks.timing import duration, print_table
from kreach.adsystem.log.count_tables import count_query, open_counts
from kreach.adsystem.log.impression_log import ImpressionLog

__all__ = ["run"]

_ROWS = 10_000_000
_CHUNK = 25_000_000
_CAMPAIGNS = 1_000
_DAYS = 30
_GROUP_SIZE = 20
_BYTES_PER_ROW = 31  # measured
_REPEATED = 100  # one in so many rows is a copy
_MAX_ROWS_COUNTED = 200_000_000  # above, counts of all campaigns and groups are as large as the log
_ROUNDS = 2
_CAPS = (1, 2, 3)
_REPORTED = ("c0", "c1", "c5", "c123", "c999")
_ASKED: dict[str, Any] = {"campaign": "c0", "start": "2026-10-01", "end": "2026-10-31"}
_WINDOW = "ts >= TIMESTAMP '2026-10-01' AND ts < TIMESTAMP '2026-10-31'"


def run(rows: int = _ROWS, folder: Path | None = None, chunk: int = _CHUNK) -> None:
    """Write the log, measure each way, remove the log."""
    made = Path(tempfile.mkdtemp(prefix="kreach-scale-", dir=folder))
    try:
        needed, free = rows * _BYTES_PER_ROW, shutil.disk_usage(made).free
        if needed * 1.3 > free:
            raise SystemExit(
                f"needs {needed / 1e9:,.0f} GB and room to spill, {free / 1e9:,.0f} free"
            )
        start = time.perf_counter()
        for low in range(0, rows, chunk):
            _write(rows, low, min(low + chunk, rows), made)
        size = sum(file.stat().st_size for file in (made / "log").iterdir())
        print(
            f"{rows:,} rows, {size / 1e9:,.2f} GB ({size / rows:.0f} bytes a row), "
            f"written in {duration(time.perf_counter() - start)}."
        )
        _report(rows, made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _write(rows: int, low: int, high: int, folder: Path) -> None:
    """A file of rows; campaign, group, time and id are hashes of the row number.

    Half of the rows are of campaign 0, a quarter of 1, ..., the last tenth of any of 1,000. A
    hundredth of the groups gets a tenth of the rows. Rows at the end of a hundred repeat the id of
    the row before.
    """
    groups = max(rows // 100, 100)
    (folder / "log").mkdir(exist_ok=True)
    where = folder / "log" / f"{low:012d}.parquet"
    with duckdb.connect() as engine:
        engine.execute(f"SET memory_limit = '2GB'; SET temp_directory = '{folder}/spill'")
        engine.execute(
            f"""COPY (SELECT md5(CASE WHEN i % {_REPEATED} = 99 THEN i - 1 ELSE i END::VARCHAR)[:20]
                AS impression_id,
            'c' || CASE WHEN h % 10 = 9 THEN (h // 10) % {_CAMPAIGNS}
                ELSE least(floor(-log2(((h // 16) % 1000000 + 1) / 1000000.0)), 9)::BIGINT
                END AS campaign,
            md5(((hash(i + 1) % CASE WHEN h % 10 = 8 THEN {max(groups // 100, 1)} ELSE {groups} END)
                )::VARCHAR)[:16] AS "group",
            TIMESTAMP '2026-10-01'
                + to_microseconds((hash(i + 2) % {_DAYS * 86_400_000_000})::BIGINT) AS ts
            FROM (SELECT i, hash(i) AS h FROM range({low}, {high}) numbers(i)))
            TO '{where}' (FORMAT parquet)"""
        )
        if low == 0:
            engine.execute(
                f"""COPY (SELECT md5(g::VARCHAR)[:16] AS "group", {_GROUP_SIZE} AS size
                FROM range({groups}) numbers(g)) TO '{folder}/groups.parquet' (FORMAT parquet)"""
            )


def _report(rows: int, folder: Path) -> None:
    ways = [way for way in _WAYS if rows <= _MAX_ROWS_COUNTED or not way.startswith("campaigns")]
    turns = [{way: _measured(way, folder) for way in ways} for _ in range(_ROUNDS)]
    table = []
    for way in ways:
        bare = "campaigns-bare" if way.startswith("campaigns") else "bare"
        found = [turn[way] for turn in turns]
        ratios = sorted(turn[way]["seconds"] / turn[bare]["seconds"] for turn in turns)
        cpu = min(one["cpu"] for one in found) / min(turn[bare]["cpu"] for turn in turns)
        table.append(
            (
                _WAYS[way][0],
                duration(min(one["seconds"] for one in found)),
                f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
                f"{cpu:.2f}",
                f"{max(one['peak_mb'] for one in found):,.0f} MB",
                found[-1]["note"],
            )
        )
    heads = ("", "best time", "÷ bare, range", "CPU ÷ bare", "peak memory", "")
    print_table(f"{rows:,} impressions, not sorted, {_CAMPAIGNS:,} campaigns", heads, table)


def _measured(way: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.log_scale", "--worker", way]
    done = subprocess.run(
        [*command, "--folder", str(folder)], check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _bare(folder: Path, keys: str, condition: str) -> str:
    query = f"SELECT {keys}, count(*) AS n FROM '{folder}/log/*.parquet' WHERE {condition}"
    with duckdb.connect() as engine:
        engine.execute(f"SET memory_limit = '1500MB'; SET temp_directory = '{folder}/spill'")
        engine.execute("SET preserve_insertion_order = false")
        with _Clock() as clock:
            found = engine.execute(
                f"SELECT count(*), max(n) FROM ({query} GROUP BY ALL)"
            ).fetchall()
    return clock.done(f"{found[0][0]:,} cells")


def _bare_window(folder: Path) -> str:
    return _bare(folder, '"group"', f"campaign = 'c0' AND {_WINDOW}")


def _bare_campaigns(folder: Path) -> str:
    return _bare(folder, 'campaign, "group"', _WINDOW)


def _window(folder: Path, unique_ids: bool) -> str:
    with kr.EmbeddedEngine() as engine:
        groups = kr.open_groups(engine, folder / "groups.parquet")
        log = ImpressionLog.open(engine, folder / "log", unique_ids=unique_ids)
        with _Clock() as clock:
            report = kr.measure_window(log, groups, _CAPS, **_ASKED).document()
    found = report.rejected.get("duplicate", 0)
    return clock.done(f"reach {report.reports[0].reach:,.0f}, duplicates {found:,}")


def _unique(folder: Path) -> str:
    return _window(folder, unique_ids=True)


def _ids(folder: Path) -> str:
    return _window(folder, unique_ids=False)


def _campaigns(folder: Path) -> str:
    """One pass over the rows; a report of any campaign is then made from the counts."""
    with kr.EmbeddedEngine() as engine:
        groups = kr.open_groups(engine, folder / "groups.parquet")
        log = ImpressionLog.open(engine, folder / "log", unique_ids=True)
        rows = log.table.rows.drop("impression_id")
        with _Clock() as clock:
            whole = engine.materialize(count_query(rows, "week"))
            counts = open_counts(engine, f"#{whole.get_name()}")
        start = time.perf_counter()
        for name in _REPORTED:
            found = kr.measure_window(counts, groups, _CAPS, campaign=name).document()
        each = (time.perf_counter() - start) / len(_REPORTED)
        alone = kr.measure_window(log, groups, _CAPS, campaign=_REPORTED[-1]).document()
        if found.reports != alone.reports:
            raise SystemExit("a campaign of many is not reported as alone")
    return clock.done(f"and {duration(each)} for each report of three caps ({len(_REPORTED)} run)")


class _Clock:
    """Wall and processor time of a block."""

    def __enter__(self) -> "_Clock":
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._wall
        self.cpu = time.process_time() - self._cpu

    def done(self, note: str) -> str:
        """What a worker prints."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found = {"seconds": self.seconds, "cpu": self.cpu, "peak_mb": peak, "note": note}
        return json.dumps(found)


_WAYS: dict[str, tuple[str, Callable[[Path], str]]] = {
    "bare": ("bare count(*) group by group", _bare_window),
    "unique": ("window report, ids taken for unique", _unique),
    "ids": ("window report, duplicates looked for", _ids),
    "campaigns-bare": ("bare count(*) group by campaign, group", _bare_campaigns),
    "campaigns": ("counts of every campaign, one pass", _campaigns),
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=_ROWS)
    parser.add_argument("--chunk", type=int, default=_CHUNK)
    parser.add_argument("--folder", type=Path, help="where the log is written for the time")
    parser.add_argument("--worker", choices=list(_WAYS))
    given = parser.parse_args()
    if given.worker is not None:
        print(_WAYS[given.worker][1](given.folder))
    else:
        run(given.rows, given.folder, given.chunk)
