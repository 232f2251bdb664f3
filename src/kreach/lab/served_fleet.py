"""Several live bidders on simulated time that share budgets and counts through a real Redis.

Each has its own journal and the code of `kreach.adsystem.sharing`; requests are split among them at
random. They sync every minute of simulated time, and at once where a campaign needs money: far less
often than bidders do, so what goes stale here goes stale less in a real flight.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from kreach.adsystem.bidding.arrivals import Traffic
from kreach.adsystem.bidserver.campaign_runtime import CampaignRuntime
from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.campaigns.store import CampaignStore, StoredCampaign
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.journal import Done, Journal
from kreach.adsystem.ledger.tokens import Claim
from kreach.adsystem.settings import BidderSettings, RedisSettings
from kreach.adsystem.sharing.fleet_member import FleetMember, PeerImpressions, SharedPlace
from kreach.boundary.times import MICROS
from kreach.boundary.visit_model import VisitModel
from kreach.lab.auctions import Stream
from kreach.lab.served import EXPIRY_SECONDS, Delivery, ServedBidder
from kreach.numeric.types import IntArray
from kreach.service.logs import Log

__all__ = ["FleetBidder", "serve_fleet"]

_TICK_SECONDS = 120.0
_SYNC_SECONDS = 60.0


class FleetBidder(ServedBidder):
    """One bidder of a fleet, with a folder of its own: the `LocalBidder` of its membership."""

    def __init__(
        self,
        folder: Path,
        name: str,
        redis: RedisSettings,
        sizes: IntArray,
        model: VisitModel | None,
        start: float,
        settings: BidderSettings | None = None,
        seed: int = 0,
    ) -> None:
        folder.mkdir(parents=True)
        self.store, self.log = folder, Log("bidder", lambda line: None)
        self.journal = Journal(folder, self.log)
        self.campaigns = CampaignStore(folder)
        self.stored_campaigns: dict[int, StoredCampaign] = {}
        super().__init__(sizes, model, start, settings, seed)
        self.catalogue_number = self.journal.catalogue_number(self.bidder.catalogue.version)
        self._at = start
        self._redis, self._name = redis, name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._member: FleetMember | None = None

    @property
    def member(self) -> FleetMember:
        """Its membership; the first call must be on the event loop."""
        if self._member is None:
            self._loop = asyncio.get_running_loop()
            self._member = FleetMember(self, self._redis, self._name)
        return self._member

    def _open_account(self, campaign: Campaign) -> tuple[int, Account]:
        stored = self.campaigns.add(campaign)
        self.stored_campaigns[stored.number] = stored
        account = self.new_account(campaign)
        account.day_grants = {}
        return stored.number, account

    def _won(self, runtime: CampaignRuntime, claim: Claim, micros: int, now: float) -> None:
        super()._won(runtime, claim, micros, now)
        row = (claim.impression, claim.campaign, self.catalogue_number, claim.group)
        times = (int(now * MICROS), claim.issued_micros, claim.expires)
        self.journal.submit("impression", (*row, *times, micros))

    async def sync(self, now: float) -> None:
        """Send and receive once, with all rows and grants on disk before and after."""
        self._at = now
        self.journal.run_now(lambda _: None)
        await self.member.sync()
        while self.member.writing_grants:
            self.journal.run_now(lambda _: None)
            await asyncio.sleep(0)

    async def sync_if_short(self, now: float) -> None:
        """Sync if a campaign of its own needs money."""
        self._at = now
        if any(self.member.needs_money(number) for number in self.accounts):
            await self.sync(now)
            self.bidder.update_active(now)

    def close(self) -> None:
        """Give back what is leased, and close the store."""
        if self._member is not None:
            self._member.close()
        self.journal.close()
        self.campaigns.close()

    # -- for the fleet ------------------------------------------------------------------------

    @property
    def expiry_seconds(self) -> int:
        """How long a bid may be out."""
        return EXPIRY_SECONDS

    @property
    def accounts(self) -> Mapping[int, Account]:
        """By campaign number."""
        return self._ledger.accounts

    @property
    def revision(self) -> int:
        """Campaigns are added here, not copied from reporting."""
        return max((stored.revision for stored in self.stored_campaigns.values()), default=0)

    @property
    def family_revision(self) -> int:
        """No campaign is in a family."""
        return 0

    def family_of(self, stored: StoredCampaign) -> None:
        """No campaign is in a family."""

    @property
    def traffic(self) -> Mapping[str, Traffic]:
        """Requests by group, by catalogue version."""
        return {self.bidder.catalogue.version: self.bidder.traffic}

    @property
    def replicated_row(self) -> int | None:
        """Disks do not get lost in simulations."""
        return None

    def now(self) -> float:
        """Simulated seconds since 1970."""
        return self._at

    def places(self) -> Iterable[SharedPlace]:
        """Campaigns and their catalogue."""
        return [(number, self.bidder.catalogue.version) for number in self.bidder.runtimes]

    def add_peer_impressions(self, new: PeerImpressions) -> None:
        """Count impressions of other bidders."""
        self.bidder.add_impressions(new.campaign, new.groups, new.impressions, new.times)

    def set_low_funds(self, number: int, micros: int) -> None:
        """Does nothing: `sync_if_short` looks at every request."""

    def on_loop(self, done: Done) -> Done:
        """A callback of the journal's thread, moved to the event loop."""

        def moved(error: Exception | None) -> None:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(done, error)

        return moved


def serve_fleet(
    bidders: Sequence[FleetBidder],
    stream: Stream,
    events: Sequence[tuple[float, Callable[[], object]]] = (),
    seed: int = 0,
) -> dict[int, Delivery]:
    """Run a stream (times since 1970) through a fleet; what campaigns got from all bidders."""
    asyncio.run(_serve(bidders, stream, sorted(events, key=lambda event: event[0]), seed))
    found: dict[int, Delivery] = {}
    for number, first in bidders[0].deliveries.items():
        each = [bidder.deliveries[number] for bidder in bidders]
        reasons = [one.shortfall for one in each]
        wins = sorted(at for one in each for at in one.wins)
        spend = sum(one.spend for one in each)
        reason = reasons[0] if all(reasons) else None
        found[number] = Delivery(first.campaign, spend, wins, reason)
    return found


async def _serve(
    bidders: Sequence[FleetBidder],
    stream: Stream,
    events: list[tuple[float, Callable[[], object]]],
    seed: int,
) -> None:
    chosen = np.random.default_rng(seed).integers(len(bidders), size=len(stream.at)).tolist()
    columns = (stream.group, stream.at, stream.price, stream.person)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    next_tick = next_sync = -np.inf
    for at, (group, now, price, person) in enumerate(rows):
        while events and events[0][0] <= now:
            events.pop(0)[1]()
            next_tick = next_sync = -np.inf
        if now >= next_sync:
            for bidder in (*bidders, *bidders):  # twice: what one sends another receives
                await bidder.sync(now)
            next_sync = now + _SYNC_SECONDS
        if now >= next_tick:
            for bidder in bidders:
                bidder.tick(now)
            next_tick = now + _TICK_SECONDS
        bidder = bidders[chosen[at]]
        await bidder.sync_if_short(now)
        bidder.request(at, group, now, price, person)
    for bidder in bidders:
        await asyncio.to_thread(bidder.close)
