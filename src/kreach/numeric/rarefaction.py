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

from kreach.numeric.types import FloatArray, IntArray

__all__ = ["log_likelihood_of_requests", "rarefied_reach"]

_STEP = 1.3  # requests are taken together up to this ratio, with one tilt
_NO_CHANCE = -1e300


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
    for rows, powers in _batches(law, size, requests):
        f, alone, pairs = powers
        for at in rows[impressions[rows] > 0].tolist():
            total, won = int(requests[at]), int(impressions[at])
            one = _conditional(f[0], alone, total)
            shown = _capped_mean(total, won, len(one) - 1, cap)
            mean[at] = targeted[at] * float(one @ shown)
            two = _conditional(f[1], pairs, total) if size[at] > 1 else np.ones(1)
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
        width = _width(law, int(mine.max(initial=0)))
        chance = np.fft.irfft(np.fft.rfft(law, width) ** k, width)[mine]
        total += float(np.log(np.maximum(chance, 1e-14)).sum())
    return total


def _batches(
    law: FloatArray, size: IntArray, requests: IntArray
) -> Iterator[tuple[IntArray, tuple[tuple[FloatArray, FloatArray], FloatArray, FloatArray]]]:
    """Rows of one size and of requests that lie close, with the tilted law and its powers."""
    bucket = np.ceil(np.log(np.maximum(requests, 1)) / np.log(_STEP)).astype(np.int64)
    for k in np.unique(size).tolist():
        for level in np.unique(bucket[size == k]).tolist():
            rows = np.flatnonzero((size == k) & (bucket == level))
            most = int(requests[rows].max())
            f = _tilted(law[: most + 1], float(np.mean(requests[rows])) / k)
            width = _width(f, most)
            transformed = np.fft.rfft(f, width)
            alone, pairs = (
                np.maximum(np.fft.irfft(transformed ** max(power, 0), width), 0.0)
                for power in (k - 1, k - 2)
            )
            doubled = np.maximum(np.fft.irfft(transformed**2, width), 0.0)
            yield rows, ((f, doubled), alone, pairs)


def _width(law: FloatArray, most: int) -> int:
    """Room for a sum up to `most` without wrapping: whatever is beyond wraps above it."""
    return 1 << int(np.ceil(np.log2(2 * max(most, len(law)) + 2)))


def _tilted(law: FloatArray, mean: float) -> FloatArray:
    """f(v)e^{θv}, normalised, with the given mean (as near as the law's values allow)."""
    counts = np.arange(len(law), dtype=np.float64)
    with np.errstate(divide="ignore"):
        logs = np.where(law > 0.0, np.log(np.maximum(law, 1e-300)), -np.inf)
    low, high = -30.0, 30.0 / max(len(law) / 50.0, 1.0)

    def at(theta: float) -> FloatArray:
        weight = logs + theta * counts
        weight = np.exp(weight - weight.max())
        result: FloatArray = weight / weight.sum()
        return result

    for _ in range(60):
        middle = 0.5 * (low + high)
        if float(at(middle) @ counts) < mean:
            low = middle
        else:
            high = middle
    return at(0.5 * (low + high))


def _conditional(first: FloatArray, rest: FloatArray, total: int) -> FloatArray:
    """P(value | sum = total), over values 0..total."""
    values = min(total, len(first) - 1)
    weight = first[: values + 1] * rest[total - np.arange(values + 1)]
    amount = float(weight.sum())
    if not amount > 0.0:  # not a sum that this law can make: all alike is the best guess
        return np.bincount([min(values, total)], minlength=values + 1).astype(np.float64)
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
