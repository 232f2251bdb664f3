"""A window of a log of 10⁸ impressions, beside bare counts, exact distinct users and sketches.

`--draws` measures effective draws alone: the window report with a visit model, computed and from a
prepared copy that stores them, against the bare count and the report without one, on a log sorted
by time and on one sorted by group and time; then bare, computed and stored on Spark.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import kreach as kr
from benchmarks.timing import duration, print_table
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.meetings import DAY_EDGES, PARTS

__all__ = ["run", "visit_model"]

_ROWS = 100_000_000
_GROUP_SIZE = 20
_DAYS = 30
_START, _END = "2026-10-01", "2026-10-31"
_WINDOW = f"campaign = 'c0' AND ts >= TIMESTAMP '{_START}' AND ts < TIMESTAMP '{_END}'"
_CAPS = (1, 2, 3)
_SKETCHED = 2_000_000
_ROUNDS = 3
_DRAWS_ROWS = 10_000_000
_LAYOUTS = ("log", "sorted")
_DRAWN = {
    "bare": "bare count(*) group by group",
    "plain": "report",
    "draws": "report with draws, computed",
    "stored": "report with draws, stored",
}


def run(rows: int = _ROWS, folder: Path | None = None, *, spark: bool = True) -> None:
    """Generate the logs, then measure each way in a process of its own."""
    if folder is not None:
        _report(rows, folder, spark=spark)
        return
    with tempfile.TemporaryDirectory(prefix="kreach-bench-") as made:
        _report(rows, Path(made), spark=spark)


def _report(rows: int, folder: Path, *, spark: bool) -> None:
    start = time.perf_counter()
    for size in (rows // 100, rows // 10, rows):
        _generate(size, folder)
    print(
        f"Logs of {rows // 100:,} to {rows:,} rows made in {duration(time.perf_counter() - start)}."
    )
    table = []
    best = _best_of_rounds(rows, folder)
    bare = best["bare"]["seconds"]
    for name, what in _WAYS.items():
        found = best.get(name) or _measured(name, rows, folder)
        table.append(
            (
                what,
                duration(found["seconds"]),
                f"{found['seconds'] / bare:.2f}",
                f"{found['peak_mb']:,.0f} MB",
                found.get("note", ""),
            )
        )
    header = ("on the embedded engine", "time", "÷ bare count", "peak memory", "")
    groups = rows // 100
    print_table(f"{rows:,} impressions, {groups:,} groups, {_DAYS} days", header, table)
    if spark:
        _growth(rows, folder)


def run_draws(rows: int = _DRAWS_ROWS, folder: Path | None = None, *, spark: bool = True) -> None:
    """Effective draws against the bare count, in turns, on both layouts."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="kreach-bench-") as made:
            run_draws(rows, Path(made), spark=spark)
        return
    _generate(rows, folder)
    _sort(rows, folder)
    start = time.perf_counter()
    _prepare(rows, folder)
    print(f"Prepared in {duration(time.perf_counter() - start)}.")
    table = []
    for layout in _LAYOUTS:
        names = [f"{layout}-{way}" for way in _DRAWN]
        turns = [[_measured(name, rows, folder) for name in names] for _ in range(_ROUNDS)]
        _check_reach(turns)
        for at, what in enumerate(_DRAWN.values()):
            table.append(
                (
                    "by time" if layout == "log" else "by group, time",
                    what,
                    duration(min(turn[at]["seconds"] for turn in turns)),
                    *_ratios([turn[at]["seconds"] / turn[0]["seconds"] for turn in turns]),
                    f"{max(turn[at]['peak_mb'] for turn in turns):,.0f} MB",
                    turns[-1][at].get("note", ""),
                )
            )
    header = ("sorted", "", "best time", "÷ bare", "range", "peak memory", "")
    print_table(f"{rows:,} impressions, {rows // 100:,} groups, {_DAYS} days", header, table)
    if spark:
        found = _measured("spark-draws", rows, folder)["turns"]
        spark_table = [
            (
                what,
                duration(min(found[way])),
                *_ratios(np.divide(found[way], found["bare"]).tolist()),
            )
            for way, what in _DRAWN.items()
        ]
        heads = ("by time, Spark local[2]", "best time", "÷ bare", "range")
        print_table(f"{rows:,} impressions on Spark", heads, spark_table)


def _ratios(ratios: list[float]) -> tuple[str, str]:
    middle = sorted(ratios)[len(ratios) // 2]
    return f"{middle:.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"


def _check_reach(turns: list[list[dict[str, Any]]]) -> None:
    """Stored draws must give the very report of computed ones."""
    for turn in turns:
        computed, stored = turn[2]["note"], turn[3]["note"]
        if computed != stored:
            raise SystemExit(f"stored draws differ from computed ones: {stored} and {computed}")


def _prepare(rows: int, folder: Path) -> None:
    """The copy of the log by time that stores draws."""
    log, groups, out = _files(rows, folder)[0], _files(rows, folder)[3], _copy(rows, folder)
    if out.exists():
        return
    with kr.EmbeddedEngine() as engine:
        known = kr.open_groups(engine, str(groups)).with_model(visit_model())
        kr.prepare_log(engine, str(log), known, out)


def _copy(rows: int, folder: Path) -> Path:
    return folder / f"prepared-{rows}"


def _sort(rows: int, folder: Path) -> None:
    """The same log as a writer that sorts by group and time would leave it."""
    log, path = _files(rows, folder)[0], folder / f"sorted-{rows}.parquet"
    if path.exists():
        return
    draft = path.with_suffix(".draft")
    with duckdb.connect() as engine:
        engine.execute(f"SET memory_limit = '6GB'; SET temp_directory = '{folder}/spill'")
        engine.execute(
            f"""COPY (SELECT * FROM '{log}' ORDER BY "group", ts) TO '{draft}' (FORMAT parquet)"""
        )
    draft.rename(path)


def visit_model() -> VisitModel:
    """Sessions as in public traffic: 4 lags, gaps up to 2 hours, hours of the day."""
    odds = np.array([[150.0, 60.0, 12.0, 3.0, 0.8, 0.2, 0.05]])
    hours = 1.0 + 0.6 * np.sin(np.arange(24) / 24.0 * 2.0 * np.pi)
    return VisitModel(
        group_size=float(_GROUP_SIZE),
        gap_edges_seconds=(60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0),
        continuation_odds=odds / np.array([[1.0], [2.0], [4.0], [8.0]]),
        hourly_traffic=hours / hours.mean(),
        requests_per_session=np.array([0.5, 0.25, 0.15, 0.1]),
        meetings=np.full((PARTS, PARTS, len(DAY_EDGES) + 1), 0.12),
        regulars=0.3,
        lasting=0.5,
    )


def _bare_layout(rows: int, folder: Path, layout: str) -> tuple[float, str]:
    query = f"""SELECT "group", count(*) AS n FROM '{folder}/{layout}-{rows}.parquet'
        WHERE {_WINDOW} GROUP BY 1"""
    with duckdb.connect() as engine:
        start = time.perf_counter()
        engine.execute(f"SELECT count(*), max(n) FROM ({query})").fetchall()
        return time.perf_counter() - start, ""


def _window_layout(
    rows: int, folder: Path, layout: str, model: VisitModel | None, *, stored: bool = False
) -> tuple[float, str]:
    log, groups = folder / f"{layout}-{rows}.parquet", _files(rows, folder)[3]
    if stored:
        log = _copy(rows, folder)
    with _opened(kr.EmbeddedEngine(), log, groups) as (opened, known):
        start = time.perf_counter()
        report = kr.measure_window(opened, known, _CAPS, model=model, **_ASKED)
        first = report.document().reports[0]
        return time.perf_counter() - start, f"reach {first.reach!r}"


def _best_of_rounds(rows: int, folder: Path) -> dict[str, dict[str, Any]]:
    """What is compared most closely, in turns: the best of three, so that neighbours cancel out."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(_ROUNDS):
        for name in ("bare", "window", "series"):
            found = _measured(name, rows, folder)
            if name not in best or found["seconds"] < best[name]["seconds"]:
                best[name] = found
    return best


def _growth(rows: int, folder: Path) -> None:
    table = []
    for size in (rows // 100, rows // 10, rows):
        embedded, spark = _measured("window", size, folder), _measured("spark", size, folder)
        table.append(
            (
                f"{size:,}",
                duration(embedded["seconds"]),
                duration(spark["seconds"]),
                duration(spark["bare"]),
                f"{spark['seconds'] / spark['bare']:.2f}",
                duration(spark["start"]),
            )
        )
    header = ("rows", "embedded", "Spark local[2]", "its bare count", "÷ bare", "Spark's start")
    print_table("Growth of a window report", header, table)


def _generate(rows: int, folder: Path) -> None:
    """User, group and time are hashes of the row number: the same logs on every machine."""
    log, users, ids, groups = _files(rows, folder)
    people = max(rows // 100, 1) * _GROUP_SIZE
    step = _DAYS * 86_400_000_000 // rows
    with duckdb.connect() as engine:
        facts = f"""SELECT i, hash(i) % {people} AS user_id,
            TIMESTAMP '{_START}' + to_microseconds((i * {step})::BIGINT) AS ts
            FROM range({rows}) numbers(i)"""
        group = f"substr(md5((user_id // {_GROUP_SIZE})::VARCHAR), 1, 16)"
        wanted = {
            log: f"SELECT 'c0' AS campaign, {group} AS \"group\", ts FROM ({facts})",
            users: f"SELECT 'c0' AS campaign, user_id, ts FROM ({facts})",
            groups: f"""SELECT substr(md5(g::VARCHAR), 1, 16) AS "group", {_GROUP_SIZE} AS size
                FROM range({people // _GROUP_SIZE}) numbers(g)""",
        }
        if rows < _ROWS:
            wanted[ids] = f"""SELECT substr(md5(i::VARCHAR), 1, 20) AS impression_id,
                'c0' AS campaign, {group} AS "group", ts FROM ({facts})"""
        for path, query in wanted.items():
            if not path.exists():
                draft = path.with_suffix(".draft")
                engine.execute(f"COPY ({query}) TO '{draft}' (FORMAT parquet)")
                draft.rename(path)


def _files(rows: int, folder: Path) -> tuple[Path, Path, Path, Path]:
    kinds = ("log", "users", "ids", "groups")
    log, users, ids, groups = (folder / f"{kind}-{rows}.parquet" for kind in kinds)
    return log, users, ids, groups


def _measured(name: str, rows: int, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.log", "--worker", name]
    command += ["--rows", str(rows), "--folder", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _bare(rows: int, folder: Path) -> str:
    log = _files(rows, folder)[0]
    query = f"SELECT \"group\", count(*) AS n FROM '{log}' WHERE {_WINDOW} GROUP BY 1"
    with duckdb.connect() as engine:
        engine.execute(f"SELECT count(*), max(n) FROM ({query})").fetchall()
    return ""


@contextmanager
def _opened(engine: Any, log: Path, groups: Path) -> Iterator[tuple[Any, Any]]:
    """Log and groups, opened and checked before the clock starts."""
    with engine:
        yield kr.ImpressionLog.open(engine, str(log)), kr.open_groups(engine, str(groups))


_ASKED: dict[str, Any] = {"campaign": "c0", "start": _START, "end": _END}


def _opening(rows: int, folder: Path) -> str:
    log, _, _, groups = _files(rows, folder)
    with _opened(kr.EmbeddedEngine(), log, groups):
        return "once, for any number of reports"


def _window(rows: int, folder: Path) -> tuple[float, str]:
    log, _, _, groups = _files(rows, folder)
    with _opened(kr.EmbeddedEngine(), log, groups) as (opened, known):
        start = time.perf_counter()
        first = kr.measure_window(opened, known, _CAPS, **_ASKED).document().reports[0]
        spent = time.perf_counter() - start
    return spent, f"reach {first.reach:,.0f} ± {first.std:,.0f}, three caps"


def _series(rows: int, folder: Path) -> tuple[float, str]:
    log, _, _, groups = _files(rows, folder)
    with _opened(kr.EmbeddedEngine(), log, groups) as (opened, known):
        start = time.perf_counter()
        days = len(kr.measure_series(opened, known, _CAPS, **_ASKED).document().series)
        spent = time.perf_counter() - start
    return spent, f"{days} days, each alone and cumulative, three caps"


def _ids(rows: int, folder: Path) -> tuple[float, str]:
    """A tenth of the rows: looking for copies keeps every id."""
    _, _, ids, groups = _files(rows // 10, folder)
    with _opened(kr.EmbeddedEngine(), ids, groups) as (opened, known):
        start = time.perf_counter()
        kr.measure_window(opened, known, _CAPS, **_ASKED).document()
        return time.perf_counter() - start, f"{rows // 10:,} rows only"


def _few(rows: int, folder: Path) -> str:
    _bare(rows // 10, folder)
    return f"{rows // 10:,} rows only, for the row below"


def _distinct(rows: int, folder: Path) -> str:
    users = _files(rows, folder)[1]
    with duckdb.connect() as engine:
        query = f"SELECT count(DISTINCT user_id) FROM '{users}' WHERE {_WINDOW}"
        found = engine.execute(query).fetchall()[0][0]
    return f"unique reach {found:,}, one cap"


def _capped(rows: int, folder: Path) -> str:
    users = _files(rows, folder)[1]
    with duckdb.connect() as engine:
        each = f"SELECT count(*) AS n FROM '{users}' WHERE {_WINDOW} GROUP BY user_id"
        found = engine.execute(f"SELECT sum(least(n, 3)) FROM ({each})").fetchall()[0][0]
    return f"capped reach {found:,}"


def _engine_sketch(rows: int, folder: Path) -> str:
    users = _files(rows, folder)[1]
    with duckdb.connect() as engine:
        query = f"SELECT approx_count_distinct(user_id) FROM '{users}' WHERE {_WINDOW}"
        found = engine.execute(query).fetchall()[0][0]
    return f"unique reach about {found:,}, one cap"


def _sketch(rows: int, folder: Path, kind: str) -> str:
    import datasketches  # noqa: PLC0415 - only here

    users = _files(rows, folder)[1]
    with duckdb.connect() as engine:
        few = min(rows, _SKETCHED)
        found = engine.execute(f"SELECT user_id FROM '{users}' LIMIT {few}").fetchnumpy()
    sketch = datasketches.hll_sketch(14) if kind == "hll" else datasketches.update_theta_sketch(14)
    start = time.perf_counter()
    for user in found["user_id"].tolist():
        sketch.update(user)
    spent = (time.perf_counter() - start) / few
    return f"{spent * 1e9:,.0f} ns an update; {rows:,} would take {duration(spent * rows)}"


_WAYS = {
    "bare": "bare count(*) group by group",
    "window": "kreach: window report",
    "opening": "kreach: opening log and groups",
    "series": "kreach: 30-day series",
    "few": "bare count(*), a tenth of the rows",
    "ids": "kreach: window, looking for repeated ids",
    "distinct": "exact count(distinct user), user log",
    "capped": "exact capped reach (cap 3), user log",
    "engine_sketch": "the engine's own HLL, user log",
    "hll": f"DataSketches HLL, first {_SKETCHED:,} rows",
    "theta": f"DataSketches theta, first {_SKETCHED:,} rows",
}

_WORKERS: dict[str, Callable[[int, Path], str | tuple[float, str]]] = {
    "bare": _bare,
    "window": _window,
    "opening": _opening,
    "series": _series,
    "few": _few,
    "ids": _ids,
    "distinct": _distinct,
    "capped": _capped,
    "engine_sketch": _engine_sketch,
    **{f"{one}-bare": partial(_bare_layout, layout=one) for one in _LAYOUTS},
    **{f"{one}-plain": partial(_window_layout, layout=one, model=None) for one in _LAYOUTS},
    **{
        f"{one}-draws": partial(_window_layout, layout=one, model=visit_model()) for one in _LAYOUTS
    },
    **{
        f"{one}-stored": partial(_window_layout, layout=one, model=visit_model(), stored=True)
        for one in _LAYOUTS
    },
    "hll": lambda rows, folder: _sketch(rows, folder, "hll"),
    "theta": lambda rows, folder: _sketch(rows, folder, "theta"),
}


def _spark(rows: int, folder: Path) -> dict[str, Any]:
    """Start apart; then the bare count and the report, each after one warm-up on few rows."""
    log, _, _, groups = _files(rows, folder)
    start = time.perf_counter()
    with kr.SparkEngine("local[2]", memory="3g") as engine:
        started = time.perf_counter() - start
        opened = kr.ImpressionLog.open(engine, str(log))
        known = kr.open_groups(engine, str(groups))
        start = time.perf_counter()
        raw = engine.read("impressions", str(log)).get_name()
        query = f"SELECT `group`, count(*) AS n FROM {raw} WHERE {_WINDOW} GROUP BY 1"
        engine.run(f"SELECT count(*), max(n) FROM ({query})")
        bare = time.perf_counter() - start
        start = time.perf_counter()
        kr.measure_window(opened, known, _CAPS, **_ASKED).document()
        return {"seconds": time.perf_counter() - start, "bare": bare, "start": started}


def _spark_draws(rows: int, folder: Path) -> dict[str, Any]:
    """Bare count, report, computed and stored draws in one session, in turns, after a warm-up."""
    log, _, _, groups = _files(rows, folder)
    turns: dict[str, list[float]] = {way: [] for way in _DRAWN}
    with kr.SparkEngine("local[2]", memory="3g") as engine:
        known = kr.open_groups(engine, str(groups))
        raw = engine.read("impressions", str(log)).get_name()
        query = f"SELECT `group`, count(*) AS n FROM {raw} WHERE {_WINDOW} GROUP BY 1"
        opened, copy = (
            kr.ImpressionLog.open(engine, str(one)) for one in (log, _copy(rows, folder))
        )
        model = visit_model()

        def report(one: kr.ImpressionLog, with_model: VisitModel | None) -> None:
            kr.measure_window(one, known, _CAPS, model=with_model, **_ASKED).document()

        ways: dict[str, Callable[[], Any]] = {
            "bare": lambda: engine.run(f"SELECT count(*), max(n) FROM ({query})"),
            "plain": lambda: report(opened, None),
            "draws": lambda: report(opened, model),
            "stored": lambda: report(copy, model),
        }
        for at in range(_ROUNDS + 1):
            for way, measure in ways.items():
                start = time.perf_counter()
                measure()
                if at:
                    turns[way].append(time.perf_counter() - start)
    return {"turns": turns}


def _peak_kilobytes() -> int:
    """Of this process alone: `ru_maxrss` starts from what its parent had."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(one for one in status.read_text().splitlines() if one.startswith("VmHWM"))
        return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _work(name: str, rows: int, folder: Path) -> None:
    import_module("kreach.adsystem.reports.window")  # importing is not measured
    start = time.perf_counter()
    if name == "spark":
        found = _spark(rows, folder)
    elif name == "spark-draws":
        found = _spark_draws(rows, folder)
    else:
        told = _WORKERS[name](rows, folder)
        spent, note = (time.perf_counter() - start, told) if isinstance(told, str) else told
        found = {"seconds": spent, "note": note}
    found["peak_mb"] = _peak_kilobytes() / 1024
    print(json.dumps(found))


def _main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log", description=__doc__)
    parser.add_argument(
        "--rows",
        type=int,
        help=f"impressions in the largest log ({_ROWS:,}; with --draws {_DRAWS_ROWS:,})",
    )
    parser.add_argument("--folder", type=Path, help="where the logs are made and kept")
    parser.add_argument("--no-spark", action="store_true", help="leave Spark out")
    parser.add_argument("--draws", action="store_true", help="effective draws only")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.worker:
        _work(asked.worker, asked.rows, asked.folder)
        sys.stdout.flush()
        os._exit(0)  # a Java that is still closing must not count
    if asked.folder is not None:
        asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.draws:
        run_draws(asked.rows or _DRAWS_ROWS, asked.folder, spark=not asked.no_spark)
    else:
        run(asked.rows or _ROWS, asked.folder, spark=not asked.no_spark)


if __name__ == "__main__":
    _main(sys.argv[1:])
