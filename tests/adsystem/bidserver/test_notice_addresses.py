"""The addresses in a bid: what happens when an exchange calls them, or somebody else does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from kreach.adsystem.settings import BidderSettings
from kreach.boundary.openrtb import Bid
from kreach.errors import KreachError
from tests.adsystem.bidserver.sample_bidders import (
    Exchange,
    ManualClock,
    Reply,
    as_response,
    bidding,
    sample_campaign,
    sample_request,
)

RESERVED = 'kreach_bidder_reserved_micros{campaign="spring"}'
LEFT = 'kreach_bidder_budget_left_micros{campaign="spring"}'
MILLION = 1_000_000


@pytest.fixture
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    with bidding(tmp_path_factory.mktemp("notices"), [sample_campaign()]) as made:
        yield made


def made_bid(exchange: Exchange, **more: Any) -> Bid:
    return as_response(exchange.bid(sample_request(**more))).seatbid[0].bid[0]


def told(reply: Reply) -> tuple[int, str]:
    return reply.status, next(iter(reply.document.values()))


def test_billing_is_spent_once(exchange: Exchange) -> None:
    bid = made_bid(exchange)
    assert exchange.metric(RESERVED) == round(bid.price * 1_000)
    assert told(exchange.call(bid.burl, 0.4)) == (200, "done")
    assert exchange.metric(RESERVED) == 0
    assert exchange.metric(LEFT) == 1_000 * MILLION - 400
    for _ in range(3):
        assert told(exchange.call(bid.burl, 0.4)) == (200, "repeated")
    assert exchange.metric(LEFT) == 1_000 * MILLION - 400
    assert exchange.metric('kreach_bidder_impressions_total{campaign="spring"}') == 1
    assert exchange.metric('kreach_bidder_spend_micros_total{campaign="spring"}') == 400


def test_a_win_counts_and_keeps_the_money_set_aside(exchange: Exchange) -> None:
    bid = made_bid(exchange)
    first = exchange.price("g0")
    assert bid.nurl is not None
    assert told(exchange.call(bid.nurl)) == (200, "done")
    assert exchange.price("g0") < first
    assert exchange.metric(RESERVED) == round(bid.price * 1_000)
    assert told(exchange.call(bid.nurl)) == (200, "repeated")
    after_win = exchange.price("g0")
    assert told(exchange.call(bid.burl, 0.0)) == (200, "done")
    assert exchange.price("g0") == after_win  # not counted twice


def test_a_loss_frees_the_money_and_takes_a_win_back(exchange: Exchange) -> None:
    bid = made_bid(exchange)
    assert bid.nurl is not None
    exchange.call(bid.nurl)
    assert told(exchange.call(bid.lurl)) == (200, "done")
    assert exchange.metric(RESERVED) == 0
    assert exchange.price("g0") == bid.price
    assert told(exchange.call(bid.lurl))[0] == 404
    assert told(exchange.call(bid.burl, 0.1))[0] == 404
    assert exchange.metric(LEFT) == 1_000 * MILLION


def test_what_was_billed_is_not_lost(exchange: Exchange) -> None:
    bid = made_bid(exchange)
    exchange.call(bid.burl, bid.price)
    assert told(exchange.call(bid.lurl)) == (200, "repeated")
    assert exchange.metric(LEFT) == 1_000 * MILLION - round(bid.price * 1_000)


@pytest.mark.parametrize(
    "query",
    [
        *("", "price=", "price=x", "price=nan", "price=inf", "price=-0.1", "price=1e300", "price"),
        *("price=1&price=1", "PRICE=0.1", "price=${AUCTION_PRICE}", "price=%FF", "price=0x1"),
    ],
)
def test_prices_that_are_none(exchange: Exchange, query: str) -> None:
    bid = made_bid(exchange)
    reply = exchange.ask("GET", urlsplit(bid.burl).path, query=query.encode())
    assert reply.status == 400
    assert "price" in reply.document["error"]["message"]
    assert told(exchange.call(bid.burl, bid.price)) == (200, "done")  # it is still out


def test_nothing_dearer_than_the_bid_is_paid(exchange: Exchange) -> None:
    bid = made_bid(exchange)
    assert told(exchange.call(bid.burl, bid.price + 0.001))[0] == 400
    assert told(exchange.call(bid.burl, bid.price)) == (200, "done")


def test_a_price_is_rounded_up_to_whole_micros(exchange: Exchange) -> None:
    bid = made_bid(exchange)
    path = urlsplit(bid.burl).path
    assert exchange.ask("GET", path, query=b"price=0.1230001").status == 200
    assert exchange.metric(LEFT) == 1_000 * MILLION - 124


def test_notices_may_be_posted(exchange: Exchange) -> None:
    bid = made_bid(exchange)
    parts = urlsplit(bid.burl)
    reply = exchange.ask("POST", parts.path, b"anything", b"price=0.5&other=1")
    assert told(reply) == (200, "done")


def test_notices_after_the_expiry(tmp_path_factory: pytest.TempPathFactory) -> None:
    hands = ManualClock()
    with bidding(tmp_path_factory.mktemp("late"), [sample_campaign()], clock=hands) as exchange:
        bid = made_bid(exchange, imp=[{"id": "1", "banner": {}, "exp": 60}])
        long = made_bid(exchange)
        hands.now += 61
        for address in (bid.burl, bid.lurl, bid.nurl or ""):
            assert told(exchange.call(address, 0.1))[0] == 410
        exchange.wait(lambda: exchange.state.ledger.accounts[1].reserved < 2 * bid.price * 1_000)
        assert exchange.metric(RESERVED) == round(long.price * 1_000)
        assert told(exchange.call(long.burl, 0.1)) == (200, "done")


def test_a_win_that_is_never_billed_is_taken_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    hands = ManualClock()
    with bidding(tmp_path_factory.mktemp("unbilled"), [sample_campaign()], clock=hands) as exchange:
        bid = made_bid(exchange, imp=[{"id": "1", "banner": {}, "exp": 60}])
        exchange.call(bid.nurl or "")
        assert exchange.price() < bid.price
        hands.now += 61
        exchange.rest()
        assert exchange.price() == bid.price
        assert exchange.metric(LEFT) == 1_000 * MILLION


def test_without_win_notices_there_is_no_nurl(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings: Any = {"win_notices": False, "public_url": "https://bids.example/k/", "seat": 'a"b'}
    with bidding(tmp_path_factory.mktemp("quiet"), [sample_campaign()], **settings) as exchange:
        response = as_response(exchange.bid(sample_request()))
        bid = response.seatbid[0].bid[0]
        assert bid.nurl is None
        assert bid.burl.startswith("https://bids.example/k/openrtb2/billing/")
        assert response.seatbid[0].seat == 'a"b'


def test_changed_tokens_are_refused(exchange: Exchange) -> None:
    """Every single character of a token matters, and whatever else is put in its place."""
    bid = made_bid(exchange)
    head, _, token = urlsplit(bid.lurl).path.rpartition("/")
    generator = np.random.default_rng(11)
    for at in range(len(token)):
        other = "A" if token[at] != "A" else "B"
        if at == len(token) - 1:  # its last bits are padding: change those that are not
            other = "A" if token[at] not in "ABCD" else "w"
        changed = token[:at] + other + token[at + 1 :]
        assert exchange.ask("GET", f"{head}/{changed}").status == 403
    letters = list("ABCDabcd0123-_=+/%.é漢\x00\n \U0001f600")
    for _ in range(2_000):
        length = int(generator.integers(0, 2 * len(token)))
        kind = ("win", "loss", "billing")[length % 3]
        made = "".join(generator.choice(letters, length)).replace("/", "")
        reply = exchange.ask("GET", f"/openrtb2/{kind}/{made}", query=b"price=0.1")
        assert reply.status == 403
        assert list(reply.document) == ["error"]
        assert not made or len(made) < 3 or made not in reply.body.decode()
    assert told(exchange.call(bid.lurl)) == (200, "done")


def test_tokens_of_another_bidder_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    addresses = []
    for name in ("one", "other"):
        with bidding(tmp_path_factory.mktemp(name), [sample_campaign()]) as exchange:
            addresses.append(made_bid(exchange).burl)
            assert told(exchange.call(addresses[0], 0.1))[0] == (200 if name == "one" else 403)
    assert addresses[0] != addresses[1]


@pytest.mark.parametrize("mark", ['"', "\\", " ", "\n", "<", "?", "#"])
def test_a_public_address_that_would_break_answers_is_refused(mark: str) -> None:
    with pytest.raises(KreachError, match=r"^public_url must begin with http"):
        BidderSettings(public_url=f"https://bids.example/a{mark}b")


def test_notices_come_back_over_ipv6(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign()], host="::1") as exchange:
        bid = as_response(exchange.bid(sample_request())).seatbid[0].bid[0]
        assert bid.burl.startswith("http://[::1]:8402/")


def test_a_bid_is_honoured_as_long_as_it_says(tmp_path: Path) -> None:
    hands = ManualClock()
    hands.now += 0.9
    with bidding(tmp_path, [sample_campaign()], clock=hands) as exchange:
        request = sample_request(imp=[{"id": "1", "banner": {}, "exp": 1}])
        bid = as_response(exchange.bid(request)).seatbid[0].bid[0]
        assert bid.exp == 1
        hands.now += 0.5
        assert exchange.call(bid.burl, 0.1).status == 200
