"""One bidder: the real clock, journal, ledger, notices, grants and leases, without the rest.

What to bid for and how much comes from the schedule: prices and values do not matter to the books.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from kreach.adsystem.bidserver.clock_watch import ClockWatch
from kreach.adsystem.bidserver.local_grants import LocalGrants
from kreach.adsystem.bidserver.notices import Notices
from kreach.adsystem.campaigns.store import CampaignStore, StoredCampaign
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.compaction import compact, sweep_unlisted
from kreach.adsystem.ledger.fold import fold_log
from kreach.adsystem.ledger.ledger import Ledger, family_key
from kreach.adsystem.ledger.tokens import Claim, Tokens
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.fleet_member import FleetMember
from kreach.adsystem.sharing.recovery import RESTART_SECONDS, recover_bidder
from kreach.boundary.money import as_micros
from kreach.boundary.times import MICROS
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.steady_clock import SteadyClock
from kreach.service.web import Request
from simulations.money.disk import SteppedJournal
from simulations.money.redis import SimulatedRedis, Wire

__all__ = ["EXPIRY_SECONDS", "Machine", "SimulatedBidder"]

EXPIRY_SECONDS = 60
FAMILY = family_key(1)
_CATALOGUE = 1
_GROUPS: dict[int, tuple[str, Any]] = {_CATALOGUE: ("v1", np.array(["g"], dtype=object))}


@dataclass
class Machine:
    """A computer: its clocks, by the time that has really passed."""

    real: Callable[[], float]
    wrong: float = 0.0  # seconds that the wall clock is ahead
    booted: float = 0.0  # by the real time
    boot: int = 1

    def wall(self) -> float:
        return self.real() + self.wrong

    def uptime(self) -> float:
        return self.real() - self.booted

    def reboot(self) -> None:
        self.boot += 1
        self.booted = self.real() - 1.0


class _Inline(Executor):
    """Runs what it is given at once: everything happens in one thread."""

    def submit(self, work: Any, /, *given: Any, **named: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(work(*given, **named))
        except Exception as error:
            future.set_exception(error)
        return future


class _Nothing:
    """Stands in for what is shared besides money."""

    counted_row = 0
    rows_behind = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: []


async def _stored() -> None:
    """Notices wait for the journal only."""


class SimulatedBidder:
    """A bidder that lives, dies and starts again from its folder."""

    def __init__(
        self,
        name: str,
        folder: Path,
        machine: Machine,
        stored: Callable[[], Mapping[int, StoredCampaign]],
        family_budget: int | None,
        redis: tuple[SimulatedRedis, RedisSettings] | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.name, self.folder, self.machine = name, folder, machine
        self._stored, self.campaigns = stored, dict[int, StoredCampaign]()
        self._family_budget, self._redis, self._loop = family_budget, redis, loop
        self.alive, self.died = False, 0.0
        self.start()

    def start(self) -> None:
        """Start from the log, as `BidderState` does."""
        log = Log("bidder", lambda _: None)
        self.campaigns = dict(self._stored())
        self.journal = journal = SteppedJournal(self.folder, log)
        sweep_unlisted(journal._connection, self.folder)
        settings = SimpleNamespace(expiry_seconds=EXPIRY_SECONDS)
        self.state = state = SimpleNamespace(
            settings=settings,
            expiry_seconds=EXPIRY_SECONDS,
            store=self.folder,
            log=log,
            journal=journal,
            tokens=Tokens(b"0123456789abcdef", self.name),
            stored_campaigns=self.campaigns,
            on_loop=lambda done: done,
            bidder_of=lambda claim: None,
            revert=lambda claim: None,
            set_low_funds=lambda number, micros: None,
            traffic={},
            places=lambda: (),
            family_of=lambda stored: None,
            revision=1,
            family_revision=1,
            replicated_row=None,
            replicated=_stored,
            campaigns=SimpleNamespace(replicate=lambda *_: None),
        )
        machine = self.machine
        self.watch = ClockWatch(
            cast(Any, state),
            lambda mark, **more: SteadyClock(
                mark, machine.wall, machine.uptime, boot=machine.boot, **more
            ),
        )
        self.clock = state.clock = self.watch.start(journal)
        state.now = self.clock
        self.ledger = state.ledger = Ledger(journal.epoch, journal.fenced_epoch)
        state.accounts = self.ledger.accounts
        self._load(journal)
        self.notices = Notices(cast(Any, state), Metrics("bidder"))
        self._grants = LocalGrants(
            cast(Any, journal), state.accounts, state.on_loop, state.set_low_funds
        )
        self.fleet: FleetMember | None = None
        if self._redis is not None:
            self._join(*self._redis)
        self.alive = True

    def _join(self, server: SimulatedRedis, settings: RedisSettings) -> None:
        self.wire = Wire(server)
        self.fleet = fleet = FleetMember(
            cast(Any, self.state), settings, self.name, lambda _: self.wire
        )
        inner: Any = fleet
        inner._thread.shutdown()
        inner._thread = _Inline()
        inner._feed = inner._peers = inner._traffic = _Nothing()
        pool: Any = inner._pool
        pool.delete_other_runs = lambda: None
        pool.read_traffic = lambda position: (b"0", [])
        pool.campaigns_after = pool.families_after = lambda revision: {}

    def _load(self, journal: SteppedJournal) -> None:
        now = self.clock()
        starts = {n: stored.campaign.start.timestamp() for n, stored in self.campaigns.items()}
        family = None
        if self._family_budget is not None:
            family = self.ledger.accounts[FAMILY] = Account(self._family_budget, None, 0.0)
        for number, stored in self.campaigns.items():
            daily = stored.campaign.daily_budget
            account = Account(
                as_micros("budget", stored.campaign.budget),
                None if daily is None else as_micros("daily_budget", daily),
                starts[number],
                self.watch.steps,
            )
            if self._redis is not None:
                account.day_grants = {}
            if family is not None:
                account.join(family)
            self.ledger.accounts[number] = account
        folded = fold_log(cast(Any, journal), self.folder, starts, {}, now)
        grants = dict(journal.read("SELECT campaign, micros FROM grants"))
        for number in self.campaigns:
            for day, micros in folded.spent.get(number, {}).items():
                self.ledger.accounts[number].book(micros, day)
        for number, account in self.ledger.accounts.items():
            account.carry(grants.get(number, 0), now + EXPIRY_SECONDS + 2)
        self.ledger.remember(folded.repeatable)
        self.ledger.remember_lost(folded.lost)

    def tick(self) -> None:
        """What happens ten times a second, and the pacing rows."""
        self.watch.check()
        self.ledger.expire(self.clock())
        if self.fleet is None:
            for number in self.ledger.accounts:
                self._grants.request(number)
        self.journal.submit("moment", (int(self.clock() * MICROS),))
        self.watch.write_mark()

    def sync(self, mode: str = "ok") -> None:
        """Exchange money messages with Redis."""
        assert self.fleet is not None
        self.wire.mode = mode
        self._loop.run_until_complete(self.fleet.sync())
        self.wire.mode = "ok"

    def poll(self) -> None:
        """Take up changed budgets, as `BidderState._load_campaign` does."""
        for number, stored in self._stored().items():
            if stored.revision != self.campaigns[number].revision:
                self.campaigns[number] = stored
                account = self.ledger.accounts[number]
                account.budget = as_micros("budget", stored.campaign.budget)

    def compact(self, *, fails: bool = False) -> int:
        """Move expired rows into files; if it fails, the files are there and are not listed."""
        names = {number: stored.campaign.id for number, stored in self.campaigns.items()}
        journal: Any = self.journal
        if fails:
            journal = SimpleNamespace(read=journal.read, run_now=lambda job: OSError("disk"))
        return compact(journal, self.folder, names, _GROUPS, self.clock())

    def stop(self) -> None:
        """End in order: what is not out on bids is given back, as `BidderState.stop` does."""
        for number, account in self.ledger.accounts.items():
            self.journal.submit("grant", (number, account.used()))
        self.watch.write_mark()
        if self.fleet is not None:
            self.journal.at_once = True
            self.fleet.close()
        self.journal.close()
        self.alive, self.died = False, self.machine.real()

    def recover(self, now: float) -> bool:
        """Have another bidder recover this dead one; False if it is too early."""
        assert self._redis is not None
        server, settings = self._redis
        dead_seconds = self.machine.real() - self.died
        if self.alive or dead_seconds < RESTART_SECONDS:
            return False
        _write_campaigns(self.folder, self._stored())
        wire = Wire(server)

        def open_journal(folder: Path, log: Log) -> SteppedJournal:
            self.journal = SteppedJournal(folder, log)
            return self.journal

        recover_bidder(
            self.name,
            self.folder,
            settings,
            now,
            Log("recovery", lambda _: None),
            settled=dead_seconds > EXPIRY_SECONDS + 2,
            connect=lambda _: wire,
            open_journal=open_journal,
        )
        return True

    def bid(self, number: int, micros: int, seconds: int) -> tuple[Claim, str] | None:
        """A bid and its token, if the clock and the money allow one."""
        if self.clock.doubt is not None or self.journal.failure is not None:
            return None
        claim = self.ledger.take(number, _CATALOGUE, 0, micros, self.clock(), seconds, 1)
        return None if claim is None else (claim, self.state.tokens.make(claim).decode())

    def notice(self, kind: str, token: str, micros: int) -> "asyncio.Task[Any]":
        """A notice arrives; its answer comes when the log has it."""
        request = Request(b"", token, b"price=%d.%03d" % divmod(micros, 1_000))

        async def handle() -> Any:
            answer = getattr(self.notices, kind)(request)
            return await answer if asyncio.iscoroutine(answer) else answer

        return self._loop.create_task(handle())


def _write_campaigns(folder: Path, stored: Mapping[int, StoredCampaign]) -> None:
    """The campaigns as a bidder keeps them, for whoever recovers it."""
    kept = CampaignStore(folder)
    kept.replicate(
        {
            number: (one.revision, json.dumps(one.campaign.document()))
            for number, one in stored.items()
        }
    )
    kept.close()
