"""Impressions of a session that has any: the law has the mean that is asked for."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from kreach.numeric.visitors import batch_law


@given(sessions=st.lists(st.integers(1, 9), min_size=2, max_size=60))
def test_all_requests_but_a_rounding_error_are_won(sessions: list[int]) -> None:
    """As in a log of which everything was won: the mean is that of the sessions, to a digit."""
    assume(len(set(sessions)) > 1)
    law = np.bincount(sessions)[1:] / len(sessions)
    numbers = np.arange(1.0, len(law) + 1.0)
    longest = float(law @ numbers)
    for mean in (sum(sessions) / len(sessions), np.nextafter(longest, 0.0), longest * (1 - 1e-12)):
        assert np.allclose(batch_law(law, mean, len(law)), law, atol=1e-9)


@given(
    weights=st.lists(st.floats(0.001, 1.0), min_size=2, max_size=40),
    height=st.floats(1e-6, 1.0 - 1e-6),
)
def test_the_mean_is_the_one_asked_for(weights: list[float], height: float) -> None:
    """From one impression, where nearly nothing is won, to all requests of a session."""
    sessions = np.array(weights) / np.sum(weights)
    numbers = np.arange(1.0, len(sessions) + 1.0)
    longest = float(sessions @ numbers)
    mean = 1.0 + height * (longest - 1.0)
    assume(1.0 < mean < longest)
    law = batch_law(sessions, mean, len(sessions))
    assert abs(float(law.sum()) - 1.0) < 1e-12
    assert abs(float(law @ numbers) - mean) < 1e-9 * mean
