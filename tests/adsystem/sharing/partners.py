"""Bidders' halves of the sharing, over a real Redis: their disks and their wires are the test's.

`Partner` is the real one. Its disk commits, fails or is cut off when the test says so, and what it
sends to Redis may arrive late, or have its answer lost: these are the moments at which money could
be given out twice.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import redis

from kreach.adsystem.campaigns.campaign import Campaign, Cap
from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.fleet_member import Partner
from kreach.adsystem.sharing.redis_pool import Pool, connect
from kreach.adsystem.sharing.redis_scripts import FEED, TELL
from kreach.boundary.money import as_micros
from kreach.service.logs import Log

START = datetime(2026, 11, 1, tzinfo=UTC)
EXPIRY_SECONDS = 10
NUMBER = 1  # of the one campaign

Done = Callable[[Exception | None], None]
_LOOP = asyncio.Runner()  # one for all: making one takes longer than an exchange


def settings_for(url: str, names: Sequence[str], **more: Any) -> RedisSettings:
    """Settings of bidders with these names."""
    given: dict[str, Any] = {"url": url, "bidders": tuple(names), "timeout_seconds": 5.0}
    return RedisSettings(**(given | more))


def a_campaign(budget: float, daily: float | None = None, **more: Any) -> Campaign:
    """A campaign of ten days."""
    given: dict[str, Any] = {
        "id": "one",
        "budget": budget,
        "daily_budget": daily,
        "start": START,
        "end": START + timedelta(days=10),
        "caps": (Cap(limit=1),),
    }
    return Campaign(**(given | more))


@dataclass
class Disk:
    """A log whose writes wait until the test lets them through; what it holds outlives a crash."""

    id: str
    epoch: int = 1
    grants: dict[int, int] = field(default_factory=dict)
    spent: list[tuple[int, int]] = field(default_factory=list)  # micros and their day
    waiting: list[tuple[tuple[int, int], Done | None]] = field(default_factory=list)

    def submit(self, kind: str, values: tuple[int, int], done: Done | None = None) -> None:
        assert kind == "grant"
        self.waiting.append((values, done))

    def commit(self, *, fails: bool = False) -> None:
        """All that waits is written, or nothing of it."""
        waiting, self.waiting = self.waiting, []
        if not fails:
            self.grants.update(values for values, _ in waiting)
        for _, done in waiting:
            if done is not None:
                done(OSError("disk full") if fails else None)

    def most(self) -> int:
        """The most that a start from this disk could find granted, whatever happens next."""
        return max([self.grants.get(NUMBER, 0), *(values[1] for values, _ in self.waiting)])


class Wire:
    """The way of a script to Redis: its message may be held up, or its answer lost."""

    def __init__(self, script: Any) -> None:
        self._script = script
        self.mode = "ok"
        self.held: list[dict[str, Any]] = []

    def __call__(self, **call: Any) -> Any:
        if self.mode == "held":
            self.held.append(call)
            raise redis.ConnectionError("no answer")
        answer = self._script(**call)
        if self.mode == "lost":
            raise redis.ConnectionError("no answer")
        return answer

    def deliver(self, at: int) -> None:
        """What was held up arrives after all; nobody waits for the answer."""
        self._script(**self.held.pop(at))


class Half:
    """One bidder: its account, its disk, its wire, and the real `Partner`."""

    def __init__(
        self, settings: RedisSettings, name: str, folder: Path, campaign: Campaign
    ) -> None:
        self.settings, self.name, self.folder, self.campaign = settings, name, folder, campaign
        self.disk = Disk(f"log-{name}")
        self.now = START.timestamp() + 1.0
        self.alive = False
        self.said: list[str] = []
        self.start()

    @property
    def account(self) -> Account:
        return self._account

    @property
    def day(self) -> int:
        return self._account.day_of(int(self.now * 1e6))

    def start(self) -> None:
        """Start from the disk, as a bidder does."""
        daily = self.campaign.daily_budget
        self._account = account = Account(
            as_micros("budget", self.campaign.budget),
            None if daily is None else as_micros("daily_budget", daily),
            START.timestamp(),
        )
        account.day_grants = {}
        for micros, day in self.disk.spent:
            account.book(micros, day)
        account.carry(self.disk.grants.get(NUMBER, 0), self.now + EXPIRY_SECONDS + 2)
        state = SimpleNamespace(
            journal=self.disk,
            shared=SimpleNamespace(store=self.folder / self.name),
            ledger=SimpleNamespace(accounts={NUMBER: account}),
            kept={NUMBER: StoredCampaign(NUMBER, self.campaign, 1)},
            desks={},
            clock=lambda: self.now,
            log=Log("bidder", self.said.append),
            on_loop=lambda done: done,
            ask_below=lambda number, micros: None,
            revision=1,
            campaigns=None,
        )
        self.partner = Partner(cast(Any, state), self.settings, self.name)
        self._wired()
        self.alive = True

    def _wired(self) -> None:
        pool: Any = self.partner.pool
        self.wire = pool._tell = Wire(pool._tell)

    def move(self, settings: RedisSettings) -> None:
        """The address of Redis leads to another one: it was started anew, with nothing in it."""
        self.settings = settings
        pool: Any = self.partner.pool
        pool._client.close()
        pool._client = connect(settings)
        pool._tell, pool._feed = (pool._client.register_script(text) for text in (TELL, FEED))
        self._wired()

    def exchange(self, mode: str = "ok") -> None:
        """Tell and hear once."""
        self.wire.mode = mode
        _LOOP.run(self.partner._exchange_once())
        self.wire.mode = "ok"

    def synced(self) -> None:
        """Exchange until money that is to be had has arrived."""
        for _ in range(3):
            self.exchange()
            self.disk.commit()

    def crash(self) -> None:
        """What was not written is gone."""
        self.disk.waiting.clear()
        self.disk.epoch += 1
        self.alive = False
        self.close()

    def close(self) -> None:
        self.partner._thread.shutdown()
        self.partner.pool.close()

    def usable(self) -> int:
        """The most that this bidder could bid with, now or after a crash and a start."""
        return max(self._account.granted if self.alive else 0, self.disk.most())

    def usable_today(self, out_before: int) -> int:
        """What may be bid with today, or is out or spent already.

        `out_before` is what an earlier run had out, which nobody but the test knows exactly.
        """
        if not self.alive:
            return out_before + sum(micros for micros, day in self.disk.spent if day == self.day)
        account = self._account
        granted = (account.day_grants or {}).get(self.day, 0)
        return max(granted, account.used_on(self.day) - account.carried + out_before)


def pool_of(url: str, name: str, names: Sequence[str], epoch: int = 1, **more: Any) -> Pool:
    """A pool that knows its run of Redis."""
    pool = Pool(settings_for(url, names, **more), name, f"log-{name}", epoch)
    pool.find_run()
    return pool
