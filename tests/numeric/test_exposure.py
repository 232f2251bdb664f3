"""Exposure laws where numbers are extreme, against hundreds of digits."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import betabinom, binom

from kreach.numeric.exposure import (
    ExposureLaw,
    beta_binomial_law,
    binomial_law,
    exposure_law,
    sum_of_laws,
)
from tests.numeric.high_precision import beta_binomial_terms, binomial_terms

SIZES = [1, 2, 3, 20, 1000, 10**6, 10**9]
TRIALS = [0, 1, 2, 10, 1000, 10**5, 10**9]
SHARES = [0.0, 1e-300, 1e-12, 1e-3, 0.3, 0.5, 0.9, 1.0 - 1e-12, 1.0]
CLOSE = 1e-11


def assert_same(law: ExposureLaw, terms: list[Any], tail: Any, hint: object) -> None:
    """Every probability has a small relative error, tails included."""
    actual = [*law.pmf.ravel().tolist(), float(law.tail.ravel()[0])]
    for value, exact in zip(actual, [*terms, tail], strict=True):
        assert np.isfinite(value), hint
        assert value >= 0.0, hint
        if exact < 1e-290:
            assert value < 1e-280, hint
        else:
            assert abs(value - exact) <= CLOSE * exact, (hint, value, float(exact))


@pytest.mark.parametrize("cap", [1, 2, 30, 1000])
@pytest.mark.parametrize("size", SIZES)
def test_uniform_visits(size: int, cap: int) -> None:
    for n in TRIALS:
        law = binomial_law(np.array([float(n)]), np.array([1.0 / size]), cap)
        assert_same(law, *binomial_terms(n, (1, size), cap), (size, n, cap))


@pytest.mark.parametrize("cap", [0, 1, 7, 60])
@pytest.mark.parametrize("share", SHARES)
def test_visit_shares(share: float, cap: int) -> None:
    for n in [0, 1, 2, 7, 8, 61, 1000, 10**9]:
        law = binomial_law(np.array([float(n)]), np.array([share]), cap)
        assert_same(law, *binomial_terms(n, share, cap), (share, n, cap))


@pytest.mark.parametrize("dispersion", [1e-6, 1e-3, 0.6, 10.0, 1e3, 1e6])
@pytest.mark.parametrize("size", [1, 2, 3, 20, 10**6, 10**9])
def test_dirichlet_visits(size: int, dispersion: float) -> None:
    for n in [0, 1, 2, 10, 1000, 10**9]:
        for cap in [1, 30]:
            law = beta_binomial_law(
                np.array([float(n)]), np.array([dispersion]), np.array([float(size)]), cap
            )
            terms, tail = beta_binomial_terms(n, dispersion, size, cap)
            assert_same(law, terms, tail, (size, dispersion, n, cap))


@pytest.mark.parametrize(("size", "n", "cap"), [(50, 20, 8), (1000, 60, 5), (3, 5, 4), (2, 9, 8)])
def test_faint_tails_keep_their_digits(size: int, n: int, cap: int) -> None:
    """One minus a sum would leave nothing of these."""
    law = binomial_law(np.array([float(n)]), np.array([1.0 / size]), cap)
    exact = float(binom.sf(cap, n, 1.0 / size))
    assert law.tail[0] == pytest.approx(exact, rel=1e-11)
    spread = beta_binomial_law(np.array([float(n)]), np.array([5.0]), np.array([float(size)]), cap)
    terms, tail = beta_binomial_terms(n, 5.0, size, cap)
    assert_same(spread, terms, tail, (size, n, cap))


def test_a_table_of_many_rows_is_many_tables_of_one_row() -> None:
    n = np.array([0.0, 1.0, 7.0, 100.0, 1e6, 7.0])
    k = np.array([1.0, 2.0, 7.0, 30.0, 1e6, 1.0])
    a = np.array([np.inf, 0.5, np.inf, 1e-3, 3.0, 0.7])
    together = exposure_law(n, k, a, 9)
    for row in range(len(n)):
        alone = exposure_law(n[row : row + 1], k[row : row + 1], a[row : row + 1], 9)
        assert together.pmf[row].tolist() == pytest.approx(alone.pmf[0].tolist(), rel=1e-14)
        assert together.tail[row] == pytest.approx(alone.tail[0], rel=1e-12)


def test_the_infinite_limit_of_dispersion_is_binomial() -> None:
    wide = exposure_law(np.array([50.0]), np.array([10.0]), np.array([1e12]), 12)
    uniform = exposure_law(np.array([50.0]), np.array([10.0]), np.array([np.inf]), 12)
    assert wide.pmf[0].tolist() == pytest.approx(uniform.pmf[0].tolist(), rel=1e-9)


@pytest.mark.parametrize("dispersion", [np.inf, 1e-6, 0.6, 1e6])
@pytest.mark.parametrize("size", [1.0, 2.0, 20.0, 1e6, 1e9])
def test_totals_and_order(size: float, dispersion: float) -> None:
    """Probabilities sum to 1, means do not exceed n/k, and more trials mean more exposure."""
    n = np.array([0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 100.0, 1e3, 1e6, 1e6 + 1, 1e9])
    law = exposure_law(n, np.array([size]), np.array([dispersion]), 50)
    survival = law.survival()
    assert survival[:, 0].tolist() == pytest.approx([1.0] * len(n), rel=1e-12)
    assert (np.diff(survival, axis=1) <= 0.0).all()
    rising = np.diff(survival, axis=0)
    assert (rising >= -1e-12 * survival[1:]).all()
    for cap in (1, 2, 51):
        mean = law.capped_mean(cap)
        assert (mean <= np.minimum(n / size, cap) * (1.0 + 1e-11)).all()
        assert (np.diff(mean) >= -1e-12 * mean[1:]).all()
    means = np.array([law.capped_mean(cap) for cap in range(1, 52)])
    assert (np.diff(means, axis=0) >= -1e-12 * means[1:]).all()


@pytest.mark.parametrize("cap", [1, 3, 8])
def test_moments_are_those_of_the_law(cap: int) -> None:
    law = exposure_law(np.array([30.0]), np.array([4.0]), np.array([np.inf]), cap)
    counts = np.arange(31)
    exact = binom.pmf(counts, 30, 0.25)
    capped = np.minimum(counts, cap)
    mean = float(exact @ capped)
    assert law.capped_mean(cap)[0] == pytest.approx(mean, rel=1e-12)
    assert law.capped_variance(cap)[0] == pytest.approx(exact @ (capped - mean) ** 2, rel=1e-10)
    assert law.below(cap)[0] == pytest.approx(exact[:cap].sum(), rel=1e-12)


def test_the_variance_of_a_rare_person_keeps_its_digits() -> None:
    for n, p in [(10, 1e-9), (1000, 1e-12), (5, 1.0 - 1e-9)]:
        law = binomial_law(np.array([float(n)]), np.array([p]), 0)
        zero, hit = binomial_terms(n, p, 0)
        assert law.capped_variance(1)[0] == pytest.approx(float(zero[0] * hit), rel=1e-12)


def test_sum_of_laws_is_a_convolution() -> None:
    top = 6
    first = binomial_law(np.array([9.0, 2.0]), np.array([0.5, 0.1]), top)
    second = beta_binomial_law(np.array([5.0, 40.0]), np.array([0.4, 3.0]), np.array([3.0]), top)
    total = sum_of_laws(first, second)
    for row, (n, p, m, a) in enumerate([(9, 0.5, 5, 0.4), (2, 0.1, 40, 3.0)]):
        one = binom.pmf(np.arange(n + 1), n, p)
        other = betabinom.pmf(np.arange(m + 1), m, a, 2 * a)
        exact = np.convolve(one, other)
        assert total.pmf[row].tolist() == pytest.approx(exact[: top + 1].tolist(), rel=1e-11)
        assert total.tail[row] == pytest.approx(exact[top + 1 :].sum(), rel=1e-10)
