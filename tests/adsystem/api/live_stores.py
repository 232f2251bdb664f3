"""A store with a running bidder, whose clock the test sets, and reporting on it."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np

import kreach as kr
from kreach.adsystem.api.app import reporting_app
from kreach.adsystem.bidserver.app import bidder_app
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.campaigns.campaign import Campaign, Cap, Creative
from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.reports import report as types
from kreach.adsystem.reports.combined_report import CombinedDocument
from kreach.adsystem.settings import AdSystemSettings, BidderSettings, ReportingSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.numeric.types import IntArray
from kreach.service.clock import FollowingClock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from tests.adsystem.bidserver.sample_bidders import settled

START = datetime(2026, 11, 1, tzinfo=UTC)  # a Sunday
END = START + timedelta(days=30)
KINDS = ("disjoint", "dispersed", "profiled", "overlapping")
GROUPS = 30


def quiet(service: str) -> Log:
    """A log that nobody reads."""
    return Log(service, write=lambda line: None)


def make_catalogue(kind: str, version: str = "v1", groups: int = GROUPS) -> Catalogue:
    """A small catalogue of each kind, sizes mixed."""
    generator = np.random.default_rng(groups)
    names = tuple(f"{version}-g{j:04d}" for j in range(groups))
    sizes = generator.integers(5, 9, groups)
    shares = None
    classes = None
    if kind == "profiled":
        shares = tuple(np.sort(generator.dirichlet(np.ones(size))) for size in sizes)
    if kind == "overlapping":
        sizes = np.full(groups, 8)
        classes = tuple(((j, (j + 1) % groups), 4) for j in range(groups))
    dispersion = 0.7 if kind == "dispersed" else None
    created = START - timedelta(days=1)
    return Catalogue(version, created, 5, names, sizes, dispersion, shares, classes, 4)


def make_campaign(name: str, **more: Any) -> Campaign:
    """A campaign rich enough to win nearly everything."""
    given: dict[str, Any] = {
        "id": name,
        "budget": 10_000.0,
        "start": START,
        "end": END,
        "caps": (Cap(limit=2),),
        "max_cpm": 100.0,
        "creative": Creative(markup="<b>ad</b>", width=300, height=250),
        "market_mu": 0.0,
        "market_sigma": 1.0,
    }
    return Campaign(**(given | more))


class LiveStore:
    """A bidder on a store, an exchange that sells it everything, and the expected counts."""

    def __init__(self, folder: Path, *catalogues: Catalogue) -> None:
        for catalogue in catalogues:
            write_catalogue(catalogue, folder / catalogue.version)
        self.catalogues = catalogues
        self.shared = AdSystemSettings(
            store=folder / "store",
            catalogues=tuple(folder / catalogue.version for catalogue in catalogues),
        )
        self.now = START.timestamp() + 1.0
        self.sold: list[tuple[str, str, int, float, int]] = []
        """Campaign, version, group, time, micros."""
        self.state: BidderState | None = None

    def add_family(self, family: Family) -> None:
        """Store a family before its campaigns."""
        store = CampaignStore(self.shared.store)
        store.add_family(family)
        store.close()

    def add(self, *campaigns: Campaign) -> None:
        """Store campaigns before the bidder starts."""
        store = CampaignStore(self.shared.store)
        for campaign in campaigns:
            store.add(campaign)
        store.close()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["LiveStore"]:
        """With the bidder running."""
        settings = BidderSettings(
            expiry_seconds=60, pacing_seconds=0.05, compaction_seconds=3600, first_bid_share=1.0
        )
        state = BidderState(
            self.shared,
            settings,
            quiet("bidder"),
            clock=lambda mark, **_: FollowingClock(mark, lambda: self.now),
        )
        self._site = bidder_app(state, Metrics("bidder"))
        await state.start()
        self.state = state
        await settled(state)
        try:
            yield self
        finally:
            self.state = None
            await state.stop()

    async def caught_up(self) -> None:
        """Until the bidder bids by the campaigns as they are now, and has money for them."""
        assert self.state is not None
        with closing(CampaignStore(self.shared.store)) as kept:
            newest = max(one.revision for one in kept.all())
        async with asyncio.timeout(120.0):
            while self.state._revision < newest:
                await asyncio.sleep(0.02)
        await settled(self.state)

    async def _call(self, method: str, path: str, body: bytes = b"", query: bytes = b"") -> Any:
        messages: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, Any]) -> None:
            messages.append(message)

        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query,
        }
        scope["headers"] = [(b"host", b"127.0.0.1")]
        await self._site(scope, receive, send)
        return messages[0]["status"], messages[1]["body"]

    async def sell(self, groups: Sequence[int], catalogue: Catalogue | None = None) -> int:
        """Offer a place to each group in turn; whoever bids gets it and is billed."""
        catalogue = catalogue or self.catalogues[-1]
        before = len(self.sold)
        for group in groups:
            data = {
                "name": "kreach",
                "segment": [{"id": catalogue.groups[group]}],
                "ext": {"catalogue": catalogue.version},
            }
            request = {"id": "r", "imp": [{"id": "1", "banner": {}}], "user": {"data": [data]}}
            status, answer = await self._call("POST", "/openrtb2/bid", json.dumps(request).encode())
            if status != 200:
                continue
            bid = json.loads(answer)["seatbid"][0]["bid"][0]
            token = bid["burl"].rpartition("/")[2].partition("?")[0]
            price = min(bid["price"], 0.5)  # per thousand
            status, _ = await self._call(
                "GET", f"/openrtb2/billing/{token}", query=b"price=%.6f" % price
            )
            assert status == 200
            micros = int(np.ceil(round(float(f"{price:.6f}") * 1_000, 6)))
            self.sold.append((bid["cid"], catalogue.version, group, self.now, micros))
        return len(self.sold) - before

    def compact(self) -> int:
        """Let everything expire, and have it moved into files."""
        assert self.state is not None
        self.now += 100.0
        moved = self.state.compactor.compact()
        self.state.journal.catalogue_number(self.catalogues[-1].version)  # waits for the log
        return moved

    def counts(
        self, campaign: str, catalogue: Catalogue, start: float = 0.0, end: float = 1e12
    ) -> IntArray:
        """The truth about impressions by group."""
        tally = Counter(
            group
            for name, version, group, ts, _ in self.sold
            if name == campaign and version == catalogue.version and start <= ts < end
        )
        return np.array([tally[group] for group in range(len(catalogue))], dtype=np.int64)

    def measured(
        self, campaign: str, catalogue: Catalogue, cap: int, start: float = 0.0, end: float = 1e12
    ) -> "kr.ReachReport":
        """What the library says of the truth."""
        counts = self.counts(campaign, catalogue, start, end)
        return kr.measure(catalogue.audience(), counts, cap)


@asynccontextmanager
async def reporting(live: LiveStore, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a reporting service on the store."""
    app = reporting_app(live.shared, ReportingSettings(**settings), quiet("reporting"))
    transport = httpx.ASGITransport(app)
    hooks: dict[str, list[Any]] = {"response": [_check_type]}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8403", event_hooks=hooks
        ) as client,
    ):
        yield client


_ANSWERS = {
    "reach": types.ReachDocument,
    "series": types.SeriesDocument,
    "curve": types.CurveDocument,
    "pacing": types.PacingDocument,
    "plan": types.PlanDocument,
    "campaigns": types.CampaignList,
    "catalogues": types.CatalogueList,
}


async def _check_type(response: httpx.Response) -> None:
    """Every answer reads back as its report type, as the console reads it."""
    await response.aread()
    name = response.url.path.rpartition("/")[2]
    kind: type[Any] | None = _ANSWERS.get(name)
    if response.url.path == "/v1/reach" or ("families" in response.url.path and name == "reach"):
        kind = CombinedDocument
    if response.request.method == "GET" and response.url.path.startswith("/v1/campaigns/"):
        kind = kind or types.CampaignStatus
    if response.status_code >= 400:
        kind = None if response.url.path in ("/healthz", "/readyz") else types.ErrorDocument
    if kind is not None and response.request.method == "GET":
        msgspec.json.decode(response.content, type=kind)
