"""What the model says about single groups: expected people who saw an ad 1+, 2+, … times.

A report needs only sums over groups. A panel compares group by group, and its correction is
unbiased only if the two agree: the sums of these numbers over all groups are those of the ad
system's report on the same impressions (`tests/boundary/test_group_reach.py`).
"""

from typing import Protocol

import numpy as np

from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.draw_cells import draws_in_order
from kreach.boundary.draw_law import DrawLaw, GroupDrawTable
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.draws import sum_by
from kreach.numeric.exposure import binomial_law, exposure_law
from kreach.numeric.types import FloatArray, IntArray
from kreach.numeric.variance import group_variance, profile_variance

__all__ = ["GroupReach", "group_reach", "model_name"]


class GroupReach(Protocol):
    """The model's numbers for some groups with their impressions."""

    def at_least(self, top: int) -> FloatArray:
        """A row per group: expected people with 1, 2, …, top or more impressions."""
        ...

    def variances(self, cap: int) -> FloatArray:
        """Var[Σ min(X_i, cap)] over the members of each group."""
        ...


def model_name(catalogue: Catalogue) -> str:
    """How visits are modelled by whoever holds this catalogue, as reports name it."""
    if catalogue.model is not None:
        return "visit model"
    if catalogue.visit_shares is not None:
        return "visit shares"
    return "uniform" if catalogue.dispersion is None else "dispersion"


def group_reach(
    catalogue: Catalogue, groups: IntArray, group: IntArray, at_us: IntArray
) -> GroupReach:
    """The numbers of the groups named by `groups`, by the model of a catalogue.

    `group` is an index into `groups`; impressions come ordered by group, then time. With a visit
    model the calendar and the impressions per session are those of the given impressions.
    """
    sizes = catalogue.sizes[groups]
    if catalogue.model is not None:
        return _SessionReach(sizes, group, at_us, catalogue.model)
    counts = np.bincount(group, minlength=len(groups)).astype(np.float64)
    if catalogue.visit_shares is not None:
        return _ShareReach([catalogue.visit_shares[g] for g in groups], counts)
    return _UniformReach(sizes.astype(np.float64), counts, catalogue.dispersion)


class _SessionReach:
    """Effective draws, through the site's visit model."""

    def __init__(
        self, sizes: IntArray, group: IntArray, at_us: IntArray, model: VisitModel
    ) -> None:
        audience = Audience.disjoint(sizes)
        assert isinstance(audience, DisjointAudience)
        counts = np.bincount(group, minlength=len(sizes)).astype(np.float64)
        share = model.draw_shares(group, at_us)
        self._groups = GroupDrawTable(
            sizes.astype(np.float64),
            counts,
            np.minimum(sum_by(group, share, len(sizes)), counts),
            sum_by(group, share * (1.0 - share), len(sizes)),
        )
        self._max_cap = max(int(counts.max(initial=1.0)), 1)
        self._law = DrawLaw(draws_in_order(audience, group, at_us, model), model)

    def at_least(self, top: int) -> FloatArray:
        return self._law.at_least_by_group(self._groups, top)

    def variances(self, cap: int) -> FloatArray:
        return self._law.variance_by_group(self._groups, min(cap, self._max_cap))


class _UniformReach:
    """The formulas of the paper: uniform visits, or one dispersion."""

    def __init__(self, sizes: FloatArray, counts: FloatArray, dispersion: float | None) -> None:
        rows, row_of = np.unique(np.stack([sizes, counts]), axis=1, return_inverse=True)
        self._size, self._count = rows
        self._row_of = row_of.reshape(-1)
        self._dispersion = np.full(rows.shape[1], np.inf if dispersion is None else dispersion)

    def at_least(self, top: int) -> FloatArray:
        law = exposure_law(self._count, self._size, self._dispersion, top)
        people: FloatArray = self._size[:, None] * law.survival()[:, 1 : top + 1]
        return people[self._row_of]

    def variances(self, cap: int) -> FloatArray:
        each = group_variance(self._size, self._size, self._count, self._dispersion, cap)
        return each[self._row_of]


class _ShareReach:
    """Groups whose members' shares of the visits were released."""

    def __init__(self, shares: list[FloatArray], counts: FloatArray) -> None:
        self._shares, self._counts = shares, counts

    def at_least(self, top: int) -> FloatArray:
        result = np.zeros((len(self._shares), top))
        for at, (shares, count) in enumerate(zip(self._shares, self._counts, strict=True)):
            law = binomial_law(np.full(len(shares), count), shares, top)
            result[at] = law.survival()[:, 1 : top + 1].sum(axis=0)
        return result

    def variances(self, cap: int) -> FloatArray:
        pairs = zip(self._shares, self._counts, strict=True)
        return np.array([profile_variance(shares, int(count), cap) for shares, count in pairs])
