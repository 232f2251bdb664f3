"""Tables of all classes of group at one multiplier, and what they say of all groups together."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kreach.adsystem.bidding.class_probability import ClassProbability
from kreach.adsystem.bidding.conditions import GroupState
from kreach.adsystem.bidding.plan import Discounts
from kreach.numeric.gamma_factors import quick_gamma_factors
from kreach.numeric.plan_tables import PlanTable, TablePlaces, TrafficAverage
from kreach.numeric.planning import PlannedClass, Response, solve_plans
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["ClassGroups", "ClassTables", "solve_classes"]

_COLUMNS = 64
_MAX_STEPS = 96
_MAX_SAMPLES = 8  # of p in a block
_MIN_PASSING = 1e-6


class ClassGroups:
    """The groups of a state by class: the same for every multiplier that is tried."""

    def __init__(self, state: GroupState, class_of_kind: IntArray, more: float) -> None:
        """`more`: the chance that a request is followed by another of its session."""
        left = state.requests_left * (1.0 - more)
        number = class_of_kind[state.kind]
        most = np.zeros(len(class_of_kind))
        np.maximum.at(most, number, left)
        mine = np.flatnonzero(most[number] > 0.0)  # of classes with requests to come
        mine = mine[np.argsort(number[mine], kind="stable")]
        self.numbers, starts, counts = np.unique(
            number[mine], return_index=True, return_counts=True
        )
        self.evidence = state.evidence
        self.place = np.repeat(np.arange(len(self.numbers)), counts)  # in `numbers`, of each group
        self.left = left[mine]
        self.most = most[self.numbers]
        n = state.impressions[mine].astype(np.float64)
        if len(mine):
            self.first, self.last = np.minimum.reduceat(n, starts), np.maximum.reduceat(n, starts)
        else:
            self.first = self.last = np.zeros(0)
        self.beyond_first = n - self.first[self.place]
        self.furthest = self.most
        if np.isfinite(state.evidence):
            self.furthest = self.most * quick_gamma_factors(state.evidence * self.most).max(axis=1)


@dataclass(frozen=True)
class ClassTables:
    """Tables of the classes of some groups, in units of blocks: impressions and requests are both
    divided by `block`."""

    groups: ClassGroups
    tables: list[PlanTable]
    averages: list[TrafficAverage | None]  # over how many requests will come
    block: FloatArray

    @cached_property
    def spend(self) -> float:
        """What all groups together will spend."""
        return self._sum([table.spend for table in self.tables])

    @cached_property
    def value(self) -> float:
        """The value to come of all groups together."""
        return self._sum([table.value for table in self.tables])

    def discounts(self) -> list[Discounts]:
        """The factor for what comes later, class by class."""
        worths = self._averaged([table.worth for table in self.tables])
        rows = zip(worths, self.groups.first, self.block, self._row_requests, strict=True)
        return [Discounts.of(worth, *map(float, numbers)) for worth, *numbers in rows]

    @cached_property
    def _row_requests(self) -> FloatArray:
        """Requests of a row, by class: averaged tables end where most requests are expected."""
        steps = np.array([len(table.tau) - 1 for table in self.tables])
        result: FloatArray = self.groups.most / steps
        return result

    @cached_property
    def _places(self) -> TablePlaces:
        groups, place = self.groups, self.groups.place
        shapes = [table.worth.shape for table in self.tables]
        row = groups.left / self._row_requests[place]
        return TablePlaces(shapes, place, row, groups.beyond_first / self.block[place])

    def _sum(self, tables: list[FloatArray]) -> float:
        if not tables:
            return 0.0
        each = self._places.of(self._averaged(tables))
        # not `@`: for so many numbers it would wake the other threads of the linear algebra
        return float((each * self.block[self.groups.place]).sum())

    def _averaged(self, tables: list[FloatArray]) -> list[FloatArray]:
        pairs = zip(self.averages, tables, strict=True)
        return [table if average is None else average.of(table) for average, table in pairs]


def solve_classes(
    probability: ClassProbability,
    groups: ClassGroups,
    multiplier: float,
    response: Response,
    *,
    ahead: bool,
) -> ClassTables:
    """The tables at a multiplier.

    Classes with many impressions to come are solved in blocks of them, with p averaged over a
    block, in at most so many columns and steps.
    """
    start = probability.at(groups.numbers, groups.first)
    passed = probability.passing(groups.numbers, groups.first)
    if passed is not None:
        start = start / np.maximum(passed, _MIN_PASSING)
    max_wins = groups.furthest * response.win_and_cost(start / multiplier)[0]
    span = groups.last - groups.first + max_wins + 4.0 * np.sqrt(max_wins) + 4.0
    block = np.maximum(1.0, np.ceil(span / _COLUMNS))
    steps = np.clip(np.ceil(1.25 * max_wins / block), 12, _MAX_STEPS).astype(np.int64)
    # p is averaged over some impressions of each block, of all classes in one array
    columns = (np.ceil(span / block) + 1.0).astype(np.int64)
    samples = np.minimum(block, _MAX_SAMPLES).astype(np.int64)
    points, counts = [], (columns * samples).tolist()
    rows = zip(groups.first, block, columns.tolist(), samples.tolist(), strict=True)
    for first, size, width, taken in rows:
        inside = (np.arange(taken) + 0.5) * (size / taken) - 0.5
        points.append((first + (np.arange(width)[:, None] * size + inside)).ravel())
    number = np.repeat(groups.numbers, counts)
    n = np.concatenate(points) if points else np.zeros(0)
    p, a = probability.at(number, n), probability.passing(number, n)
    classes, low = [], 0
    for at, (count, taken) in enumerate(zip(counts, samples.tolist(), strict=True)):
        mine, low = slice(low, low + count), low + count
        classes.append(
            PlannedClass(
                p[mine].reshape(-1, taken).mean(axis=1),
                float(groups.furthest[at] / block[at]),
                int(steps[at]),
                None if a is None else a[mine].reshape(-1, taken).mean(axis=1),
            )
        )
    tables = solve_plans(classes, multiplier, response, ahead=ahead) if classes else []
    return ClassTables(groups, tables, _averages(groups, tables, block), block)


def _averages(
    groups: ClassGroups, tables: list[PlanTable], block: FloatArray
) -> list[TrafficAverage | None]:
    if not tables or not np.isfinite(groups.evidence):
        return [None] * len(tables)
    most = groups.most.tolist()
    rows = [np.linspace(0.0, left, len(t.tau)) for left, t in zip(most, tables, strict=True)]
    factors = quick_gamma_factors(groups.evidence * np.concatenate(rows))
    ends = np.cumsum([len(own) for own in rows])[:-1]
    return [
        TrafficAverage(table.tau * size, own, of_class)
        for table, size, own, of_class in zip(
            tables, block.tolist(), rows, np.split(factors, ends), strict=True
        )
    ]
