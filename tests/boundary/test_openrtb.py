"""The wire schema: what of a request is read, what is skipped, what is refused."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.boundary.openrtb import (
    Banner,
    Bid,
    BidRequest,
    BidResponse,
    SeatBid,
    UserExt,
    as_json,
    decode_request,
)
from kreach.errors import KreachError

LEAST: dict[str, Any] = {"id": "1", "imp": []}


def decoded(**more: Any) -> BidRequest:
    return decode_request(json.dumps(LEAST | more).encode())


def test_the_min_request() -> None:
    request = decoded()
    assert (request.id, request.imp, request.user) == ("1", [], None)
    assert (request.at, request.tmax, request.test) == (None, None, None)


def test_unknown_fields_are_skipped_at_every_level() -> None:
    request = decoded(
        x={"y": [1]},
        imp=[
            {
                "id": "1",
                "video": {"playbackmethod": [1]},
                "banner": {"w": 1, "pos": 1, "format": [{"z": 2}]},
            }
        ],
        user={"id": "u", "data": [{"name": "n", "segment": [{"id": "s", "value": "v"}]}]},
    )
    encoded = msgspec.json.encode(request).decode()
    for gone in ("x", "y", "playbackmethod", "pos", "value", "z"):
        assert f'"{gone}"' not in encoded
    assert '"u"' not in encoded


@pytest.mark.parametrize("odd", [7, 1.5, True, ["v1"], {"v1": {}}, None, []])
def test_other_providers_extensions_may_be_anything(odd: object) -> None:
    """An `ext` belongs to its provider: what it holds does not make a request a bad one."""
    request = decoded(user={"data": [{"name": "other", "ext": {"catalogue": odd, "deep": [odd]}}]})
    assert request.user is not None
    assert request.user.data is not None
    ext = request.user.data[0].ext
    assert ext is not None
    assert ext.catalogue is None


def test_the_catalogues_version_is_read() -> None:
    request = decoded(user={"data": [{"name": "kreach", "ext": {"catalogue": "v1"}}]})
    assert request.user is not None
    assert request.user.data is not None
    assert request.user.data[0].ext is not None
    assert request.user.data[0].ext.catalogue == "v1"


@given(st.text(), st.text())
def test_ids_survive(request_id: str, place: str) -> None:
    if any("\ud800" <= c <= "\udfff" for c in request_id + place):
        return
    request = decoded(id=request_id, imp=[{"id": place}])
    assert (request.id, request.imp[0].id) == (request_id, place)


_json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def refusal(body: bytes) -> str:
    """Why a request is refused; nothing if it is not."""
    try:
        decode_request(body)
    except KreachError as error:
        return str(error)
    return ""


@given(_json_values)
def test_any_json_is_read_or_refused(document: object) -> None:
    assert refusal(json.dumps(document).encode()).startswith("the request must be")


@given(st.binary())
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with pytest.raises(KreachError, match="the request must be"):
        decode_request(body)


@given(st.sampled_from(sorted(BidRequest.__struct_fields__)), _json_values)
def test_any_value_of_a_field_is_read_or_refused_unquoted(field: str, value: object) -> None:
    marked = {"zx81": value, "more": ["zx81-secret"]}
    for content in (value, [value], marked, [marked], "zx81-secret"):
        why = refusal(json.dumps(LEAST | {field: content}).encode())
        assert "zx81" not in why
        assert len(why) < 200


@pytest.mark.parametrize(
    ("banner", "fits"),
    [
        ({}, True),
        ({"w": 300}, True),
        ({"w": 300, "h": 250}, True),
        ({"w": 250, "h": 300}, False),
        ({"w": 1, "h": 1, "format": [{"w": 300, "h": 250}]}, True),
        ({"format": [{"w": 300, "h": 250}]}, True),
        ({"format": [{"w": 300}]}, False),
        ({"format": [{}]}, False),
        ({"format": []}, True),
        ({"w": 1, "h": 1, "format": []}, False),
    ],
)
def test_sizes(banner: dict[str, Any], fits: bool) -> None:
    assert msgspec.convert(banner, Banner).fits(300, 250) is fits


def test_a_response_reads_back() -> None:
    bid = Bid(
        id="b", impid="1", price=1.25, burl="https://b", lurl="https://l", cid="c", exp=60, w=3, h=2
    )
    response = BidResponse(id="r", seatbid=[SeatBid(bid=[bid])], cur="USD")
    encoded = as_json(response)
    assert msgspec.json.decode(encoded, type=BidResponse) == response
    assert b"null" not in encoded


ODD_BUT_CLEAR: list[tuple[dict[str, Any], str, object]] = [
    ({"tmax": 100.0}, "tmax", 100.0),
    ({"tmax": "100"}, "tmax", 100.0),
    ({"at": 1.0}, "at", 1),
    ({"at": "1"}, "at", 1),
    ({"test": True}, "test", 1),
    ({"cur": "USD"}, "cur", ["USD"]),
    ({"badv": None, "bcat": None, "wlang": None, "at": None}, "badv", None),
    ({"source": "x"}, "source", None),
    ({"source": []}, "source", None),
    ({"cattax": "2"}, "cattax", 2),
]


@pytest.mark.parametrize(("change", "field", "value"), ODD_BUT_CLEAR)
def test_odd_values_mean_what_they_say(change: dict[str, Any], field: str, value: object) -> None:
    assert getattr(decoded(**change), field) == value


def test_odd_values_of_a_place() -> None:
    place = {"id": "1", "bidfloor": "1.5", "secure": True, "banner": {"w": "300", "h": 250.0}}
    (imp,) = decoded(imp=[place]).imp
    assert imp.banner is not None
    assert (imp.bidfloor, imp.secure, imp.banner.w, imp.banner.h) == (1.5, 1, 300, 250)
    assert decoded(imp=[{"id": "1", "bidfloor": None}]).imp[0].bidfloor is None


@pytest.mark.parametrize(
    "foreign",
    [
        {"segment": [{"id": 123}]},
        {"segment": {}},
        {"segment": ["x", {"id": []}]},
        {"ext": []},
        {"ext": "x", "name": 7},
        {"name": ["kreach"]},
        "text",
        7,
        None,
        [],
    ],
)
def test_other_providers_entries_void_nothing(foreign: object) -> None:
    ours = {"name": "kreach", "segment": [{"id": "g"}], "ext": {"catalogue": "v1"}}
    user = decoded(user={"data": [foreign, ours], "ext": "x"}).user
    assert user is not None
    assert user.data is not None
    assert user.data[-1].segment is not None
    assert user.data[-1].segment[0].id == "g"


def test_first_party_data_of_prebid_server() -> None:
    ours = {"segment": [{"id": "g"}], "ext": {"segtax": 812, "segclass": "v1"}}
    user = decoded(user={"ext": {"data": [7, ours]}}).user
    assert user is not None
    assert isinstance(user.ext, UserExt)
    assert user.ext.data[-1].ext is not None
    assert user.ext.data[-1].ext.catalogue == "v1"
    odds: list[object] = [{"interests": ["x"]}, None, 7, "x", []]
    for odd in odds:
        user = decoded(user={"ext": {"data": odd}}).user
        assert user is not None
        assert isinstance(user.ext, UserExt)
        assert user.ext.data == []


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"imp": [{"id": "1"}, {"id": "2", "bidfloor": "zx81"}]}, "$.imp[1].bidfloor"),
        (
            {"imp": [{"id": "1", "banner": {"format": [{"w": "zx81"}]}}]},
            "$.imp[0].banner.format[0].w",
        ),
        ({"badv": ["x", ["zx81"]]}, "$.badv[1]"),
        ({"user": {"data": "zx81"}}, "$.user.data"),
    ],
)
def test_what_is_needed_and_broken_is_named(change: dict[str, Any], where: str) -> None:
    why = refusal(json.dumps(LEAST | change).encode())
    assert where in why
    assert "zx81" not in why
