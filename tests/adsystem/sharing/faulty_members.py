"""Real fleet members on a real Redis, with disks and connections that the test controls.

The disk commits, fails or is cut off when the test says so, and messages to Redis may arrive late
or have their answers lost: these are the moments at which money could be leased twice.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from kreach.adsystem.campaigns.campaign import Campaign, Cap
from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.settings import RedisSettings
from kreach.adsystem.sharing.fleet_member import FleetMember
from kreach.adsystem.sharing.redis_pool import RedisPool
from kreach.boundary.money import as_micros
from kreach.service.logs import Log
from tests.adsystem.sharing.faulty_redis import FaultyRedis, FaultyScript

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
        "max_cpm": 100.0,
    }
    return Campaign(**(given | more))


@dataclass
class ManualDisk:
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


class FaultyMember:
    """One bidder: its account, its disk, its connection, and the real `FleetMember`."""

    def __init__(
        self, settings: RedisSettings, name: str, folder: Path, campaign: Campaign
    ) -> None:
        self.settings, self.name, self.folder, self.campaign = settings, name, folder, campaign
        self.disk = ManualDisk(f"log-{name}")
        self.now = START.timestamp() + 1.0
        self.alive = False
        self.lines: list[str] = []
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
        bidder = SimpleNamespace(
            journal=self.disk,
            store=self.folder / self.name,
            accounts={NUMBER: account},
            stored_campaigns={NUMBER: StoredCampaign(NUMBER, self.campaign, 1)},
            traffic={},
            expiry_seconds=EXPIRY_SECONDS,
            now=lambda: self.now,
            places=lambda: (),
            log=Log("bidder", self.lines.append),
            on_loop=lambda done: done,
            set_low_funds=lambda number, micros: None,
            revision=1,
            family_revision=0,
            replicated_row=None,
            family_of=lambda stored: None,
            campaigns=None,
        )
        self.fleet = FleetMember(cast(Any, bidder), self.settings, self.name, self._connect)
        self.alive = True

    def _connect(self, settings: RedisSettings) -> FaultyRedis:
        self._redis = FaultyRedis(settings)
        return self._redis

    @property
    def wire(self) -> FaultyScript:
        """The way of money messages to Redis."""
        return self._redis.sync

    def move(self, settings: RedisSettings) -> None:
        """The address of Redis leads to another one: it was restarted, with nothing in it."""
        self.settings = settings
        self._redis.switch(settings)

    def exchange(self, mode: str = "ok") -> None:
        """Sync once."""
        self.wire.mode = mode
        _LOOP.run(self.fleet.sync())
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
        self.fleet.disconnect()

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


def pool_of(url: str, name: str, names: Sequence[str], epoch: int = 1, **more: Any) -> RedisPool:
    """A pool that knows its run of Redis."""
    pool = RedisPool(settings_for(url, names, **more), name, f"log-{name}", epoch)
    pool.find_run()
    return pool
