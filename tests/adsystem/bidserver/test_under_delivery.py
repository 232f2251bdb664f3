"""A campaign that cannot spend its budget says why: in metrics and in its status."""

from datetime import timedelta
from pathlib import Path

import pytest

from kreach.adsystem.reports.pacing import last_pace
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
