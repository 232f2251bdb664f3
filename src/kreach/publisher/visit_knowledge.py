"""How unevenly members visit, estimated from history, in a form that may be released.

Either one number, `dispersion`, which says nothing about any single group; or a vector of visit
shares for each group: sorted, coarse, and shrunk towards equal shares, because a user without
history is not a user with share 0.

Each is estimated in two ways. *Likelihood* is right when visits are independent draws. Real visits
come in sessions and habits change, so *matching* assumes less: it is the value with which the
formulas give the reach that history itself shows when a random part of its visits is won.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kreach.boundary.checks import as_whole_number
from kreach.errors import KreachError
from kreach.numeric.exposure import binomial_law
from kreach.numeric.special import log_gamma_cross
from kreach.numeric.types import FloatArray, IntArray

__all__ = [
    "DispersionFit",
    "anonymity_from_visits",
    "effective_anonymity",
    "fit_dispersion",
    "match_dispersion",
    "match_pseudo_visits",
    "shrunk_shares",
    "visit_profiles",
]

_MIN, _MAX = 1e-6, 1e6  # of a dispersion
WON_SHARE = 0.1  # the share of the visits won at which reach is matched
_MAX_BINOMIAL_VISITS = 2_000  # for more visits the mean number of wins is accurate enough


@dataclass(frozen=True)
class DispersionFit:
    """The concentration a of a symmetric Dirichlet law of visit shares, with its standard error.

    `dispersion` is infinite, and the error not defined, where visits are as even as chance allows.
    """

    dispersion: float
    standard_error: float
    groups: int
    visits: int


def fit_dispersion(visits: IntArray, group_of: IntArray) -> DispersionFit:
    """Maximum likelihood of a, given how the visits of each group fell on its members.

    Given its total n_g, the counts x_i of a group of k_g are Dirichlet-multinomial:

        ℓ(a) = Σ_g [ln Γ(k_g a) − ln Γ(k_g a + n_g)] + Σ_i [ln Γ(a + x_i) − ln Γ(a)] + const

    The standard error is that of the observed information, 1/√(−ℓ″(a)). Equal counts and equal
    (k, n) are computed once, so a million users cost little more than sorting them.
    """
    from scipy.optimize import brentq  # noqa: PLC0415 - slow to import

    sizes, totals = _group_totals(visits, group_of)
    likelihood = _Likelihood(visits, sizes, totals)

    def slope(log_a: float) -> float:
        return likelihood.derivatives(float(np.exp(log_a)))[0]

    groups, total = len(sizes), int(totals.sum())
    if slope(np.log(_MAX)) >= 0.0:
        return DispersionFit(np.inf, np.nan, groups, total)
    if slope(np.log(_MIN)) <= 0.0:
        return DispersionFit(_MIN, np.nan, groups, total)
    a = float(np.exp(brentq(slope, np.log(_MIN), np.log(_MAX), xtol=1e-12)))
    curvature = likelihood.derivatives(a)[1]
    error = 1.0 / np.sqrt(-curvature) if curvature < 0.0 else np.nan
    return DispersionFit(a, float(error), groups, total)


class _Likelihood:
    """ℓ′ and ℓ″ over the distinct counts and the distinct (size, total) of groups."""

    def __init__(self, visits: IntArray, sizes: IntArray, totals: IntArray) -> None:
        count, people = np.unique(visits[visits > 0], return_counts=True)
        self._count, self._people = count.astype(float), people.astype(float)
        some = (sizes > 1) & (totals > 0)
        kinds, groups = np.unique(
            np.stack([sizes[some], totals[some]], axis=1), axis=0, return_counts=True
        )
        self._size, self._total = kinds[:, 0].astype(float), kinds[:, 1].astype(float)
        self._groups = groups.astype(float)

    def derivatives(self, a: float) -> tuple[float, float]:
        from scipy.special import digamma, polygamma  # noqa: PLC0415

        k, n, x = self._size, self._total, self._count
        first = self._groups @ (k * (digamma(k * a) - digamma(k * a + n)))
        first += self._people @ (digamma(a + x) - digamma(a))
        second = self._groups @ (k**2 * (polygamma(1, k * a) - polygamma(1, k * a + n)))
        second += self._people @ (polygamma(1, a + x) - polygamma(1, a))
        return float(first), float(second)


def match_dispersion(visits: IntArray, group_of: IntArray, won_share: float = WON_SHARE) -> float:
    """The dispersion whose expected unique reach agrees with history; infinity for even visits.

    If a random share s of the visits is won, history says that Σ_i 1 − (1−s)^{x_i} people are
    reached. The model says Σ_g k_g (1 − E[P(X = 0)]) with n ~ Binomial(N_g, s). The two are made
    equal at s = `won_share`.
    """
    sizes, totals = _group_totals(visits, group_of)
    kinds, groups = np.unique(np.stack([sizes, totals], axis=1), axis=0, return_counts=True)
    return _solve(visits, won_share, lambda a: _dispersed_reach(kinds, groups, a, won_share))


def match_pseudo_visits(
    visits: IntArray, group_of: IntArray, won_share: float = WON_SHARE
) -> float:
    """Visits to add to everybody so that shrunk shares give the reach that history shows.

    With fixed shares and a share s of N_g visits won, a member is reached with probability
    1 − (1 − s·q_i)^{N_g}.
    """
    _, totals = _group_totals(visits, group_of)

    def reach(pseudo: float) -> float:
        q = shrunk_shares(visits, group_of, pseudo)
        return float(-np.expm1(totals[group_of] * np.log1p(-won_share * q)).sum())

    return _solve(visits, won_share, reach)


def _group_totals(visits: IntArray, group_of: IntArray) -> tuple[IntArray, IntArray]:
    sizes = np.bincount(group_of)
    totals = np.bincount(group_of, weights=visits).astype(np.int64)
    if sizes.size == 0 or totals.sum() == 0:
        raise KreachError.rule("visits", "hold some history", "no visits")
    return sizes, totals


def _solve(visits: IntArray, won_share: float, reach: Callable[[float], float]) -> float:
    """The value at which the model's reach, which rises with it, equals the reach in history."""
    from scipy.optimize import brentq  # noqa: PLC0415

    if not 0.0 < won_share < 1.0:
        raise KreachError.rule("won_share", "lie between 0 and 1, both excluded", won_share)
    count, people = np.unique(visits, return_counts=True)
    reached = float(-np.expm1(count * np.log1p(-won_share)) @ people)

    def excess(log_value: float) -> float:
        return reach(float(np.exp(log_value))) / reached - 1.0

    if excess(np.log(_MAX)) <= 0.0:
        return np.inf  # even uniform shares do not reach more people
    if excess(np.log(_MIN)) >= 0.0:
        return _MIN
    return float(np.exp(brentq(excess, np.log(_MIN), np.log(_MAX), xtol=1e-6)))


def _dispersed_reach(kinds: IntArray, groups: IntArray, a: float, s: float) -> float:
    """Expected unique reach of groups by (size, visits) with Dirichlet(a) shares, s of it won."""
    reach = 0.0
    for size in np.unique(kinds[:, 0]).tolist():
        of_size = kinds[:, 0] == size
        total = kinds[of_size, 1].astype(np.float64)
        if size == 1:
            reach += float(groups[of_size] @ -np.expm1(total * np.log1p(-s)))
            continue
        top = int(min(total.max(), _MAX_BINOMIAL_VISITS))
        rest = np.array((size - 1.0) * a)
        never = np.exp(log_gamma_cross(rest, np.array(a), np.arange(top + 1.0)))
        won = binomial_law(np.minimum(total, top), np.full(len(total), s), top).pmf
        typical = np.exp(log_gamma_cross(rest, np.array(a), s * total))
        missed = np.where(total <= top, won @ never, typical)
        reach += size * float(groups[of_size] @ (1.0 - missed))
    return reach


def shrunk_shares(visits: IntArray, group_of: IntArray, pseudo_visits: float) -> FloatArray:
    """Visit share of each person given history: (x_i + a)/(n_g + k_g a) for a pseudo visits each.

    With the dispersion of the prior for a, it is the expected share given history.
    """
    sizes = np.bincount(group_of).astype(np.float64)
    totals = np.bincount(group_of, weights=visits)
    if np.isinf(pseudo_visits):
        result: FloatArray = 1.0 / sizes[group_of]
    else:
        result = (visits + pseudo_visits) / (totals + sizes * pseudo_visits)[group_of]
    return result


def effective_anonymity(shares: FloatArray, group_of: IntArray) -> FloatArray:
    """How many equally active people each group is worth: the perplexity exp(−Σ q ln q).

    A group of 20 in which one person makes nearly all visits hides that person hardly better than
    a group of one; this number shows it.
    """
    terms = -shares * np.log(np.where(shares > 0.0, shares, 1.0))
    result: FloatArray = np.exp(np.bincount(group_of, weights=terms))
    return result


def anonymity_from_visits(visits: IntArray, group_of: IntArray) -> FloatArray:
    """The effective anonymity of each group, with shares shrunk to match history."""
    pseudo_visits = match_pseudo_visits(visits, group_of)
    return effective_anonymity(shrunk_shares(visits, group_of, pseudo_visits), group_of)


def visit_profiles(
    visits: IntArray,
    group_of: IntArray,
    pseudo_visits: float,
    min_anonymity: float,
    steps: int = 1000,
) -> tuple[list[FloatArray], int]:
    """The visit shares of each group, safe to release, and how many groups are masked.

    Shares are shrunk by pseudo visits, sorted and rounded to multiples of 1/steps, at least one
    each. A group whose effective anonymity is below the threshold gets the average vector of
    the other groups of its size instead, or equal shares if there are none: neither says
    anything about this group.
    """
    steps = as_whole_number("steps", steps, minimum=2)
    sizes = np.bincount(group_of)
    if sizes.max(initial=0) > steps:
        raise KreachError.rule("steps", f"be at least the largest group ({sizes.max()})", steps)
    shares = shrunk_shares(visits, group_of, pseudo_visits)
    masked = effective_anonymity(shares, group_of) < min_anonymity
    order = np.lexsort((shares, group_of))
    starts = np.cumsum(sizes) - sizes
    profiles: list[FloatArray] = [np.zeros(0)] * len(sizes)
    for size in np.unique(sizes).tolist():
        groups = np.flatnonzero(sizes == size)
        table = shares[order][starts[groups][:, None] + np.arange(size)]
        unmasked = table[~masked[groups]]
        table[masked[groups]] = unmasked.mean(axis=0) if len(unmasked) else 1.0 / size
        for group, row in zip(groups.tolist(), _rounded(table, steps), strict=True):
            profiles[group] = row
    return profiles, int(masked.sum())


def _rounded(table: FloatArray, steps: int) -> FloatArray:
    """Rows of shares as multiples of 1/steps that still sum to 1 (largest remainders)."""
    exact = table * steps
    whole = np.maximum(np.floor(exact), 1.0)
    rows = np.arange(len(table))
    while True:
        missing = steps - whole.sum(axis=1)
        if not missing.any():
            return np.sort(whole, axis=1) / steps
        sign = np.where(missing > 0, 1.0, -1.0)[:, None]
        gain = np.where((whole > 1.0) | (sign > 0), (exact - whole) * sign, -np.inf)
        column = gain.argmax(axis=1)
        whole[rows, column] += np.sign(missing)
