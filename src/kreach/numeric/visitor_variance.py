"""Variance of the capped reach of one group when people visit in sessions (`visitors.py`).

With f(s) = E[(c − B_1 − ... − B_s)⁺], a member who had s sessions falls short of the cap by f(s) on
average, and by nothing from s = c on. As in `variance.py`, reach is c·u − ΣY_i, and

    Var R = Σ_i Var Y_i + Σ_{i≠j} Cov(Y_i, Y_j),     E[Y_i Y_j] = Σ_{s,t<c} P(s, t) f(s) f(t),

because batches of different sessions are independent. P(s, t) is Dirichlet-multinomial: given that
member i had s of the d sessions, j has a beta-binomial number of the d − s others.

Sums are over the k members, N of them regulars; where k·h is not whole, N is one of its neighbors
with mean k·h. The u targeted members are any u of them, so with m the mean of Y by kind

    Var R = u/k Σ_i Var Y_i + u(u−1)/(k(k−1)) Σ_{i≠j} Cov(Y_i, Y_j)
            + u(k−u)/(k−1) · h(1−h) (m_regular − m_other)²,

the last because it is not known of which kind the targeted members are.
"""

import numpy as np

from kreach.numeric.exposure import ExposureLaw, exposure_laws
from kreach.numeric.types import FloatArray
from kreach.numeric.visitors import VisitorKinds, sums_of_batches

__all__ = [
    "given_taken",
    "pair_counts",
    "session_variance",
    "shortfall_moments",
    "variance_of_shortfall",
]


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
    first, second = shortfall_moments(batch, cap, at_least=at_least)
    return variance_of_shortfall(draws, targeted, kinds, first, second)


def variance_of_shortfall(
    draws: FloatArray,
    targeted: FloatArray,
    kinds: VisitorKinds,
    first: FloatArray,
    second: FloatArray,
) -> FloatArray:
    """`session_variance` from the moments of the shortfall: of all rows, or a row of them each."""
    cap = first.shape[-1]
    h = kinds.regulars
    shares = kinds.share, kinds.other_share
    size = 1.0 / (h * kinds.share + (1.0 - h) * kinds.other_share)
    top = cap - 1
    pairs = pair_counts(size, h)
    cases = [(draws, 1.0 / share, kinds.concentration * share) for share in shares]
    for i, j in pairs:
        cases += [
            given_taken(draws, s, shares[i], shares[j], kinds.concentration) for s in range(cap)
        ]
    found = exposure_laws(cases, top)
    laws, rests = found[:2], iter(found[2:])
    means = tuple(_mean(law, first) for law in laws)
    others = np.maximum(size - 1.0, 1e-9)  # a group of one has no pairs
    total = targeted * (size - targeted) / others * h * (1.0 - h) * (means[0] - means[1]) ** 2
    for people, law, mean in zip((h, 1.0 - h), laws, means, strict=True):
        total += targeted * people * np.maximum(_mean(law, second) - mean**2, 0.0)
    both_targeted = targeted * (targeted - 1.0) / (size * others)
    for (i, j), count in pairs.items():
        both = np.zeros(len(draws))
        for s in range(cap):
            both += laws[i].pmf[:, s] * first[..., s] * _mean(next(rests), first)
        total += both_targeted * count * (both - means[i] * means[j])
    return np.maximum(total, 0.0)


def _mean(law: ExposureLaw, values: FloatArray) -> FloatArray:
    """Σ_s P(s) of the values at s = 0, 1, ..., which may differ by row."""
    return law.pmf @ values if values.ndim == 1 else np.einsum("rs,rs->r", law.pmf, values)


def pair_counts(size: FloatArray, regulars: float) -> dict[tuple[int, int], FloatArray]:
    """Ordered pairs of two regulars, a regular and another, two others; k(k − 1) in all."""
    mean = size * regulars
    whole = np.floor(mean + 1e-9)
    two = np.maximum(whole * (whole - 1.0) + 2.0 * whole * (mean - whole), 0.0)  # E[N(N − 1)]
    mixed = 2.0 * (size * mean - two - mean)
    return {(0, 0): two, (0, 1): mixed, (1, 1): size * (size - 1.0) - two - mixed}


def shortfall_moments(
    batch: FloatArray, cap: int, *, at_least: bool
) -> tuple[FloatArray, FloatArray]:
    """First and second moments of a member's shortfall after s = 0, ..., cap − 1 sessions."""
    sums = sums_of_batches(batch, cap - 1)
    short = np.ones(cap) if at_least else cap - np.arange(cap, dtype=np.float64)
    return sums @ short, sums @ short**2


def given_taken(
    draws: FloatArray,
    taken: int,
    first: FloatArray,
    second: FloatArray,
    concentration: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The sessions of a second member among those left when a first one had so many."""
    rest = np.maximum(1.0 - first, second)  # of everybody but the first; two may fill a group
    return np.maximum(draws - taken, 0.0), rest / second, concentration * second
