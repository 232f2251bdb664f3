"""POST /openrtb2/bid: what is answered to which request."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kreach.adsystem.campaigns.campaign import Creative
from tests.adsystem.bidserver.sample_bidders import (
    Exchange,
    as_response,
    bidding,
    sample_campaign,
    sample_catalogue,
    sample_request,
    user_data,
)

LATENCY = "kreach_bidder_latency_seconds"
CREATIVE = Creative(
    id="cr-1", markup='<a href="x">é \\ "q"</a>', width=300, height=250, domains=("shop.example",)
)


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    """One campaign for second prices on two catalogues, at a fixed moment."""
    campaign = sample_campaign(creative=CREATIVE)
    catalogues = [sample_catalogue(), sample_catalogue(version="v2")]
    with bidding(tmp_path_factory.mktemp("bids"), [campaign], catalogues=catalogues) as made:
        yield made


def place(id_: str = "1", **more: Any) -> dict[str, Any]:
    """A place for a banner of any size."""
    return {"id": id_, "banner": {}} | more


def test_a_bid_says_all_that_an_exchange_needs(exchange: Exchange) -> None:
    response = as_response(exchange.bid(sample_request()))
    assert (response.id, response.cur, response.seatbid[0].seat) == ("request-1", "USD", "kreach")
    (bid,) = response.seatbid[0].bid
    assert (bid.impid, bid.cid, bid.crid) == ("1", "spring", "cr-1")
    assert (bid.adm, bid.w, bid.h) == (CREATIVE.markup, 300, 250)
    assert bid.adomain == ("shop.example",)
    assert bid.exp == 900
    # λ is 1/(the market's median), and the first request of a group reaches somebody for sure
    assert bid.price == pytest.approx(1.0, abs=0.001)
    assert bid.burl.endswith("?price=${AUCTION_PRICE}")


def test_the_answer_tells_its_length(exchange: Exchange) -> None:
    reply = exchange.bid(sample_request())
    assert int(reply.headers["content-length"]) == len(reply.body)


IDS = [
    "",
    "plain",
    'quote " and \\ backslash',
    "tab\t newline\n null\x00 escape\x1b delete\x7f",
    "Ünïcödé 漢字 \U0001f600 \u2028 \ufeff",
    "</script>${AUCTION_PRICE}%s{0}",
    "x" * 50_000,
    "\\u0022",
]


@pytest.mark.parametrize("id_", IDS, ids=range(len(IDS)))
@pytest.mark.parametrize("ascii_only", [True, False])
def test_ids_come_back_as_they_were(exchange: Exchange, id_: str, ascii_only: bool) -> None:
    request = sample_request(id=id_, imp=[place(id_ + "!")])
    body = json.dumps(request, ensure_ascii=ascii_only).encode()
    response = as_response(exchange.bid(body))
    assert response.id == id_
    assert response.seatbid[0].bid[0].impid == id_ + "!"


def test_bid_ids_are_never_the_same(exchange: Exchange) -> None:
    made = [as_response(exchange.bid(sample_request())).seatbid[0].bid[0].id for _ in range(50)]
    assert len(set(made)) == 50


NO_BIDS: list[tuple[str, dict[str, Any]]] = [
    ("no imp", {"imp": []}),
    ("no user", {"user": None}),
    ("no group", {"user": {}}),
    ("no group", {"user": {"data": None}}),
    ("no group", {"user": {"data": []}}),
    ("no group", {"user": {"data": [{}]}}),
    ("no group", {"user": {"data": [user_data(name="other")]}}),
    ("no group", {"user": {"data": [{"segment": [{"id": "g0"}], "ext": {"catalogue": "v1"}}]}}),
    ("no group", {"user": {"data": [user_data() | {"segment": []}]}}),
    ("no group", {"user": {"data": [user_data() | {"segment": None}]}}),
    ("no group", {"user": {"data": [user_data(name="Kreach")]}}),
    ("unknown catalogue", {"user": {"data": [user_data(catalogue="v3")]}}),
    ("unknown catalogue", {"user": {"data": [user_data(catalogue=None)]}}),
    ("unknown catalogue", {"user": {"data": [user_data(catalogue="")]}}),
    ("unknown catalogue", {"user": {"data": [user_data() | {"ext": None}]}}),
    ("unknown catalogue", {"user": {"data": [user_data() | {"ext": {}}]}}),
    ("unknown group", {"user": {"data": [user_data("g99")]}}),
    ("unknown group", {"user": {"data": [user_data(None)]}}),
    ("unknown group", {"user": {"data": [user_data("")]}}),
    ("unknown group", {"user": {"data": [user_data("G0")]}}),
    ("unknown group", {"user": {"data": [user_data(" g0")]}}),
    ("tmax too short", {"tmax": 1}),
    ("currency", {"cur": ["EUR"]}),
    ("currency", {"cur": ["usd", "JPY"]}),
    ("test", {"test": 1}),
    ("private auction", {"imp": [{"id": "1", "banner": {}, "pmp": {"private_auction": 1}}]}),
    (
        "floor currency",
        {"imp": [{"id": "1", "banner": {}, "bidfloor": 0.01, "bidfloorcur": "EUR"}]},
    ),
    ("below floor", {"imp": [{"id": "1", "banner": {}, "bidfloor": 2.0}]}),
    ("below floor", {"imp": [{"id": "1", "banner": {}, "bidfloor": 1e308}]}),
    ("below floor", {"imp": [{"id": "1", "banner": {}, "bidfloor": 10**300}]}),
    ("no media type", {"imp": [{"id": "1"}]}),
    ("no media type", {"imp": [{"id": "1", "banner": None}]}),
    ("duplicate imp id", {"imp": [{"id": "1", "banner": {}}, {"id": "1", "banner": {}}]}),
    ("no campaign", {"badv": ["other.example", "shop.example"]}),
    ("no campaign", {"imp": [{"id": "1", "banner": {"w": 728, "h": 90}}]}),
    ("no campaign", {"imp": [{"id": "1", "banner": {"format": [{"w": 728, "h": 90}]}}]}),
    ("no campaign", {"imp": [{"id": "1", "banner": {"w": 250, "h": 300}}]}),
    ("no campaign", {"imp": [{"id": "1", "banner": {"format": [{}]}}]}),
]


@pytest.mark.parametrize(("reason", "change"), NO_BIDS)
def test_no_bid_says_why(exchange: Exchange, reason: str, change: dict[str, Any]) -> None:
    reply = exchange.bid(sample_request(**change))
    assert (reply.status, reply.reason, reply.body) == (204, reason, b"")
    assert "content-length" not in reply.headers


def test_no_user_at_all(exchange: Exchange) -> None:
    request = sample_request()
    del request["user"]
    assert exchange.bid(request).reason == "no user"


BIDS: list[dict[str, Any]] = [
    {"tmax": 0},
    {"tmax": -1},
    {"tmax": None},
    {"tmax": 10**30},
    {"cur": ["EUR", "USD"]},
    {"cur": []},
    {"cur": None},
    {"test": 0},
    {"at": 1},
    {"at": 2},
    {"at": 3},
    {"at": 10**30},
    {"badv": ["other.example"]},
    {"badv": []},
    {"badv": None},
    {"imp": [{"id": "1", "banner": {}}]},
    {"imp": [{"id": "1", "banner": {}, "pmp": None}]},
    {"imp": [{"id": "1", "banner": {"format": [{"w": 1, "h": 1}, {"w": 300, "h": 250}]}}]},
    {"imp": [{"id": "1", "banner": {"w": 1, "h": 1, "format": [{"w": 300, "h": 250}]}}]},
    {"imp": [{"id": "1", "banner": {"w": 300, "h": 250, "format": [{"w": 1, "h": 1}]}}]},
    {"imp": [{"id": "1", "banner": {"w": 300}}]},
    {"imp": [{"id": "1", "banner": {}, "pmp": {}}]},
    {"imp": [{"id": "1", "banner": {}, "pmp": {"private_auction": 0, "deals": [{"id": "d"}]}}]},
    {"imp": [{"id": "1", "banner": {}, "bidfloor": 0, "bidfloorcur": "EUR"}]},
    {"imp": [{"id": "1", "banner": {}, "bidfloor": -3.5, "bidfloorcur": "EUR"}]},
    {"imp": [{"id": "1", "banner": {}, "bidfloor": 5e-324}]},
    {"user": {"data": [user_data(name="other"), user_data()]}},
    {"user": {"data": [user_data("x", "y", "other"), {}, user_data()]}},
    {"user": {"data": [user_data(catalogue="v3"), user_data()]}},
    {"user": {"data": [user_data("g99"), user_data(catalogue="v2")]}},
    {"user": {"data": [{"name": "kreach"}, user_data()]}},
    {"user": {"data": [user_data() | {"segment": [{}, {"id": None}, {"id": "?"}, {"id": "g1"}]}]}},
    {"user": {"data": [user_data() | {"unknown": [1, {"deep": None}]}], "id": "u", "eids": [{}]}},
    {"user": {"data": [user_data() | {"segment": [{"id": 123}, {"id": "g0"}]}]}},
    {"user": {"data": [{"name": 7, "ext": [], "segment": [{"id": 123}]}, user_data()]}},
    {"user": {"data": [{"segment": [{"id": "g0"}], "ext": {"segtax": 812, "catalogue": "v1"}}]}},
    {"user": {"data": [{"segment": [{"id": "g0"}], "ext": {"segtax": 812, "segclass": "v1"}}]}},
    {"user": {"ext": {"data": [user_data()]}}},
    {"tmax": 10_000.0},
    {"tmax": "10000"},
    {"imp": [{"id": "1", "banner": {}, "bidfloor": None, "bidfloorcur": None}]},
    {"imp": [{"id": "1", "banner": {"w": "300", "h": 250.0}, "bidfloor": "0.1"}]},
    {"site": {"page": "https://x"}, "device": {"ip": "192.0.2.1"}, "regs": None, "ext": [1]},
]


@pytest.mark.parametrize("change", BIDS)
def test_what_is_bid_on(exchange: Exchange, change: dict[str, Any]) -> None:
    assert as_response(exchange.bid(sample_request(**change))).seatbid[0].bid[0].cid == "spring"


def test_the_group_is_that_of_the_right_provider_and_catalogue(exchange: Exchange) -> None:
    """What is billed for one group must not make another worth less."""
    data = [user_data("g4", name="other"), user_data("g4", "v3"), user_data("g3")]
    before = exchange.price("g4"), exchange.price("g3")
    exchange.win(user={"data": data})
    assert exchange.price("g4") == before[0]
    assert exchange.price("g3") < before[1]
    in_v2 = {"data": [user_data("g3", "v2")]}
    assert exchange.price(user=in_v2) == before[1]


def test_of_several_segments_the_first_known_counts(exchange: Exchange) -> None:
    data = [user_data() | {"segment": [{"id": "nobody"}, {"id": "g2"}, {"id": "g5"}]}]
    before = exchange.price("g2"), exchange.price("g5")
    exchange.win(user={"data": data})
    assert exchange.price("g2") < before[0]
    assert exchange.price("g5") == before[1]


@pytest.mark.parametrize(
    ("told", "given"),
    [(60, 60), (1, 1), (900, 900), (5_000, 900), (0, 900), (-5, 900), (None, 900)],
)
def test_a_bid_lasts_no_longer_than_asked(exchange: Exchange, told: int, given: int) -> None:
    request = sample_request(imp=[{"id": "1", "banner": {}, "exp": told}])
    assert as_response(exchange.bid(request)).seatbid[0].bid[0].exp == given


@pytest.mark.parametrize("floor", [0.001, 0.25, 0.4999, 0.9, 0.9995])
def test_bids_are_at_or_above_the_floor(exchange: Exchange, floor: float) -> None:
    request = sample_request(imp=[{"id": "1", "banner": {}, "bidfloor": floor}])
    bid = as_response(exchange.bid(request)).seatbid[0].bid[0]
    assert bid.price >= floor


def test_a_price_equal_to_the_floor_is_bid(exchange: Exchange) -> None:
    price = exchange.price()
    assert exchange.price(imp=[{"id": "1", "banner": {}, "bidfloor": price}]) == price
    above = sample_request(imp=[{"id": "1", "banner": {}, "bidfloor": price + 0.001}])
    assert exchange.bid(above).reason == "below floor"


def test_a_campaign_has_one_place_of_a_request_at_most(exchange: Exchange) -> None:
    request = sample_request(imp=[place(str(at)) for at in range(5)])
    bids = as_response(exchange.bid(request)).seatbid[0].bid
    assert [bid.impid for bid in bids] == ["0"]


def test_places_that_do_not_fit_are_passed_over(exchange: Exchange) -> None:
    places = [
        {"id": "small", "banner": {"w": 1, "h": 1}},
        place("dear", bidfloor=40.0),
        place("private", pmp={"private_auction": 1}),
        place("twice"),
        place("twice"),
        {"id": "nothing"},
        place("good"),
    ]
    bids = as_response(exchange.bid(sample_request(imp=places))).seatbid[0].bid
    assert [bid.impid for bid in bids] == ["good"]


def test_thousands_of_places_are_answered(exchange: Exchange) -> None:
    request = sample_request(imp=[place(str(at)) for at in range(5_000)])
    assert len(as_response(exchange.bid(request)).seatbid[0].bid) == 1


SECRET = "zx81-secret-zx81"
NOT_OPENRTB: list[bytes] = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b'"%b"' % SECRET.encode(),
    b'{"id":"%b","imp":[{"id":"1"}]' % SECRET.encode(),
    b'{"id":"1","imp":[{"id":"1","bidfloor":NaN}],"x":"%b"}' % SECRET.encode(),
    b'{"id":"1","imp":[{"id":"1","bidfloor":Infinity}]}',
    b'{"id":"1","imp":[{"id":"1","bidfloor":1e999}]}',
    b'{"id":"1","imp":[{"id":"\\ud800"}]}',
    b'{"id":"1","imp":[{"id":"\xff\xfe"}]}',
    b"\xef\xbb\xbf{}",
    b"\x00",
    b"[" * 100_000,
    b'{"id":"1","imp":[],"x":' + b'{"y":' * 30_000,
    b'{"id":"1","imp":[]} {"%b":1}' % SECRET.encode(),
    json.dumps({"id": "1", "imp": {"id": SECRET}}).encode(),
    json.dumps({"id": "1", "imp": [SECRET]}).encode(),
    json.dumps({"id": "1", "imp": [{"id": "1", "banner": {}, "bidfloor": SECRET}]}).encode(),
    json.dumps({"id": "1", "imp": [{"id": "1", "banner": {"w": SECRET}}]}).encode(),
    json.dumps({"id": 7, "imp": []}).encode(),
    json.dumps({"imp": []}).encode(),
    json.dumps({"id": "1"}).encode(),
    json.dumps({"id": "1", "imp": [{}]}).encode(),
    json.dumps({"id": "1", "imp": [], "user": SECRET}).encode(),
    json.dumps({"id": "1", "imp": [], "user": {"data": SECRET}}).encode(),
    json.dumps({"id": "1", "imp": [], "at": SECRET}).encode(),
    json.dumps({"id": "1", "imp": [], "tmax": SECRET}).encode(),
    json.dumps({"id": "1", "imp": [], "cur": {SECRET: SECRET}}).encode(),
    json.dumps({"id": "1", "imp": [], "badv": [[SECRET]]}).encode(),
    json.dumps(sample_request(), ensure_ascii=False).encode("utf-16"),
]


@pytest.mark.parametrize("body", NOT_OPENRTB, ids=range(len(NOT_OPENRTB)))
def test_what_is_not_openrtb_is_refused_and_not_quoted(exchange: Exchange, body: bytes) -> None:
    reply = exchange.bid(body)
    assert reply.status == 400
    assert reply.headers["content-type"] == "application/json"
    assert list(reply.document) == ["error"]
    assert reply.document["error"]["message"].startswith("the request must be ")
    assert SECRET not in reply.body.decode()
    assert len(reply.body) < 200


def test_of_fields_told_twice_the_last_counts(exchange: Exchange) -> None:
    body = json.dumps(sample_request()).encode()
    doubled = b'{"id":"first","imp":[],' + body[1:]
    assert as_response(exchange.bid(doubled)).id == "request-1"


def test_bodies_that_are_too_long(exchange: Exchange) -> None:
    request = sample_request(site={"page": "x" * 256_000})
    reply = exchange.bid(request)
    assert reply.status == 413
    assert list(reply.document) == ["error"]
    assert "xxx" not in reply.body.decode()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
def test_other_methods(exchange: Exchange, method: str) -> None:
    reply = exchange.ask(method, "/openrtb2/bid")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "path",
    [
        *("/", "", "/openrtb2", "/openrtb2/bids", "/openrtb2/bid/x/y", "/openrtb2/%"),
        *(
            "//openrtb2/bid",
            "/openrtb2/billing",
            "/openrtb2/win/a/b",
            "/Healthz",
            "/openrtb2/bid\x00",
        ),
    ],
)
def test_other_paths(exchange: Exchange, path: str) -> None:
    for method in ("GET", "POST"):
        reply = exchange.ask(method, path)
        assert (reply.status, list(reply.document)) == (404, ["error"])


def test_every_reason_is_counted(exchange: Exchange) -> None:
    def count() -> float:
        return exchange.metric('kreach_bidder_no_bids_total{reason="test"}')

    exchange.bid(sample_request(test=1))
    before = count()
    for _ in range(3):
        exchange.bid(sample_request(test=1))
    assert count() == before + 3


def test_health(exchange: Exchange) -> None:
    assert exchange.ask("GET", "/readyz").status == 200
    reply = exchange.ask("GET", "/healthz")
    assert reply.status == 200
    assert reply.document["status"] == "ok"
    assert reply.document["catalogues"] == ["v1", "v2"]
    assert reply.document["campaigns"] == 1


def test_metrics_can_be_read_by_prometheus(exchange: Exchange) -> None:
    exchange.win()
    exchange.bid(b"nonsense")
    families = {
        family.name: family
        for family in text_string_to_metric_families(exchange.ask("GET", "/metrics").body.decode())
    }
    latency = {s.labels.get("le", s.name): s.value for s in families[LATENCY].samples}
    assert latency["+Inf"] == latency[f"{LATENCY}_count"] > 0
    told = {s.labels["campaign"]: s.value for s in families["kreach_bidder_bids"].samples}
    assert told["spring"] > 0
    for name in ("requests", "no_bids", "impressions", "spend_micros", "notices", "http_refused"):
        assert families[f"kreach_bidder_{name}"].type == "counter"
