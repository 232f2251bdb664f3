"""The bidder's state and its life: start from the log, keep time, plan, write down, stop."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from kreach.adsystem.bidserver.campaign_runtime import Play
from kreach.adsystem.bidserver.catalogue_bidder import Desk
from kreach.adsystem.bidserver.checkpoints import Diary
from kreach.adsystem.bidserver.planner import PlanWorker
from kreach.adsystem.campaigns.store import CampaignStore, StoredCampaign
from kreach.adsystem.catalogues import read_audience, read_catalogues
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.compaction import GroupNames, compact, sweep_unlisted
from kreach.adsystem.ledger.fold import Folded, fold_log
from kreach.adsystem.ledger.journal import Journal, open_reader
from kreach.adsystem.ledger.ledger import Ledger
from kreach.adsystem.ledger.tokens import Claim, Tokens
from kreach.adsystem.settings import AdSystemSettings, BidderSettings, RedisSettings
from kreach.adsystem.sharing.fleet_member import Partner
from kreach.adsystem.sharing.recovery import Siblings, held_for
from kreach.adsystem.store_layout import token_key
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.money import as_micros
from kreach.errors import KreachError
from kreach.service.clock import Clock, SteadyClock
from kreach.service.logs import Log

__all__ = ["BidderState"]

_TICK_SECONDS = 0.1
_POLL_SECONDS = 0.5
_MEMORY_SECONDS = 60.0
_SIBLINGS_SECONDS = 1.0
_COMPACTION_WAIT_SECONDS = 900.0
_SPEAKERS_SECONDS = 60.0  # how long to wait for one who speaks for us
_SLICES = 50  # a budget is granted in about so many parts
_MIN_SLICE = 50_000  # micros


class BidderState:
    """Everything a bidder knows, all of it in memory; the journal makes it last."""

    def __init__(
        self,
        shared: AdSystemSettings,
        settings: BidderSettings,
        log: Log,
        *,
        redis: RedisSettings | None = None,
        clock: Callable[[float], Clock] = SteadyClock,
        reload: Callable[[], AdSystemSettings] | None = None,
    ) -> None:
        self.shared, self.settings, self.log = shared, settings, log
        self._make_clock, self._reload = clock, reload
        self._redis = redis if redis is not None and redis.url is not None else None
        (self._redis or RedisSettings()).check_name(settings.name)
        self.partner: Partner | None = None
        self.ready = False
        self.loop_lag_seconds = 0.0
        self.min_tmax_ms = float(settings.min_tmax_ms)
        self.desks: dict[str, Desk] = {}
        self.kept: dict[int, StoredCampaign] = {}
        self._by_number: dict[int, Desk] = {}
        self._revision = 0
        self._granting: set[int] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._compacting = Lock()
        self._planner = PlanWorker()
        self._diary = Diary(self)
        self.planned = 0

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Fold the log and begin. Whatever was granted and not spent may still be out."""
        try:
            await asyncio.to_thread(self._load)
        except sqlite3.Error as error:
            raise KreachError.rule("store", "hold a log that can be read", str(error)) from None
        self._loop = asyncio.get_running_loop()
        self._compacted_at = self._loop.time()
        works = [self._tick, self._poll, self._plan, self._pace, self._compact]
        if self._redis is not None and self.settings.name is not None:
            self.partner = Partner(self, self._redis, self.settings.name)
            self._siblings = Siblings(
                self.shared.store, self._redis, self.settings.expiry_seconds, self.clock, self.log
            )
            works += [self.partner.run, self._look_after_siblings]
        for work in works:
            self._tasks.append(asyncio.create_task(self._forever(work)))
        for number in self.ledger.accounts:
            self._grant(number)
        self.ready = True

    def _load(self) -> None:
        store = self.shared.store
        alone = nullcontext(True)
        with alone if self._redis is None else held_for(store, _SPEAKERS_SECONDS):
            self.journal = Journal(store, self.log)
        self.tokens = Tokens(token_key(self.settings, store), self.settings.name or "")
        self.campaigns = CampaignStore(store)
        self.clock = self._make_clock(self.journal.last_moment())
        reader = open_reader(store)
        swept = sweep_unlisted(reader, store)
        self.ledger = Ledger(self.journal.epoch)
        now = self.clock()
        for catalogue in read_catalogues(self.shared):
            self._add_desk(catalogue, now)
        kept = self.campaigns.all()
        starts = {k.number: k.campaign.start.timestamp() for k in kept}
        since = {
            k.number: now - max(cap.span_seconds or now for cap in k.campaign.caps)
            for k in kept
            if k.campaign.cap is None
        }
        folded = fold_log(self.journal, store, starts, since, now)
        for one in kept:
            self._take(one, now)
        self._settle(folded, dict(reader.execute("SELECT campaign, micros FROM grants")), now)
        self._diary.read(reader)
        reader.close()
        self.ledger.remember(folded.repeatable)
        self.log.info(
            "log folded",
            epoch=self.journal.epoch,
            impressions=folded.rows,
            campaigns=len(kept),
            catalogues=list(self.desks),
            files_swept=swept,
        )

    def _add_desk(self, catalogue: Catalogue, now: float) -> Desk:
        number = self._number(catalogue)
        desk = Desk(catalogue, number, self.ledger, self.settings, now)
        self.desks[catalogue.version] = self._by_number[number] = desk
        return desk

    def _number(self, catalogue: Catalogue) -> int:
        number = self.journal.catalogue_number(catalogue.version)
        GroupNames(self.shared.store).keep(number, catalogue)
        return number

    def _settle(self, folded: Folded, grants: dict[int, int], now: float) -> None:
        until = now + self.settings.expiry_seconds + 2
        for number, account in self.ledger.accounts.items():
            for day, micros in folded.spent.get(number, {}).items():
                account.book(micros, day)
            account.carry(grants.get(number, 0), until)
        for (number, catalogue), (groups, counts) in folded.counts.items():
            desk = self._by_number.get(catalogue)
            if desk is not None and number in desk.plays and number not in folded.times:
                desk.load(number, groups, counts)
        for number, times in folded.times.items():
            for catalogue, group, moment in sorted(times, key=lambda row: row[2]):
                desk = self._by_number.get(catalogue)
                if desk is not None and number in desk.plays:
                    desk.plays[number].bidder.valuation.record(group, moment)

    async def stop(self) -> None:
        """Write down what is known, so that the next start need not wait for anything."""
        self.ready = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._planner.close()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        for number, account in self.ledger.accounts.items():
            out = account.spent + account.reserved + account.carried
            self.journal.submit("grant", (number, out))
        self._diary.write_pacing()
        for _ in self._diary.write_memory():
            pass
        if self.settings.compaction_at_stop:
            self.compact_once()
        if self.partner is not None:
            self.journal.run_now(lambda _: None)  # all rows are written before the last are told
            self.partner.close()
        self.journal.close()
        self.campaigns.close()

    async def _forever(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A task that outlives its failures: each is logged by type."""
        while True:
            try:
                await work()
            except Exception as error:
                self.log.error("task failed", task=work.__name__, kind=type(error).__name__)
                await asyncio.sleep(1.0)

    # -- campaigns ----------------------------------------------------------------------------

    def _take(self, kept: StoredCampaign, now: float) -> None:
        """Take a campaign up on every catalogue that has its audience."""
        campaign = kept.campaign
        budget = as_micros("budget", campaign.budget)
        daily = None
        if campaign.daily_budget is not None:
            daily = as_micros("daily_budget", campaign.daily_budget)
        account = self.ledger.accounts.get(kept.number)
        if account is None:
            account = Account(budget, daily, campaign.start.timestamp())
            if self._redis is not None:
                account.day_grants = {}
            self.ledger.accounts[kept.number] = account
        account.budget, account.daily = budget, daily
        self.kept[kept.number] = kept
        self._revision = max(self._revision, kept.revision)
        for desk in self.desks.values():
            self._put(desk, kept, account, now)

    def _put(self, desk: Desk, kept: StoredCampaign, account: Account, now: float) -> None:
        campaign, catalogue = kept.campaign, desk.catalogue
        if campaign.state == "ended" and kept.number not in desk.plays:
            return
        try:
            play = desk.put(
                kept.number,
                campaign,
                account,
                lambda: read_audience(self.shared, catalogue, campaign.audience),
            )
            play.low_micros = self._slice(account) // 2 if account.granted < account.budget else 0
        except (KreachError, OverflowError) as error:
            self.log.warning(
                "campaign not played",
                campaign=campaign.id,
                catalogue=catalogue.version,
                reason=str(error),
            )

    @property
    def revision(self) -> int:
        """The newest change of a campaign that was taken up."""
        return self._revision

    async def _look_after_siblings(self) -> None:
        await asyncio.sleep(_SIBLINGS_SECONDS)
        if self.partner is not None:
            await asyncio.to_thread(self._siblings.look, self.partner.pool.run)

    async def _poll(self) -> None:
        """Look for campaigns that are new or changed."""
        await asyncio.sleep(_POLL_SECONDS)
        for kept in await asyncio.to_thread(self.campaigns.all, self._revision):
            self._take(kept, self.clock())
            self._grant(kept.number)
            self.log.info("campaign taken up", campaign=kept.campaign.id, revision=kept.revision)

    async def reload(self) -> None:
        """Read the settings again: catalogues that are new get a desk, others lose theirs.

        Only catalogues and audiences can change while a bidder runs.
        """
        if self._reload is None:
            return
        try:
            told = await asyncio.to_thread(self._reload)
            found = await asyncio.to_thread(read_catalogues, told)
        except KreachError as error:
            self.log.error("reload refused", reason=str(error))
            return
        changes = {"catalogues": told.catalogues, "audiences": told.audiences}  # and nothing else
        self.shared = msgspec.structs.replace(self.shared, **changes)
        for catalogue in found:
            if catalogue.version not in self.desks:
                await self._open_desk(catalogue)
        for version in set(self.desks) - {catalogue.version for catalogue in found}:
            del self.desks[version]  # its notices still find it by number
            self.log.info("catalogue dropped", catalogue=version)

    async def _open_desk(self, catalogue: Catalogue) -> None:
        now = self.clock()
        number = await asyncio.to_thread(self._number, catalogue)
        desk = self._by_number.get(number) or Desk(
            catalogue, number, self.ledger, self.settings, now
        )

        def fill() -> None:
            for kept in list(self.kept.values()):
                self._put(desk, kept, self.ledger.accounts[kept.number], now)

        await asyncio.to_thread(fill)
        for kept in self.kept.values():  # whatever changed meanwhile
            play = desk.plays.get(kept.number)
            if play is not None and play.campaign is not kept.campaign:
                self._put(desk, kept, self.ledger.accounts[kept.number], now)
        self.desks[catalogue.version] = self._by_number[number] = desk
        self.log.info("catalogue opened", catalogue=catalogue.version, groups=len(catalogue))

    def desk_of(self, claim: Claim) -> Desk | None:
        """The desk that a bid was made at."""
        return self._by_number.get(claim.catalogue)

    # -- time ---------------------------------------------------------------------------------

    async def _tick(self) -> None:
        begun = self._loop.time()
        await asyncio.sleep(_TICK_SECONDS)
        self.loop_lag_seconds = max(self._loop.time() - begun - _TICK_SECONDS, 0.0)
        self.min_tmax_ms = self.settings.min_tmax_ms + 1e3 * self.loop_lag_seconds
        now = self.clock()
        self._expire(now)
        for desk in self.desks.values():
            desk.wake(now)
        for number in self.ledger.accounts:
            self._grant(number)

    def _expire(self, now: float) -> None:
        ended = self.ledger.expire(now)
        for claim in ended.wins:
            self.revert(claim)
        for number, (micros, bids) in ended.bids.items():
            for desk in self.desks.values():
                play = desk.plays.get(number)
                if play is not None and bids:
                    self._lose(play, micros // bids, bids)
                    break

    def _lose(self, play: Play, micros: int, bids: int) -> None:
        """Bids that nobody told the end of were lost, at their average as far as we know."""
        play.losses += bids
        play.bidder.learn_losses(micros / 1e6, bids)

    def revert(self, claim: Claim) -> None:
        """A win that was counted was never shown."""
        desk = self.desk_of(claim)
        if desk is not None and claim.campaign in desk.plays:
            valuation = desk.plays[claim.campaign].bidder.valuation
            with suppress(KreachError):  # left every window of its caps: forgotten already
                valuation.revert(claim.group, claim.issued_micros / 1e6)

    def _slice(self, account: Account) -> int:
        return max(account.budget // _SLICES, _MIN_SLICE)

    def _grant(self, number: int) -> None:
        """Have more money granted where little is left; it counts when it is written down."""
        account = self.ledger.accounts[number]
        if self._redis is not None:  # the budget is not ours alone
            if self.partner is not None:
                self.partner.hurry(number)
            return
        wanted = account.wanted_grant(self._slice(account))
        if wanted is None or number in self._granting:
            return
        self._granting.add(number)

        def granted(error: Exception | None) -> None:
            self._granting.discard(number)
            if error is None:
                account.granted = max(account.granted, wanted)
                all_of_it = account.granted >= account.budget
                self.ask_below(number, 0 if all_of_it else self._slice(account) // 2)

        self.journal.submit("grant", (number, wanted), self.on_loop(granted))

    def ask_below(self, number: int, micros: int) -> None:
        """Have a campaign's bids ask for more money once it has less than this."""
        for desk in self.desks.values():
            if number in desk.plays:
                desk.plays[number].low_micros = micros

    def grant_soon(self, number: int) -> None:
        """For the bid path: ask for more without waiting."""
        self._grant(number)

    def on_loop(self, done: Callable[[Exception | None], None]) -> Callable[..., None]:
        """A callback of the journal's thread, carried over to the event loop."""

        def carried(error: Exception | None) -> None:
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                self._loop.call_soon_threadsafe(done, error)

        return carried

    # -- planning, pacing, compaction ---------------------------------------------------------

    async def _plan(self) -> None:
        """Plan what is due, one campaign at a time, in a process of its own."""
        await asyncio.sleep(_TICK_SECONDS)
        for desk in list(self.desks.values()):
            for play in list(desk.plays.values()):
                if play.campaign.state != "running":
                    continue
                task = desk.plan_task(play, self.clock())
                if task is not None:
                    desk.adopt(play, *await self._planner.solve(task))
                    self.planned += 1

    async def _pace(self) -> None:
        """Write down how campaigns stand; now and then what was learned."""
        beats = max(int(_MEMORY_SECONDS / self.settings.pacing_seconds), 1)
        for _ in range(beats):
            await asyncio.sleep(self.settings.pacing_seconds)
            self._diary.write_pacing()
        for _ in self._diary.write_memory():
            await asyncio.sleep(0)

    async def _compact(self) -> None:
        """Move rows into files when there are enough; few of them, when they have waited."""
        await asyncio.sleep(self.settings.compaction_seconds)
        waited = self._loop.time() - self._compacted_at > _COMPACTION_WAIT_SECONDS
        fewest = 1 if waited else self.settings.compaction_rows
        moved = await asyncio.to_thread(self.compact_once, fewest)
        if moved or waited:
            self._compacted_at = self._loop.time()
        if moved:
            self.log.info("log compacted", rows=moved)

    def compact_once(self, fewest_rows: int = 1) -> int:
        """Move expired rows into files; how many."""
        groups = GroupNames(self.shared.store)
        for number, desk in list(self._by_number.items()):
            groups.know(number, desk.catalogue)
        campaigns = {number: kept.campaign.id for number, kept in self.kept.items()}
        store: Path = self.shared.store
        with self._compacting:
            name = self.settings.name or ""
            return compact(self.journal, store, campaigns, groups, self.clock(), fewest_rows, name)
