"""What other campaigns leave over, and markets with limits."""

import numpy as np
import pytest

from kreach.adsystem.bidding.competition import PREFERENCE, Competition
from kreach.adsystem.bidding.market import LogNormalMarket
from kreach.adsystem.bidding.planning import Conditions, market_response


def test_alone_everything_is_available() -> None:
    competition = Competition()
    competition.add_slots(2)
    for _ in range(50):
        competition.record(np.array([0.3, 0.0]), np.ones(2), 0.0)
    assert competition.availability(0) is None
    assert competition.availability(1) is not None  # the first is in its way


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 4.0), (3.0, 0.5)])
def test_a_share_by_weight_and_value(weights: tuple[float, float]) -> None:
    """A(v) is w_i·v^γ / (w_i·v^γ + w_j·v_j^γ), up to the width of a cell and the prior."""
    competition = Competition()
    competition.add_slots(2)
    values = np.array([0.02, 0.03])
    for _ in range(400):
        competition.record(values, np.array(weights), 0.0)
    found = competition.availability(0)
    assert found is not None
    for value in (0.01, 0.02, 0.04, 0.08):
        mine = weights[0] * value**PREFERENCE
        expected = mine / (mine + weights[1] * values[1] ** PREFERENCE)
        there = float(np.interp(value, found.values, found.available))
        assert there == pytest.approx(expected, abs=0.08)
    assert (np.diff(found.available) >= 0.0).all()


def test_old_requests_fade_and_a_new_campaign_starts_without() -> None:
    competition = Competition()
    competition.add_slots(2)
    for _ in range(300):
        competition.record(np.array([0.01, 1.0]), np.ones(2), 0.0)
    for _ in range(12_000):
        competition.record(np.array([0.01, 0.0]), np.ones(2), 0.0)
    faded = competition.availability(0)
    assert faded is not None
    assert float(np.interp(0.01, faded.values, faded.available)) > 0.95
    competition.forget(0)
    assert competition.availability(0) is None


def test_a_bid_limit_keeps_the_market_below_it() -> None:
    market = LogNormalMarket(0.0, 0.8)
    free, limited = market_response(market), Conditions(max_bid=0.7).response(market)
    values = np.array([0.1, 0.5, 0.7, 2.0, 50.0])
    win, cost = limited.win_and_cost(values)
    low = values <= 0.7
    assert win[low] == pytest.approx(free.win_and_cost(values)[0][low], rel=5e-3)
    assert win[~low] == pytest.approx(float(market.win_probability(np.array(0.7))), rel=2e-3)
    assert cost[~low] == pytest.approx(float(market.expected_cost(np.array(0.7))), rel=5e-3)
    assert limited.bids.max() == 0.7
