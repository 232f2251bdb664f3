"""The kernel: the probability that the next request of a group reaches somebody under the cap.

Winning a request raises expected reach by exactly this probability, so measurement and bidding
share it: expected reach is its running sum over the wins (docs/decisions/0001).
"""

import numpy as np

from kreach.numeric.exposure import exposure_law
from kreach.numeric.types import FloatArray

__all__ = ["group_reach_probability"]

_TABLE_CELLS = 1 << 21


def group_reach_probability(
    group_size: FloatArray,
    targeted_count: FloatArray,
    impressions: FloatArray,
    dispersion: FloatArray,
    cap: int,
) -> FloatArray:
    """p = Σ over targeted members of E[visit share · 1{X < cap}]; a row per group kind.

    Uniform visits (Theorem 4): (u/k)·F(c−1; n, 1/k). With Dirichlet(a) shares, a member seen l
    times out of n has expected share (a+l)/(ka+n), so p = u Σ_{l<c} P(X = l)·(a+l)/(ka+n); with
    cap 1 that is u·B(a+1, (k−1)a+n)/B(a, (k−1)a).
    """
    k, u, n, a = np.broadcast_arrays(group_size, targeted_count, impressions, dispersion)
    result = np.empty(k.shape)
    step = max(1, _TABLE_CELLS // cap)
    for low in range(0, len(k), step):
        rows = slice(low, low + step)
        result[rows] = _rows(k[rows], u[rows], n[rows], a[rows], cap)
    return result


def _rows(k: FloatArray, u: FloatArray, n: FloatArray, a: FloatArray, cap: int) -> FloatArray:
    top = int(min(cap - 1, n.max(initial=0.0)))
    law = exposure_law(n, k, a, top)
    uniform = np.isinf(a)
    finite = np.where(uniform, 1.0, a)
    counts = np.arange(top + 1, dtype=np.float64)
    learnt = (finite[:, None] + counts) / (k * finite + n)[:, None]
    share = np.where(uniform[:, None], 1.0 / k[:, None], learnt)
    result: FloatArray = u * (law.pmf * share).sum(axis=1)
    return result
