"""Variances of sets of impressions where visit shares are fixed: profiled and overlapping groups.

With fixed shares the sets fall on people independently of each other. For two people i and j, with
Z = 1 if the rest left a person out and ψ the person's impressions of ours within the cap,

    Cov(Zψ, Z'ψ') = E[ZZ']·Cov(ψ, ψ') + (E[ZZ'] − E[Z]E[Z'])·E[ψ]E[ψ'],

E[ZZ'] being the product of (1 − q_i − q_j)^r over shared groups and of the single chances over the
others. The number of people in several sets is a product over sets (`several.py`).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from kreach.numeric.exposure import ExposureLaw, binomial_law
from kreach.numeric.overlap import class_exposure_laws, pair_blocks, pair_covariance, shortfall
from kreach.numeric.pairs import binomial_pair_gap
from kreach.numeric.several import both_in_several, in_several
from kreach.numeric.types import BoolArray, FloatArray, IntArray

__all__ = [
    "overlapping_only_variance",
    "overlapping_several_variance",
    "profiled_only_variance",
    "profiled_several_variance",
]


def profiled_only_variance(
    groups: Sequence[tuple[FloatArray, int, int]], cap: int, *, at_least: bool
) -> float:
    """Σ Var over groups given as (visit shares, impressions of ours, of the rest)."""
    total = 0.0
    counts = np.arange(cap, dtype=np.float64)
    weight = np.ones(cap) if at_least else cap - counts
    for shares, ours, rest in groups:
        value, number = np.unique(shares[shares > 0.0], return_counts=True)
        people = number.astype(np.float64)
        law = binomial_law(np.full(len(value), float(ours)), value, cap)
        left = _missed(value, rest)
        mean, square = _moments(law, cap, at_least=at_least)
        total += float(people @ (left * square - (left * mean) ** 2))
        first, second = np.triu_indices(len(value))
        pairs = np.where(
            first == second,
            people[first] * (people[first] - 1.0),
            2.0 * people[first] * people[second],
        )
        first, second, pairs = first[pairs > 0], second[pairs > 0], pairs[pairs > 0]
        if first.size == 0:
            continue
        gap = binomial_pair_gap(
            np.full(len(first), float(ours)),
            value[first],
            value[second],
            law.pmf[first, :cap],
            law.pmf[second, :cap],
            np.tile(counts, (len(first), 1)),
        )
        both_left = _missed(value[first] + value[second], rest)
        single = left[first] * left[second]
        covariance = both_left * (gap @ weight @ weight)
        covariance += (both_left - single) * mean[first] * mean[second]
        total += float(pairs @ covariance)
    return max(total, 0.0)


def profiled_several_variance(groups: Sequence[tuple[FloatArray, FloatArray]]) -> float:
    """Var[people in two or more sets], over groups given as (visit shares, counts of the sets)."""
    total = 0.0
    for shares, counts in groups:
        value, number = np.unique(shares[shares > 0.0], return_counts=True)
        people = number.astype(np.float64)
        missed = np.stack([_missed(value, n) for n in counts], axis=1)
        chance = in_several(missed)
        first, second = np.triu_indices(len(value))
        pairs = np.where(
            first == second,
            people[first] * (people[first] - 1.0),
            2.0 * people[first] * people[second],
        )
        neither = np.stack([_missed(value[first] + value[second], n) for n in counts], axis=1)
        both = both_in_several(missed[first], missed[second], neither)
        total += float(people @ (chance - chance**2))
        total += float(pairs @ (both - chance[first] * chance[second]))
    return max(total, 0.0)


def overlapping_only_variance(
    classes: IntArray,
    headcount: FloatArray,
    group_size: FloatArray,
    ours: IntArray,
    rest: IntArray,
    cap: int,
    *,
    at_least: bool,
) -> float:
    """The same over membership classes (`overlap.py` has the covariance of ours)."""
    law, row_of = class_exposure_laws(classes, group_size, ours, cap)
    mean, square = (m[row_of] for m in _moments(law, cap, at_least=at_least))
    left = _class_missed(classes, group_size, rest)
    total = float(headcount @ (left * square - (left * mean) ** 2))
    short = shortfall(cap, at_least=at_least)
    for first, second, in_first, in_second, people in _coupled(classes, headcount, group_size):
        both = _pair_missed(classes, group_size, rest, left, first, second, in_first)
        coupled = pair_covariance(
            classes, group_size, ours, short, first, second, in_first, in_second, people * both
        )
        apart = (both - left[first] * left[second]) * mean[first] * mean[second]
        total += coupled + float(people @ apart)
    return max(total, 0.0)


def overlapping_several_variance(
    classes: IntArray, headcount: FloatArray, group_size: FloatArray, counts: IntArray
) -> float:
    """Var[people in two or more sets]; `counts` has a row per group and a column per set."""
    sets = counts.T
    missed = np.stack([_class_missed(classes, group_size, n) for n in sets], axis=1)
    chance = in_several(missed)
    total = float(headcount @ (chance - chance**2))
    for first, second, in_first, _, people in _coupled(classes, headcount, group_size):
        neither = np.stack(
            [
                _pair_missed(classes, group_size, n, missed[:, at], first, second, in_first)
                for at, n in enumerate(sets)
            ],
            axis=1,
        )
        both = both_in_several(missed[first], missed[second], neither)
        total += float(people @ (both - chance[first] * chance[second]))
    return max(total, 0.0)


def _coupled(
    classes: IntArray, headcount: FloatArray, group_size: FloatArray
) -> Iterator[tuple[IntArray, IntArray, BoolArray, BoolArray, FloatArray]]:
    """Pairs that share a group; a group of one leaves nothing to chance, so it couples nobody."""
    certain = group_size == 1.0
    return pair_blocks(np.where((classes >= 0) & ~certain[classes], classes, -1), headcount)


def _missed(share: FloatArray, impressions: float | IntArray) -> FloatArray:
    """(1 − q)^n, also for q = 1 and for shares that sum to a little more."""
    result: FloatArray = np.maximum(1.0 - share, 0.0) ** impressions
    return result


def _class_missed(classes: IntArray, group_size: FloatArray, impressions: IntArray) -> FloatArray:
    missed = _missed(1.0 / group_size, impressions)
    result: FloatArray = np.where(classes >= 0, missed[classes], 1.0).prod(axis=1)
    return result


def _pair_missed(
    classes: IntArray,
    group_size: FloatArray,
    impressions: IntArray,
    missed: FloatArray,
    first: IntArray,
    second: IntArray,
    shared: BoolArray,
) -> FloatArray:
    """P(neither of a pair): that of independent people, mended in the groups that they share."""
    single = _missed(1.0 / group_size, impressions)
    joint = _missed(2.0 / group_size, impressions)
    ratio = np.divide(joint, single**2, out=np.zeros_like(joint), where=single > 0.0)
    mend = np.where(shared, ratio[classes[first]], 1.0).prod(axis=1)
    result: FloatArray = missed[first] * missed[second] * mend
    return result


def _moments(law: ExposureLaw, cap: int, *, at_least: bool) -> tuple[FloatArray, FloatArray]:
    """E[min(X, cap)] and E[min(X, cap)²]; with `at_least` P(X ≥ cap) twice."""
    above = law.survival()[..., 1 : cap + 1]
    if at_least:
        return above[..., -1], above[..., -1]
    return above.sum(axis=-1), above @ (2.0 * np.arange(1, cap + 1) - 1.0)
