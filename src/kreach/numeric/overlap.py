"""People in several groups: exposure laws of membership classes and the variance of their reach.

A class is a set of groups and a head-count. Its members are alike, so sums over people become sums
over classes. With X = Σ_j Binomial(n_j, 1/k_j) over the groups of a class and Y = (c − X)⁺,

    Var R = Σ_A h_A Var Y_A + Σ_A h_A(h_A − 1) Cov(Y_A, Y_A') + 2 Σ_{A<B} h_A h_B Cov(Y_A, Y_B).

Two classes that share no served group are independent. For two that do, let S be the shared
groups. Given what fell on the two people in S, the rest is independent, hence

    Cov(Y_A, Y_B) = Σ_{s,s'} E[(c − s − X_{A∖S})⁺] · gap_S(s, s') · E[(c − s' − X_{B∖S})⁺]

with gap_S the joint probability less the product (numeric/pairs.py). Lemma 1 is its cap-1 case.

Classes come as a matrix of group indices, a row per class, sorted, filled up with −1.
"""

from collections.abc import Iterator

import numpy as np

from kreach.numeric.exposure import ExposureLaw, binomial_law, sum_of_laws
from kreach.numeric.pairs import binomial_pair_gap
from kreach.numeric.types import BoolArray, FloatArray, IntArray

__all__ = [
    "class_exposure_laws",
    "exposure_laws_by_size",
    "overlap_variance",
    "pair_blocks",
    "pair_covariance",
    "sharing_pairs",
    "shortfall",
    "tallied_covariance",
]

_PAIRS_AT_ONCE = 1 << 20
_MAX_KEYS = 1 << 24
_TABLE_CELLS = 1 << 21


def class_exposure_laws(
    classes: IntArray, group_size: FloatArray, impressions: IntArray, top: int
) -> tuple[ExposureLaw, IntArray]:
    """The distinct exposure laws of the classes, and for each class the row of its law.

    Groups of one size merge: a sum of binomials with equal success rates is binomial. Mixed sizes
    are convolved (`sum_of_laws`).
    """
    sizes, size_code = np.unique(group_size, return_inverse=True)
    trials = np.zeros((len(classes), len(sizes)), dtype=np.int64)
    rows = np.arange(len(classes))
    for column in classes.T:
        member = column >= 0
        trials[rows[member], size_code[column[member]]] += impressions[column[member]]
    distinct, law_of_class = _unique_rows(trials)
    return exposure_laws_by_size(sizes, distinct, top), law_of_class


def exposure_laws_by_size(sizes: FloatArray, trials: IntArray, top: int) -> ExposureLaw:
    """The law of Σ_s Binomial(trials[:, s], 1/sizes[s]) for each row."""
    law = binomial_law(trials[:, 0].astype(np.float64), np.array(1.0 / sizes[0]), top)
    for code in range(1, len(sizes)):
        more = trials[:, code].astype(np.float64)
        law = sum_of_laws(law, binomial_law(more, np.array(1.0 / sizes[code]), top))
    return law


def tallied_covariance(
    sizes: FloatArray,
    shared: IntArray,
    own_first: IntArray,
    own_second: IntArray,
    people: FloatArray,
    cap: int,
    *,
    at_least: bool = False,
) -> float:
    """Σ people·Cov(Y, Y') over pairs known only by their impressions per size.

    Groups of one size merge, shared ones as much as a person's own: the joint law of two people
    over merged groups is a trinomial with all their impressions.
    """
    total = 0.0
    width = len(sizes)
    step = max(1, _TABLE_CELLS // (cap * cap * 3 * width))
    for low in range(0, len(people), step):
        rows = slice(low, low + step)
        counts = np.concatenate([shared[rows], own_first[rows], own_second[rows]], axis=1)
        pairs = len(counts)
        group = np.arange(counts.size).reshape(pairs, 3 * width)  # every cell a group of its own
        first, second = group[:, : 2 * width], group.copy()[:, np.r_[:width, 2 * width : 3 * width]]
        classes = np.concatenate([first, second])
        in_both = np.tile(np.arange(2 * width) < width, (pairs, 1))
        at = np.arange(pairs)
        group_size = np.tile(sizes, 3 * pairs).astype(np.float64)
        total += pair_covariance(
            classes,
            group_size,
            counts.reshape(-1),
            shortfall(cap, at_least=at_least),
            at,
            at + pairs,
            in_both,
            in_both,
            people[rows],
        )
    return total


def _unique_rows(table: IntArray) -> tuple[IntArray, IntArray]:
    """np.unique(axis=0) by one packed key where the values allow it: ten times quicker."""
    spans = [int(s) for s in table.max(axis=0, initial=0) + 1]
    if np.prod([float(s) for s in spans]) < 2**62:
        key = np.zeros(len(table), dtype=np.int64)
        for column, span in zip(table.T, spans, strict=True):
            key = key * span + column
        distinct, inverse = np.unique(key, return_inverse=True)
        columns = []
        for span in reversed(spans):
            distinct, column = np.divmod(distinct, span)
            columns.append(column)
        return np.stack(columns[::-1], axis=1), inverse
    rows, inverse = np.unique(table, axis=0, return_inverse=True)
    return rows, inverse.reshape(-1)


def sharing_pairs(classes: IntArray) -> Iterator[tuple[IntArray, IntArray, BoolArray, BoolArray]]:
    """Every unordered pair of different classes that share a group, once, in blocks.

    Yields the rows of the first and the second class and, for each, which of its columns are
    shared. Linear in the number of pairs per group: no class is compared with a stranger.
    """
    row, column = np.nonzero(classes >= 0)
    group = classes[row, column]
    order = np.lexsort((row, group))
    row, group = row[order], group[order]
    _, start, degree = np.unique(group, return_index=True, return_counts=True)
    end = np.repeat(start + degree, degree)
    partners = end - np.arange(len(row)) - 1  # partners further down in the same group
    done = np.concatenate([[0], np.cumsum(partners)])
    low = 0
    while low < len(row):
        high = int(np.searchsorted(done, done[low] + _PAIRS_AT_ONCE, side="right")) - 1
        high = max(high, low + 1)
        here = partners[low:high]
        edge = np.repeat(np.arange(low, high), here)
        within = np.arange(len(edge)) - np.repeat(done[low:high] - done[low], here)
        first, second = row[edge], row[edge + 1 + within]
        in_first, in_second = _shared_columns(classes, first, second)
        # a pair that shares several groups appears in each of them: keep it in the first one
        leading = classes[first, in_first.argmax(axis=1)] == group[edge]
        if leading.any():
            yield first[leading], second[leading], in_first[leading], in_second[leading]
        low = high


def _shared_columns(
    classes: IntArray, first: IntArray, second: IntArray
) -> tuple[BoolArray, BoolArray]:
    width = classes.shape[1]
    in_first = np.zeros((len(first), width), dtype=np.bool_)
    in_second = np.zeros((len(first), width), dtype=np.bool_)
    columns = [np.ascontiguousarray(column) for column in classes.T]
    for i in range(width):
        mine = columns[i][first]
        member = mine >= 0
        for j in range(width):
            same = member & (mine == columns[j][second])
            in_first[:, i] |= same
            in_second[:, j] |= same
    return in_first, in_second


def overlap_variance(
    classes: IntArray,
    headcount: FloatArray,
    group_size: FloatArray,
    impressions: IntArray,
    cap: int,
    *,
    at_least: bool = False,
) -> float:
    """Var[Σ min(X_i, cap)] over all members of all classes, exact.

    With `at_least` the variance of #{i: X_i ≥ cap}: a person below the cap then falls short by 1
    whatever the count.

    O(pairs) when the sizes are equal and the counts small (pairs are then tallied by what their
    covariance depends on), O(pairs · cap²) otherwise.
    """
    served = impressions > 0
    classes = np.where((classes >= 0) & served[classes], classes, -1)
    touched = (classes >= 0).any(axis=1)
    classes, headcount = -np.sort(-classes[touched], axis=1), headcount[touched]
    if len(classes) == 0:
        return 0.0
    totals = np.where(classes >= 0, impressions[classes], 0).sum(axis=1)
    if at_least and cap > totals.max():
        return 0.0
    if cap >= totals.max() and not at_least:
        return _uncapped_variance(classes, headcount, group_size, impressions)
    law, law_of_class = class_exposure_laws(classes, group_size, impressions, cap - 1)
    own = law.below(cap) * law.tail if at_least else law.capped_variance(cap)
    variance = float(headcount @ own[law_of_class])
    short = shortfall(cap, at_least=at_least)
    certain = group_size == 1.0  # a group of one leaves nothing to chance, so it couples nobody
    coupled = np.where((classes >= 0) & ~certain[classes], classes, -1)
    if len(np.unique(group_size[served])) == 1 and float(totals.max() + 1.0) ** 3 < _MAX_KEYS:
        size = float(group_size[served][0])
        return max(variance + _tallied(coupled, headcount, totals, impressions, size, short), 0.0)
    pairs = pair_blocks(coupled, headcount)
    blocks = (pair_covariance(classes, group_size, impressions, short, *block) for block in pairs)
    return max(variance + sum(blocks), 0.0)


def _uncapped_variance(
    classes: IntArray, headcount: FloatArray, group_size: FloatArray, impressions: IntArray
) -> float:
    """Where nobody can be over the cap, reach is the impressions on targeted people: binomial."""
    row, column = np.nonzero(classes >= 0)
    group = classes[row, column]
    targeted = np.bincount(group, weights=headcount[row], minlength=len(group_size))
    share = targeted / group_size
    return float((impressions * share) @ np.maximum(1.0 - share, 0.0))


def pair_blocks(
    classes: IntArray, headcount: FloatArray
) -> Iterator[tuple[IntArray, IntArray, BoolArray, BoolArray, FloatArray]]:
    """All ordered pairs of different people of coupled classes: same class first, then across."""
    many = np.flatnonzero((headcount > 1.0) & (classes >= 0).any(axis=1))
    if many.size:
        shared = classes[many] >= 0
        yield many, many, shared, shared, headcount[many] * (headcount[many] - 1.0)
    for first, second, in_first, in_second in sharing_pairs(classes):
        yield first, second, in_first, in_second, 2.0 * headcount[first] * headcount[second]


def _tallied(
    classes: IntArray,
    headcount: FloatArray,
    totals: IntArray,
    impressions: IntArray,
    group_size: float,
    short: FloatArray,
) -> float:
    """Σ covariances for equal sizes: only (shared, own, own) impressions of a pair matter."""
    cap = len(short)
    span = int(totals.max()) + 1
    weight = np.zeros(span**3)
    for first, second, in_first, _, people in pair_blocks(classes, headcount):
        shared = np.where(in_first, impressions[classes[first]], 0).sum(axis=1)
        own_first, own_second = totals[first] - shared, totals[second] - shared
        key = (shared * span + own_first) * span + own_second
        weight += np.bincount(key, weights=people, minlength=span**3)
    keys = np.flatnonzero(weight)
    if keys.size == 0:
        return 0.0
    left, own_second = np.divmod(keys, span)
    shared, own_first = np.divmod(left, span)
    shared_pmf = _binomial_rows(np.arange(span), group_size, cap)
    room = shared_pmf @ short
    covariance = np.empty(len(keys))
    counts = np.arange(cap, dtype=np.float64)
    success = np.array([1.0 / group_size])
    for s in np.unique(shared):  # one table of gaps for each number of shared impressions
        rows = shared == s
        f = shared_pmf[s : s + 1]
        gap = binomial_pair_gap(np.array([float(s)]), success, success, f, f, counts[None, :])[0]
        covariance[rows] = np.einsum(
            "ri,ij,rj->r", room[own_first[rows]], gap, room[own_second[rows]], optimize=True
        )
    return float(weight[keys] @ covariance)


def _binomial_rows(trials: IntArray, group_size: float, cap: int) -> FloatArray:
    return binomial_law(trials.astype(np.float64), np.array(1.0 / group_size), cap - 1).pmf


def shortfall(cap: int, *, at_least: bool) -> FloatArray:
    """(c − l − s)⁺ for l and s below the cap; with `at_least` 1 where l + s is below it.

    A law's row P(X = l) times this is E[(c − s − X)⁺] for s = 0..c−1.
    """
    counts = np.arange(cap)
    left = np.maximum(cap - counts[:, None] - counts[None, :], 0)
    result: FloatArray = (left > 0 if at_least else left).astype(np.float64)
    return result


def pair_covariance(
    classes: IntArray,
    group_size: FloatArray,
    impressions: IntArray,
    short: FloatArray,
    first: IntArray,
    second: IntArray,
    in_first: BoolArray,
    in_second: BoolArray,
    people: FloatArray,
) -> float:
    """Σ people·Cov over the given pairs, group by group, for any sizes and counts."""
    cap = len(short)
    step = max(1, _TABLE_CELLS // (cap * cap))
    total = 0.0
    for low in range(0, len(first), step):
        rows = slice(low, low + step)
        a, b = classes[first[rows]], classes[second[rows]]
        room_a = _rest_pmf(a, in_first[rows], group_size, impressions, cap) @ short
        room_b = _rest_pmf(b, in_second[rows], group_size, impressions, cap) @ short
        gap = _shared_gap(a, in_first[rows], group_size, impressions, cap)
        total += float(people[rows] @ np.einsum("ri,rij,rj->r", room_a, gap, room_b, optimize=True))
    return total


def _rest_pmf(
    classes: IntArray,
    shared: BoolArray,
    group_size: FloatArray,
    impressions: IntArray,
    cap: int,
) -> FloatArray:
    """P(X = l), l < c, over the groups of a class that are not shared."""
    pmf = np.zeros((len(classes), cap))
    pmf[:, 0] = 1.0
    for column, hidden in zip(classes.T, shared.T, strict=True):
        counted = (column >= 0) & ~hidden
        trials = np.where(counted, impressions[column], 0).astype(np.float64)
        own = binomial_law(trials, 1.0 / group_size[column], cap - 1).pmf
        pmf = _truncated_product(pmf, own)
    return pmf


def _truncated_product(first: FloatArray, second: FloatArray) -> FloatArray:
    cap = first.shape[1]
    result = np.zeros_like(first)
    for i in range(cap):
        result[:, i:] += first[:, i : i + 1] * second[:, : cap - i]
    return result


def _shared_gap(
    classes: IntArray,
    shared: BoolArray,
    group_size: FloatArray,
    impressions: IntArray,
    cap: int,
) -> FloatArray:
    """gap_S over all shared groups of each pair, from the gaps D_j of the single groups.

    Joint law and product law are both products over groups: with F = f⊗f the product law so far
    and D its gap, one more group gives D ← D∗(F_j + D_j) + F∗D_j and f ← f∗f_j.
    """
    pmf = np.zeros((len(classes), cap))
    pmf[:, 0] = 1.0
    gap = np.zeros((len(classes), cap, cap))
    counts = np.arange(cap, dtype=np.float64)
    for column, here in zip(classes.T, shared.T, strict=True):
        rows = np.flatnonzero(here & (impressions[column] > 0))
        if rows.size == 0:
            continue
        group = column[rows]
        trials, success = impressions[group].astype(np.float64), 1.0 / group_size[group]
        f = binomial_law(trials, success, cap - 1).pmf
        own = binomial_pair_gap(trials, success, success, f, f, np.tile(counts, (len(rows), 1)))
        joint = own + f[:, :, None] * f[:, None, :]
        before = gap[rows]
        seen = before.any(axis=(1, 2))
        product = pmf[rows][:, :, None] * pmf[rows][:, None, :]
        fresh = own.copy()
        if seen.any():
            fresh[seen] = _truncated_product_2d(before[seen], joint[seen])
            fresh[seen] += _truncated_product_2d(product[seen], own[seen])
        gap[rows] = fresh
        pmf[rows] = _truncated_product(pmf[rows], f)
    return gap


def _truncated_product_2d(first: FloatArray, second: FloatArray) -> FloatArray:
    cap = first.shape[1]
    result = np.zeros_like(first)
    for i in range(cap):
        for j in range(cap):
            result[:, i:, j:] += first[:, i : i + 1, j : j + 1] * second[:, : cap - i, : cap - j]
    return result
