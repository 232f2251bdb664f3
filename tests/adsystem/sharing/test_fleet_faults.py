"""Redis dies, hangs, forgets; bidders are cut off and killed: budgets hold, and nothing is lost."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from simulations.fleet import Fleet, FleetRun, RedisServer, SlowProxy

from kreach.lab.processes import ServiceProcess
from tests.adsystem.sharing.fleet_processes import (
    GROUP_SIZE,
    GROUPS,
    Truth,
    asked,
    check_acknowledged,
    counts_agree,
    document,
    keep,
    money_in_redis,
    until,
)

pytestmark = pytest.mark.xdist_group("fleet")

REDIS = {"timeout_seconds": 0.3, "sync_seconds": 0.1}
STACKED = [{"limit": 2, "span_seconds": 3}, {"limit": 9, "span_seconds": 60}]


class Chaos:
    """Four bidders under load, the last of them on a way to Redis that can be cut."""

    def __init__(self, folder: Path, held: ExitStack, chance: random.Random) -> None:
        self.held, self.chance = held, chance
        self.redis = held.enter_context(RedisServer(folder))
        self.fleet = Fleet(
            folder, GROUPS, GROUP_SIZE, 4, self.redis.url, expiry_seconds=2, redis=REDIS
        )
        self.processes: dict[str, ServiceProcess] = {}

    async def open(self) -> None:
        self.way = await SlowProxy(self.redis.port).open()
        for name in self.fleet.names:
            self.start(name)
        addresses = [process.address() for process in self.processes.values()]
        self.run = FleetRun(addresses, GROUPS, GROUP_SIZE, seed=5)

    def start(self, name: str) -> None:
        url = f"redis://127.0.0.1:{self.way.port}/0" if name == self.fleet.names[-1] else None
        self.processes[name] = self.held.enter_context(self.fleet.start(name, url))

    async def wait(self, low: float, high: float) -> None:
        await asyncio.sleep(self.chance.uniform(low, high))

    async def redis_starts_anew(self) -> None:
        self.redis.kill()
        await self.wait(0.0, 0.4)
        self.redis.start()

    async def twice_in_a_row(self) -> None:
        for _ in range(2):
            await self.redis_starts_anew()
            await self.wait(0.0, 0.3)

    async def redis_hangs(self) -> None:
        self.redis.signal(signal.SIGSTOP)
        await self.wait(0.5, 1.2)
        self.redis.signal(signal.SIGCONT)

    async def one_is_cut_off(self) -> None:
        """What it sent may arrive when nobody waits for it any more."""
        self.way.cut = True
        if self.chance.random() < 0.5:
            self.way.sever()
        await self.wait(0.5, 1.2)
        self.way.cut = False

    async def one_is_killed(self) -> None:
        name = self.chance.choice(self.fleet.names[1:])
        self.processes[name].stop(signal.SIGKILL)
        await self.wait(0.0, 0.5)
        self.start(name)
        address = await asyncio.to_thread(self.processes[name].address)
        at = self.fleet.names.index(name)
        self.run.to([*self.run.addresses[:at], address, *self.run.addresses[at + 1 :]])

    async def all_share(self) -> None:
        """Wait until all are heard and money is given out."""

        async def shared() -> bool:
            told = [await asked(address, "/healthz") for address in self.run.addresses]
            return all(one["sharing"]["leasing"] for one in told)

        await until(shared, "all share again")

    async def close(self) -> None:
        await self.run.close()
        await self.way.close()


def test_whatever_happens_budgets_hold_and_no_impression_is_lost(tmp_path: Path) -> None:
    limits = {1: 6_000_000, 2: 1_500_000}

    def check(chaos: Chaos) -> Truth:
        truth = Truth(chaos.fleet)
        for number, limit in limits.items():
            assert truth.spend[number] <= limit
        check_acknowledged(chaos.fleet, chaos.run.record, {1: "one", 2: "two"})
        return truth

    async def main(held: ExitStack) -> None:
        chaos = Chaos(tmp_path, held, random.Random(11))
        keep(
            chaos.fleet,
            document("one", 6.0, expected_requests=2_500),
            document("two", 9.0, daily_budget=1.5, caps=STACKED, expected_requests=4_000),
        )
        await chaos.open()
        load = asyncio.create_task(chaos.run.run(10**6, 6, per_second=400))
        events: list[Callable[[], Awaitable[None]]] = [
            chaos.redis_starts_anew,
            chaos.twice_in_a_row,
            chaos.redis_hangs,
            chaos.one_is_cut_off,
            chaos.one_is_killed,
            chaos.one_is_cut_off,
            chaos.redis_hangs,
        ]
        chaos.chance.shuffle(events)
        await chaos.wait(0.5, 1.5)
        for event in events:
            await event()
            await chaos.wait(0.1, 0.6)
            check(chaos)
        await chaos.all_share()

        dead = chaos.fleet.names[1]  # and now for good: a sibling frees what it held
        chaos.processes[dead].stop(signal.SIGKILL)
        spent = Truth(chaos.fleet).by_bidder[dead]
        assert spent > 0

        async def freed() -> bool:
            money = [money_in_redis(chaos.redis.url, chaos.fleet, n) for n in limits]
            told = sum(one[f"s:{dead}"] for one in money)
            return told == spent == sum(one[f"g:{dead}"] for one in money)

        await until(freed, "a sibling speaks for the dead")

        async def all_spent() -> bool:
            truth = Truth(chaos.fleet)  # spend only grows: it is checked when all of it is known
            return truth.spend[1] > 0.97 * limits[1] and truth.spend[2] > 0.9 * limits[2]

        await until(all_spent, "the others spend the rest")
        chaos.run.stopped = True
        await load
        check(chaos)
        await counts_agree(chaos.redis.url, chaos.fleet, 2)
        for name, process in chaos.processes.items():
            assert name == dead or process.stop() == 0
            assert not [event for event in process.events() if event["level"] == "error"]
        await chaos.close()

    with ExitStack() as held:
        asyncio.run(main(held))


def test_redis_is_not_there_at_first_and_then_gone_for_long(tmp_path: Path) -> None:
    async def main(held: ExitStack) -> None:
        redis = held.enter_context(RedisServer(tmp_path))
        redis.kill()
        fleet = Fleet(tmp_path, GROUPS, GROUP_SIZE, 2, redis.url, redis=REDIS)
        keep(fleet, document("one", 2.0, expected_requests=1_000))
        processes = [held.enter_context(fleet.start(name)) for name in fleet.names]
        run = FleetRun([process.address() for process in processes], GROUPS, GROUP_SIZE, seed=3)
        record = await run.run(100)
        assert record.no_bids == {"no bid": 100}  # no money is known to be theirs
        redis.start()

        async def spending() -> bool:
            return (await run.run(50)).spend_micros["one"] > 100_000

        await until(spending, "money is given out")
        redis.kill()
        held_before = Truth(fleet).spend[1]

        async def dry() -> bool:
            spent = record.spend_micros["one"]
            await asyncio.sleep(0.3)
            return (await run.run(50)).spend_micros["one"] == spent

        await until(dry, "what they hold is spent")
        spent = Truth(fleet).spend[1]
        assert held_before <= spent == record.spend_micros["one"] < 1_000_000
        for address in run.addresses:
            assert (await asked(address, "/healthz"))["status"] == "ok"
        redis.start()

        async def all_spent() -> bool:
            return (await run.run(100)).spend_micros["one"] > 1_900_000

        await until(all_spent, "they go on")
        assert Truth(fleet).spend[1] == record.spend_micros["one"] <= 2_000_000
        await counts_agree(redis.url, fleet, 1)
        for process in processes:
            assert process.stop() == 0
        await run.close()

    with ExitStack() as held:
        asyncio.run(main(held))
