"""The variance of one group where numbers are extreme, against hundreds of digits."""

import numpy as np
import pytest

from kreach.numeric import variance as module
from kreach.numeric.groupreach import GroupKind, group_reach_pmf
from kreach.numeric.variance import group_variance, profile_variance
from tests.numeric.high_precision import dirichlet_variance, uniform_variance


def ours(k: float, u: float, n: float, a: float, cap: int) -> float:
    size, targeted, impressions, spread = (np.array([float(v)]) for v in (k, u, n, a))
    return float(group_variance(size, targeted, impressions, spread, cap)[0])


def test_ten_impressions_in_a_group_of_a_billion() -> None:
    """45 pairs of impressions meet with chance 10⁻⁹ each: variance 4.5·10⁻⁸, to all digits."""
    exact = uniform_variance(10**9, 10**9, 10, 1)
    assert exact == pytest.approx(4.5e-8, rel=1e-7)
    assert ours(1e9, 1e9, 10.0, np.inf, 1) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("size", [2, 3, 20, 10**6, 10**9])
def test_uniform_visits(size: int) -> None:
    for u in sorted({1, 2, max(size // 2, 1), size}):
        for n in [1, 2, 3, 10, 100, 10**5, 10**9]:
            for cap in [1, 2, 5]:
                exact = uniform_variance(size, u, n, cap)
                actual = ours(size, u, n, np.inf, cap)
                assert actual == pytest.approx(exact, rel=1e-11, abs=1e-120), (u, n, cap)


@pytest.mark.parametrize("dispersion", [1e-6, 1e-3, 0.6, 10.0, 1e6])
@pytest.mark.parametrize("size", [2, 3, 20, 10**6])
def test_dirichlet_visits(size: int, dispersion: float) -> None:
    for u in sorted({1, size // 2, size}):
        for n in [1, 2, 10, 1000, 10**6]:
            for cap in [1, 3]:
                exact = dirichlet_variance(size, u, n, dispersion, cap)
                actual = ours(size, u, n, dispersion, cap)
                assert actual == pytest.approx(exact, rel=2e-9, abs=1e-120), (u, n, cap)


@pytest.mark.parametrize(
    ("size", "targeted", "n", "cap"),
    [(40, 40, 700, 20), (40, 11, 799, 20), (7, 7, 139, 20), (100, 50, 90, 3), (5, 4, 101, 20)],
)
def test_around_the_seam_between_sparse_and_crowded(
    size: int, targeted: int, n: int, cap: int
) -> None:
    exact = uniform_variance(size, targeted, n, cap)
    assert ours(size, targeted, n, np.inf, cap) == pytest.approx(exact, rel=1e-11)
    for spread in (0.3, 4.0):
        uneven = dirichlet_variance(size, targeted, n, spread, cap)
        assert ours(size, targeted, n, spread, cap) == pytest.approx(uneven, rel=1e-9)


@pytest.mark.parametrize("dispersion", [0.2, 3.0, np.inf])
def test_both_forms_agree(dispersion: float) -> None:
    """Y = (c − X)⁺ and Z = (X − c)⁺ give one variance, wherever few people are over the cap."""
    generator = np.random.default_rng(11)
    k = generator.integers(2, 60, 20).astype(float)
    u = np.ceil(generator.random(20) * k)
    n = generator.integers(1, 150, 20).astype(float)
    a = np.full(20, dispersion)
    for cap in (1, 5):
        rare = n < cap * k  # Z is cut off where the mean is above the cap
        kind = k[rare], u[rare], n[rare], a[rare]
        sparse = module._sparse_variance(*kind, cap)
        crowded = module._crowded_variance(*kind, cap)
        assert sparse.tolist() == pytest.approx(crowded.tolist(), rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("dispersion", [0.5, np.inf])
@pytest.mark.parametrize(("size", "targeted", "n", "cap"), [(30, 30, 300, 40), (9, 5, 400, 50)])
def test_large_caps_agree_with_the_exact_distribution(
    size: int, targeted: int, n: int, cap: int, dispersion: float
) -> None:
    kind = GroupKind(np.array([1.0 / size]), np.array([float(targeted)]), size * dispersion)
    pmf = group_reach_pmf(kind, n, cap)
    reach = np.arange(len(pmf))
    exact = float(pmf @ (reach - pmf @ reach) ** 2)
    assert ours(size, targeted, n, dispersion, cap) == pytest.approx(exact, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("dispersion", [np.inf, 1e-6, 0.6, 1e6])
def test_no_input_spoils_it(dispersion: float) -> None:
    """Finite and not negative everywhere; 0 where nothing is left to chance."""
    k, share, n = (
        v.ravel()
        for v in np.meshgrid(
            [1.0, 2.0, 3.0, 20.0, 1e9],
            [0.0, 0.5, 1.0],
            [0.0, 1.0, 2.0, 30.0, 1e4, 1e9],
        )
    )
    u = np.floor(share * k)
    for cap in (1, 2, 30, 200):
        actual = group_variance(k, u, n, np.full(len(k), dispersion), cap)
        assert np.isfinite(actual).all()
        assert (actual >= 0.0).all()
        settled = (k == 1.0) | (u == 0.0) | (n == 0.0) | ((n <= cap) & (u == k))
        assert (actual[settled] == 0.0).all()
        # reach lies between 0 and min(n, cu): its variance is at most a quarter of the square
        assert (actual <= np.minimum(n, cap * u) ** 2 / 4.0 * (1.0 + 1e-9)).all()


def test_everybody_targeted_and_no_cap_leaves_nothing_open() -> None:
    assert ours(1000.0, 1000.0, 50.0, np.inf, 50) == 0.0
    assert ours(1000.0, 1000.0, 50.0, 0.3, 50) == 0.0
    # some targeted: a binomial share of the impressions
    assert ours(10.0, 3.0, 50.0, np.inf, 50) == pytest.approx(50 * 0.3 * 0.7)


@pytest.mark.parametrize("cap", [1, 2, 5])
def test_equal_shares_are_uniform_visits(cap: int) -> None:
    for size, n in [(2, 3), (5, 7), (40, 100), (3, 200)]:
        exact = uniform_variance(size, size, n, cap)
        actual = profile_variance(np.full(size, 1.0 / size), n, cap)
        assert actual == pytest.approx(exact, rel=1e-10, abs=1e-13)


@pytest.mark.parametrize(
    "shares",
    [[0.0, 0.0, 1.0], [1.0], [0.0, 0.5, 0.5], [1e-12, 1.0 - 1e-12], [0.1, 0.2, 0.7], [0.25] * 4],
)
def test_profiles_agree_with_the_exact_distribution(shares: list[float]) -> None:
    value, count = np.unique(shares, return_counts=True)
    kind = GroupKind(value, count.astype(float), np.inf)
    for n in (0, 1, 2, 9, 60):
        for cap in (1, 2, 7):
            pmf = group_reach_pmf(kind, n, cap)
            reach = np.arange(len(pmf))
            exact = float(pmf @ (reach - pmf @ reach) ** 2)
            actual = profile_variance(np.array(shares), n, cap)
            assert actual == pytest.approx(exact, rel=1e-9, abs=1e-10)
            assert actual >= 0.0


def test_blocks_of_pairs_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = np.arange(1.0, 9.0) / 36.0
    kind = np.full(9, 20.0), np.arange(2.0, 20.0, 2.0), np.arange(9.0) * 11.0, np.full(9, 0.8)
    whole = profile_variance(shares, 30, 4), group_variance(*kind, 3).tolist()
    monkeypatch.setattr(module, "_PAIR_TABLE_CELLS", 1)
    assert profile_variance(shares, 30, 4) == pytest.approx(whole[0], rel=1e-12)
    assert group_variance(*kind, 3).tolist() == pytest.approx(whole[1], rel=1e-12)
