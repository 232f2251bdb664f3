"""Fleets of real processes, and what must be true of them whatever happened."""

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import redis
from simulations.fleet import Fleet, FleetRecord

from kreach.adsystem.campaigns.campaign import campaign_from
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.sharing.redis_client import RedisUnavailable
from kreach.adsystem.sharing.redis_pool import RedisPool
from kreach.lab.exchange import Client
from tests.adsystem.ledger.sample_journals import all_rows
from tests.adsystem.sharing.faulty_members import settings_for

GROUPS, GROUP_SIZE = 60, 40
DAY_MICROS = 86_400_000_000


def document(name: str, budget: float, **more: Any) -> dict[str, Any]:
    """A campaign that bids high from its first request on, for an hour before and after now."""
    now = datetime.now(UTC)
    given = {
        "id": name,
        "budget": budget,
        "start": (now - timedelta(hours=1)).isoformat(),
        "end": (now + timedelta(hours=1)).isoformat(),
        "caps": [{"limit": 20}],
        "bidder": "paper",
        "expected_requests": 300,
        "max_cpm": 20.0,
        "creative": {"markup": "<b>ad</b>", "width": 300, "height": 250},
    }
    return given | more


def keep(fleet: Fleet, *campaigns: dict[str, Any]) -> None:
    """Have every bidder know campaigns as if reporting had told it before."""
    for folder in fleet.folders:
        store = CampaignStore(folder)
        for campaign in campaigns:
            store.add(campaign_from(campaign))
        store.close()


async def post(address: str, *campaigns: dict[str, Any]) -> None:
    """Have campaigns made by reporting."""
    client = Client(address)
    for campaign in campaigns:
        answer = await client.ask("POST", "/v1/campaigns", campaign)
        assert answer.status == 201, answer.body
    await client.close()


async def asked(address: str, target: str) -> Any:
    """The JSON that a service answers."""
    client = Client(address)
    answer = await client.ask("GET", target)
    assert answer.status == 200, answer.body
    await client.close()
    return answer.document


async def until(true: Callable[[], Awaitable[object]], what: str, seconds: float = 180.0) -> None:
    """Wait for something that must come; how long it takes does not matter."""
    end = time.monotonic() + seconds
    while not await true():
        assert time.monotonic() < end, f"never happened: {what}"
        await asyncio.sleep(0.1)


class Truth:
    """What all logs of a fleet hold together, by campaign number."""

    def __init__(self, fleet: Fleet) -> None:
        self.spend: Counter[int] = Counter()
        self.impressions: Counter[int] = Counter()
        self.by_bidder: dict[str, int] = {}
        for folder in fleet.folders:
            rows = all_rows(folder) if (folder / "live.sqlite3").exists() else []
            for _, campaign, micros, _ in rows:
                self.spend[campaign] += micros
                self.impressions[campaign] += 1
            self.by_bidder[folder.name] = sum(micros for _, _, micros, _ in rows)


def groups_of(fleet: Fleet) -> Counter[tuple[int, int]]:
    """Impressions by campaign and group, of the live part of all logs."""
    found: Counter[tuple[int, int]] = Counter()
    for folder in fleet.folders:
        path = (folder / "live.sqlite3").as_uri()
        with closing(sqlite3.connect(f"{path}?mode=ro", uri=True)) as log:
            found.update(log.execute("SELECT campaign, grp FROM impressions").fetchall())
    return found


def counts_in_redis(url: str, fleet: Fleet, campaign: int) -> list[int]:
    """Impressions by group as Redis has them."""
    pool = RedisPool(settings_for(url, fleet.names), fleet.names[0])
    try:
        pool.find_run()
        found: list[int] = pool.counts((campaign, "v1")).impressions.tolist()
    finally:
        pool.close()
    return found + [0] * (fleet.groups - len(found))


async def counts_agree(url: str, fleet: Fleet, campaigns: int) -> None:
    """Redis comes to hold what the logs hold, each impression once."""

    async def agree() -> bool:
        logs = groups_of(fleet)
        try:
            return all(
                counts_in_redis(url, fleet, number)
                == [logs[number, group] for group in range(fleet.groups)]
                for number in range(1, campaigns + 1)
            )
        except RedisUnavailable:
            return False

    await until(agree, "Redis and the logs agree")


def check_acknowledged(fleet: Fleet, record: FleetRecord, names: dict[int, str]) -> None:
    """Whatever was acknowledged is in a log."""
    logs = groups_of(fleet)
    for number, name in names.items():
        told = np.array([record.groups[name, group] for group in range(fleet.groups)])
        held = np.array([logs[number, group] for group in range(fleet.groups)])
        assert (held >= told).all()


def money_in_redis(url: str, fleet: Fleet, campaign: int) -> dict[str, int]:
    """What Redis has set aside (g:) and knows as spent (s:), by bidder."""
    with redis.Redis.from_url(url) as client:
        run_id = client.info("server")["run_id"]
        fields = client.hgetall(f"{{kreach}}:{run_id}:money:{campaign}")
    return {name.decode(): int(value) for name, value in fields.items()}
