"""Sampled requests that are compared together teach what they teach one by one."""

import numpy as np
import pytest

from kreach.adsystem.bidserver import competition_samples
from kreach.lab.served import ServedBidder, serve
from tests.lab.test_served import campaign, served, stream

BUDGETS = {"a": 4.0, "b": 30.0, "c": 12.0}


def run(monkeypatch: pytest.MonkeyPatch, waiting: int) -> ServedBidder:
    """Campaigns that plan, join in mid-flight and run out of money, with few ticks between."""
    monkeypatch.setattr(competition_samples, "_MAX_WAITING", waiting)
    bidder = served()
    for at, (name, budget) in enumerate(BUDGETS.items()):
        bidder.add(campaign(name, budget, first=8.0 * at))
    serve(bidder, stream(5, 3_000), tick_seconds=1_800.0)
    return bidder


def test_comparisons_wait_for_nothing_that_they_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that came between a sample and its comparison would show in what is learned."""
    together, alone = run(monkeypatch, 32), run(monkeypatch, 1)
    for bidder in (together, alone):
        bidder.bidder.update_active(bidder.bidder._now)  # what still waits
    for number, delivery in together.deliveries.items():
        assert delivery.wins == alone.deliveries[number].wins
        assert len(delivery.wins) > 5
    learned = [each.bidder.competition._weights for each in (together, alone)]
    assert learned[0].any()
    assert np.array_equal(learned[0], learned[1])
