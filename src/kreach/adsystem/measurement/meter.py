"""Streaming reach: the paper's two streaming algorithms in one structure.

Winning a request raises expected reach by its reach probability p, so one running sum of p serves
measurement (Algorithm 1) and bidding (Algorithm 2). For disjoint groups p depends only on the kind
of group and its impressions so far: a table look-up. For overlapping groups an impression touches
the classes of its group and nothing else.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kreach.adsystem.measurement.baselines import EveryImpression
from kreach.adsystem.measurement.meter_display import MeterDisplay
from kreach.adsystem.measurement.probability import (
    profile_reach_probability,
    reach_probability,
)
from kreach.adsystem.measurement.running_sum import RunningSum
from kreach.boundary.audience import (
    Audience,
    DisjointAudience,
    OverlappingAudience,
    ProfiledAudience,
)
from kreach.boundary.checks import as_counts, as_whole_number, read_only
from kreach.errors import KreachError
from kreach.numeric.overlap import class_exposure_laws
from kreach.numeric.probability import group_reach_probability
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["ReachMeter"]

_MAX_PENDING = 4096
_MAX_COLUMNS = 1024
_FEW = 48  # below, impressions are quicker one by one


class ReachMeter(MeterDisplay):
    """Expected reach so far, at several caps, updated impression by impression.

    >>> meter = ReachMeter(Audience.disjoint([2, 2]), caps=[1, 2])
    >>> meter.record(0); meter.record(0)
    >>> meter.reach
    {1: 1.5, 2: 2.0}
    >>> meter.reach_probability(0, cap=1)
    0.25
    >>> meter.revert(0)
    >>> meter.reach
    {1: 1.0, 2: 1.0}
    """

    def __init__(self, audience: Audience, caps: Sequence[int]) -> None:
        if not isinstance(audience, Audience):
            raise KreachError.rule("audience", "be a kreach Audience", type(audience).__name__)
        try:
            listed = [as_whole_number("caps", cap, minimum=1) for cap in caps]
        except TypeError as error:
            raise KreachError.rule("caps", "be a list of caps", caps) from error
        if not listed or len(set(listed)) != len(listed):
            raise KreachError.rule("caps", "name at least one cap, each once", caps)
        self.audience = audience
        self._caps = tuple(listed)
        self._counts = np.zeros(audience.group_count, dtype=np.int64)
        self._pending: list[int] = []  # recorded, not yet in counts and sums
        state: _State
        if isinstance(audience, OverlappingAudience):
            state = _OverlappingState(audience, self._caps, self._counts)
        else:
            state = _DisjointState(audience, self._caps, self._counts)
        self._state = state

    @property
    def caps(self) -> tuple[int, ...]:
        """The caps that are measured."""
        return self._caps

    @property
    def reach(self) -> dict[int, float]:
        """Expected reach so far by cap; the same as `measure` on the impressions so far."""
        self._settle()
        return {cap: s.value for cap, s in zip(self._caps, self._state.sums, strict=True)}

    @property
    def impressions_by_group(self) -> IntArray:
        """Impressions so far (a read-only copy)."""
        self._settle()
        return read_only(self._counts.copy())

    def count(self, group: int) -> int:
        """Impressions of one group so far."""
        self._settle()
        return int(self._counts[self._checked(group)])

    def record(self, group: int) -> None:
        """Count one impression of a group.

        It is queued; the sums are updated when they are read, one by one for few impressions and
        in bulk for many.
        """
        if group.__class__ is not int or not 0 <= group < len(self._counts):
            group = self._checked(group)
        self._pending.append(group)
        if len(self._pending) >= _MAX_PENDING:
            self._settle()

    def revert(self, group: int) -> None:
        """Take one impression of a group back, as if it had not been recorded."""
        group = self._checked(group)
        self._settle()
        if self._counts[group] == 0:
            raise KreachError.rule("group", "have an impression to revert", group)
        self._state.revert_one(group)

    def record_many(self, groups: npt.ArrayLike) -> None:
        """Count many impressions at once: all of them, or none if one is not acceptable."""
        many = as_counts("groups", groups)
        if many.size and many.max() >= len(self._counts):
            at = int(many.argmax())
            raise KreachError.rule(f"groups[{at}]", self._range_rule(), int(many[at]))
        self._settle()
        self._add_many(many)

    def reach_probability(self, group: int, cap: int) -> float:
        """p_t: the chance that a request of this group reaches somebody under the cap."""
        group = self._checked(group)
        is_number = isinstance(cap, (int, np.integer)) and not isinstance(cap, bool)
        if not is_number or cap not in self._caps:
            rule = f"be one of the caps of this meter {list(self._caps)}"
            raise KreachError.rule("cap", rule, cap)
        self._settle()
        return self._state.probabilities(group)[self._caps.index(cap)]

    def _facts(self) -> dict[str, Any]:
        return {"groups": len(self._counts), "impressions": int(self.impressions_by_group.sum())}

    def _settle(self) -> None:
        """Bring counts and sums up to date."""
        if self._pending:
            pending, self._pending = self._pending, []
            if len(pending) < _FEW:
                for group in pending:
                    self._state.record_one(group)
            else:
                self._add_many(np.array(pending, dtype=np.int64))

    def _add_many(self, groups: IntArray) -> None:
        if 4 * len(groups) > len(self._counts):
            counts = np.bincount(groups, minlength=len(self._counts))
            touched = np.flatnonzero(counts)
            self._state.add(touched, counts[touched])
        elif len(groups):
            self._state.add(*np.unique(groups, return_counts=True))

    def _range_rule(self) -> str:
        return f"be a group from 0 to {len(self._counts) - 1}"

    def _checked(self, group: object) -> int:
        if isinstance(group, (int, np.integer)) and not isinstance(group, bool):
            number = int(group)
            if 0 <= number < len(self._counts):
                return number
        raise KreachError.rule("group", self._range_rule(), group)


class _State(Protocol):
    """Sums of one kind of audience; the counts it raises are the meter's own array."""

    sums: list[RunningSum]

    def record_one(self, group: int) -> None:
        """Raise count and sums by one impression."""

    def revert_one(self, group: int) -> None:
        """Lower count and sums by one impression."""

    def add(self, groups: IntArray, counts: IntArray) -> None:
        """Raise counts and sums by so many impressions of the given, distinct groups."""

    def probabilities(self, group: int) -> Sequence[float]:
        """p_t of a group, for each cap."""


class _KindTable:
    """p(n) for n = 0, 1, 2, ... of one kind of group, one value per cap, longer when needed."""

    def __init__(self, source: "_ProbabilitySource", caps: tuple[int, ...]) -> None:
        self._source = source
        self._caps = caps
        self._rows: list[tuple[float, ...]] = []
        self._reach = [np.zeros(1) for _ in caps]  # Σ_{m<n} p(m) for n = 0, 1, 2, ...

    def row(self, count: int) -> tuple[float, ...]:
        """p(count) for each cap."""
        if count >= len(self._rows):
            self._grow(count)
        return self._rows[count]

    def gains(self, before: IntArray, after: IntArray) -> list[float]:
        """How much reach grows, for each cap, when groups go from `before` to `after`."""
        most = int(after.max(initial=0))
        if most > len(self._rows):
            self._grow(most)
        return [float((reach[after] - reach[before]).sum()) for reach in self._reach]

    def _grow(self, count: int) -> None:
        start = len(self._rows)
        impressions = np.arange(start, max(count + 1, 2 * start, 16), dtype=np.float64)
        more = [self._source(impressions, cap) for cap in self._caps]
        self._rows.extend(zip(*(column.tolist() for column in more), strict=True))
        self._reach = [
            np.concatenate([reach, reach[-1] + np.cumsum(column)])
            for reach, column in zip(self._reach, more, strict=True)
        ]


class _DisjointState:
    """Groups that share nobody: p(n) is looked up in the table of the group's kind."""

    def __init__(self, audience: Audience, caps: tuple[int, ...], counts: IntArray) -> None:
        self._counts = counts
        self.sums = [RunningSum() for _ in caps]
        sources, self._kind_of_group = _probability_sources(audience)
        self._kinds = [_KindTable(source, caps) for source in sources]
        codes = self._kind_of_group
        self._codes = [0] * len(counts) if codes is None else codes.tolist()

    def record_one(self, group: int) -> None:
        for total, value in zip(self.sums, self.probabilities(group), strict=True):
            total.add(value)
        self._counts[group] += 1

    def revert_one(self, group: int) -> None:
        self._counts[group] -= 1
        for total, value in zip(self.sums, self.probabilities(group), strict=True):
            total.add(-value)

    def add(self, groups: IntArray, counts: IntArray) -> None:
        before = self._counts[groups]
        after = before + counts
        codes = None if self._kind_of_group is None else self._kind_of_group[groups]
        for code in range(1) if codes is None else np.unique(codes).tolist():
            here = slice(None) if codes is None else codes == code
            gains = self._kinds[code].gains(before[here], after[here])
            for total, value in zip(self.sums, gains, strict=True):
                total.add(value)
        self._counts[groups] = after

    def probabilities(self, group: int) -> Sequence[float]:
        return self._kinds[self._codes[group]].row(int(self._counts[group]))


class _ProbabilitySource(Protocol):
    def __call__(self, impressions: FloatArray, cap: int) -> FloatArray: ...


def _probability_sources(
    audience: Audience,
) -> tuple[list[_ProbabilitySource], IntArray | None]:
    """For each kind of group a function (impressions, cap) → p, and the kind of each group."""
    if isinstance(audience, EveryImpression):
        return [_certain], None
    if isinstance(audience, ProfiledAudience):
        profiles: list[_ProbabilitySource] = [
            partial(profile_reach_probability, audience.shares_of(j))
            for j in range(audience.group_count)
        ]
        return profiles, np.arange(audience.group_count)
    if isinstance(audience, DisjointAudience):
        kinds = audience.kinds
        sources: list[_ProbabilitySource] = [
            partial(_uniform, *kind)
            for kind in zip(kinds.size, kinds.targeted, kinds.dispersion, strict=True)
        ]
        return sources, kinds.of_group
    raise KreachError.rule("audience", "be a kreach Audience", type(audience).__name__)


def _uniform(
    size: float, targeted: float, dispersion: float, impressions: FloatArray, cap: int
) -> FloatArray:
    kind = (np.array([size]), np.array([targeted]), impressions, np.array([dispersion]))
    return group_reach_probability(*kind, cap)


def _certain(impressions: FloatArray, cap: int) -> FloatArray:
    return np.ones(len(impressions))


class _OverlappingState:
    """Membership classes: P(X = l) for l below the largest cap, a row per class.

    Caps above `_MAX_COLUMNS` have no columns: until a class has that many impressions everybody
    in it is under such a cap, and after that the classes are worked out anew at every step.
    """

    def __init__(
        self, audience: OverlappingAudience, caps: tuple[int, ...], counts: IntArray
    ) -> None:
        self._audience = audience
        self._caps, self._counts = caps, counts
        self.sums = [RunningSum() for _ in caps]
        self._classes = audience.classes
        self._sizes = audience.group_sizes.astype(np.float64)
        self._heads = audience.headcounts.astype(np.float64)
        self._width = min(max(caps), _MAX_COLUMNS)
        self._pmf = np.zeros((len(audience.classes), self._width))
        self._pmf[:, 0] = 1.0
        row, column = np.nonzero(audience.classes >= 0)
        group = audience.classes[row, column]
        order = np.argsort(group, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=audience.group_count))
        self._rows_of_group = np.split(row[order], ends[:-1]) if len(ends) else []
        self._heads_of_group = [
            self._heads[rows] / size
            for rows, size in zip(self._rows_of_group, self._sizes.tolist(), strict=True)
        ]

    def record_one(self, group: int) -> None:
        for total, value in zip(self.sums, self.probabilities(group), strict=True):
            total.add(value)
        rows = self._rows_of_group[group]
        pmf = self._pmf[rows]
        moving = pmf / self._sizes[group]  # one more Bernoulli trial
        pmf -= moving
        pmf[:, 1:] += moving[:, :-1]
        self._pmf[rows] = pmf
        self._counts[group] += 1

    def revert_one(self, group: int) -> None:
        self._counts[group] -= 1
        self._refresh(self._rows_of_group[group])
        for total, value in zip(self.sums, self.probabilities(group), strict=True):
            total.add(-value)

    def add(self, groups: IntArray, counts: IntArray) -> None:
        served = np.zeros(len(self._counts), dtype=np.bool_)
        served[groups] = True
        touched = ((self._classes >= 0) & served[self._classes]).any(axis=1)
        rows = np.flatnonzero(touched)
        before = self._reaches(rows)
        self._counts[groups] += counts
        self._refresh(rows)
        for total, old, new in zip(self.sums, before, self._reaches(rows), strict=True):
            total.add(new - old)

    def probabilities(self, group: int) -> Sequence[float]:
        """Σ over classes of (h/k)·P(X < cap), for each cap."""
        heads, rows = self._heads_of_group[group], self._rows_of_group[group]
        below = np.cumsum(heads @ self._pmf[rows]).tolist()
        return [
            below[cap - 1] if cap <= self._width else self._below_high_cap(group, cap)
            for cap in self._caps
        ]

    def _below_high_cap(self, group: int, cap: int) -> float:
        classes = self._classes[self._rows_of_group[group]]
        trials = np.where(classes >= 0, self._counts[classes], 0).sum(axis=1)
        if trials.max(initial=0) < cap:
            return float(self._heads_of_group[group].sum())
        return float(reach_probability(self._audience, self._counts, cap)[group])

    def _refresh(self, rows: IntArray) -> None:
        """The laws of some classes from their impression counts, without accumulated rounding."""
        if rows.size:
            law, row = class_exposure_laws(
                self._classes[rows], self._sizes, self._counts, self._width - 1
            )
            self._pmf[rows] = law.pmf[row]

    def _reaches(self, rows: IntArray) -> list[float]:
        """Σ h·E[min(X, c)] over some classes, for each cap."""
        if rows.size == 0:
            return [0.0] * len(self._caps)
        classes = self._classes[rows]
        most = int(np.where(classes >= 0, self._counts[classes], 0).sum(axis=1).max())
        top = max(min(max(self._caps), most) - 1, 0)
        law, row = class_exposure_laws(classes, self._sizes, self._counts, top)
        heads = np.bincount(row, weights=self._heads[rows], minlength=len(law.tail))
        return [float(heads @ law.capped_mean(min(cap, top + 1))) for cap in self._caps]
