"""Bidders of this process that share a budget through a real Redis; the test sets their clocks."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kreach.adsystem.bidserver.app import bidder_app
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.settings import AdSystemSettings
from kreach.adsystem.store_layout import bidder_store
from kreach.service.clock import SteadyClock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from tests.adsystem.ledger.sample_journals import all_rows
from tests.adsystem.sharing.faulty_members import settings_for
from tests.faults.in_process_bidder import InProcessBidder

__all__ = ["FleetBidder", "fleet_bidders", "settle", "spend_all"]


class FleetBidder(InProcessBidder):
    """One of several bidders: a folder of its own below the store."""

    def __init__(
        self,
        folder: Path,
        name: str | None,
        names: Sequence[str],
        url: str | None,
        *,
        sync_seconds: float = 0.02,
        **more: Any,
    ) -> None:
        """Without an address of Redis it is alone."""
        super().__init__(folder, None, name=name, **more)
        self._redis = None
        if url is not None:
            self._redis = settings_for(url, names, sync_seconds=sync_seconds, timeout_seconds=1.0)
        shared = AdSystemSettings(store=folder / "store", catalogues=(folder / "release",))
        self._shared = bidder_store(shared, name)
        self.store = self._shared.store

    @asynccontextmanager
    async def open(self, *, dies: bool = False) -> AsyncIterator["FleetBidder"]:
        self.state = BidderState(
            self._shared,
            self._settings,
            Log("bidder", lambda line: self.lines.append(json.loads(line))),
            redis=self._redis,
            clock=lambda mark, **more: SteadyClock(
                mark, lambda: self.wall, lambda: self.passed, boot=1, **more
            ),
        )
        self._site = bidder_app(self.state, Metrics("bidder"))
        await self.state.start()
        try:
            yield self
        finally:
            if dies:
                await self._die()
            else:
                await self.state.stop()

    async def _die(self) -> None:
        await super()._die()
        assert self.state.fleet is not None
        await asyncio.to_thread(self.state.fleet.disconnect)

    @property
    def account(self) -> Any:
        return self.state.ledger.accounts[1]

    @property
    def awake(self) -> bool:
        """Whether it would bid: money has come, and somebody has looked."""
        runtime = next(iter(self.state.catalogue_bidders.values())).runtimes.get(1)
        return runtime is not None and runtime.active

    def spent(self) -> int:
        """What the log says."""
        return sum(price for _, _, price, _ in all_rows(self.store))


def fleet_bidders(
    folder: Path,
    names: Sequence[str],
    url: str,
    *campaigns: Campaign,
    families: Sequence[Family] = (),
    **more: Any,
) -> list[FleetBidder]:
    """Bidders that know the same campaigns."""
    InProcessBidder(folder, campaigns, families)  # the catalogue
    made = [FleetBidder(folder, name, names, url, **more) for name in names]
    for room in made:
        room.wall = campaigns[0].start.timestamp() + 10.0
        kept = CampaignStore(room.store)
        for family in families:
            kept.add_family(family)
        for campaign in campaigns:
            kept.add(campaign)
        kept.close()
    return made


async def settle(true: Callable[[], object], then: Callable[[], object] | None = None) -> None:
    """Wait for something that must come; `then` helps."""
    async with asyncio.timeout(180.0):
        while not true():
            if then is not None:
                then()
            await asyncio.sleep(0.005)


async def spend_all(chosen: Sequence[FleetBidder], patience: int = 25) -> list[int]:
    """Bid and pay the whole bid, wherever there is money, until there is none; what each spent."""
    before = [room.spent() for room in chosen]
    dry = group = 0
    while dry < patience:
        found = False
        for room in chosen:
            group += 1
            sold = await room.may_bid(group % 40)
            if sold is not None:
                assert await room.tell("billing", sold, sold.bid_micros / 1_000) == 200
                found = True
        dry = 0 if found else dry + 1
        if not found:
            await asyncio.sleep(0.02)
    return [room.spent() - was for room, was in zip(chosen, before, strict=True)]
