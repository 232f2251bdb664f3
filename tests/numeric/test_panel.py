"""The mathematics of panels, against enumeration and exact fractions."""

from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import skellam

from kreach.numeric.falling import nearest_falling
from kreach.numeric.panel import (
    expanded,
    mean_deviation,
    pair_deviations,
    root_coefficients,
    running_root,
)


def test_coefficients_are_those_of_the_root_of_a_running_sum() -> None:
    """c_k = binom(2k, k)/4^k, and Σ_i c_i c_{k−i} = 1 exactly."""
    exact = [Fraction(comb(2 * k, k), 4**k) for k in range(40)]
    np.testing.assert_allclose(root_coefficients(40), [float(each) for each in exact], rtol=1e-13)
    for k in range(40):
        assert sum(exact[i] * exact[k - i] for i in range(k + 1)) == 1


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=40))
def test_the_root_applied_twice_is_the_running_sum(steps: list[int]) -> None:
    rows = np.array(steps, dtype=float)[:, None]
    once = np.array([running_root(rows[: n + 1]) for n in range(len(rows))])
    twice = np.array([running_root(once[: n + 1]) for n in range(len(rows))])
    np.testing.assert_allclose(twice[:, 0], np.cumsum(steps), atol=1e-9)


def test_expansion_is_unbiased_over_all_panels() -> None:
    """Two of each stratum of 3 and of 4, in exact fractions: the mean is the sum of all groups."""
    strata = [
        [Fraction(7, 3), Fraction(-2), Fraction(5, 7)],
        [Fraction(n, 11) for n in (3, 8, 1, 4)],
    ]
    total, panels = Fraction(0), 0
    for first, second in product(*(combinations(range(len(s)), 2) for s in strata)):
        chosen = [strata[0][i] for i in first] + [strata[1][i] for i in second]
        weights = [Fraction(3, 2)] * 2 + [Fraction(4, 2)] * 2
        exact = sum(w * d for w, d in zip(weights, chosen, strict=True))
        found = expanded(
            np.array([[float(d)] for d in chosen]), np.array([float(w) for w in weights])
        )
        assert found[0] == pytest.approx(float(exact))
        total, panels = total + exact, panels + 1
    assert panels == 18
    assert total / panels == sum(map(sum, strata))


@pytest.mark.parametrize("first", [0.003, 0.2, 1.0, 4.0])
@pytest.mark.parametrize("second", [0.003, 0.2, 2.5])
def test_mean_deviation_is_that_of_two_poisson_counts(first: float, second: float) -> None:
    counts = np.arange(-400, 401)
    exact = float(np.abs(counts - (first - second)) @ skellam.pmf(counts, first, second))
    found = mean_deviation(np.array([first]), np.array([second]))
    assert float(found[0]) == pytest.approx(exact, rel=1e-6)


def test_pairs_are_the_two_groups_of_a_stratum() -> None:
    values = np.array([[1.0, 5.0], [4.0, 2.0], [0.0, 0.0], [-2.0, 7.0]])
    assert pair_deviations(values, np.array([0, 0, 1, 1])).tolist() == [[3.0, 3.0], [2.0, 7.0]]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.data())
def test_the_projection_keeps_order(values: list[float], data: st.DataObject) -> None:
    more = data.draw(st.lists(st.floats(0, 1e6), min_size=len(values), max_size=len(values)))
    low, high = np.array(values), np.array(values) + np.array(more)
    assert (np.diff(nearest_falling(low)) <= 1e-6).all()
    assert (nearest_falling(high) - nearest_falling(low) >= -1e-6).all()
