"""A market in time of its own: real bidders, a real Redis, and a clock that only the test moves.

What a fleet reaches beside a single bidder must not depend on how busy this machine is. So requests
come at set moments, plans are made when they are due, and bidders tell each other every so many
requests.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.campaigns.campaign import Campaign, Creative
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.measurement.report import measure
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.service.logs import Log
from tests.adsystem.ledger.sample_journals import all_rows
from tests.adsystem.sharing.fleet_bidders import FleetBidder, settle
from tests.faults.service_processes import bid_request, parse_bid

START = datetime(2026, 11, 1, tzinfo=UTC)
GROUP_SIZE = 30
MU, SIGMA = 2.3, 0.7  # of ln(price per thousand): slices hold many bids
_AT_ONCE = 8


class SimulatedMarket:
    """Requests of a flight, in the same order for whoever is asked."""

    def __init__(self, groups: int, requests: int, seconds: float, seed: int) -> None:
        self.groups, self.requests, self.seconds = groups, requests, seconds
        generator = np.random.default_rng(seed)
        self.who = generator.integers(0, groups, requests).tolist()
        self.prices = generator.lognormal(MU, SIGMA, requests).tolist()
        # what bidders know of the traffic when the flight begins
        self._before = generator.poisson(20 * requests / groups, groups).astype(np.uint32)

    def campaign(self, budget: float, **more: Any) -> Campaign:
        end = START + timedelta(seconds=self.seconds)
        given: dict[str, Any] = {"market_mu": MU, "market_sigma": SIGMA, "max_cpm": 100.0}
        given["creative"] = Creative(markup="<b>ad</b>", width=300, height=250)
        return Campaign(id="one", budget=budget, start=START, end=end, **(given | more))

    @asynccontextmanager
    async def open(
        self, folder: Path, names: Sequence[str], url: str | None, campaign: Campaign, plans: int
    ) -> AsyncIterator[list[FleetBidder]]:
        """Bidders that have been there for a while; without an address of Redis, one alone."""
        ids = tuple(f"g{j:03d}" for j in range(self.groups))
        sizes = np.full(self.groups, GROUP_SIZE)
        write_catalogue(Catalogue("v1", START, GROUP_SIZE, ids, sizes), folder / "release")
        async with AsyncExitStack() as held:
            made = []
            for name in names:
                room = FleetBidder(
                    folder, name if url else None, names, url, plans=plans, sync_seconds=60.0
                )
                room.wall, room.passed = START.timestamp() - 1.0, 1_000.0
                kept = CampaignStore(room.store)
                kept.add(campaign)
                kept.close()
                self._remember(room.store)
                made.append(await held.enter_async_context(room.open()))
            if url is not None:
                await settle(lambda: all(_shares(one) for one in made), then=wake(made))
            yield made

    def _remember(self, store: Path) -> None:
        since = np.array([START.timestamp() - 20 * self.seconds], dtype=np.float64)
        journal = Journal(store, Log("test", lambda line: None))
        value = since.tobytes() + self._before.tobytes()
        journal.submit("memory", ("traffic:v1", int((START.timestamp() - 2.0) * 1e6), value))
        journal.close()

    async def run(self, rooms: Sequence[FleetBidder], plans: int, sync_every: int) -> None:
        """Ask in turn; whoever is asked pays the second price if it wins."""
        step = self.seconds / self.requests
        plan_every = max(self.requests // plans, 1)
        for at in range(0, self.requests, _AT_ONCE):
            for room in rooms:
                passed = (at + 1) * step - (room.wall - START.timestamp())
                room.pass_time(passed)
            if at % plan_every < _AT_ONCE:
                self._plan(rooms)
            if at % sync_every < _AT_ONCE or any(map(_asks, rooms)):
                await exchange(rooms)
            await _granted(rooms)
            chosen = range(at, min(at + _AT_ONCE, self.requests))
            await asyncio.gather(*(self._ask(rooms[i % len(rooms)], i) for i in chosen))
        await exchange(rooms)
        await exchange(rooms)

    def _plan(self, rooms: Sequence[FleetBidder]) -> None:
        for room in rooms:
            now = room.state.clock()
            for bidder in room.state.catalogue_bidders.values():
                for runtime in list(bidder.runtimes.values()):
                    task = bidder.plan_task(runtime, now)
                    if task is not None:
                        bidder.adopt(runtime, *task.run())

    async def _ask(self, room: FleetBidder, at: int) -> None:
        reply = await room.ask("/openrtb2/bid", bid_request(self.who[at]))
        if reply.status == 204:
            return
        sold = parse_bid(reply, room.wall, room.name)
        price = round(self.prices[at], 3)
        if sold.bid_micros < price * 1_000:
            await room.tell("loss", sold)
        else:
            assert await room.tell("billing", sold, price) == 200

    def outcome(self, rooms: Sequence[FleetBidder], cap: int) -> tuple[float, int, int]:
        """Expected reach, spend and impressions of all logs."""
        counts = np.zeros(self.groups, dtype=np.int64)
        spend = impressions = 0
        for room in rooms:
            found = room.state.journal.read("SELECT grp FROM impressions")
            counts += np.bincount([g for (g,) in found], minlength=self.groups)
            rows = all_rows(room.store)
            spend += sum(price for _, _, price, _ in rows)
            impressions += len(rows)
        bidder = next(iter(rooms[0].state.catalogue_bidders.values()))
        return measure(bidder.catalogue.audience(), counts, cap).reach, spend, impressions

    def spend_by_day(self, rooms: Sequence[FleetBidder]) -> Counter[int]:
        """What bids of each day of the flight cost."""
        found: Counter[int] = Counter()
        for room in rooms:
            for _, _, micros, bid_micros in all_rows(room.store):
                found[int((bid_micros / 1e6 - START.timestamp()) // 86_400)] += micros
        return found


def _shares(room: FleetBidder) -> bool:
    return room.state.fleet is not None and room.state.fleet.status.leasing


def _asks(room: FleetBidder) -> bool:
    """Whether it asks for money out of turn: in simulated time a sync takes none."""
    return room.state.fleet is not None and room.state.fleet.needs_money(1)


async def _granted(rooms: Sequence[FleetBidder]) -> None:
    """Grants are logged and campaigns active: in simulated time that takes none."""

    def written(room: FleetBidder) -> bool:
        fleet = room.state.fleet
        return not (room.state.grants.writing if fleet is None else fleet.writing_grants)

    for room in rooms:
        if room.state.fleet is None:
            room.state.request_money(1)
    await settle(lambda: all(map(written, rooms)))
    for room in rooms:
        for bidder in room.state.catalogue_bidders.values():
            bidder.update_active(room.state.clock())


def wake(rooms: Sequence[FleetBidder]) -> Callable[[], None]:
    """Have all sync now."""

    def all_of_them() -> None:
        for room in rooms:
            if room.state.fleet is not None:
                room.state.fleet.sync_soon()

    return all_of_them


async def exchange(rooms: Sequence[FleetBidder]) -> None:
    """One exchange of each."""
    begun = time.monotonic()
    wake(rooms)()
    members = [room.state.fleet for room in rooms]
    await settle(lambda: all(one is None or one.synced_at > begun for one in members))
