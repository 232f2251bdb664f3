"""A bidder among others: tells them what it counted and spent, hears the same, asks for money.

Nothing of this is in the way of a bid. A few times a second the event loop hands a thread what is
to be told and takes from it what was heard; in between, and while Redis is slow or gone, bids are
made from what is in memory, within the money that is granted already.
"""

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kreach.adsystem.ledger.account import Account
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.grants import Grants
from kreach.adsystem.sharing.leases import slice_of, standing, take_day
from kreach.adsystem.sharing.own_rows import rolling_since
from kreach.adsystem.sharing.peer_counts import Reader
from kreach.adsystem.sharing.redis_pool import Away, Given, OtherRun, Place, Pool, Standing, Told
from kreach.adsystem.sharing.row_feed import Feeder
from kreach.adsystem.sharing.shared_traffic import Requests, SharedTraffic
from kreach.errors import KreachError

if TYPE_CHECKING:
    from kreach.adsystem.bidserver.service import BidderState

__all__ = ["Partner"]

_SHORTEST_SECONDS = 0.02  # between two exchanges, however urgent


@dataclass
class _Asked:
    """What the loop wants to be told to others."""

    anew: bool
    standings: list[Standing]
    set_aside: list[int]  # what Redis must not give to others, as `standings` go
    places: frozenset[Place]
    groups: Mapping[str, int]  # by version
    rolling: Mapping[int, int]  # campaigns with rolling caps: since when, in µs
    revision: int
    traffic: list[Requests]


@dataclass
class _News:
    """What a thread heard for the loop."""

    told: Told
    standings: list[Standing]
    traffic: list[Requests] = field(default_factory=list)
    trouble: str = ""


class Partner:
    """One bidder's part in a pool of several."""

    def __init__(self, state: "BidderState", settings: RedisSettings, name: str) -> None:
        self._state, self._settings = state, settings
        self.pool = Pool(settings, name, state.journal.id, state.journal.epoch)
        self.bidders = len(settings.bidders)
        self._reader = Reader(self.pool, state.shared.store)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sharing")
        self._wake = asyncio.Event()
        self._joined = False
        self.feeder = Feeder(self.pool, state.shared.store)
        self._grants = Grants(state.journal, state.on_loop, self._granted)
        for number, account in state.ledger.accounts.items():
            self._grants.know(number, account.granted)
        self._dry: set[int] = set()
        self._traffic = SharedTraffic()
        self._traffic_position: bytes | None = None
        self.open = False
        self.missing: tuple[str, ...] = settings.bidders
        self.heard_at = time.monotonic()
        self._complaint = ""

    @property
    def age_seconds(self) -> float:
        """How long ago something was last heard."""
        return time.monotonic() - self.heard_at

    def hurry(self, number: int) -> None:
        """A campaign may be running low: if so ask soon, unless there was nothing to be had."""
        if number in self._dry or self._idle(number, self._state.clock()):
            return
        if self._low(self._state.ledger.accounts[number]):
            self._wake.set()

    def _low(self, account: Account) -> bool:
        """Whether less than half a slice is at hand, and more could be had."""
        piece = slice_of(account.budget, account.left(), self.bidders)
        if account.granted < account.budget and account.granted - account.used() < piece // 2:
            return True
        if account.daily is None or account.day_grants is None:
            return False
        day = account.day_of(int(self._state.clock() * 1e6))
        held = account.day_grants.get(day, 0)
        piece = slice_of(account.daily, account.left_today(day), self.bidders)
        return held < account.daily and held - account.used_on(day) < piece // 2

    def _idle(self, number: int, now: float) -> bool:
        campaign = self._state.kept[number].campaign
        flying = campaign.start.timestamp() <= now < campaign.end.timestamp()
        return campaign.state != "running" or not flying

    async def run(self) -> None:
        """One exchange; to be called again and again."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), self._settings.sync_seconds)
        self._wake.clear()
        await self._exchange_once()
        await asyncio.sleep(_SHORTEST_SECONDS)

    async def _exchange_once(self) -> None:
        asked = self._ask()
        loop = asyncio.get_running_loop()
        try:
            news = await loop.run_in_executor(self._thread, self._exchange, asked)
        except (Away, OtherRun, KreachError) as error:
            self._joined &= not isinstance(error, OtherRun)
            self._traffic.take_back(asked.traffic)
            self._say(f"redis: {error}")
            return
        self._hear(news)

    def _say(self, complaint: str) -> None:
        if complaint and complaint != self._complaint:
            self._state.log.warning("not sharing", reason=complaint)
        elif self._complaint and not complaint:
            self._state.log.info("sharing", bidders=list(self._settings.bidders))
        self._complaint = complaint

    # -- on the loop --------------------------------------------------------------------------

    def _ask(self) -> _Asked:
        state = self._state
        now = state.clock()
        anew = not self._joined
        standings = [self._standing(n, now, anew=anew) for n in state.ledger.accounts]
        return _Asked(
            anew,
            standings,
            # what the log holds could be had again after a crash: it stays ours until it is less
            [self._grants.most(standing.campaign) for standing in standings],
            frozenset((n, version) for version, d in state.desks.items() for n in d.plays),
            {version: len(desk.catalogue) for version, desk in state.desks.items()},
            rolling_since(state.kept.values(), now),
            state.revision,
            self._traffic.news(state.desks),
        )

    def _standing(self, number: int, now: float, *, anew: bool, idle: bool = False) -> Standing:
        account = self._state.ledger.accounts[number]
        start = self._state.kept[number].campaign.start.timestamp()
        day = None
        if account.daily is not None and start <= now:
            day = account.day_of(int(now * 1e6))
        idle = idle or self._idle(number, now)
        # anew: what is held already, whatever it is; nothing more before all have told
        told = standing(number, account, day, self.bidders, idle=idle, asking=not anew)
        self._grants.lower(number, account.granted)
        return told

    def _hear(self, news: _News) -> None:
        state = self._state
        self._joined = True
        self.heard_at = time.monotonic()
        self.open, self.missing = news.told.open, news.told.missing
        absent = ", ".join(self.missing)
        closed = "" if self.open else f"no money is given out before all have told: {absent}"
        self._say(closed or news.trouble)
        for asked, given in zip(news.standings, news.told.given, strict=True):
            self._take(asked, given)
        for seen in self._reader.take():
            desk = state.desks.get(seen.version)
            if desk is not None and seen.campaign in desk.plays:
                desk.count(seen.campaign, seen.groups, seen.impressions, seen.moments)
        self._traffic.add(state.desks, news.traffic)

    def _take(self, asked: Standing, given: Given) -> None:
        number = asked.campaign
        account = self._state.ledger.accounts[number]
        account.elsewhere = given.elsewhere
        if asked.day >= 0 and account.day_grants is not None:
            take_day(account, asked.day, given, all_told=self.open)
        short = given.granted < asked.wanted or given.day_granted < asked.day_wanted
        (self._dry.add if short else self._dry.discard)(number)
        granted = min(given.granted, asked.wanted)  # the rest is set aside and was not asked for
        if granted > account.granted:
            self._grants.raise_to(number, granted)
        elif given.allowed < account.granted:  # the budget was lowered
            account.granted = max(account.used(), given.allowed)

    def _granted(self, number: int, granted: int) -> None:
        """Money counts when the log knows of it: after a crash it may have been out."""
        account = self._state.ledger.accounts[number]
        account.granted = max(account.granted, granted)
        low = slice_of(account.budget, account.left(), self.bidders) // 2
        self._state.ask_below(number, low)

    # -- in the thread ------------------------------------------------------------------------

    def _exchange(self, asked: _Asked) -> _News:
        pool = self.pool
        if asked.anew:
            pool.find_run()
            self.feeder.begin()  # first: it refuses a log that is not the one Redis knows
        told = pool.tell(_with(asked.standings, asked.set_aside), anew=asked.anew)
        if asked.anew:
            self._reader.begin()
            self._traffic_position = None
            pool.forget_other_runs()
        news = _News(told, asked.standings)
        self.feeder.feed(asked.rolling)
        self._reader.read(asked.places, asked.groups, asked.rolling, self.feeder.fed)
        for version, groups, requests in asked.traffic:
            pool.tell_traffic(version, groups, requests)
        self._traffic_position, news.traffic = pool.hear_traffic(self._traffic_position)
        newer = pool.campaigns(asked.revision)
        if newer:
            try:
                self._state.campaigns.replicate(newer)
            except KreachError as error:  # of a newer kreach: money and counts go on
                news.trouble = f"campaigns of reporting: {error}"
        return news

    # -- the end ------------------------------------------------------------------------------

    def close(self) -> None:
        """Tell the last rows and give back what is not out, if Redis is there to hear it."""
        self._thread.shutdown(wait=True)
        state = self._state
        now = state.clock()
        accounts = state.ledger.accounts
        for number in accounts:  # what is given back is out of the log before others hear of it
            self._standing(number, now, anew=True, idle=True)
        self._grants.settle({number: account.granted for number, account in accounts.items()})
        try:
            if self._joined:
                self.feeder.feed(rolling_since(state.kept.values(), now))
                standings = [self._standing(n, now, anew=True, idle=True) for n in accounts]
                set_aside = [self._grants.most(number) for number in accounts]
                self.pool.tell(_with(standings, set_aside), anew=False)
        except (Away, OtherRun, KreachError) as error:
            state.log.warning("not told at the end", reason=str(error))
        self.pool.close()


def _with(standings: list[Standing], set_aside: list[int]) -> list[Standing]:
    """Standings that ask for no less than must be set aside."""
    pairs = zip(standings, set_aside, strict=True)
    return [told._replace(wanted=max(told.wanted, least)) for told, least in pairs]
