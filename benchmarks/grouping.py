"""Forming groups of 20 among up to a million people, beside k-means-constrained; the gateway."""

import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.timing import duration, print_table
from kreach.numeric.types import IntArray
from kreach.publisher.diversity_cost import rate_spread
from kreach.publisher.group_lookup import GroupLookup
from kreach.publisher.grouping import (
    Assignment,
    AtRandom,
    ByAttributes,
    ByRates,
    BySegments,
    Diverse,
    DiversityFloors,
    Overlapping,
    Strategy,
    form_groups,
)
from kreach.publisher.grouping.attributes import information_kept
from kreach.publisher.people import Attribute, People
from kreach.publisher.regrouping import regroup
from kreach.publisher.release import release

__all__ = ["run"]

_GROUP_SIZE = 20
_PEOPLE = (10_000, 100_000, 1_000_000)
_POINTS = (500, 1_000, 2_000, 4_000)
_NAMES = tuple(f"trait {i}" for i in range(10))
_CHURN = 0.05
_LOOKUPS = 200_000
_KEY = bytes(range(32))
_WITH_FLOORS = (100_000, 300_000, 1_000_000)
_FLOORS = {  # sensitive columns, and what every group must hold of them
    "l 3 of 20 regions": (("region",), DiversityFloors(3)),
    "l 2 of a condition that 4 % have": (("condition",), DiversityFloors(2)),
    "both": (("condition", "region"), DiversityFloors(2)),
    "t 0.3 of regions": (("region",), DiversityFloors(2, 1.0, 0.3)),
}


def run() -> None:
    """Print growth, the comparison with k-means-constrained, and what the gateway costs."""
    populations = {count: _population(count) for count in _PEOPLE}
    _growth(populations)
    _diversity()
    _beside_k_means()
    _gateway(populations[_PEOPLE[-1]])


def _population(count: int) -> People:
    """Ten attributes, five of numbers and five of categories from 2 to 1,000 values."""
    generator = np.random.default_rng(6)
    numbers = [generator.normal(size=count).round(2) for _ in range(5)]
    categories = [generator.zipf(1.6, count) % values for values in (2, 5, 20, 100, 1_000)]
    columns = zip(_NAMES, (*numbers, *categories), strict=True)
    traits = {name: Attribute.of(column) for name, column in columns}
    return People(generator.negative_binomial(0.6, 0.06, count), traits)


def _strategies() -> list[Strategy]:
    segments = ("trait 6", "trait 7", "trait 8")
    return [
        AtRandom(),
        ByRates(),
        BySegments(segments),
        BySegments(segments, by_rate=True),
        Overlapping(partitions=3, floor=10),
        ByAttributes(_NAMES),
    ]


def _growth(populations: dict[int, People]) -> None:
    rows = []
    for strategy in _strategies():
        rows += _grown(strategy.name, partial(_formed, strategy=strategy), populations)
    rows += _grown("a new version of random", _renewed, populations, prepare=_formed)
    print_table(
        f"Groups of at least {_GROUP_SIZE}, ten attributes; the new version has {_CHURN:.0%} of "
        "people replaced",
        ("strategy", "people", "best time", "a person", "÷ smallest", "peak memory", "a person"),
        rows,
    )
    print("  Memory is what the work allocates at its peak, without the population itself.")


def _diversity() -> None:
    """Diversity floors beside none, in turns: processor time, and what they cost."""
    rows = []
    for count in _WITH_FLOORS:
        people = _patients(count)
        for base in (ByRates(), BySegments(("country",), by_rate=True), ByAttributes(("age",))):
            strategies: dict[str, Strategy] = {"none": base}
            strategies |= {name: Diverse(base, *wanted) for name, wanted in _FLOORS.items()}
            best = dict.fromkeys(strategies, np.inf)
            formed = {}
            for _ in range(2):
                for name, strategy in strategies.items():
                    start = time.process_time()
                    formed[name] = _formed(people, strategy)
                    best[name] = min(best[name], time.process_time() - start)
            rows += [
                (
                    f"{base.name}, {name}",
                    f"{count:,}",
                    duration(best[name]),
                    duration(best[name] / count),
                    f"{groups.group_count:,}",
                    f"{groups.group_sizes.max()}",
                    f"{rate_spread(people.visits, groups.group_of()):.4f}",
                )
                for name, groups in formed.items()
            ]
    print_table(
        f"Groups of at least {_GROUP_SIZE} with diversity floors, in turns; processor time",
        ("strategy, floors", "people", "best time", "a person", "groups", "largest", "rate spread"),
        rows,
    )


def _patients(count: int) -> People:
    """A condition that 4 % have (five kinds), 20 regions that depend on the country, an age."""
    generator = np.random.default_rng(6)
    kinds = np.array(["none", "a", "b", "c", "d", "e"])
    condition = kinds[np.where(generator.random(count) < 0.04, generator.integers(1, 6, count), 0)]
    country = generator.zipf(1.5, count) % 5
    region = country * 4 + generator.zipf(2.0, count) % 4
    return People(
        generator.negative_binomial(0.6, 0.06, count),
        {
            "condition": Attribute.of(condition),
            "country": Attribute.of(country),
            "region": Attribute.of(np.array([f"r{i}" for i in range(20)])[region]),
            "age": Attribute.of(generator.integers(18, 80, count)),
        },
    )


def _formed(people: People, strategy: Strategy | None = None) -> Assignment:
    return form_groups(people, _GROUP_SIZE, strategy or AtRandom(), seed=1)


def _renewed(assignment: Assignment) -> Assignment:
    stays = np.random.default_rng(7).random(len(assignment.groups)) >= _CHURN
    return regroup(assignment, stays, int(np.count_nonzero(~stays)), seed=1).assignment


def _grown(
    name: str,
    work: Callable[[Any], Assignment],
    populations: dict[int, People],
    prepare: Callable[[People], Any] = lambda people: people,
) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    first = 0.0
    for count, people in populations.items():
        given = prepare(people)
        seconds = min(_seconds(work, given) for _ in range(3 if count < 1_000_000 else 2))
        memory = _peak_bytes(work, given)
        first = first or seconds / count
        rows.append(
            (
                name,
                f"{count:,}",
                duration(seconds),
                duration(seconds / count),
                f"{seconds / count / first:.2f}",
                f"{memory / 1e6:,.1f} MB",
                f"{memory / count:,.0f} B",
            )
        )
    return rows


def _seconds(work: Callable[[Any], Assignment], given: object) -> float:
    start = time.perf_counter()
    made = work(given)
    seconds = time.perf_counter() - start
    if made.group_sizes.min() < _GROUP_SIZE:
        raise RuntimeError(f"a group of {made.group_sizes.min()} came out")
    return seconds


def _peak_bytes(work: Callable[[Any], Assignment], given: object) -> int:
    tracemalloc.start()
    work(given)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def _beside_k_means() -> None:
    try:
        k_means: Any = import_module("k_means_constrained")
    except ImportError:
        print(
            "\nk-means-constrained is not installed, so it is not compared; "
            "`uv sync --group bench` installs it."
        )
        return
    rows = []
    for count in _POINTS:
        people = _population(count)
        points = np.stack([people.attribute(name).ranks() for name in _NAMES], axis=1)

        def clustered(points: Any = points, count: int = count) -> IntArray:
            model = k_means.KMeansConstrained(
                n_clusters=count // _GROUP_SIZE, size_min=_GROUP_SIZE, n_init=1, random_state=1
            )
            labels: IntArray = model.fit_predict(points).astype(np.int64)
            return labels

        def ours(people: People = people) -> IntArray:
            return _formed(people, ByAttributes(_NAMES)).group_of()

        for name, method in (("attributes", ours), ("k-means-constrained", clustered)):
            start = time.perf_counter()
            groups = method()
            seconds = time.perf_counter() - start
            kept = np.mean(list(information_kept(people, groups, _NAMES).values()))
            rows.append(
                (name, f"{count:,}", duration(seconds), duration(seconds / count), f"{kept:.1%}")
            )
    print_table(
        f"The same ten attributes as points, clusters of at least {_GROUP_SIZE}; one start",
        ("method", "people", "time", "a person", "information kept"),
        rows,
    )


def _gateway(people: People) -> None:
    assignment = _formed(people)
    made = release(
        people,
        assignment,
        key=_KEY,
        buyer="bench",
        version="v1",
        now=datetime(2026, 1, 1, tzinfo=UTC),
        knowledge="none",
    )
    ids = [f"user-{i:08}" for i in range(people.count)]
    tracemalloc.start()
    door = GroupLookup(made.catalogue, list(ids), made.group_indices, key=_KEY)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    picks = np.random.default_rng(8).integers(0, people.count, _LOOKUPS).tolist()
    rows = []
    for name, asked in (
        ("known users", [ids[i] for i in picks]),
        ("strangers", [f"stranger-{i}" for i in picks]),
    ):
        start = time.perf_counter()
        for user in asked:
            door.identify(user)
        seconds = (time.perf_counter() - start) / len(asked)
        rows.append((name, duration(seconds), f"{1.0 / seconds:,.0f}"))
    print_table(
        f"Gateway of {people.count:,} users, {peak / 1e6:,.0f} MB beside the ids themselves",
        ("look-ups of", "one", "a second"),
        rows,
    )
