"""Families in a fleet: members on several bidders, every micro spent once and every win known."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.campaigns.campaign import Campaign, Cap
from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.sharing.redis_pool import RedisPool
from tests.adsystem.sharing.faulty_members import settings_for
from tests.adsystem.sharing.fleet_bidders import FleetBidder, fleet_bidders, settle, spend_all
from tests.faults.in_process_bidder import a_campaign

TWO = ("b1", "b2")


def members(family: Family, *budgets: float) -> list[Campaign]:
    return [
        a_campaign(f"c{at}", budget=budget, family=family.id) for at, budget in enumerate(budgets)
    ]


def pair_of(
    folder: Path, url: str, family: Family, *budgets: float, **more: Any
) -> list[FleetBidder]:
    return fleet_bidders(folder, TWO, url, *members(family, *budgets), families=[family], **more)


def shared(room: FleetBidder) -> Account:
    """The family's account."""
    account: Account = room.state.ledger.accounts[-1]
    return account


def by_campaign(room: FleetBidder) -> list[int]:
    accounts = room.state.ledger.accounts
    return [accounts[number].spent for number in sorted(accounts) if number > 0]


def test_a_familys_budget_is_spent_to_the_micro_and_not_beyond(url: str, tmp_path: Path) -> None:
    async def main() -> None:
        both = pair_of(tmp_path, url, Family(id="brand", budget=0.6), 0.5, 0.5, 5.0)
        first, second = both
        async with first.open(), second.open():
            await settle(lambda: first.awake and second.awake)
            spent = await spend_all(both)
            assert sum(spent) == 600_000
            assert min(spent) > 50_000
            assert shared(first).left() == shared(second).left() == 0
            assert shared(first).spent == sum(by_campaign(first)) == spent[0]
        for room in both:
            assert not [line for line in room.troubles() if line["event"] != "not sharing"]

    asyncio.run(main())


def test_each_members_own_budget_holds_beside_the_familys(url: str, tmp_path: Path) -> None:
    async def main() -> None:
        both = pair_of(tmp_path, url, Family(id="brand", budget=3.0), 0.2, 0.3)
        async with both[0].open(), both[1].open():
            await settle(lambda: both[0].awake and both[1].awake)
            assert sum(await spend_all(both)) == 500_000
            assert [sum(pair) for pair in zip(*map(by_campaign, both), strict=True)] == [
                200_000,
                300_000,
            ]

    asyncio.run(main())


def test_who_died_keeps_its_part_of_the_family_until_it_starts_again(
    url: str, tmp_path: Path
) -> None:
    async def main() -> None:
        family = Family(id="brand", budget=0.4)
        both = pair_of(tmp_path, url, family, 5.0, 5.0, expiry_seconds=5)
        first, second = both
        async with second.open():
            async with first.open(dies=True):
                await settle(lambda: first.awake and second.awake)
                out = [await first.bid(group) for group in range(3)]
                granted = shared(first).granted
            assert sum(await spend_all([second])) == 400_000 - granted
            async with first.open():
                for sold in out:
                    assert await first.tell("billing", sold, sold.bid_micros / 1_000) == 200
                for room in both:
                    room.pass_time(10.0)
                await settle(lambda: shared(first).carried == 0)
                await spend_all(both)
                assert first.spent() + second.spent() == 400_000

    asyncio.run(main())


def test_a_sibling_frees_the_part_of_one_that_stays_dead(url: str, tmp_path: Path) -> None:
    async def main() -> None:
        both = pair_of(tmp_path, url, Family(id="brand", budget=0.4), 5.0, 5.0, expiry_seconds=1)
        first, second = both
        async with second.open():
            async with first.open(dies=True):
                await settle(lambda: first.awake and second.awake)
                await first.tell("billing", await first.bid(3))
            spent = first.spent()
            await settle(
                lambda: any(
                    line["event"] == "dead bidder recovered" and line["settled"]
                    for line in second.lines
                )
            )
            assert sum(await spend_all([second])) == 400_000 - spent
            async with first.open():
                assert (shared(first).granted, shared(first).carried) == (spent, 0)
                assert sum(await spend_all(both)) == 0

    asyncio.run(main())


def test_a_familys_budget_may_be_set_lowered_and_taken_away(url: str, tmp_path: Path) -> None:
    async def main() -> None:
        both = pair_of(tmp_path, url, Family(id="brand", caps=(Cap(limit=50),)), 5.0, 5.0)
        first, second = both

        def change(budget: float | None) -> None:
            for room in both:
                kept = CampaignStore(room.store)
                kept.change_family("brand", {"budget": budget})
                kept.close()

        async with first.open(), second.open():
            await settle(lambda: first.awake and second.awake)
            for room in both:
                for group in range(3):
                    assert await room.tell("billing", await room.bid(group), 0.01) == 200
            change(0.25)
            await settle(lambda: sum(shared(room).granted for room in both) <= 250_000)
            await spend_all(both)
            assert first.spent() + second.spent() == 250_000
            change(0.35)
            await settle(lambda: any(shared(room).available(0) for room in both))
            await spend_all(both)
            assert first.spent() + second.spent() == 350_000
            change(None)
            await settle(lambda: all(shared(room).available(0) for room in both))
            await spend_all(both)
            assert first.spent() + second.spent() == 10_000_000

    asyncio.run(main())


def test_bidders_get_families_with_their_campaigns(url: str, tmp_path: Path) -> None:
    family = Family(id="brand", budget=0.3)
    (campaign,) = members(family, 5.0)

    async def main() -> None:
        both = fleet_bidders(tmp_path, TWO, url, a_campaign("alone"))
        pool = RedisPool(settings_for(url, TWO), "reporting")
        async with both[0].open(), both[1].open():
            await settle(lambda: both[0].awake and both[1].awake)
            pool.find_run()
            pool.publish_families({4: (1, json.dumps(family.document()))})
            pool.publish_campaigns({9: (2, json.dumps(campaign.document()))})
            await settle(lambda: all(9 in room.state.accounts for room in both))
            for room in both:
                assert room.state.accounts[9].family is room.state.accounts[-4]
        pool.close()

    asyncio.run(main())


WEEK = 7 * 86_400.0
CAPS = {"for all time": Cap(limit=2), "a week": Cap(limit=2, span_seconds=WEEK)}


def felt(room: FleetBidder, number: int, group: int) -> float:
    """What has been shown to a group, as a campaign feels it."""
    bidder = next(iter(room.state.catalogue_bidders.values()))
    runtime = bidder.runtimes[number]
    valuation = runtime.bidder.valuation
    if runtime.slot is None:
        return 1.0 - valuation.probability(group, room.state.clock())
    return valuation.count(group)


@pytest.mark.parametrize("cap", CAPS.values(), ids=CAPS.keys())
def test_what_one_member_shows_another_knows_on_every_bidder(
    url: str, tmp_path: Path, cap: Cap
) -> None:
    async def main() -> None:
        family = Family(id="brand", caps=(cap,))
        one = a_campaign("one", budget=5.0, caps=(Cap(limit=1),), family="brand")
        other = a_campaign("other", budget=5.0, caps=(Cap(limit=1),), family="brand", max_cpm=0.01)
        first, second = fleet_bidders(tmp_path, TWO, url, one, other, families=[family])
        async with second.open():
            async with first.open():
                await settle(lambda: first.awake and second.awake)
                for _ in range(3):
                    sold = await first.bid(4)
                    assert sold.campaign == "one"
                    await first.tell("billing", sold)
                    first.pass_time(1.0)
                    second.pass_time(1.0)
                here = felt(first, 2, 4)
                assert here > 0.0
                await settle(lambda: felt(second, 2, 4) == pytest.approx(here, rel=1e-6))
                assert felt(second, 1, 4) == pytest.approx(felt(first, 1, 4), rel=1e-6)
                assert felt(second, 2, 5) == 0.0
            async with first.open():  # it starts anew: from its log
                await settle(lambda: felt(first, 2, 4) == pytest.approx(here, rel=1e-6))

    asyncio.run(main())
