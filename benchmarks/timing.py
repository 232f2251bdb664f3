"""Time functions in turns and print the results."""

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

import kreach as kr

__all__ = [
    "DisagreementError",
    "Timing",
    "busy_seconds",
    "check_agreement",
    "cpu_seconds",
    "duration",
    "machine_facts",
    "memory_megabytes",
    "print_table",
    "race",
    "race_prepared",
]

Result = TypeVar("Result")


class DisagreementError(RuntimeError):
    """Two methods that should give the same number did not: their times mean nothing."""


@dataclass(frozen=True)
class Timing(Generic[Result]):
    """The best time of a function, and what it returned."""

    seconds: float
    result: Result


def race(
    contestants: Mapping[str, Callable[[], Result]], repeats: int
) -> dict[str, Timing[Result]]:
    """Run every function `repeats` times, in turns, and keep the best time of each.

    In turns, because a machine that is slow for a second should be slow for all of them.
    """
    return race_prepared({name: partial(_ready, f) for name, f in contestants.items()}, repeats)


def race_prepared(
    contestants: Mapping[str, Callable[[], Callable[[], Result]]], repeats: int
) -> dict[str, Timing[Result]]:
    """The same for functions that need something fresh: what prepares them is not timed."""
    best: dict[str, Timing[Result]] = {}
    for _ in range(repeats):
        for name, prepare in contestants.items():
            function = prepare()
            start = time.perf_counter()
            result = function()
            seconds = time.perf_counter() - start
            if name not in best or seconds < best[name].seconds:
                best[name] = Timing(seconds, result)
    return best


def _ready(function: Callable[[], Result]) -> Callable[[], Result]:
    return function


def check_agreement(
    what: str, ours: npt.ArrayLike, theirs: npt.ArrayLike, relative: float
) -> float:
    """The largest relative difference; raises if it is above `relative`."""
    mine, other = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    scale = np.maximum(np.abs(other), 1e-300)
    worst = float(np.max(np.abs(mine - other) / scale, initial=0.0))
    if not worst <= relative:
        raise DisagreementError(f"{what}: methods differ by {worst:.2g}, allowed is {relative:.2g}")
    return worst


def duration(seconds: float) -> str:
    """A time with a unit that suits it."""
    if seconds >= 120.0:
        return f"{seconds / 60.0:.3g} min"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table in plain text: the first column to the left, the others to the right."""
    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    print(f"\n{title}")
    for line in (header, ["-" * width for width in widths], *rows):
        first, *others = line
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        print("  " + "  ".join(cells).rstrip())


def memory_megabytes(pid: int) -> float:
    """Resident memory of a process (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, without its children's (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_seconds() -> tuple[float, float]:
    """CPU time of all processes so far, and what the host took from this machine (Linux)."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _, _, irq, softirq, steal = ticks
    hertz = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / hertz, steal / hertz


def machine_facts() -> str:
    """What the times depend on, in one line."""
    return (
        f"kreach {kr.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    )
