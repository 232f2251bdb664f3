"""Reach given the requests of a group, against all that can happen, counted with whole numbers."""

from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import comb

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import nbinom, poisson

import kreach as kr
from kreach.numeric.rarefaction import log_likelihood_of_requests, rarefied_reach
from kreach.numeric.types import FloatArray

pytestmark = pytest.mark.xdist_group("rarefaction")  # what takes long is done once

# How often a person makes 0, 1, 2, ... requests, as whole numbers: nothing is rounded.
LAWS: dict[str, tuple[int, ...]] = {
    "light": (3, 2, 1),
    "holes": (5, 0, 2, 0, 1),
    "heavy tail": (50, 20, 8, 4, 2, 1, 1, 1, 1, 1, 1, 1),
    "threes": (2, 0, 0, 1),
    "mostly threes": (1, 0, 0, 5),
    "everybody comes": (0, 3, 2, 1),
    "two kinds of people": (100, 0, 1, 0, 0, 0, 0, 0, 0, 0, 99),
    "flat": (1, 1, 1, 1, 1),
}


@cache
def law_of_reach(
    law: tuple[int, ...], k: int, u: int, total: int, won: int, cap: int
) -> dict[int, Fraction]:
    """P(reach) given the sum of requests and how many were won; empty if it cannot be the sum.

    Of v requests x are won in C(v, x) ways, so a member adds f(v) C(v, x) to the state
    (requests, won, reach).
    """
    states = {(0, 0, 0): 1}
    for member in range(k):
        after: dict[tuple[int, int, int], int] = defaultdict(int)
        for (requests, seen, reach), ways in states.items():
            for v in range(min(len(law) - 1, total - requests) + 1):
                for x in range(min(v, won - seen) + 1 if law[v] else 0):
                    adds = min(x, cap) if member < u else 0
                    after[requests + v, seen + x, reach + adds] += ways * law[v] * comb(v, x)
        states = after
    matching = {c: ways for (r, x, c), ways in states.items() if (r, x) == (total, won)}
    return {c: Fraction(ways, sum(matching.values())) for c, ways in matching.items()}


def moments(pmf: dict[int, Fraction]) -> tuple[float, float]:
    mean = sum((c * p for c, p in pmf.items()), Fraction(0))
    return float(mean), float(sum(((c - mean) ** 2 * p for c, p in pmf.items()), Fraction(0)))


def as_law(weights: npt.ArrayLike) -> FloatArray:
    counts = np.array(weights, dtype=np.float64)
    result: FloatArray = counts / counts.sum()
    return result


def ours(law: FloatArray, k: int, u: int, total: int, won: int, cap: int) -> tuple[float, float]:
    size, targeted, requests, impressions = (np.array([value]) for value in (k, u, total, won))
    mean, variance = rarefied_reach(law, size, targeted, requests, impressions, cap)
    return float(mean[0]), float(variance[0])


def test_the_reference_against_every_subset() -> None:
    """The count of ways above is itself checked: all members' requests, all subsets of them."""
    law, k, u, total, won, cap = (5, 0, 2, 1), 3, 2, 5, 3, 2
    chance: dict[int, Fraction] = defaultdict(Fraction)
    for counts in product(range(len(law)), repeat=k):
        if sum(counts) != total:
            continue
        weight = Fraction(1)
        for v in counts:
            weight *= law[v]
        owner = [member for member, v in enumerate(counts) for _ in range(v)]
        for chosen in combinations(range(total), won):
            seen = [sum(owner[at] == member for at in chosen) for member in range(u)]
            chance[sum(min(x, cap) for x in seen)] += weight
    everything = sum(chance.values())
    expected = {c: p / everything for c, p in chance.items()}
    assert law_of_reach(law, k, u, total, won, cap) == expected


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", LAWS)
def test_against_all_that_can_happen(name: str, k: int) -> None:
    weights = LAWS[name]
    law = as_law(weights)
    compared = 0
    for total in (1, 2, 3, 4, 6, 9, 12):
        for won in sorted({1, max(total // 2, 1), total}):
            for u in sorted({1, max(k // 2, 1), k}):
                for cap in (1, 2, 5):
                    pmf = law_of_reach(weights, k, u, total, won, cap)
                    if not pmf:
                        continue
                    mean, variance = ours(law, k, u, total, won, cap)
                    unique = moments(law_of_reach(weights, k, u, total, won, 1))[1]
                    place = (total, won, u, cap)
                    assert mean == pytest.approx(moments(pmf)[0], rel=1e-9), place
                    assert variance == pytest.approx(unique, rel=1e-8, abs=1e-9), place
                    compared += 1
    assert compared > 5


def test_nobody_targeted_and_nothing_won() -> None:
    law = as_law(LAWS["flat"])
    assert ours(law, 3, 0, 5, 2, 1) == (0.0, 0.0)
    assert ours(law, 3, 3, 5, 0, 1) == (0.0, 0.0)
    assert ours(law, 3, 3, 0, 0, 1) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["threes", "holes", "two kinds of people"])
def test_a_sum_that_the_law_cannot_make_is_still_a_possible_reach(name: str) -> None:
    """There is no right answer, but one impression does not reach two people."""
    weights = LAWS[name]
    law = as_law(weights)
    seen = 0
    for k in (1, 2, 4):
        for total in (1, 3, 4, 5, 7):
            for won in (1, total):
                if law_of_reach(weights, k, k, total, won, 1):
                    continue
                mean, variance = ours(law, k, k, total, won, 1)
                assert 0.0 <= mean <= min(won, k) * (1.0 + 1e-9), (k, total, won)
                assert variance >= 0.0
                seen += 1
    assert seen


@pytest.mark.parametrize("name", LAWS)
def test_all_won_reaches_all_who_came(name: str) -> None:
    """Var and mean need no hypergeometric law then: k(1 − P(v = 0 | V)), by convolution."""
    law, k = as_law(LAWS[name]), 4
    rest = np.convolve(np.convolve(law, law), law)
    whole = np.convolve(rest, law)
    for total in range(1, min(len(whole), 12)):
        if not law_of_reach(LAWS[name], k, k, total, total, 1):
            continue
        absent = law[0] * (rest[total] if total < len(rest) else 0.0) / whole[total]
        assert ours(law, k, k, total, total, 1)[0] == pytest.approx(k * (1.0 - absent), rel=1e-9)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("cap", [9, 50])
def test_without_a_cap_the_targeted_get_their_share(name: str, cap: int) -> None:
    """By symmetry n u / k, whatever the law."""
    compared = 0
    for total in (6, 8, 9):
        for won in (1, 4, total):
            if law_of_reach(LAWS[name], 6, 2, total, won, cap):
                mean, _ = ours(as_law(LAWS[name]), 6, 2, total, won, cap)
                assert mean == pytest.approx(won * 2 / 6, rel=1e-9), (total, won)
                compared += 1
    assert compared


def test_one_impression_reaches_one_of_a_group_of_any_size() -> None:
    """Nothing is left to chance: the most sensitive check of the conditional law."""
    law = as_law([0.9, *(1.0 / np.arange(1.0, 1_000.0) ** 1.5)])
    for k in (1, 2, 5, 20, 100, 1_000):
        for total in (1, 2, 7, 60, 900):
            mean, variance = ours(law, k, k, total, 1, 1)
            assert mean == pytest.approx(1.0, rel=1e-8), (k, total)
            assert variance == pytest.approx(0.0, abs=1e-10 * k**2), (k, total)


@pytest.mark.parametrize("name", LAWS)
def test_more_impressions_and_higher_caps_reach_more(name: str) -> None:
    law = as_law(LAWS[name])
    for cap in (1, 2, 3):
        reach = [ours(law, 5, 4, 12, won, cap)[0] for won in range(13)]
        assert (np.diff(reach) >= -1e-9).all()
        higher = [ours(law, 5, 4, 12, won, cap + 1)[0] for won in range(13)]
        assert (np.array(higher) >= np.array(reach) - 1e-9).all()


@pytest.mark.parametrize("theta", [-2.0, -0.3, 0.4, 1.5])
def test_a_tilted_law_says_the_same(theta: float) -> None:
    """f(v)e^{θv} gives every composition of V the same factor."""
    plain = as_law(LAWS["heavy tail"])
    tilted = as_law(plain * np.exp(theta * np.arange(len(plain))))
    for k, total, won in [(1, 5, 2), (2, 9, 3), (5, 12, 6), (20, 30, 9)]:
        first, second = (ours(law, k, k, total, won, 2) for law in (plain, tilted))
        assert first == pytest.approx(second, rel=1e-8, abs=1e-10)


def test_groups_of_one() -> None:
    law = as_law([4, 3, 2, 1, 1, 1])
    for total in (1, 3, 5):
        for won in range(1, total + 1):
            for cap in (1, 2, 9):
                assert ours(law, 1, 1, total, won, cap) == pytest.approx((min(won, cap), 0.0))


@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("k", [2, 20, 300])
def test_poisson_visits_are_uniform_visits(k: int, cap: int) -> None:
    """Given their sum, independent Poisson counts are a multinomial: the paper's formula."""
    for per_person in (0.02, 0.5, 3.0, 40.0):
        total = max(round(per_person * k), 1)
        law = poisson.pmf(np.arange(total + 1), per_person)
        for won in sorted({1, max(total // 7, 1), max(total // 2, 1), total}):
            report = kr.measure(kr.Audience.disjoint([k]), [won], cap)
            mean, variance = ours(law, k, k, total, won, cap)
            assert mean == pytest.approx(report.reach, rel=1e-8), (per_person, won)
            if cap == 1:  # a difference of numbers of the order of k²
                exact = report.std**2
                assert variance == pytest.approx(exact, rel=1e-6, abs=1e-10 * k**2), won


@pytest.mark.parametrize("dispersion", [0.05, 0.1, 0.6, 5.0])
@pytest.mark.parametrize("k", [2, 20, 100])
def test_negative_binomial_visits_are_dispersed_visits(k: int, dispersion: float) -> None:
    """Given their sum they are Dirichlet-multinomial with their shape as concentration."""
    for per_person in (0.3, 3.0, 30.0):
        total = max(round(per_person * k), 1)
        chance = dispersion / (dispersion + per_person)
        law = nbinom.pmf(np.arange(total + 1), dispersion, chance)
        for won in sorted({1, max(total // 10, 1), max(total // 2, 1), total}):
            report = kr.measure(kr.Audience.disjoint([k], dispersion=dispersion), [won], 1)
            mean, variance = ours(law, k, k, total, won, 1)
            assert mean == pytest.approx(report.reach, rel=1e-6), (per_person, won)
            exact = report.std**2
            assert variance == pytest.approx(exact, rel=1e-6, abs=1e-9 * k**2), (per_person, won)


@pytest.mark.parametrize(
    ("law", "k"),
    [
        (poisson.pmf(np.arange(400), 100.0), 100),
        (poisson.pmf(np.arange(3_000), 1_000.0), 20),
        (nbinom.pmf(np.arange(2_000), 0.3, 0.3 / 3.3), 20),
    ],
    ids=["poisson 100", "poisson 1000", "dispersed"],
)
def test_rows_do_not_disturb_each_other(law: FloatArray, k: int) -> None:
    """Groups with requests that lie close share their convolutions, not their results."""
    mean = float(law @ np.arange(len(law)))
    total = (mean * k * np.array([0.8, 0.9, 1.0, 1.1, 1.25, 1.3])).astype(np.int64)
    won = np.full(len(total), k, dtype=np.int64)
    size = np.full(len(total), k, dtype=np.int64)
    together = rarefied_reach(law, size, size, total, won, 1)
    for at in range(len(total)):
        reach, variance = ours(law, k, k, int(total[at]), k, 1)
        assert together[0][at] == pytest.approx(reach, rel=1e-9), int(total[at])
        assert together[1][at] == pytest.approx(variance, rel=1e-6), int(total[at])


@pytest.mark.parametrize(("total", "k"), [(10**4, 1), (10**4, 2), (10**4, 20), (10**5, 20)])
def test_very_many_requests(total: int, k: int) -> None:
    law = as_law(1.0 / np.arange(1.0, total + 2.0) ** 1.6)
    won = np.array([1, 30, total // 3, total] * 2)
    u = np.repeat([1, k], 4)
    for cap in (1, 4):
        mean, variance = rarefied_reach(law, np.full(8, k), u, np.full(8, total), won, cap)
        assert np.isfinite(mean).all()
        assert np.isfinite(variance).all()
        assert (mean >= 0.0).all()
        assert (mean <= np.minimum(won, u * cap) * (1.0 + 1e-9)).all(), mean.tolist()
        assert (variance >= 0.0).all()
        assert (variance <= np.minimum(won, u) ** 2 / 4.0 * (1.0 + 1e-9) + 1e-9).all()


@pytest.mark.parametrize("name", LAWS)
def test_likelihood_against_convolution(name: str) -> None:
    """Also where a law explains badly what was seen: that is what a likelihood is for."""
    law = as_law(LAWS[name])
    for size in (1, 2, 6, 20):
        chance = np.ones(1)
        for _ in range(size):
            chance = np.convolve(chance, law)
        possible = np.flatnonzero(chance > 1e-11)
        for requests in (possible[:1], possible[:3], possible[-2:], possible):
            actual = log_likelihood_of_requests(law, np.full(len(requests), size), requests)
            expected = float(np.log(chance[requests]).sum())
            assert actual == pytest.approx(expected, rel=1e-4, abs=1e-6), (size, requests.tolist())


def test_likelihood_adds_up_over_sizes() -> None:
    law = as_law(LAWS["heavy tail"])
    size, requests = np.array([3, 5, 3, 8, 5]), np.array([4, 9, 11, 7, 1])
    parts = [
        log_likelihood_of_requests(law, size[at : at + 1], requests[at : at + 1]) for at in range(5)
    ]
    together = log_likelihood_of_requests(law, size, requests)
    assert together == pytest.approx(sum(parts), rel=1e-3)


def test_a_likelihood_prefers_the_law_that_made_the_requests() -> None:
    generator = np.random.default_rng(3)
    law = as_law(LAWS["heavy tail"])
    requests = generator.choice(len(law), (400, 10), p=law).sum(axis=1)
    size = np.full(400, 10)
    true = log_likelihood_of_requests(law, size, requests)
    for factor in (0.5, 0.8, 1.25, 2.0):
        other = law.copy()
        other[1:] *= factor
        other[0] = max(1.0 - other[1:].sum(), 0.05)
        assert log_likelihood_of_requests(other / other.sum(), size, requests) < true
