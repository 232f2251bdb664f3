"""Seeded work on all cores. The result does not depend on the number of cores."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

import numpy as np

from kreach.boundary.checks import as_whole_number
from kreach.display.progress import time_left

__all__ = ["Progress", "generator_for", "run_trials", "silent"]

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress = Callable[[str], Any]


def silent(_: str) -> None:
    """No progress shown."""


def generator_for(seed: int, *place: int) -> np.random.Generator:
    """The random generator of one task. It depends only on the seed and the task's place."""
    return np.random.default_rng([seed, *place])


def run_trials(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    processes: int | None = None,
    progress: Progress = silent,
    what: str = "trials",
) -> list[Result]:
    """`work` on every task, results in the order of the tasks.

    Tasks carry their own seeds, so the result is the same to the last digit for any number of
    processes (default: one per core). `work` must be a function at the top of a module.
    """
    if processes is not None:
        processes = as_whole_number("processes", processes, minimum=1, maximum=1024)
    cores = processes or len(os.sched_getaffinity(0))
    results: list[Result] = []
    begun = time.monotonic()

    def report() -> None:
        left = time_left(len(results) / len(tasks), time.monotonic() - begun)
        progress(f"{what}: {len(results)} of {len(tasks)}{left}")

    if cores == 1 or len(tasks) <= 1:
        for task in tasks:
            results.append(work(task))
            report()
        return results
    with ProcessPoolExecutor(min(cores, len(tasks)), mp_context=get_context("spawn")) as pool:
        for result in pool.map(work, tasks):
            results.append(result)
            report()
    return results
