"""`kreach groups apply` beside a bare copy of the same file: time, and memory at its peak.

Each runs in a process of its own, because memory at its peak is a number of a process.
"""

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.timing import duration, print_table
from kreach.boundary.duckdb import new_engine
from kreach.publisher.apply import apply_groups
from kreach.publisher.build import BuildOptions, build_groups

__all__ = ["run"]

SIZES = ((1_000_000, 100_000), (10_000_000, 1_000_000))  # rows, users
_UNKNOWN = 20  # one user in so many is not in the build


def run() -> None:
    """Build groups, write logs, time both ways of copying them."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for count, users in SIZES:
            place = Path(folder) / str(count)
            place.mkdir()
            _write(place, count, users)
            copy = _alone(_copy, place)
            applied = _alone(_apply, place)
            rows.append(
                (
                    f"{count:,} rows of {users:,} users",
                    *(duration(copy[0]), f"{copy[1]:,.0f} MB"),
                    *(duration(applied[0]), f"{applied[1]:,.0f} MB"),
                    f"{applied[0] / copy[0]:.1f}",
                )
            )
    print_table(
        "A user-level log of five columns made group-level, beside a copy of the file",
        ("log", "copy", "peak", "apply", "peak", "times"),
        rows,
    )


def _write(place: Path, rows: int, users: int) -> None:
    """A log in order of time, and a build that knows most of its users."""
    engine = new_engine()
    user = f"'user-' || lpad((hash(i * 7) % {users})::VARCHAR, 9, '0')"
    engine.execute(
        f"""COPY (SELECT i AS impression_id, {user} AS user_id, 'c' || (i % 5) AS campaign,
        TIMESTAMP '2026-01-01' + to_microseconds(i * 100000) AS ts,
        (hash(i) % 1000) / 1000.0 AS price FROM range({rows}) t(i))
        TO '{place}/log.parquet' (FORMAT parquet)"""
    )
    engine.execute(
        f"""COPY (SELECT 'user-' || lpad(i::VARCHAR, 9, '0') AS user_id,
        TIMESTAMP '2026-01-01' + to_seconds(i) AS ts FROM range({users}) t(i)
        WHERE i % {_UNKNOWN} > 0) TO '{place}/visits.parquet' (FORMAT parquet)"""
    )
    options = BuildOptions(
        place / "visits.parquet", 20, "random", place / "groups", knowledge="none"
    )
    build_groups(options, datetime(2026, 1, 1, tzinfo=UTC), lambda _: None)


def _copy(place: Path) -> None:
    query = f"SELECT * FROM '{place}/log.parquet'"
    new_engine().execute(f"COPY ({query}) TO '{place}/copy.parquet' (FORMAT parquet)")


def _apply(place: Path) -> None:
    apply_groups(place / "groups", place / "log.parquet", place / "out.parquet")


def _alone(work: Callable[[Path], None], place: Path) -> tuple[float, float]:
    """Seconds and peak megabytes of a function in a new process."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measured, (work, place))


def _measured(work: Callable[[Path], None], place: Path) -> tuple[float, float]:
    new_engine().close()  # loading the library is not timed
    start = time.perf_counter()
    work(place)
    seconds = time.perf_counter() - start
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000.0
