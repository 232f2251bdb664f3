"""A bidder's membership in a fleet that shares budgets and counts through Redis.

None of this is on the path of a bid. A few times a second the event loop hands a thread what to
send and applies what it received. In between, and while Redis is slow or gone, the bidder bids from
memory, within the money that is leased already.

`FleetMember` is all that the bid server uses of this package, and `LocalBidder` all that this
package uses of the bid server.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kreach.adsystem.bidding.arrivals import Traffic
from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.campaigns.store import CampaignStore, StoredCampaign
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.journal import Done, Journal
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.fleet_clocks import FleetClocks
from kreach.adsystem.sharing.grants import Grants
from kreach.adsystem.sharing.leases import apply_day_lease, budget_status, lease_size
from kreach.adsystem.sharing.own_rows import rolling_since
from kreach.adsystem.sharing.peer_counts import PeerCounts, PeerImpressions
from kreach.adsystem.sharing.recovery import DeadBidders, recovery_lock
from kreach.adsystem.sharing.redis_client import Connect, RedisUnavailable
from kreach.adsystem.sharing.redis_pool import (
    BudgetStatus,
    LeaseGrant,
    RedisPool,
    RedisRestarted,
    SharedPlace,
    SyncReply,
)
from kreach.adsystem.sharing.row_feed import RowFeed
from kreach.adsystem.sharing.shared_traffic import Requests, SharedTraffic
from kreach.errors import KreachError
from kreach.service.logs import Log

__all__ = ["FleetMember", "FleetStatus", "LocalBidder", "PeerImpressions", "SharedPlace"]

_MIN_SYNC_SECONDS = 0.02  # between two syncs, however urgent
_RECOVERY_SECONDS = 1.0
_CLOCK_SECONDS = 5.0  # between two comparisons of clocks
_OPENING_SECONDS = 60.0  # how long a start waits for a bidder that recovers its log


class LocalBidder(Protocol):
    """What a fleet member needs of its bidder. Only `campaigns` is used outside the event loop."""

    @property
    def store(self) -> Path:
        """The bidder's own folder."""

    @property
    def log(self) -> Log: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def campaigns(self) -> CampaignStore:
        """Where campaigns from reporting are copied to."""

    @property
    def expiry_seconds(self) -> int:
        """How long a bid may be out."""

    @property
    def accounts(self) -> Mapping[int, Account]:
        """By campaign number, like `stored_campaigns`; those of families by `family_key`."""

    @property
    def stored_campaigns(self) -> Mapping[int, StoredCampaign]: ...

    @property
    def revision(self) -> int:
        """The newest revision of a campaign that the bidder has loaded."""

    @property
    def family_revision(self) -> int:
        """The newest revision of a family that the bidder has loaded."""

    def family_of(self, stored: StoredCampaign) -> Family | None:
        """The family of a campaign, if it has one."""

    @property
    def traffic(self) -> Mapping[str, Traffic]:
        """Requests by group, by catalogue version."""

    @property
    def replicated_row(self) -> int | None:
        """The last row that survives the loss of the disk; None if that does not matter."""

    def now(self) -> float:
        """Seconds since 1970."""

    def places(self) -> Iterable[SharedPlace]:
        """Campaigns and the catalogues they run on."""

    def add_peer_impressions(self, new: PeerImpressions) -> None:
        """Count impressions of other bidders."""

    def set_low_funds(self, number: int, micros: int) -> None:
        """Have a campaign's bids call `FleetMember.request_money` below this amount."""

    def on_loop(self, done: Done) -> Done:
        """A callback of the journal's thread, moved to the event loop."""


@dataclass(frozen=True)
class FleetStatus:
    """How a member stands, for health checks and metrics."""

    name: str
    leasing: bool
    missing: tuple[str, ...]
    age_seconds: float  # since the last sync
    rows_behind: int  # own impressions that Redis has not counted
    clock_difference_seconds: float | None = None  # ahead of the farthest other member's
    clocks_apart: tuple[str, ...] = ()  # members whose clocks differ by too much


@dataclass
class _Outbox:
    """What the loop has the thread send."""

    joining: bool
    budgets: list[BudgetStatus]
    set_aside: list[int]  # what Redis must not lease to others, as `budgets` go
    places: frozenset[SharedPlace]
    groups: Mapping[str, int]  # by version
    rolling: Mapping[int, int]  # campaigns with rolling caps: since when, in µs
    revision: int
    family_revision: int
    traffic: list[Requests]


@dataclass
class _Inbox:
    """What the thread received for the loop."""

    reply: SyncReply
    budgets: list[BudgetStatus]
    traffic: list[Requests] = field(default_factory=list)
    error: str = ""


class FleetMember:
    """One bidder of a fleet. Everything is called on the event loop, `close` after its end."""

    def __init__(
        self,
        bidder: LocalBidder,
        settings: RedisSettings,
        name: str,
        connect: Connect | None = None,
    ) -> None:
        self._bidder, self._settings = bidder, settings
        journal, store = bidder.journal, bidder.store
        self._pool = RedisPool(settings, name, journal.id, journal.epoch, connect)
        self._bidders = len(settings.bidders)
        self._peers = PeerCounts(self._pool, store)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sharing")
        self._wake = asyncio.Event()
        self._joined = False
        self._feed = RowFeed(self._pool, store, lambda: bidder.replicated_row)
        self._grants = Grants(journal, bidder.on_loop, self._granted)
        for number, account in bidder.accounts.items():
            self._grants.load(number, account.granted)
        self._exhausted: set[int] = set()
        self._over: set[int] = set()  # of which Redis has more set aside than a lowered budget
        self._traffic = SharedTraffic()
        self._traffic_position: bytes | None = None
        self._dead = DeadBidders(store, settings, bidder.expiry_seconds, bidder.now, bidder.log)
        most = settings.max_clock_difference_seconds
        self._clocks = FleetClocks(name, most, bidder.log)
        self._leasing = False
        self._missing: tuple[str, ...] = settings.bidders
        self.synced_at = time.monotonic()
        self._error = ""

    @staticmethod
    def opening(store: Path) -> AbstractContextManager[bool]:
        """Held while a bidder opens its log: wait for one that recovers it, keep others out."""
        return recovery_lock(store, _OPENING_SECONDS)

    @property
    def tasks(self) -> list[Callable[[], Awaitable[None]]]:
        """What the bidder is to run again and again."""
        return [self.sync_when_due, self.recover_dead, self.compare_clocks_when_due]

    @property
    def status(self) -> FleetStatus:
        """How this member stands."""
        age = time.monotonic() - self.synced_at
        name, behind = self._pool.name, self._feed.rows_behind
        clocks = (self._clocks.difference_seconds, self._clocks.apart)
        return FleetStatus(name, self._leasing, self._missing, age, behind, *clocks)

    @property
    def writing_grants(self) -> bool:
        """Whether a grant is on its way to the log."""
        return self._grants.writing

    def sync_soon(self) -> None:
        """Do not wait for the next regular sync."""
        self._wake.set()

    def request_money(self, number: int) -> None:
        """Sync soon if a campaign runs low, unless there was nothing to be had last time."""
        if self.needs_money(number):
            self._wake.set()

    def needs_money(self, number: int) -> bool:
        """Whether a running campaign has less than half a lease, and could get more."""
        if number in self._exhausted or self._idle(number, self._bidder.now()):
            return False
        account = self._bidder.accounts[number]
        bid = account.largest_bid
        size = lease_size(account.budget, account.left(), self._bidders, bid)
        if account.granted < account.budget and account.granted - account.used() < size // 2:
            return True
        if account.daily is None or account.day_grants is None:
            return False
        day = account.day_at(self._bidder.now())
        granted = account.day_grants.get(day, 0)
        size = lease_size(account.daily, account.left_today(day), self._bidders, bid)
        return granted < account.daily and granted - account.used_on(day) < size // 2

    def _idle(self, number: int, now: float) -> bool:
        """Whether a campaign does not run now; a family, whether no member can use its money."""
        stored = self._bidder.stored_campaigns.get(number)
        if stored is None:
            return all(member.demand == 0 for member in self._bidder.accounts[number].members)
        campaign = stored.campaign
        in_flight = campaign.start.timestamp() <= now < campaign.end.timestamp()
        return campaign.state != "running" or not in_flight

    async def sync_when_due(self) -> None:
        """Wait until a sync is due or urgent, then sync."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), self._settings.sync_seconds)
        self._wake.clear()
        await self.sync()
        await asyncio.sleep(_MIN_SYNC_SECONDS)

    async def sync(self) -> None:
        """Send and receive once; an error of Redis is logged and the next sync tries again."""
        outbox = self._collect()
        loop = asyncio.get_running_loop()
        try:
            inbox = await loop.run_in_executor(self._thread, self._exchange, outbox)
        except (RedisUnavailable, RedisRestarted, KreachError) as error:
            self._joined &= not isinstance(error, RedisRestarted)
            self._traffic.restore(outbox.traffic)
            self._report(f"redis: {error}")
            return
        self._apply(inbox)

    async def compare_clocks_when_due(self) -> None:
        """Compare clocks with the other members now and then; those that differ say so."""
        await asyncio.sleep(_CLOCK_SECONDS)
        await self.compare_clocks()

    async def compare_clocks(self) -> None:
        """Compare clocks once. An unavailable Redis is reported by the next sync."""
        if not self._joined:
            return
        compare, loop = self._pool.compare_clocks, asyncio.get_running_loop()
        with suppress(RedisUnavailable):
            sample = await loop.run_in_executor(self._thread, compare, self._clocks.own)
            self._clocks.compare(sample, self._bidder.now(), time.monotonic())

    async def recover_dead(self) -> None:
        """Look for dead bidders on this machine, and recover them."""
        await asyncio.sleep(_RECOVERY_SECONDS)
        await asyncio.to_thread(self._dead.recover, self._pool.run_id)

    def _report(self, error: str) -> None:
        if error and error != self._error:
            self._bidder.log.warning("not sharing", reason=error)
        elif self._error and not error:
            self._bidder.log.info("sharing", bidders=list(self._settings.bidders))
        self._error = error

    # -- on the loop --------------------------------------------------------------------------

    def _collect(self) -> _Outbox:
        bidder = self._bidder
        now = bidder.now()
        joining = not self._joined
        budgets = [self._budget(number, now, asking=not joining) for number in bidder.accounts]
        return _Outbox(
            joining,
            budgets,
            # what the log holds would be held again after a crash: it stays ours until it is less
            [self._grants.max_logged(budget.campaign) for budget in budgets],
            frozenset(bidder.places()),
            {version: len(traffic.by_group) for version, traffic in bidder.traffic.items()},
            self._rolling_since(now),
            bidder.revision,
            bidder.family_revision,
            self._traffic.collect(bidder.traffic),
        )

    def _rolling_since(self, now: float) -> dict[int, int]:
        bidder = self._bidder
        campaigns = bidder.stored_campaigns.values()
        return rolling_since([(each, bidder.family_of(each)) for each in campaigns], now)

    def _budget(self, number: int, now: float, *, asking: bool, idle: bool = False) -> BudgetStatus:
        account = self._bidder.accounts[number]
        day = None
        if account.daily is not None:  # a family has no budget by day
            campaign = self._bidder.stored_campaigns[number].campaign
            day = account.day_at(now) if campaign.start.timestamp() <= now else None
        idle = idle or self._idle(number, now)
        # who asks again for what it gave up would have it set aside for ever, and nobody could bid
        asking = asking and number not in self._over
        status = budget_status(number, account, day, self._bidders, idle=idle, asking=asking)
        self._grants.lower(number, account.granted)
        return status

    def _apply(self, inbox: _Inbox) -> None:
        bidder, reply = self._bidder, inbox.reply
        self._joined = True
        self.synced_at = time.monotonic()
        self._leasing, self._missing = reply.leasing, reply.missing
        missing = ", ".join(self._missing)
        closed = "" if self._leasing else f"no leases until all bidders have joined: {missing}"
        self._report(closed or inbox.error)
        for budget, lease in zip(inbox.budgets, reply.leases, strict=True):
            self._apply_lease(budget, lease)
        for new in self._peers.take():
            bidder.add_peer_impressions(new)
        self._traffic.add(bidder.traffic, inbox.traffic)

    def _apply_lease(self, budget: BudgetStatus, lease: LeaseGrant) -> None:
        number = budget.campaign
        account = self._bidder.accounts[number]
        account.spent_elsewhere = lease.spent_elsewhere
        if budget.day >= 0 and account.day_grants is not None:
            apply_day_lease(account, budget.day, lease, leasing=self._leasing)
        short = lease.granted < budget.wanted or lease.day_granted < budget.day_wanted
        (self._exhausted.add if short else self._exhausted.discard)(number)
        over = lease.allowed < lease.granted or lease.day_allowed < lease.day_granted
        (self._over.add if over else self._over.discard)(number)
        # what is beyond was not asked for, or others may hold it since a budget was lowered
        granted = min(lease.granted, budget.wanted, lease.allowed)
        if granted > account.granted:
            self._grants.raise_to(number, granted)
        elif lease.allowed < account.granted:  # the budget was lowered
            account.granted = max(account.used(), lease.allowed)

    def _granted(self, number: int, granted: int) -> None:
        """Use a grant once the log has it: after a crash, bids with it may be out."""
        account = self._bidder.accounts[number]
        account.granted = max(account.granted, granted)
        size = lease_size(account.budget, account.left(), self._bidders, account.largest_bid)
        self._bidder.set_low_funds(number, size // 2)

    # -- in the thread ------------------------------------------------------------------------

    def _exchange(self, outbox: _Outbox) -> _Inbox:
        pool = self._pool
        if outbox.joining:
            pool.find_run()
            self._feed.start()  # first: it refuses a log that is not the one Redis knows
        budgets = _set_aside(outbox.budgets, outbox.set_aside)
        reply = pool.sync(budgets, joining=outbox.joining)
        if outbox.joining:
            self._peers.start()
            self._traffic_position = None
            pool.delete_other_runs()
        inbox = _Inbox(reply, outbox.budgets)
        self._feed.push(outbox.rolling)
        self._peers.read(outbox.places, outbox.groups, outbox.rolling, self._feed.counted_row)
        for version, groups, requests in outbox.traffic:
            pool.publish_traffic(version, groups, requests)
        self._traffic_position, inbox.traffic = pool.read_traffic(self._traffic_position)
        new = pool.campaigns_after(outbox.revision)
        families = pool.families_after(outbox.family_revision)  # last: all of theirs are there
        if new or families:
            try:
                self._bidder.campaigns.replicate(new, families)
            except KreachError as error:  # of a newer kreach: money and counts go on
                inbox.error = f"campaigns of reporting: {error}"
        return inbox

    # -- the end ------------------------------------------------------------------------------

    def close(self) -> None:
        """Send the last rows and give back what is not out on bids, if Redis can be reached."""
        self._thread.shutdown(wait=True)
        bidder = self._bidder
        now = bidder.now()
        accounts = bidder.accounts
        for number in accounts:  # what is given back leaves the log before others can lease it
            self._budget(number, now, asking=False, idle=True)
        self._grants.settle({number: account.granted for number, account in accounts.items()})
        try:
            if self._joined:
                self._feed.push(self._rolling_since(now))
                budgets = [self._budget(n, now, asking=False, idle=True) for n in accounts]
                set_aside = [self._grants.max_logged(number) for number in accounts]
                self._pool.sync(_set_aside(budgets, set_aside), joining=False)
        except (RedisUnavailable, RedisRestarted, KreachError) as error:
            bidder.log.warning("leases not given back", reason=str(error))
        self.disconnect()

    def disconnect(self) -> None:
        """Stop without sending anything: Redis keeps what this member holds set aside."""
        self._thread.shutdown(wait=True)
        self._pool.close()


def _set_aside(budgets: list[BudgetStatus], set_aside: list[int]) -> list[BudgetStatus]:
    """Budgets that ask for no less than must be set aside."""
    pairs = zip(budgets, set_aside, strict=True)
    return [budget._replace(wanted=max(budget.wanted, minimum)) for budget, minimum in pairs]
