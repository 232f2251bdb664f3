"""How far two groups deviate by chance, against simulation."""

import numpy as np
import pytest

from kreach.numeric.panel import mean_deviation

DRAWS = 200_000
MAX_SIGMAS = 4.5


@pytest.mark.parametrize(
    ("first", "second"), [(0.0, 0.2), (0.1, 0.4), (2.0, 3.0), (5.9, 6.0), (6.0, 6.2), (0.0, 8.0)]
)
def test_mean_deviation_of_unlike_counts(first: float, second: float) -> None:
    generator = np.random.default_rng(1)
    one, other = (generator.poisson(v, DRAWS) - v for v in (first, second))
    apart = np.abs(one - other)
    found = mean_deviation(np.array([first]), np.array([second]))[0]
    assert abs(apart.mean() - found) < MAX_SIGMAS * apart.std() / np.sqrt(DRAWS) + 0.003 * found


def test_mean_deviation_is_even_and_starts_at_nothing() -> None:
    v, w = np.array([0.0, 0.3, 4.0, 50.0]), np.array([0.0, 2.0, 9.0, 1.0])
    assert mean_deviation(v, w) == pytest.approx(mean_deviation(w, v))
    assert mean_deviation(v, w)[0] == 0.0
