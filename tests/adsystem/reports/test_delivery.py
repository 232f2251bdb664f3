"""The delivery state of a campaign, and its reason."""

from datetime import timedelta

import pytest

from kreach.adsystem.campaigns.campaign import Creative
from kreach.adsystem.reports.delivery import DELIVERY_STATES, delivery_state
from tests.adsystem.api.live_stores import END, START, make_campaign

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("state", "now", "shown"),
    [
        ("running", START + DAY, "running"),
        ("running", START - DAY, "scheduled"),
        ("running", END, "completed"),
        ("paused", START + DAY, "paused"),
        ("paused", END + DAY, "completed"),
        ("ended", END + DAY, "ended"),
    ],
)
def test_states(state: str, now: object, shown: str) -> None:
    assert delivery_state(make_campaign("a", state=state), now) == (shown, None)  # type: ignore[arg-type]
    assert shown in DELIVERY_STATES


def test_what_keeps_a_campaign_from_delivering_is_said() -> None:
    now = START + DAY
    bare = make_campaign("a", creative=Creative())
    assert delivery_state(bare, now)[0] == "no creative"
    assert delivery_state(bare, START - DAY)[0] == "no creative"
    campaign = make_campaign("a", budget=10.0)
    spent = delivery_state(campaign, now, 9_999_999, "too few eligible requests")
    assert spent == ("budget spent", "raise the budget to go on")
    limited = delivery_state(campaign, now, 1_000_000, "too few eligible requests")
    assert limited == ("limited", "cannot spend the whole budget: too few eligible requests")
    assert delivery_state(campaign, now, None, "too few eligible requests") == ("running", None)
