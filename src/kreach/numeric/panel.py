"""Estimates from a sample of groups: expansion to all groups, its spread, noise on running sums.

Groups are ordered, cut into strata of neighbours, and some groups of each stratum are in the panel
at random. With N groups in a stratum, n of them in the panel, and a difference d (truth − model)
for each of those, Σ N/n · Σ d is unbiased for the sum over all groups, whatever the model is. Its
variance is Σ N(N − n)/n · s², with s² the variance of the differences within the stratum: about
(G/m − 1) times the sum of all groups' variances, with m of G groups in the panel.

**Running sums with noise.** A sum that is published n times, S_1, S_2, …, S_n, is A x with x the
increments and A the lower triangle of ones. A = C C with C the lower-triangular Toeplitz matrix of

    c_0 = 1,  c_k = c_{k−1} (2k − 1)/2k          (the power series of 1/√(1 − z))

What is released is C x + noise, and C times that is S + C·noise. Somebody who changes one increment
by 1 changes C x by at most √(Σ c_k²) ≈ √(1 + ln(n)/π) in L2; who moves 1 from one increment to
another changes it by up to a quarter more (`root_distance`). Each S carries noise that is √(Σ c_k²)
times as large: for 30 sums the factors are 1.8 and 1.5, where noise on every increment would give
S_30 noise √30 · √2 = 7.7 times as large.
"""

from functools import lru_cache
from math import sqrt

import numpy as np
from scipy.special import ive

from kreach.numeric.types import FloatArray, IntArray

__all__ = [
    "expanded",
    "mean_deviation",
    "pair_deviations",
    "root_coefficients",
    "root_distance",
    "running_root",
]

_MANY = 12.0  # variance of D from which it is taken as normal
_REACH = 30  # of D, below that
_TINY = 1e-9


def root_coefficients(count: int) -> FloatArray:
    """c_0, …, c_{count−1}: the first column of C.

    >>> root_coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    steps = np.arange(1, count, dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod((2.0 * steps - 1.0) / (2.0 * steps))])[:count]


@lru_cache(maxsize=64)
def root_distance(count: int) -> float:
    """The L2 distance that C x can move when 1 is added to an increment, or moved to a later one.

    Moving it by d changes C x by c less c shifted by d. The first increment is the worst to move
    from: all others change a part of that.

    >>> [round(root_distance(count), 3) for count in (1, 2, 3, 31)]
    [1.0, 1.118, 1.281, 1.786]
    """
    coefficients = root_coefficients(count)
    squares = [float(coefficients @ coefficients)]
    for later in range(1, count):
        moved = coefficients.copy()
        moved[later:] -= coefficients[: count - later]
        squares.append(float(moved @ moved))
    return sqrt(max(squares))


def running_root(rows: FloatArray) -> FloatArray:
    """C times rows that are ordered by time, in the last row: Σ_k c_k · rows[last − k].

    >>> running_root(np.array([[1.0], [0.0], [0.0]])).tolist()
    [0.375]
    """
    coefficients = root_coefficients(len(rows))
    result: FloatArray = coefficients[::-1] @ rows
    return result


def expanded(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ N/n · d over the panel: the estimate of the sum over all groups; a row per panel group."""
    result: FloatArray = weights @ values
    return result


def pair_deviations(values: FloatArray, stratum: IntArray) -> FloatArray:
    """|d − d'| for the two panel groups of each stratum; values come ordered by stratum.

    >>> pair_deviations(np.array([[1.0], [3.0], [5.0], [4.0]]), np.array([0, 0, 1, 1])).tolist()
    [[2.0], [1.0]]
    """
    first = np.flatnonzero(np.diff(stratum, prepend=-1))
    result: FloatArray = np.abs(values[first + 1] - values[first])
    return result


def mean_deviation(first: FloatArray, second: FloatArray) -> FloatArray:
    """E|D| of D = (X − EX) − (X' − EX') for independent counts with the given variances.

    As if what each count lacks were Poisson. X − X' is then Skellam, and its mean need not be 0:
    where counts hardly vary, |D| is mostly the difference of the two means. Where variances are
    large D is normal, and E|D| = √(2(v + v')/π).

    >>> v, w = np.array([0.0, 0.001, 0.2, 100.0]), np.array([0.0, 0.001, 0.0, 100.0])
    >>> mean_deviation(v, w).round(4).tolist()
    [0.0, 0.002, 0.3275, 11.2838]
    """
    both = first + second
    result: FloatArray = np.sqrt(2.0 * both / np.pi)
    few = (both > 0.0) & (both < _MANY)
    v, w = np.maximum(first[few], _TINY)[:, None], np.maximum(second[few], _TINY)[:, None]
    k = np.arange(-_REACH, _REACH + 1)
    weight = np.exp(-((np.sqrt(v) - np.sqrt(w)) ** 2) + 0.5 * k * np.log(v / w))
    chance = weight * ive(np.abs(k), 2.0 * np.sqrt(v * w))  # P(X − X' = k)
    result[few] = (chance * np.abs(k - (v - w))).sum(axis=1)
    return result
