"""Whole bidders that share: every micro of a budget is spent once, whoever comes and goes."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from simulations.fleet import RedisServer

from kreach.adsystem.campaigns.campaign import Cap
from kreach.adsystem.campaigns.store import CampaignStore
from tests.adsystem.sharing.fleet_bidders import FleetBidder, fleet_bidders, settle, spend_all
from tests.faults.in_process_bidder import a_campaign

TWO = ("b1", "b2")
DAY = 86_400.0


def test_a_budget_is_spent_to_the_micro_and_not_beyond(url: str, tmp_path: Path) -> None:
    async def main() -> None:
        first, second = fleet_bidders(tmp_path, TWO, url, a_campaign(budget=0.6))
        async with first.open(), second.open():
            await settle(lambda: first.awake and second.awake)
            spent = await spend_all([first, second])
            assert sum(spent) == 600_000
            assert min(spent) > 100_000
            assert first.account.left() == second.account.left() == 0
        for room in (first, second):
            told = [line for line in room.troubles() if line["event"] != "not sharing"]
            assert not told

    asyncio.run(main())


ROLLING = (Cap(limit=1, span_seconds=3_600), Cap(limit=4, span_seconds=86_400))


@pytest.mark.parametrize("caps", [(Cap(limit=20),), ROLLING], ids=["flight", "rolling"])
def test_impressions_of_one_are_known_to_the_other(
    url: str, tmp_path: Path, caps: tuple[Cap, ...]
) -> None:
    async def main() -> None:
        first, second = fleet_bidders(tmp_path, TWO, url, a_campaign(budget=5.0, caps=caps))
        expected = np.bincount([0, 0, 1, 1, 5, 7], minlength=40).tolist()
        async with second.open():
            async with first.open():
                await settle(lambda: first.awake and second.awake)
                for group in (0, 0, 1, 5):
                    await first.tell("billing", await first.bid(group))
                for group in (1, 7):
                    await second.tell("billing", await second.bid(group))
                await settle(lambda: first.counted() == second.counted() == expected)
            async with first.open():  # it starts anew: from its log, and from what others told
                await settle(lambda: first.counted() == expected)
                await second.tell("billing", await second.bid(9))
                await settle(lambda: first.counted()[9] == 1)
                assert first.counted() == second.counted()

    asyncio.run(main())


def test_a_day_is_shared_and_so_is_the_next(url: str, tmp_path: Path) -> None:
    async def main() -> None:
        both = fleet_bidders(tmp_path, TWO, url, a_campaign(budget=5.0, daily_budget=0.3))
        first, second = both
        async with first.open(), second.open():
            for _ in range(2):
                await settle(lambda: all(_today(room) for room in both))
                assert sum(await spend_all(both)) == 300_000
                for room in both:
                    room.pass_time(DAY)
                    room.state.clock()

    asyncio.run(main())


def _today(room: FleetBidder) -> int:
    account = room.account
    available: int = account.available(account.day_of(int(room.state.clock() * 1e6)))
    return available


def test_after_a_crash_a_day_holds_what_others_have_taken_of_it(url: str, tmp_path: Path) -> None:
    """What may have been out of the flight's money is not the day's to spend a second time."""

    async def main() -> None:
        campaign = a_campaign(budget=50.0, daily_budget=0.3)
        first, second = fleet_bidders(tmp_path, TWO, url, campaign, expiry_seconds=5)
        async with second.open():
            async with first.open(dies=True):
                await settle(lambda: _today(first) and _today(second))
                assert first.account.granted > 300_000
                assert sum(await spend_all([second, first])) == 300_000
            async with first.open():
                await settle(lambda: first.state.fleet and first.state.fleet.status.leasing)
                assert first.account.carried > 0
                for room in (first, second):
                    room.pass_time(10.0)
                await settle(lambda: first.account.carried == 0)
                assert sum(await spend_all([first, second])) == 0

    asyncio.run(main())


def test_who_stops_gives_back_what_it_does_not_need(url: str, tmp_path: Path) -> None:
    async def main() -> None:
        first, second = fleet_bidders(tmp_path, TWO, url, a_campaign(budget=0.4))
        async with second.open():
            async with first.open():
                await settle(lambda: first.awake and second.awake)
                for group in range(5):
                    await first.tell("billing", await first.bid(group))
            spent = first.spent()
            assert sum(await spend_all([second])) == 400_000 - spent

    asyncio.run(main())


def test_who_died_keeps_its_slice_until_it_starts_again(url: str, tmp_path: Path) -> None:
    async def main() -> None:
        first, second = fleet_bidders(tmp_path, TWO, url, a_campaign(budget=0.4), expiry_seconds=5)
        async with second.open():
            async with first.open(dies=True):
                await settle(lambda: first.awake and second.awake)
                out = [await first.bid(group) for group in range(3)]
                granted = first.account.granted
            assert sum(await spend_all([second])) == 400_000 - granted
            async with first.open():
                for sold in out:  # what was out when it died is paid
                    assert await first.tell("billing", sold, sold.bid_micros / 1_000) == 200
                for room in (first, second):
                    room.pass_time(10.0)
                await settle(lambda: first.account.carried == 0)
                await spend_all([first, second])
                assert first.spent() + second.spent() == 400_000

    asyncio.run(main())


def test_a_sibling_frees_the_slice_of_one_that_stays_dead(url: str, tmp_path: Path) -> None:
    async def main() -> None:
        first, second = fleet_bidders(tmp_path, TWO, url, a_campaign(budget=0.4), expiry_seconds=1)
        async with second.open():
            async with first.open(dies=True):
                await settle(lambda: first.awake and second.awake)
                await first.tell("billing", await first.bid(3))
            spent = first.spent()
            await settle(lambda: _spoke(second, settled=True))
            assert sum(await spend_all([second])) == 400_000 - spent
            async with first.open():  # and it starts again with nothing of it
                assert (first.account.granted, first.account.carried) == (spent, 0)
                assert sum(await spend_all([first, second])) == 0

    asyncio.run(main())


def _spoke(room: FleetBidder, *, settled: bool) -> bool:
    return any(
        line["event"] == "dead bidder recovered" and line["settled"] == settled
        for line in room.lines
    )


def test_a_budget_that_is_lowered_holds_as_soon_as_all_know(url: str, tmp_path: Path) -> None:
    async def main() -> None:
        both = fleet_bidders(tmp_path, TWO, url, a_campaign(budget=40.0))
        first, second = both
        async with first.open(), second.open():
            await settle(lambda: first.awake and second.awake)
            for room in both:
                for group in range(3):
                    assert await room.tell("billing", await room.bid(group), 0.01) == 200
                kept = CampaignStore(room.store)
                kept.change("one", {"budget": 0.25})
                kept.close()
            await settle(lambda: sum(room.account.granted for room in both) <= 250_000)
            await spend_all(both)
            assert first.spent() + second.spent() == 250_000

    asyncio.run(main())


def test_without_redis_bidders_go_on_with_what_they_hold_and_recover(
    server: RedisServer, url: str, tmp_path: Path
) -> None:
    async def main() -> None:
        both = fleet_bidders(tmp_path, TWO, url, a_campaign(budget=3.0))
        first, second = both
        async with first.open(), second.open():
            await settle(lambda: first.awake and second.awake)
            server.kill()
            held = sum(room.account.granted for room in both)
            assert sum(await spend_all(both)) == held < 3_000_000
            assert (await first.ask("/healthz")).document["sharing"]["synced_seconds_ago"] > 0
            server.start()
            await spend_all(both, 100)
            assert first.spent() + second.spent() == 3_000_000
            expected = (np.array(_counted(first)) + _counted(second)).tolist()
            await settle(lambda: first.counted() == second.counted() == expected)

    asyncio.run(main())


def _counted(room: FleetBidder) -> list[int]:
    """Impressions by group, of one's own log."""
    found = room.state.journal.read("SELECT grp FROM impressions")
    counts: list[int] = np.bincount([group for (group,) in found], minlength=40).tolist()
    return counts
