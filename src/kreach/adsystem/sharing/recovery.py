"""Bidders of this machine that died: their logs tell what they spent, the rest goes back.

Only a bidder's own log knows what it acknowledged. So what a dead bidder held stays set aside until
it runs again, or until another bidder that can read its folder speaks for it: soon with all that it
may have had out, and, when its last bids must have expired, with what it spent.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kreach.adsystem.campaigns.store import CampaignStore, StoredCampaign
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.fold import fold_log
from kreach.adsystem.ledger.journal import FILE, LOCK, Journal, open_reader
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.own_rows import rolling_since
from kreach.adsystem.sharing.redis_pool import MAX_MICROS, Away, OtherRun, Pool, Standing
from kreach.adsystem.sharing.row_feed import Feeder
from kreach.boundary.money import as_micros
from kreach.errors import KreachError
from kreach.service.logs import Log

__all__ = ["Siblings", "held_for", "speak_for"]

_SPEAKERS_LOCK = "speaker.lock"
_PATIENCE_SECONDS = 3.0  # whoever was killed is most likely being started again


class Siblings:
    """The other bidders whose folders are beside one's own."""

    def __init__(
        self,
        folder: Path,
        settings: RedisSettings,
        expiry_seconds: int,
        clock: Callable[[], float],
        log: Log,
    ) -> None:
        self._folder, self._settings = folder, settings
        self._expiry_seconds, self._clock, self._log = expiry_seconds, clock, log
        self._dead_since: dict[str, float] = {}
        self._spoken: dict[str, tuple[str, bool]] = {}
        self._complaints: dict[str, str] = {}

    def look(self, run: str) -> None:
        """Speak for those who died. `run` of Redis that is to hear it."""
        for name in self._settings.bidders:
            folder = self._folder.parent / name
            if folder == self._folder or not (folder / FILE).exists():
                continue
            with held_for(folder, 0.0) as ours:  # else another sibling is at it
                if ours:
                    self._look_at(name, folder, run)

    def _look_at(self, name: str, folder: Path, run: str) -> None:
        if not _is_dead(folder):
            self._dead_since.pop(name, None)
            self._spoken.pop(name, None)
            return
        since = self._dead_since.setdefault(name, time.monotonic())
        dead_seconds = time.monotonic() - since
        settled = dead_seconds > self._expiry_seconds + 2
        if not run or dead_seconds < _PATIENCE_SECONDS or self._spoken.get(name) == (run, settled):
            return
        try:
            speak_for(name, folder, self._settings, self._clock(), self._log, settled=settled)
        except (Away, OtherRun, KreachError) as error:
            if self._complaints.get(name) != str(error):
                self._log.warning("not spoken for", bidder=name, reason=str(error))
            self._complaints[name] = str(error)
            return
        self._complaints.pop(name, None)
        self._spoken[name] = (run, settled)
        self._log.info("spoke for a dead bidder", bidder=name, settled=settled)


def _is_dead(folder: Path) -> bool:
    try:
        held = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(held)  # and with it the lock
    return True


@contextmanager
def held_for(folder: Path, seconds: float) -> Iterator[bool]:
    """Keep others from speaking for a bidder; False if one does so still after some seconds.

    A bidder that starts waits here: while somebody speaks for it, its log seems to be in use.
    """
    held = -1
    until = time.monotonic() + seconds
    ours = False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = os.open(folder / _SPEAKERS_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        while not ours:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                ours = True
            except OSError:
                if time.monotonic() >= until:
                    break
                time.sleep(0.05)
    except OSError:
        ours = False
    try:
        yield ours
    finally:
        if held >= 0:
            os.close(held)


def speak_for(
    name: str, folder: Path, settings: RedisSettings, now: float, log: Log, *, settled: bool
) -> None:
    """Tell what the log of a bidder that does not run holds.

    `settled`: no bid of it can be out any more, so what it was granted and did not spend is free;
    its log says so before Redis does. While Redis is asked the log is let go of already: a bidder
    that starts meanwhile has a later turn, and is believed.
    """
    pool = Pool(settings, name)
    try:
        pool.find_run()  # or the log is left alone
        journal = Journal(folder, log)
        try:
            pool.log_id, pool.epoch = journal.id, journal.epoch
            kept, standings = _read(journal, folder, now, settled=settled)
        finally:
            journal.close()
        feeder = Feeder(pool, folder)
        feeder.begin()
        pool.tell(standings, anew=True)
        while feeder.feed(rolling_since(kept, now)):
            pass
    finally:
        pool.close()


def _read(
    journal: Journal, folder: Path, now: float, *, settled: bool
) -> tuple[list[StoredCampaign], list[Standing]]:
    """What a log holds; where all is settled the rest of the grants is taken out of it."""
    store = CampaignStore(folder)
    try:
        kept = store.all()
    finally:
        store.close()
    starts = {one.number: one.campaign.start.timestamp() for one in kept}
    spent = fold_log(journal, folder, starts, {}, now).spent
    reader = open_reader(folder)
    grants: dict[int, int] = dict(reader.execute("SELECT campaign, micros FROM grants"))
    reader.close()
    standings = []
    for one in kept:
        budget = as_micros("budget", one.campaign.budget)
        account = Account(budget, None, starts[one.number])
        for day, micros in spent.get(one.number, {}).items():
            account.book(micros, day)
        out = 0 if settled else max(grants.get(one.number, 0) - account.spent, 0)
        told = Standing(one.number, min(budget, MAX_MICROS), account.spent, account.spent + out)
        if one.campaign.daily_budget is not None and starts[one.number] <= now:
            day = account.day_of(int(now * 1e6))
            daily = as_micros("daily_budget", one.campaign.daily_budget)
            today = account.spent_on(day)
            told = told._replace(day=day, daily=daily, day_spent=today, day_wanted=today + out)
        standings.append(told)
        if settled:
            journal.submit("grant", (one.number, account.spent))
    failure = journal.run_now(lambda _: None)
    if failure is not None or journal.failure is not None:
        raise KreachError.rule("store", "hold a log that can be written", journal.failure)
    return kept, standings
