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

import numpy as np

from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.feeder import Feeder
from kreach.adsystem.sharing.money import slice_of, standing
from kreach.adsystem.sharing.pool import Away, Given, OtherRun, Place, Pool, Standing, Told
from kreach.adsystem.sharing.reader import Reader
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

if TYPE_CHECKING:
    from kreach.adsystem.bidder.service import BidderState

__all__ = ["Partner"]

_SHORTEST_SECONDS = 0.02  # between two exchanges, however urgent
_SECONDS_PER_GROUP = 2e-6  # between two looks at the traffic, which take time on the loop


@dataclass
class _Asked:
    """What the loop wants to be told to others."""

    anew: bool
    standings: list[Standing]
    places: frozenset[Place]
    groups: Mapping[str, int]  # by version
    rolling: Mapping[int, int]  # campaigns with rolling caps: since when, in µs
    revision: int
    traffic: list[tuple[str, IntArray, IntArray]]


@dataclass
class _News:
    """What a thread heard for the loop."""

    told: Told
    standings: list[Standing]
    traffic: list[tuple[str, IntArray, IntArray]] = field(default_factory=list)


class Partner:
    """One bidder's part in a pool of several."""

    def __init__(self, state: "BidderState", settings: RedisSettings, name: str) -> None:
        self._state, self._settings = state, settings
        self.pool = Pool(settings, name, state.journal.id)
        self.bidders = len(settings.bidders)
        self._reader = Reader(self.pool, state.shared.store)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sharing")
        self._wake = asyncio.Event()
        self._joined = False
        self.feeder = Feeder(self.pool, state.shared.store)
        self._raising: dict[int, int] = {}
        self._dry: set[int] = set()
        self._traffic_told: dict[str, IntArray] = {}
        self._traffic_at = 0.0
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
        """A campaign is running low: ask soon, unless there was nothing to be had just now."""
        if number not in self._dry:
            self._wake.set()

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
        except OtherRun:
            self._joined = False
            self._say("redis started anew")
            return
        except (Away, KreachError) as error:
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
        rolling = {
            number: int((now - max(cap.span_seconds or now for cap in kept.campaign.caps)) * 1e6)
            for number, kept in state.kept.items()
            if kept.campaign.cap is None
        }
        return _Asked(
            anew,
            standings,
            frozenset((n, version) for version, d in state.desks.items() for n in d.plays),
            {version: len(desk.catalogue) for version, desk in state.desks.items()},
            rolling,
            state.revision,
            self._new_traffic(),
        )

    def _standing(self, number: int, now: float, *, anew: bool, idle: bool = False) -> Standing:
        account = self._state.ledger.accounts[number]
        campaign = self._state.kept[number].campaign
        start, end = campaign.start.timestamp(), campaign.end.timestamp()
        day = None
        if account.daily is not None and start <= now:
            day = account.day_of(int(now * 1e6))
        idle = idle or campaign.state != "running" or not start <= now < end
        held = account.granted
        told = standing(number, account, day, self.bidders, idle=idle)
        if account.granted < held:
            self._state.journal.submit("grant", (number, account.granted))
        if number in self._raising:  # Redis has given it, the log has yet to know
            return told._replace(wanted=max(self._raising[number], account.granted))
        if anew:  # what is held already, whatever it is: nothing more before all have told
            held_today = 0
            if day is not None and account.day_grants is not None:
                held_today = account.day_grants.get(day, 0)
            return told._replace(wanted=account.granted, day_wanted=held_today)
        return told

    def _new_traffic(self) -> list[tuple[str, IntArray, IntArray]]:
        now = time.monotonic()
        groups = sum(len(desk.catalogue) for desk in self._state.desks.values())
        if now - self._traffic_at < groups * _SECONDS_PER_GROUP:
            return []
        self._traffic_at = now
        found = []
        for version, desk in self._state.desks.items():
            counts = np.frombuffer(desk.traffic.by_group, dtype=np.uint32).astype(np.int64)
            before = self._traffic_told.get(version)
            self._traffic_told[version] = counts
            if before is not None and len(before) == len(counts):
                groups = np.flatnonzero(counts - before)
                if len(groups):
                    found.append((version, groups, (counts - before)[groups]))
        return found

    def _hear(self, news: _News) -> None:
        state = self._state
        self._joined = True
        self.heard_at = time.monotonic()
        self.open, self.missing = news.told.open, news.told.missing
        absent = ", ".join(self.missing)
        self._say("" if self.open else f"no money is given out before all have told: {absent}")
        for asked, given in zip(news.standings, news.told.given, strict=True):
            self._take(asked, given)
        for seen in self._reader.take():
            desk = state.desks.get(seen.version)
            if desk is not None and seen.campaign in desk.plays:
                desk.count(seen.campaign, seen.groups, seen.impressions, seen.moments)
        for version, groups, requests in news.traffic:
            desk = state.desks.get(version)
            if desk is not None and len(groups) and groups.max() < len(desk.catalogue):
                by_group = np.frombuffer(desk.traffic.by_group, dtype=np.uint32)
                np.add.at(by_group, groups, requests.astype(np.uint32))
                desk.traffic.total += int(requests.sum())
                if version in self._traffic_told:
                    np.add.at(self._traffic_told[version], groups, requests)

    def _take(self, asked: Standing, given: Given) -> None:
        number = asked.campaign
        account = self._state.ledger.accounts[number]
        account.elsewhere = given.elsewhere
        if asked.day >= 0 and account.day_grants is not None:
            account.elsewhere_on = {asked.day: given.day_elsewhere}
            held = max(account.day_grants.get(asked.day, 0), given.day_granted)
            account.day_grants = {asked.day: held}
        short = given.granted < asked.wanted or given.day_granted < asked.day_wanted
        (self._dry.add if short else self._dry.discard)(number)
        if given.granted > account.granted:
            self._raise(number, given.granted)
        elif given.allowed < account.granted:  # the budget was lowered
            account.granted = max(account.used(), given.allowed)

    def _raise(self, number: int, granted: int) -> None:
        """Money counts when the log knows of it: after a crash it may have been out."""
        if number in self._raising:
            return
        self._raising[number] = granted
        state = self._state

        def written(error: Exception | None) -> None:
            self._raising.pop(number, None)
            account = state.ledger.accounts[number]
            if error is None:
                account.granted = max(account.granted, granted)
                low = slice_of(account.budget, account.left(), self.bidders) // 2
                state.ask_below(number, low)

        state.journal.submit("grant", (number, granted), state.on_loop(written))

    # -- in the thread ------------------------------------------------------------------------

    def _exchange(self, asked: _Asked) -> _News:
        pool = self.pool
        if asked.anew:
            pool.find_run()
            told = pool.tell(asked.standings, anew=True)
            self.feeder.begin()
            self._reader.begin()
            self._traffic_position = None
            pool.forget_other_runs()
        else:
            told = pool.tell(asked.standings, anew=False)
        news = _News(told, asked.standings)
        self.feeder.feed(frozenset(asked.rolling))
        self._reader.read(asked.places, asked.groups, asked.rolling, self.feeder.fed)
        for version, groups, requests in asked.traffic:
            pool.tell_traffic(version, groups, requests)
        self._traffic_position, news.traffic = pool.hear_traffic(self._traffic_position)
        newer = pool.campaigns(asked.revision)
        if newer:
            self._state.campaigns.replicate(newer)
        return news

    # -- the end ------------------------------------------------------------------------------

    def close(self) -> None:
        """Tell the last rows and give back what is not out, if Redis is there to hear it."""
        self._thread.shutdown(wait=True)
        state = self._state
        try:
            if self._joined:
                rolling = (n for n, kept in state.kept.items() if kept.campaign.cap is None)
                self.feeder.feed(frozenset(rolling))
                now = state.clock()
                standings = [
                    self._standing(number, now, anew=False, idle=True)
                    for number in state.ledger.accounts
                ]
                self.pool.tell(standings, anew=False)
        except (Away, OtherRun, KreachError) as error:
            state.log.warning("not told at the end", reason=str(error))
        self.pool.close()
