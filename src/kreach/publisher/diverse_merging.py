"""Diversity floors for groups that stay: those that break one are merged whole with others.

People come and go, and a group that held the floors may not hold them any longer. Dealing its
people out again, as a build does, would single out whoever moves. Merging two groups moves nobody
alone, and what is merged is never less diverse than the worse of the two (grouping/diversity.py).
"""

import heapq

import numpy as np

from kreach.numeric.types import BoolArray, FloatArray, IntArray
from kreach.publisher.grouping.diversity import DiversityFloors, GroupDiversity, SensitiveValues
from kreach.publisher.grouping.spreading import (
    MAX_GROWTH,
    DiversityRefused,
    diversity_refusal,
    refuse_impossible,
)
from kreach.publisher.people import People

__all__ = ["DiverseMerging"]

_TRIED = 48  # partners of the same cell that are tried for a group,
_TRIED_ELSEWHERE = 16  # and of other cells
_ADVICE = (
    f"groups may grow to {MAX_GROWTH} times what every group must have; form groups anew, with "
    "more people, a lower floor or coarser values"
)


class DiverseMerging:
    """The diversity floors of some people's sensitive columns."""

    def __init__(self, people: People, sensitive: tuple[str, ...], floors: DiversityFloors) -> None:
        self._names, self._floors = sensitive, floors
        self._columns = [SensitiveValues(people.attribute(name)) for name in sensitive]
        refuse_impossible(sensitive, self._columns, floors)

    def hold(self, group_of: IntArray, members: IntArray | None = None) -> BoolArray:
        """Whether each of the groups 0..M−1 holds the floors of every column."""
        seen = self._seen(group_of, members)
        hold: BoolArray = np.all([self._floors.hold(column) for column in seen], axis=0)
        return hold

    def merge(
        self, groups: IntArray, counts: BoolArray, cell_of_group: IntArray, min_counted: int
    ) -> int:
        """Merge groups until all hold the floors, or refuse; how many merges it took.

        `groups` is changed in place. The smallest group that breaks a floor is merged first: with
        another such group if both together hold the floors, else with the smallest group of its
        cell that makes them hold, then with one of another cell. If no single one does, with the
        one that comes nearest.
        """
        merging = _Merging(self, groups, counts, cell_of_group, MAX_GROWTH * min_counted)
        queue = [(len(merging.members[at]), at) for at in np.flatnonzero(merging.broken).tolist()]
        heapq.heapify(queue)
        merges = 0
        while queue:
            _, group = heapq.heappop(queue)
            if not merging.broken[group]:
                continue
            merged = merging.merge(group)
            merges += 1
            if merging.broken[merged]:
                heapq.heappush(queue, (len(merging.members[merged]), merged))
        groups[:] = merging.group_of()
        return merges

    def unions(self, one: IntArray, others: list[IntArray]) -> FloatArray:
        """How far one group is from the floors together with each of some others; 0 holds them."""
        sizes = np.array([len(one) + len(other) for other in others])
        members = np.concatenate([part for other in others for part in (one, other)])
        seen = self._seen(np.repeat(np.arange(len(others)), sizes), members)
        floors, lacking = self._floors, np.zeros(len(others))
        for column in seen:
            short = np.maximum(1.0 - column.distinct / floors.min_l, 0.0)
            short += np.maximum(1.0 - column.entropy_l / floors.min_entropy_l, 0.0)
            short += np.maximum(column.t - floors.max_t, 0.0)
            lacking += np.where(floors.hold(column), 0.0, np.maximum(short, 1e-12))
        return lacking

    def refusal(self, members: IntArray) -> DiversityRefused:
        """Why this group cannot hold the floors."""
        seen = self._seen(np.zeros(len(members), dtype=np.int64), members)
        return diversity_refusal(self._names, seen, self._floors, _ADVICE)

    def _seen(self, group_of: IntArray, members: IntArray | None) -> list[GroupDiversity]:
        return [column.in_groups(group_of, members) for column in self._columns]


class _Merging:
    """Groups while they are merged, by their place among those that have members."""

    def __init__(
        self,
        floors: DiverseMerging,
        groups: IntArray,
        counts: BoolArray,
        cell_of_group: IntArray,
        max_counted: int,
    ) -> None:
        self._floors, self._max_counted = floors, max_counted
        self._label, place = np.unique(groups, return_inverse=True)
        self._people = len(groups)
        self._cell = cell_of_group[self._label]
        self._counted = np.bincount(place, weights=counts)
        self._sizes = np.bincount(place)
        self._alive = np.ones(len(self._label), dtype=np.bool_)
        order = np.argsort(place, kind="stable")
        self.members = np.split(order, np.cumsum(self._sizes)[:-1])
        self.broken = ~floors.hold(place)

    def merge(self, group: int) -> int:
        """Merge a group with its best partner; the place of both, that of the larger one."""
        partners = self._partners(group)
        if not partners:
            raise self._floors.refusal(self.members[group])
        lacking = self._floors.unions(self.members[group], [self.members[at] for at in partners])
        best = int(np.argmin(lacking))  # the first of equals
        partner = partners[best]
        gone, into = sorted((group, partner), key=lambda at: (self._sizes[at], at))
        self.members[into] = np.concatenate([self.members[into], self.members[gone]])
        for total in (self._counted, self._sizes):
            total[into] += total[gone]
        self._alive[gone] = self.broken[gone] = False
        self.broken[into] = lacking[best] > 0.0
        return into

    def _partners(self, group: int) -> list[int]:
        """Groups to try, in order of preference; they would not make a group too large."""
        fits = self._alive & (self._counted + self._counted[group] <= self._max_counted)
        fits[group] = False
        here = self._cell == self._cell[group]
        order = np.lexsort((self._sizes, ~self.broken))
        same, other = order[(fits & here)[order]], order[(fits & ~here)[order]]
        return [*same[:_TRIED].tolist(), *other[:_TRIED_ELSEWHERE].tolist()]

    def group_of(self) -> IntArray:
        """The group of everybody, as they were numbered before."""
        groups = np.empty(self._people, dtype=np.int64)
        for at in np.flatnonzero(self._alive).tolist():
            groups[self.members[at]] = self._label[at]
        return groups
