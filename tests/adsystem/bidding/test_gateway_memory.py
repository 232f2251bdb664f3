"""Buying beside a gateway that forgets: values, plans and what a loss teaches."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.bidding.group_kinds import Passing, kind_probabilities
from kreach.adsystem.bidding.responses import market_response
from kreach.errors import KreachError
from kreach.lab.auctions import Outcome, Stream, run_auctions
from kreach.numeric.planning import solve_plan
from tests.visit_sessions import fit_plainly, simulate_visits

DAY = 86_400.0
MARKET = kr.LogNormalMarket(0.0, 0.7)
EVEN = np.array([0.95**n for n in range(40)])


def test_a_plan_where_all_bids_pass_is_the_plain_one() -> None:
    response = market_response(MARKET)
    plain = solve_plan(EVEN, 50.0, 100, 1.0, response)
    passing = solve_plan(EVEN, 50.0, 100, 1.0, response, passing=np.ones(40))
    assert np.array_equal(plain.worth, passing.worth)
    assert np.array_equal(plain.spend, passing.spend)


def test_a_plan_beside_a_gateway_against_a_list_of_what_can_happen() -> None:
    """Bids of one request at a time: worth·W − λ·a·H, stepped by hand."""
    p, a = np.array([1.0, 0.6, 0.3]), np.array([1.0, 0.8, 0.5])
    response, steps, rate, multiplier = market_response(MARKET), 200, 6.0 / 200, 0.8
    table = solve_plan(p, 6.0, steps, multiplier, response, passing=a)
    value, spend = np.zeros(4), np.zeros(4)
    for row in range(steps + 1):
        worth = np.maximum(p - (value[:-1] - value[1:]), 0.0)
        assert table.worth[row] == pytest.approx(worth)
        assert table.value[row] == pytest.approx(value[:-1])
        assert table.spend[row] == pytest.approx(spend[:-1])
        bid = worth / (multiplier * a)
        win, cost = response.win_and_cost(bid)[0], a * response.win_and_cost(bid)[1]
        value[:-1] += rate * (p * win - multiplier * cost + win * (value[1:] - value[:-1]))
        spend[:-1] += rate * (cost + win * (spend[1:] - spend[:-1]))


def test_what_passes_by_draws() -> None:
    audience = kr.Audience.disjoint([20], targeted_counts=[5])
    under, _ = kind_probabilities(audience, 1, kr.VisitModel.flat(20))
    draws = np.array([0.0, 1.0, 2.0, 7.5])
    assert Passing(under, 0.0)(0, draws) == pytest.approx([1.0] * 4)
    assert Passing(under, 1.0)(0, draws[:3]) == pytest.approx([1.0, 0.95, 0.95**2])
    assert Passing(under, 0.5)(0, draws)[1:3] == pytest.approx([0.975, 0.95])


def flight(memory: float | None, budget: float, *, dropping: bool = True) -> Outcome:
    visits = simulate_visits(np.random.default_rng(11), groups=60)
    model = fit_plainly(simulate_visits(np.random.default_rng(10), groups=60))
    generator = np.random.default_rng(12)
    price = generator.lognormal(0.0, 0.7, len(visits.group))
    stream = Stream(visits.person, visits.group, visits.seconds, price, 60 * 20)
    purse = kr.Purse(budget, 0.0, 6.2 * DAY)
    bidder = kr.PlanningBidder(
        kr.Audience.disjoint([20] * 60), 1, purse, MARKET, model=model, memory_seconds=memory
    )
    cap = 1 if dropping and memory is not None else None
    return run_auctions(bidder, stream, 1, gateway_cap=cap, gateway_memory_seconds=memory or inf)


def test_a_longer_memory_reaches_more_for_the_same_money() -> None:
    found = {memory: flight(memory, 150.0) for memory in (None, 4 * 3_600.0, DAY, inf)}
    reach = [outcome.reach for outcome in found.values()]
    assert reach[0] < reach[2] < reach[3]
    assert reach[0] <= 1.01 * reach[1]
    for outcome in found.values():
        assert 0.97 * 150.0 <= outcome.spend <= 150.0
        assert outcome.expected_reach == pytest.approx(outcome.reach, rel=0.06)
    endless = found[inf]
    assert endless.reach == endless.impressions == pytest.approx(endless.expected_reach)


def test_a_dropped_bid_teaches_little_about_prices() -> None:
    """A minute after a win nine in ten bids are dropped; the others lose as often as ever."""
    model = replace(
        kr.VisitModel.flat(20), gap_edges_seconds=(1_800.0,), continuation_odds=np.array([[9.0]])
    )
    believed = []
    for memory in (None, DAY):
        purse = kr.Purse(1e6, 0.0, 10 * DAY)
        bidder = kr.PlanningBidder(
            kr.Audience.disjoint([20]), 1, purse, MARKET, model=model, memory_seconds=memory
        )
        bidder.bid(0, 1.0)
        bidder.won(0, 1.0, 0.5, 1.0)
        for second in range(60, 1_260, 60):
            bidder.valuation.probability(0, float(second))
            bidder.purse.hold(5.0)
            bidder.lost(0, 5.0)
        bidder.plan_job(2_000.0)
        believed.append(float(bidder.market.win_probability(np.array(5.0))))
    assert believed[0] < 0.5  # twenty losses
    assert believed[1] > 0.8  # mostly drops
    assert float(MARKET.win_probability(np.array(5.0))) > 0.98


def test_a_memory_needs_a_model() -> None:
    purse = kr.Purse(50.0, 0.0, DAY)
    with pytest.raises(KreachError, match="memory_seconds must come with a model"):
        kr.PlanningBidder(kr.Audience.disjoint([20]), 1, purse, MARKET, memory_seconds=60.0)
