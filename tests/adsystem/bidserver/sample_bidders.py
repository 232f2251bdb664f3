"""Bidders for tests: a small store, the application between its start and its stop, requests."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import numpy as np

from kreach.adsystem.bidserver.app import bidder_app
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.campaigns.campaign import Campaign, Creative
from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.settings import AdSystemSettings, BidderSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.boundary.openrtb import BidResponse
from kreach.service.clock import FollowingClock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.web import App

__all__ = [
    "AT_ONCE",
    "NOW",
    "Exchange",
    "ManualClock",
    "Reply",
    "as_response",
    "bidding",
    "sample_campaign",
    "sample_catalogue",
    "sample_request",
    "settled",
    "user_data",
]

T = TypeVar("T")
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CREATIVE = Creative(markup="<b>ad</b>", width=300, height=250)
AT_ONCE = 10_000  # ms of time to answer: no test depends on how fast a machine is


class ManualClock:
    """A clock that tests set."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now.timestamp()

    def __call__(self) -> float:
        return self.now


def sample_catalogue(
    groups: int = 6, version: str = "v1", size: int = 20, **more: Any
) -> Catalogue:
    """Groups g0, g1, … of one size, unless `sizes` says otherwise."""
    sizes = more.pop("sizes", np.full(groups, size))
    ids = tuple(f"g{j}" for j in range(groups))
    return Catalogue(version, NOW, int(min(sizes)), ids, sizes, **more)


def sample_campaign(name: str = "spring", **more: Any) -> Campaign:
    """A campaign that runs from a minute before NOW, too early for plans, until a week after."""
    told: dict[str, Any] = {
        "budget": 1_000.0,
        "start": NOW - timedelta(minutes=1),
        "end": NOW + timedelta(days=7),
        "market_mu": 0.0,
        "market_sigma": 1.0,
        "max_cpm": 50.0,
    }
    if "creatives" not in more:
        told["creative"] = CREATIVE
    return Campaign(id=name, **(told | more))


def user_data(group: str | None = "g0", catalogue: str | None = "v1", name: str = "kreach") -> Any:
    """What a provider says about a user."""
    return {"name": name, "segment": [{"id": group}], "ext": {"catalogue": catalogue}}


def sample_request(group: str = "g0", **more: Any) -> dict[str, Any]:
    """A request for one place, of a user of this group."""
    told = {
        "id": "request-1",
        "tmax": AT_ONCE,
        "imp": [{"id": "1", "banner": {"w": 300, "h": 250}}],
        "user": {"data": [user_data(group)]},
    }
    return told | more


class Reply(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes
    counted: str = ""  # the reason that was counted, if there is no bid

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        """Why there is no bid, as the metrics have it."""
        return self.counted


def as_response(reply: Reply) -> BidResponse:
    """A bid response, decoded strictly by its schema."""
    import msgspec

    assert reply.status == 200, (reply.status, reply.headers, reply.body)
    assert reply.headers["content-type"] == "application/json"
    return msgspec.json.decode(reply.body, type=BidResponse)


class Exchange:
    """Whoever talks to a bidder that lives in this thread."""

    def __init__(
        self, state: BidderState, site: App, runner: asyncio.Runner, metrics: Metrics
    ) -> None:
        self.state, self.site, self._runner, self._metrics = state, site, runner, metrics

    async def asked(self, method: str, path: str, body: bytes = b"", query: bytes = b"") -> Reply:
        """One request, straight to the application."""
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query,
        }
        scope["headers"] = [(b"host", b"127.0.0.1")]
        before = self._metrics.values("no_bids")
        await self.site(scope, receive, send)
        after = self._metrics.values("no_bids")
        counted = [reason for reason, count in after.items() if count != before.get(reason, 0)]
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        reason = counted[0] if counted else ""
        assert headers.get("x-no-bid", reason) == reason
        return Reply(sent[0]["status"], headers, sent[1]["body"], reason)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Let something go on until it ends."""
        return self._runner.run(work)

    def ask(self, method: str, path: str, body: bytes = b"", query: bytes = b"") -> Reply:
        """One request and its answer."""
        return self._runner.run(self.asked(method, path, body, query))

    def bid(self, request: object) -> Reply:
        """A bid request: raw bytes, or what becomes JSON."""
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        return self.ask("POST", "/openrtb2/bid", body)

    def call(self, address: str, price: float | None = None) -> Reply:
        """Follow a notice's address, as an exchange would."""
        if price is not None:
            address = address.replace("${AUCTION_PRICE}", f"{price:.3f}")
        parts = urlsplit(address)
        return self.ask("GET", parts.path, query=parts.query.encode())

    def win(self, group: str = "g0", **more: Any) -> Reply:
        """A bid that wins and is billed at half its price; the bid's reply."""
        reply = self.bid(sample_request(group, **more))
        bid = as_response(reply).seatbid[0].bid[0]
        assert self.call(bid.burl, bid.price / 2).status == 200
        return reply

    def price(self, group: str = "g0", **more: Any) -> float:
        """What is bid for a request; the bid is taken back at once."""
        bid = as_response(self.bid(sample_request(group, **more))).seatbid[0].bid[0]
        assert self.call(bid.lurl).status == 200
        return bid.price

    def wait(self, until: Callable[[], object], seconds: float = 60.0) -> None:
        """Let the bidder's own work go on until something is true."""

        async def waiting() -> None:
            for _ in range(int(seconds / 0.02)):
                if until():
                    return
                await asyncio.sleep(0.02)
            raise AssertionError("it did not happen in time")

        self._runner.run(waiting())

    def rest(self, seconds: float = 0.25) -> None:
        """Let a few ticks of the bidder's clock pass."""
        self._runner.run(asyncio.sleep(seconds))

    def metric(self, name: str) -> float:
        """A line of /metrics, by its name and labels."""
        lines = self.ask("GET", "/metrics").body.decode().splitlines()
        return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + " "))


async def settled(state: BidderState) -> None:
    """Let every task of a bidder have its turn, however slow the disk is."""
    await state._tick()  # asks for money, bids expire
    written = asyncio.to_thread(state.journal.run_now, lambda _: None)
    await asyncio.wait([asyncio.ensure_future(written)], timeout=10.0)  # it is granted
    await state._tick()  # wakes campaigns


@contextmanager
def bidding(
    folder: Path,
    campaigns: Sequence[Campaign] = (),
    *,
    families: Sequence[Family] = (),
    catalogues: Sequence[Catalogue] | None = None,
    audiences: dict[str, Path] | None = None,
    currency: str = "USD",
    clock: Callable[[], float] | None = None,
    lines: list[str] | None = None,
    asleep: bool = False,
    rates: dict[str, float] | None = None,
    **settings: Any,
) -> Iterator[Exchange]:
    """A bidder on a store, from its start to its stop. `asleep`: do not wait for who may bid."""
    catalogues = [sample_catalogue()] if catalogues is None else catalogues
    for catalogue in catalogues:
        write_catalogue(catalogue, folder / catalogue.version)
    store = CampaignStore(folder / "store")
    for family in families:
        store.add_family(family)
    for campaign in campaigns:
        store.add(campaign)
    store.close()
    shared = AdSystemSettings(
        store=folder / "store",
        catalogues=tuple(folder / catalogue.version for catalogue in catalogues),
        audiences=audiences or {},
        currency=currency,
        rates=rates or {},
        rates_date=NOW.date(),
    )
    log = Log("bidder", (lambda _: None) if lines is None else lines.append)
    hands = clock or ManualClock()
    state = BidderState(
        shared,
        BidderSettings(**({"first_bid_share": 1.0} | settings)),
        log,
        clock=lambda mark, **_: FollowingClock(mark, hands),
    )
    metrics = Metrics("bidder")
    site = bidder_app(state, metrics)
    with asyncio.Runner() as runner:
        runner.run(state.start())
        exchange = Exchange(state, site, runner, metrics)
        try:
            if not asleep:
                runtimes = [
                    runtime
                    for bidder in state.catalogue_bidders.values()
                    for runtime in bidder.runtimes.values()
                ]
                exchange.wait(lambda: all(runtime.active for runtime in runtimes))
            yield exchange
        finally:
            runner.run(state.stop())
