"""The special functions against hundreds of digits."""

import numpy as np
import pytest
from mpmath import mp

from kreach.numeric.special import log1pmx, log_gamma_cross, normal_half_width

BASES = [1e-9, 1e-6, 1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 15.9999, 16.0, 17.0, 1e2, 1e4, 1e6, 1e9, 1e12]
STEPS = [1e-6, 1e-3, 0.1, 0.6, 1.0, 2.0, 10.0, 1e2, 1e4, 1e6, 1e9]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_log1pmx_keeps_its_digits(sign: float) -> None:
    sizes = [10.0**e for e in np.linspace(-150.0, 300.0, 226)] + [0.25, 0.4999, 0.5, 0.5001, 0.9999]
    points = np.array([sign * x for x in sizes if sign * x > -1.0])
    actual = log1pmx(points)
    with mp.workdps(700):
        for x, value in zip(points.tolist(), actual.tolist(), strict=True):
            exact = mp.log(1 + mp.mpf(x)) - mp.mpf(x)
            assert abs(mp.mpf(value) - exact) <= 1e-15 * abs(exact), x


def test_log1pmx_at_its_ends() -> None:
    assert log1pmx(np.array([0.0])).tolist() == [0.0]
    near_pole = -1.0 + 2.0**-53
    exact = float(np.log(2.0**-53)) - near_pole
    assert log1pmx(np.array([near_pole]))[0] == pytest.approx(exact, rel=1e-15)
    assert (log1pmx(np.array([-0.9, -1e-9, 1e-9, 3.0])) <= 0.0).all()


@pytest.mark.parametrize("base", BASES)
def test_log_gamma_cross_keeps_its_digits(base: float) -> None:
    """Also where the four ln Γ agree in all but their last digits."""
    pairs = [(x, y) for x in STEPS for y in STEPS if max(x, y) >= 0.1]
    x, y = np.array(pairs).T
    actual = log_gamma_cross(np.full(len(x), base), x, y)
    with mp.workdps(80):
        b = mp.mpf(base)
        for (p, q), value in zip(pairs, actual.tolist(), strict=True):
            exact = (
                mp.loggamma(b + p)
                + mp.loggamma(b + q)
                - mp.loggamma(b)
                - mp.loggamma(b + mp.mpf(p) + mp.mpf(q))
            )
            assert abs(mp.mpf(value) - exact) <= 1e-13 * abs(exact), (base, p, q)


def test_log_gamma_cross_is_symmetric_and_never_positive() -> None:
    base, x, y = (a.ravel() for a in np.meshgrid(BASES, STEPS, STEPS))
    one, other = log_gamma_cross(base, x, y), log_gamma_cross(base, y, x)
    assert np.array_equal(one, other)
    assert (one <= 0.0).all()
    assert np.isfinite(one).all()


@pytest.mark.parametrize("base", [0.0, 1e-9, 0.3, 16.0, 1e9])
def test_log_gamma_cross_with_nothing_to_add_is_zero(base: float) -> None:
    steps = np.array([0.0, 1e-6, 1.0, 1e9])
    bases = np.full(4, base)
    assert log_gamma_cross(bases, np.zeros(4), steps).tolist() == [0.0] * 4
    assert log_gamma_cross(bases, steps, np.zeros(4)).tolist() == [0.0] * 4


def test_log_gamma_cross_at_a_pole() -> None:
    """Γ(0) in the denominator: the ratio is 0."""
    assert log_gamma_cross(np.zeros(1), np.ones(1), np.full(1, 2.5)).tolist() == [-np.inf]


def test_log_gamma_cross_of_whole_numbers_is_a_ratio_of_factorials() -> None:
    # Γ(4)Γ(5)/(Γ(2)Γ(7)) = 3!·4!/(1!·6!) = 1/5
    value = log_gamma_cross(np.array([2.0]), np.array([2.0]), np.array([3.0]))
    assert np.exp(value)[0] == pytest.approx(0.2, rel=1e-14)


@pytest.mark.parametrize("level", [1e-9, 0.1, 0.5, 0.9, 0.95, 0.999, 1 - 1e-9, 1 - 2.0**-53])
def test_half_width_holds_the_level(level: float) -> None:
    z = normal_half_width(level)
    with mp.workdps(40):
        outside = float(mp.erfc(mp.mpf(z) / mp.sqrt(2)))
    assert outside == pytest.approx(1.0 - level, rel=1e-12)
