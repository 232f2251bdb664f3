"""p_t for every group at once (Theorem 4 and 6): what the next request of each group is worth."""

from functools import singledispatch

import numpy as np
import numpy.typing as npt

from kreach.adsystem.measurement.baselines import EveryImpression
from kreach.boundary.audience import (
    Audience,
    DisjointAudience,
    OverlappingAudience,
    ProfiledAudience,
)
from kreach.boundary.checks import as_counts, as_whole_number
from kreach.errors import KreachError
from kreach.numeric.exposure import binomial_law
from kreach.numeric.overlap import class_exposure_laws
from kreach.numeric.probability import group_reach_probability
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["profile_reach_probability", "reach_probability"]

_TABLE_CELLS = 1 << 21


def reach_probability(
    audience: Audience, impressions_by_group: npt.ArrayLike, cap: int
) -> FloatArray:
    """The chance that the next request of each group is from a targeted person under the cap.

    Winning it raises expected reach by exactly this much.

    >>> reach_probability(Audience.disjoint([2]), [1], cap=1)  # the paper's users A and B
    array([0.5])
    """
    if not isinstance(audience, Audience):
        raise KreachError.rule("audience", "be a kreach Audience", type(audience).__name__)
    n = as_counts("impressions_by_group", impressions_by_group, length=audience.group_count)
    return _probability(audience, n, as_whole_number("cap", cap, minimum=1))


@singledispatch
def _probability(audience: Audience, n: IntArray, cap: int) -> FloatArray:
    raise KreachError.rule("audience", "be a kreach Audience", type(audience).__name__)


@_probability.register
def _(audience: EveryImpression, n: IntArray, cap: int) -> FloatArray:
    return np.ones(len(n))


@_probability.register
def _(audience: DisjointAudience, n: IntArray, cap: int) -> FloatArray:
    """One value per distinct (kind, impressions), handed out to the groups."""
    kinds = audience.kinds
    of_group = np.zeros(len(n), dtype=np.int64) if kinds.of_group is None else kinds.of_group
    counts, count_code = np.unique(n, return_inverse=True)
    code, cell_of_group = np.unique(of_group * len(counts) + count_code, return_inverse=True)
    kind, count = np.divmod(code, max(len(counts), 1))
    each = group_reach_probability(
        kinds.size[kind],
        kinds.targeted[kind],
        counts[count].astype(np.float64),
        kinds.dispersion[kind],
        cap,
    )
    result: FloatArray = each[cell_of_group]
    return result


@_probability.register
def _(audience: ProfiledAudience, n: IntArray, cap: int) -> FloatArray:
    trials = np.repeat(n, audience.group_sizes).astype(np.float64)
    worth = np.empty(len(trials))
    top = int(min(cap - 1, n.max(initial=0)))
    step = max(1, _TABLE_CELLS // (top + 1))
    for low in range(0, len(trials), step):
        rows = slice(low, low + step)
        law = binomial_law(trials[rows], audience.shares[rows], top)
        worth[rows] = audience.shares[rows] * law.below(top + 1)
    if audience.group_count == 0:
        return np.zeros(0)
    result: FloatArray = np.add.reduceat(worth, audience.offsets[:-1])
    return result


@_probability.register
def _(audience: OverlappingAudience, n: IntArray, cap: int) -> FloatArray:
    if audience.group_count == 0:
        return np.zeros(0)
    sizes = audience.group_sizes.astype(np.float64)
    most = np.where(audience.classes >= 0, n[audience.classes], 0).sum(axis=1).max(initial=0)
    top = int(min(cap - 1, most))
    law, law_of_class = class_exposure_laws(audience.classes, sizes, n, top)
    weight = audience.headcounts * law.below(top + 1)[law_of_class]
    row, column = np.nonzero(audience.classes >= 0)
    groups = audience.classes[row, column]
    under_cap = np.bincount(groups, weights=weight[row], minlength=audience.group_count)
    result: FloatArray = under_cap / sizes
    return result


def profile_reach_probability(shares: FloatArray, impressions: FloatArray, cap: int) -> FloatArray:
    """Theorem 6: Σ_i q_i F(c−1; n, q_i) of one group, for several numbers of impressions n."""
    value, people = np.unique(shares, return_counts=True)
    trials, success = np.meshgrid(impressions, value, indexing="ij")
    top = int(min(cap - 1, impressions.max(initial=0.0)))  # nobody saw more than there were
    law = binomial_law(trials, success, top)
    result: FloatArray = law.below(top + 1) @ (people * value)
    return result
