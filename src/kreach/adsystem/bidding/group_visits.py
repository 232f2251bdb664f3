"""How unevenly groups of a size are visited: the law of the people in them, added up."""

import numpy as np

from kreach.adsystem.bidding.group_kinds import planned_days
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.types import FloatArray

__all__ = ["visits_by_group"]

_SEED = 0
_DRAWS = 20_000  # of all groups together, if they are fewer


def visits_by_group(audience: Audience, model: VisitModel | None) -> FloatArray:
    """Visits of each group, relative to others, drawn by the law of its people; seeded.

    Shares of visits within a group have a Dirichlet law. That is the law of people who each visit
    by a gamma law of shape α, whose sum over a group is one of the added shapes: so groups of any
    size are of the same people. Without a visit model, α is the audience's dispersion. With one,
    a share of people are regulars with an α of their own (`numeric/visitors.py`). Where groups
    have visit shares instead, visits are in proportion to their size.

    Groups of one kind are exchangeable. Of few groups, each has the mean of several draws next to
    each other in order: a plan must not rest on the luck of one draw.

    >>> visits = visits_by_group(Audience.disjoint([20] * 1_000, dispersion=0.6), None)
    >>> bool(abs(visits.std() / visits.mean() - (20 * 0.6) ** -0.5) < 0.01)
    True
    """
    if not isinstance(audience, DisjointAudience):
        return audience.group_sizes.astype(np.float64)
    people, spread = audience.traffic, audience.dispersion
    even = people.astype(np.float64)
    if model is None and spread is None:
        return even
    generator, groups = np.random.default_rng(_SEED), len(people)
    shape = (max(_DRAWS // max(groups, 1), 1), groups)
    mean: FloatArray = np.broadcast_to(even, shape)
    concentration = np.full(1, np.inf) if spread is None else spread
    if model is not None:
        whole = np.array([max(model.group_size, 2.0)])
        law = model.kinds(model.meeting_probability(planned_days(model)), whole)
        regulars = generator.binomial(people, law.regulars, shape)
        busy, others = (float(share[0] * whole[0]) for share in (law.share, law.other_share))
        mean = regulars * busy + (people - regulars) * others
        concentration = law.concentration / whole
    visits = _in_order(_gamma_visits(generator, mean, concentration), audience)
    return visits if visits.any() else even


def _gamma_visits(
    generator: np.random.Generator, mean: FloatArray, concentration: FloatArray
) -> FloatArray:
    """Gamma laws with these means, of shape concentration · mean; infinite is the mean itself."""
    known = np.isfinite(concentration)
    per_visit = np.where(known, concentration, 1.0)
    result: FloatArray = np.where(known, generator.gamma(per_visit * mean) / per_visit, mean)
    return result


def _in_order(draws: FloatArray, audience: DisjointAudience) -> FloatArray:
    """One value for each group (column) of several draws: means of neighbors within its kind."""
    repeats = len(draws)
    visits: FloatArray = draws[0].copy()
    if repeats == 1:
        return visits
    kinds = audience.kinds.of_group
    for kind in range(len(audience.kinds)):
        mine = slice(None) if kinds is None else np.flatnonzero(kinds == kind)
        visits[mine] = np.sort(draws[:, mine], axis=None).reshape(-1, repeats).mean(axis=1)
    return visits
