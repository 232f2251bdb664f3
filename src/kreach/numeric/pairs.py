"""How the exposure counts of two people of one group depend on each other.

The *gap* of a pair is P(X = l, X' = l') − P(X = l)·P(X' = l'). Covariances are sums over it. In a
group of a billion the two probabilities agree in nine digits and more, so the gap is computed as
P(X = l)·P(X' = l')·(ρ − 1), with ln ρ in closed form and ρ − 1 by expm1: no subtraction of nearly
equal numbers. Rows are pairs; the counts l of both people run over a window of columns.
"""

import numpy as np

from kreach.numeric.special import log_gamma_cross
from kreach.numeric.types import FloatArray

__all__ = ["binomial_pair_gap", "dirichlet_pair_gap"]

# ln n! up to 170, where it is about 700 and so good to 13 decimals
_LOG_FACTORIAL = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, 171.0)))])


def binomial_pair_gap(
    trials: FloatArray,
    first: FloatArray,
    second: FloatArray,
    first_pmf: FloatArray,
    second_pmf: FloatArray,
    counts: FloatArray,
) -> FloatArray:
    """Gap of two members with visit shares `first` (p) and `second` (q) of n impressions.

    The joint law is trinomial, which gives, with m = n − l − l',

        ln ρ = ln[(n−l)!(n−l')!/(n! m!)] + m ln(1 − pq/((1−p)(1−q))) − l' ln(1−p) − l ln(1−q).

    With cap 1 only l = l' = 0 counts and this is Lemma 1 of the paper, for unequal shares too.
    Shares lie strictly between 0 and 1. `counts` is (rows, W); the result is (rows, W, W).
    """
    n = trials[:, None, None]
    p, q = first[:, None, None], second[:, None, None]
    l1, l2 = counts[:, :, None], counts[:, None, :]
    rest = n - l1 - l2
    possible = rest >= 0.0
    rest = np.where(possible, rest, 0.0)
    both = np.minimum(p / (1.0 - p) * (q / (1.0 - q)), 1.0)  # 1 when p + q = 1
    with np.errstate(divide="ignore", invalid="ignore"):
        shrink = np.where(rest > 0.0, rest * np.log1p(-both), 0.0)
    log_rho = (
        _log_orders(n, np.where(possible, l1, 0.0), np.where(possible, l2, 0.0))
        + shrink
        - l2 * np.log1p(-p)
        - l1 * np.log1p(-q)
    )
    return _gap(first_pmf, second_pmf, np.where(possible, log_rho, -np.inf))


def dirichlet_pair_gap(
    trials: FloatArray,
    dispersion: FloatArray,
    group_size: FloatArray,
    pmf: FloatArray,
    counts: FloatArray,
) -> FloatArray:
    """Gap of two members of a group of k whose visit shares are Dirichlet(a, ..., a).

    The joint law is Dirichlet-multinomial. With C(b; x, y) = ln Γ(b+x)Γ(b+y)/(Γ(b)Γ(b+x+y)),
    r = (k−2)a, b = (k−1)a and m = n − l − l':

        ln ρ = C(m+1; l, l') + C(r; a, n) − C(b; a, n) − C(r+n−l'; l', a) − C(r+m; l, a+l').

    In a group of two, r = 0 and X' = n − X.
    """
    n, a = trials[:, None, None], dispersion[:, None, None]
    r = np.maximum(group_size[:, None, None] - 2.0, 0.0) * a
    l1, l2 = counts[:, :, None], counts[:, None, :]
    rest = n - l1 - l2
    possible = rest >= 0.0
    pair_only = (group_size <= 2.0)[:, None, None]
    safe_r = np.where(pair_only, 1.0, r)
    m = np.where(possible, rest, 0.0)
    x, y = np.where(possible, l1, 0.0), np.where(possible, l2, 0.0)
    log_rho = (
        _log_orders(n, x, y)
        + log_gamma_cross(safe_r, a, n)
        - log_gamma_cross(safe_r + a, a, n)
        - log_gamma_cross(safe_r + m + x, y, a)
        - log_gamma_cross(safe_r + m, x, a + y)
    )
    gap = _gap(pmf, pmf, np.where(possible & ~pair_only, log_rho, -np.inf))
    # a group of two: l' = n − l surely, so the joint probability is P(X = l) itself
    return gap + np.where(pair_only & (rest == 0.0), pmf[:, :, None], 0.0)


def _log_orders(n: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """ln[(n−x)!(n−y)!/(n!(n−x−y)!)]: from a table of factorials where n is small."""
    if n.max(initial=0.0) < len(_LOG_FACTORIAL):
        whole, first, second = n.astype(np.intp), x.astype(np.intp), y.astype(np.intp)
        orders: FloatArray = (
            _LOG_FACTORIAL[whole - first]
            - _LOG_FACTORIAL[whole]
            + _LOG_FACTORIAL[whole - second]
            - _LOG_FACTORIAL[whole - first - second]
        )
        return orders
    return log_gamma_cross(n - x - y + 1.0, x, y)


def _gap(first_pmf: FloatArray, second_pmf: FloatArray, log_rho: FloatArray) -> FloatArray:
    independent = first_pmf[:, :, None] * second_pmf[:, None, :]
    # far in the tails ρ may be huge while the product underflows: keep the product of logs
    with np.errstate(over="ignore", invalid="ignore"):
        gap = independent * np.expm1(log_rho)
    return np.where(independent > 0.0, gap, 0.0)
