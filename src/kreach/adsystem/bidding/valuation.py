"""What a request is worth in reach: the chance that it is from somebody still under every cap.

All valuations share the kernel of measurement. `record` when an impression is won, whether or not
it is confirmed yet (pending ones count); `revert` when it turns out not to have been shown.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeVar

import numpy as np

from kreach.adsystem.measurement.meter import ReachMeter
from kreach.adsystem.measurement.visitor_filter import VisitorFilter
from kreach.boundary.audience import Audience, DisjointAudience, ProfiledAudience
from kreach.boundary.checks import as_whole_number
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.exposure import binomial_law, exposure_law
from kreach.numeric.stacked import open_share
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["CapRule", "CapValuation", "StackedValuation", "Valuation", "VisitorValuation"]


Counts = TypeVar("Counts", IntArray, FloatArray)


class Valuation(Protocol):
    """Reach probability of requests, given what was won so far."""

    def probability(self, group: int, now: float) -> float:
        """p_t of a request of this group at this moment."""

    def record(self, group: int, now: float) -> None:
        """An impression of this group was won."""

    def revert(self, group: int, won_at: float) -> None:
        """The impression won at that moment was not shown after all."""

    def count(self, group: int) -> float:
        """Impressions of this group so far; effective draws if requests come in sessions."""

    def counts(self, groups: IntArray | None = None) -> IntArray | FloatArray:
        """The same of every group, or of the given ones."""


class CapValuation:
    """One cap for the whole flight, for any kind of audience (Theorem 4 and 6).

    >>> import kreach as kr
    >>> valuation = kr.CapValuation(kr.Audience.disjoint([2]), cap=1)
    >>> valuation.record(group=0, now=0.0)
    >>> valuation.probability(group=0, now=1.0)
    0.5
    """

    def __init__(self, audience: Audience, cap: int) -> None:
        self.cap = as_whole_number("cap", cap, minimum=1)
        self.meter = ReachMeter(audience, [self.cap])
        self.count = self.meter.count

    def __repr__(self) -> str:
        return f"CapValuation(cap={self.cap}, {self.meter!r})"

    def counts(self, groups: IntArray | None = None) -> IntArray:
        return _picked(self.meter.impressions_by_group, groups)

    def probability(self, group: int, now: float) -> float:
        return self.meter.reach_probability(group, self.cap)

    def record(self, group: int, now: float) -> None:
        self.meter.record(group)

    def revert(self, group: int, won_at: float) -> None:
        self.meter.revert(group)


class VisitorValuation:
    """One cap, with who has probably just been there: the visitor filter (`VisitorFilter`).

    A request soon after one that was won is probably the same person's. `count` is in effective
    draws, the expected number of the group's sessions that were won. `starts_seconds` is the time
    that `now` counts from, in seconds since 1970. Ask once per request, in any order of time.

    With `memory_seconds` the publisher drops bids for people whom it showed the ad `cap` times in
    that time; the value is then that of a bid which gets through.

    >>> import kreach as kr
    >>> from dataclasses import replace
    >>> flat = kr.VisitModel.flat(20)
    >>> model = replace(flat, gap_edges_seconds=(1800.0,), continuation_odds=[[9.0]])
    >>> valuation = kr.VisitorValuation(kr.Audience.disjoint([20]), 1, model)
    >>> first = valuation.probability(0, now=0.0)
    >>> valuation.record(0, now=0.0)
    >>> round(valuation.probability(0, now=60.0), 3)  # a minute later: most likely the same visitor
    0.095
    """

    def __init__(
        self,
        audience: Audience,
        cap: int,
        model: VisitModel,
        starts_seconds: float = 0.0,
        *,
        memory_seconds: float | None = None,
    ) -> None:
        self.cap = as_whole_number("cap", cap, minimum=1)
        self.meter = VisitorFilter(audience, model, [self.cap], memory_seconds=memory_seconds)
        self._starts = starts_seconds
        self.count = self.meter.draws

    def __repr__(self) -> str:
        return f"VisitorValuation(cap={self.cap}, {self.meter!r})"

    def counts(self, groups: IntArray | None = None) -> FloatArray:
        return _picked(self.meter.draws_by_group, groups)

    def probability(self, group: int, now: float) -> float:
        value = self.meter.request(group, self._starts + now)
        assert isinstance(value, float)  # there is one cap
        return value

    def passing(self, group: int) -> float:
        """The probability that the publisher did not drop a bid for the group's last request."""
        return self.meter.passing(group)

    def record(self, group: int, now: float) -> None:
        self.meter.won(group, self._starts + now)

    def revert(self, group: int, won_at: float) -> None:
        self.meter.revert(group, self._starts + won_at)


@dataclass(frozen=True)
class CapRule:
    """At most `limit` impressions within `span_seconds`; None for the whole flight.

    >>> import kreach as kr
    >>> kr.CapRule(limit=1, span_seconds=86_400.0), kr.CapRule(limit=3)
    (CapRule(limit=1, span_seconds=86400.0), CapRule(limit=3, span_seconds=None))
    """

    limit: int
    span_seconds: float | None = None

    def __post_init__(self) -> None:
        as_whole_number("limit", self.limit, minimum=1)
        if self.span_seconds is not None and not 0.0 < self.span_seconds < float("inf"):
            raise KreachError.rule("span_seconds", "be a number > 0, or None", self.span_seconds)


class StackedValuation:
    """Several rolling caps at once, exact under the model (numeric/stacked.py).

    Rules need a higher limit for a longer span; a rule that another makes redundant is refused,
    because it is more likely a mistake than a wish. A window covers (now − span, now].

    >>> import kreach as kr
    >>> rules = [kr.CapRule(1, span_seconds=86_400.0), kr.CapRule(3, span_seconds=7 * 86_400.0)]
    >>> valuation = kr.StackedValuation(kr.Audience.disjoint([2]), rules)
    >>> valuation.record(group=0, now=0.0)
    >>> valuation.probability(0, now=60.0), valuation.probability(0, now=90_000.0)
    (0.5, 1.0)
    """

    def __init__(self, audience: Audience, rules: Sequence[CapRule]) -> None:
        if not isinstance(audience, (DisjointAudience, ProfiledAudience)):
            raise KreachError.rule("audience", "have disjoint groups", type(audience).__name__)
        if not rules:
            raise KreachError.rule("rules", "hold at least one cap", "none")
        endless = float("inf")
        ordered = sorted(rules, key=lambda r: r.span_seconds or endless)
        for short, long in pairwise(ordered):
            if (short.span_seconds or endless) == (long.span_seconds or endless):
                raise KreachError.rule("rules", "have different spans", long)
            if short.limit >= long.limit:
                raise KreachError.rule("rules", "allow more in a longer span", long)
        self._caps = [rule.limit for rule in ordered]
        self._spans = [rule.span_seconds or endless for rule in ordered]
        self._profiles = audience if isinstance(audience, ProfiledAudience) else None
        self._kinds = audience.kinds if isinstance(audience, DisjointAudience) else None
        self._group_count = audience.group_count
        self._shown: dict[int, list[float]] = {}  # times of impressions, in order
        self._cache: dict[tuple[int, ...], float] = {}
        self._kind_of_group = None if self._kinds is None else self._kinds.of_group

    def __repr__(self) -> str:
        rules = zip(self._caps, self._spans, strict=True)
        listed = ", ".join(f"{cap} in {span:g} s" for cap, span in rules)
        return f"StackedValuation({listed})"

    def count(self, group: int) -> int:
        return len(self._shown.get(self._checked(group), ()))

    def counts(self, groups: IntArray | None = None) -> IntArray:
        counts = np.zeros(self._group_count, dtype=np.int64)
        for group, shown in self._shown.items():
            counts[group] = len(shown)
        return _picked(counts, groups)

    def probability(self, group: int, now: float) -> float:
        shown = self._shown.get(self._checked(group)) or []
        if self._spans[-1] != float("inf"):  # what no window holds any more is forgotten
            del shown[: bisect_right(shown, now - self._spans[-1])]
        inside = [len(shown) - bisect_right(shown, now - span) for span in self._spans]
        segments = tuple(
            here - before for here, before in zip(inside, (0, *inside[:-1]), strict=True)
        )
        key = (self._kind(group), *segments)
        if key not in self._cache:
            share = open_share(segments, self._caps)
            self._cache[key] = self.value_of(group, sum(segments), share)
        return self._cache[key]

    def record(self, group: int, now: float) -> None:
        insort(self._shown.setdefault(self._checked(group), []), now)

    def revert(self, group: int, won_at: float) -> None:
        shown = self._shown.get(self._checked(group), [])
        try:
            shown.remove(won_at)
        except ValueError:
            rule = "be the moment of a recorded impression"
            raise KreachError.rule("won_at", rule, won_at) from None

    def _checked(self, group: int) -> int:
        if not 0 <= group < self._group_count:
            raise KreachError.rule("group", f"be from 0 to {self._group_count - 1}", group)
        return group

    def _kind(self, group: int) -> int:
        if self._kinds is None:
            return group
        return 0 if self._kind_of_group is None else int(self._kind_of_group[group])

    def value_of(self, group: int, impressions: int, share_open: FloatArray) -> float:
        """Σ over members of E[share · 1{all caps open}], `share_open` by impressions seen."""
        top = len(share_open) - 1
        if self._kinds is not None:
            kinds, kind = self._kinds, self._kind(group)
            size, targeted, a = kinds.size[kind], kinds.targeted[kind], kinds.dispersion[kind]
            n = float(impressions)
            pmf = exposure_law(np.array([n]), np.array([size]), np.array([a]), top).pmf[0]
            visit = np.full(top + 1, 1.0 / size)
            if np.isfinite(a):
                visit = (a + np.arange(top + 1.0)) / (size * a + n)
            return float(targeted * (pmf * visit) @ share_open)
        shares = self._profiles.shares_of(group) if self._profiles is not None else np.zeros(0)
        pmf = binomial_law(np.full(len(shares), float(impressions)), shares, top).pmf
        return float(shares @ (pmf @ share_open))


def _picked(counts: Counts, groups: IntArray | None) -> Counts:
    return counts if groups is None else counts[groups]
