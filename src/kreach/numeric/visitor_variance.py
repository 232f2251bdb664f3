"""Variance of the capped reach of one group when people visit in sessions (`visitors.py`).

With f(s) = E[(c − B_1 − ... − B_s)⁺], a member who had s sessions falls short of the cap by f(s) on
average, and by nothing from s = c on. As in `variance.py`, reach is c·u − ΣY_i, and

    Var R = Σ_i Var Y_i + Σ_{i≠j} Cov(Y_i, Y_j),     E[Y_i Y_j] = Σ_{s,t<c} P(s, t) f(s) f(t),

because batches of different sessions are independent. P(s, t) is Dirichlet-multinomial: given that
member i had s of the d sessions, j has a beta-binomial number of the d − s others. A group has
u·h regulars and u·(1 − h) others among its u targeted members, whole or not.
"""

import numpy as np

from kreach.numeric.exposure import ExposureLaw, exposure_law
from kreach.numeric.types import FloatArray
from kreach.numeric.visitors import VisitorKinds, sums_of_batches

__all__ = ["session_variance"]


def session_variance(
    draws: FloatArray,
    targeted: FloatArray,
    kinds: VisitorKinds,
    batch: FloatArray,
    cap: int,
    *,
    at_least: bool = False,
) -> FloatArray:
    """Var[Σ min(X_i, cap)] over the targeted members, a row per group with whole draws.

    With `at_least` the variance of #{i: X_i ≥ cap}.
    """
    first, second = _shortfall(batch, cap, at_least=at_least)
    regular, other = kinds.share, kinds.other_share
    count = targeted * kinds.regulars, targeted * (1.0 - kinds.regulars)
    top = cap - 1
    laws = tuple(_sessions(draws, share, kinds.concentration, top) for share in (regular, other))
    means = tuple(law.pmf @ first for law in laws)
    total = np.zeros(len(draws))
    for people, law, mean in zip(count, laws, means, strict=True):
        total += people * np.maximum(law.pmf @ second - mean**2, 0.0)
    shares = (regular, other)
    for i, j in ((0, 0), (0, 1), (1, 1)):
        pairs = count[i] * np.maximum(count[i] - 1.0, 0.0) if i == j else 2.0 * count[i] * count[j]
        both = np.zeros(len(draws))
        for s in range(cap):
            left = np.maximum(draws - s, 0.0)
            rest = _given(left, shares[i], shares[j], kinds.concentration, top)
            both += laws[i].pmf[:, s] * first[s] * (rest.pmf @ first)
        total += pairs * (both - means[i] * means[j])
    return np.maximum(total, 0.0)


def _shortfall(batch: FloatArray, cap: int, *, at_least: bool) -> tuple[FloatArray, FloatArray]:
    """First and second moments of a member's shortfall after s = 0, ..., cap − 1 sessions."""
    sums = sums_of_batches(batch, cap - 1)
    short = np.ones(cap) if at_least else cap - np.arange(cap, dtype=np.float64)
    return sums @ short, sums @ short**2


def _sessions(
    draws: FloatArray, share: FloatArray, concentration: FloatArray, top: int
) -> ExposureLaw:
    return exposure_law(draws, 1.0 / share, concentration * share, top)


def _given(
    left: FloatArray,
    first: FloatArray,
    second: FloatArray,
    concentration: FloatArray,
    top: int,
) -> ExposureLaw:
    """The sessions of a second member among those left when a first one had so many."""
    rest = np.maximum(1.0 - first, second)  # of everybody but the first; two may fill a group
    return exposure_law(left, rest / second, concentration * second, top)
