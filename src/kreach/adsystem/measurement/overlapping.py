"""Overlapping groups: sums over membership classes instead of people."""

from functools import cached_property

import numpy as np

from kreach.adsystem.measurement.exposure import (
    Bounds,
    CertifiedBounds,
    Exposure,
    ServedKind,
    expose,
)
from kreach.boundary.audience import Audience, OverlappingAudience
from kreach.numeric.bounds import max_overlap_reach, min_overlap_reach
from kreach.numeric.exposure import ExposureLaw
from kreach.numeric.overlap import class_exposure_laws, overlap_variance
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["OverlappingExposure"]


class OverlappingExposure(Exposure):
    """Theorem 1, 2 and 3 for groups that share members, sizes equal or mixed."""

    basis = "Theorem 1: overlapping groups as membership classes, independent uniform visits"

    def __init__(self, audience: OverlappingAudience, impressions_by_group: IntArray) -> None:
        self._audience = audience
        self._impressions = impressions_by_group
        self._sizes = audience.group_sizes.astype(np.float64)

    @cached_property
    def _trials(self) -> IntArray:
        classes = self._audience.classes
        result: IntArray = np.where(classes >= 0, self._impressions[classes], 0).sum(axis=1)
        return result

    @property
    def people(self) -> FloatArray:
        return self._audience.headcounts.astype(np.float64)

    def law(self, rows: slice, top: int) -> ExposureLaw:
        law, row_of_class = class_exposure_laws(
            self._audience.classes[rows], self._sizes, self._impressions, top
        )
        return ExposureLaw(law.pmf[row_of_class], law.tail[row_of_class])

    @property
    def max_trials(self) -> int:
        return int(self._trials.max(initial=0))

    @property
    def targeted_impressions(self) -> float:
        classes = self._audience.classes
        rate = self._impressions / self._sizes
        return float(self.people @ np.where(classes >= 0, rate[classes], 0.0).sum(axis=1))

    def variance(self, cap: int) -> float:
        return overlap_variance(
            self._audience.classes, self.people, self._sizes, self._impressions, cap
        )

    def at_least_variance(self, count: int) -> float:
        return overlap_variance(
            self._audience.classes,
            self.people,
            self._sizes,
            self._impressions,
            count,
            at_least=True,
        )

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        """Most by maximum flow, attained; least by branch and bound, or certified from below."""
        audience = self._audience
        cap = max(1, min(cap, self.max_trials))
        most = max_overlap_reach(audience.classes, audience.headcounts, self._impressions, cap)
        least, attained = min_overlap_reach(
            audience.classes, audience.headcounts, audience.group_sizes, self._impressions, cap
        )
        return CertifiedBounds(Bounds(least, most), (attained, True))

    def served_kinds(self) -> list[ServedKind] | None:
        return None

    def unfolded(self) -> tuple[Audience, IntArray]:
        return self._audience, self._impressions


@expose.register
def _(audience: OverlappingAudience, impressions_by_group: IntArray) -> Exposure:
    return OverlappingExposure(audience, impressions_by_group)
