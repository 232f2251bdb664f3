"""The impressions that a family's members have shown, and who is to hear of them.

A request counts for a member if its person is under the member's own caps *and* under the family's,
which count the impressions of all members. So a win of one member lowers the value of the group's
requests for all of them, at once. `FamilyExposure` has the family's impressions on one catalogue
and tells members of each other's; every member has a valuation that knows both its own impressions
and the family's:

    `StackedMember`   any caps, rolling ones too: exact under the model (numeric/nested.py)
    `BoardMember`     one cap each for all time, on the board: exact, as a number of impressions
                      that is worth the same at the member's own cap (`EquivalentImpressions`)
    `PooledVisitors`  with sessions, and an own cap that is not below the family's, so that only
                      the family's can bind: one filter over the wins of all members
    `MemberVisitors`  with sessions and an own cap below the family's: two filters, see there

Members may have different audiences: a person in a group sees the impressions of the group
whomever they target.
"""

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kreach.adsystem.bidding.recent_wins import DEFERRED_SECONDS
from kreach.adsystem.bidding.valuation import CapRule
from kreach.adsystem.measurement.visitor_filter import VisitorFilter
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["FamilyExposure", "FamilyFilter", "FamilyMember"]

_ENDLESS = float("inf")


@runtime_checkable
class FamilyMember(Protocol):
    """A valuation that hears of the impressions of its family's other members."""

    def sibling_won(self, group: int, now: float) -> None:
        """Another member won an impression of this group."""

    def sibling_reverted(self, group: int, won_at: float) -> None:
        """An impression that another member won was not shown after all."""

    def sibling_loaded(self, groups: IntArray, impressions: IntArray, draws: float) -> None:
        """Impressions of another member by group, each group once; `draws`: of an impression."""

    def left_by_family(self, now: float) -> float:
        """What the family's cap leaves of the value at the own cap alone, on average by group."""


class FamilyExposure:
    """The impressions of all members of a family on one catalogue.

    >>> import kreach as kr
    >>> audience = kr.Audience.disjoint([2])
    >>> family = FamilyExposure([kr.CapRule(2)], group_count=1)
    >>> from kreach.adsystem.bidding.family_members import StackedMember
    >>> spring, winter = (StackedMember(audience, [kr.CapRule(1)], family) for _ in range(2))
    >>> spring.record(group=0, now=0.0)
    >>> spring.record(group=0, now=0.0)
    >>> winter.probability(0, now=1.0)  # the person is not the one in four who saw both
    0.75
    >>> spring.probability(0, now=1.0)
    0.25
    """

    def __init__(self, rules: Sequence[CapRule], group_count: int) -> None:
        if not rules:
            raise KreachError.rule("rules", "hold at least one cap", "none")
        self.rules = tuple(sorted(rules, key=lambda rule: rule.span_seconds or _ENDLESS))
        self.counts = np.zeros(group_count, dtype=np.int64)
        self._members: list[FamilyMember] = []
        self._times: dict[int, list[float]] = {}  # in order; only where a cap rolls
        self._filters: dict[int, FamilyFilter] = {}

    @property
    def cap(self) -> int | None:
        """The cap for all time, if that is all there is."""
        return None if self.rolls else self.rules[0].limit

    @property
    def largest_cap(self) -> int:
        """The limit of the longest span."""
        return self.rules[-1].limit

    @cached_property
    def rolls(self) -> bool:
        """Whether impressions count for a time only."""
        return len(self.rules) > 1 or self.rules[0].span_seconds is not None

    def join(self, member: FamilyMember) -> None:
        """Add a member: it hears of impressions from now on."""
        self._members.append(member)

    def record(self, group: int, now: float, by: FamilyMember) -> None:
        """A member won an impression."""
        self.counts[group] += 1
        if self.rolls:
            insort(self._times.setdefault(group, []), now)
        for each in self._filters.values():
            each.won(group, now)
        for member in self._members:
            if member is not by:
                member.sibling_won(group, now)

    def revert(self, group: int, won_at: float, by: FamilyMember) -> None:
        """An impression that a member won was not shown after all."""
        self.counts[group] = max(self.counts[group] - 1, 0)
        times = self._times.get(group, [])
        if won_at in times:
            times.remove(won_at)
        for each in self._filters.values():
            each.revert(group, won_at)
        for member in self._members:
            if member is not by:
                member.sibling_reverted(group, won_at)

    def load(
        self, groups: IntArray, impressions: IntArray, by: FamilyMember, draws: float = 1.0
    ) -> None:
        """Add impressions of a member by group; `draws` is what an impression counts for."""
        groups, at = np.unique(groups, return_inverse=True)
        impressions = np.bincount(at, weights=impressions, minlength=len(groups)).astype(np.int64)
        self.counts[groups] += impressions
        for each in self._filters.values():
            each.load(groups, impressions * np.float64(draws))
        for member in self._members:
            if member is not by:
                member.sibling_loaded(groups, impressions, draws)

    def within(self, group: int, now: float, span: float) -> int:
        """The family's impressions of a group in a span; of all time where no cap rolls."""
        if not self.rolls:
            return int(self.counts[group])
        times = self._times.get(group)
        if not times:
            return 0
        longest = self.rules[-1].span_seconds
        if longest is not None:  # what no window holds any more is forgotten
            del times[: bisect_right(times, now - longest)]
        return len(times) - bisect_right(times, now - span)

    def filter_for(self, audience: DisjointAudience, model: VisitModel) -> "FamilyFilter":
        """The family's visitor filter for one audience, at the family's cap."""
        assert self.cap is not None
        if id(audience) not in self._filters:
            made = FamilyFilter(audience, model, self.cap)
            groups = np.flatnonzero(self.counts)
            made.load(groups, self.counts[groups].astype(np.float64))
            self._filters[id(audience)] = made
        return self._filters[id(audience)]


class FamilyFilter:
    """A visitor filter of the family's wins, which all members of an audience ask."""

    def __init__(self, audience: DisjointAudience, model: VisitModel, cap: int) -> None:
        self._draws = [0.0] * audience.group_count
        self.visitors = VisitorFilter(audience, model, [cap], draws=self._draws)
        self.visitors.hold_longer(DEFERRED_SECONDS)  # as long as any campaign's
        self._now = 0.0
        self._asked: tuple[int, float] | None = None
        self._answer = 0.0

    def won(self, group: int, now: float) -> None:
        self.visitors.won(group, now)
        self._asked = None

    def revert(self, group: int, won_at: float) -> None:
        try:
            self.visitors.revert(group, won_at)
        except KreachError:  # too long ago: its session is over
            self.visitors.drop_win(group, won_at)
        self._asked = None

    def load(self, groups: IntArray, draws: FloatArray) -> None:
        for group, more in zip(groups.tolist(), draws.tolist(), strict=True):
            self._draws[group] += more
            if self.visitors.holds(group):
                self.visitors.shift_held(group, more)

    def memory(self) -> dict[str, Any]:
        return self.visitors.memory()

    def remember(self, memory: Mapping[str, Any]) -> None:
        self.visitors.remember(memory)
        self.refresh()

    def refresh(self) -> None:
        """Make the tables anew, after something was remembered."""
        self.turn_to(self._now)

    def turn_to(self, now: float) -> None:
        """Have the tables of this time."""
        self._now = now
        self.visitors.kind_probability(now)

    def holds(self, group: int) -> bool:
        return self.visitors.holds(group)

    def draws(self, group: int) -> float:
        return self.visitors.draws(group)

    def fresh_value(self, group: int) -> float:
        return self.visitors.fresh_value(group)

    def value(self, group: int, now: float) -> float:
        """The value of a request at the family's cap alone; members ask about the same one."""
        if self._asked != (group, now):
            value = self.visitors.request(group, now)
            assert isinstance(value, float)  # there is one cap
            self._asked, self._answer = (group, now), value
        return self._answer
