"""A bidder on a catalogue whose publisher drops repeats: values, drops and restarts."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kreach.adsystem.bidding.bidder import PlanningBidder
from kreach.adsystem.bidding.board_visitors import BoardVisitors
from kreach.boundary.catalogue import Catalogue
from tests.adsystem.bidserver.sample_bidders import (
    NOW,
    Exchange,
    ManualClock,
    as_response,
    bidding,
    sample_campaign,
    sample_request,
)
from tests.adsystem.visit_models import sample_model

HOUR = 3_600.0


def catalogue(memory_hours: float | None) -> Catalogue:
    ids = tuple(f"g{at}" for at in range(6))
    model = sample_model()
    return Catalogue("v1", NOW, 6, ids, np.full(6, 6), model=model, memory_hours=memory_hours)


def opened(
    folder: Path, memory_hours: float | None, clock: ManualClock, *, again: bool = False
) -> Any:
    campaigns = [] if again else [sample_campaign(start=NOW, end=NOW + timedelta(days=10))]
    return bidding(folder, campaigns, catalogues=[catalogue(memory_hours)], clock=clock)


def valuation(exchange: Exchange) -> BoardVisitors:
    found = next(iter(exchange.state.catalogue_bidders["v1"].runtimes.values())).bidder.valuation
    assert isinstance(found, BoardVisitors)
    return found


@pytest.mark.parametrize("memory_hours", [None, 12.0])
def test_a_request_that_passes_is_for_somebody_else(
    tmp_path: Path, memory_hours: float | None
) -> None:
    """Without a gateway, a request a minute after a win is probably the same person's."""
    clock = ManualClock()
    with opened(tmp_path, memory_hours, clock) as exchange:
        first = exchange.price("g0")
        exchange.win("g0")
        clock.now += 60.0
        again = exchange.price("g0")
    if memory_hours is None:
        assert again < 0.2 * first
    else:
        assert again == pytest.approx(first, rel=0.01)


def test_what_the_gateway_remembers_is_known_after_a_restart(tmp_path: Path) -> None:
    """Wins of the last hours by their times, older ones as draws that can be met again."""
    clock = ManualClock()
    with opened(tmp_path, 12.0, clock) as exchange:
        for hours in (0.0, 20.0, 21.0):
            clock.now = NOW.timestamp() + hours * HOUR
            exchange.win("g0")
        clock.now += 4.0 * HOUR  # sessions are over
        exchange.price("g0")
        before = valuation(exchange)
        passing, draws = before.passing(0), before.count(0)
    with opened(tmp_path, 12.0, clock, again=True) as exchange:
        after = valuation(exchange)
        exchange.price("g0")
        assert after.passing(0) == pytest.approx(passing, rel=0.05)
        assert 0.0 < after.passing(0) < 0.9
        assert after.count(0) == pytest.approx(draws, rel=0.25)


def test_a_bid_that_was_probably_dropped_says_little_about_prices(tmp_path: Path) -> None:
    """A loss in a group whose visitor was just shown the ad counts as a small part of one."""
    losses = []
    for memory_hours in (None, 12.0):
        clock = ManualClock()
        with opened(tmp_path / str(memory_hours), memory_hours, clock) as exchange:
            exchange.win("g0")
            clock.now += 30.0
            bid = as_response(exchange.bid(sample_request("g0"))).seatbid[0].bid[0]
            exchange.call(bid.lurl or "")
            runtime = next(iter(exchange.state.catalogue_bidders["v1"].runtimes.values()))
            assert isinstance(runtime.bidder, PlanningBidder)
            learned = msgspec.convert(runtime.bidder.memory()["markets"], dict[str, Any])
            losses.append(sum(learned["second_price"]["lost"]))
            assert runtime.losses == 1
    assert losses[0] == pytest.approx(1.0, rel=0.01)  # the latest weigh most
    assert losses[1] < 0.5
