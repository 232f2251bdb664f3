"""Exact variance of the capped reach of one group, for every cap (Lemma 1 and Theorem 2 extended).

The paper calls the variance for caps above 1 combinatorial; it is not (docs/decisions/0002).
With Y_i = (c − X_i)⁺ reach is c·u − ΣY_i, and with Z_i = (X_i − c)⁺ it is T − ΣZ_i, T being the
impressions on the u targeted members. Either way the variance needs one pair of members:

    Var R = u Var Y + u(u−1) Cov(Y, Y')
    Var R = Var T + u Var Z + u(u−1) Cov(Z, Z') − 2u (k−u)/(k−1) Cov(X, Z)

(given X_i = l, the mean of T is linear in l with slope (k−u)/(k−1)). Both are exact everywhere; a
crowded group (many impressions a head) has small Y, a sparse one small Z, and the form with the
small variable keeps its digits: ten impressions in a group of 10⁹ have a variance of 4.5·10⁻⁸.
Y has `cap` values and Z some hundred: where Y loses little, it is taken for its speed.
"""

import numpy as np

from kreach.numeric.exposure import ExposureLaw, binomial_law, exposure_law
from kreach.numeric.pairs import binomial_pair_gap, dirichlet_pair_gap
from kreach.numeric.types import FloatArray

__all__ = [
    "group_variance",
    "group_variance_at_least",
    "group_variances_at_least",
    "profile_variance",
]

_PAIR_TABLE_CELLS = 1 << 21  # bounds the memory of one block of pair tables
_NEGLIGIBLE = 1e-20
_LONGEST = 600.0  # with more columns of Z, Y is the better choice
_SMALL = 250.0  # Y is considered for groups up to this size,
_RARE = 4e-6  # if the share beyond the cap is larger than this times the size of the group


def group_variance(
    group_size: FloatArray,
    targeted_count: FloatArray,
    impressions: FloatArray,
    dispersion: FloatArray,
    cap: int,
) -> FloatArray:
    """Var[Σ min(X_i, cap)] over the targeted members of a group; a row per group kind."""
    k, u, n, a = (
        np.asarray(v, dtype=np.float64)
        for v in np.broadcast_arrays(group_size, targeted_count, impressions, dispersion)
    )
    variance = np.zeros(k.shape)
    random = (k > 1.0) & (u > 0.0) & (n > 0.0)
    # With cap ≥ n no impression is over the cap: Z = 0 and only T varies.
    longer = _excess_reach(k, n, a, cap)
    sparse = random & ((n <= cap) | ((n < cap * k) & (longer <= _LONGEST)))
    either = np.flatnonzero(sparse & (k <= _SMALL) & (longer > cap))
    if either.size:  # then the cap is small
        mean = n[either] / k[either]
        law = exposure_law(n[either], k[either], a[either], cap - 1)
        sparse[either] = mean - law.capped_mean(cap) < _RARE * k[either] * mean
    crowded = random & ~sparse
    variance[sparse] = _sparse_variance(k[sparse], u[sparse], n[sparse], a[sparse], cap)
    variance[crowded] = _crowded_variance(k[crowded], u[crowded], n[crowded], a[crowded], cap)
    return np.maximum(variance, 0.0)


def group_variance_at_least(
    group_size: FloatArray,
    targeted_count: FloatArray,
    impressions: FloatArray,
    dispersion: FloatArray,
    count: int,
) -> FloatArray:
    """Var[#{i: X_i ≥ count}] over the targeted members of a group; a row per group kind.

    The number of people below `count` has the same variance: u·P(1 − P) + u(u−1) Σ gap(l, l')
    over l, l' < count, with P = P(X < count).
    """
    k, u, n, a = (
        np.asarray(v, dtype=np.float64)
        for v in np.broadcast_arrays(group_size, targeted_count, impressions, dispersion)
    )
    variance = np.zeros(k.shape)
    random = (k > 1.0) & (u > 0.0) & (n >= count)
    # Those at or above the count, or those below it: whichever are rare keep their digits.
    longer = _excess_reach(k, n, a, count - 1)
    sparse = random & (n < count * k) & (longer <= _LONGEST)
    either = np.flatnonzero(sparse & (k <= _SMALL) & (longer > count))
    if either.size:
        law = exposure_law(n[either], k[either], a[either], count - 1)
        sparse[either] = law.tail < _RARE * k[either]
    for rows_of, above in ((sparse, True), (random & ~sparse, False)):
        rows = np.flatnonzero(rows_of)
        if rows.size == 0:
            continue
        top = count - 1
        if above:
            top += max(int(np.ceil(np.max(_excess_reach(k[rows], n[rows], a[rows], top)))), 1)
        counts = np.arange(count if above else 0, top + 1, dtype=np.float64)
        for block in _blocks(len(rows), len(counts)):
            here = rows[block]
            law = exposure_law(n[here], k[here], a[here], top)
            pmf = law.pmf[:, count:] if above else law.pmf
            chance = pmf.sum(axis=1)
            pairs = _pair_covariance(pmf, np.ones(len(counts)), counts, k[here], n[here], a[here])
            own = chance * (1.0 - chance) if above else law.below(count) * law.tail
            variance[here] = u[here] * (own + (u[here] - 1.0) * pairs)
    return np.maximum(variance, 0.0)


def group_variances_at_least(
    group_size: FloatArray,
    targeted_count: FloatArray,
    impressions: FloatArray,
    dispersion: FloatArray,
    top: int,
) -> FloatArray:
    """`group_variance_at_least` for counts 1, ..., top: a row per group kind, a column per count.

    The pairs below a count are among those below the next, so one table of gaps serves all counts
    for which it keeps its digits.
    """
    k, u, n, a = (
        np.asarray(v, dtype=np.float64)
        for v in np.broadcast_arrays(group_size, targeted_count, impressions, dispersion)
    )
    variance = np.zeros((len(k), top))
    counts = np.arange(top, dtype=np.float64)
    shared = np.zeros((len(k), top), dtype=bool)
    some = np.flatnonzero((k > 1.0) & (k <= _SMALL) & (u > 0.0) & (n > 1.0))
    for block in _blocks(len(some), top):
        rows = some[block]
        law = exposure_law(n[rows], k[rows], a[rows], top - 1)
        above = law.survival()[:, 1:]
        below = np.cumsum(law.pmf, axis=1)
        here = np.tile(counts, (len(rows), 1))
        gap = _pair_gaps(law.pmf, here, k[rows], n[rows], a[rows])
        pairs = np.cumsum(np.cumsum(gap, axis=1), axis=2)[:, np.arange(top), np.arange(top)]
        variance[rows] = u[rows, None] * (above * below + (u[rows, None] - 1.0) * pairs)
        shared[rows] = (above > _RARE * k[rows, None]) & (n[rows, None] > counts + 1.0)
    for count in range(1, top + 1):
        rest = np.flatnonzero(~shared[:, count - 1])
        variance[rest, count - 1] = group_variance_at_least(
            k[rest], u[rest], n[rest], a[rest], count
        )
    return np.maximum(variance, 0.0)


def _excess_reach(k: FloatArray, n: FloatArray, a: FloatArray, cap: int) -> FloatArray:
    """How far above the cap counts may matter, when the mean is below the cap.

    Binomial: a dozen standard deviations. Beta-binomial: its tail falls like (n/(n+b))^l.
    """
    width = 60.0 + 12.0 * np.sqrt(cap)
    b = np.where(np.isinf(a), np.inf, np.maximum(k - 1.0, 1.0) * a)
    reach: FloatArray = 2.0 * width + 60.0 / np.log1p(b / np.maximum(n, 1.0))
    return np.minimum(np.where(np.isinf(a), width, reach), np.maximum(n - cap, 0.0))


def _crowded_variance(
    k: FloatArray, u: FloatArray, n: FloatArray, a: FloatArray, cap: int
) -> FloatArray:
    result = np.zeros(k.shape)
    for rows in _blocks(len(k), cap):
        law = exposure_law(n[rows], k[rows], a[rows], cap - 1)
        counts = np.arange(cap, dtype=np.float64)
        covariance = _pair_covariance(law.pmf, cap - counts, counts, k[rows], n[rows], a[rows])
        own = law.capped_variance(cap)
        result[rows] = u[rows] * own + u[rows] * (u[rows] - 1.0) * covariance
    return result


def _sparse_variance(
    k: FloatArray, u: FloatArray, n: FloatArray, a: FloatArray, cap: int
) -> FloatArray:
    share = u / k
    spread = np.where(np.isinf(a), 1.0, (1.0 + n / (k * a)) / (1.0 + 1.0 / (k * a)))
    result = n * share * ((k - u) / k) * spread  # Var T
    over = n > cap
    if not over.any():
        return result
    k, u, n, a = k[over], u[over], n[over], a[over]
    top = cap + int(np.ceil(np.max(_excess_reach(k, n, a, cap))))
    change = np.zeros(k.shape)
    counts = np.arange(cap + 1, top + 1, dtype=np.float64)
    excess = counts - cap
    for rows in _blocks(len(k), top - cap):
        law = exposure_law(n[rows], k[rows], a[rows], top)
        pmf = law.pmf[:, cap + 1 :]
        mean = pmf @ excess
        own = pmf @ excess**2 - mean**2
        with_x = (pmf * (counts - (n / k)[rows, None])) @ excess
        covariance = _pair_covariance(pmf, excess, counts, k[rows], n[rows], a[rows])
        slope = (k[rows] - u[rows]) / (k[rows] - 1.0)
        change[rows] = u[rows] * (own + (u[rows] - 1.0) * covariance - 2.0 * slope * with_x)
    result[over] += change
    return result


def _pair_covariance(
    pmf: FloatArray,
    weight: FloatArray,
    counts: FloatArray,
    k: FloatArray,
    n: FloatArray,
    a: FloatArray,
) -> FloatArray:
    """Σ_{l,l'} weight(l) weight(l') gap(l, l') over the columns that matter."""
    start, width = _window(pmf * weight**2)
    columns = start[:, None] + np.arange(width)
    inside = columns < pmf.shape[1]
    columns = np.minimum(columns, pmf.shape[1] - 1)
    window_pmf = np.where(inside, np.take_along_axis(pmf, columns, axis=1), 0.0)
    window_weight = weight[columns]
    window_counts = counts[columns]
    gap = _pair_gaps(window_pmf, window_counts, k, n, a)
    result: FloatArray = np.einsum("rij,ri,rj->r", gap, window_weight, window_weight)
    return result


def _pair_gaps(
    pmf: FloatArray, counts: FloatArray, k: FloatArray, n: FloatArray, a: FloatArray
) -> FloatArray:
    """The gap of two members at each pair of the counts, by their kind of visits."""
    uniform = np.isinf(a)
    gap = np.empty((*counts.shape, counts.shape[1]))
    for rows, dirichlet in ((uniform, False), (~uniform, True)):
        if not rows.any():
            continue
        f, here = pmf[rows], counts[rows]
        if dirichlet:
            gap[rows] = dirichlet_pair_gap(n[rows], a[rows], k[rows], f, here)
        else:
            gap[rows] = binomial_pair_gap(n[rows], 1.0 / k[rows], 1.0 / k[rows], f, f, here)
    return gap


def _window(importance: FloatArray) -> tuple[FloatArray, int]:
    """First column that matters in each row, and the width that is enough for every row."""
    if importance.shape[1] <= 8:  # not worth a search
        return np.zeros(len(importance), dtype=np.int64), importance.shape[1]
    matters = importance > _NEGLIGIBLE * importance.max(axis=1, keepdims=True)
    any_matters = matters.any(axis=1)
    start = np.where(any_matters, matters.argmax(axis=1), 0)
    stop = importance.shape[1] - np.where(any_matters, matters[:, ::-1].argmax(axis=1), 0)
    return start, int(np.max(np.where(any_matters, stop - start, 1), initial=1))


def _blocks(rows: int, columns: int) -> list[slice]:
    # windows are about as wide as a few standard deviations, never wider than the columns
    width = min(columns, 16 + int(25.0 * np.sqrt(columns)))
    step = max(1, _PAIR_TABLE_CELLS // (width * width))
    return [slice(i, i + step) for i in range(0, rows, step)]


def profile_variance(
    shares: FloatArray, impressions: int, cap: int, *, at_least: bool = False
) -> float:
    """Var[Σ min(X_i, cap)] of one group with visit shares q_i, everybody targeted.

    With `at_least` the variance of #{i: X_i ≥ cap}: a person below the cap then falls short by 1
    whatever the count.

    Σ Var + Σ_{i≠i'} Cov with the trinomial gap of each pair of distinct share values; people of
    equal share are counted, not repeated. O(d²c²) for d distinct shares.
    """
    if cap > impressions or (cap == impressions and not at_least):
        return 0.0  # every impression counts, or nobody can have so many
    value, people = np.unique(shares, return_counts=True)
    random = (value > 0.0) & (value < 1.0)
    value, people = value[random], people[random].astype(np.float64)
    if value.size == 0:
        return 0.0
    counts = np.arange(cap, dtype=np.float64)
    weight = np.ones(cap) if at_least else cap - counts
    n = np.full(len(value), float(impressions))
    law: ExposureLaw = binomial_law(n, value, cap - 1)
    own = law.below(cap) * law.tail if at_least else law.capped_variance(cap)
    variance = float(people @ own)
    first, second = np.triu_indices(len(value))
    pairs = np.where(
        first == second, people[first] * (people[first] - 1.0), 2.0 * people[first] * people[second]
    )
    first, second, pairs = first[pairs > 0], second[pairs > 0], pairs[pairs > 0]
    step = max(1, _PAIR_TABLE_CELLS // (cap * cap))
    for i in range(0, len(first), step):
        s, t = first[i : i + step], second[i : i + step]
        gap = binomial_pair_gap(
            n[s], value[s], value[t], law.pmf[s], law.pmf[t], np.tile(counts, (len(s), 1))
        )
        variance += float(pairs[i : i + step] @ (gap @ weight @ weight))
    return max(variance, 0.0)
