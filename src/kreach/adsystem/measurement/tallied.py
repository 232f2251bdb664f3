"""Overlapping groups from tallies of classes and of pairs, as a log's engine can make them.

Nothing here grows with people, classes or groups: only with how many different sets of counts
there are. What needs to know who shares a group with whom, the sharp bounds and a simulation, is
not in the tallies; bounds are certified, not attained, and the law of reach is taken as normal.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np

from kreach.adsystem.measurement.disjoint import Cells
from kreach.adsystem.measurement.exposure import Bounds, CertifiedBounds, Exposure, ServedKind
from kreach.numeric.exposure import ExposureLaw
from kreach.numeric.overlap import exposure_laws_by_size, tallied_covariance
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["ClassTallies", "TalliedExposure"]


@dataclass(frozen=True)
class ClassTallies:
    """People by the impressions that their groups of each size got, and pairs of them.

    Row i of `trials`: the impressions of a class by size; `people` have it, in `pairs` ordered
    pairs of one class. Row i of `shared`, `first`, `second`: what a pair of classes shares and what
    each has alone; `weights` ordered pairs of people. `groups` are the groups by impressions.
    """

    sizes: FloatArray
    trials: IntArray
    people: FloatArray
    pairs: FloatArray
    shared: IntArray
    first: IntArray
    second: IntArray
    weights: FloatArray
    groups: Cells
    max_groups: int  # of one class


class TalliedExposure(Exposure):
    """Theorem 1, 2 and 3 for groups that share members, without knowing any class."""

    basis = "Theorem 1: overlapping groups as tallied classes, independent uniform visits"

    def __init__(self, tallies: ClassTallies) -> None:
        self._tallies = tallies

    @property
    def people(self) -> FloatArray:
        return self._tallies.people

    def law(self, rows: slice, top: int) -> ExposureLaw:
        return exposure_laws_by_size(self._tallies.sizes, self._tallies.trials[rows], top)

    @property
    def max_trials(self) -> int:
        return int(self._tallies.trials.sum(axis=1).max(initial=0))

    @property
    def targeted_impressions(self) -> float:
        tallies = self._tallies
        return float(tallies.people @ (tallies.trials @ (1.0 / tallies.sizes)))

    def variance(self, cap: int) -> float:
        tallies = self._tallies
        if cap >= self.max_trials:
            # nobody can be over the cap: the impressions on targeted people, which are binomial
            groups = tallies.groups
            share = groups.targeted / groups.size
            return float((groups.groups * groups.impressions * share) @ np.maximum(1 - share, 0))
        alone = sum(people @ law.capped_variance(cap) for people, law in self._laws(cap - 1))
        return max(float(alone) + self._covariance(cap, at_least=False), 0.0)

    def at_least_variance(self, count: int) -> float:
        if count > self.max_trials:
            return 0.0
        laws = self._laws(count - 1)
        alone = sum(people @ (law.below(count) * law.tail) for people, law in laws)
        return max(float(alone) + self._covariance(count, at_least=True), 0.0)

    def _covariance(self, cap: int, *, at_least: bool) -> float:
        """Over ordered pairs of people: of one class, and of two that share a served group."""
        it = self._tallies
        certain = it.sizes == 1.0  # a group of one leaves nothing to chance: couples nobody
        same = np.where(certain, 0, it.trials)
        own = it.trials - same
        within = tallied_covariance(it.sizes, same, own, own, it.pairs, cap, at_least=at_least)
        return within + tallied_covariance(
            it.sizes, it.shared, it.first, it.second, it.weights, cap, at_least=at_least
        )

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        """Certified, seldom attained.

        Most: nobody counts beyond the cap or beyond what the own groups got. Least: in a group
        whose members are all targeted, min(n, c) of its impressions count within the group, and
        nobody is in more than `max_groups` groups.
        """
        tallies, groups = self._tallies, self._tallies.groups
        cap = min(cap, max(self.max_trials, 1))
        each = np.minimum(tallies.trials.sum(axis=1), cap)
        targeted = groups.targeted > 0.0
        most = min(
            float(tallies.people @ each), float((groups.groups * groups.impressions) @ targeted)
        )
        everybody = groups.targeted == groups.size
        within = groups.groups @ np.where(everybody, np.minimum(groups.impressions, cap), 0.0)
        least = ceil(float(within) / max(tallies.max_groups, 1))
        return CertifiedBounds(Bounds(least, round(most)), (False, False))

    def served_kinds(self) -> list[ServedKind] | None:
        return None

    def unfolded(self) -> None:
        return None
