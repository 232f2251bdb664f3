"""How unevenly groups of a size are visited: the law of the people in them, added up."""

import numpy as np

from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray

__all__ = ["visits_by_group"]

_SEED = 0


def visits_by_group(audience: Audience, model: VisitModel | None) -> FloatArray:
    """Visits of each group, relative to others, drawn by the law of its people; seeded.

    Shares of visits within a group have a Dirichlet law. That is the law of people who each visit
    by a gamma law of shape α, whose sum over a group is one of the added shapes: so groups of any
    size are of the same people. Without a visit model, α is the audience's dispersion. With one,
    a share of people are regulars with an α of their own (`numeric/visitors.py`).

    >>> visits = visits_by_group(Audience.disjoint([20] * 1_000, dispersion=0.6), None)
    >>> bool(abs(visits.std() / visits.mean() - (20 * 0.6) ** -0.5) < 0.02)
    True
    """
    if not isinstance(audience, DisjointAudience):
        raise KreachError.rule("audience", "have disjoint groups", type(audience).__name__)
    generator, sizes = np.random.default_rng(_SEED), audience.group_sizes
    if model is None:
        people = sizes.astype(np.float64)
        if audience.dispersion is None:
            return people
        return _gamma_visits(generator, people, audience.dispersion)
    # SciPy loads with it, which would slow down the start of reporting
    from kreach.adsystem.bidding.group_kinds import planned_days  # noqa: PLC0415

    whole = np.array([max(model.group_size, 2.0)])
    law = model.kinds(model.meeting_probability(planned_days(model)), whole)
    regulars = generator.binomial(sizes, law.regulars)
    busy, others = (float(share[0] * whole[0]) for share in (law.share, law.other_share))
    mean = regulars * busy + (sizes - regulars) * others
    concentration = np.full(len(sizes), law.concentration[0] / whole[0])
    return _gamma_visits(generator, mean, concentration)


def _gamma_visits(
    generator: np.random.Generator, mean: FloatArray, concentration: FloatArray
) -> FloatArray:
    """Gamma laws with these means, of shape concentration · mean; infinite is the mean itself."""
    known = np.isfinite(concentration)
    per_visit = np.where(known, concentration, 1.0)
    result: FloatArray = np.where(known, generator.gamma(per_visit * mean) / per_visit, mean)
    return result
