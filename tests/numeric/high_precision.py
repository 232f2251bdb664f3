"""Laws and variances with hundreds of digits, from the textbook formulas."""

from functools import cache
from typing import Any

from mpmath import mp

__all__ = ["beta_binomial_terms", "binomial_terms", "dirichlet_variance", "uniform_variance"]

DIGITS = 400
"""Enough for a tail of 10⁻³⁰⁰ as one minus a sum."""
VARIANCE_DIGITS = 150
"""Enough for a variance of 10⁻⁹⁰ as a difference of numbers of 10²⁰."""


@cache
def binomial_terms(n: int, p: Any, top: int) -> tuple[list[Any], Any]:
    """P(X = 0), ..., P(X = top) and P(X > top) of Binomial(n, p), p a number or (1, k) for 1/k."""
    with mp.workdps(DIGITS):
        chance = mp.mpf(p[0]) / p[1] if isinstance(p, tuple) else mp.mpf(p)
        if chance == 1:
            terms = [mp.mpf(int(l == n)) for l in range(top + 1)]  # noqa: E741
            return terms, 1 - sum(terms)
        terms = [mp.exp(n * mp.log1p(-chance))]
        odds = chance / (1 - chance)
        for l in range(1, top + 1):  # noqa: E741
            terms.append(terms[-1] * max(n - l + 1, 0) / l * odds)
        return terms, (1 - sum(terms) if n > top else mp.mpf(0))


@cache
def beta_binomial_terms(n: int, a: float, k: int, top: int) -> tuple[list[Any], Any]:
    """The same of BetaBinomial(n, a, (k − 1)a)."""
    with mp.workdps(DIGITS):
        first, second = mp.mpf(a), mp.mpf(a) * (k - 1)
        if k == 1:
            terms = [mp.mpf(int(l == n)) for l in range(top + 1)]  # noqa: E741
            return terms, 1 - sum(terms)
        log_zero = (
            mp.loggamma(second + n)
            + mp.loggamma(first + second)
            - mp.loggamma(second)
            - mp.loggamma(first + second + n)
        )
        terms = [mp.exp(log_zero)]
        for l in range(1, top + 1):  # noqa: E741
            ratio = max(n - l + 1, 0) * (first + l - 1) / (l * (second + n - l)) if l <= n else 0
            terms.append(terms[-1] * ratio)
        return terms, (1 - sum(terms) if n > top else mp.mpf(0))


def uniform_variance(k: int, u: int, n: int, cap: int) -> float:
    """u Var Y + u(u − 1) Cov(Y, Y') with Y = (c − X)⁺, the joint law being trinomial."""
    with mp.workdps(VARIANCE_DIGITS):
        p = mp.mpf(1) / k
        joint = {}
        for i in range(cap):
            for j in range(cap):
                rest = n - i - j
                if rest >= 0 and (k > 2 or rest == 0):
                    orders = mp.binomial(n, i) * mp.binomial(n - i, j)
                    joint[i, j] = orders * p ** (i + j) * (1 - 2 * p) ** rest
        single, _ = binomial_terms(n, (1, k), cap - 1)
        return _variance(single, joint, u, cap)


def dirichlet_variance(k: int, u: int, n: int, a: float, cap: int) -> float:
    """The same with Dirichlet(a, ..., a) shares, the joint law being Dirichlet-multinomial."""
    with mp.workdps(VARIANCE_DIGITS):
        spread = mp.mpf(a)
        total = spread * k
        scale = mp.loggamma(total) - mp.loggamma(total + n) + mp.loggamma(mp.mpf(n) + 1)
        joint = {}
        for i in range(cap):
            for j in range(cap):
                rest = n - i - j
                if rest < 0 or (k == 2 and rest > 0):
                    continue
                log = scale
                for count, strength in ((i, spread), (j, spread), (rest, spread * (k - 2))):
                    if strength > 0:
                        log += mp.loggamma(strength + count) - mp.loggamma(strength)
                        log -= mp.loggamma(mp.mpf(count) + 1)
                joint[i, j] = mp.exp(log)
        single, _ = beta_binomial_terms(n, a, k, cap - 1)
        return _variance(single, joint, u, cap)


def _variance(single: list[Any], joint: dict[tuple[int, int], Any], u: int, cap: int) -> float:
    mean = sum((cap - i) * p for i, p in enumerate(single))
    square = sum((cap - i) ** 2 * p for i, p in enumerate(single))
    both = sum((cap - i) * (cap - j) * p for (i, j), p in joint.items())
    return float(u * (square - mean**2) + mp.mpf(u) * (u - 1) * (both - mean**2))
