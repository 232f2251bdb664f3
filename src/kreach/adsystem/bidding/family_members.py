"""Members of a family without sessions: valued one by one, or on the board."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

import numpy as np

from kreach.adsystem.bidding.board import Board, BoardValuation
from kreach.adsystem.bidding.family import FamilyExposure
from kreach.adsystem.bidding.group_kinds import kind_probabilities
from kreach.adsystem.bidding.valuation import CapRule, StackedValuation
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.numeric.nested import open_share_in_family
from kreach.numeric.types import IntArray

__all__ = ["BoardMember", "EquivalentImpressions", "StackedMember"]

_ENDLESS = float("inf")
_SAMPLED_GROUPS = 200


class StackedMember(StackedValuation):
    """A member with any caps, beside any caps of its family: exact under the model.

    Requests are taken to be independent of each other, as for `StackedValuation`.

    >>> import kreach as kr
    >>> day, audience = 86_400.0, kr.Audience.disjoint([2])
    >>> family = FamilyExposure([kr.CapRule(1, span_seconds=day)], group_count=1)
    >>> spring, winter = (StackedMember(audience, [kr.CapRule(9)], family) for _ in range(2))
    >>> spring.record(group=0, now=0.0)
    >>> winter.probability(0, now=60.0), winter.probability(0, now=2 * day)
    (0.5, 1.0)
    """

    def __init__(
        self, audience: Audience, rules: Sequence[CapRule], family: FamilyExposure
    ) -> None:
        super().__init__(audience, rules)
        self._family = family
        self._in_window: dict[int, int] = {}  # own impressions that an own cap still sees
        limits = {rule.span_seconds or _ENDLESS: rule.limit for rule in family.rules}
        self._own_limits = dict(zip(self._spans, self._caps, strict=True))
        self._family_limits = limits
        self._boundaries = sorted({*self._own_limits, *limits})
        self._longest_of_family = max(limits)
        family.join(self)

    def count(self, group: int) -> int:
        return self._in_window.get(self._checked(group), 0)

    def counts(self, groups: IntArray | None = None) -> IntArray:
        counts = np.zeros(self._group_count, dtype=np.int64)
        for group, count in self._in_window.items():
            counts[group] = count
        return counts if groups is None else counts[groups]

    def probability(self, group: int, now: float) -> float:
        return self._in_all(group, *self._segments(group, now), self._family_limits)

    def _segments(self, group: int, now: float) -> tuple[list[int], list[int]]:
        """Impressions by segment of time: own, and of the others as far as a cap counts them."""
        shown = self._shown.get(self._checked(group)) or []
        if self._boundaries[-1] != _ENDLESS:
            del shown[: bisect_right(shown, now - self._boundaries[-1])]
        own, others, mine_before, rest_before = [], [], 0, 0
        for span in self._boundaries:
            mine = len(shown) - bisect_right(shown, now - span)
            rest = rest_before
            if span <= self._longest_of_family and (self._family.rolls or span == _ENDLESS):
                rest = max(self._family.within(group, now, span) - mine, rest_before)
            own.append(mine - mine_before)
            others.append(rest - rest_before)
            mine_before, rest_before = mine, rest
            if span == self._spans[-1]:
                self._in_window[group] = mine
        return own, others

    def _in_all(
        self, group: int, own: list[int], others: list[int], limits: Mapping[float, int]
    ) -> float:
        """The value with these impressions, and these limits of the family by span."""
        key = (self._kind(group), bool(limits), *own, *others)
        if key not in self._cache:
            share = open_share_in_family(
                own,
                others,
                [self._own_limits.get(span) for span in self._boundaries],
                [limits.get(span) for span in self._boundaries],
            )
            self._cache[key] = self.value_of(group, sum(own) + sum(others), share)
        return self._cache[key]

    def record(self, group: int, now: float) -> None:
        super().record(group, now)
        self._in_window[group] = self._in_window.get(group, 0) + 1
        self._family.record(group, now, self)

    def revert(self, group: int, won_at: float) -> None:
        super().revert(group, won_at)
        self._in_window[group] = max(self._in_window.get(group, 0) - 1, 0)
        self._family.revert(group, won_at, self)

    def left_by_family(self, now: float) -> float:
        both = alone = 0.0
        for group in _sampled(self._group_count):
            own, others = self._segments(group, now)
            both += self._in_all(group, own, others, self._family_limits)
            alone += self._in_all(group, own, [0] * len(own), {})
        return both / alone if alone > 0.0 else 1.0

    def sibling_won(self, group: int, now: float) -> None:
        """Nothing to do: the family has it."""

    def sibling_reverted(self, group: int, won_at: float) -> None:
        """Nothing to do: the family has it."""

    def sibling_loaded(self, groups: IntArray, impressions: IntArray, draws: float) -> None:
        """Nothing to do: the family has it."""


class EquivalentImpressions:
    """How many own impressions are worth what own and others' are together, one cap each.

    n with P(Bin(n) < c₁) = P(own < c₁ and all < c₂), in the measure of the group's kind. It lies
    between the own impressions and all of them: with c₁ ≥ c₂ it is all of them. Between whole
    numbers it is linear, as the board's tables are.

    >>> import kreach as kr
    >>> equivalent = EquivalentImpressions(kr.Audience.disjoint([2]), own_cap=1, family_cap=2)
    >>> equivalent(0, 1, 0)
    1.0
    >>> equivalent(0, 0, 2)  # P = 3/4 lies in the middle of 1 and 1/2
    0.5
    """

    def __init__(self, audience: DisjointAudience, own_cap: int, family_cap: int) -> None:
        self._own_cap, self._family_cap = own_cap, family_cap
        self._probability, _ = kind_probabilities(audience, min(own_cap, family_cap))
        self._first = [-1] * len(audience.kinds)  # a group of each kind
        of_group = audience.kinds.of_group
        for kind in range(len(audience.kinds)):
            self._first[kind] = 0 if of_group is None else int(np.argmax(of_group == kind))
        self._law = StackedValuation(audience, [CapRule(1)])
        self._known: dict[tuple[int, int, int], float] = {}
        self._values: dict[tuple[int, int, int], tuple[float, float]] = {}

    def __call__(self, kind: int, own: int, others: int) -> float:
        """The number for whole impressions."""
        if others == 0 or self._own_cap >= self._family_cap:
            return float(own + others)
        key = (kind, own, others)
        if key not in self._known:
            self._known[key] = self._solve(kind, own, others)
        return self._known[key]

    def between(self, kind: int, own: float, others: float) -> float:
        """The number for draws that are not whole: linear in each."""
        if self._own_cap >= self._family_cap:
            return own + others
        low, left = int(own), int(others)
        x, y = own - low, others - left
        value = (1.0 - x) * (1.0 - y) * self(kind, low, left)
        if x > 0.0:
            value += x * (1.0 - y) * self(kind, low + 1, left)
        if y > 0.0:
            value += (1.0 - x) * y * self(kind, low, left + 1)
        if x > 0.0 and y > 0.0:
            value += x * y * self(kind, low + 1, left + 1)
        return value

    def value(self, kind: int, own: int, others: int) -> float:
        """P(own < c₁ and all < c₂), for a request of a group of this kind."""
        share = open_share_in_family([own], [others], [self._own_cap], [self._family_cap])
        return self._law.value_of(self._first[kind], own + others, share)

    def left(self, kind_of_group: Sequence[int] | None, own: IntArray, every: IntArray) -> float:
        """Of the value at the own cap alone, what the family's cap leaves, on average by group."""
        both = alone = 0.0
        for group in _sampled(len(own)):
            kind = 0 if kind_of_group is None else kind_of_group[group]
            mine = int(own[group])
            others = max(int(every[group]) - mine, 0)
            key = (kind, mine, others)
            if key not in self._values:
                never = self._own_cap + mine + others + 1
                share = open_share_in_family([mine], [0], [self._own_cap], [never])
                self._values[key] = (
                    self.value(kind, mine, others),
                    self._law.value_of(self._first[kind], mine, share),
                )
            one, other = self._values[key]
            both, alone = both + one, alone + other
        return both / alone if alone > 0.0 else 1.0

    def _solve(self, kind: int, own: int, others: int) -> float:
        wanted = self.value(kind, own, others)
        low, high = own, own + others

        def at(count: int) -> float:
            return float(self._probability(kind, np.array([float(count)]))[0])

        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if at(middle) >= wanted else (low, middle)
        above, below = at(low), at(high)
        if above <= below:
            return float(low)
        return low + min(max((above - wanted) / (above - below), 0.0), 1.0)


class BoardMember(BoardValuation):
    """A member on the board, without sessions: the board counts equivalent impressions."""

    def __init__(
        self,
        board: Board,
        slot: int,
        audience: DisjointAudience,
        cap: int,
        family: FamilyExposure,
    ) -> None:
        super().__init__(board, slot)
        assert family.cap is not None
        self._family = family
        self._equivalent = EquivalentImpressions(audience, cap, family.cap)
        self._kind = audience.kind_numbers
        self._own = np.zeros(board.group_count, dtype=np.int64)
        self.pooled = cap >= family.cap  # only the family's cap can bind
        family.join(self)
        self._update(np.flatnonzero(family.counts))

    def record(self, group: int, now: float) -> None:
        self._own[group] += 1
        self._family.record(group, now, self)
        self._update_one(group)

    def revert(self, group: int, won_at: float) -> None:
        if self._own[group] > 0:
            self._own[group] -= 1
            self._family.revert(group, won_at, self)
            self._update_one(group)

    def load(self, groups: IntArray, impressions: IntArray) -> None:
        np.add.at(self._own, groups, impressions)
        self._family.load(groups, impressions, self)
        self._update(np.unique(groups))

    def sibling_won(self, group: int, now: float) -> None:
        self._update_one(group)

    def sibling_reverted(self, group: int, won_at: float) -> None:
        self._update_one(group)

    def sibling_loaded(self, groups: IntArray, impressions: IntArray, draws: float) -> None:
        self._update(groups)

    def left_by_family(self, now: float) -> float:
        return self._equivalent.left(self._kind, self._own, self._family.counts)

    def _update(self, groups: IntArray) -> None:
        for group in groups.tolist():
            self._update_one(group)

    def _update_one(self, group: int) -> None:
        own = int(self._own[group])
        kind = 0 if self._kind is None else self._kind[group]
        others = max(int(self._family.counts[group]) - own, 0)
        self._board.set_count(group, self.slot, self._equivalent(kind, own, others))


def _sampled(groups: int) -> range:
    """Some groups, at equal distances."""
    return range(0, groups, -(-groups // _SAMPLED_GROUPS) or 1)
