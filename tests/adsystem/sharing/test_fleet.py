"""Processes that share: to the micro within the budget, and everybody's books say the same."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest
from simulations.fleet import Fleet, FleetRun, RedisServer

from tests.adsystem.sharing.fleet_processes import (
    GROUP_SIZE,
    GROUPS,
    Truth,
    asked,
    check_acknowledged,
    counts_agree,
    document,
    money_in_redis,
    post,
    until,
)

pytestmark = pytest.mark.xdist_group("fleet")

STACKED = [{"limit": 1, "span_seconds": 2}, {"limit": 3, "span_seconds": 30}, {"limit": 9}]


def test_budgets_hold_and_all_books_agree(tmp_path: Path) -> None:
    async def main(held: ExitStack) -> None:
        redis = held.enter_context(RedisServer(tmp_path))
        fleet = Fleet(tmp_path, GROUPS, GROUP_SIZE, 2, redis.url, pacing_seconds=0.5)
        reporting = held.enter_context(fleet.start_reporting())
        processes = [held.enter_context(fleet.start(name)) for name in fleet.names]
        run = FleetRun([process.address() for process in processes], GROUPS, GROUP_SIZE, seed=1)
        # the first is short of money, the second of the day's, and both want every request
        await post(
            reporting.address(),
            document("one", 0.9, caps=[{"limit": 1}]),
            document("two", 5.0, caps=STACKED, daily_budget=0.7, max_cpm=15.0),
        )
        limits = {"one": 900_000, "two": 700_000}

        async def all_spent() -> bool:
            record = await run.run(300)
            return all(record.spend_micros[name] > 0.9 * limits[name] for name in limits)

        await until(all_spent, "the money is spent")
        await run.run(400)
        record, truth = run.record, Truth(fleet)
        for number, name in enumerate(limits, 1):
            told = await asked(reporting.address(), f"/v1/campaigns/{name}/reach?cap=1")
            assert record.spend_micros[name] == truth.spend[number] == told["spend_micros"]
            assert truth.spend[number] <= limits[name]
            assert truth.impressions[number] == told["impressions"]
        assert min(truth.by_bidder.values()) > 0
        await counts_agree(redis.url, fleet, 2)
        check_acknowledged(fleet, record, {1: "one", 2: "two"})
        for process in processes:
            assert process.stop() == 0
        for number, budget in ((1, 900_000), (2, 5_000_000)):  # what was not needed is given back
            money = money_in_redis(redis.url, fleet, number)
            for name in fleet.names:
                assert money[f"g:{name}"] == money[f"s:{name}"]
            assert sum(money[f"s:{name}"] for name in fleet.names) <= budget
        assert set(record.no_bids) <= {"no bid"}
        await run.close()

    with ExitStack() as held:
        asyncio.run(main(held))
