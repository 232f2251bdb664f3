"""Auction types: prices are learned apart, and plans take them as mixed as requests are."""

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.bidding.auction_markets import AuctionMarkets
from kreach.adsystem.bidding.market import MarketMix
from kreach.adsystem.bidding.responses import market_response

AUDIENCE = kr.Audience.disjoint([20] * 30)
PRIOR = kr.LogNormalMarket(0.0, 0.7)


def test_a_prior_holds_for_both_types() -> None:
    markets = AuctionMarkets(PRIOR)
    assert markets.of() is PRIOR
    assert markets.of("first_price") == kr.LogNormalMarket(0.0, 0.7, "first_price")
    with pytest.raises(kr.KreachError, match=r"^auction must be one of second_price, first_price"):
        markets.of("dutch")


def test_an_outcome_teaches_its_own_type_only() -> None:
    markets = AuctionMarkets(PRIOR)
    for _ in range(300):
        markets.learn(1.0, 1.0, won=True, auction="first_price")
    markets.learn_losses(1.0, 300)
    markets.refresh()
    assert float(markets.of("first_price").win_probability(1.05)) > 0.9
    assert float(markets.of("second_price").win_probability(1.05)) < 0.2
    again = AuctionMarkets(PRIOR)
    again.remember(markets.memory())
    for auction in ("first_price", "second_price"):
        bids = [0.3, 1.0, 3.0]
        known = markets.of(auction).win_probability(bids)
        assert again.of(auction).win_probability(bids) == pytest.approx(known)


def test_plans_take_the_types_as_they_were_seen() -> None:
    markets = AuctionMarkets(PRIOR)
    assert markets.planned() is PRIOR
    for auction, planned in (("first_price", "first_price"), ("second_price", None)):
        markets.count(auction)
        market = markets.planned()
        if planned is not None:
            assert not isinstance(market, MarketMix)
            assert market.auction == planned
    for _ in range(2):
        markets.count("second_price")
    mix = markets.planned()
    assert isinstance(mix, MarketMix)
    assert {market.auction: share for market, share in mix.parts} == {
        "second_price": 0.75,
        "first_price": 0.25,
    }


def test_requests_long_ago_count_less() -> None:
    markets = AuctionMarkets(PRIOR)
    for _ in range(10_000):
        markets.count("first_price")
    for _ in range(40_000):
        markets.count("second_price")
    assert sum(markets.requests.values()) <= 10_001
    assert markets.requests["first_price"] < 1_000


def test_the_response_of_a_mix_is_the_average_of_its_markets() -> None:
    parts = (PRIOR, 0.6), (kr.LogNormalMarket(0.5, 0.4, "first_price"), 0.4)
    values = np.exp(np.linspace(-2.0, 3.0, 40))
    win, cost = market_response(MarketMix(parts)).win_and_cost(values)
    for got, name in ((win, "win_probability"), (cost, "expected_cost")):
        each = [
            share * getattr(market, name)(market.optimal_bid(values)) for market, share in parts
        ]
        assert got == pytest.approx(sum(each), rel=0.01, abs=1e-4)
    with pytest.raises(kr.KreachError, match=r"^shares of markets must be > 0 and sum to 1"):
        MarketMix(((PRIOR, 0.6), (PRIOR, 0.6)))


def test_a_bidder_spends_its_budget_in_both_types() -> None:
    """Every third auction is first-price. Seeded; the budget is small against 3,000 requests."""
    generator = np.random.default_rng(3)
    purse = kr.Purse(30.0, 0.0, 3_000.0)
    bidder = kr.PlanningBidder(AUDIENCE, 1, purse, PRIOR)
    wins = {"first_price": 0, "second_price": 0}
    for now in range(3_000):
        auction = "first_price" if now % 3 == 0 else "second_price"
        group, price = int(generator.integers(30)), float(generator.lognormal(0.0, 0.7))
        bid = bidder.bid(group, float(now), auction=auction)
        if bid >= price:
            paid = bid if auction == "first_price" else price
            bidder.won(group, bid, paid, float(now), auction)
            wins[auction] += 1
        elif bid > 0.0:
            bidder.lost(group, bid, auction)
    assert bidder.purse.spent > 0.95 * 30.0
    assert wins["second_price"] > wins["first_price"] > 5
    assert isinstance(bidder.markets.planned(), MarketMix)
