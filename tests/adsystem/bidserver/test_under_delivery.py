"""A campaign that cannot spend its budget says why: in metrics and in its status."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from kreach.adsystem.bidding.market import LogNormalMarket
from kreach.adsystem.bidding.plan import Plan
from kreach.adsystem.bidding.responses import market_response
from kreach.adsystem.reports.pacing import last_pace
from kreach.adsystem.settings import BidderSettings
from kreach.lab.auctions import Stream
from kreach.lab.served import Delivery, ServedBidder, serve
from tests.adsystem.bidserver.sample_bidders import (
    NOW,
    ManualClock,
    bidding,
    sample_campaign,
    sample_request,
)


def test_a_budget_that_no_traffic_can_spend(tmp_path: Path) -> None:
    """Forty requests in ten minutes, and a budget for millions; another campaign spends its own."""
    hands = ManualClock()
    campaigns = [
        sample_campaign("rich", budget=100_000.0, start=NOW, end=NOW + timedelta(hours=10)),
        sample_campaign("modest", budget=0.01, start=NOW, end=NOW + timedelta(hours=10)),
    ]
    with bidding(tmp_path, campaigns, clock=hands, pacing_seconds=0.05) as exchange:
        for at in range(40):
            exchange.bid(sample_request(f"g{at % 6}"))
        hands.now += 600.0
        exchange.wait(lambda: exchange.state.plan_count >= 2, 60.0)
        exchange.rest()
        assert exchange.metric('kreach_bidder_under_delivery{campaign="rich"}') == 1.0
        assert exchange.metric('kreach_bidder_under_delivery{campaign="modest"}') == 0.0
        store = exchange.state.store

        def reason(number: int) -> str | None:
            pace = last_pace(store, number)
            found = None if pace is None else pace.under_delivery
            assert found is None or isinstance(found, str)
            return found

        limit = exchange.metric('kreach_bidder_max_cost_per_reach{campaign="rich"}')
        assert limit > 0.0
        exchange.wait(lambda: getattr(last_pace(store, 1), "max_cost_per_reach", None) is not None)
        pace = last_pace(store, 1)
        assert pace is not None
        assert pace.max_cost_per_reach == pytest.approx(limit, rel=1e-5)
        assert pace.cost_per_reach is not None
        assert pace.cost_per_reach <= limit * 1.0001
        exchange.wait(lambda: reason(1) is not None)
        assert reason(1) in ("limit on the cost of a reach", "too few eligible requests")
        assert reason(2) is None


@pytest.mark.parametrize("bidder", ["planning", "paper"])
def test_a_limit_that_was_set_is_in_force_before_the_first_plan(
    tmp_path: Path, bidder: str
) -> None:
    campaign = sample_campaign(max_cost_per_reach=0.002, bidder=bidder, expected_requests=100)
    with bidding(tmp_path, [campaign], pacing_seconds=0.05) as exchange:
        exchange.wait(lambda: last_pace(exchange.state.store, 1) is not None)
        pace = last_pace(exchange.state.store, 1)
    assert pace is not None
    assert pace.max_cost_per_reach == pytest.approx(0.002)


def _bidder(budget: float, hours: float, daily: float | None = None) -> tuple[ServedBidder, int]:
    """One campaign alone, on six large groups."""
    settings = BidderSettings(market_mu=float(np.log(1_000.0)))
    bidder = ServedBidder(np.full(6, 2_000), None, NOW.timestamp() - 1.0, settings)
    end = NOW + timedelta(hours=hours)
    campaign = sample_campaign(
        budget=budget, daily_budget=daily, start=NOW, end=end, max_cpm=10_000.0
    )
    return bidder, bidder.add(campaign)


def _delivered(budget: float, hours: float, daily: float | None = None) -> Delivery:
    """A request a minute, of each group in turn; everything costs 1."""
    bidder, number = _bidder(budget, hours, daily)
    minutes = np.arange(int(hours * 60))
    at = np.asarray(NOW.timestamp() + 60.0 * minutes, dtype=np.float64)
    stream = Stream(minutes, minutes % 6, at, np.ones(len(minutes)), 0)
    return serve(bidder, stream)[number]


def test_a_budget_that_the_price_of_an_impression_does_not_divide_says_so() -> None:
    delivery = _delivered(budget=4.5, hours=8.0)
    assert delivery.spend == pytest.approx(4.0)
    assert delivery.shortfall == "budget left is less than the price of an impression"


def test_a_daily_budget_that_binds_is_the_reason() -> None:
    delivery = _delivered(budget=12.0, hours=48.0, daily=4.0)
    assert delivery.spend == pytest.approx(8.0)
    assert delivery.shortfall == "daily budget"


def test_a_budget_that_was_spent_needs_no_reason() -> None:
    delivery = _delivered(budget=4.0, hours=8.0)
    assert delivery.spend == pytest.approx(4.0)
    assert delivery.shortfall is None


def test_what_is_left_when_the_flight_ends_has_a_reason() -> None:
    """A plan expects to spend everything until the end; by then it cannot."""
    bidder, number = _bidder(budget=40.0, hours=10.0)
    runtime = bidder.runtime(number)
    plan = Plan(1.0, [None], 40.0, 40.0, market_response(LogNormalMarket(0.0, 1.0)))

    def reason(hours: float) -> str | None:
        runtime.note_plan(plan, NOW.timestamp() + hours * 3_600.0)
        return runtime.shortfall

    assert reason(9.0) is None
    assert reason(9.9) == "too few eligible requests left"
    runtime.account.book(39_000_000, 0)
    assert reason(9.9) is None
