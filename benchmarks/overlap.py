"""Mean and variance with overlapping groups: time for each pair of classes that share a group."""

import time

import numpy as np
import numpy.typing as npt

import kreach as kr
from benchmarks.timing import check_agreement, duration, print_table
from kreach.boundary.audience import OverlappingAudience
from kreach.boundary.checks import read_only

__all__ = ["run"]

_GROUP_SIZE = 20
_PARTITIONS = 3
_MEAN_IMPRESSIONS = 10
_CLASSES = (100_000, 300_000, 1_000_000)
_CAPS = (1, 3)
_REPEATS = 2
_CHECKED_CLASSES = 2_000
_CHECK_TRIALS = 20_000

Counts = npt.NDArray[np.int64]


def run() -> None:
    """Print times and time per pair, and how long it takes to read classes given as tuples."""
    generator = np.random.default_rng(5)
    _check(generator)
    audiences = {classes: _audience(classes, generator) for classes in _CLASSES}
    impressions = {
        classes: generator.poisson(_MEAN_IMPRESSIONS, audience.group_count)
        for classes, audience in audiences.items()
    }
    best: dict[tuple[int, int], tuple[float, float]] = {}
    for _ in range(_REPEATS):
        for classes, audience in audiences.items():
            for cap in _CAPS:
                times = _time(audience, impressions[classes], cap)
                before = best.get((classes, cap), times)
                best[classes, cap] = (min(before[0], times[0]), min(before[1], times[1]))
    first = {cap: sum(best[_CLASSES[0], cap]) / _pairs(_CLASSES[0]) for cap in _CAPS}
    print_table(
        f"Classes of one person in {_PARTITIONS} random groups of {_GROUP_SIZE} each",
        ("classes", "cap", "pairs", "mean", "variance", "both, a pair", "÷ smallest"),
        [
            (
                f"{classes:,}",
                str(cap),
                f"{_pairs(classes):,}",
                duration(mean),
                duration(variance),
                duration((mean + variance) / _pairs(classes)),
                f"{(mean + variance) / _pairs(classes) / first[cap]:.2f}",
            )
            for (classes, cap), (mean, variance) in sorted(best.items(), key=lambda item: item[0])
        ],
    )
    print(
        "  Pairs are counted in each group they share. A linear cost keeps the last column near 1\n"
        "  (larger arrays leave the caches, which costs a little); a quadratic one would end at 10."
    )
    _time_reading(audiences[_CLASSES[0]])


def _pairs(classes: int) -> int:
    return _PARTITIONS * classes * (_GROUP_SIZE - 1) // 2


def _audience(classes: int, generator: np.random.Generator) -> OverlappingAudience:
    """Everybody in one group of each of three random partitions, made from arrays directly."""
    groups = classes // _GROUP_SIZE
    columns = [
        partition * groups + generator.permutation(classes) // _GROUP_SIZE
        for partition in range(_PARTITIONS)
    ]
    return OverlappingAudience(
        read_only(np.full(_PARTITIONS * groups, _GROUP_SIZE)),
        read_only(np.stack(columns, axis=1)),
        read_only(np.ones(classes, dtype=np.int64)),
    )


def _time(audience: kr.Audience, impressions: Counts, cap: int) -> tuple[float, float]:
    report = kr.measure(audience, impressions, cap)
    start = time.perf_counter()
    _ = report.reach
    between = time.perf_counter()
    _ = report.variance
    return between - start, time.perf_counter() - between


def _time_reading(audience: OverlappingAudience) -> None:
    listed = [(tuple(groups), 1) for groups in audience.classes.tolist()]
    start = time.perf_counter()
    kr.Audience.overlapping(audience.group_sizes, listed)
    seconds = time.perf_counter() - start
    print(
        f"  Reading {len(listed):,} classes from tuples with Audience.overlapping: "
        f"{duration(seconds)} ({duration(seconds / len(listed))} a class), not in the table."
    )


def _check(generator: np.random.Generator) -> None:
    """On a small audience: Theorem 2 pair by pair for cap 1, simulation for every cap."""
    audience = _audience(_CHECKED_CLASSES, generator)
    impressions = generator.poisson(_MEAN_IMPRESSIONS, audience.group_count)
    unique = kr.measure(audience, impressions, 1)
    mean, variance = _theorem_2(audience.classes, impressions)
    check_agreement("mean at cap 1", unique.reach, mean, 1e-12)
    check_agreement("variance at cap 1", unique.variance, variance, 1e-9)
    for cap in _CAPS:
        report = kr.measure(audience, impressions, cap)
        samples = kr.sample_reach(audience, impressions, cap, _CHECK_TRIALS, seed=6)
        allowed = 4.0 * np.sqrt(2.0 / _CHECK_TRIALS)  # four standard errors of a sample variance
        check_agreement(
            f"variance, cap {cap}", samples.var(ddof=1), report.variance, float(allowed)
        )


def _theorem_2(classes: Counts, impressions: Counts) -> tuple[float, float]:
    """Mean and variance of unique reach over all pairs of users, as the paper writes them."""
    trials = impressions[classes].sum(axis=1)
    shared = np.zeros((len(classes), len(classes)))
    for column in classes.T:  # column p holds the groups of partition p, so only p meets p
        shared += np.where(column[:, None] == column, impressions[column], 0)
    alone = trials[:, None] + trials - 2.0 * shared
    stay = 1.0 - 1.0 / _GROUP_SIZE
    covariance = ((1.0 - 2.0 / _GROUP_SIZE) ** shared - stay ** (2.0 * shared)) * stay**alone
    missed = stay**trials
    np.fill_diagonal(covariance, (1.0 - missed) * missed)
    return float((1.0 - missed).sum()), float(covariance.sum())
