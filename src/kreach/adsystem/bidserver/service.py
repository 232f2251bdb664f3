"""The bidder's state and lifecycle: start from the log, load campaigns, plan, stop."""

import asyncio
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

import msgspec

from kreach.adsystem.bidding.arrivals import Traffic
from kreach.adsystem.bidserver.background import BackgroundTasks, Task
from kreach.adsystem.bidserver.catalogue_bidder import CatalogueBidder
from kreach.adsystem.bidserver.checkpoints import CheckpointStore
from kreach.adsystem.bidserver.clock_watch import ClockWatch, MakeClock
from kreach.adsystem.bidserver.compactor import LogCompactor
from kreach.adsystem.bidserver.exchanges import Exchanges
from kreach.adsystem.bidserver.local_grants import LocalGrants, grant_size
from kreach.adsystem.bidserver.planner import PlanWorker
from kreach.adsystem.campaigns.family import Family, counts_by_time, longest_span
from kreach.adsystem.campaigns.store import CampaignStore, StoredCampaign, StoredFamily
from kreach.adsystem.catalogues import check_unchanged, read_audience, read_catalogues
from kreach.adsystem.ledger.account import NO_LIMIT, Account
from kreach.adsystem.ledger.applied_rows import applied_families_row, applied_row
from kreach.adsystem.ledger.compaction import GroupNames, sweep_unlisted
from kreach.adsystem.ledger.fold import Folded, fold_log
from kreach.adsystem.ledger.journal import Done, Journal, open_reader
from kreach.adsystem.ledger.ledger import Ledger, family_key
from kreach.adsystem.ledger.tokens import Claim, Tokens
from kreach.adsystem.settings import AdSystemSettings, BidderSettings, RedisSettings
from kreach.adsystem.sharing.fleet_member import FleetMember, PeerImpressions, SharedPlace
from kreach.adsystem.shipping.bidder_log import BidderLogShipping
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.store_layout import token_key
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.money import as_micros
from kreach.boundary.times import HOUR_SECONDS, MICROS
from kreach.errors import KreachError
from kreach.service.clock import ClockSettings
from kreach.service.logs import Log
from kreach.service.sqlite import OtherSchema

__all__ = ["BidderState"]

_TICK_SECONDS = 0.1
_POLL_SECONDS = 0.5


class BidderState:
    """The state of a bidder, all of it in memory; the journal makes it durable.

    To a fleet it is the `LocalBidder`.
    """

    def __init__(
        self,
        shared: AdSystemSettings,
        settings: BidderSettings,
        log: Log,
        *,
        redis: RedisSettings | None = None,
        shipping: ShippingSettings | None = None,
        clock: MakeClock | None = None,
    ) -> None:
        self.shared, self.settings, self.log = shared, settings, log
        self.clock_watch = ClockWatch(self, clock or ClockSettings().steady)
        self._redis = redis if redis is not None and redis.url is not None else None
        (self._redis or RedisSettings()).check_name(settings.name)
        self._ship = shipping if shipping is not None and shipping.enabled else None
        (self._ship or ShippingSettings()).check_bidder(settings.name, settings.token_key)
        self.shipping: BidderLogShipping | None = None
        self.fleet: FleetMember | None = None
        self.ready = False
        self.loop_lag_seconds = 0.0
        self.min_tmax_ms = float(settings.min_tmax_ms)
        self.catalogue_bidders: dict[str, CatalogueBidder] = {}
        self.stored_campaigns: dict[int, StoredCampaign] = {}
        self.stored_families: dict[str, StoredFamily] = {}
        self._by_number: dict[int, CatalogueBidder] = {}
        self._revision = self._family_revision = 0
        self.tasks = BackgroundTasks(log)
        self.planner = PlanWorker()
        self.exchanges = Exchanges(settings.market_mu, settings.market_sigma)
        self.checkpoints = CheckpointStore(self)
        self.compactor = LogCompactor(self)
        self.plan_count = 0
        self._planned = 0.0  # when the latest round began after which no plan was due

    # -- lifecycle ----------------------------------------------------------------------------

    async def start(self) -> None:
        """Load the log and start all tasks. What was granted and not spent may still be out."""
        try:
            await asyncio.to_thread(self._load)
        except OtherSchema:
            raise
        except sqlite3.Error as error:
            raise KreachError.rule("store", "hold a log that can be read", str(error)) from None
        self._loop = asyncio.get_running_loop()
        tasks: list[Task] = [
            self._tick,
            self._poll,
            self._plan,
            self.checkpoints.run,
            self.compactor.run,
        ]
        if self.shipping is not None:
            self.shipping.start()
        if self._redis is not None and self.settings.name is not None:
            self.fleet = FleetMember(self, self._redis, self.settings.name)
            tasks += self.fleet.tasks
        self.tasks.start(tasks)
        for number in self.accounts:
            self.request_money(number)
        self.ready = True

    def _load(self) -> None:
        store = self.store
        with nullcontext() if self._redis is None else FleetMember.opening(store):
            self.journal = Journal(store, self.log)
        self.tokens = Tokens(token_key(self.settings, store), self.settings.name or "")
        self.campaigns = CampaignStore(store)
        self.clock = self.clock_watch.start(self.journal)
        reader = open_reader(store)
        swept = sweep_unlisted(reader, store)
        self.ledger = Ledger(self.journal.epoch, self.journal.fenced_epoch)
        self.grants = LocalGrants(self.journal, self.accounts, self.on_loop, self.set_low_funds)
        if self._ship is not None and self.settings.name is not None:
            name, log = self.settings.name, self.log
            self.shipping = BidderLogShipping(
                store, name, self.journal, self._ship, self.clock, log
            )
        now = self._planned = self.clock()
        for catalogue in read_catalogues(self.shared):
            self._add_catalogue(catalogue, self._catalogue_number(catalogue), now)
        campaigns = self.campaigns.all()
        for family in self.campaigns.families():  # after the campaigns: all of theirs are there
            self._load_family(family)
        starts = {stored.number: stored.campaign.start.timestamp() for stored in campaigns}
        since = self._times_since(campaigns, now)
        folded = fold_log(self.journal, store, starts, since, now)
        for stored in campaigns:
            self._load_campaign(stored)
        self.checkpoints.read(reader)  # first: how many draws an impression is
        self._apply_log(folded, dict(reader.execute("SELECT campaign, micros FROM grants")), now)
        reader.close()
        self._write_applied()
        self._write_applied_families()
        self.ledger.remember(folded.repeatable)
        self.ledger.remember_lost(folded.lost)
        self.log.info(
            "log loaded",
            epoch=self.journal.epoch,
            impressions=folded.rows,
            campaigns=len(campaigns),
            catalogues=list(self.catalogue_bidders),
            files_swept=swept,
        )

    def _times_since(self, campaigns: Iterable[StoredCampaign], now: float) -> dict[int, float]:
        """Campaigns whose impressions count by their times, and since when: rolling caps, and
        caps that the publisher enforces as long as it remembers."""
        hours = [each.catalogue.memory_hours or 0.0 for each in self._by_number.values()]
        remembered = max(hours, default=0.0) * HOUR_SECONDS
        since = {}
        for stored in campaigns:
            family = self.family_of(stored)
            span = remembered
            if counts_by_time(stored.campaign, family):
                span = longest_span(stored.campaign, family, now)
            if span > 0.0:
                since[stored.number] = now - span
        return since

    def _add_catalogue(self, catalogue: Catalogue, number: int, now: float) -> None:
        bidder = CatalogueBidder(catalogue, number, self.ledger, self.settings, now, self.exchanges)
        self.catalogue_bidders[catalogue.version] = self._by_number[number] = bidder

    def _catalogue_number(self, catalogue: Catalogue) -> int:
        number = self.journal.catalogue_number(catalogue.version)
        GroupNames(self.store).keep(number, catalogue)
        return number

    def _apply_log(self, folded: Folded, grants: dict[int, int], now: float) -> None:
        """Book the spend of the log and count its impressions."""
        until = now + self.settings.expiry_seconds + 2
        for number, account in self.accounts.items():
            for day, micros in folded.spent.get(number, {}).items():
                account.book(micros, day)
        for number, account in self.accounts.items():  # families have all that members spent
            account.carry(grants.get(number, 0), until)
        for (number, catalogue), (groups, counts) in folded.counts.items():
            bidder = self._by_number.get(catalogue)
            if bidder is None or number not in bidder.runtimes:
                continue
            if not self._counts_by_time(number):
                times = folded.times.get(number, ()) if bidder.catalogue.memory_hours else ()
                recent = [(group, moment) for at, group, moment in times if at == catalogue]
                bidder.load_counts(number, groups, counts, recent)
        for number, rows in folded.times.items():
            if not self._counts_by_time(number):
                continue
            for catalogue, group, moment in sorted(rows, key=lambda row: row[2]):
                bidder = self._by_number.get(catalogue)
                if bidder is not None and number in bidder.runtimes:
                    bidder.runtimes[number].bidder.valuation.record(group, moment)

    def _counts_by_time(self, number: int) -> bool:
        stored = self.stored_campaigns[number]
        return counts_by_time(stored.campaign, self.family_of(stored))

    async def stop(self) -> None:
        """Stop all tasks and log everything, so that the next start has nothing to wait for."""
        self.ready = False
        await self.tasks.cancel()
        await self.planner.close()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        for number, account in self.accounts.items():
            self.journal.submit("grant", (number, account.used()))
        self.checkpoints.write_pacing()
        for _ in self.checkpoints.write_memory():
            pass
        if self.settings.compaction_at_stop:
            self.compactor.compact()
        if self.fleet is not None:
            self.journal.run_now(lambda _: None)  # all rows are in the log before the last sync
            self.fleet.close()
        if self.shipping is not None:
            self.journal.run_now(lambda _: None)
            self.shipping.close()
        self.journal.close()
        self.campaigns.close()

    # -- campaigns and catalogues -------------------------------------------------------------

    def _load_family(self, stored: StoredFamily) -> None:
        """Load a new or changed family."""
        budget = stored.family.budget
        micros = NO_LIMIT if budget is None else as_micros("budget", budget)
        key = family_key(stored.number)
        if key not in self.accounts:
            self.ledger.accounts[key] = Account(micros, None, 0.0)
        self.accounts[key].budget = micros
        self.stored_families[stored.family.id] = stored
        self._family_revision = max(self._family_revision, stored.revision)

    def family_of(self, stored: StoredCampaign) -> Family | None:
        """The family of a campaign, if it has one."""
        name = stored.campaign.family
        return None if name is None else self.stored_families[name].family

    def _load_campaign(self, stored: StoredCampaign) -> None:
        """Load a new or changed campaign on every catalogue that has its audience."""
        campaign = stored.campaign
        if campaign.family is not None and campaign.family not in self.stored_families:
            self.log.error("campaign without its family", campaign=campaign.id)
            return  # it would bid without the limits that it shares
        budget = as_micros("budget", campaign.budget)
        daily = None
        if campaign.daily_budget is not None:
            daily = as_micros("daily_budget", campaign.daily_budget)
        account = self.accounts.get(stored.number)
        if account is None:
            start = campaign.start.timestamp()
            account = Account(budget, daily, start, self.clock_watch.steps)
            if self._redis is not None:
                account.day_grants = {}
            if campaign.family is not None:
                family = self.stored_families[campaign.family]
                account.join(self.accounts[family_key(family.number)])
            self.ledger.accounts[stored.number] = account
        account.budget, account.daily = budget, daily
        self.stored_campaigns[stored.number] = stored
        self._revision = max(self._revision, stored.revision)
        for bidder in self.catalogue_bidders.values():
            self._update(bidder, stored)

    def _update(
        self,
        bidder: CatalogueBidder,
        stored: StoredCampaign,
        shared: AdSystemSettings | None = None,
    ) -> None:
        shared = shared or self.shared
        campaign, catalogue, number = stored.campaign, bidder.catalogue, stored.number
        account, family = self.accounts[number], self.family_of(stored)
        shares_cap = family is not None and bool(family.caps)  # its impressions count for others
        if campaign.state == "ended" and number not in bidder.runtimes and not shares_cap:
            return
        try:
            runtime = bidder.update(
                number,
                campaign,
                account,
                lambda: read_audience(shared, catalogue, campaign.audience),
                family,
            )
            more = account.granted < account.budget
            runtime.low_funds_micros = grant_size(account) // 2 if more else 0
        except (KreachError, OverflowError) as error:
            self.log.warning(
                "campaign cannot run on catalogue",
                campaign=campaign.id,
                catalogue=catalogue.version,
                reason=str(error),
            )

    async def _poll(self) -> None:
        """Load campaigns and families that are new or changed."""
        await asyncio.sleep(_POLL_SECONDS)
        campaigns = await asyncio.to_thread(self.campaigns.all, self._revision)
        families = await asyncio.to_thread(self.campaigns.families, self._family_revision)
        for family in families:
            self._load_family(family)
            self.request_money(family_key(family.number))
            self.log.info("family loaded", family=family.family.id, revision=family.revision)
        if families:
            self._write_applied_families()
        for stored in campaigns:
            self._load_campaign(stored)
            self._write_applied(stored)
            if stored.number not in self.accounts:
                continue
            self.request_money(stored.number)
            self.log.info("campaign loaded", campaign=stored.campaign.id, revision=stored.revision)

    def _write_applied(self, stored: StoredCampaign | None = None) -> None:
        """Say by which changes bids are made from now on."""
        at_us = int(self.clock() * MICROS)
        if stored is not None:
            row = applied_row(stored.revision, at_us, stored.number)
            self.journal.submit("memory", row)
        self.journal.submit("memory", applied_row(self._revision, at_us))

    def _write_applied_families(self) -> None:
        row = applied_families_row(self._family_revision, int(self.clock() * MICROS))
        self.journal.submit("memory", row)

    async def take_up(self, shared: AdSystemSettings) -> None:
        """Take up other catalogues and audiences, all of them or, if that fails, none."""
        catalogues = await asyncio.to_thread(read_catalogues, shared)
        known = {each.catalogue.version: each.catalogue for each in self._by_number.values()}
        await asyncio.to_thread(check_unchanged, known, catalogues)
        changes = {"catalogues": shared.catalogues, "audiences": shared.audiences}
        shared = msgspec.structs.replace(self.shared, **changes)
        opened = [
            await self._open_catalogue(catalogue, shared)
            for catalogue in catalogues
            if catalogue.version not in self.catalogue_bidders
        ]
        self.shared = shared  # from here on nothing can fail, and nothing waits
        for bidder, loaded in opened:
            for stored in self.stored_campaigns.values():
                if loaded.get(stored.number) is not stored:  # new or changed meanwhile
                    self._update(bidder, stored)
            catalogue = bidder.catalogue
            self.catalogue_bidders[catalogue.version] = self._by_number[bidder.number] = bidder
            self.log.info("catalogue opened", catalogue=catalogue.version, groups=len(catalogue))
        for version in self.catalogue_bidders.keys() - {one.version for one in catalogues}:
            del self.catalogue_bidders[version]  # its notices still find it by number
            self.log.info("catalogue dropped", catalogue=version)

    async def _open_catalogue(
        self, catalogue: Catalogue, shared: AdSystemSettings
    ) -> tuple[CatalogueBidder, dict[int, StoredCampaign]]:
        """A bidder on a catalogue, and the campaigns that were loaded, before it gets requests."""
        now, loaded = self.clock(), dict(self.stored_campaigns)
        number = await asyncio.to_thread(self._catalogue_number, catalogue)
        bidder = self._by_number.get(number) or CatalogueBidder(
            catalogue, number, self.ledger, self.settings, now, self.exchanges
        )  # one that was dropped has missed hours, and knows it by the time that has passed

        def load() -> None:
            for stored in loaded.values():
                self._update(bidder, stored, shared)

        await asyncio.to_thread(load)
        return bidder, loaded

    def bidder_of(self, claim: Claim) -> CatalogueBidder | None:
        """The catalogue bidder that made a bid."""
        return self._by_number.get(claim.catalogue)

    def known_catalogues(self) -> dict[int, Catalogue]:
        """Catalogues by number, also those that were dropped since the start."""
        return {number: bidder.catalogue for number, bidder in list(self._by_number.items())}

    # -- for the fleet ------------------------------------------------------------------------

    @property
    def store(self) -> Path:
        """The bidder's own folder."""
        return self.shared.store

    @property
    def expiry_seconds(self) -> int:
        """How long a bid may be out."""
        return self.settings.expiry_seconds

    @property
    def accounts(self) -> Mapping[int, Account]:
        """Accounts by campaign number, and by the key of a family."""
        return self.ledger.accounts

    @property
    def revision(self) -> int:
        """The newest revision of a campaign that was loaded."""
        return self._revision

    @property
    def family_revision(self) -> int:
        """The newest revision of a family that was loaded."""
        return self._family_revision

    @property
    def traffic(self) -> Mapping[str, Traffic]:
        """Requests by group, by catalogue version."""
        return {version: bidder.traffic for version, bidder in self.catalogue_bidders.items()}

    def now(self) -> float:
        """Seconds since 1970."""
        return self.clock()

    def places(self) -> Iterable[SharedPlace]:
        """Campaigns and the catalogues they run on."""
        bidders = self.catalogue_bidders.items()
        return [(number, version) for version, bidder in bidders for number in bidder.runtimes]

    def add_peer_impressions(self, new: PeerImpressions) -> None:
        """Count impressions of other bidders."""
        bidder = self.catalogue_bidders.get(new.version)
        if bidder is not None and new.campaign in bidder.runtimes:
            bidder.add_impressions(new.campaign, new.groups, new.impressions, new.times)

    # -- the log elsewhere --------------------------------------------------------------------

    @property
    def replicated_row(self) -> int | None:
        """The last row that survives the loss of the disk; None if notices do not wait for it."""
        return None if self.shipping is None else self.shipping.replicated_row

    async def replicated(self) -> str | None:
        """Wait until all that the log holds now is elsewhere too; the reason if it is not.

        Without `acknowledge = "replicated"` nobody waits.
        """
        if self.shipping is None or not self.shipping.settings.replicated:
            return None
        waiting: asyncio.Future[str | None] = self._loop.create_future()

        def done(error: Exception | None) -> None:
            if not waiting.done():
                waiting.set_result(None if error is None else str(error))

        self.shipping.when_stored(self.on_loop(done))
        try:
            return await asyncio.wait_for(waiting, self.shipping.settings.timeout_seconds)
        except TimeoutError:
            return "the stream did not answer in time"

    # -- money, time, plans -------------------------------------------------------------------

    def request_money(self, number: int) -> None:
        """Have more money granted to a campaign that has little left; does not wait."""
        if self._redis is None:
            self.grants.request(number)
        elif self.fleet is not None:
            self.fleet.request_money(number)

    def request_family_money(self, number: int) -> None:
        """The same for the family of a campaign."""
        name = self.stored_campaigns[number].campaign.family
        if name is not None:
            self.request_money(family_key(self.stored_families[name].number))

    def set_low_funds(self, number: int, micros: int) -> None:
        """Have bids of a campaign, or of a family, request money once it has less than this."""
        self.accounts[number].low_funds_micros = micros
        for bidder in self.catalogue_bidders.values():
            if number in bidder.runtimes:
                bidder.runtimes[number].low_funds_micros = micros

    def on_loop(self, done: Done) -> Done:
        """A callback of the journal's thread, moved to the event loop."""

        def moved(error: Exception | None) -> None:
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                self._loop.call_soon_threadsafe(done, error)

        return moved

    async def _tick(self) -> None:
        begun = self._loop.time()
        await asyncio.sleep(_TICK_SECONDS)
        self.loop_lag_seconds = max(self._loop.time() - begun - _TICK_SECONDS, 0.0)
        self.min_tmax_ms = self.settings.min_tmax_ms + 1e3 * self.loop_lag_seconds
        self.clock_watch.check()
        now = self.clock()
        self._expire(now)
        self.exchanges.refresh(now)
        self.checkpoints.write_request_hours()
        for bidder in self.catalogue_bidders.values():
            bidder.update_active(now)
        for number in self.accounts:
            self.request_money(number)

    def _expire(self, now: float) -> None:
        expired = self.ledger.expire(now)
        issued = now - self.settings.expiry_seconds
        for claim in expired.wins:
            self.revert(claim)
        for (number, venue), (micros, bids) in expired.bids.items():
            for bidder in self.catalogue_bidders.values():
                runtime = bidder.runtimes.get(number)
                if runtime is not None and bids:  # without a notice: taken as lost, at the average
                    runtime.losses += bids
                    bidder.learn_losses(runtime, micros // bids, bids, venue, issued=issued)
                    break

    def revert(self, claim: Claim) -> None:
        """A win that was counted was never shown."""
        bidder = self.bidder_of(claim)
        if bidder is not None and claim.campaign in bidder.runtimes:
            valuation = bidder.runtimes[claim.campaign].bidder.valuation
            with suppress(KreachError):  # older than every window of its caps: removed already
                valuation.revert(claim.group, claim.issued_micros / MICROS)

    async def _plan(self) -> None:
        """Solve plans that are due, one campaign at a time, in a child process."""
        await asyncio.sleep(_TICK_SECONDS)
        begun = self.clock()
        for bidder in list(self.catalogue_bidders.values()):
            for runtime in list(bidder.runtimes.values()):
                if runtime.campaign.state != "running":
                    continue
                task = bidder.plan_task(runtime, self.clock())
                if task is not None:
                    bidder.adopt(runtime, *await self.planner.solve(task))
                    self.plan_count += 1
        self._planned = begun

    @property
    def plan_lag_seconds(self) -> float:
        """How long ago the latest round began after which no plan was due."""
        return self.clock() - self._planned
