"""What history says about visits: dispersion, pseudo visits, profiles, effective anonymity."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln

import kreach as kr
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.visit_knowledge import (
    effective_anonymity,
    fit_dispersion,
    match_dispersion,
    match_pseudo_visits,
    shrunk_shares,
    visit_profiles,
)
from tests.publisher.populations import dirichlet_visits

DISPERSIONS = [0.3, 0.6, 2.0, 10.0]


def log_likelihood(a: float, visits: IntArray, group_of: IntArray) -> float:
    """ℓ(a) user by user and group by group, without its constant."""
    sizes = np.bincount(group_of)
    totals = np.bincount(group_of, weights=visits)
    by_group = gammaln(sizes * a) - gammaln(sizes * a + totals)
    return float(by_group.sum() + (gammaln(a + visits) - gammaln(a)).sum())


def thinned_reach(visits: IntArray, won_share: float) -> float:
    """People reached if each visit is won with one chance."""
    return float((1.0 - (1.0 - won_share) ** visits).sum())


@pytest.mark.parametrize("a", DISPERSIONS)
def test_dispersion_is_recovered_within_two_standard_errors(a: float) -> None:
    visits, group_of = dirichlet_visits(800, 20, a, per_group=90, seed=21)
    fit = fit_dispersion(visits, group_of)
    assert abs(fit.dispersion - a) <= 2.0 * fit.standard_error
    assert fit.standard_error < 0.05 * a
    assert (fit.groups, fit.visits) == (800, visits.sum())


def test_the_standard_error_is_the_spread_of_the_estimate() -> None:
    """60 repetitions: z has mean 0 within 3/√60 and spread 1 within 3/√(2·60)."""
    z = []
    for seed in range(60):
        fit = fit_dispersion(*dirichlet_visits(60, 12, 0.7, per_group=60, seed=1_000 + seed))
        z.append((fit.dispersion - 0.7) / fit.standard_error)
    assert abs(np.mean(z)) < 3.0 / np.sqrt(60)
    assert abs(np.std(z) - 1.0) < 3.0 / np.sqrt(120)


@pytest.mark.parametrize("a", DISPERSIONS)
def test_the_fit_is_where_the_likelihood_is_flat_and_its_error_is_the_curvature(a: float) -> None:
    visits, group_of = dirichlet_visits(150, 9, a, per_group=40, seed=22)
    fit = fit_dispersion(visits, group_of)
    at, step = fit.dispersion, 1e-4 * fit.dispersion
    low, middle, high = (log_likelihood(at + d, visits, group_of) for d in (-step, 0.0, step))
    curvature = (low - 2.0 * middle + high) / step**2
    assert abs((high - low) / (2.0 * step)) < 1e-5 * abs(curvature) * at
    assert 1.0 / np.sqrt(-curvature) == pytest.approx(fit.standard_error, rel=1e-3)


def test_groups_of_many_sizes_are_one_likelihood() -> None:
    generator = np.random.default_rng(23)
    sizes = generator.integers(2, 30, 300)
    group_of = np.repeat(np.arange(300), sizes)
    visits = np.concatenate(
        [generator.multinomial(50, generator.dirichlet(np.full(k, 0.8))) for k in sizes]
    )
    fit = fit_dispersion(visits, group_of)
    assert abs(fit.dispersion - 0.8) <= 2.0 * fit.standard_error
    near = [log_likelihood(fit.dispersion * f, visits, group_of) for f in (0.99, 1.0, 1.01)]
    assert near[1] == max(near)


def test_even_visits_have_infinite_dispersion() -> None:
    fit = fit_dispersion(np.full(60, 7), np.repeat(np.arange(6), 10))
    assert np.isinf(fit.dispersion)
    assert np.isnan(fit.standard_error)
    assert np.isinf(match_dispersion(np.full(60, 7), np.repeat(np.arange(6), 10)))
    assert np.isinf(match_pseudo_visits(np.full(60, 7), np.repeat(np.arange(6), 10)))


def test_one_visitor_per_group_has_the_min_dispersion() -> None:
    visits = np.tile([500, 0, 0, 0, 0], 8)
    group_of = np.repeat(np.arange(8), 5)
    assert fit_dispersion(visits, group_of).dispersion <= 1e-3
    assert match_dispersion(visits, group_of) <= 1e-3


@pytest.mark.parametrize("a", DISPERSIONS)
@pytest.mark.parametrize("won_share", [0.02, 0.1, 0.4])
def test_matching_agrees_with_likelihood_where_visits_are_independent(
    a: float, won_share: float
) -> None:
    visits, group_of = dirichlet_visits(2_000, 20, a, per_group=120, seed=24)
    matched = match_dispersion(visits, group_of, won_share)
    fitted = fit_dispersion(visits, group_of).dispersion
    assert matched == pytest.approx(fitted, rel=0.08 if a == 10.0 else 0.04)


@pytest.mark.parametrize("won_share", [0.05, 0.3])
def test_a_matched_dispersion_gives_the_reach_that_history_shows(won_share: float) -> None:
    """Also where no Dirichlet law is right. 40 thinned flights; z-tolerance 4."""
    generator = np.random.default_rng(25)
    visits = generator.choice([0, 1, 2, 30], 3_000, p=[0.3, 0.4, 0.2, 0.1])
    group_of = generator.permutation(np.repeat(np.arange(200), 15))
    audience = kr.Audience.disjoint(
        np.full(200, 15), dispersion=match_dispersion(visits, group_of, won_share)
    )
    said = []
    for _ in range(40):
        won = generator.binomial(visits, won_share)
        by_group = np.bincount(group_of, weights=won).astype(np.int64)
        said.append(kr.measure(audience, by_group, cap=1).reach)
    error = float(np.std(said) / np.sqrt(len(said)))
    assert abs(np.mean(said) - thinned_reach(visits, won_share)) < 4.0 * error


@pytest.mark.parametrize("won_share", [0.02, 0.1, 0.6])
def test_pseudo_visits_give_the_reach_that_history_shows(won_share: float) -> None:
    visits, group_of = dirichlet_visits(300, 12, 0.5, per_group=40, seed=26)
    pseudo = match_pseudo_visits(visits, group_of, won_share)
    shares = shrunk_shares(visits, group_of, pseudo)
    totals = np.bincount(group_of, weights=visits)[group_of]
    assert 0.0 < pseudo < 10.0
    said = float((1.0 - (1.0 - won_share * shares) ** totals).sum())
    assert said == pytest.approx(thinned_reach(visits, won_share), rel=1e-5)


def test_large_groups_of_visits_are_matched_too() -> None:
    """Beyond 2,000 visits a group's wins are taken as typical: the answer must not jump."""
    below, above = (
        match_dispersion(*dirichlet_visits(150, 10, 0.6, per_group=visits, seed=27))
        for visits in (1_700, 2_400)
    )
    assert above == pytest.approx(below, rel=0.1)
    assert above == pytest.approx(0.6, rel=0.15)


@pytest.mark.parametrize("method", [fit_dispersion, match_dispersion, match_pseudo_visits])
def test_no_history_is_refused(method: Callable[[IntArray, IntArray], object]) -> None:
    for people in (0, 4):
        with pytest.raises(KreachError, match=r"^visits must hold some history, got no visits"):
            method(np.zeros(people, dtype=np.int64), np.zeros(people, dtype=np.int64))


@pytest.mark.parametrize("won_share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_that_is_none_is_refused(won_share: float) -> None:
    with pytest.raises(KreachError, match=r"^won_share must lie between 0 and 1"):
        match_dispersion(np.array([1, 2]), np.array([0, 0]), won_share)


def test_shrunk_shares_by_hand() -> None:
    visits, group_of = np.array([3, 0, 1]), np.array([0, 0, 1])
    assert shrunk_shares(visits, group_of, 0.5).tolist() == [0.875, 0.125, 1.0]
    assert shrunk_shares(visits, group_of, np.inf).tolist() == [0.5, 0.5, 1.0]


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    pseudo=st.floats(1e-3, 20.0),
    least=st.floats(1.0, 6.0),
    steps=st.sampled_from([12, 100, 1_000]),
    seed=st.integers(0, 999),
)
def test_profiles_are_coarse_sorted_and_without_zeros(
    sizes: list[int], pseudo: float, least: float, steps: int, seed: int
) -> None:
    group_of = np.repeat(np.arange(len(sizes)), sizes)
    visits = np.random.default_rng(seed).negative_binomial(0.3, 0.02, len(group_of))
    profiles, masked = visit_profiles(visits, group_of, pseudo, least, steps)
    assert [len(profile) for profile in profiles] == sizes
    assert 0 <= masked <= len(sizes)
    for profile in profiles:
        assert profile.sum() == pytest.approx(1.0, abs=1e-12)
        assert (np.diff(profile) >= 0.0).all()
        whole = profile * steps
        np.testing.assert_allclose(whole, np.round(whole), atol=1e-9)
        assert whole.min() >= 1.0 - 1e-9


def test_profiles_stay_near_the_shares() -> None:
    visits, group_of = dirichlet_visits(40, 10, 1.0, per_group=80, seed=28)
    profiles, masked = visit_profiles(visits, group_of, 1.0, min_anonymity=1.0)
    shares = shrunk_shares(visits, group_of, 1.0)
    assert masked == 0
    for group, profile in enumerate(profiles):
        np.testing.assert_allclose(profile, np.sort(shares[group_of == group]), atol=1.5e-3)


def test_groups_with_too_few_active_people_get_the_average_profile() -> None:
    """Two groups of one heavy visitor: their profiles are equal and the same for both."""
    visits = np.array([900, 0, 0, 0, 0, 0, 700, 0] + [5, 6, 4, 5] * 6)
    group_of = np.repeat(np.arange(8), 4)
    profiles, masked = visit_profiles(visits, group_of, 0.5, min_anonymity=2.0)
    assert masked == 2
    np.testing.assert_array_equal(profiles[0], profiles[1])
    assert profiles[0].max() < 0.6 < 900.5 / 902


def test_a_masked_group_alone_of_its_size_does_not_get_its_own_profile() -> None:
    """The average over groups of its size would be the very vector that must not cross."""
    visits = np.array([900, 0, 0, 0] + [5, 6, 4, 5, 5] * 4)
    group_of = np.concatenate([np.zeros(4, dtype=np.int64), np.repeat(np.arange(1, 5), 5)])
    profiles, masked = visit_profiles(visits, group_of, 0.5, min_anonymity=2.0)
    assert masked == 1
    assert effective_anonymity(profiles[0], np.zeros(4, dtype=np.int64))[0] >= 2.0


def test_profiles_need_a_step_for_every_member() -> None:
    with pytest.raises(KreachError, match=r"^steps must be at least the largest group \(4\), got"):
        visit_profiles(np.ones(4, dtype=np.int64), np.zeros(4, dtype=np.int64), 1.0, 1.0, steps=3)


@pytest.mark.parametrize("size", [1, 2, 20])
def test_equal_visitors_are_worth_themselves(size: int) -> None:
    shares: FloatArray = np.full(2 * size, 1.0 / size)
    worth = effective_anonymity(shares, np.repeat([0, 1], size))
    np.testing.assert_allclose(worth, size, rtol=1e-12)


def test_one_heavy_visitor_is_worth_about_one() -> None:
    shares = np.array([0.999, *[0.001 / 19] * 19])
    assert effective_anonymity(shares, np.zeros(20, dtype=np.int64))[0] < 1.02
    only: FloatArray = np.array([1.0, 0.0, 0.0])
    assert effective_anonymity(only, np.zeros(3, dtype=np.int64))[0] == 1.0


def test_effective_anonymity_by_hand() -> None:
    """exp(−½ ln ½ − 2·¼ ln ¼) = 2√2."""
    worth = effective_anonymity(np.array([0.5, 0.25, 0.25]), np.zeros(3, dtype=np.int64))
    assert worth[0] == pytest.approx(2.0 * np.sqrt(2.0), rel=1e-12)
