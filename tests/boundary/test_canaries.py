"""Marked identities are sent to a bidder in every way; no mark is ever found anywhere on its side.

The only text of a request that comes back are the ids which OpenRTB has us repeat: unmarked here.
"""

import gc
import json
import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from kreach.adsystem.campaigns.campaign import Cap
from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.shipping.file_store import FileStore
from kreach.adsystem.shipping.publisher import LogPublisher
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.shipper import FileShipper
from kreach.boundary.openrtb import Bid, BidResponse
from kreach.service.logs import Log
from tests.adsystem.bidserver.sample_bidders import (
    Exchange,
    as_response,
    bidding,
    sample_campaign,
    sample_request,
    user_data,
)
from tests.adsystem.bidserver.sample_stores import running_campaign, sample_store
from tests.adsystem.shipping.faulty_stream import FaultyStream, StoredMessages
from tests.cli.command import kreach
from tests.service.collector import Collector
from tests.service.service_process import Service, serving, until

pytestmark = pytest.mark.xdist_group("canaries")

MARK = "c4naryc4nary"
IP, IP6 = "203.0.113.177", "2001:db8:ca:na:ry::5117"
LAT, LON = 52.518623917, 13.376198531
SOUGHT = [
    MARK.encode(),
    MARK.upper().encode(),
    MARK.encode("utf-16-le"),
    IP.encode(),
    bytes(int(part) for part in IP.split(".")) + b"\x00",  # unlikely by chance
    IP6.encode(),
    str(LAT).encode(),
    str(LON).encode(),
    struct.pack("<d", LAT),
    struct.pack("<d", LON),
]
HEADERS = {
    "x-forwarded-for": IP,
    "x-real-ip": IP6,
    "forwarded": f"for={IP};by={MARK}",
    "cookie": f"uid={MARK}",
    "user-agent": f"Mozilla/{MARK}",
    "referer": f"https://news.example/?u={MARK}",
    "x-request-id": MARK,
    "authorization": f"Bearer {MARK}",
    f"x-{MARK}": "1",
}


def marked(**more: Any) -> dict[str, Any]:
    """A request with identities wherever OpenRTB has a place for them, and elsewhere."""
    device = {name: f"{MARK}-{name}" for name in ("ifa", "didsha1", "didmd5", "dpidsha1", "ua")}
    data = [
        {"id": MARK, "name": f"{MARK}-dmp", "segment": [{"id": MARK, "value": MARK}]},
        user_data("g1") | {"id": MARK, "cids": [MARK]},
    ]
    data[1]["ext"] |= {"uid": MARK}
    request = sample_request(
        device=device
        | {"ip": IP, "ipv6": IP6, "geo": {"lat": LAT, "lon": LON, "zip": MARK}, "ext": {MARK: 1}},
        user={
            "id": f"{MARK}-user",
            "buyeruid": f"{MARK}-buyer",
            "keywords": MARK,
            "geo": {"lat": LAT, "lon": LON},
            "eids": [{"source": MARK, "uids": [{"id": f"{MARK}-eid", "atype": 1}]}],
            "consent": f"{MARK}-consent",  # read, and gone with the request: no law applies
            "ext": {"consent": MARK, "eids": [MARK], MARK: MARK},
            "data": data,
        },
        regs={"gdpr": 0, "ext": {"gdpr": 0, MARK: MARK}},
        site={"page": f"https://news.example/?uid={MARK}", "ref": MARK, "ext": {"s": MARK}},
        source={"tid": MARK, "pchain": MARK},
        ext={MARK: [MARK]},
        **{MARK: MARK},
    )
    return request | more


def broken() -> Iterator[bytes]:
    """Marks where something goes wrong: types, syntax, length."""
    good = marked()
    for name in ("id", "imp", "user", "at", "tmax", "cur", "badv", "test"):
        for value in ([{MARK: MARK}], {MARK: MARK}, MARK, 7, None):
            if (name, value) != ("id", MARK):  # which would be an id, and come back
                yield json.dumps(good | {name: value}).encode()
    for place in (
        {"id": "1", "bidfloor": MARK},
        {"id": "1", "banner": {"w": MARK}},
        {"id": "1", "banner": {"format": [{"h": MARK}]}},
        {"id": "1", "exp": MARK, MARK: MARK},
        {"id": "1", "pmp": {"private_auction": MARK}},
        {"id": [MARK]},
        {"id": "1", "bidfloorcur": {MARK: 1}},
        MARK,
    ):
        yield json.dumps(good | {"imp": [place]}).encode()
    for name in ("gdpr", "coppa", "us_privacy", "gpp", "gpp_sid", "gpc", "ext"):
        for odd in (MARK, [MARK], {MARK: MARK}):
            yield json.dumps(good | {"regs": {name: odd}}).encode()
    for data in (
        MARK,
        [MARK],
        [{"name": [MARK]}],
        [{"ext": MARK}],
        [{"segment": [{"id": [MARK]}]}],
    ):
        yield json.dumps(good | {"user": {"data": data}}).encode()
    whole = json.dumps(good).encode()
    yield from (whole[:cut] for cut in range(40, len(whole), 97))
    yield MARK.encode()
    yield b'{"id": "' + MARK.encode() + b"\xff"
    yield json.dumps(good | {"x": MARK * 30_000}).encode()
    yield json.dumps(good | {"user": {"data": [user_data(MARK)]}}).encode()
    yield json.dumps(good | {"user": {"data": [user_data("g1", MARK)]}}).encode()
    yield json.dumps(good | {"cur": [MARK], "badv": [MARK]}).encode()


def assert_clean(what: bytes, where: str) -> None:
    """No mark in these bytes."""
    folded = what.lower()
    for sought in SOUGHT:
        assert sought not in what, where
        assert sought.lower() not in folded, where


class Watched:
    """A service whose every answer is looked at."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        status, head, got = self._service.ask(method, path, body, HEADERS)
        assert_clean(head + got, f"the answer to {method}")
        return status, got

    def bids(self) -> list[Bid]:
        status, got = self.ask("POST", "/openrtb2/bid", json.dumps(marked()).encode())
        if status != 200:
            return []
        return msgspec.json.decode(got, type=BidResponse).seatbid[0].bid

    def notify(self, address: str, price: float = 0.1) -> int:
        parts = urlsplit(address.replace("${AUCTION_PRICE}", str(price)))
        query = f"{parts.query}&u={MARK}&ip={IP}"
        return self.ask("GET", f"{parts.path}?{query}")[0]


def play_all(bidder: Watched) -> None:
    """Bids, wins, billings, losses, bids that nobody tells the end of, and failures."""
    until(bidder.bids)
    for at in range(20):
        (bid, *_) = bidder.bids()
        if at % 2:
            assert bidder.notify(bid.nurl or "") == 200
        if at % 4 < 2:
            assert bidder.notify(bid.burl) == 200
            assert bidder.notify(bid.burl) == 200
        elif at % 4 == 2:
            assert bidder.notify(bid.lurl) == 200
    for body in broken():
        assert bidder.ask("POST", "/openrtb2/bid", body)[0] in {200, 204, 400, 413}
    token = urlsplit(bid.burl).path
    for method, path, status in [
        ("GET", f"{token}?price={MARK}", 400),
        ("GET", f"{token}?price=1&price={MARK}", 400),
        ("GET", f"{token}?price=1e9&u={MARK}", 400),
        ("GET", f"/openrtb2/billing/{MARK}", 403),
        ("GET", f"/openrtb2/win/{MARK}?price={MARK}", 403),
        ("GET", f"/{MARK}?{MARK}", 404),
        ("DELETE", f"/openrtb2/bid?{MARK}", 405),
        ("GET", f"/healthz?u={MARK}", 200),
        ("GET", f"/metrics?u={MARK}", 200),
    ]:
        assert bidder.ask(method, path)[0] == status


def stored(folder: Path) -> dict[str, bytes]:
    """Every file of a store."""
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_no_mark_is_kept_logged_or_told(tmp_path: Path) -> None:
    quick = (
        "expiry_seconds = 3\ncompaction_seconds = 0.2\ncompaction_rows = 1\npacing_seconds = 0.1"
    )
    campaigns = [
        running_campaign(),
        running_campaign("rolling", caps=(Cap(limit=2, span_seconds=60.0),)),
    ]
    config = sample_store(tmp_path, campaigns, bidder=quick)
    store = tmp_path / "store"
    where = ("--config", str(config))
    with (
        Collector() as collector,
        serving(tmp_path, "bidder", *where, more=traced_to(collector)) as service,
        serving(tmp_path, "reporting", *where, more=traced_to(collector)) as reporting,
    ):
        bidder, reports = Watched(service), Watched(reporting)
        play_all(bidder)
        while_it_lives = stored(store)
        until(lambda: list(store.rglob("*.parquet")))
        for path in ("/v1/campaigns", "/v1/campaigns/spring", "/v1/campaigns/spring/reach?cap=1"):
            status, got = reports.ask("GET", path)
            assert (status, b"spring" in got) == (200, True)
        for path in ("/v1/campaigns/spring/series?by=day", "/healthz", "/metrics"):
            assert reports.ask("GET", path)[0] == 200
        for path in ("/healthz", "/metrics"):
            assert bidder.ask("GET", path)[0] == 200
        assert service.stop() == 0
        assert reporting.stop() == 0
        assert_clean(service.output(), "the bidder's output")
        assert_clean(reporting.output(), "reporting's output")
        assert collector.spans("kreach-bidder")
        assert collector.spans("kreach-reporting")
        assert_clean(b"".join(collector.bodies), "traces")
    for files in (while_it_lives, stored(store)):
        names = {Path(name).name for name in files}
        assert {"live.sqlite3", "control.sqlite3"} <= names
        for name, content in files.items():
            assert_clean(content, name)
    contents = b"".join(stored(store).values())
    assert b"spring" in contents  # a mark of a campaign would have been found
    assert b"g1" in contents
    out = tmp_path / "backup"
    assert kreach("backup", *where, "--out", str(out)).code == 0
    for name, content in (stored(out) | shipped(store, tmp_path)).items():
        assert_clean(content, name)


def traced_to(collector: Collector) -> dict[str, str]:
    """The environment of a service that traces every request."""
    return {
        "KREACH_TRACING_ENDPOINT": collector.address,
        "KREACH_TRACING_SAMPLE_SHARE": "1.0",
    }


def shipped(store: Path, folder: Path) -> dict[str, bytes]:
    """What a bidder of this store sends to the stream and to the object store."""
    (folder / "files").mkdir()
    settings = ShippingSettings(stream="nats://unused", files=(folder / "files").as_uri())
    messages, log = StoredMessages(), Log("test", lambda _: None)
    stream = FaultyStream(messages, random.Random(0), 0.0)
    journal = Journal(store, log)
    try:
        one = (journal.id, journal.epoch)
        publisher = LogPublisher(store, "b1", one, stream, settings, time.time, log)
        assert publisher.publish_new(tables=True) is None
        publisher.close()
        assert FileShipper(store, "b1", journal.id, FileStore(settings), 1.0, log).ship() > 0
    finally:
        journal.close()
    assert any(b"pacing" in each.data for each in messages.messages)
    sent = {f"message {each.position}": each.data for each in messages.messages}
    return sent | stored(folder / "files")


def test_the_search_finds_what_is_there() -> None:
    for sought in SOUGHT:
        with pytest.raises(AssertionError):
            assert_clean(b"before" + sought + b"after", "here")


_ENDS = (type, ModuleType, FunctionType, BuiltinFunctionType, FrameType)


def reachable(*roots: object) -> Iterator[object]:
    """All objects that hang on these, without code and event loops."""
    seen: set[int] = set()
    contents: list[object] = []
    ahead: list[object] = list(roots)
    while ahead:
        here = ahead.pop()
        if id(here) in seen or isinstance(here, _ENDS):
            continue
        if type(here).__module__.partition(".")[0] in {"asyncio", "_asyncio", "uvloop", "_pytest"}:
            continue
        seen.add(id(here))
        contents.append(here)  # or its id might be another's soon
        yield here
        ahead.extend(gc.get_referents(here))
        if isinstance(here, msgspec.Struct):  # some are hidden from the collector
            ahead.extend(getattr(here, name) for name in here.__struct_fields__)


def found_in(*roots: object) -> list[str]:
    """Where marks are among the objects that hang on these."""
    findings = []
    for here in reachable(*roots):
        data: bytes | None = None
        if isinstance(here, str):
            data = here.encode("utf-8", "replace")
        elif isinstance(here, (bytes, bytearray)):
            data = bytes(here)
        elif isinstance(here, float) and here in {LAT, LON}:
            findings.append("float")
        if data is not None and any(sought in data for sought in SOUGHT):
            findings.append(type(here).__name__)
    return findings


@pytest.fixture
def exchange(tmp_path: Path) -> Iterator[Exchange]:
    campaigns = [
        sample_campaign(),
        sample_campaign("paper", bidder="paper", expected_requests=100),
        sample_campaign("rolling", caps=(Cap(limit=2, span_seconds=60.0),)),
    ]
    with bidding(tmp_path, campaigns, lines=[]) as exchange:
        yield exchange


def test_no_mark_is_held_in_memory(exchange: Exchange) -> None:
    for _ in range(5):
        bid = as_response(exchange.bid(marked())).seatbid[0].bid[0]
        exchange.call(bid.nurl or "")
        exchange.call(bid.burl + f"&u={MARK}", bid.price)
        exchange.bid(marked())
    for body in broken():
        exchange.bid(body)
    gc.collect()
    assert found_in(exchange.state, exchange.site) == []


def test_the_walk_through_memory_finds_what_is_there(exchange: Exchange) -> None:
    exchange.state.log._kept = [{"deep": (MARK,)}]  # type: ignore[attr-defined]
    assert found_in(exchange.state, exchange.site) == ["str"]
    exchange.state.log._kept = {"lat": LAT}  # type: ignore[attr-defined]
    assert found_in(exchange.site) == ["float"]


def test_a_failure_inside_is_told_and_logged_without_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever breaks while a request is looked at: its text, its cause, its notes stay inside."""
    lines: list[str] = []
    with bidding(tmp_path, [sample_campaign()], lines=lines) as exchange:
        bidder = exchange.state.catalogue_bidders["v1"]

        def breaks(*_: object, **__: object) -> None:
            error = RuntimeError(f"cannot work on {MARK}")
            error.add_note(MARK)
            raise error from ValueError(MARK)

        monkeypatch.setattr(type(bidder), "begin_request", breaks)
        reply = exchange.bid(marked())
        assert reply.status == 500
        assert list(reply.document) == ["error"]
        assert_clean(reply.body, "the answer")
        gc.collect()
        assert found_in(exchange.state, exchange.site) == []
        assert_clean(exchange.ask("GET", "/metrics").body, "metrics")
    assert any("request failed" in line and "RuntimeError" in line for line in lines)
    assert_clean("".join(lines).encode(), "the log")


def test_nothing_is_left_of_a_request_that_was_decoded() -> None:
    """The types that a request becomes have no place for an identity."""
    from kreach.boundary.openrtb import decode_request

    request = decode_request(json.dumps(marked()).encode())
    texts = [here for here in reachable(request) if isinstance(here, str) and MARK in here]
    # other providers' names and segments are read, in search of ours, and dropped with the request;
    # so is the consent string
    assert set(texts) == {f"{MARK}-dmp", f"{MARK}-consent", MARK}
