"""People whom some impressions reached and others did not: their law and its variance.

Let d be *our* draws on a group and r the draws of the *rest*. A member with visit share q was left
out by the rest with probability E[(1 − q)^r]. Given that, the shares of those left out are again
Dirichlet, with the r draws added to everybody else: total concentration A + r instead of A. So

    P(left out by the rest, S = s) = P₀(r) · BetaBinomial(s; d, α, A + r − α),

with α the member's own concentration and P₀(r) the probability of no draw among r. With fixed
shares (A infinite) our draws do not depend on the rest's, and the second factor is binomial. Summed
over s ≥ 1 this is P₀(r) − P₀(d + r): what we reach beyond the rest. Pairs follow the same way, so

    Cov(ψ_i, ψ_j) = P₀₀(r) · E[ψ(S_i) ψ(S_j) | both left out] − P₀(r)² E[ψ(S_i)] E[ψ(S_j)],

ψ(s) being the impressions within the cap of s draws. Rows are groups; a draw brings a batch of
impressions as in `visitors.py` (without sessions always one).
"""

import numpy as np

from kreach.numeric.exposure import ExposureLaw, exposure_law, exposure_laws
from kreach.numeric.types import FloatArray
from kreach.numeric.visitor_variance import given_taken, pair_counts, shortfall_moments
from kreach.numeric.visitors import VisitorKinds, compound, mixture

__all__ = ["ONE_EACH", "equal_kinds", "only_law", "only_variance"]

ONE_EACH = np.ones(1)
"""The batch law of a draw that is one impression."""


def equal_kinds(size: FloatArray, dispersion: FloatArray) -> VisitorKinds:
    """Members who are all alike: visit shares Dirichlet(a, ..., a), or uniform (infinite a)."""
    return VisitorKinds(0.5, 1.0 / size, 1.0 / size, size * dispersion)


def only_law(
    draws: FloatArray, rest: FloatArray, kinds: VisitorKinds, batch: FloatArray, top: int
) -> ExposureLaw:
    """The law of X·1{left out by the rest} for a member taken at random, a row per group."""
    h = kinds.regulars
    laws = []
    for weight, share in ((h, kinds.share), (1.0 - h, kinds.other_share)):
        left = exposure_law(rest, 1.0 / share, kinds.concentration * share, 0).pmf[..., 0]
        given = _given_left_out(draws, rest, share, kinds.concentration)
        law = compound(exposure_law(*given, top), _padded(batch, top))
        pmf = left[..., None] * law.pmf
        pmf[..., 0] += 1.0 - left
        laws.append((weight, ExposureLaw(pmf, left * law.tail)))
    return mixture(laws)


def only_variance(
    draws: FloatArray,
    rest: FloatArray,
    size: FloatArray,
    targeted: FloatArray,
    kinds: VisitorKinds,
    batch: FloatArray,
    cap: int,
    *,
    at_least: bool = False,
) -> FloatArray:
    """Var[Σ min(X_i, cap)] over the targeted members left out by the rest, a row per group.

    With `at_least` the variance of #{i left out: X_i ≥ cap}.
    """
    batch = _padded(batch, cap)
    short, _ = shortfall_moments(batch, cap, at_least=at_least)
    full = 1.0 if at_least else float(cap)
    h, total = kinds.regulars, kinds.concentration
    shares = kinds.share, kinds.other_share
    given = [_given_left_out(draws, rest, share, total) for share in shares]
    posterior = np.where(np.isinf(total), np.inf, total + rest)
    inside = [1.0 / case[1] for case in given]
    left = [
        law.pmf[:, 0]
        for law in exposure_laws([(rest, 1.0 / share, total * share) for share in shares], 0)
    ]
    laws = exposure_laws(given, cap)
    counts = [compound(law, batch) for law in laws]
    first = [_moment(law, cap, at_least, 1) for law in counts]
    second = [_moment(law, cap, at_least, 2) for law in counts]
    means = [p * m for p, m in zip(left, first, strict=True)]
    others = np.maximum(size - 1.0, 1e-9)
    result = targeted * (size - targeted) / others * h * (1.0 - h) * (means[0] - means[1]) ** 2
    for people, p, square, mean in zip((h, 1.0 - h), left, second, means, strict=True):
        result += targeted * people * np.maximum(p * square - mean**2, 0.0)
    both_targeted = targeted * (targeted - 1.0) / (size * others)
    for (i, j), pairs in pair_counts(size, h).items():
        taken = given_taken(rest, 0, shares[i], shares[j], total)
        both_left = left[i] * exposure_law(*taken, 0).pmf[:, 0]
        short_both = np.zeros(len(draws))
        for s in range(cap):
            case = given_taken(draws, s, inside[i], inside[j], posterior)
            seconds = exposure_law(*case, cap - 1).pmf @ short
            short_both += laws[i].pmf[:, s] * short[s] * seconds
        both = full * (first[i] + first[j]) - full**2 + short_both
        result += both_targeted * pairs * (both_left * both - means[i] * means[j])
    return np.maximum(np.where(size > 1.0, result, 0.0), 0.0)


def _given_left_out(
    draws: FloatArray, rest: FloatArray, share: FloatArray, total: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Trials, size and dispersion of our draws on a member whom the rest left out."""
    fixed = np.isinf(total)
    finite = np.where(fixed, 1.0, total)
    size = np.where(fixed, 1.0 / share, (finite + rest) / (finite * share))
    return draws, size, total * share


def _moment(law: ExposureLaw, cap: int, at_least: bool, power: int) -> FloatArray:
    """E[min(X, cap)] or E[min(X, cap)²]; with `at_least` P(X ≥ cap), whatever the power."""
    above = law.survival()[..., 1 : cap + 1]
    if at_least:
        return np.asarray(above[..., -1])
    if power == 1:
        return np.asarray(above.sum(axis=-1))
    return np.asarray(above @ (2.0 * np.arange(1, cap + 1) - 1.0))


def _padded(batch: FloatArray, top: int) -> FloatArray:
    """P(B = 1), ..., P(B = top)."""
    result = np.zeros(top)
    width = min(len(batch), top)
    result[:width] = batch[:width]
    return result
