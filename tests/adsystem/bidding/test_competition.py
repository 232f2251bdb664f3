"""What other campaigns leave over, and markets with limits."""

import numpy as np
import pytest

from kreach.adsystem.bidding.competition import PREFERENCE, Competition
from kreach.adsystem.bidding.conditions import Conditions
from kreach.adsystem.bidding.market import LogNormalMarket
from kreach.adsystem.bidding.responses import market_response

LAMBDA = np.array([50.0, 40.0])


def test_alone_everything_is_available() -> None:
    competition = Competition()
    competition.add_slots(2)
    for _ in range(50):
        competition.record(np.array([0.01, 0.0]), LAMBDA, np.ones(2), 0.0)
    assert competition.availability(0) is None
    assert competition.availability(1) is None  # it wanted none of them


@pytest.mark.parametrize("weights", [(1.0, 1.0), (1.0, 4.0), (3.0, 0.5)])
def test_a_share_by_weight_and_value(weights: tuple[float, float]) -> None:
    """A(λ) is w_i·v^γ / (w_i·v^γ + w_j·v_j^γ) with v = u/λ, up to a cell's width and the prior."""
    competition = Competition()
    competition.add_slots(2)
    values = np.array([0.02, 0.03])
    worth = values[0] * LAMBDA[0]
    for _ in range(400):
        competition.record(values, LAMBDA, np.array(weights), 0.0)
    found = competition.availability(0)
    assert found is not None
    for multiplier in (100.0, 50.0, 25.0, 10.0):
        mine = weights[0] * (worth / multiplier) ** PREFERENCE
        expected = mine / (mine + weights[1] * values[1] ** PREFERENCE)
        assert found.at(multiplier) == pytest.approx(expected, abs=0.03)
    assert (np.diff(found.shares) >= 0.0).all()


def test_what_is_worth_much_to_all_is_not_had_more_often() -> None:
    """Requests of ten times the worth to both: the share is that of equals, not of the richer."""
    competition = Competition()
    competition.add_slots(2)
    for value in (0.002, 0.02) * 200:
        competition.record(np.full(2, value), np.full(2, 50.0), np.ones(2), 0.0)
    found = competition.availability(0)
    assert found is not None
    assert found.at(50.0) == pytest.approx(0.5, abs=0.04)


def test_old_requests_fade_and_a_new_campaign_starts_without() -> None:
    competition = Competition()
    competition.add_slots(2)
    for _ in range(300):
        competition.record(np.array([0.01, 1.0]), LAMBDA, np.ones(2), 0.0)
    for _ in range(12_000):
        competition.record(np.array([0.01, 0.0]), LAMBDA, np.ones(2), 0.0)
    faded = competition.availability(0)
    assert faded is not None
    assert faded.at(50.0) > 0.95
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


def test_campaigns_that_plan_as_one_do_not_compete_with_each_other() -> None:
    """Two of a pool and one other: each of the two gets what both together would."""
    apart, pooled = Competition(), Competition()
    values, multipliers = np.array([0.02, 0.02, 0.03]), np.array([50.0, 50.0, 40.0])
    for each in (apart, pooled):
        each.add_slots(3)
    for _ in range(400):
        together = np.array([0.02, 0.0, 0.03])
        apart.record(together, multipliers, np.array([4.0, 0.0, 1.0]), 0.0)
        weights = np.array([1.0, 3.0, 1.0])
        pooled.record(values, multipliers, weights, 0.0, np.array([7, 7, -1]))
    expected = apart.availability(0)
    assert expected is not None
    for slot in (0, 1):
        found = pooled.availability(slot)
        assert found is not None
        assert found.shares == pytest.approx(expected.shares, abs=1e-9)
    third, alone = pooled.availability(2), apart.availability(2)
    assert third is not None
    assert alone is not None
    assert third.shares == pytest.approx(alone.shares, abs=1e-9)
    only = Competition()
    only.add_slots(2)
    only.record(values[:2], multipliers[:2], np.ones(2), 0.0, np.array([0, 0]))
    assert only.availability(0) is None


@pytest.mark.parametrize("pools", [None, [0, -1, 0, 1, 1, -1, -1]])
def test_several_requests_at_once_are_as_one_by_one(pools: list[int] | None) -> None:
    """To the bit: what is planned with must not depend on how many were waiting."""
    generator = np.random.default_rng(5)
    one_by_one, at_once = Competition(), Competition()
    wanted = generator.random((60, 7)) < 0.7
    values = np.where(wanted, 10.0 ** generator.uniform(-6.0, 0.0, (60, 7)), 0.0)
    multipliers, weights = generator.uniform(1.0, 90.0, 7), generator.uniform(0.0, 3.0, 7)
    multipliers[6] = np.inf  # not active
    values[:, 6] = 0.0
    others = np.where(generator.random(60) < 0.5, generator.random(60) * 1e-9, 0.0)
    numbers = None if pools is None else np.array(pools)
    for competition in (one_by_one, at_once):
        competition.add_slots(7)
    for row, other in zip(values, others.tolist(), strict=True):
        one_by_one.record(row, multipliers, weights, other, numbers)
    for first, last in ((0, 1), (1, 33), (33, 60)):
        some = values[first:last], multipliers, weights, others[first:last], numbers
        at_once.record_all(*some)
    for slot in range(7):
        mine, other_ = one_by_one.availability(slot), at_once.availability(slot)
        assert (mine is None) == (other_ is None) == (slot == 6)
        if mine is not None and other_ is not None:
            assert mine.shares.tobytes() == other_.shares.tobytes()
