"""A wall clock that steps back: no day begins twice, nothing that has expired comes back."""

import asyncio
import random
from collections import Counter
from pathlib import Path

from kreach.service.clock import SteadyClock
from tests.adsystem.ledger.sample_journals import all_rows
from tests.faults.in_process_bidder import START, InProcessBidder, a_campaign

DAY = 86_400.0


def spent_by_day(room: InProcessBidder) -> dict[int, int]:
    by_day: Counter[int] = Counter()
    for _, _, price, bid_ts in all_rows(room.store):
        by_day[int((bid_ts / 1e6 - START.timestamp()) // DAY)] += price
    return dict(by_day)


async def spend_the_day(room: InProcessBidder) -> int:
    """Bill bids at their full price until the day's money is gone; how many."""
    bids = 0
    for at in range(300):
        if at % 100 == 0:
            await room.settled()
        sold = await room.may_bid(at % 40)
        if sold is None:
            continue
        assert await room.tell("billing", sold, f"{sold.bid_micros / 1_000:.3f}") == 200
        bids += 1
    return bids


def test_readings_never_fall(tmp_path: Path) -> None:
    chance = random.Random(6)
    wall, passed = 1_000.0, 5.0
    clock = SteadyClock(900.0, lambda: wall, lambda: passed)
    last = clock()
    assert last == 1_000.0
    for _ in range(2_000):
        step = chance.random()
        passed += step
        wall += step + (chance.uniform(-500.0, 500.0) if chance.random() < 0.05 else 0.0)
        now = clock()
        assert now >= last + step - 1e-6  # goes on as time passes
        assert now >= wall - 1e-6  # and follows a step forward
        last = now
    assert SteadyClock(2_000.0, lambda: 50.0, lambda: 0.0)() == 2_000.0


def test_a_day_does_not_begin_twice(tmp_path: Path) -> None:
    asyncio.run(_days(InProcessBidder(tmp_path, [a_campaign(budget=5.0, daily_budget=0.1)])))


async def _days(room: InProcessBidder) -> None:
    async with room.open(dies=True):
        assert await spend_the_day(room) > 0
        room.pass_time(DAY)
        await room.settled()
        assert await spend_the_day(room) > 0
        room.wall -= 2 * DAY  # a day before the flight, by the wall
        await room.settled()
        assert await spend_the_day(room) == 0
        room.pass_time(DAY / 2)
        room.wall += 3 * DAY / 2  # and to the middle of the day that was spent
        assert await spend_the_day(room) == 0
        days = spent_by_day(room)
        assert set(days) == {0, 1}
        assert all(0 < micros <= 100_000 for micros in days.values())
    room.wall -= DAY
    async with room.open(dies=True):  # nor by a restart
        room.pass_time(70.0)  # what the crash left out is free
        await room.settled()
        assert await spend_the_day(room) == 0
        assert spent_by_day(room) == days
        room.pass_time(DAY / 2)  # the next day comes when it has passed
        await room.settled()
        assert await spend_the_day(room) > 0
        assert set(spent_by_day(room)) == {0, 1, 2}
        assert spent_by_day(room)[2] <= 100_000
    assert not room.troubles()


def test_what_has_expired_stays_so(tmp_path: Path) -> None:
    asyncio.run(_expired(InProcessBidder(tmp_path, [a_campaign()])))


async def _expired(room: InProcessBidder) -> None:
    async with room.open(dies=True):
        billed, early = await room.bid(1), await room.bid(2)
        assert await room.tell("billing", billed) == 200
        room.pass_time(61.0)
        assert await room.tell("billing", early) == 410
        room.wall -= 3_600.0
        await room.settled()
        late = await room.bid(3)
        for sold in (billed, early):
            assert await room.tell("billing", sold) == 410
        assert await room.tell("billing", late) == 200
        await room.settled()  # the moment is written down
    room.wall -= 3_600.0
    async with room.open(dies=True):
        assert room.state.clock() > room.wall + 7_000.0
        for sold in (billed, early):
            assert await room.tell("billing", sold) == 410
        assert (await room.ask(f"/openrtb2/billing/{late.token}?price=0.001")).document == {
            "status": "repeated"
        }
        assert room.state.ledger.accounts[1].carried > 0
        room.pass_time(62.0)
        await room.settled()
        assert room.state.ledger.accounts[1].carried == 0
        assert await room.tell("billing", late) == 410
        await room.bid(4)
    assert room.numbers() == sorted([billed.number, late.number])
    assert not room.troubles()


def test_rows_in_files_are_not_billed_again(tmp_path: Path) -> None:
    """Their numbers are looked for nowhere: time must not go back behind their expiry."""
    asyncio.run(_moved(InProcessBidder(tmp_path, [a_campaign()], pacing_seconds=3_600.0)))


async def _moved(room: InProcessBidder) -> None:
    async with room.open(dies=True):
        sold = [await room.bid(group) for group in range(10)]
        for one in sold:
            assert await room.tell("billing", one) == 200
        room.pass_time(61.0)
        assert await asyncio.to_thread(room.state.compactor.compact) == 10
    room.wall -= 50.0  # by the wall none of them has expired
    async with room.open():
        for one in sold:
            assert await room.tell("billing", one) == 410
        assert room.counted()[:11] == [1] * 10 + [0]
    assert room.numbers() == sorted(one.number for one in sold)


def test_a_step_forward_expires_what_is_out_and_no_more(tmp_path: Path) -> None:
    asyncio.run(_forward(InProcessBidder(tmp_path, [a_campaign(budget=5.0, daily_budget=0.1)])))


async def _forward(room: InProcessBidder) -> None:
    async with room.open():
        sold = await room.bid(1)
        room.wall += 5 * DAY
        await room.settled()
        assert await room.tell("billing", sold) == 410
        assert room.state.ledger.accounts[1].reserved == 0
        room.wall -= 5 * DAY
        await spend_the_day(room)
        assert set(spent_by_day(room)) == {5}
        assert spent_by_day(room)[5] <= 100_000


def test_after_a_crash_all_is_as_the_log_says(tmp_path: Path) -> None:
    asyncio.run(
        _as_the_log(InProcessBidder(tmp_path, [a_campaign("one", 50.0), a_campaign("two", 0.02)]))
    )


async def _as_the_log(room: InProcessBidder) -> None:
    chance = random.Random(12)
    for _ in range(5):
        async with room.open(dies=True):
            rows = all_rows(room.store)
            assert sum(room.counted(1)) + sum(room.counted(2)) == len(rows)
            for number, account in room.state.ledger.accounts.items():
                mine = sum(price for _, campaign, price, _ in rows if campaign == number)
                assert account.spent == mine <= account.budget
            for at in range(60):
                sold = await room.may_bid(chance.randrange(40))
                if sold is not None and chance.random() < 0.6:
                    kind = chance.choice(["billing", "billing", "win", "loss"])
                    assert await room.tell(kind, sold) == 200
                room.pass_time(chance.random() * 4.0)
                if at % 20 == 0:
                    await room.settled()
                    await asyncio.to_thread(room.state.compactor.compact)
    assert not room.troubles()
