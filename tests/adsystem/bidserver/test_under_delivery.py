"""A campaign that cannot spend its budget says why: in metrics and in its status."""

from datetime import timedelta
from pathlib import Path

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

        exchange.wait(lambda: reason(1) is not None)
        assert reason(1) in ("limit on the cost of a reach", "too few eligible requests")
        assert reason(2) is None
