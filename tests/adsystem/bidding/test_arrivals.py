"""Requests to come, extrapolated from those that came."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.bidding.arrivals import Arrivals

HOUR, DAY = 3_600.0, 86_400.0


def recorded(arrivals: Arrivals, groups: list[int]) -> Arrivals:
    for group in groups:
        arrivals.record(group)
    return arrivals


def test_even_traffic_goes_on_as_before() -> None:
    arrivals = recorded(Arrivals(2, 100.0, 500.0), [0] * 30 + [1] * 10)
    assert arrivals.total == 40
    assert arrivals.left(200.0) == pytest.approx(120.0)
    assert arrivals.left(400.0) == pytest.approx(40.0 / 3.0)
    assert arrivals.left(500.0) == arrivals.left(900.0) == 0.0


def test_before_anything_is_known_nothing_is_expected() -> None:
    assert Arrivals(2, 0.0, 10.0).left(5.0) == 0.0


@given(
    counts=st.lists(st.integers(0, 50), min_size=1, max_size=6),
    prior=st.floats(0.5, 20.0),
    now=st.floats(0.1, 9.9),
)
def test_groups_share_what_is_left(counts: list[int], prior: float, now: float) -> None:
    arrivals = Arrivals(len(counts), 0.0, 10.0, prior_requests=prior)
    recorded(arrivals, [group for group, n in enumerate(counts) for _ in range(n)])
    left = arrivals.left(now)
    by_group = arrivals.left_by_group(now)
    assert by_group.sum() == pytest.approx(left)
    each = [arrivals.left_of(group, left) for group in range(len(counts))]
    assert each == pytest.approx(by_group.tolist())
    weights = np.array(counts) + prior
    assert by_group == pytest.approx(left * weights / weights.sum())


def test_traffic_that_varies_by_hour() -> None:
    """All traffic between 6 and 18 UTC; the flight begins at midnight and lasts two days."""
    hourly = [0.0] * 6 + [1.0] * 12 + [0.0] * 6
    arrivals = recorded(Arrivals(1, 0.0, 2 * DAY, hourly), [0] * 60)
    assert arrivals.left(12 * HOUR) == pytest.approx(180.0)  # half a day's worth in 60
    assert arrivals.left(18 * HOUR) == pytest.approx(60.0)
    assert arrivals.left(DAY) == pytest.approx(60.0)
    assert arrivals.left(DAY + 9 * HOUR) == pytest.approx(60.0 * 0.75 / 1.25)
    assert arrivals.left(DAY + 20 * HOUR) == 0.0
    assert arrivals.left(3 * HOUR) == 0.0  # nothing was to come yet: nothing is known


def test_hours_are_hours_of_the_day_whenever_the_flight_starts() -> None:
    """From 18:00 to 18:00 with traffic only between 0 and 1 UTC."""
    arrivals = recorded(Arrivals(1, 18 * HOUR, 42 * HOUR, [1.0, *([0.0] * 23)]), [0] * 10)
    assert arrivals.left(24.5 * HOUR) == pytest.approx(10.0)
    assert arrivals.left(25.0 * HOUR) == 0.0


def test_a_known_curve_beats_an_even_guess() -> None:
    """Nine tenths of the requests come in the second half of the day."""
    curve = [1.0] * 12 + [9.0] * 12
    even = recorded(Arrivals(1, 0.0, DAY), [0] * 100)
    known = recorded(Arrivals(1, 0.0, DAY, curve), [0] * 100)
    assert even.left(DAY / 2) == pytest.approx(100.0)
    assert known.left(DAY / 2) == pytest.approx(900.0)


def test_a_flight_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(kr.KreachError, match=r"^end must come after the start \(9.0\), got 3.0"):
        Arrivals(1, 9.0, 3.0)


@pytest.mark.parametrize(
    ("hourly", "message"),
    [
        ([1.0] * 23, r"^hourly must be 24 weights ≥ 0, got"),
        ([1.0] * 25, r"^hourly must be 24 weights ≥ 0, got"),
        ([1.0] * 23 + [-1.0], r"^hourly must be 24 weights ≥ 0, got"),
        ([1.0] * 23 + [float("nan")], r"^hourly must be 24 weights ≥ 0, got"),
        ([0.0] * 24, r"^hourly must not be all 0, got"),
    ],
)
def test_impossible_hours_are_refused(hourly: list[float], message: str) -> None:
    with pytest.raises(kr.KreachError, match=message):
        Arrivals(1, 0.0, 1.0, hourly)
