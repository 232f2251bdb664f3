"""Small things that were wrong once: limits, several places, restarts, addresses, expiries."""

from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.bidding.bidder import PaperBidder
from kreach.adsystem.settings import BidderSettings
from kreach.errors import KreachError
from tests.adsystem.bidserver.sample_bidders import (
    Exchange,
    ManualClock,
    as_response,
    bidding,
    sample_campaign,
    sample_request,
)
from tests.adsystem.bidserver.test_campaigns import ROLLING, bidders, change

LAMBDA = 'kreach_bidder_multiplier{campaign="spring"}'
PAPER: dict[str, Any] = {"bidder": "paper", "expected_requests": 1_000}


def test_a_limit_cuts_the_shaded_bid(tmp_path: Path) -> None:
    """As the library: the best bid for the value, and at most the limit."""
    campaign = sample_campaign(auction="first_price", max_cpm=0.4)
    with bidding(tmp_path, [campaign]) as exchange:
        bidder = exchange.state.catalogue_bidders["v1"].runtimes[1].bidder
        wanted = 1_000 * float(bidder.market.optimal_bid(1.0 / bidder.multiplier))
        assert wanted > 0.4
        assert exchange.price(at=1) == 0.4


def test_who_may_not_bid_much_does_not_stand_before_who_does(tmp_path: Path) -> None:
    campaigns = [
        sample_campaign("plain"),
        sample_campaign("rolling", caps=ROLLING, market_mu=1.0, max_cpm=0.1),
    ]
    with bidding(tmp_path, campaigns) as exchange:
        assert bidders(exchange) == ["plain"]


def test_the_papers_rule_moves_once_for_a_request_of_many_places(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign(**PAPER)]) as exchange:
        exchange.bid(sample_request())
        before = exchange.metric(LAMBDA)
        exchange.bid(sample_request())
        step = before - exchange.metric(LAMBDA)
        exchange.bid(sample_request(imp=[{"id": str(at)} for at in range(4)]))
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


@pytest.mark.parametrize("mark", ['"', "\\", " ", "\n", "<", "?", "#"])
def test_a_public_address_that_would_break_answers_is_refused(mark: str) -> None:
    with pytest.raises(KreachError, match=r"^public_url must begin with http"):
        BidderSettings(public_url=f"https://bids.example/a{mark}b")


def test_notices_come_back_over_ipv6(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign()], host="::1") as exchange:
        bid = as_response(exchange.bid(sample_request())).seatbid[0].bid[0]
        assert bid.burl.startswith("http://[::1]:8402/")


def test_blocked_domains_are_blocked_however_they_are_written(tmp_path: Path) -> None:
    from kreach.adsystem.campaigns.campaign import Creative

    campaign = sample_campaign(creative=Creative(domains=("Shop.example",)))
    with bidding(tmp_path, [campaign]) as exchange:
        assert bidders(exchange, badv=["shop.example"]) == ["no campaign"]


def test_a_bid_is_honoured_as_long_as_it_says(tmp_path: Path) -> None:
    hands = ManualClock()
    hands.now += 0.9
    with bidding(tmp_path, [sample_campaign()], clock=hands) as exchange:
        request = sample_request(imp=[{"id": "1", "exp": 1}])
        bid = as_response(exchange.bid(request)).seatbid[0].bid[0]
        assert bid.exp == 1
        hands.now += 0.5
        assert exchange.call(bid.burl, 0.1).status == 200
