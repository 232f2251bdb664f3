"""Bidders: never over budget or limits whatever the stream, wins that are taken back, bad input."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.bidding.arrivals import Arrivals
from kreach.adsystem.bidding.bidder import Bidder
from kreach.boundary.money import AUCTIONS
from kreach.lab.auctions import paper_stream, run_auctions

DAY = 86_400.0
AUDIENCE = kr.Audience.disjoint([4] * 5)
OVERLAP = kr.Audience.overlapping([3, 3], [((0,), 2), ((0, 1), 1), ((1,), 2)])

Make = Callable[[kr.Purse, kr.BidLimits, str], Bidder]
PRICES = np.random.default_rng(80).lognormal(0.0, 0.7, size=200)


def _paper(purse: kr.Purse, limits: kr.BidLimits, auction: str) -> Bidder:
    market = kr.EmpiricalMarket(PRICES, auction=auction)
    return kr.PaperBidder(kr.CapValuation(AUDIENCE, 2), purse, market, 60, limits=limits)


def _planning(**options: Any) -> Make:
    def make(purse: kr.Purse, limits: kr.BidLimits, auction: str) -> Bidder:
        market = kr.EmpiricalMarket(PRICES, auction=auction)
        return kr.PlanningBidder(AUDIENCE, 2, purse, market, limits=limits, first_plan=5, **options)

    return make


def _stacked(purse: kr.Purse, limits: kr.BidLimits, auction: str) -> Bidder:
    valuation = kr.StackedValuation(AUDIENCE, [kr.CapRule(1, DAY), kr.CapRule(3)])
    return _planning(ahead=False, valuation=valuation)(purse, limits, auction)


MAKERS: dict[str, Make] = {
    "paper": _paper,
    "planning": _planning(),
    "planning, known market": _planning(learn=False),
    "paced, myopic": _planning(ahead=False),
    "stacked caps": _stacked,
}
every_bidder = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def auctions(
    bidder: Bidder, requests: list[tuple[int, float, str]], auction: str, floor: float
) -> dict[int, float]:
    """Run adversarial auctions; what was paid by day of the flight. Bids are checked."""
    by_day: dict[int, float] = {}
    for group, now, rival in requests:
        available = bidder.purse.available(now)
        bid = bidder.bid(group, now, floor)
        assert 0.0 <= bid <= bidder.limits.most
        assert bid == 0.0 or bid >= max(floor, bidder.limits.least)
        assert bid <= available
        if bid == 0.0:
            continue
        if rival == "loses":
            bidder.lost(group, bid)
            continue
        price = {"free": 0.0, "half": bid / 2.0, "at the bid": bid}[rival]
        price = max(price, floor) if auction == "second_price" else bid
        bidder.won(group, bid, price, now)
        day = int((now - bidder.purse.start) // DAY)
        by_day[day] = by_day.get(day, 0.0) + price
    return by_day


def ask(bidder: Bidder, group: int, now: float) -> float:
    """What would be bid; the bid is taken back."""
    bid = bidder.bid(group, now)
    bidder.withdraw(group, bid)
    return bid


rivals = st.sampled_from(["free", "half", "at the bid", "loses"])
gaps = st.sampled_from([0.0, 1.0, 3_600.0, 0.6 * DAY])
streams = st.lists(st.tuples(st.integers(0, 4), gaps, rivals), max_size=60)


@every_bidder
@settings(max_examples=25)
@given(
    steps=streams,
    budget=st.sampled_from([1e-6, 0.3, 5.0, 1e6]),
    daily=st.sampled_from([None, 0.1, 2.0]),
    least=st.sampled_from([0.0, 0.05]),
    most=st.sampled_from([0.05, 0.5, float("inf")]),
    floor=st.sampled_from([0.0, 0.02]),
    auction=st.sampled_from(AUCTIONS),
)
def test_no_stream_breaks_budget_or_limits(
    make: Make,
    steps: list[tuple[int, float, str]],
    budget: float,
    daily: float | None,
    least: float,
    most: float,
    floor: float,
    auction: str,
) -> None:
    """Prices at 0 and at the bid, bursts and pauses, floors, tiny and huge budgets."""
    start = 1_000.0
    purse = kr.Purse(budget, start, start + 5 * DAY, daily_budget=daily)
    bidder = make(purse, kr.BidLimits(least, most), auction)
    now = start - 3_600.0  # some requests come too early, and some too late
    requests = []
    for group, gap, rival in steps:
        now += gap
        requests.append((group, now, rival))
    by_day = auctions(bidder, requests, auction, floor)
    assert purse.spent <= budget * (1.0 + 1e-12)
    assert daily is None or max(by_day.values(), default=0.0) <= daily * (1.0 + 1e-12)


def last_minute(n: int) -> Iterator[float]:
    """Everything in the last of 1,440 minutes."""
    return (DAY - 60.0 + 60.0 * at / n for at in range(n))


def at_once(n: int) -> Iterator[float]:
    """A burst in one moment."""
    return (DAY / 3.0 for _ in range(n))


def evenly(n: int) -> Iterator[float]:
    return (DAY * at / n for at in range(n))


MOMENTS = (last_minute, at_once, evenly)
MARKETS = ("doubles", "free", "at the bid", "at the limit")


@every_bidder
@pytest.mark.parametrize(
    ("auction", "moments", "market"),
    [
        pytest.param(AUCTIONS[(row + column) % 2], when, market, id=f"{when.__name__}-{market}")
        for row, when in enumerate(MOMENTS)
        for column, market in enumerate(MARKETS)
    ],
)
def test_hostile_days(
    make: Make, auction: str, moments: Callable[[int], Iterator[float]], market: str
) -> None:
    """Every pair of times, market and auction; either auction with all of the others."""
    budget, n = 12.0, 200
    purse = kr.Purse(budget, 0.0, DAY)
    bidder = make(purse, kr.BidLimits(0.0, 3.0), auction)
    generator = np.random.default_rng(81)
    prices = generator.lognormal(0.0, 0.7, size=n)
    prices[n // 2 :] *= 2.0
    for group, now, drawn in zip(
        generator.integers(5, size=n).tolist(), moments(n), prices.tolist(), strict=True
    ):
        bid = bidder.bid(group, now)
        assert 0.0 <= bid <= 3.0
        price = {"doubles": drawn, "free": 0.0, "at the bid": bid, "at the limit": 3.0}[market]
        if bid > 0.0 and bid >= price:
            bidder.won(group, bid, price if auction == "second_price" else bid, now)
        elif bid > 0.0:
            bidder.lost(group, bid)
    assert purse.spent <= budget * (1.0 + 1e-12)


@every_bidder
def test_bids_that_are_still_open_cannot_overspend(make: Make) -> None:
    """A burst: all bids are out before the first outcome is known, and all of them win."""
    purse = kr.Purse(0.25, 0.0, 100.0)
    bidder = make(purse, kr.BidLimits(), "second_price")
    bids = [(group, bidder.bid(group, 1.0)) for group in (0, 1, 2, 3, 4)]
    for group, bid in bids:
        if bid > 0.0:
            bidder.won(group, bid, bid, 1.0)
    assert purse.spent <= 0.25


@every_bidder
def test_money_is_held_until_the_outcome_is_told(make: Make) -> None:
    purse = kr.Purse(5.0, 0.0, 100.0)
    bidder = make(purse, kr.BidLimits(), "second_price")
    first, second, third = (bidder.bid(group, 1.0) for group in (0, 1, 2))
    assert purse.available(1.0) == pytest.approx(5.0 - first - second - third)
    assert purse.spent == 0.0
    bidder.lost(0, first)
    assert purse.available(1.0) == pytest.approx(5.0 - second - third)
    bidder.withdraw(2, third)
    assert purse.available(1.0) == pytest.approx(5.0 - second)
    bidder.won(1, second, second / 2.0, 1.0)
    assert purse.available(1.0) == pytest.approx(5.0 - second / 2.0)


def test_a_bid_that_is_withdrawn_teaches_nothing() -> None:
    """200 bids that never were in an auction leave the market as the prior has it."""
    prior = kr.LogNormalMarket(0.0, 0.7)
    multipliers = []
    for learn in (False, True):
        bidder = kr.PlanningBidder(AUDIENCE, 1, kr.Purse(5.0, 0.0, 400.0), prior, learn=learn)
        for now in range(200):
            ask(bidder, now % 5, float(now))
        multipliers.append(bidder.multiplier)
    assert multipliers[1] == pytest.approx(multipliers[0], rel=0.05)


@every_bidder
@pytest.mark.parametrize("group", [-1, 5])
def test_outcomes_of_a_group_that_the_audience_does_not_hold_are_refused(
    make: Make, group: int
) -> None:
    purse = kr.Purse(5.0, 0.0, 100.0)
    bidder = make(purse, kr.BidLimits(), "second_price")
    bid = bidder.bid(0, 1.0)
    left = purse.available(1.0)
    for tell in (bidder.lost, bidder.withdraw):
        with pytest.raises(kr.KreachError, match=rf"^group must be .*from 0 to 4, got {group}"):
            tell(group, bid)
    assert purse.available(1.0) == left


@every_bidder
def test_nothing_is_bid_outside_the_flight(make: Make) -> None:
    bidder = make(kr.Purse(5.0, 100.0, 200.0), kr.BidLimits(), "second_price")
    assert bidder.bid(0, 99.9) == 0.0
    assert bidder.bid(0, 100.0) > 0.0
    assert bidder.bid(0, 200.0) == 0.0
    assert bidder.bid(0, 1e9) == 0.0


@every_bidder
def test_limits_and_floors(make: Make) -> None:
    """A bid above the most is lowered to it; one below the least or the floor is not made."""
    free = make(kr.Purse(5.0, 0.0, 10.0), kr.BidLimits(), "second_price").bid(0, 0.0)
    assert free > 0.0

    def limited(least: float, most: float, floor: float = 0.0) -> float:
        bidder = make(kr.Purse(5.0, 0.0, 10.0), kr.BidLimits(least, most), "second_price")
        return bidder.bid(0, 0.0, floor)

    assert limited(0.0, free / 2.0) == free / 2.0
    assert limited(free, free) == free
    assert limited(free * 1.01, free * 2.0) == 0.0
    assert limited(0.0, free * 2.0, floor=free) == free
    assert limited(0.0, free * 2.0, floor=free * 1.01) == 0.0
    poor = make(kr.Purse(free / 4.0, 0.0, 10.0), kr.BidLimits(), "second_price")
    assert poor.bid(0, 0.0) == free / 4.0


@every_bidder
@pytest.mark.parametrize("wrong", [-0.1, float("nan")])
def test_an_impossible_floor_is_refused(make: Make, wrong: float) -> None:
    bidder = make(kr.Purse(5.0, 0.0, 10.0), kr.BidLimits(), "second_price")
    with pytest.raises(kr.KreachError, match=r"^floor must be a number ≥ 0, got"):
        bidder.bid(0, 1.0, wrong)


@every_bidder
def test_a_price_above_the_bid_is_refused(make: Make) -> None:
    bidder = make(kr.Purse(5.0, 0.0, 10.0), kr.BidLimits(), "second_price")
    for wrong in (0.6, -0.1, float("nan")):
        with pytest.raises(kr.KreachError, match=r"^price must lie between 0 and the bid \(0.5\)"):
            bidder.won(0, 0.5, wrong, 1.0)
    assert bidder.purse.spent == 0.0
    assert bidder.valuation.count(0) == 0


@every_bidder
def test_a_win_counts_at_once_and_void_takes_it_back(make: Make) -> None:
    """Pending impressions count; money and counts of what was never shown come back."""
    bidder = make(kr.Purse(5.0, 0.0, 10 * DAY), kr.BidLimits(), "second_price")
    bid = bidder.bid(1, 1.0)
    before = bidder.valuation.probability(1, 2.0)
    bidder.won(1, bid, bid / 2.0, 1.0)
    assert bidder.valuation.count(1) == 1
    bidder.won(1, bid, bid / 4.0, 1.0)
    assert bidder.valuation.probability(1, 2.0) < before
    bidder.void(1, bid / 4.0, 1.0)
    bidder.void(1, bid / 2.0, 1.0)
    assert bidder.purse.spent == pytest.approx(0.0, abs=1e-15)
    assert bidder.valuation.counts().tolist() == [0] * 5
    assert bidder.valuation.probability(1, 2.0) == before


@every_bidder
@pytest.mark.parametrize("group", [-1, 5])
def test_a_group_that_the_audience_does_not_hold_is_refused(make: Make, group: int) -> None:
    bidder = make(kr.Purse(5.0, 0.0, 10.0), kr.BidLimits(), "second_price")
    with pytest.raises(kr.KreachError, match=rf"^group must be .*from 0 to 4, got {group}"):
        bidder.bid(group, 1.0)


@every_bidder
def test_a_win_of_an_unknown_group_costs_nothing(make: Make) -> None:
    """All of a win is booked, or none of it."""
    bidder = make(kr.Purse(5.0, 0.0, 10.0), kr.BidLimits(), "second_price")
    with pytest.raises(kr.KreachError, match=r"^group must be "):
        bidder.won(9, 0.5, 0.4, 1.0)
    assert bidder.purse.spent == 0.0
    assert bidder.valuation.counts().sum() == 0


@every_bidder
def test_a_void_of_what_was_not_won_refunds_nothing(make: Make) -> None:
    bidder = make(kr.Purse(5.0, 0.0, 10.0), kr.BidLimits(), "second_price")
    bidder.won(1, 0.5, 0.4, 1.0)
    with pytest.raises(kr.KreachError):
        bidder.void(2, 0.4, 1.0)
    assert bidder.purse.spent == pytest.approx(0.4)
    assert bidder.valuation.counts().tolist() == [0, 1, 0, 0, 0]


def test_requests_before_the_flight_do_not_count() -> None:
    """Who is switched on a day early bids the same as who is switched on in time."""
    multipliers = []
    for early in (0, 2_000):
        bidder = kr.PlanningBidder(
            AUDIENCE, 1, kr.Purse(5.0, DAY, 2 * DAY), kr.LogNormalMarket(0.0, 0.7)
        )
        for at in range(early):
            assert ask(bidder, at % 5, DAY * at / early) == 0.0
        for at in range(100):
            ask(bidder, at % 5, DAY + 60.0 * (at + 1))
        multipliers.append(bidder.multiplier)
    assert multipliers[1] == pytest.approx(multipliers[0], rel=0.05)


def test_a_burst_in_the_first_moment_does_not_stop_bidding() -> None:
    """30 requests in the first second say nothing about the rate: the first bid stays in force."""
    bidder = kr.PlanningBidder(
        AUDIENCE, 1, kr.Purse(5.0, 0.0, DAY), kr.LogNormalMarket(0.0, 0.7), first_multiplier=2.0
    )
    for at in range(30):
        bidder.lost(at % 5, bidder.bid(at % 5, 0.0))
    assert bidder.bid(0, 1.0) > 0.01


@pytest.mark.parametrize("auction", AUCTIONS)
def test_who_is_reached_is_worth_nothing_more(auction: str) -> None:
    """k = 1, cap 1: after a win the value is 0 and so is the bid."""
    audience = kr.Audience.disjoint([1, 1])
    market = kr.LogNormalMarket(0.0, 0.7, auction)
    made: list[Bidder] = [
        kr.PaperBidder(kr.CapValuation(audience, 1), kr.Purse(5.0, 0.0, 9.0), market, 9),
        kr.PlanningBidder(audience, 1, kr.Purse(5.0, 0.0, 9.0), market),
    ]
    for bidder in made:
        bid = bidder.bid(0, 0.0)
        bidder.won(0, bid, bid, 0.0)
        assert bidder.bid(0, 1.0) == 0.0
        assert bidder.bid(1, 2.0) > 0.0


def test_the_papers_multiplier_moves_as_printed() -> None:
    """λ ← λ − 0.1·(1 − r_t), r_t = spend/(budget/requests), held in [0.1, 10]."""
    audience = kr.Audience.disjoint([1_000_000])
    purse = kr.Purse(20.0, 0.0, 100.0)
    bidder = kr.PaperBidder(kr.CapValuation(audience, 1), purse, kr.LogNormalMarket(0, 1), 100)
    assert bidder.bid(0, 0.0) == pytest.approx(0.1)  # λ starts at 10
    bidder.lost(0, 0.1)
    bid = bidder.bid(0, 1.0)
    assert bidder.multiplier == pytest.approx(9.9)  # nothing was spent: r = 0
    bidder.won(0, bid, 0.1, 1.0)
    bidder.bid(0, 2.0)
    assert bidder.multiplier == pytest.approx(9.85)  # 0.1 of 0.2: r = 1/2
    for now in range(3, 40):
        bid = bidder.bid(0, float(now))
        bidder.won(0, bid, 0.0, float(now))
    assert bidder.multiplier == pytest.approx(9.85 - 0.1 * 37)


def test_the_papers_base_bid_stays_within_its_bounds() -> None:
    audience = kr.Audience.disjoint([1_000_000])
    purse = kr.Purse(1e6, 0.0, 1e9)
    bidder = kr.PaperBidder(
        kr.CapValuation(audience, 1), purse, kr.LogNormalMarket(0, 1), 1_000, base_bids=(0.5, 4.0)
    )
    bids = []
    for now in range(400):
        bid = bidder.bid(0, float(now))
        bids.append(bid)
        bidder.lost(0, bid)
    assert bids[0] == pytest.approx(0.5)
    assert bids[-1] == pytest.approx(4.0)
    bid = bidder.bid(0, 400.0)
    bidder.won(0, bid, bid, 400.0)
    purse.pay(9e5, 400.0)  # far beyond the pace
    assert bidder.bid(0, 401.0) == pytest.approx(0.5, rel=1e-3)


def test_until_it_plans_it_bids_as_the_paper_does() -> None:
    market = kr.LogNormalMarket(0.0, 1.0)
    bidder = kr.PlanningBidder(
        AUDIENCE, 1, kr.Purse(5.0, 0.0, 100.0), market, first_plan=10, first_multiplier=8.0
    )
    for now in range(9):
        assert ask(bidder, now % 5, float(now)) == 1.0 / 8.0
        assert bidder.plan is None
    ask(bidder, 0, 9.0)
    assert bidder.plan is not None
    assert bidder.multiplier == bidder.plan.multiplier != 8.0


def test_plans_are_made_so_often_and_no_more() -> None:
    seen = set()
    bidder = kr.PlanningBidder(
        AUDIENCE, 1, kr.Purse(50.0, 0.0, 1_000.0), kr.LogNormalMarket(0.0, 1.0), plans=4
    )
    for now in range(1_000):
        bid = bidder.bid(now % 5, float(now))
        if bid > 0.0:
            bidder.lost(now % 5, bid)
        seen.add(id(bidder.plan) if bidder.plan is None else bidder.multiplier)
    assert 4 <= len(seen) <= 6  # the bid before the first plan, and four or five plans


def test_planning_ahead_bids_less_where_more_is_to_come() -> None:
    """Two groups, same counts; one has had ten times the requests."""
    audience = kr.Audience.disjoint([2, 2])
    market = kr.LogNormalMarket(0.0, 0.7)
    bidder = kr.PlanningBidder(
        audience, 1, kr.Purse(1.0, 0.0, 440.0), market, first_plan=220, learn=False
    )
    for now in range(220):
        group = 0 if now % 11 else 1
        bidder.lost(group, bidder.bid(group, float(now)))
    busy, quiet = bidder.bid(0, 220.0), bidder.bid(1, 221.0)
    assert 0.0 < busy < 0.8 * quiet


@pytest.mark.parametrize(
    "audience",
    [
        kr.baselines.every_impression(40),
        kr.baselines.every_group(40),
        kr.Audience.profiled([[0.1, 0.2, 0.7]] * 20 + [[0.3, 0.3, 0.4]] * 20),
        kr.Audience.disjoint([3] * 40, dispersion=0.6),
        kr.Audience.disjoint([3] * 40, [1, 3] * 20),
    ],
    ids=["every impression", "every group", "profiled", "dispersed", "partly targeted"],
)
def test_every_kind_of_audience_can_be_planned(audience: kr.Audience) -> None:
    """The expected reach of the wins is what `measure` says of them, and the money is used."""
    stream = paper_stream(3, np.random.default_rng(82), requests=1_000)
    bidder = kr.PlanningBidder(audience, 1, kr.Purse(10.0, 0.0, 1_000.0), kr.LogNormalMarket(0, 1))
    outcome = run_auctions(bidder, stream, 1)
    won = bidder.valuation.counts()
    assert won.sum() == outcome.impressions > 20
    assert outcome.expected_reach == pytest.approx(kr.measure(audience, won, 1).reach)
    assert 8.0 <= outcome.spend <= 10.0
    assert bidder.plan is not None


def test_a_profiled_audience_is_planned_better_than_not() -> None:
    """Groups of one frequent visitor and many rare ones: planning ahead beats the paper's value
    at the same pace. Expected reach, mean of four paired streams."""
    profile = np.array([0.4, *([0.6 / 11] * 11)])
    audience = kr.Audience.profiled([profile] * 10)
    reached: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(4):
        stream = paper_stream(12, np.random.default_rng([83, seed]), requests=1_500)
        for ahead, found in reached.items():
            bidder = kr.PlanningBidder(
                audience,
                1,
                kr.Purse(20.0, 0.0, 1_500.0),
                kr.LogNormalMarket(0.0, 0.7),
                ahead=ahead,
                learn=False,
            )
            found.append(run_auctions(bidder, stream, 1).expected_reach)
    assert np.mean(reached[True]) > 1.02 * np.mean(reached[False])


def test_an_overlapping_audience_is_paced() -> None:
    purse = kr.Purse(4.0, 0.0, 400.0)
    bidder = kr.PlanningBidder(OVERLAP, 3, purse, kr.LogNormalMarket(0.0, 0.7), ahead=False)
    generator = np.random.default_rng(84)
    for now in range(400):
        group, price = int(generator.integers(2)), float(generator.lognormal(0.0, 0.7))
        bid = bidder.bid(group, float(now))
        if bid >= price and bid > 0.0:
            bidder.won(group, bid, price, float(now))
        elif bid > 0.0:
            bidder.lost(group, bid)
    won = bidder.valuation.counts()
    reach = kr.measure(OVERLAP, won, 3).reach
    assert isinstance(bidder.valuation, kr.CapValuation)
    assert bidder.valuation.meter.reach[3] == pytest.approx(reach)
    assert 0.0 < purse.spent <= 4.0


def test_daily_budgets_are_paced_day_by_day() -> None:
    """Three days at 5 a day, 40 in all: each day is used, none is exceeded."""
    purse = kr.Purse(40.0, 0.0, 3 * DAY, daily_budget=5.0)
    audience = kr.Audience.disjoint([100] * 5)
    bidder = kr.PlanningBidder(audience, 1, purse, kr.LogNormalMarket(0.0, 0.7))
    generator = np.random.default_rng(85)
    n = 1_500
    moments = np.sort(generator.uniform(0.0, 3 * DAY, size=n)).tolist()
    by_day = [0.0, 0.0, 0.0]
    for now, group in zip(moments, generator.integers(5, size=n).tolist(), strict=True):
        bid, price = bidder.bid(group, now), float(generator.lognormal(0.0, 0.7))
        if bid >= price and bid > 0.0:
            bidder.won(group, bid, price, now)
            by_day[int(now // DAY)] += price
        elif bid > 0.0:
            bidder.lost(group, bid)
    assert max(by_day) <= 5.0
    assert min(by_day) >= 3.5


def test_known_hours_help_a_flight_that_starts_at_night() -> None:
    """Nine tenths of the traffic in the second half: who knows does not spend everything early."""
    generator = np.random.default_rng(86)
    hourly = [1.0] * 12 + [9.0] * 12
    n = 1_200
    hours = generator.choice(24, p=np.array(hourly) / sum(hourly), size=n)
    moments = np.sort((hours + generator.uniform(size=n)) * 3_600.0).tolist()
    groups = generator.integers(6, size=n).tolist()
    prices = generator.lognormal(0.0, 0.7, size=n).tolist()
    audience = kr.Audience.disjoint([20] * 6)
    early = {}
    for name, curve in (("even", None), ("known", hourly)):
        purse = kr.Purse(20.0, 0.0, DAY)
        bidder = kr.PlanningBidder(
            audience,
            1,
            purse,
            kr.LogNormalMarket(0.0, 0.7),
            arrivals=Arrivals(6, 0.0, DAY, curve),
        )
        for now, group, price in zip(moments, groups, prices, strict=True):
            if now >= DAY / 2 and name not in early:
                early[name] = purse.spent
            bid = bidder.bid(group, now)
            if bid >= price and bid > 0.0:
                bidder.won(group, bid, price, now)
            elif bid > 0.0:
                bidder.lost(group, bid)
        assert purse.spent >= 15.0
    assert early["known"] < 0.5 * early["even"]
    assert early["known"] < 0.25 * 20.0


@pytest.mark.parametrize(
    ("least", "most"), [(2.0, 1.0), (-1.0, 1.0), (float("nan"), 1.0), (0.0, float("nan"))]
)
def test_limits_that_are_reversed_are_refused(least: float, most: float) -> None:
    with pytest.raises(kr.KreachError, match=r"^bid limits must be 0 ≤ least ≤ most, got"):
        kr.BidLimits(least, most)


def planning_with(**options: Any) -> kr.PlanningBidder:
    audience = options.pop("audience", AUDIENCE)
    purse = kr.Purse(5.0, 0.0, 10.0)
    return kr.PlanningBidder(audience, 1, purse, kr.LogNormalMarket(0.0, 1.0), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"plans": 0}, r"^plans must be at least 1, got 0"),
        ({"plans": -3}, r"^plans must be at least 1, got -3"),
        ({"prior_auctions": 0.0}, r"^prior_auctions must be a number > 0, got 0.0"),
        ({"half_life_auctions": -1.0}, r"^half_life_auctions must be a number > 0, got -1.0"),
        ({"audience": OVERLAP}, r"^ahead must be off for overlapping audiences, got True"),
        (
            {"valuation": kr.StackedValuation(AUDIENCE, [kr.CapRule(1, DAY)])},
            r"^ahead must be off for stacked caps, got True",
        ),
        ({"first_multiplier": 0.0}, r"^first_multiplier must be "),
        ({"first_multiplier": float("nan")}, r"^first_multiplier must be "),
    ],
)
def test_impossible_plans_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(kr.KreachError, match=message):
        planning_with(**options)


@pytest.mark.parametrize("cap", [0, -1, 1.5])
def test_an_impossible_cap_is_refused(cap: int) -> None:
    with pytest.raises(kr.KreachError, match=r"^cap must be a whole number from 1 "):
        kr.PlanningBidder(AUDIENCE, cap, kr.Purse(5.0, 0.0, 1.0), kr.LogNormalMarket(0.0, 1.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"requests": 0}, r"^requests must be "),
        ({"requests": float("nan")}, r"^requests must be "),
        ({"base_bids": (0.0, 10.0)}, r"^base_bids must "),
        ({"base_bids": (2.0, 1.0)}, r"^base_bids must "),
    ],
)
def test_impossible_settings_of_the_papers_rule_are_refused(
    options: dict[str, Any], message: str
) -> None:
    settings_of: dict[str, Any] = {"requests": 10, **options}
    with pytest.raises(kr.KreachError, match=message):
        kr.PaperBidder(
            kr.CapValuation(AUDIENCE, 1),
            kr.Purse(5.0, 0.0, 10.0),
            kr.LogNormalMarket(0.0, 1.0),
            **settings_of,
        )
