"""The gap of a pair: the joint probability of two counts less the product of the single ones."""

import numpy as np
import pytest
from scipy.stats import binom, dirichlet_multinomial, multinomial

from kreach.numeric.exposure import beta_binomial_law, binomial_law
from kreach.numeric.pairs import binomial_pair_gap, dirichlet_pair_gap

WIDTH = 6
COUNTS = np.arange(float(WIDTH))[None, :]


@pytest.mark.parametrize("n", [1, 2, 5, 9, 40, 169, 170, 171, 400])
@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.1, 0.1), (0.2, 0.7), (0.3, 0.7), (1e-6, 0.4)])
def test_binomial(n: int, p: float, q: float) -> None:
    trials = np.array([float(n)])
    one, other = np.array([p]), np.array([q])
    f = binomial_law(trials, one, WIDTH - 1).pmf
    g = binomial_law(trials, other, WIDTH - 1).pmf
    gap = binomial_pair_gap(trials, one, other, f, g, COUNTS)[0]
    for i in range(WIDTH):
        for j in range(WIDTH):
            rest = n - i - j
            joint = 0.0
            if rest == 0 or (rest > 0 and p + q < 1.0):
                joint = multinomial.pmf([i, j, rest], n, [p, q, 1.0 - p - q])
            alone = binom.pmf(i, n, p) * binom.pmf(j, n, q)
            assert gap[i, j] == pytest.approx(joint - alone, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("n", [1, 2, 9, 40, 200])
@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("spread", [0.05, 0.6, 20.0])
def test_dirichlet(n: int, size: int, spread: float) -> None:
    trials, a, k = np.array([float(n)]), np.array([spread]), np.array([float(size)])
    f = beta_binomial_law(trials, a, k, WIDTH - 1).pmf
    gap = dirichlet_pair_gap(trials, a, k, f, COUNTS)[0]
    for i in range(WIDTH):
        for j in range(WIDTH):
            rest = n - i - j
            joint = 0.0
            if size == 2 and rest == 0:
                joint = dirichlet_multinomial.pmf([i, j], [spread, spread], n)
            elif size > 2 and rest >= 0:
                strengths = [spread, spread, (size - 2) * spread]
                joint = dirichlet_multinomial.pmf([i, j, rest], strengths, n)
            alone = f[0, i] * f[0, j]
            assert gap[i, j] == pytest.approx(joint - alone, rel=1e-9, abs=1e-13)


def test_gaps_over_all_counts_sum_to_nothing() -> None:
    n = 5
    trials, one, other = np.array([float(n)]), np.array([0.2]), np.array([0.5])
    f, g = (binomial_law(trials, p, n).pmf for p in (one, other))
    gap = binomial_pair_gap(trials, one, other, f, g, np.arange(n + 1.0)[None, :])[0]
    assert gap.sum(axis=0).tolist() == pytest.approx([0.0] * (n + 1), abs=1e-15)
    assert gap.sum(axis=1).tolist() == pytest.approx([0.0] * (n + 1), abs=1e-15)


def test_nearly_independent_people_keep_the_digits_of_their_gap() -> None:
    """Cap 1, a group of a billion: Lemma 1 says (1 − 2/k)ⁿ − (1 − 1/k)²ⁿ ≈ −n/k²."""
    k, n = 1e9, 10.0
    trials, share = np.array([n]), np.array([1.0 / k])
    f = binomial_law(trials, share, 0).pmf
    gap = binomial_pair_gap(trials, share, share, f, f, np.zeros((1, 1)))
    assert gap[0, 0, 0] == pytest.approx(-n / k**2, rel=1e-7)
