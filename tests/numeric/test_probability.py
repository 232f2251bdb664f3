"""The reach probability of one group, against hundreds of digits."""

import numpy as np
import pytest
from mpmath import mp

from kreach.numeric.probability import group_reach_probability
from tests.numeric.high_precision import DIGITS, beta_binomial_terms, binomial_terms


def ours(k: int, u: int, n: int, a: float, cap: int) -> float:
    size, targeted, impressions, spread = (np.array([float(v)]) for v in (k, u, n, a))
    return float(group_reach_probability(size, targeted, impressions, spread, cap)[0])


@pytest.mark.parametrize("cap", [1, 3, 100])
@pytest.mark.parametrize("size", [1, 2, 20, 10**6, 10**9])
def test_theorem_4(size: int, cap: int) -> None:
    for n in [0, 1, 10, 1000, 10**9]:
        for u in {0, 1, size}:
            with mp.workdps(DIGITS):
                terms, _ = binomial_terms(n, (1, size), cap - 1)
                exact = mp.mpf(u) / size * sum(terms)
            actual = ours(size, u, n, np.inf, cap)
            assert actual == pytest.approx(float(exact), rel=1e-11, abs=1e-290)
            assert 0.0 <= actual <= 1.0 + 1e-12


@pytest.mark.parametrize("dispersion", [1e-6, 0.6, 1e6])
@pytest.mark.parametrize("size", [1, 2, 20, 10**9])
def test_dirichlet_visits(size: int, dispersion: float) -> None:
    """E[share · 1{X < c}], the share of a member seen l times being (a + l)/(ka + n) on average."""
    for n in [0, 1, 10, 10**6]:
        for cap in [1, 4]:
            with mp.workdps(DIGITS):
                terms, _ = beta_binomial_terms(n, dispersion, size, cap - 1)
                a = mp.mpf(dispersion)
                exact = size * sum(p * (a + m) / (size * a + n) for m, p in enumerate(terms))
            actual = ours(size, size, n, dispersion, cap)
            assert actual == pytest.approx(float(exact), rel=1e-11, abs=1e-290)
            assert 0.0 <= actual <= 1.0 + 1e-12


@pytest.mark.parametrize("dispersion", [np.inf, 1e-6, 0.6, 1e6])
@pytest.mark.parametrize("size", [1.0, 2.0, 20.0, 1e9])
def test_falls_with_impressions_and_rises_with_the_cap(size: float, dispersion: float) -> None:
    n = np.concatenate([np.arange(50.0), np.floor(10.0 ** np.arange(2.0, 9.5, 0.5))])
    kind = np.array([size]), np.array([size]), n, np.array([dispersion])
    by_cap = np.array([group_reach_probability(*kind, cap) for cap in (1, 2, 3, 10, 1000)])
    assert (np.diff(by_cap, axis=1) <= 1e-12 * by_cap[:, :-1]).all()
    assert (np.diff(by_cap, axis=0) >= -1e-12 * by_cap[1:]).all()
    assert ((by_cap >= 0.0) & (by_cap <= 1.0 + 1e-12)).all()


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    n = np.arange(100.0)
    kind = np.array([7.0]), np.array([5.0]), n, np.array([0.4])
    whole = group_reach_probability(*kind, 3)
    monkeypatch.setattr("kreach.numeric.probability._TABLE_CELLS", 10)
    assert group_reach_probability(*kind, 3).tolist() == pytest.approx(whole.tolist(), rel=1e-13)
