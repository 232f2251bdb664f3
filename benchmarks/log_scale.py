"""A log as platforms have it: not sorted, 1,000 campaigns of very different size, ids that repeat.

    python -m benchmarks.log_scale --rows 10000000
    python -m benchmarks.log_scale --rows 1000000000 --orders hash --copies 1 --codec zstd

Campaign c0 has half of all rows, one group a twentieth, and a hundredth of the groups a tenth.
For each order of the rows (by hash: not sorted; by time) and each share of copies (0, 1, 10 % of
the rows repeat an id) DuckDB writes a log in files of `--chunk` rows, removed when measured.
Measured against the bare count of the engine on the same rows: a window report of c0 with and
without the search for repeated ids. All campaigns are counted in one pass on the first log. Every
way runs in a process of its own, in turns. Steps are shown on standard error. `--keep` leaves the
logs where they are, and `--measure FOLDER` measures one of them again. From 10⁹ rows on the bare
count needs more than the 1,500 MB that engines have here: set KREACH_BENCH_MEMORY=6GB.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import duckdb

import kreach as kr
from benchmarks.timing import duration, print_table
from kreach.adsystem.log.count_tables import count_query, open_counts
from kreach.adsystem.log.impression_log import ImpressionLog

__all__ = ["main", "run"]

_ROWS = 10_000_000
_CHUNK = 25_000_000
_CAMPAIGNS = 1_000
_MEMORY = os.environ.get("KREACH_BENCH_MEMORY", "1500MB")  # of an engine; 10⁷ groups need more
_SPAN_US = 30 * 86_400_000_000
_START_US = 1_790_812_800_000_000  # 2026-10-01
_RETRY_US = 3_600_000_000  # a copy comes up to an hour after its original
_RETRY_ROWS = 1_000  # and repeats one of so many originals before it
_GROUP_SIZE = 20
_BYTES_PER_ROW = {"snappy": 42, "zstd": 27}  # measured
_SPILLED_BYTES_PER_ROW = 18  # c0's half of the rows as numbers, and its sorted hashes
_MIN_FREE_GB = 20.0
_MAX_ROWS_COUNTED = 100_000_000  # above, counts of all campaigns and groups are as large as the log
_ROUNDS = 3
_ORDERS = ("hash", "time")
_COPIES = (1, 0, 10)
_CAPS = (1, 2, 3)
_REPORTED = ("c0", "c1", "c5", "c123", "c999")
_ASKED: dict[str, Any] = {"campaign": "c0", "start": "2026-10-01", "end": "2026-10-31"}
_WINDOW = "ts >= TIMESTAMP '2026-10-01' AND ts < TIMESTAMP '2026-10-31'"


def run(
    rows: int = _ROWS,
    folder: Path | None = None,
    chunk: int = _CHUNK,
    *,
    orders: Sequence[str] = _ORDERS,
    copies: Sequence[int] = _COPIES,
    rounds: int = _ROUNDS,
    codec: str = "snappy",
    min_free_gb: float = _MIN_FREE_GB,
    keep: bool = False,
) -> None:
    """For each order and share of copies write a log, measure each way, remove the log."""
    for at, (order, percent) in enumerate(product(orders, copies)):
        made = Path(tempfile.mkdtemp(prefix="kreach-scale-", dir=folder))
        try:
            needed = rows * (_BYTES_PER_ROW[codec] + _SPILLED_BYTES_PER_ROW) / 1e9
            _check_free(made, needed + min_free_gb)
            start = time.perf_counter()
            for low in range(0, rows, chunk):
                _check_free(made, min_free_gb)
                _write(rows, low, min(low + chunk, rows), made, order, percent, codec)
                _show(f"written {min(low + chunk, rows):,} of {rows:,} rows", start)
            took = duration(time.perf_counter() - start)
            title = f"{rows:,} impressions by {order}, {percent} % copies"
            (made / "title.txt").write_text(title)
            print(f"\n{title}, written in {took} to {made}.", flush=True)
            measure(made, rounds, campaigns=at == 0 and rows <= _MAX_ROWS_COUNTED)
        finally:
            if not keep:
                shutil.rmtree(made, ignore_errors=True)


def measure(folder: Path, rounds: int, *, campaigns: bool) -> None:
    """Measure each way on a log that was written; with `campaigns` also all of them at once."""
    size = sum(file.stat().st_size for file in (folder / "log").iterdir()) / 1e9
    ways = [way for way in _WAYS if campaigns or not way.startswith("campaigns")]
    _report(f"{(folder / 'title.txt').read_text()}, {size:,.1f} GB", folder, ways, rounds)


def _check_free(folder: Path, needed_gb: float) -> None:
    free = shutil.disk_usage(folder).free / 1e9
    if free < needed_gb:
        raise SystemExit(f"needs {needed_gb:,.0f} GB free (log, spill, reserve), has {free:,.0f}")


def _show(step: str, start: float) -> None:
    print(f"{step} after {duration(time.perf_counter() - start)}", file=sys.stderr, flush=True)


def _write(
    rows: int, low: int, high: int, folder: Path, order: str, percent: int, codec: str
) -> None:
    """A file of rows i; campaign, group, time and id are hashes of j, the original of row i.

    Hashes of whole numbers are unique, so ids are. A copy has campaign and group of its original
    and a later time.
    """
    groups = max(rows // 100, 100)
    every = 100 // percent if percent else 0
    back = f"i - 1 - (hash(i) % least({_RETRY_ROWS}, i // {every} + 1)::UBIGINT)::BIGINT * {every}"
    original = f"CASE WHEN i % {every} = {every - 1} THEN {back} ELSE i END" if every else "i"
    late = f"CASE WHEN i = j THEN 0 ELSE 1 + (hash(i + 3) % {_RETRY_US})::BIGINT END"
    us = f"(hash(j + 7919) % {_SPAN_US})::BIGINT + {late}"
    if order == "time":
        us = f"(i * {_SPAN_US / rows!r})::BIGINT"
    (folder / "log").mkdir(exist_ok=True)
    with duckdb.connect() as engine:
        engine.execute(f"SET memory_limit = '2GB'; SET temp_directory = '{folder}/spill'")
        engine.execute(f"SET preserve_insertion_order = {order == 'time'}".lower())
        engine.execute(
            f"""COPY (SELECT h::VARCHAR AS impression_id,
            'c' || CASE WHEN h % 10 = 9 THEN (h // 10) % {_CAMPAIGNS}
                ELSE least(floor(-log2(((h // 16) % 1000000 + 1) / 1000000.0)), 9)::BIGINT
                END AS campaign,
            hex(hash(CASE WHEN h % 20 = 7 THEN 0 ELSE hash(j + 1)
                % CASE WHEN h % 10 = 8 THEN {max(groups // 100, 1)} ELSE {groups} END END)
                ) AS "group",
            make_timestamp({_START_US} + {us}) AS ts
            FROM (SELECT i, j, hash(j) AS h
                FROM (SELECT i, {original} AS j FROM range({low}, {high}) numbers(i))))
            TO '{folder}/log/{low:012d}.parquet'
            (FORMAT parquet, COMPRESSION {codec}{", COMPRESSION_LEVEL 1" * (codec == "zstd")})"""
        )
        if low == 0:
            engine.execute(
                f"""COPY (SELECT hex(hash(g::UBIGINT)) AS "group", {_GROUP_SIZE} AS size
                FROM range({groups}) numbers(g)) TO '{folder}/groups.parquet' (FORMAT parquet)"""
            )


def _report(title: str, folder: Path, ways: Sequence[str], rounds: int) -> None:
    start, loads = time.perf_counter(), [os.getloadavg()[0]]
    turns: list[dict[str, dict[str, Any]]] = []
    for turn in range(rounds):
        turns.append({})
        for way in ways:
            turns[-1][way] = _measured(way, folder)
            _show(f"round {turn + 1} of {rounds}, {way}", start)
        loads.append(os.getloadavg()[0])
    table = []
    for way in ways:
        bare = "campaigns-bare" if way.startswith("campaigns") else "bare"
        found = [turn[way] for turn in turns]
        table.append(
            (
                _WAYS[way][0],
                duration(min(one["seconds"] for one in found)),
                _ratios([turn[way]["seconds"] / turn[bare]["seconds"] for turn in turns]),
                _ratios([turn[way]["cpu"] / turn[bare]["cpu"] for turn in turns]),
                f"{max(one['peak_mb'] for one in found):,.0f} MB",
                found[-1]["note"],
            )
        )
    heads = ("", "best time", "time ÷ bare", "CPU ÷ bare", "peak memory", "")
    print_table(f"{title} (load {min(loads):.0f} to {max(loads):.0f})", heads, table)
    sys.stdout.flush()


def _ratios(each: Sequence[float]) -> str:
    """The middle one and the range."""
    ordered = sorted(each)
    return f"{ordered[len(ordered) // 2]:.2f} ({ordered[0]:.2f} to {ordered[-1]:.2f})"


def _measured(way: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.log_scale", "--worker", way]
    done = subprocess.run(
        [*command, "--folder", str(folder)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},  # engines spill beside the log
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _bare(folder: Path, keys: str, condition: str) -> str:
    query = f"SELECT {keys}, count(*) AS n FROM '{folder}/log/*.parquet' WHERE {condition}"
    with duckdb.connect() as engine:
        engine.execute(f"SET memory_limit = '{_MEMORY}'; SET temp_directory = '{folder}/spill'")
        engine.execute("SET preserve_insertion_order = false")
        with _Clock() as clock:
            found = engine.execute(
                f"SELECT count(*), sum(n) FROM ({query} GROUP BY ALL)"
            ).fetchall()
    return clock.done(f"{found[0][0]:,} cells, {found[0][1]:,} rows")


def _bare_window(folder: Path) -> str:
    return _bare(folder, '"group"', f"campaign = 'c0' AND {_WINDOW}")


def _bare_campaigns(folder: Path) -> str:
    return _bare(folder, 'campaign, "group"', _WINDOW)


def _window(folder: Path, unique_ids: bool) -> str:
    with kr.EmbeddedEngine(memory=_MEMORY) as engine:
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
    with kr.EmbeddedEngine(memory=_MEMORY) as engine:
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=_ROWS)
    parser.add_argument("--chunk", type=int, default=_CHUNK, help="rows of a file")
    parser.add_argument("--folder", type=Path, help="where the log is written for the time")
    parser.add_argument("--orders", nargs="+", choices=_ORDERS, default=_ORDERS)
    parser.add_argument("--copies", nargs="+", type=int, choices=_COPIES, default=_COPIES)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--codec", choices=list(_BYTES_PER_ROW), default="snappy")
    parser.add_argument("--min-free-gb", type=float, default=_MIN_FREE_GB, help="stop below")
    parser.add_argument("--keep", action="store_true", help="leave the logs where they are")
    parser.add_argument("--measure", type=Path, metavar="FOLDER", help="of a log that was kept")
    parser.add_argument("--worker", choices=list(_WAYS), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker is not None:
        figures = _WAYS[given.worker][1](given.folder)
        print(figures)
        print(given.worker, figures, file=sys.stderr)  # an interrupted run has those so far
        return
    if given.measure is not None:
        measure(given.measure, given.rounds, campaigns=False)
        return
    run(
        given.rows,
        given.folder,
        given.chunk,
        orders=given.orders,
        copies=given.copies,
        rounds=given.rounds,
        codec=given.codec,
        min_free_gb=given.min_free_gb,
        keep=given.keep,
    )


if __name__ == "__main__":
    main()
