"""The paper's bidder behind HTTP follows the library's, request by request."""

from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kreach.adsystem.bidding.bidder import PaperBidder
from kreach.adsystem.bidding.budget import Purse
from kreach.adsystem.bidding.market import LogNormalMarket
from kreach.adsystem.bidding.valuation import CapValuation
from kreach.adsystem.campaigns.campaign import Cap
from tests.adsystem.bidserver.sample_bidders import (
    NOW,
    Exchange,
    as_response,
    bidding,
    sample_campaign,
    sample_catalogue,
    sample_request,
)
from tests.adsystem.bidserver.test_campaigns import ROLLING, change

CAMPAIGN = sample_campaign(
    bidder="paper", expected_requests=500, budget=1.0, caps=(Cap(limit=2),), max_cpm=1_000.0
)
PAPER: dict[str, Any] = {"bidder": "paper", "expected_requests": 1_000}
LAMBDA = 'kreach_bidder_multiplier{campaign="spring"}'


def library_bidder() -> PaperBidder:
    """As the service sets it up: the paper's numbers, in units of the typical price."""
    audience = sample_catalogue(sizes=np.array([5, 5, 8, 8, 20, 20])).audience()
    typical = 1e-3
    return PaperBidder(
        CapValuation(audience, 2),
        Purse(CAMPAIGN.budget, CAMPAIGN.start.timestamp(), CAMPAIGN.end.timestamp()),
        LogNormalMarket(log(typical), 1.0),
        500,
        step_size=0.1 / typical,
        base_bids=(0.1 * typical, 10.0 * typical),
    )


def step(exchange: Exchange, twin: PaperBidder, group: int, outcome: float) -> None:
    """One request for both; the bid wins at a part of its price if `outcome` is below one."""
    now = NOW.timestamp()
    wanted = twin.wanted(group, now)
    bid = as_response(exchange.bid(sample_request(f"g{group}"))).seatbid[0].bid[0]
    assert exchange.metric(LAMBDA) == pytest.approx(twin.multiplier, rel=1e-9)
    assert bid.price == pytest.approx(1_000 * wanted, rel=1e-6, abs=0.0011)
    if outcome < 1.0:
        price = round(bid.price * outcome, 3)
        assert exchange.call(bid.burl, price).status == 200
        twin.valuation.record(group, now)
        twin.purse.pay(price / 1_000, now)
    else:
        assert exchange.call(bid.lurl).status == 200


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_board_follows_the_papers_rule(tmp_path: Path, seed: int) -> None:
    """λ moves for a request when the next one comes, on the board as in the library."""
    generator = np.random.default_rng(seed)
    twin = library_bidder()
    catalogue = sample_catalogue(sizes=np.array([5, 5, 8, 8, 20, 20]))
    with bidding(tmp_path, [CAMPAIGN], catalogues=[catalogue]) as exchange:
        for _ in range(80):
            outcome = float(generator.uniform(0.2, 1.0)) if generator.random() < 0.4 else 1.0
            step(exchange, twin, int(generator.integers(6)), outcome)
    assert twin.purse.spent > 0.0


def test_the_papers_multiplier_stays_within_its_limits(tmp_path: Path) -> None:
    campaign = sample_campaign(bidder="paper", expected_requests=1_000_000, budget=1_000.0)
    with bidding(tmp_path, [campaign]) as exchange:
        for _ in range(120):
            exchange.price("g1")
        assert exchange.metric(LAMBDA) == pytest.approx(100.0)  # a base bid of ten typical prices
        for _ in range(3):
            exchange.win("g1")
        assert 100.0 <= exchange.metric(LAMBDA) <= 10_000.0


def test_it_falls_asleep_and_wakes_where_it_was(tmp_path: Path) -> None:
    campaign = sample_campaign(bidder="paper", expected_requests=1_000, budget=0.002)
    with bidding(tmp_path, [campaign]) as exchange:
        bids = []
        while (reply := exchange.bid(sample_request())).status == 200:
            bids.append(as_response(reply).seatbid[0].bid[0])
        before = exchange.metric(LAMBDA)
        for bid in bids:
            exchange.call(bid.lurl)
        exchange.rest()
        assert exchange.metric(LAMBDA) == pytest.approx(before)
        assert exchange.bid(sample_request()).status == 200


def test_the_papers_rule_moves_once_for_a_request_of_many_places(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign(**PAPER)]) as exchange:
        exchange.bid(sample_request())
        before = exchange.metric(LAMBDA)
        exchange.bid(sample_request())
        step = before - exchange.metric(LAMBDA)
        exchange.bid(sample_request(imp=[{"id": str(at), "banner": {}} for at in range(4)]))
        assert before - exchange.metric(LAMBDA) == pytest.approx(2 * step)


def worn(exchange: Exchange) -> float:
    """λ after some requests."""
    for _ in range(10):
        exchange.price()
    bidder = exchange.state.catalogue_bidders["v1"].runtimes[1].bidder
    assert isinstance(bidder, PaperBidder)
    return exchange.metric(LAMBDA)


def test_a_change_keeps_the_papers_multiplier_with_rolling_caps(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign(**PAPER, caps=ROLLING)]) as exchange:
        before = worn(exchange)
        change(exchange, "spring", budget=2_000.0)
        assert exchange.metric(LAMBDA) == pytest.approx(before)


def test_a_restart_keeps_the_papers_multiplier_with_rolling_caps(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign(**PAPER, caps=ROLLING)]) as exchange:
        before = worn(exchange)
    with bidding(tmp_path) as exchange:
        assert exchange.metric(LAMBDA) == pytest.approx(before)
