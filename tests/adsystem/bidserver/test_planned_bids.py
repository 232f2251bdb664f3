"""A bidder that has planned: the plan is solved beside the requests and shows in the bids."""

from datetime import timedelta
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kreach.adsystem.bidding.arrivals import Arrivals, Traffic
from kreach.adsystem.bidding.bidder import BidLimits, PlanningBidder
from kreach.adsystem.bidding.budget import Purse
from kreach.adsystem.bidding.market import LogNormalMarket
from kreach.adsystem.campaigns.campaign import Campaign, Cap, Creative
from tests.adsystem.bidserver.sample_bidders import (
    NOW,
    Exchange,
    ManualClock,
    as_response,
    bidding,
    sample_campaign,
    sample_catalogue,
    sample_request,
)

pytestmark = pytest.mark.xdist_group("planned bids")

LAMBDA = 'kreach_bidder_multiplier{campaign="spring"}'


def test_bids_follow_the_plan_that_the_library_would_make(tmp_path: Path) -> None:
    """λ is the same; bids lie within what a row of the board's table leaves open."""
    hands, sizes = ManualClock(), np.array([5, 5, 8, 8, 20, 20])
    start, end = NOW.timestamp(), NOW.timestamp() + 36_000.0
    campaign = sample_campaign(
        budget=0.5, caps=(Cap(limit=2),), start=NOW, end=NOW + timedelta(hours=10)
    )
    catalogue = sample_catalogue(sizes=sizes)
    traffic = Traffic(6, start)
    twin = PlanningBidder(
        catalogue.audience(),
        2,
        Purse(0.5, start, end),
        LogNormalMarket(-log(1_000), 1.0),
        plans=100,
        limits=BidLimits(0.0, campaign.max_cpm / 1_000.0),
        first_multiplier=1_000.0,
        arrivals=Arrivals(6, start, end, traffic=traffic),
        plans_itself=False,
        max_cost_multiple=10.0,
    )
    generator = np.random.default_rng(5)
    settings: Any = {"expiry_seconds": 86_400}
    with bidding(tmp_path, [campaign], catalogues=[catalogue], clock=hands, **settings) as exchange:
        for group in generator.integers(0, 6, 200).tolist():
            traffic.record(group)
            exchange.bid(sample_request(f"g{group}"))
        assert exchange.metric("kreach_bidder_plans") == 0
        hands.now += 600.0
        exchange.wait(lambda: exchange.state.plan_count >= 1)
        exchange.rest()
        twin.adopt(twin.plan_job(hands.now)())
        assert exchange.metric(LAMBDA) == pytest.approx(twin.multiplier, rel=1e-6)
        assert exchange.metric(LAMBDA) != pytest.approx(1_000.0, rel=0.01)
        for group in range(6):
            traffic.record(group)
            bid = as_response(exchange.bid(sample_request(f"g{group}"))).seatbid[0].bid[0]
            left = twin.left_per_time * (end - hands.now)
            plan, kind = twin.plan, int(twin.kind_of_group[group])
            assert plan is not None
            here = twin.arrivals.left_of(group, left)
            worth = twin.valuation.probability(group, hands.now) / twin.multiplier
            near = [
                1_000 * worth * plan.discount(kind, 0, here * part)
                for part in np.linspace(0.85, 1.15, 31)
            ]
            assert min(near) - 0.0011 <= bid.price <= max(near) + 0.0011


def test_bidding_goes_on_when_the_planner_dies(tmp_path: Path) -> None:
    """Its process is replaced with the next plan; until then bids are by the last one."""
    hands = ManualClock()
    campaign = sample_campaign(start=NOW, end=NOW + timedelta(hours=10))
    with bidding(tmp_path, [campaign], clock=hands, lines=[]) as exchange:
        for _ in range(40):
            exchange.price("g1")
        hands.now += 600.0
        exchange.wait(lambda: exchange.state.plan_count >= 1)
        child = exchange.state.planner._child
        assert child is not None
        child.kill()
        assert exchange.bid(sample_request()).status == 200
        hands.now += 3_600.0
        exchange.wait(lambda: exchange.state.plan_count >= 2)
        exchange.rest()
        assert exchange.bid(sample_request()).status == 200


WIDE = {"imp": [{"id": "1", "banner": {"w": 728, "h": 90}}]}


def ask_for_both(exchange: Exchange, requests: int, others: int) -> None:
    """Requests that suit the campaign, each followed by some that do not."""
    for at in range(requests):
        exchange.bid(sample_request(f"g{at % 6}"))
        for _ in range(others):
            exchange.bid(sample_request(f"g{at % 6}", **WIDE))
        if at % 20 == 19:
            exchange.rest()  # campaigns look at requests now and then


def sized_campaign(bidder: str, budget: float) -> Campaign:
    return sample_campaign(
        budget=budget,
        bidder=bidder,
        expected_requests=4_000,
        creative=Creative(markup="<b>ad</b>", width=300, height=250),
        start=NOW,
        end=NOW + timedelta(hours=10),
    )


def test_places_of_another_size_are_not_planned_with(tmp_path: Path) -> None:
    """Who can have every third request goes by as many requests as if there were no others."""
    found = {}
    for others in (0, 2):
        hands, catalogue = ManualClock(), sample_catalogue(sizes=np.full(6, 20))
        campaigns, folder = [sized_campaign("planning", 0.1)], tmp_path / str(others)
        with bidding(folder, campaigns, catalogues=[catalogue], clock=hands) as exchange:
            ask_for_both(exchange, 200, others)
            hands.now += 600.0
            exchange.wait(partial(has_planned, exchange))
            exchange.rest()
            found[others] = exchange.metric(LAMBDA)
    assert found[2] == pytest.approx(found[0], rel=0.05)


def has_planned(exchange: Exchange) -> bool:
    return exchange.state.plan_count >= 1


def test_places_of_another_size_count_little_by_the_papers_rule(tmp_path: Path) -> None:
    """λ falls with each request by as much as with a third of one that suits."""
    fallen = {}
    for others in (0, 2):
        catalogue = sample_catalogue(sizes=np.full(6, 20))
        campaigns, folder = [sized_campaign("paper", 100.0)], tmp_path / str(others)
        with bidding(folder, campaigns, catalogues=[catalogue]) as exchange:
            ask_for_both(exchange, 100, others)
            exchange.rest()
            exchange.state.catalogue_bidders["v1"].board.multipliers[0] = 5_000.0
            exchange.bid(sample_request("g0"))
            before = exchange.metric(LAMBDA)
            exchange.bid(sample_request("g0"))
            fallen[others] = before - exchange.metric(LAMBDA)
    assert fallen[0] > 0.0
    assert fallen[2] == pytest.approx(fallen[0] / 3.0, rel=0.05)


def test_a_campaign_that_comes_later_looks_at_its_first_requests_too(tmp_path: Path) -> None:
    catalogue = sample_catalogue(sizes=np.full(6, 20))
    campaigns = [sized_campaign("planning", 0.1)]
    with bidding(tmp_path, campaigns, catalogues=[catalogue]) as exchange:
        ask_for_both(exchange, 100, 2)
        later = msgspec.structs.replace(campaigns[0], id="later")
        exchange.state.campaigns.add(later)
        exchange.wait(lambda: len(exchange.state.stored_campaigns) == 2)
        ask_for_both(exchange, 30, 2)
        (runtime,) = (
            runtime
            for runtime in exchange.state.catalogue_bidders["v1"].runtimes.values()
            if runtime.campaign.id == "later"
        )
        assert runtime.sampled_requests == 90.0
        assert runtime.eligible_requests == 30.0
