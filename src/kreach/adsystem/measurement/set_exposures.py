"""Exposures of sets of impressions: people whom only some reached, and whom several reached.

`only_exposure` describes the people whom *ours* reached and the *rest* did not, one class per kind
of audience. `SeveralExposure` describes the people whom two or more sets reached: everybody whom
any set reached, less those whom only one did.
"""

from collections.abc import Sequence
from functools import cached_property, singledispatch

import numpy as np

from kreach.adsystem.measurement.exposure import Bounds, CertifiedBounds, Exposure
from kreach.adsystem.measurement.several import several_bounds, several_people_variance
from kreach.boundary.audience import (
    Audience,
    DisjointAudience,
    OverlappingAudience,
    ProfiledAudience,
)
from kreach.errors import KreachError
from kreach.numeric.exposure import ExposureLaw, binomial_law
from kreach.numeric.only import ONE_EACH, equal_kinds, only_law, only_variance
from kreach.numeric.only_fixed import overlapping_only_variance, profiled_only_variance
from kreach.numeric.overlap import class_exposure_laws
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["SetExposure", "SeveralExposure", "joint_rows", "only_exposure", "table_law"]


class SetExposure(Exposure):
    """What all exposures of sets have in common: groups are not simulated one by one."""

    bounds_are_cheap = True

    def served_kinds(self) -> None:
        return None

    def unfolded(self) -> None:
        return None

    def variance_bound(self, cap: int, *, at_least: bool) -> float:
        """Σ Var over people, who are negatively associated (`numeric/several.py`)."""
        law = self.law(slice(None), cap)
        if at_least:
            chance = law.survival()[:, cap]
            return float(self.people @ (chance * (1.0 - chance)))
        return float(self.people @ law.capped_variance(cap))


def joint_rows(
    *columns: FloatArray | IntArray, weight: FloatArray | None = None
) -> tuple[IntArray, FloatArray]:
    """The first of each distinct row of the columns, and how often it occurs, or its weight."""
    order = np.lexsort(columns)
    changed = np.zeros(len(order), dtype=bool)
    changed[:1] = True
    for column in columns:
        ordered = column[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    first = np.flatnonzero(changed)
    if weight is None:
        return order[first], np.diff(np.append(first, len(order))).astype(np.float64)
    sums = np.bincount(np.cumsum(changed) - 1, weights=weight[order])
    return order[first], sums.astype(np.float64)


class DisjointOnly(SetExposure):
    """Disjoint groups, uniform or with Dirichlet visit shares."""

    def __init__(self, audience: DisjointAudience, ours: IntArray, rest: IntArray) -> None:
        kinds = audience.kinds
        kind = np.zeros(len(ours), dtype=np.int64) if kinds.of_group is None else kinds.of_group
        rows, self.groups = joint_rows(rest, ours, kind)
        kind = kind[rows]
        self.size, self.targeted = kinds.size[kind], kinds.targeted[kind]
        self.ours, self.rest = ours[rows].astype(np.float64), rest[rows].astype(np.float64)
        self._dispersion = kinds.dispersion[kind]
        dispersed = bool(np.isfinite(self._dispersion).any())
        self.visits = "dispersion" if dispersed else "uniform"
        self.basis = (
            "Theorem 1 on those left out by the other impressions: disjoint groups, independent "
            + ("visits, visit shares symmetric Dirichlet" if dispersed else "uniform visits")
        )

    @property
    def people(self) -> FloatArray:
        return self.targeted * self.groups

    def law(self, rows: slice, top: int) -> ExposureLaw:
        kinds = equal_kinds(self.size[rows], self._dispersion[rows])
        return only_law(self.ours[rows], self.rest[rows], kinds, ONE_EACH, top)

    @property
    def max_trials(self) -> int:
        return int(self.ours.max(initial=0.0))

    @property
    def targeted_impressions(self) -> float:
        kinds = equal_kinds(self.size, self._dispersion)
        left = only_law(np.ones(len(self.size)), self.rest, kinds, ONE_EACH, 1).pmf[:, 1]
        return float(self.people @ (self.ours * left))  # each of ours on somebody left out

    def variance(self, cap: int) -> float:
        return self._summed(min(cap, max(self.max_trials, 1)), at_least=False)

    def at_least_variance(self, count: int) -> float:
        return self._summed(count, at_least=True)

    def _summed(self, cap: int, *, at_least: bool) -> float:
        some = (self.ours > 0.0) & (self.targeted > 0.0)
        size, targeted = self.size[some], self.targeted[some]
        kinds = equal_kinds(size, self._dispersion[some])
        draws, rest = self.ours[some], self.rest[some]
        each = only_variance(draws, rest, size, targeted, kinds, ONE_EACH, cap, at_least=at_least)
        return float(self.groups[some] @ each)

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        """Most: the rest on one member, an untargeted one if there is; least: ours on the same."""
        spared = np.where(self.targeted < self.size, self.targeted, self.targeted - 1.0)
        most = np.minimum(self.ours, cap * np.where(self.rest > 0.0, spared, self.targeted))
        certain = (self.targeted == self.size) & (self.rest == 0.0)
        least = np.where(certain, np.minimum(self.ours, cap), 0.0)
        bounds = Bounds(round(float(self.groups @ least)), round(float(self.groups @ most)))
        return CertifiedBounds(bounds, (True, True))


class ProfiledOnly(SetExposure):
    """Groups with known visit shares: with fixed shares, ours do not depend on the rest."""

    basis = "Theorem 5 on those left out by the other impressions: known visit shares"
    visits = "visit shares"

    def __init__(self, audience: ProfiledAudience, ours: IntArray, rest: IntArray) -> None:
        self._audience, self._ours, self._rest = audience, ours, rest
        sizes = audience.group_sizes
        self._trials = np.repeat(ours, sizes).astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            missed = np.repeat(rest, sizes) * np.log1p(-audience.shares)
        self._left = np.where(np.repeat(rest, sizes) == 0, 1.0, np.exp(missed))

    @property
    def people(self) -> FloatArray:
        return np.ones(len(self._trials))

    def law(self, rows: slice, top: int) -> ExposureLaw:
        law = binomial_law(self._trials[rows], self._audience.shares[rows], top)
        return _left_out(law, self._left[rows])

    @property
    def max_trials(self) -> int:
        return int(self._ours.max(initial=0))

    @property
    def targeted_impressions(self) -> float:
        return float((self._trials * self._audience.shares) @ self._left)

    def variance(self, cap: int) -> float:
        return profiled_only_variance(
            self._shares_of_served(), min(cap, max(self.max_trials, 1)), at_least=False
        )

    def at_least_variance(self, count: int) -> float:
        return profiled_only_variance(self._shares_of_served(), count, at_least=True)

    def _shares_of_served(self) -> list[tuple[FloatArray, int, int]]:
        served = np.flatnonzero(self._ours).tolist()
        return [
            (self._audience.shares_of(j), int(self._ours[j]), int(self._rest[j])) for j in served
        ]

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        starts = self._audience.offsets[:-1]
        visiting = (
            np.add.reduceat(self._audience.shares > 0.0, starts) if len(starts) else self._ours
        )
        free = np.where(self._rest > 0, visiting - 1, visiting)
        cap = min(cap, max(self.max_trials, 1))
        most = np.minimum(self._ours, cap * free).sum()
        least = np.where(self._rest > 0, 0, np.minimum(self._ours, cap)).sum()
        return CertifiedBounds(Bounds(int(least), int(most)), (True, True))


class OverlappingOnly(SetExposure):
    """Membership classes: left out by the rest in every group of the class."""

    basis = (
        "Theorem 1 on those left out by the other impressions: overlapping groups as membership "
        "classes, independent uniform visits"
    )

    def __init__(self, audience: OverlappingAudience, ours: IntArray, rest: IntArray) -> None:
        self._audience, self._ours, self._rest = audience, ours, rest
        self._sizes = audience.group_sizes.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            missed = np.where(rest > 0, rest * np.log1p(-1.0 / self._sizes), 0.0)
        classes = audience.classes
        self._left = np.exp(np.where(classes >= 0, missed[classes], 0.0).sum(axis=1))

    @property
    def people(self) -> FloatArray:
        return self._audience.headcounts.astype(np.float64)

    def law(self, rows: slice, top: int) -> ExposureLaw:
        law, row_of = class_exposure_laws(
            self._audience.classes[rows], self._sizes, self._ours, top
        )
        return _left_out(ExposureLaw(law.pmf[row_of], law.tail[row_of]), self._left[rows])

    @property
    def max_trials(self) -> int:
        classes = self._audience.classes
        return int(np.where(classes >= 0, self._ours[classes], 0).sum(axis=1).max(initial=0))

    @property
    def targeted_impressions(self) -> float:
        classes = self._audience.classes
        rate = np.where(classes >= 0, (self._ours / self._sizes)[classes], 0.0).sum(axis=1)
        return float((self.people * self._left) @ rate)

    def variance(self, cap: int) -> float:
        return self._variance(min(cap, max(self.max_trials, 1)), at_least=False)

    def at_least_variance(self, count: int) -> float:
        return self._variance(count, at_least=True)

    def _variance(self, cap: int, *, at_least: bool) -> float:
        return overlapping_only_variance(
            self._audience.classes,
            self.people,
            self._sizes,
            self._ours,
            self._rest,
            cap,
            at_least=at_least,
        )

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        """Certified, not attained: nobody at least, and no more than ours allow at most."""
        reachable = int(self.people[self._left > 0.0].sum())
        most = min(int(self._ours.sum()), min(cap, max(self.max_trials, 1)) * reachable)
        return CertifiedBounds(Bounds(0, most), (False, False))


def _left_out(law: ExposureLaw, left: FloatArray) -> ExposureLaw:
    """The law of X·1{left out} where the two are independent."""
    pmf = law.pmf * left[:, None]
    pmf[:, 0] += 1.0 - left
    return ExposureLaw(pmf, law.tail * left)


@singledispatch
def only_exposure(audience: Audience, ours: IntArray, rest: IntArray) -> Exposure:
    """People whom `ours` reached and `rest` did not, from impressions by group."""
    raise KreachError.rule("audience", "be a kreach Audience", type(audience).__name__)


@only_exposure.register
def _(audience: DisjointAudience, ours: IntArray, rest: IntArray) -> Exposure:
    return DisjointOnly(audience, ours, rest)


@only_exposure.register
def _(audience: ProfiledAudience, ours: IntArray, rest: IntArray) -> Exposure:
    return ProfiledOnly(audience, ours, rest)


@only_exposure.register
def _(audience: OverlappingAudience, ours: IntArray, rest: IntArray) -> Exposure:
    return OverlappingOnly(audience, ours, rest)


class SeveralExposure(SetExposure):
    """People whom two or more sets reached, by all the impressions that they saw.

    The variance of their number is exact. For caps above 1 and for counts of impressions it is an
    upper bound (`numeric/several.py`).
    """

    def __init__(
        self,
        audience: Audience,
        counts: Sequence[IntArray],
        union: Exposure,
        onlys: Sequence[Exposure],
    ) -> None:
        self._audience, self._counts = audience, counts
        self._union, self._onlys = union, onlys
        self.visits = union.visits
        self.basis = f"everybody less those whom one set alone reached; {union.basis}"

    @property
    def people(self) -> FloatArray:
        return np.array([float(self._audience.targeted_user_count)])

    def law(self, rows: slice, top: int) -> ExposureLaw:
        table = self._union.frequency(top + 1)
        for only in self._onlys:
            table[1:] -= only.frequency(top + 1)[1:]
        table[1:] = np.maximum(table[1:], 0.0)
        return table_law(table, float(self.people[0]))

    @property
    def max_trials(self) -> int:
        return self._union.max_trials

    @cached_property
    def targeted_impressions(self) -> float:
        alone = sum(only.targeted_impressions for only in self._onlys)
        return max(self._union.targeted_impressions - alone, 0.0)

    def reach(self, cap: int) -> float:
        """Differences of what is exact: for a huge cap too."""
        alone = sum(only.reach(cap) for only in self._onlys)
        return max(self._union.reach(cap) - alone, 0.0)

    def variance(self, cap: int) -> float:
        if cap == 1:
            return several_people_variance(self._audience, self._counts)
        return self.variance_bound(min(cap, max(self.max_trials, 1)), at_least=False)

    def at_least_variance(self, count: int) -> float:
        return self.variance(1) if count <= 2 else self.variance_bound(count, at_least=True)

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        return several_bounds(self._audience, self._counts, cap)


def table_law(table: FloatArray, people: float) -> ExposureLaw:
    """The law of one of so many people, from expected people with 0, 1, ..., and more."""
    if people <= 0.0:
        pmf = np.zeros((1, len(table) - 1))
        pmf[0, 0] = 1.0
        return ExposureLaw(pmf, np.zeros(1))
    share = table / people
    share[0] = max(1.0 - float(share[1:].sum()), 0.0)
    return ExposureLaw(share[None, :-1], share[-1:])
