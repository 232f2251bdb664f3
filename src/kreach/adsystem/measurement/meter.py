"""Reach as a running number: the paper's two streaming algorithms in one structure.

Winning a request raises expected reach by its reach probability p, so one running sum of p serves
measurement (Algorithm 1) and bidding (Algorithm 2). For disjoint groups p depends only on the kind
of group and its impressions so far: a table look-up. For overlapping groups an impression touches
the classes of its group and nothing else.
"""

from array import array
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kreach.adsystem.measurement.baselines import EveryImpression
from kreach.adsystem.measurement.probability import profile_reach_probability
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


class ReachMeter:
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
            listed = [as_whole_number("caps", cap, least=1) for cap in caps]
        except TypeError as error:
            raise KreachError.rule("caps", "be a list of caps", caps) from error
        if not listed or len(set(listed)) != len(listed):
            raise KreachError.rule("caps", "name at least one cap, each once", caps)
        self.audience = audience
        self._caps = tuple(listed)
        self._counts = array("q", bytes(8 * audience.group_count))
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
        return dict(zip(self._caps, self._state.totals(), strict=True))

    @property
    def impressions_by_group(self) -> IntArray:
        """Impressions so far (a read-only copy)."""
        return read_only(np.array(self._counts, dtype=np.int64))

    def record(self, group: int) -> None:
        """Count one impression of a group. O(caps) for disjoint groups."""
        if group.__class__ is not int or not 0 <= group < len(self._counts):
            group = self._checked(group)
        self._state.record(group)

    def revert(self, group: int) -> None:
        """Take one impression of a group back, as if it had not been recorded."""
        group = self._checked(group)
        if self._counts[group] == 0:
            raise KreachError.rule("group", "have an impression to revert", group)
        self._state.revert(group)

    def record_many(self, groups: npt.ArrayLike) -> None:
        """Count many impressions at once: all of them, or none if one is not acceptable."""
        many = as_counts("groups", groups)
        if many.size and many.max() >= len(self._counts):
            at = int(many.argmax())
            raise KreachError.rule(f"groups[{at}]", self._range_rule(), int(many[at]))
        if many.size:
            self._state.add(np.bincount(many, minlength=len(self._counts)))

    def reach_probability(self, group: int, cap: int) -> float:
        """p_t: the chance that a request of this group reaches somebody under the cap."""
        group = self._checked(group)
        if cap not in self._caps:
            rule = f"be one of the caps of this meter {list(self._caps)}"
            raise KreachError.rule("cap", rule, cap)
        return self._state.probability(group, self._caps.index(cap))

    def _range_rule(self) -> str:
        return f"be a group from 0 to {len(self._counts) - 1}"

    def _checked(self, group: object) -> int:
        if isinstance(group, (int, np.integer)) and not isinstance(group, bool):
            number = int(group)
            if 0 <= number < len(self._counts):
                return number
        raise KreachError.rule("group", self._range_rule(), group)


class _State(Protocol):
    def totals(self) -> list[float]: ...
    def record(self, group: int) -> None: ...
    def revert(self, group: int) -> None: ...
    def add(self, counts: IntArray) -> None: ...
    def probability(self, group: int, cap_index: int) -> float: ...


class _RunningSums:
    """One sum per cap that does not drift: the rounding of each addition is kept beside it."""

    def __init__(self, count: int) -> None:
        self.sums = [0.0] * count
        self.lost = [0.0] * count

    def add(self, at: int, value: float) -> None:
        before = self.sums[at]
        after = before + value
        self.lost[at] += value - (after - before)
        self.sums[at] = after

    def totals(self) -> list[float]:
        # what is left after everything has been reverted is rounding, never negative reach
        return [max(0.0, s + lost) for s, lost in zip(self.sums, self.lost, strict=True)]


class _KindTables:
    """p(n) for n = 0, 1, 2, ... of one kind of group, one list per cap, longer when needed."""

    def __init__(self, source: "_ProbabilitySource", caps: tuple[int, ...]) -> None:
        self._source = source
        self._caps = caps
        self.values: list[list[float]] = [[] for _ in caps]
        self._cumulative: list[FloatArray] = [np.zeros(1) for _ in caps]

    def grow(self, count: int) -> None:
        """Make p(count) available."""
        start = len(self.values[0])
        stop = max(count + 1, 2 * start, 16)
        impressions = np.arange(start, stop, dtype=np.float64)
        for index, cap in enumerate(self._caps):
            more = self._source(impressions, cap)
            self.values[index].extend(more.tolist())
            reached = self._cumulative[index]
            self._cumulative[index] = np.concatenate([reached, reached[-1] + np.cumsum(more)])

    def reach(self, cap_index: int, counts: IntArray) -> FloatArray:
        """Expected reach of groups with so many impressions: Σ_{m<n} p(m)."""
        most = int(counts.max(initial=0))
        if most >= len(self._cumulative[cap_index]):
            self.grow(most)
        return self._cumulative[cap_index][counts]


class _ProbabilitySource(Protocol):
    def __call__(self, impressions: FloatArray, cap: int) -> FloatArray: ...


class _DisjointState:
    """Groups that share nobody: tables of p(n), one per kind of group."""

    def __init__(self, audience: Audience, caps: tuple[int, ...], counts: "array[int]") -> None:
        self._counts = counts
        self._view = np.frombuffer(counts, dtype=np.int64) if len(counts) else np.zeros(0, np.int64)
        kinds, self._kind_of_group = _probability_sources(audience)
        self._kinds = [_KindTables(source, caps) for source in kinds]
        codes = [0] * len(counts) if self._kind_of_group is None else self._kind_of_group.tolist()
        self._tables = [self._kinds[code] for code in codes]
        self._running = _RunningSums(len(caps))
        self.totals = self._running.totals

    def record(self, group: int) -> None:
        count = self._counts[group]
        table = self._tables[group]
        running = self._running
        values = table.values
        if count >= len(values[0]):
            table.grow(count)
        sums, lost = running.sums, running.lost
        for at, column in enumerate(values):
            value = column[count]
            before = sums[at]
            after = before + value
            lost[at] += value - (after - before)
            sums[at] = after
        self._counts[group] = count + 1

    def revert(self, group: int) -> None:
        count = self._counts[group] - 1
        for at, column in enumerate(self._tables[group].values):
            self._running.add(at, -column[count])
        self._counts[group] = count

    def add(self, counts: IntArray) -> None:
        touched = np.flatnonzero(counts)
        before = self._view[touched]
        after = before + counts[touched]
        codes = self._kind_of_group
        for code, table in enumerate(self._kinds):
            here = slice(None) if codes is None else codes[touched] == code
            if after[here].size:
                table.reach(0, after[here])  # grows the tables of every cap
                for at in range(len(self._running.sums)):
                    gain = table.reach(at, after[here]) - table.reach(at, before[here])
                    self._running.add(at, float(gain.sum()))
        self._view[touched] = after

    def probability(self, group: int, cap_index: int) -> float:
        count = self._counts[group]
        table = self._tables[group]
        if count >= len(table.values[0]):
            table.grow(count)
        return table.values[cap_index][count]


def _probability_sources(
    audience: Audience,
) -> tuple[list[_ProbabilitySource], IntArray | None]:
    """For each kind of group a function (impressions, cap) → p, and the kind of each group."""
    if isinstance(audience, EveryImpression):
        return [lambda impressions, cap: np.ones(len(impressions))], None
    if isinstance(audience, ProfiledAudience):
        profiles: list[_ProbabilitySource] = [
            _profile_source(audience.shares_of(j)) for j in range(audience.group_count)
        ]
        return profiles, np.arange(audience.group_count)
    if isinstance(audience, DisjointAudience):
        kinds = audience.kinds
        sources: list[_ProbabilitySource] = [
            _uniform_source(*kind)
            for kind in zip(kinds.size, kinds.targeted, kinds.dispersion, strict=True)
        ]
        return sources, kinds.of_group
    raise KreachError.rule("audience", "be a kreach Audience", type(audience).__name__)


def _uniform_source(size: float, targeted: float, dispersion: float) -> _ProbabilitySource:
    def source(impressions: FloatArray, cap: int) -> FloatArray:
        kind = (np.array([size]), np.array([targeted]), impressions, np.array([dispersion]))
        return group_reach_probability(*kind, cap)

    return source


def _profile_source(shares: FloatArray) -> _ProbabilitySource:
    def source(impressions: FloatArray, cap: int) -> FloatArray:
        return profile_reach_probability(shares, impressions, cap)

    return source


class _OverlappingState:
    """Membership classes: P(X = l) for l below the largest cap, a row per class."""

    def __init__(
        self, audience: OverlappingAudience, caps: tuple[int, ...], counts: "array[int]"
    ) -> None:
        self._counts = counts
        self._view = np.frombuffer(counts, dtype=np.int64) if len(counts) else np.zeros(0, np.int64)
        self._audience = audience
        self._sizes = audience.group_sizes.astype(np.float64)
        self._heads = audience.headcounts.astype(np.float64)
        self._caps = caps
        self._pmf = np.zeros((len(audience.classes), max(caps)))
        self._pmf[:, 0] = 1.0
        row, column = np.nonzero(audience.classes >= 0)
        group = audience.classes[row, column]
        order = np.argsort(group, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=audience.group_count))
        self._rows_of_group = np.split(row[order], ends[:-1]) if len(ends) else []
        self._running = _RunningSums(len(caps))
        self.totals = self._running.totals

    def record(self, group: int) -> None:
        rows = self._rows_of_group[group]
        pmf = self._pmf[rows]
        self._change(group, pmf, +1.0)
        p = 1.0 / self._sizes[group]
        pmf[:, 1:] = pmf[:, 1:] * (1.0 - p) + pmf[:, :-1] * p  # one more Bernoulli trial
        pmf[:, 0] *= 1.0 - p
        self._pmf[rows] = pmf
        self._counts[group] += 1

    def revert(self, group: int) -> None:
        self._counts[group] -= 1
        rows = self._rows_of_group[group]
        self._refresh(rows)
        self._change(group, self._pmf[rows], -1.0)

    def add(self, counts: IntArray) -> None:
        before = self._reaches()
        self._view[:] += counts
        touched = np.zeros(len(self._pmf), dtype=np.bool_)
        for column in self._audience.classes.T:
            touched |= (column >= 0) & (counts[column] > 0)
        self._refresh(np.flatnonzero(touched))
        for at, (old, new) in enumerate(zip(before, self._reaches(), strict=True)):
            self._running.add(at, new - old)

    def probability(self, group: int, cap_index: int) -> float:
        return self._under_cap(group, self._pmf[self._rows_of_group[group]], cap_index)

    def _change(self, group: int, pmf: FloatArray, sign: float) -> None:
        for at in range(len(self._caps)):
            self._running.add(at, sign * self._under_cap(group, pmf, at))

    def _under_cap(self, group: int, pmf: FloatArray, cap_index: int) -> float:
        heads = self._heads[self._rows_of_group[group]]
        below = pmf[:, : self._caps[cap_index]].sum(axis=1)
        return float(heads @ below) / float(self._sizes[group])

    def _refresh(self, rows: IntArray) -> None:
        """The laws of some classes from their impression counts, without accumulated rounding."""
        if rows.size:
            law, row = class_exposure_laws(
                self._audience.classes[rows], self._sizes, self._view, max(self._caps) - 1
            )
            self._pmf[rows] = law.pmf[row]

    def _reaches(self) -> list[float]:
        """Σ h·E[min(X, c)] = Σ h·(c − Σ_{l<c} (c − l) P(X = l)) (Corollary 2) for each cap."""
        result = []
        for cap in self._caps:
            room = self._pmf[:, :cap] @ (cap - np.arange(cap, dtype=np.float64))
            result.append(float(self._heads @ (cap - room)))
        return result
