"""Bidders of this machine that died: their logs tell what they spent, the rest goes back.

Only a bidder's own log knows what it acknowledged. So what a dead bidder held stays set aside until
it runs again, or until another bidder that can read its folder speaks for it: at once with all that
it may have had out, and, when its last bids must have expired, with what it spent.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger.account import Account, as_micros
from kreach.adsystem.ledger.fold import fold_log
from kreach.adsystem.ledger.journal import FILE, LOCK, Journal, open_reader
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.feeder import Feeder
from kreach.adsystem.sharing.pool import MOST_MICROS, Pool, Standing
from kreach.errors import KreachError
from kreach.service.logs import Log

__all__ = ["Siblings", "speak_for"]


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

    def look(self, run: str) -> None:
        """Speak for those who died. `run` of Redis that is to hear it."""
        for name in self._settings.bidders:
            folder = self._folder.parent / name
            if folder == self._folder or not (folder / FILE).exists():
                continue
            if not _is_dead(folder):
                self._dead_since.pop(name, None)
                self._spoken.pop(name, None)
                continue
            since = self._dead_since.setdefault(name, time.monotonic())
            settled = time.monotonic() - since > self._expiry_seconds + 2
            if run and self._spoken.get(name) != (run, settled):
                try:
                    speak_for(
                        name, folder, self._settings, self._clock(), self._log, settled=settled
                    )
                except KreachError as error:  # it runs again, most likely
                    self._log.warning("not spoken for", bidder=name, reason=str(error))
                    continue
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


def speak_for(
    name: str, folder: Path, settings: RedisSettings, now: float, log: Log, *, settled: bool
) -> None:
    """Tell what the log of a bidder that does not run holds.

    `settled`: no bid of it can be out any more, so what it was granted and did not spend is free.
    """
    with _held(folder, log) as journal, _pool(settings, name, journal.id) as pool:
        store = CampaignStore(folder)
        try:
            kept = {one.number: one.campaign for one in store.all()}
        finally:
            store.close()
        starts = {number: campaign.start.timestamp() for number, campaign in kept.items()}
        folded = fold_log(journal, folder, starts, {}, now)
        reader = open_reader(folder)
        grants: dict[int, int] = dict(reader.execute("SELECT campaign, micros FROM grants"))
        reader.close()
        standings = []
        for number, campaign in kept.items():
            account = Account(as_micros("budget", campaign.budget), None, starts[number])
            for day, micros in folded.spent.get(number, {}).items():
                account.book(micros, day)
            out = 0 if settled else max(grants.get(number, 0) - account.spent, 0)
            told = Standing(
                number, min(account.budget, MOST_MICROS), account.spent, account.spent + out
            )
            if campaign.daily_budget is not None and starts[number] <= now:
                day = account.day_of(int(now * 1e6))
                spent = account.spent_on(day)
                daily = as_micros("daily_budget", campaign.daily_budget)
                told = told._replace(day=day, daily=daily, day_spent=spent, day_wanted=spent + out)
            standings.append(told)
            if settled:
                journal.submit("grant", (number, account.spent))
        pool.find_run()
        pool.tell(standings, anew=True)
        rolling = frozenset(n for n, campaign in kept.items() if campaign.cap is None)
        feeder = Feeder(pool, folder)
        feeder.begin()
        while feeder.feed(rolling):
            pass


@contextmanager
def _held(folder: Path, log: Log) -> Iterator[Journal]:
    journal = Journal(folder, log)
    try:
        yield journal
    finally:
        journal.close()


@contextmanager
def _pool(settings: RedisSettings, name: str, log_id: str) -> Iterator[Pool]:
    pool = Pool(settings, name, log_id)
    try:
        yield pool
    finally:
        pool.close()
