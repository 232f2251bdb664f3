"""What campaigns learn together about prices by hour, and what one of them is told."""

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kreach as kr
from kreach.adsystem.bidding.arrivals import Arrivals
from kreach.adsystem.bidding.auction_markets import AuctionMarkets
from kreach.adsystem.bidding.hourly_market import MarketByHour
from kreach.adsystem.bidding.market_hours import CampaignHours, MarketHours
from kreach.adsystem.bidding.rhythm import HourEstimates
from kreach.lab.auctions import Outcome, Stream, run_auctions

FloatArray = npt.NDArray[np.float64]
HOUR, DAY = 3_600.0, 86_400.0
START = 1_700_006_400.0  # midnight, UTC
WAVE = np.cos(2.0 * np.pi * (np.arange(24) + 0.5 - 20.0) / 24.0)
TRAFFIC = 1.0 + 0.6 * WAVE
SIZE, GROUPS = 20, 100
SECOND = "second_price"


def estimates(
    generator: np.random.Generator,
    rhythm: FloatArray,
    level: float,
    hours: slice = slice(None),
    error: float = 0.05,
) -> HourEstimates:
    """What a campaign knows that buys at these hours, at this level of prices."""
    variance = np.full((2, 24), np.inf)
    variance[:, hours] = error**2
    location = level + rhythm + generator.normal(0.0, error, (2, 24))
    return HourEstimates(location, variance)


def test_a_campaign_is_told_what_the_others_know() -> None:
    """From buyers of dear and of cheap requests, at other hours: levels do not mix into hours."""
    generator = np.random.default_rng(1)
    rhythm = 0.5 * WAVE
    market = MarketHours()
    market.report(SECOND, "a", estimates(generator, rhythm, 3.0, slice(0, 16)), START)
    market.report(SECOND, "b", estimates(generator, rhythm, -3.0, slice(8, 24)), START)
    told = market.offsets(SECOND, "c")
    assert told is not None
    assert told - told.mean() == pytest.approx(rhythm - rhythm.mean(), abs=0.17)  # five errors
    assert market.offsets("first_price", "c") is None


def test_levels_of_prices_are_not_told() -> None:
    """A campaign that pays a hundred times as much says the same about hours."""
    told = []
    for level in (0.0, float(np.log(100.0))):
        generator = np.random.default_rng(2)
        market = MarketHours()
        market.report(SECOND, "a", estimates(generator, 0.5 * WAVE, level), START)
        market.report(SECOND, "b", estimates(generator, 0.5 * WAVE, 0.0), START)
        told.append(market.offsets(SECOND, "c"))
    assert told[0] is not None
    assert told[0] == pytest.approx(told[1], abs=1e-9)
    assert abs(float(told[0].mean())) < 0.05


def test_nobody_is_told_what_it_said_itself() -> None:
    generator = np.random.default_rng(3)
    market = MarketHours()
    market.report(SECOND, "a", estimates(generator, WAVE, 0.0), START)
    assert market.offsets(SECOND, "a") is None
    alone = market.offsets(SECOND, "b")
    market.report(SECOND, "b", estimates(generator, -WAVE, 0.0), START)
    again = market.offsets(SECOND, "b")
    assert alone is not None
    assert again is not None
    assert again.tolist() == alone.tolist()


def test_without_a_rhythm_nothing_is_told() -> None:
    generator = np.random.default_rng(4)
    market = MarketHours()
    for name in "abcdefgh":
        market.report(SECOND, name, estimates(generator, np.zeros(24), 1.0), START)
    assert market.offsets(SECOND, "z") is None


def test_many_that_know_little_know_something_together() -> None:
    """Ten campaigns whose estimates are off by more than the rhythm."""
    generator = np.random.default_rng(5)
    market = MarketHours()
    for at in range(10):
        market.report(SECOND, str(at), estimates(generator, 0.3 * WAVE, at, error=0.4), START)
    told = market.offsets(SECOND, "new")
    assert told is not None
    assert float(np.corrcoef(told, WAVE)[0, 1]) > 0.8


def test_old_reports_fade_and_the_oldest_are_dropped() -> None:
    generator = np.random.default_rng(6)
    market = MarketHours()
    market.report(SECOND, "old", estimates(generator, -WAVE, 0.0), START - 140 * DAY)
    market.report(SECOND, "new", estimates(generator, WAVE, 0.0), START)
    told = market.offsets(SECOND, "c")
    assert told is not None
    assert told == pytest.approx(WAVE, abs=0.2)
    for at in range(200):
        market.report(SECOND, str(at), estimates(generator, WAVE, 0.0), START + at)
    assert len(market.memory()[SECOND]) == 200
    assert "old" not in market.memory()[SECOND]


def test_a_restart_keeps_it() -> None:
    generator = np.random.default_rng(7)
    market = MarketHours()
    for name in ("a", "b"):
        market.report(SECOND, name, estimates(generator, WAVE, 2.0, slice(3, 20)), START)
    again = MarketHours()
    again.remember(json.loads(json.dumps(market.memory(), allow_nan=False)))
    for asking in ("a", "c"):
        assert again.offsets(SECOND, asking) == pytest.approx(
            market.offsets(SECOND, asking), abs=1e-3
        )
    with pytest.raises(ValueError, match="24 of even"):
        again.remember({SECOND: {"a": {"location": [], "information": [], "moment": 0.0}}})


# -- campaigns in a market with a rhythm --------------------------------------------------------


def stream(seed: int, amplitude: float, first_day: int, days: int, requests: int) -> Stream:
    """Prices are log-normal, dearest and traffic densest at 20:00 UTC."""
    generator = np.random.default_rng([83, seed, first_day])
    people = SIZE * GROUPS
    person = generator.integers(people, size=requests)
    hour = generator.choice(24, size=requests, p=TRAFFIC / TRAFFIC.sum())
    day = first_day + generator.integers(days, size=requests)
    at = np.sort(day * 24.0 + hour + generator.random(requests))
    wave = WAVE[at.astype(np.int64) % 24]
    price = np.exp(amplitude * wave + generator.normal(0.0, 0.7, size=requests))
    return Stream(person, person // SIZE, START + HOUR * at, price, people)


def flight(
    requests: Stream, first_day: int, days: int, auction: str, hours: CampaignHours | None
) -> tuple[Outcome, kr.PlanningBidder]:
    """A flight of some days with 0.1 of money for each person."""
    start, end = START + first_day * DAY, START + (first_day + days) * DAY
    bidder = kr.PlanningBidder(
        kr.Audience.disjoint(np.full(GROUPS, SIZE)),
        1,
        kr.Purse(0.1 * SIZE * GROUPS, start, end),
        kr.LogNormalMarket(0.5, 1.0, auction),
        arrivals=Arrivals(GROUPS, start, end, TRAFFIC.tolist()),
    )
    bidder.markets.market_hours = hours
    return run_auctions(bidder, requests, 1, auction=auction), bidder


@pytest.mark.parametrize("auction", ["second_price", "first_price"])
def test_a_campaign_of_the_second_day_knows_the_hours_and_reaches_more(auction: str) -> None:
    """The first campaign flies two days; the second one day after that, with the same money.

    In three markets of amplitude 0.8 the second reaches more in each, and 4 % more on average.
    """
    ratios = []
    for seed in range(3):
        market = MarketHours()
        flight(stream(seed, 0.8, 0, 2, 10_000), 0, 2, auction, market.of("first"))
        requests = stream(seed, 0.8, 2, 1, 10_000)
        told, bidder = flight(requests, 2, 1, auction, market.of("second"))
        alone, _ = flight(requests, 2, 1, auction, None)
        ratios.append(told.expected_reach / alone.expected_reach)
        assert max(told.spend, alone.spend) <= 0.1 * SIZE * GROUPS
        assert bidder.markets.with_factors(auction)[1] is not None
    assert min(ratios) > 1.0
    assert float(np.mean(ratios)) > 1.04


def test_its_first_plan_has_hours() -> None:
    market = MarketHours()
    generator = np.random.default_rng(8)
    market.report(SECOND, "first", estimates(generator, 0.8 * WAVE, 0.0), START)
    markets = AuctionMarkets(kr.LogNormalMarket(0.0, 0.7))
    markets.market_hours = market.of("second")
    markets.count(SECOND)
    markets.refresh()
    planned = markets.planned(np.full(24, 1.0 / 24.0))
    assert isinstance(planned, MarketByHour)
    dear, cheap = (markets.at(hour * HOUR).win_probability(1.0) for hour in (20, 8))
    assert float(dear) < 0.25
    assert float(cheap) > 0.75


def test_without_a_rhythm_a_new_campaign_does_as_it_would_alone() -> None:
    """To the last digit."""
    market = MarketHours()
    flight(stream(9, 0.0, 0, 2, 4_000), 0, 2, SECOND, market.of("first"))
    requests = stream(9, 0.0, 2, 1, 4_000)
    told, _ = flight(requests, 2, 1, SECOND, market.of("second"))
    alone, _ = flight(requests, 2, 1, SECOND, None)
    assert (told.spend, told.expected_reach) == (alone.spend, alone.expected_reach)


def outcomes(markets: AuctionMarkets, rhythm: FloatArray, days: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    for moment in np.sort(generator.uniform(START, START + days * DAY, 3_000 * days)).tolist():
        offset = float(rhythm[int(moment // HOUR) % 24])
        price, bid = float(generator.lognormal(offset, 0.7)), float(generator.uniform(0.2, 3.0))
        markets.turn_to(moment)
        markets.learn(bid, price, won=bid >= price, auction=SECOND)
        if generator.random() < 0.02:
            markets.refresh()
    markets.refresh()


@pytest.mark.parametrize(("days", "own"), [(1, False), (4, True)])
def test_own_auctions_outweigh_what_was_told(days: int, own: bool) -> None:
    """A campaign whose prices are dear when the market's are cheap knows from its second day."""
    market = MarketHours()
    generator = np.random.default_rng(10)
    for name in "abc":
        market.report(SECOND, name, estimates(generator, 0.8 * WAVE, 0.0), START)
    markets = AuctionMarkets(kr.LogNormalMarket(0.0, 0.7), half_life_auctions=2_000.0)
    markets.market_hours = market.of("odd")
    outcomes(markets, -0.8 * WAVE, days, 11)
    factors = markets.with_factors(SECOND)[1]
    assert factors is not None
    expected = (-0.8 if own else 0.8) * WAVE
    known = np.log(factors) - np.mean(np.log(factors))
    assert known == pytest.approx(expected - expected.mean(), abs=0.25)
    # what it has learned is told to the others
    told = market.offsets(SECOND, "new")
    assert told is not None
    assert ("odd" in market.memory()[SECOND]) == own


def test_a_learner_that_was_restored_keeps_its_own_hours() -> None:
    """Until it has learned something again, whatever the others say."""
    learned = AuctionMarkets(kr.LogNormalMarket(0.0, 0.7), half_life_auctions=2_000.0)
    outcomes(learned, -0.8 * WAVE, 4, 12)
    memory: dict[str, Any] = json.loads(json.dumps(learned.memory()))
    market = MarketHours()
    market.report(SECOND, "a", estimates(np.random.default_rng(13), 0.8 * WAVE, 0.0), START)
    again = AuctionMarkets(kr.LogNormalMarket(0.0, 0.7), half_life_auctions=2_000.0)
    again.market_hours = market.of("b")
    again.remember(memory)
    again.refresh()
    before, after = (one.with_factors(SECOND)[1] for one in (learned, again))
    assert before is not None
    assert after == pytest.approx(before)
