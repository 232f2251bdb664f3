"""Groups with known visit shares (Section 3.2 of the paper): Theorem 5 and its variance."""

import numpy as np

from kreach.adsystem.measurement.exposure import (
    Bounds,
    CertifiedBounds,
    Exposure,
    ServedKind,
    expose,
)
from kreach.boundary.audience import ProfiledAudience
from kreach.numeric.exposure import ExposureLaw, binomial_law
from kreach.numeric.groupreach import GroupKind
from kreach.numeric.types import FloatArray, IntArray
from kreach.numeric.variance import profile_variance

__all__ = ["ProfiledExposure"]


class ProfiledExposure(Exposure):
    """Theorem 5: each member has its own visit share; everybody is targeted."""

    basis = "Theorem 5: disjoint groups, independent visits, known visit shares"

    def __init__(self, audience: ProfiledAudience, impressions_by_group: IntArray) -> None:
        self._audience = audience
        self._impressions = impressions_by_group

    @property
    def people(self) -> FloatArray:
        return np.ones(len(self._audience.shares))

    def law(self, rows: slice, top: int) -> ExposureLaw:
        trials = np.repeat(self._impressions, self._audience.group_sizes)[rows]
        return binomial_law(trials.astype(np.float64), self._audience.shares[rows], top)

    @property
    def most_trials(self) -> int:
        return int(self._impressions.max(initial=0))

    @property
    def targeted_impressions(self) -> float:
        return float(self._impressions.sum())

    def variance(self, cap: int) -> float:
        audience = self._audience
        served = np.flatnonzero(self._impressions).tolist()
        each = (
            profile_variance(audience.shares_of(j), int(self._impressions[j]), cap) for j in served
        )
        return float(sum(each))

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        """Per group: least min(n, c), most min(n, c·members that visit at all)."""
        visiting = np.add.reduceat(self._audience.shares > 0.0, self._audience.offsets[:-1])
        n = self._impressions
        cap = min(cap, self.most_trials)  # a larger one changes nothing, and could overflow
        least, most = np.minimum(n, cap).sum(), np.minimum(n, cap * visiting).sum()
        return CertifiedBounds(Bounds(int(least), int(most)), (True, True))

    def served_kinds(self) -> list[ServedKind]:
        result = []
        for j in range(self._audience.group_count):
            share, people = np.unique(self._audience.shares_of(j), return_counts=True)
            kind = GroupKind(share, people.astype(np.float64), np.inf)
            result.append(ServedKind(kind, int(self._impressions[j]), 1))
        return result


@expose.register
def _(audience: ProfiledAudience, impressions_by_group: IntArray) -> Exposure:
    return ProfiledExposure(audience, impressions_by_group)
