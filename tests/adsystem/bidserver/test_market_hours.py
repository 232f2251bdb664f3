"""The live bidder shades first-price bids by the prices of the hour."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from kreach.adsystem.bidserver.exchanges import Exchanges
from kreach.boundary.openrtb import decode_request
from tests.adsystem.bidserver.sample_bidders import (
    NOW,
    Exchange,
    ManualClock,
    as_response,
    bidding,
    sample_campaign,
    sample_request,
)

HOUR, DAY = 3_600.0, 86_400.0
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
WAVE = np.cos(2.0 * np.pi * (np.arange(24) - 20.0) / 24.0)


def teach(exchanges: Exchanges, venue: int, amplitude: float, until: float) -> None:
    """Four days of outcomes at an exchange, of bids around the price of 0.001."""
    generator = np.random.default_rng(61)
    for moment in np.sort(generator.uniform(until - 4 * DAY, until, 8_000)).tolist():
        offset = amplitude * float(WAVE[int(moment // HOUR) % 24])
        bid = 0.001 * float(generator.uniform(0.2, 3.0))
        won = bid >= 0.001 * float(generator.lognormal(offset, 0.7))
        exchanges.learn(venue, bid, won=won, moment=moment)
        exchanges.refresh(moment)


def test_an_exchange_has_dear_hours() -> None:
    exchanges = Exchanges(0.0, 1.0)
    venue = exchanges.venue("dear.example")
    teach(exchanges, venue, 0.8, MIDNIGHT)
    again = Exchanges(0.0, 1.0)
    again.remember(json.loads(json.dumps(exchanges.memory())))
    again.refresh(MIDNIGHT)
    for known in (exchanges, again):
        shading = known.shading(venue)
        assert shading is not None
        dear, cheap = (shading.at(MIDNIGHT + hour * HOUR, 0.004) for hour in (20, 8))
        assert dear > 1.3 * cheap
    assert len(json.dumps(exchanges.memory())) < 100_000


def test_without_a_rhythm_every_hour_is_alike() -> None:
    exchanges = Exchanges(0.0, 1.0)
    venue = exchanges.venue("even.example")
    teach(exchanges, venue, 0.0, MIDNIGHT)
    shading = exchanges.shading(venue)
    assert shading is not None
    assert {shading.at(hour * HOUR, 0.004) for hour in range(24)} == {shading(0.004)}


def test_hours_of_several_exchanges_are_fitted_one_at_a_time() -> None:
    exchanges = Exchanges(0.0, 1.0)
    venues = [exchanges.venue(f"ssp{at}.example") for at in range(3)]
    for venue in venues:
        for hour in range(48):
            exchanges.learn(venue, 0.001, won=hour % 3 == 0, moment=MIDNIGHT + hour * HOUR)
    for turn in range(4):
        due = [exchanges._learners[venue].fit_due for venue in venues]
        assert sum(due) == max(3 - turn, 0)
        for venue in venues:
            exchanges.learn(venue, 0.001, won=False, moment=MIDNIGHT + 47 * HOUR)
        exchanges.refresh(MIDNIGHT + 48 * HOUR + 10.0 * turn)


def test_bids_are_shaded_by_the_hour_of_the_request(tmp_path: Path) -> None:
    """By the exchange, and by the campaign where the exchange has no name; also after a restart."""
    with bidding(tmp_path, [sample_campaign()]) as exchange:
        bidder = exchange.state.catalogue_bidders["v1"]
        runtime = bidder.runtimes[1]
        markets = runtime.bidder.markets
        exchanges = bidder.exchanges
        venue = exchanges.venue("dear.example")
        teach(exchanges, venue, 0.8, MIDNIGHT)
        generator = np.random.default_rng(62)
        for moment in np.sort(generator.uniform(-4 * DAY, 0.0, 8_000)).tolist():
            offset = 0.8 * float(WAVE[int(moment // HOUR) % 24])
            micros = int(generator.uniform(200.0, 3_000.0))
            won = micros >= 1_000.0 * generator.lognormal(offset, 0.7)
            issued = MIDNIGHT + moment
            bidder.learn(runtime, micros, micros, won=won, venue=1, issued=issued)
        markets.refresh()
        runtime.forget_shading()
    with bidding(tmp_path) as exchange:
        bidder = exchange.state.catalogue_bidders["v1"]
        runtime = bidder.runtimes[1]
        bidder.exchanges.refresh(exchange.state.clock() + 60.0)
        request = decode_request(json.dumps(sample_request("g0", at=1)).encode())
        for name in ("dear.example", ""):
            bids = []
            for hour in (8, 20):
                pending = bidder.begin_request(0, MIDNIGHT + hour * HOUR, request, name)
                bids.append(bidder._shaded(runtime, 0.004, pending, pending.venue))
            assert bids[1] > 1.3 * bids[0]


def hours_learned(exchange: Exchange) -> list[int]:
    """The hours in which the campaign's second-price bids were made."""
    runtime = exchange.state.catalogue_bidders["v1"].runtimes[1]
    days = runtime.bidder.memory()["markets"]["second_price"]["hours"]["days"]
    return [at % 24 for at, day in enumerate(days) if day >= 0]


@pytest.mark.parametrize("end", ["loss", "billing", "silence"])
def test_an_outcome_teaches_the_hour_in_which_the_bid_was_made(tmp_path: Path, end: str) -> None:
    """A bid just before 13:00 whose end is known after."""
    clock = ManualClock()
    clock.now = NOW.timestamp() + HOUR - 5.0
    with bidding(tmp_path, [sample_campaign()], clock=clock) as exchange:
        reply = as_response(exchange.bid(sample_request("g0")))
        bid = reply.seatbid[0].bid[0]
        if end == "silence":
            clock.now += exchange.state.settings.expiry_seconds + 2.0
            exchange.state._expire(clock.now)
        else:
            clock.now += 10.0
            address = bid.lurl if end == "loss" else bid.burl
            assert exchange.call(address, bid.price / 2).status == 200
        assert hours_learned(exchange) == [12]


def learn_for_days(exchange: Exchange, number: int, venue: int) -> None:
    """Four days of outcomes of a campaign, of bids around the price of 0.001."""
    bidder = exchange.state.catalogue_bidders["v1"]
    runtime = bidder.runtimes[number]
    generator = np.random.default_rng(63)
    for moment in np.sort(generator.uniform(-4 * DAY, 0.0, 8_000)).tolist():
        offset = 0.8 * float(WAVE[int(moment // HOUR) % 24])
        micros = int(generator.uniform(200.0, 3_000.0))
        price = int(1_000.0 * generator.lognormal(offset, 0.7))
        paid = min(price, micros) if venue == 0 else micros
        issued = MIDNIGHT + moment
        bidder.learn(runtime, micros, paid, won=micros >= price, venue=venue, issued=issued)
    runtime.bidder.markets.refresh()


@pytest.mark.parametrize("venue", [0, 1])
def test_a_new_campaign_begins_with_the_hours_that_others_know(tmp_path: Path, venue: int) -> None:
    """Also after a restart, and if it was added while no bidder ran. Levels are its own."""
    auction = ("second_price", "first_price")[venue]
    names = iter(("summer", "autumn"))
    with bidding(tmp_path, [sample_campaign()]) as exchange:
        learn_for_days(exchange, 1, venue)
    for number in (2, 3):
        with bidding(tmp_path, [sample_campaign(next(names))]) as exchange:
            runtime = exchange.state.catalogue_bidders["v1"].runtimes[number]
            markets = runtime.bidder.markets
            assert markets.with_factors(auction)[1] is None
            markets.count(auction)
            base = markets.with_factors(auction)[0]
            markets.refresh()
            market, factors = markets.with_factors(auction)
            assert factors is not None
            assert factors[20] > 2.0 * factors[8]
            level = np.array([0.0005, 0.001, 0.002])
            own = base.win_probability(level)
            assert market.win_probability(level) == pytest.approx(own, abs=0.02)


def test_a_new_exchange_begins_with_the_hours_of_the_others(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign()]) as exchange:
        learn_for_days(exchange, 1, 1)
        exchanges = exchange.state.exchanges
        venue = exchanges.venue("new.example")
        for at in range(250):
            exchanges.learn(venue, 0.001, won=at % 2 == 0, moment=MIDNIGHT + 8 * HOUR)
        exchanges.refresh(MIDNIGHT + 9 * HOUR)
        shading = exchanges.shading(venue)
        assert shading is not None
        dear, cheap = (shading.at(MIDNIGHT + hour * HOUR, 0.004) for hour in (20, 8))
        assert dear > 1.2 * cheap
