"""Prices by hour where they are used: in plans, in first-price bids, in what plans expect."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.bidding.arrivals import Arrivals
from kreach.adsystem.bidding.auction_markets import AuctionMarkets
from kreach.adsystem.bidding.hourly_market import MarketByHour, ScaledMarket, scaled
from kreach.adsystem.bidding.market import MarketMix
from kreach.adsystem.bidding.responses import market_response
from kreach.adsystem.bidding.shading import Shading

HOUR, DAY = 3_600.0, 86_400.0
WAVE = np.cos(2.0 * np.pi * (np.arange(24) - 20.0) / 24.0)
VALUES = np.exp(np.linspace(-2.0, 3.0, 40))
MEAN = kr.LogNormalMarket(0.0, float(np.hypot(0.7, 0.8 / np.sqrt(2.0))), "first_price")
"""What prices look like to whoever does not know the hour, nearly."""
AUDIENCE = kr.Audience.disjoint([20] * 30)


def memory_of(auction: str, amplitude: float = 0.8) -> dict[str, Any]:
    """What markets with a rhythm of this amplitude learned in four days."""
    markets = AuctionMarkets(kr.LogNormalMarket(0.0, 0.7, auction), half_life_auctions=2_000.0)
    generator = np.random.default_rng(51)
    for moment in np.sort(generator.uniform(0.0, 4 * DAY, 12_000)).tolist():
        offset = amplitude * float(WAVE[int(moment // HOUR) % 24])
        bid, price = float(generator.uniform(0.2, 3.0)), float(generator.lognormal(offset, 0.7))
        markets.turn_to(moment)
        paid = price if auction == "second_price" else bid
        markets.learn(bid, paid, won=bid >= price)
        markets.count(auction)
        if int(moment) % 40 == 0:
            markets.refresh()
    markets.refresh()
    return markets.memory()


@pytest.fixture(scope="module")
def memories() -> dict[str, dict[str, Any]]:
    return {auction: memory_of(auction) for auction in ("second_price", "first_price")}


def remembering(memory: dict[str, Any], auction: str) -> AuctionMarkets:
    markets = AuctionMarkets(kr.LogNormalMarket(0.0, 0.7, auction), half_life_auctions=2_000.0)
    markets.remember(memory)
    return markets


@pytest.mark.parametrize("auction", ["second_price", "first_price"])
def test_a_log_normal_market_times_a_factor_is_one_with_another_mean(auction: str) -> None:
    moved = kr.LogNormalMarket(0.4, 0.7, auction)
    market = ScaledMarket(kr.LogNormalMarket(0.0, 0.7, auction), float(np.exp(0.4)))
    assert market.auction == auction
    for name in ("win_probability", "expected_cost", "optimal_bid"):
        assert getattr(market, name)(VALUES) == pytest.approx(getattr(moved, name)(VALUES))
    assert scaled(moved, 1.0) is moved
    with pytest.raises(kr.KreachError, match=r"^factor must be a finite number > 0"):
        ScaledMarket(moved, 0.0)


@pytest.mark.parametrize("auction", ["second_price", "first_price"])
@pytest.mark.parametrize("most", [float("inf"), 0.9])
def test_the_response_by_hour_is_the_average_of_hours(auction: str, most: float) -> None:
    base = kr.LogNormalMarket(0.0, 0.7, auction)
    parts = (0.5, 0.2), (1.0, 0.5), (2.5, 0.3)
    win, cost = market_response(MarketByHour(base, parts), most).win_and_cost(VALUES)
    for got, name in ((win, "win_probability"), (cost, "expected_cost")):
        each = []
        for factor, share in parts:
            market = kr.LogNormalMarket(float(np.log(factor)), 0.7, auction)
            bids = np.minimum(market.optimal_bid(VALUES), most)
            each.append(share * getattr(market, name)(bids))
        assert got == pytest.approx(sum(each), rel=0.02, abs=1e-3)
    with pytest.raises(kr.KreachError, match=r"^shares of hours must be > 0 and sum to 1"):
        MarketByHour(base, ((1.0, 0.7), (2.0, 0.7)))


def test_hours_can_be_part_of_a_mix() -> None:
    second = MarketByHour(kr.LogNormalMarket(0.0, 0.7), ((0.5, 0.5), (2.0, 0.5)))
    first = kr.LogNormalMarket(0.0, 0.7, "first_price")
    mix = market_response(MarketMix(((second, 0.6), (first, 0.4))))
    win, cost = mix.win_and_cost(VALUES)
    apart = [market_response(market).win_and_cost(VALUES) for market in (second, first)]
    assert win == pytest.approx(0.6 * apart[0][0] + 0.4 * apart[1][0], abs=1e-3)
    assert cost == pytest.approx(0.6 * apart[0][1] + 0.4 * apart[1][1], abs=2e-3)


@given(
    start=st.integers(0, 3 * 86_400),
    length=st.integers(60, 4 * 86_400),
    gone=st.floats(0.0, 0.95),
    profile=st.booleans(),
)
def test_the_hours_that_are_left(start: int, length: int, gone: float, profile: bool) -> None:
    """Against a count of minutes."""
    hourly = [1.0 + (hour % 5) for hour in range(24)] if profile else None
    end = start + length
    arrivals = Arrivals(1, float(start), float(end), hourly)
    now = start + gone * length
    moments = now + (np.arange(20_000) + 0.5) * (end - now) / 20_000
    hours = (moments // HOUR).astype(np.int64) % 24
    weights = np.bincount(hours, minlength=24) * (np.array(hourly) if hourly else 1.0)
    assert arrivals.shares_left(now) == pytest.approx(weights / weights.sum(), abs=2e-3)
    assert arrivals.part(float(start), now, np.ones(24)) == pytest.approx(
        arrivals.part(float(start), now), abs=1e-9
    )


def test_after_the_end_any_hour_will_do() -> None:
    arrivals = Arrivals(1, 0.0, 10.0)
    assert arrivals.shares_left(11.0) == pytest.approx(np.full(24, 1.0 / 24.0))
    assert arrivals.part(11.0, 12.0, np.ones(24)) == 1.0


def test_the_part_until_now_may_count_costs() -> None:
    """A flight from 0:00 to 2:00; a request of the second hour costs three times as much."""
    costs = np.ones(24)
    costs[1] = 3.0
    arrivals = Arrivals(1, 0.0, 2 * HOUR)
    assert arrivals.part(0.0, HOUR, costs) == pytest.approx(0.25)
    assert arrivals.part(0.0, HOUR) == pytest.approx(0.5)


@pytest.mark.parametrize("auction", ["second_price", "first_price"])
def test_plans_know_which_hours_are_to_come(
    memories: dict[str, dict[str, Any]], auction: str
) -> None:
    """From 18:00 to midnight prices are e^0.73 times those of the middle, on average, and in the
    first six hours about e^-0.15: a plan takes those to come."""
    markets = remembering(memories[auction], auction)
    arrivals = Arrivals(1, 0.0, 5 * DAY)
    for now, mean in ((4 * DAY + 18 * HOUR, 0.73), (4 * DAY, 0.0)):
        planned = markets.planned(arrivals.shares_left(now))
        assert isinstance(planned, MarketByHour)
        win, _ = market_response(planned).win_and_cost(VALUES)
        share = arrivals.shares_left(now)
        truth = np.zeros(len(VALUES))
        for hour in range(24):
            market = kr.LogNormalMarket(0.8 * float(WAVE[hour]), 0.7, auction)
            truth += share[hour] * market.win_probability(market.optimal_bid(VALUES))
        assert 0.8 * float(share @ WAVE) == pytest.approx(mean, abs=0.02)
        assert np.abs(win - truth).max() < 0.12
    without = AuctionMarkets(kr.LogNormalMarket(0.0, 0.7, auction), by_hour=False)
    assert without.planned(arrivals.shares_left(0.0)) is without.of()


def test_plans_of_one_hour_take_its_market(memories: dict[str, dict[str, Any]]) -> None:
    markets = remembering(memories["second_price"], "second_price")
    shares = np.zeros(24)
    shares[20] = 1.0
    planned = markets.planned(shares)
    assert isinstance(planned, ScaledMarket)
    assert planned.factor == markets.with_factors("second_price")[1][20]  # type: ignore[index]


def test_first_price_bids_follow_the_hour(memories: dict[str, dict[str, Any]]) -> None:
    """Bids by the hour get nearly all of the surplus there is, and more than those of one market.
    The table of the server says what the library does."""
    markets = remembering(memories["first_price"], "first_price")
    base, factors = markets.with_factors("first_price")
    shading = Shading(base, factors)
    best, by_hour, by_one = 0.0, 0.0, 0.0
    for hour in range(24):
        moment = 9 * DAY + hour * HOUR
        truth = kr.LogNormalMarket(0.8 * float(WAVE[hour]), 0.7, "first_price")
        market = markets.at(moment)
        for value in (1.0, 3.0, 6.0):
            bid = float(market.optimal_bid(value))
            assert shading.at(moment, value) == pytest.approx(bid, rel=1e-9)
            bids = np.array([truth.optimal_bid(value), bid, MEAN.optimal_bid(value)])
            gains = (value - bids) * truth.win_probability(bids) / value
            best, by_hour, by_one = np.array([best, by_hour, by_one]) + gains
    assert by_hour > 0.97 * best
    assert by_hour > 1.03 * by_one
    dear, cheap = (float(markets.at(hour * HOUR).optimal_bid(4.0)) for hour in (20, 8))
    assert dear > 1.3 * cheap


def test_what_plans_expect_is_counted_by_hour(memories: dict[str, dict[str, Any]]) -> None:
    markets = remembering(memories["second_price"], "second_price")
    costs = markets.cost_by_hour(0.5)  # half a reach is worth 1
    assert costs is not None
    truth = [
        float(kr.LogNormalMarket(0.8 * float(x), 0.7).expected_cost(1.0)) for x in WAVE.tolist()
    ]
    assert costs / costs.sum() == pytest.approx(np.array(truth) / sum(truth), abs=0.012)
    assert AuctionMarkets(kr.LogNormalMarket(0.0, 0.7)).cost_by_hour(1.0) is None


@pytest.mark.parametrize("auction", ["second_price", "first_price"])
def test_a_bidder_bids_by_the_hour(memories: dict[str, dict[str, Any]], auction: str) -> None:
    """Second-price bids are the value at any hour; first-price bids are the best of the hour."""
    prior = kr.LogNormalMarket(0.0, 0.7, auction)
    bidder = kr.PlanningBidder(AUDIENCE, 1, kr.Purse(50.0, 0.0, 7 * DAY), prior)
    bidder.markets.remember(memories[auction])
    value = 0.1  # 1/λ before the first plan
    for hour in (8, 20):
        bid = bidder.wanted(0, hour * HOUR)
        factors = bidder.markets.with_factors(auction)[1]
        assert factors is not None
        assert bidder.market == ScaledMarket(bidder.markets.with_factors(auction)[0], factors[hour])
        wanted = float(bidder.market.optimal_bid(value))
        assert bid == pytest.approx(value if auction == "second_price" else wanted)
    again = kr.PlanningBidder(AUDIENCE, 1, kr.Purse(50.0, 0.0, 7 * DAY), prior)
    again.remember(bidder.memory())
    assert again.markets.with_factors(auction)[1] == factors


def test_outcomes_are_learned_at_the_hour_of_their_request() -> None:
    prior = kr.LogNormalMarket(0.0, 0.7)
    bidder = kr.PlanningBidder(AUDIENCE, 1, kr.Purse(50.0, 0.0, 7 * DAY), prior)
    for now in (5 * HOUR, 5.5 * HOUR):
        bidder.lost(0, bidder.bid(0, now))
    bid = bidder.bid(0, 30 * HOUR)
    bidder.won(0, bid, bid / 2.0, 30 * HOUR)
    hours = bidder.memory()["markets"]["second_price"]["hours"]
    assert {at: day for at, day in enumerate(hours["days"]) if day >= 0} == {5: 0, 24 + 6: 1}
    assert [row[0] for row in hours["lost"]] == [5]
    assert hours["prices"][24 + 6][0] == 1.0
