"""Recovery of dead bidders on this machine: their logs show what they spent, the rest is free.

Only a bidder's own log knows what it acknowledged. So what a dead bidder holds stays set aside
until it runs again, or until another bidder that can read its folder recovers it: soon with all
that it may have out on bids, and once its last bids must have expired, with what it spent.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger.account import NO_LIMIT, Account
from kreach.adsystem.ledger.fold import fold_log
from kreach.adsystem.ledger.journal import FILE, LOCK, Journal, open_reader
from kreach.adsystem.ledger.ledger import family_key
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.own_rows import last_row, rolling_since
from kreach.adsystem.sharing.redis_client import Connect, RedisUnavailable
from kreach.adsystem.sharing.redis_pool import MAX_MICROS, BudgetStatus, RedisPool, RedisRestarted
from kreach.adsystem.sharing.row_feed import RowFeed
from kreach.boundary.money import as_micros
from kreach.errors import KreachError
from kreach.service.logs import Log

__all__ = ["DeadBidders", "adopt_shared_state", "recover_bidder", "recovery_lock"]

RECOVERY_LOCK = "recovery.lock"
RESTART_SECONDS = 3.0  # a bidder that was killed is most likely being restarted


class DeadBidders:
    """Finds dead bidders in the folders beside one's own, and recovers them."""

    def __init__(
        self,
        folder: Path,
        settings: RedisSettings,
        expiry_seconds: int,
        clock: Callable[[], float],
        log: Log,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._settings = folder, settings
        self._expiry_seconds, self._clock, self._log = expiry_seconds, clock, log
        self._monotonic = monotonic
        self.dead_since: dict[str, float] = {}
        self._recovered: dict[str, tuple[str, bool]] = {}
        self._errors: dict[str, str] = {}

    def recover(self, run_id: str) -> None:
        """Recover bidders that died, in this run of Redis."""
        for name in self._settings.bidders:
            folder = self._folder.parent / name
            if folder == self._folder or not (folder / FILE).exists():
                continue
            with recovery_lock(folder, 0.0) as acquired:  # else another bidder recovers it
                if acquired:
                    self._check(name, folder, run_id)

    def _check(self, name: str, folder: Path, run_id: str) -> None:
        if not _is_dead(folder):
            self.dead_since.pop(name, None)
            self._recovered.pop(name, None)
            return
        since = self.dead_since.setdefault(name, self._monotonic())
        seconds = self._monotonic() - since
        settled = seconds > self._expiry_seconds + 2
        if not run_id or seconds < RESTART_SECONDS:
            return
        if self._recovered.get(name) == (run_id, settled):
            return
        try:
            recover_bidder(name, folder, self._settings, self._clock(), self._log, settled=settled)
        except (RedisUnavailable, RedisRestarted, KreachError) as error:
            if self._errors.get(name) != str(error):
                self._log.warning("dead bidder not recovered", bidder=name, reason=str(error))
            self._errors[name] = str(error)
            return
        self._errors.pop(name, None)
        self._recovered[name] = (run_id, settled)
        self._log.info("dead bidder recovered", bidder=name, settled=settled)


def _is_dead(folder: Path) -> bool:
    try:
        handle = os.open(folder / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)  # and with it the lock
    return True


@contextmanager
def recovery_lock(folder: Path, seconds: float) -> Iterator[bool]:
    """Keep others from recovering a bidder; False if one still does after some seconds.

    A bidder that starts waits here: while another one recovers it, its log is in use.
    """
    handle = -1
    until = time.monotonic() + seconds
    acquired = False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / RECOVERY_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        while not acquired:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                acquired = True
            except OSError:
                if time.monotonic() >= until:
                    break
                time.sleep(0.05)
    except OSError:
        acquired = False
    try:
        yield acquired
    finally:
        if handle >= 0:
            os.close(handle)


def recover_bidder(
    name: str,
    folder: Path,
    settings: RedisSettings,
    now: float,
    log: Log,
    *,
    settled: bool,
    connect: Connect | None = None,
    open_journal: Callable[[Path, Log], Journal] = Journal,
) -> None:
    """Report to Redis what the log of a dead bidder holds.

    `settled`: its bids have expired, so what it was granted and did not spend is free; its log
    records that before Redis does. The log is closed while Redis is asked: a bidder that starts
    meanwhile has a later turn, and Redis believes that one.
    """
    pool = RedisPool(settings, name, connect=connect)
    try:
        pool.find_run()  # or the log is left alone
        journal = open_journal(folder, log)
        try:
            pool.log_id, pool.epoch = journal.id, journal.epoch
            rolling, budgets = _read_log(journal, folder, now, settled=settled)
        finally:
            journal.close()
        feed = RowFeed(pool, folder)
        feed.start()
        pool.sync(budgets, joining=True)
        while feed.push(rolling):
            pass
    finally:
        pool.close()


def adopt_shared_state(
    name: str, folder: Path, settings: RedisSettings, log: Log
) -> dict[int, int]:
    """Give a rebuilt bidder its campaigns, and the grants that Redis knows of; those that differ.

    Without its campaigns it would take what they spent for nothing. The stream may lack the last
    changes of grants. What Redis has set aside is never less than what was used: bids that were
    made with it may be out. What was given back may be leased to others by now.
    """
    pool = RedisPool(settings, name)
    try:
        pool.find_run()
        counted, last = pool.counted_row(), last_row(folder)
        if counted > last:
            raise KreachError(
                f"Redis counted {counted} rows of bidder {name}, {counted - last} more than "
                "stream and files have: they are lost. What it leased stays set aside; give the "
                "next bidder another name"
            )
        keys = _copy_campaigns(pool, folder)
        granted = pool.granted(keys)
    finally:
        pool.close()
    with closing(open_reader(folder)) as reader:
        held: dict[int, int] = dict(reader.execute("SELECT campaign, micros FROM grants"))
    unknown = sorted(key for key, micros in held.items() if micros and key not in keys)
    if unknown:
        raise KreachError(
            f"Redis does not have the campaigns with the numbers {unknown}, on which bidder {name} "
            "spent: have reporting publish them, then try again"
        )
    changed = {key: micros for key, micros in granted.items() if micros != held.get(key, 0)}
    journal = Journal(folder, log)
    try:
        for key, micros in changed.items():
            journal.submit("grant", (key, micros))
        error = journal.run_now(lambda _: None)
    finally:
        journal.close()
    if error is not None:
        raise KreachError.rule("store", "hold a log that can be written", str(error))
    return changed


def _copy_campaigns(pool: RedisPool, folder: Path) -> list[int]:
    """Copy all campaigns and families from Redis; their numbers, those of families as keys."""
    store = CampaignStore(folder)
    try:
        campaigns = pool.campaigns_after(0)
        store.replicate(campaigns, pool.families_after(0))  # last: all of theirs are there
        numbers = [stored.number for stored in store.all()]
        return numbers + [family_key(stored.number) for stored in store.families()]
    finally:
        store.close()


def _read_log(
    journal: Journal, folder: Path, now: float, *, settled: bool
) -> tuple[dict[int, int], list[BudgetStatus]]:
    """Campaigns with rolling caps and budgets of a log, those of families too.

    If settled, what is left of the grants is removed from the log.
    """
    store = CampaignStore(folder)
    try:
        campaigns = store.all()
        families = {stored.family.id: stored for stored in store.families()}
    finally:
        store.close()
    starts = {stored.number: stored.campaign.start.timestamp() for stored in campaigns}
    folded = fold_log(journal, folder, starts, {}, now)
    spent = folded.spent
    reader = open_reader(folder)
    grants: dict[int, int] = dict(reader.execute("SELECT campaign, micros FROM grants"))
    reader.close()
    budgets = []
    shared = {name: Account(_limit(one.family), None, 0.0) for name, one in families.items()}
    for stored in campaigns:
        number, campaign = stored.number, stored.campaign
        limit = as_micros("budget", campaign.budget)
        account = Account(limit, None, starts[number], folded.steps)
        if campaign.family is not None:
            account.join(shared[campaign.family])
        for day, micros in spent.get(number, {}).items():
            account.book(micros, day)
        out = 0 if settled else max(grants.get(number, 0) - account.spent, 0)
        status = BudgetStatus(number, min(limit, MAX_MICROS), account.spent, account.spent + out)
        if campaign.daily_budget is not None and starts[number] <= now:
            day = account.day_at(now)
            daily = as_micros("daily_budget", campaign.daily_budget)
            today = account.spent_on(day)
            status = status._replace(day=day, daily=daily, day_spent=today, day_wanted=today + out)
        budgets.append(status)
        if settled:
            journal.submit("grant", (number, account.spent))
    for name, account in shared.items():
        key = family_key(families[name].number)
        out = 0 if settled else max(grants.get(key, 0) - account.spent, 0)
        limit = min(account.budget, MAX_MICROS)
        budgets.append(BudgetStatus(key, limit, account.spent, account.spent + out))
        if settled:
            journal.submit("grant", (key, account.spent))
    error = journal.run_now(lambda _: None)
    if error is not None or journal.failure is not None:
        raise KreachError.rule("store", "hold a log that can be written", journal.failure)
    named = {name: one.family for name, one in families.items()}
    pairs = [(each, named.get(each.campaign.family or "")) for each in campaigns]
    return rolling_since(pairs, now), budgets


def _limit(family: Family) -> int:
    return NO_LIMIT if family.budget is None else as_micros("budget", family.budget)
