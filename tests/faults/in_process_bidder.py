"""A bidder in this process, whose clocks the test sets and which can die without a word."""

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.bidserver.app import bidder_app
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.settings import AdSystemSettings, BidderSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.service.clock import SteadyClock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from tests.adsystem.bidserver.sample_bidders import settled
from tests.adsystem.ledger.sample_journals import all_rows
from tests.faults.service_processes import (
    GROUPS,
    TOKEN_KEY,
    Reply,
    Sold,
    bid_request,
    make_campaign,
    parse_bid,
)

__all__ = ["START", "InProcessBidder", "a_campaign"]

START = datetime(2026, 11, 1, tzinfo=UTC)


def a_campaign(name: str = "one", budget: float = 50.0, **more: Any) -> Campaign:
    """A campaign of ten days."""
    flight = {"start": START, "end": START + timedelta(days=10)}
    return make_campaign(name, budget, **(flight | more))


class InProcessBidder:
    """A store, two clocks, and a bidder that comes and goes."""

    def __init__(
        self,
        folder: Path,
        campaigns: Sequence[Campaign] | None = None,
        families: Sequence[Family] = (),
        **settings: Any,
    ) -> None:
        self.store = folder / "store"
        self.wall = START.timestamp() + 10.0
        if campaigns is None:  # the store of somebody who has died
            self.wall = time.time()
        else:
            self._furnish(folder, campaigns, families)
        self._shared = AdSystemSettings(store=self.store, catalogues=(folder / "release",))
        given: dict[str, Any] = {"expiry_seconds": 60, "pacing_seconds": 0.05}
        given |= {"compaction_seconds": 3_600, "first_bid_share": 1.0, "token_key": TOKEN_KEY}
        self._settings = BidderSettings(**(given | settings))
        self.name = self._settings.name or ""
        self.passed = 1_000.0  # of the monotonic clock
        self.lines: list[dict[str, Any]] = []

    def _furnish(
        self, folder: Path, campaigns: Sequence[Campaign], families: Sequence[Family]
    ) -> None:
        ids = tuple(f"g{j:03d}" for j in range(GROUPS))
        write_catalogue(Catalogue("v1", START, 20, ids, np.full(GROUPS, 30)), folder / "release")
        kept = CampaignStore(self.store)
        for family in families:
            kept.add_family(family)
        for campaign in campaigns:
            kept.add(campaign)
        kept.close()

    def pass_time(self, seconds: float) -> None:
        """Both clocks go on."""
        self.wall += seconds
        self.passed += seconds

    @asynccontextmanager
    async def open(self, *, dies: bool = False) -> AsyncIterator["InProcessBidder"]:
        """With the bidder running; at the end it stops in order, or dies."""
        self.state = state = BidderState(
            self._shared,
            self._settings,
            Log("bidder", lambda line: self.lines.append(json.loads(line))),
            clock=lambda mark, **more: SteadyClock(
                mark, lambda: self.wall, lambda: self.passed, boot=1, **more
            ),
        )
        self._site = bidder_app(state, Metrics("bidder"))
        await state.start()
        await self.settled()
        try:
            yield self
        finally:
            if dies:
                await self._die()
            else:
                await state.stop()

    async def _die(self) -> None:
        """Let go of the store without writing down how things stand."""
        state = self.state
        await state.tasks.cancel()
        await state.planner.close()
        await asyncio.to_thread(state.journal.close)
        state.campaigns.close()

    async def settled(self) -> None:
        """Let every task have its turn: money is granted, campaigns wake, bids expire."""
        await settled(self.state)

    async def ask(self, path: str, body: bytes | None = None) -> Reply:
        """One request, straight to the application."""
        told: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body or b""}

        async def send(message: dict[str, Any]) -> None:
            told.append(message)

        route, _, query = path.partition("?")
        method = "GET" if body is None else "POST"
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": route,
            "query_string": query.encode(),
        }
        scope["headers"] = [(b"host", b"127.0.0.1")]
        await self._site(scope, receive, send)
        head = b"".join(b"%b: %b\r\n" % header for header in told[0]["headers"])
        return Reply(told[0]["status"], head, told[1]["body"])

    async def bid(self, group: int = 0, **imp: Any) -> Sold:
        """A bid that must be made."""
        reply = await self.ask("/openrtb2/bid", bid_request(group, **imp))
        assert reply.status == 200, reply
        return parse_bid(reply, self.wall, self.name)

    async def may_bid(self, group: int = 0) -> Sold | None:
        """A bid, if there is one."""
        reply = await self.ask("/openrtb2/bid", bid_request(group))
        assert reply.status in {200, 204}, reply
        return parse_bid(reply, self.wall, self.name) if reply.status == 200 else None

    async def tell(self, kind: str, sold: Sold, price: object = None) -> int:
        """A notice; its status."""
        query = "" if kind != "billing" else f"?price={price if price is not None else 0.001}"
        return (await self.ask(f"/openrtb2/{kind}/{sold.token}{query}")).status

    def counted(self, campaign: int = 1) -> list[int]:
        """Impressions by group that a campaign believes in."""
        runtime = next(iter(self.state.catalogue_bidders.values())).runtimes[campaign]
        found: list[int] = runtime.bidder.valuation.counts().tolist()
        return found

    def numbers(self) -> list[int]:
        """Impressions in the log."""
        return [number for number, *_ in all_rows(self.store)]

    def read(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the journal."""
        with closing(sqlite3.connect(self.store / "live.sqlite3")) as connection:
            return connection.execute(sql).fetchall()

    def troubles(self) -> list[dict[str, Any]]:
        """What was logged as wrong."""
        return [line for line in self.lines if line["level"] != "info"]
