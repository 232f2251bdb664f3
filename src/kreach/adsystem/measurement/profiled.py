"""Groups with known visit shares (Section 3.2 of the paper): Theorem 5 and its variance."""

import numpy as np

from kreach.adsystem.measurement.exposure import (
    Bounds,
    CertifiedBounds,
    Exposure,
    ServedKind,
    expose,
)
from kreach.boundary.audience import Audience, ProfiledAudience
from kreach.numeric.exposure import ExposureLaw, binomial_law
from kreach.numeric.groupreach import GroupKind
from kreach.numeric.types import FloatArray, IntArray
from kreach.numeric.variance import profile_variance

__all__ = ["ProfiledExposure"]


class ProfiledExposure(Exposure):
    """Theorem 5: each member has its own visit share; everybody is targeted.

    `groups[j]` groups (default: one) have the shares and the impressions of group j.
    """

    basis = "Theorem 5: disjoint groups, independent visits, known visit shares"
    visits = "visit shares"

    def __init__(
        self,
        audience: ProfiledAudience,
        impressions_by_group: IntArray,
        groups: IntArray | None = None,
    ) -> None:
        self._audience = audience
        self._impressions = impressions_by_group
        self._groups = np.ones(len(impressions_by_group), dtype=np.int64)
        if groups is not None:
            self._groups = groups

    @property
    def people(self) -> FloatArray:
        return np.repeat(self._groups, self._audience.group_sizes).astype(np.float64)

    def law(self, rows: slice, top: int) -> ExposureLaw:
        trials = np.repeat(self._impressions, self._audience.group_sizes)[rows]
        return binomial_law(trials.astype(np.float64), self._audience.shares[rows], top)

    @property
    def max_trials(self) -> int:
        return int(self._impressions.max(initial=0))

    @property
    def targeted_impressions(self) -> float:
        return float(self._impressions @ self._groups)

    def variance(self, cap: int) -> float:
        return self._summed_variance(cap, at_least=False)

    def at_least_variance(self, count: int) -> float:
        return self._summed_variance(count, at_least=True)

    def _summed_variance(self, cap: int, *, at_least: bool) -> float:
        total = 0.0
        for j in np.flatnonzero(self._impressions).tolist():
            shares, n = self._audience.shares_of(j), int(self._impressions[j])
            total += int(self._groups[j]) * profile_variance(shares, n, cap, at_least=at_least)
        return total

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        """Per group: least min(n, c), most min(n, c·members that visit at all)."""
        if len(self._impressions) == 0:
            return CertifiedBounds(Bounds(0, 0), (True, True))
        visiting = np.add.reduceat(self._audience.shares > 0.0, self._audience.offsets[:-1])
        n, groups = self._impressions, self._groups
        cap = min(cap, self.max_trials)  # a larger one changes nothing, and could overflow
        least, most = np.minimum(n, cap) @ groups, np.minimum(n, cap * visiting) @ groups
        return CertifiedBounds(Bounds(int(least), int(most)), (True, True))

    def served_kinds(self) -> list[ServedKind]:
        result = []
        for j in range(self._audience.group_count):
            share, people = np.unique(self._audience.shares_of(j), return_counts=True)
            kind = GroupKind(share, people.astype(np.float64), np.inf)
            result.append(ServedKind(kind, int(self._impressions[j]), int(self._groups[j])))
        return result

    def unfolded(self) -> tuple[Audience, IntArray]:
        every = np.repeat(np.arange(len(self._groups)), self._groups)
        audience = Audience.profiled([self._audience.shares_of(j) for j in every.tolist()])
        return audience, self._impressions[every]


@expose.register
def _(audience: ProfiledAudience, impressions_by_group: IntArray) -> Exposure:
    return ProfiledExposure(audience, impressions_by_group)
