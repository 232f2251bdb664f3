"""Reach when the requests of a group are counted too, not only the impressions won among them.

Let the k members of a group make V_1, ..., V_k requests, independent draws from one law f of the
whole population, and let their sum be V. Which n of the V requests were won does not depend on who
made them. Then, given V,

    P(V_i = v | V)       = f(v) f^{*(k−1)}(V − v) / f^{*k}(V)
    P(V_i + V_j = w | V) = f^{*2}(w) f^{*(k−2)}(V − w) / f^{*k}(V)
    X_i | v              ~ hypergeometric: n draws without replacement from V, v of them marked

and with s(v) = C(V − v, n) / C(V, n), the chance that none of v requests was won,

    E[reach(1)]   = u (1 − E s(V_i))
    Var[reach(1)] = u p(1 − p) + u(u − 1)(E s(V_i + V_j) − p²),     p = E s(V_i).

Nothing is assumed about *how* unequal people are: f is any law. Sessions are in f as well. Ecology
knows s as rarefaction. The conditional laws do not change when f(v) is multiplied by e^{θv}; a θ
that puts the mean near V keeps the convolutions, done by FFT, away from their rounding noise.
"""

from collections.abc import Iterator

import numpy as np
from scipy.special import gammaln

from kreach.numeric.exposure import binomial_law
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["log_likelihood_of_requests", "rarefied_reach"]

_NO_CHANCE = -1e300
_MIN_CHANCE = 1e-25
_NOISE = 1e-12  # of an FFT, relative to what it transforms


def rarefied_reach(
    law: FloatArray,
    size: IntArray,
    targeted: IntArray,
    requests: IntArray,
    impressions: IntArray,
    cap: int,
) -> tuple[FloatArray, FloatArray]:
    """Mean of capped reach and variance of *unique* reach, for each row (a kind of group)."""
    mean, variance = np.zeros(len(size)), np.zeros(len(size))
    for k, rows, powers in _batches(law, size, requests):
        one_law, two_law, alone, pairs = powers
        for at in rows[impressions[rows] > 0].tolist():
            total, won = int(requests[at]), int(impressions[at])
            one = _conditional(one_law, alone, total, 1.0 / k)
            mean[at] = targeted[at] * float(one @ _capped_mean(total, won, len(one) - 1, cap))
            two = _conditional(two_law, pairs, total, min(2.0 / k, 1.0))
            missed = _missed(total, won, max(len(one), len(two)) - 1)
            p = float(one @ missed[: len(one)])
            both = float(two @ missed[: len(two)])
            u = float(targeted[at])
            variance[at] = max(u * p * (1.0 - p) + u * (u - 1.0) * (both - p * p), 0.0)
    return mean, variance


def log_likelihood_of_requests(law: FloatArray, size: IntArray, requests: IntArray) -> float:
    """Σ_j ln f^{*k_j}(V_j): how well a law explains the requests that groups made."""
    total = 0.0
    for k in np.unique(size).tolist():
        mine = requests[size == k]
        width = _width(int(mine.max(initial=0)), len(law))
        fading = _fading(width)
        chance = np.fft.irfft(np.fft.rfft(_faded(law, fading), width) ** k, width)[mine]
        logs = np.log(np.maximum(chance, _MIN_CHANCE)) + fading * mine
        total += float(logs.sum())
    return total


Powers = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""A law, its square, and its (k−1)th and (k−2)th powers (convolved), all faded alike."""


def _batches(
    law: FloatArray, size: IntArray, requests: IntArray
) -> Iterator[tuple[int, IntArray, Powers]]:
    """Rows of one size whose requests lie close, with the tilted law and its powers."""
    for k in np.unique(size).tolist():
        mine = np.flatnonzero(size == k)
        mine = mine[np.argsort(requests[mine], kind="stable")]
        while mine.size:
            first = int(requests[mine[0]])
            near = requests[mine] <= first + _reach_of_tilt(law, first, k)
            rows, mine = mine[near], mine[~near]
            yield k, rows, _powers(law, k, requests[rows])


def _reach_of_tilt(law: FloatArray, total: int, k: int) -> float:
    """How far above a sum its tilt still serves: two standard deviations of the sum."""
    f = _tilted(law[: 2 * total + 2], total / k)
    counts = np.arange(len(f), dtype=np.float64)
    middle = float((f * counts).sum())
    return 2.0 * float(np.sqrt(k * (f * (counts - middle) ** 2).sum()))


def _powers(law: FloatArray, k: int, requests: IntArray) -> Powers:
    most = int(requests.max())
    f = _tilted(law[: most + 1], float(np.mean(requests)) / k)
    width = _width(most, len(f))
    f = _faded(f, _fading(width))
    transformed = np.fft.rfft(f, width)
    two, alone, pairs = (
        np.maximum(np.fft.irfft(transformed**power, width), 0.0)
        for power in (min(k, 2), k - 1, max(k - 2, 0))
    )
    return f, two, alone, pairs


def _width(most: int, length: int) -> int:
    return max(1 << int(np.ceil(np.log2(4 * max(most, length) + 4))), 1024)


def _fading(width: int) -> float:
    """The rate of e^{−rate·v} at which a sum that wraps around the FFT has faded to nothing.

    The factor cancels in conditional laws, which do not depend on the tilt.
    """
    return float(np.log(1e12)) / width


def _faded(law: FloatArray, rate: float) -> FloatArray:
    result: FloatArray = law * np.exp(-rate * np.arange(len(law)))
    return result


def _tilted(law: FloatArray, mean: float) -> FloatArray:
    """f(v)e^{θv}, normalised, with the given mean (as near as the law's values allow)."""
    counts = np.arange(len(law), dtype=np.float64)
    logs = np.where(law > 0.0, np.log(np.maximum(law, 1e-300)), -np.inf)
    if not np.isfinite(logs).any():
        return np.full(len(law), 1.0 / len(law))
    low, high = -30.0, 30.0 / max(len(law) / 50.0, 1.0)

    def at(theta: float) -> FloatArray:
        weight = logs + theta * counts
        weight = np.exp(weight - weight.max())
        result: FloatArray = weight / weight.sum()
        return result

    for _ in range(50):
        middle = 0.5 * (low + high)
        if float((at(middle) * counts).sum()) < mean:
            low = middle
        else:
            high = middle
    return at(0.5 * (low + high))


def _conditional(first: FloatArray, rest: FloatArray, total: int, share: float) -> FloatArray:
    """P(value | sum = total), over values 0..total.

    For a sum that the law cannot make, as if requests fell evenly on everybody.
    """
    values = min(total, len(first) - 1)
    weight = first[: values + 1] * rest[total - np.arange(values + 1)]
    amount = float(weight.sum())
    if not amount > _NOISE * float(first.max()) * float(rest.max()):
        law = binomial_law(np.array([float(total)]), np.array([share]), total)
        even: FloatArray = law.pmf[0]
        return even
    result: FloatArray = weight / amount
    return result


def _missed(total: int, won: int, top: int) -> FloatArray:
    """C(V − v, n) / C(V, n) for v = 0..top."""
    v = np.arange(top + 1, dtype=np.float64)
    left = total - v - won
    logs = np.where(
        left >= 0.0,
        gammaln(total - v + 1.0)
        - gammaln(np.maximum(left, 0.0) + 1.0)
        - gammaln(total + 1.0)
        + gammaln(total - won + 1.0),
        _NO_CHANCE,
    )
    result: FloatArray = np.exp(logs)
    return result


def _capped_mean(total: int, won: int, top: int, cap: int) -> FloatArray:
    """E[min(X, c)] for X hypergeometric with v = 0..top marked: Σ_{l<c} P(X > l)."""
    v = np.arange(top + 1, dtype=np.float64)
    result = np.zeros(top + 1)
    below = np.zeros(top + 1)
    for count in range(min(cap, won)):
        feasible = (v >= count) & (total - v >= won - count)
        logs = np.where(
            feasible,
            _log_choose(v, float(count))
            + _log_choose(total - v, float(won - count))
            - _log_choose(np.array(float(total)), float(won)),
            _NO_CHANCE,
        )
        below += np.exp(logs)
        result += np.maximum(1.0 - below, 0.0)
    return result


def _log_choose(n: FloatArray, k: float) -> FloatArray:
    result: FloatArray = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(np.maximum(n - k, 0.0) + 1.0)
    return result
