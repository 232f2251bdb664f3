"""Creatives in bids: rotation, media, macros, deals, currencies, profiles, review."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from simulations.openrtb_campaigns import vast
from simulations.openrtb_checker import violations

from kreach.adsystem.bidserver.terms import terms_of
from kreach.adsystem.campaigns.campaign import Creative
from kreach.adsystem.campaigns.creative import Size
from kreach.boundary.currencies import Rates
from kreach.boundary.macros import substitute
from kreach.boundary.openrtb import Bid
from kreach.boundary.openrtb_places import Banner, Deal, Imp, Pmp
from kreach.errors import KreachError
from tests.adsystem.bidserver.sample_bidders import (
    Exchange,
    Reply,
    as_response,
    bidding,
    sample_campaign,
    sample_request,
    user_data,
)

RATES = {"EUR": 1.085, "JPY": 0.0067}
BANNER = {"id": "1", "banner": {"w": 300, "h": 250}}


def creative(name: str, **more: Any) -> Creative:
    fields: dict[str, Any] = {"markup": f"<b>{name}</b>", "width": 300, "height": 250}
    return Creative(id=name, **(fields | more))


def only_bid(reply: Reply) -> Bid:
    return as_response(reply).seatbid[0].bid[0]


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    """A campaign that rotates three banners, has a video and names two deals."""
    video = Creative(
        id="video",
        kind="video",
        markup=vast(15, ("video/mp4",)),
        mimes=("video/mp4",),
        duration_seconds=15,
        protocols=(3,),
    )
    creatives = (
        creative("a", sizes=(Size(width=728, height=90),), domains=("a.example",)),
        creative("b", weight=2, domains=("b.example",), categories=("IAB2",)),
        creative("c", domains=("c.example",)),
        video,
    )
    campaign = sample_campaign(creatives=creatives, deals=("d1", "d2"))
    folder = tmp_path_factory.mktemp("creatives")
    with bidding(folder, [campaign], rates=RATES) as made:
        yield made


def test_creatives_rotate_by_their_weights(exchange: Exchange) -> None:
    shown = [only_bid(exchange.bid(sample_request())).crid for _ in range(40)]
    assert Counter(shown) == {"a": 10, "b": 20, "c": 10}
    for at in range(0, 40, 4):
        assert Counter(shown[at : at + 4]) == {"a": 1, "b": 2, "c": 1}


def test_only_creatives_that_fit_rotate(exchange: Exchange) -> None:
    request = sample_request(badv=["b.example"])
    shown = Counter(only_bid(exchange.bid(request)).crid for _ in range(20))
    assert shown == {"a": 10, "c": 10}
    wide = only_bid(exchange.bid(sample_request(imp=[{"id": "1", "banner": {"w": 728, "h": 90}}])))
    assert (wide.crid, wide.w, wide.h, wide.mtype) == ("a", 728, 90, 1)


def test_one_place_of_several_media_gets_one_of_them(exchange: Exchange) -> None:
    place = {"id": "1", "video": {"mimes": ["video/mp4"], "protocols": [3]}}
    bid = only_bid(exchange.bid(sample_request(imp=[place])))
    assert (bid.crid, bid.mtype, bid.dur, bid.protocol) == ("video", 2, 15, 3)
    both = sample_request(imp=[place | {"banner": {"w": 300, "h": 250}}])
    shown = {only_bid(exchange.bid(both)).crid for _ in range(10)}
    assert shown == {"a", "b", "c", "video"}
    assert exchange.bid(sample_request(imp=[{"id": "1", "audio": {}}])).reason == "no campaign"


def test_why_creatives_do_not_fit_is_counted(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign()]) as exchange:
        exchange.bid(sample_request(imp=[{"id": "1", "banner": {"w": 1, "h": 1}}]))
        exchange.bid(sample_request(imp=[{"id": "1", "video": {}}]))
        name = "kreach_bidder_creative_mismatches_total"
        assert exchange.metric(name + '{reason="banner size"}') == 1
        assert exchange.metric(name + '{reason="banner kind"}') == 1


# -- what the exchange learns -------------------------------------------------------------------


def test_what_concerns_budgets_and_campaigns_stays_here(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign(budget=0.001, max_cpm=0.9)]) as exchange:
        floor = [{"id": "1", "banner": {}, "bidfloor": 5.0}]
        sizes = [{"id": "1", "banner": {"w": 1, "h": 1}}]
        replies = [exchange.bid(sample_request(imp=imp)) for imp in (floor, sizes)]
        replies += [exchange.bid(sample_request()) for _ in range(5)]
        assert {reply.reason for reply in replies} >= {"below floor", "no campaign", "no budget"}
        for reply in replies:
            if reply.status == 204:
                assert "x-no-bid" not in reply.headers
        assert exchange.bid(sample_request(user=None)).headers["x-no-bid"] == "no user"


def test_bid_ids_say_nothing(exchange: Exchange) -> None:
    ids = [only_bid(exchange.bid(sample_request())).id for _ in range(200)]
    assert len(set(ids)) == 200
    assert {len(each) for each in ids} == {21}
    assert ids != sorted(ids)
    for at in range(21):
        assert len({each[at] for each in ids}) > 15


# -- macros and notices -------------------------------------------------------------------------


def test_an_exchange_fills_the_macros_in(exchange: Exchange) -> None:
    bid = only_bid(exchange.bid(sample_request()))
    assert bid.nurl is not None
    filled = substitute(bid.burl, {"AUCTION_PRICE": "0.5"})
    assert exchange.call(filled).document == {"status": "done"}
    lost = only_bid(exchange.bid(sample_request()))
    assert exchange.call(substitute(lost.lurl, {"AUCTION_LOSS": "102"})).status == 200
    assert exchange.metric('kreach_bidder_losses_total{reason="102"}') == 1
    unfilled = only_bid(exchange.bid(sample_request()))
    assert exchange.call(unfilled.lurl).status == 200
    assert exchange.metric('kreach_bidder_losses_total{reason="unknown"}') >= 1


def test_unknown_macros_are_refused_in_markup(tmp_path: Path) -> None:
    with (
        pytest.raises(KreachError, match="macros of OpenRTB"),
        bidding(tmp_path, [sample_campaign(creative=creative("x", markup="${AUCTION_PRIZE}"))]),
    ):
        pass


# -- deals ---------------------------------------------------------------------------------------


def place_with(*deals: dict[str, Any], private: int = 0, **more: Any) -> dict[str, Any]:
    pmp = {"private_auction": private, "deals": list(deals)}
    return sample_request(imp=[BANNER | {"pmp": pmp} | more])


def test_a_deal_is_taken_before_the_open_auction(exchange: Exchange) -> None:
    bid = only_bid(exchange.bid(place_with({"id": "other"}, {"id": "d2"}, {"id": "d1"})))
    assert bid.dealid == "d1"  # in the campaign's order
    assert only_bid(exchange.bid(place_with({"id": "other"}))).dealid is None
    private = place_with({"id": "d2", "bidfloor": 0.5}, private=1, bidfloor=40.0)
    bid = only_bid(exchange.bid(private))
    assert (bid.dealid, bid.price >= 0.5) == ("d2", True)


@pytest.mark.parametrize(
    ("deal", "reason"),
    [
        ({"id": "other"}, "no campaign"),
        ({"id": "d1", "wseat": ["other"]}, "private auction"),
        ({"id": "d1", "bidfloor": 0.5, "bidfloorcur": "XXX"}, "private auction"),
        ({"id": "d1", "bidfloor": 5.0}, "below floor"),
        ({"id": "d1", "wadomain": ["z.example"]}, "no campaign"),
        ({}, "private auction"),
    ],
)
def test_deals_that_are_not_for_us(exchange: Exchange, deal: dict[str, Any], reason: str) -> None:
    assert exchange.bid(place_with(deal, private=1)).reason == reason


def test_a_deal_names_its_advertisers(exchange: Exchange) -> None:
    request = place_with({"id": "d1", "wadomain": ["C.example"], "wseat": ["kreach"]}, private=1)
    assert {only_bid(exchange.bid(request)).crid for _ in range(5)} == {"c"}


def test_the_auction_of_a_deal(exchange: Exchange) -> None:
    agreed = only_bid(exchange.bid(place_with({"id": "d1", "at": 3, "bidfloor": 0.25}, private=1)))
    assert agreed.price == 0.25
    runtime = exchange.state.catalogue_bidders["v1"].runtimes[1]
    before = runtime.bidder.memory()["markets"]
    assert exchange.call(agreed.burl, 0.25).status == 200
    assert runtime.bidder.memory()["markets"] == before  # an agreed price teaches nothing
    second = only_bid(exchange.bid(place_with({"id": "d1", "at": 2}, private=1)))
    first = only_bid(exchange.bid(place_with({"id": "d1", "at": 1}, private=1)))
    assert first.price < second.price


def test_a_campaign_of_deals_alone(tmp_path: Path) -> None:
    campaign = sample_campaign(deals=("d1",), deals_only=True)
    with bidding(tmp_path, [campaign]) as exchange:
        assert exchange.bid(sample_request()).reason == "no campaign"
        assert only_bid(exchange.bid(place_with({"id": "d1"}))).dealid == "d1"


# -- currencies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("currency", ["EUR", "JPY"])
@pytest.mark.parametrize("share", [1.0, 0.37])
def test_a_bid_in_another_currency(exchange: Exchange, currency: str, share: float) -> None:
    account = exchange.state.ledger.accounts[1]
    before = account.spent, account.reserved
    request = sample_request(cur=["XXX", currency, "EUR"])
    reply = exchange.bid(request)
    bid = only_bid(reply)
    assert as_response(reply).cur == currency
    reserved = account.reserved - before[1]
    assert bid.price * RATES[currency] * 1_000 <= reserved
    assert bid.price * RATES[currency] * 1_000 > reserved - max(2.0, 1.1 * RATES[currency])
    price = round(bid.price * share, 3)
    assert exchange.call(bid.burl.replace("${AUCTION_PRICE}", f"{price:.3f}")).status == 200
    spent = account.spent - before[0]
    assert spent == pytest.approx(price * RATES[currency] * 1_000, abs=1.0)
    assert spent <= reserved


def test_a_price_above_a_foreign_bid_is_refused(exchange: Exchange) -> None:
    bid = only_bid(exchange.bid(sample_request(cur=["EUR"])))
    above = bid.burl.replace("${AUCTION_PRICE}", f"{bid.price + 0.01:.3f}")
    assert exchange.call(above).status == 400
    assert exchange.call(bid.burl, bid.price).status == 200


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cur": ["XXX"]}, "currency"),
        ({"imp": [BANNER | {"bidfloor": 0.1, "bidfloorcur": "XXX"}]}, "floor currency"),
        ({"imp": [BANNER | {"bidfloor": 0.93, "bidfloorcur": "EUR"}]}, "below floor"),
        ({"imp": [BANNER | {"bidfloor": 150.0, "bidfloorcur": "JPY"}]}, "below floor"),
    ],
)
def test_currencies_without_a_rate(exchange: Exchange, change: dict[str, Any], reason: str) -> None:
    assert exchange.bid(sample_request("g5", **change)).reason == reason


@pytest.mark.parametrize("floor", [None, 0.0, 1e-12])
def test_a_bid_is_never_zero_in_the_currency_it_is_made_in(floor: float | None) -> None:
    rates = Rates("USD", {"KWD": 3.25})
    deal = Deal(id="d1", bidfloor=floor, bidfloorcur="KWD")
    imp = Imp(id="1", banner=Banner(), bidfloor=floor, bidfloorcur="KWD", pmp=Pmp(deals=[deal]))
    place, deals, _ = terms_of(imp, 0, 1, rates, "KWD", "kreach")
    assert place is not None
    assert deals is not None
    assert place.floor == deals["d1"].floor == 4  # 3 micros of ours are none of theirs


@pytest.mark.parametrize("floor", [0.001, 0.0123, 0.3333, 0.5])
@pytest.mark.parametrize(("bids", "floors"), [("EUR", "JPY"), ("JPY", "EUR"), ("USD", "EUR")])
def test_floors_hold_across_currencies(
    exchange: Exchange, floor: float, bids: str, floors: str
) -> None:
    request = sample_request(
        "g4", cur=[bids], imp=[BANNER | {"bidfloor": floor, "bidfloorcur": floors}]
    )
    reply = exchange.bid(request)
    assert violations(request, reply.document, {"USD": 1.0} | RATES) == []


# -- profiles ------------------------------------------------------------------------------------


def ask(exchange: Exchange, name: str, **more: Any) -> Reply:
    body = json.dumps(sample_request(**more)).encode()
    return exchange.ask("POST", f"/openrtb2/bid/{name}", body)


def test_base64_prices_and_reasons_that_openrtb_defines(tmp_path: Path) -> None:
    named = creative("named", domains=("a.example",))
    campaigns = [sample_campaign("x"), sample_campaign("y", creative=named)]
    with bidding(tmp_path, campaigns) as exchange:
        replies = [ask(exchange, "base64-prices") for _ in range(4)]
        assert {only_bid(reply).cid for reply in replies} == {"y"}  # x names no advertiser
        bid = only_bid(replies[0])
        assert bid.adid == bid.crid == "named"
        assert replies[0].document["bidid"]
        price = base64.b64encode(b"0.25").decode()
        filled = bid.burl.replace("${AUCTION_PRICE:B64}", price)
        assert filled.endswith(f"?price64={price}")
        assert exchange.call(filled).status == 200
        assert exchange.state.ledger.accounts[2].spent == 250
        assert exchange.call(filled.replace(price, "!!")).status == 400
        assert ask(exchange, "base64-prices", user=None).document == {"id": "request-1", "nbr": 8}
        dear = [BANNER | {"bidfloor": 40.0}]
        assert ask(exchange, "base64-prices", imp=dear).document == {"id": "request-1", "nbr": 0}


def test_before_2_5_the_win_notice_bills(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign()], profiles={"old": "openrtb-2.4"}) as exchange:
        document = ask(exchange, "old").document["seatbid"][0]["bid"][0]
        assert "burl" not in document
        assert "lurl" not in document
        assert exchange.call(document["nurl"], 0.25).status == 200
        assert exchange.state.ledger.accounts[1].spent == 250


def test_profiles_say_where_the_group_is_and_what_auction_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "strict.toml").write_text('group_in = ["user.data"]\nauction = 1\n')
    with bidding(tmp_path, [sample_campaign()], profiles_folder=folder) as exchange:
        hidden: dict[str, Any] = {"user": {"ext": {"data": [user_data()]}}}
        assert exchange.bid(sample_request(**hidden)).status == 200
        assert ask(exchange, "strict", **hidden).reason == "no group"
        first, second = only_bid(ask(exchange, "strict")), only_bid(ask(exchange, "strict", at=2))
        assert first.price < second.price


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('billing = "curl"', "billing"),
        ('notices = ["lurl"]', "burl, which bills"),
        ("auction =", "profile bad.toml"),
        ("colour = 1", "colour"),
    ],
)
def test_profiles_that_make_no_sense(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "bad.toml").write_text(text)
    with (
        pytest.raises(KreachError, match=message),
        bidding(tmp_path, [], profiles_folder=tmp_path / "p"),
    ):
        pass


def test_a_profile_that_does_not_exist(tmp_path: Path) -> None:
    with (
        pytest.raises(KreachError, match="profile must be one of base64-prices"),
        bidding(tmp_path, [], profile="other"),
    ):
        pass


# -- review --------------------------------------------------------------------------------------


def review(exchange: Exchange, name: str, decision: str, served: set[str]) -> None:
    """Decide on a creative, and wait until the bidder serves these."""
    store = exchange.state.campaigns
    (version,) = (one.version for one in store.get("spring").campaign.creatives if one.key == name)
    store.review("spring", name, decision, "blinks", version)

    def known() -> bool:
        return {each.key for each in exchange.state.stored_campaigns[1].campaign.servable} == served

    exchange.wait(known)
    exchange.rest()


def test_creatives_in_review_are_not_served(tmp_path: Path) -> None:
    campaign = sample_campaign(creatives=(creative("old"), creative("new")))
    with bidding(tmp_path, asleep=True) as exchange:
        exchange.state.campaigns.add(campaign, review_required=True)
        exchange.wait(lambda: exchange.state.stored_campaigns)
        exchange.rest()
        assert exchange.bid(sample_request()).reason == "no campaign"
        review(exchange, "old", "approve", {"old"})
        assert {only_bid(exchange.bid(sample_request())).crid for _ in range(6)} == {"old"}
        review(exchange, "new", "approve", {"old", "new"})
        assert {only_bid(exchange.bid(sample_request())).crid for _ in range(6)} == {"old", "new"}
        review(exchange, "old", "reject", {"new"})
        review(exchange, "new", "reject", set())
        assert exchange.bid(sample_request()).reason == "no campaign"
