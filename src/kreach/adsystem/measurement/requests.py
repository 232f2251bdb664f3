"""Reach from impressions *and* requests: right however unequally people visit.

The ad system sees every request of a group, also those it does not win. With the law of requests
per person, one histogram for the whole population that says nothing about any group, that is
enough to undo both unequal visits and sessions (numeric/rarefaction.py).
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from kreach.boundary.audience import DisjointAudience
from kreach.boundary.checks import as_counts, as_whole_number
from kreach.boundary.visit_law import VisitLaw
from kreach.errors import KreachError
from kreach.numeric.rarefaction import log_likelihood_of_requests, rarefied_reach
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["CountedReach", "adapted", "measure_with_requests"]

_BACKGROUND = 1e-7  # so that no number of requests is impossible
_STEPS = 40
_USUAL_CHANGE = 0.2


@dataclass(frozen=True)
class CountedReach:
    """Expected capped reach; the standard deviation is that of unique reach (cap 1), else None."""

    cap: int
    reach: float
    std: float | None


def measure_with_requests(
    audience: DisjointAudience,
    law: VisitLaw,
    requests_by_group: npt.ArrayLike,
    impressions_by_group: npt.ArrayLike,
    cap: int = 1,
) -> CountedReach:
    """Reach of disjoint groups whose requests in the window were counted.

    Assumes that people are put into groups without regard to how often they visit, and that winning
    a request does not depend on who of the group made it. Nothing is assumed about how unequal
    people are; the audience's dispersion is not used.

    >>> from kreach.boundary.audience import Audience
    >>> law = VisitLaw.of_people([50, 30, 0, 0, 0, 0, 0, 0, 0, 0, 20])
    >>> audience = Audience.disjoint([10])
    >>> round(measure_with_requests(audience, law, [31], [31]).reach, 3)    # all requests won
    4.0
    >>> round(measure_with_requests(audience, law, [31], [6]).reach, 3)
    2.972
    """
    if not isinstance(audience, DisjointAudience):
        raise KreachError.rule("audience", "have disjoint groups", type(audience).__name__)
    groups = audience.group_count
    requests = as_counts("requests_by_group", requests_by_group, length=groups)
    won = as_counts("impressions_by_group", impressions_by_group, length=groups)
    cap = as_whole_number("cap", cap, minimum=1)
    over = np.flatnonzero(won > requests)
    if over.size:
        at = int(over[0])
        rule = f"not exceed the requests of the group ({requests[at]})"
        raise KreachError.rule(f"impressions_by_group[{at}]", rule, int(won[at]))
    columns = np.stack([audience.group_sizes, audience.targeted_counts, requests, won], axis=1)
    served = columns[(won > 0) & (audience.targeted_counts > 0)]
    kinds, times = np.unique(served, axis=0, return_counts=True)
    if len(kinds) == 0:
        return CountedReach(cap, 0.0, 0.0 if cap == 1 else None)
    full = _with_background(law.pmf, int(requests.max()))
    size, targeted, request_count, won_count = kinds.T
    mean, variance = rarefied_reach(full, size, targeted, request_count, won_count, cap)
    std = sqrt(float(times @ variance)) if cap == 1 else None
    return CountedReach(cap, float(times @ mean), std)


def _with_background(pmf: FloatArray, max_requests: int) -> FloatArray:
    """The law with a small probability for every number of requests up to the maximum."""
    result = np.zeros(max(len(pmf), max_requests + 1))
    result[: len(pmf)] = (1.0 - _BACKGROUND) * pmf
    result += _BACKGROUND / len(result)
    return result


def adapted(law: VisitLaw, group_sizes: IntArray, requests_by_group: IntArray) -> VisitLaw:
    """The visit law of this window: that of history, adapted to the requests of the groups.

    Two numbers say what changed: how many people come at all, relative to history, and how often
    those come. Their product is given by the mean; how it splits is the most likely, with a prior
    that little changed (activity within some 20 %), since few groups say little about it. What
    history says about the shape stays.
    """
    people = float(np.sum(group_sizes))
    scale = float(np.sum(requests_by_group)) / people / max(law.mean, 1e-300)
    if scale <= 0.0:
        return law

    def fit(activity: float) -> float:
        stretched = law.stretched(activity, scale / activity)
        full = _with_background(stretched.pmf, int(requests_by_group.max()))
        penalty = 0.5 * (np.log(activity) / _USUAL_CHANGE) ** 2
        return log_likelihood_of_requests(full, group_sizes, requests_by_group) - float(penalty)

    grid = np.exp(np.linspace(np.log(0.1), np.log(4.0), _STEPS))
    best = float(grid[int(np.argmax([fit(float(a)) for a in grid]))])
    fine = best * np.exp(np.linspace(-0.1, 0.1, _STEPS // 2 + 1))
    best = float(fine[int(np.argmax([fit(float(a)) for a in fine]))])
    return law.stretched(best, scale / best)
