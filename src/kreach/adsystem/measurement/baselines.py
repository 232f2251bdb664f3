"""The two baselines of the paper's study, with the interface of the real models.

A, `every_impression`: each impression reaches somebody new; always too high. B, `every_group`:
a group is one person; always too low. Both are audiences, so whatever takes an audience takes
them: `measure`, `reach_probability`, `ReachMeter`, a bidder.

>>> import kreach as kr
>>> most, least = kr.baselines.every_impression(2), kr.baselines.every_group(2)
>>> audiences = most, kr.Audience.disjoint([20, 20]), least
>>> [round(kr.measure(audience, [5, 8], cap=1).reach, 1) for audience in audiences]
[13.0, 11.3, 2.0]
"""

from dataclasses import dataclass

import numpy as np

from kreach.adsystem.measurement.exposure import (
    Bounds,
    CertifiedBounds,
    Exposure,
    ServedKind,
    expose,
)
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.checks import as_whole_number, read_only
from kreach.numeric.exposure import ExposureLaw
from kreach.numeric.groupreach import GroupKind
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["EveryImpression", "every_group", "every_impression"]


@dataclass(frozen=True, eq=False, repr=False)
class EveryImpression(Audience):
    """Approach A: groups so large that nobody is ever met twice."""

    def __repr__(self) -> str:
        return f"EveryImpression(groups={self.group_count})"


def every_impression(group_count: int) -> EveryImpression:
    """Approach A of the paper: every impression is a reach (p_t = 1)."""
    count = as_whole_number("group_count", group_count, minimum=0)
    return EveryImpression(read_only(np.ones(count, dtype=np.int64)))


def every_group(group_count: int) -> DisjointAudience:
    """Approach B of the paper: every group is one person, who counts up to the cap."""
    count = as_whole_number("group_count", group_count, minimum=0)
    return Audience.disjoint(np.ones(count, dtype=np.int64))


class EveryImpressionExposure(Exposure):
    """As many people as impressions, each seen once: no uncertainty, no over-exposure."""

    basis = "baseline A: every impression is counted as a new person"

    def __init__(self, impressions_by_group: IntArray) -> None:
        self._total = int(impressions_by_group.sum())

    @property
    def people(self) -> FloatArray:
        return np.array([float(self._total)])

    def law(self, rows: slice, top: int) -> ExposureLaw:
        pmf = np.zeros((1, top + 1))
        pmf[0, 1:2] = 1.0
        return ExposureLaw(pmf[rows], np.array([1.0 if top < 1 else 0.0])[rows])

    @property
    def max_trials(self) -> int:
        return min(self._total, 1)

    @property
    def targeted_impressions(self) -> float:
        return float(self._total)

    def variance(self, cap: int) -> float:
        return 0.0

    def at_least_variance(self, count: int) -> float:
        return 0.0

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        return CertifiedBounds(Bounds(self._total, self._total), (True, True))

    def served_kinds(self) -> list[ServedKind]:
        alone = GroupKind(np.ones(1), np.ones(1), np.inf)
        return [ServedKind(alone, 1, self._total)]

    def unfolded(self) -> None:
        return None


@expose.register
def _(audience: EveryImpression, impressions_by_group: IntArray) -> Exposure:
    return EveryImpressionExposure(impressions_by_group)
