"""The live bidder's code on simulated time: it buys as the library does, and delivers."""

from datetime import UTC, datetime

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.bidding.arrivals import Arrivals
from kreach.adsystem.campaigns.campaign import Campaign, Cap, Creative
from kreach.adsystem.settings import BidderSettings
from kreach.lab.auctions import Stream, run_auctions
from kreach.lab.served import ServedBidder, serve

START, HOURS = 1_700_000_000.0, 40.0
SIZES = np.full(30, 20)
MU = -1.0  # of ln(price)


def stream(seed: int, requests: int = 6_000) -> Stream:
    generator = np.random.default_rng(seed)
    at = START + np.sort(generator.random(requests)) * 3_600.0 * HOURS
    person = generator.integers(600, size=requests)
    price = generator.lognormal(MU, 0.8, requests)
    return Stream(person, person // 20, at, price, 600)


def campaign(name: str, budget: float, first: float = 0.0, **more: object) -> Campaign:
    given = {
        "id": name,
        "budget": budget,
        "start": datetime.fromtimestamp(START + 3_600.0 * first, UTC),
        "end": datetime.fromtimestamp(START + 3_600.0 * HOURS, UTC),
        "caps": (Cap(limit=1),),
        "max_cpm": 20_000.0,
        "creative": Creative(id="x", markup="<a></a>", width=300, height=250),
    }
    return Campaign(**(given | more))  # type: ignore[arg-type]


def served(
    model: kr.VisitModel | None = None, memory_hours: float | None = None, *, told: bool = True
) -> ServedBidder:
    settings = BidderSettings(market_mu=MU + float(np.log(1_000.0)), market_sigma=0.8)
    return ServedBidder(SIZES, model, START - 1.0, settings, memory_hours=memory_hours, told=told)


@pytest.mark.parametrize("with_model", [False, True])
def test_one_campaign_buys_as_the_library_would(with_model: bool) -> None:
    """The same stream, budget and prior: reach within 3 %."""
    model = kr.VisitModel.flat(20) if with_model else None
    requests = stream(3)
    bidder = served(model)
    number = bidder.add(campaign("spring", 60.0))
    delivery = serve(bidder, requests, tick_seconds=30.0)[number]
    end = START + 3_600.0 * HOURS
    twin = kr.PlanningBidder(
        kr.Audience.disjoint(SIZES),
        1,
        kr.Purse(60.0, START, end),
        kr.LogNormalMarket(MU, 0.8),
        model=model,
        limits=kr.BidLimits(0.0, 20.0),
        arrivals=Arrivals(len(SIZES), START, end),
    )
    outcome = run_auctions(twin, requests, 1)
    assert delivery.reach(requests.person, 1) == pytest.approx(outcome.reach, rel=0.03)
    assert 0.95 * 60.0 < delivery.spend <= 60.0


def live_reach(seed: int, cap: int, budget: float, bidder: ServedBidder) -> int:
    requests = stream(seed)
    number = bidder.add(campaign("spring", budget, caps=(Cap(limit=cap),)))
    delivery = serve(bidder, requests, tick_seconds=30.0)[number]
    assert 0.95 * budget < delivery.spend <= budget
    return delivery.reach(requests.person, cap)


@pytest.mark.parametrize(("cap", "budget"), [(1, 100.0), (2, 150.0)])
def test_beside_a_gateway_with_a_memory_it_buys_as_the_library_would(
    cap: int, budget: float
) -> None:
    """The catalogue says how long the publisher remembers: reach is within 3 % of the library's
    with the same memory, and above that without a gateway."""
    model, hours, end = kr.VisitModel.flat(20), 12.0, START + 3_600.0 * HOURS
    reach = live_reach(3, cap, budget, served(model, hours))
    twin = kr.PlanningBidder(
        kr.Audience.disjoint(SIZES),
        cap,
        kr.Purse(budget, START, end),
        kr.LogNormalMarket(MU, 0.8),
        model=model,
        memory_seconds=3_600.0 * hours,
        limits=kr.BidLimits(0.0, 20.0),
        arrivals=Arrivals(len(SIZES), START, end),
    )
    outcome = run_auctions(
        twin, stream(3), cap, gateway_cap=cap, gateway_memory_seconds=3_600.0 * hours
    )
    assert reach == pytest.approx(outcome.reach, rel=0.03)
    assert reach > 1.03 * live_reach(3, cap, budget, served(model))


def test_a_bidder_that_knows_the_memory_reaches_more_than_one_that_does_not() -> None:
    """In three streams together: the same gateway, with and without its hours in the catalogue."""
    model, hours, seeds = kr.VisitModel.flat(20), 12.0, (3, 4, 5)
    told = sum(live_reach(seed, 1, 100.0, served(model, hours)) for seed in seeds)
    not_told = sum(live_reach(seed, 1, 100.0, served(model, hours, told=False)) for seed in seeds)
    assert told > 1.01 * not_told


def test_campaigns_together_spend_their_budgets() -> None:
    """Six at once, two of them added in mid-flight, one paused for a while: each spends at least
    nine tenths, and together they buy cheap requests."""
    requests, bidder = stream(4), served()
    plans = [("a", 20.0, 0.0), ("b", 5.0, 0.0), ("c", 40.0, 0.0), ("d", 10.0, 0.0)]
    plans += [("e", 10.0, 15.0), ("f", 20.0, 25.0)]
    numbers: dict[str, int] = {}

    def add(one: Campaign) -> None:
        numbers[one.id] = bidder.add(one)

    events = []
    for name, budget, first in plans:
        one = campaign(name, budget, first)
        events.append((one.start.timestamp(), lambda one=one: add(one)))
    for hour, state in ((10.0, "paused"), (16.0, "running")):
        again = campaign("a", 20.0, state=state)
        events.append(
            (START + 3_600.0 * hour, lambda again=again: bidder.change(numbers["a"], again))
        )
    deliveries = serve(bidder, requests, events, tick_seconds=30.0)
    for name, budget, _ in plans:
        assert 0.9 * budget <= deliveries[numbers[name]].spend <= budget, name
    paused = requests.at[np.array(deliveries[numbers["a"]].wins)] - START
    assert not ((paused > 3_600.0 * 10.0) & (paused < 3_600.0 * 16.0)).any()
    bought = np.concatenate([requests.price[np.array(d.wins)] for d in deliveries.values()])
    cheapest = np.sort(requests.price)[: len(bought)]
    assert bought.sum() < 1.25 * cheapest.sum()
