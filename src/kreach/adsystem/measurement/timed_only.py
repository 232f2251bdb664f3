"""People whom one part reached and others did not, by the law of the parts together."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

import numpy as np

from kreach.adsystem.measurement.combination import Chosen
from kreach.adsystem.measurement.drawn import DrawnExposure
from kreach.adsystem.measurement.exposure import CertifiedBounds
from kreach.adsystem.measurement.part_draws import DrawsByGroup, PartDraws
from kreach.adsystem.measurement.pooled_exposure import TableExposure
from kreach.adsystem.measurement.set_exposures import DisjointOnly, joint_rows
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.visit_model import ModelError
from kreach.numeric.only import only_law, only_variance
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["TimedOnly", "error_of_difference"]


class TimedOnly(TableExposure):
    """People whom a part reached and the rest did not."""

    def __init__(self, parts: PartDraws, part: int, rest: Chosen) -> None:
        self._parts, self._part = parts, part
        chosen = tuple(sorted((*rest, part)))
        self._inner = parts.law_of(chosen)
        self.basis = f"those left out by the other impressions; {self._inner.basis}"
        together, without = parts.reached(chosen), parts.reached(rest)
        self.reached = min(max(together - without, 0.0), parts.reached((part,)))
        self.model_error = error_of_difference(self._inner, together, without, self.reached)
        ours, others = parts.drawn((part,)), parts.drawn(rest)
        self._ours, self._rest = ours.impressions, others.impressions
        self._rows = _shared_rows(
            parts.audience, ours.impressions, others, parts.drawn(chosen).draws
        )

    @property
    def people(self) -> FloatArray:
        return np.array([float(self._parts.people)])

    @property
    def max_trials(self) -> int:
        return int(self._ours.max(initial=0))

    @cached_property
    def scale(self) -> float:
        """The people found, over those that the law of the parts together has."""
        lawful = float(self.shape(1)[1:].sum())
        return self.reached / lawful if lawful > 0.0 else 0.0

    def shape(self, top: int) -> FloatArray:
        """The table of the law of the parts together."""
        rows, law = self._rows, self._inner.draw_law
        result = np.zeros(top + 2)
        if len(rows.size):
            kinds = law.kinds_of(rows.size)
            member = only_law(rows.draws, rows.rest, kinds, law.batch(top), top)
            people = rows.groups * rows.targeted
            result[:-1], result[-1] = people @ member.pmf, people @ member.tail
        for number in rows.alone.tolist():
            result[min(int(number), top + 1)] += 1.0
        result[0] = max(float(self._parts.people) - float(result[1:].sum()), 0.0)
        return result

    def table(self, top: int) -> FloatArray:
        result = self.shape(top)
        result[1:] *= self.scale
        return result

    @cached_property
    def targeted_impressions(self) -> float:
        """By the mean of one draw on those left out; within those of the part."""
        rows, law = self._rows, self._inner.draw_law
        total = float(rows.alone.sum())
        if len(rows.size):
            one = only_law(
                np.ones(len(rows.size)), rows.rest, law.kinds_of(rows.size), np.ones(1), 1
            ).pmf[:, 1]
            total += law.mean_batch * float((rows.groups * rows.targeted * rows.draws) @ one)
        part = self._parts.together((self._part,)).targeted_impressions
        return min(max(self.scale * total, self.reached), part)

    def variance(self, cap: int) -> float:
        return self._summed(min(cap, max(self.max_trials, 1)), at_least=False)

    def at_least_variance(self, count: int) -> float:
        return self._summed(count, at_least=True)

    def _summed(self, cap: int, *, at_least: bool) -> float:
        rows, law = self._rows, self._inner.draw_law
        if not len(rows.size):
            return 0.0
        each = only_variance(
            rows.draws,
            rows.rest,
            rows.size,
            rows.targeted,
            law.kinds_of(rows.size),
            law.batch(cap),
            cap,
            at_least=at_least,
        )
        return self.scale * float(rows.groups @ each)

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        counted = DisjointOnly(self._parts.audience, self._ours, self._rest)
        return counted.certified_bounds(cap)


@dataclass(frozen=True, eq=False)
class _SharedRows:
    """Groups alike with whole draws of ours and of the rest; `alone`: impressions on groups of one
    whom the rest left out."""

    size: FloatArray
    targeted: FloatArray
    draws: FloatArray
    rest: FloatArray
    groups: FloatArray
    alone: IntArray


def _shared_rows(
    audience: DisjointAudience, ours: IntArray, rest: DrawsByGroup, together: FloatArray
) -> _SharedRows:
    """Draws together and of the rest are rounded up or down at once, so that ours are never < 0.

    With one uniform number for both, d is ⌊d + u⌋: right on average for each.
    """
    size, targeted = audience.group_sizes, audience.targeted_counts
    alone = (size == 1) & (targeted == 1) & (rest.impressions == 0) & (ours > 0)
    some = np.flatnonzero((ours > 0) & (size > 1) & (targeted > 0))
    before = rest.draws[some]
    after = np.maximum(together[some], before)
    whole_after, whole_before = np.floor(after + 1e-12), np.floor(before + 1e-12)
    more_after = np.clip(after - whole_after, 0.0, 1.0)
    more_before = np.clip(before - whole_before, 0.0, 1.0)
    low, high = np.minimum(more_after, more_before), np.maximum(more_after, more_before)
    ups = (
        (0.0, 0.0, 1.0 - high),
        (more_after > more_before, more_before > more_after, high - low),
        (1.0, 1.0, low),
    )
    columns = [[], [], [], [], []]  # type: list[list[FloatArray]]
    for up_after, up_before, weight in ups:
        r = whole_before + up_before
        d = np.maximum(whole_after + up_after - r, 0.0)
        here = (weight > 0.0) & (d > 0.0)
        for column, values in zip(columns, (size[some], targeted[some], d, r, weight), strict=True):
            column.append(values[here].astype(np.float64))
    k, u, d, r, weight = (np.concatenate(column) for column in columns)
    first, groups = joint_rows(r, d, u, k, weight=weight)
    return _SharedRows(k[first], u[first], d[first], r[first], groups, ours[alone])


def error_of_difference(
    law: DrawnExposure, larger: float, smaller: float, difference: float
) -> ModelError | None:
    """The model's relative error of a difference of two of its figures, larger − smaller.

    The errors of reach on nested sets of impressions are taken to grow like a random walk: that of
    the larger is that of the smaller and an independent one of what is added, so that the variance
    of the difference is that of the larger less that of the smaller, s²(U² − R²).
    """
    error = law.model_error
    if error is None or difference <= 0.0:
        return error
    factor = sqrt(max(larger**2 - smaller**2, 0.0)) / difference
    return replace(error, spread=error.spread * factor, higher_spread=error.higher_spread * factor)
