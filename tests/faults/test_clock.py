"""A clock that steps: no day begins twice, nothing expired comes back, no bid dies early."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from kreach.adsystem.ledger.clock_repair import clock_facts, repair_clock
from kreach.errors import KreachError
from kreach.service.logs import Log
from tests.adsystem.ledger.sample_journals import all_rows
from tests.faults.in_process_bidder import START, InProcessBidder, a_campaign
from tests.faults.service_processes import bid_request

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


def test_a_clock_years_ahead_stops_bids_and_nothing_else(tmp_path: Path) -> None:
    asyncio.run(_years(InProcessBidder(tmp_path, [a_campaign(budget=5.0, daily_budget=0.1)])))


async def _years(room: InProcessBidder) -> None:
    async with room.open(dies=True):
        out, late = await room.bid(1), await room.bid(2)
        room.wall += 3_650 * DAY
        await room.settled()
        assert (await room.ask("/openrtb2/bid", bid_request(3))).no_bid == "clock in doubt"
        health = await room.ask("/healthz")
        assert health.status == 503
        assert "ahead of the time that has passed" in health.document["clock"]
        metrics = (await room.ask("/metrics")).body
        assert b"kreach_bidder_clock_doubtful 1.0" in metrics
        assert await room.tell("billing", out) == 200  # it has not expired
        room.wall -= 3_650 * DAY
        await room.settled()
        assert (await room.ask("/healthz")).document["clock"] == "ok"
        assert await room.tell("billing", late) == 200
        await room.bid(3)
    room.wall += 3_650 * DAY
    async with room.open(dies=True):  # nor does a restart believe it
        assert (await room.ask("/healthz")).status == 503
        assert await room.may_bid(4) is None
    room.wall -= 3_650 * DAY
    async with room.open():
        assert (await room.ask("/healthz")).status == 200
        room.pass_time(70.0)  # what the crash left out is free
        await room.settled()
        await room.bid(4)
        doubts = list(room.state.journal.read("SELECT outcome, first_row, last_row FROM doubts"))
    # the billing in doubt is marked: row 1, and not row 2
    assert doubts == [("believed", 1, 1), ("restart", 3, 2)]
    assert {line["event"] for line in room.troubles()} == {"clock in doubt"}


def test_a_day_has_24_hours_that_passed(tmp_path: Path) -> None:
    asyncio.run(_days(InProcessBidder(tmp_path, [a_campaign(budget=5.0, daily_budget=0.1)])))


async def _days(room: InProcessBidder) -> None:
    begun = room.passed
    async with room.open(dies=True):
        assert await spend_the_day(room) > 0
        room.wall += DAY
        await room.settled()
        assert await spend_the_day(room) == 0
        room.pass_time(DAY / 8)  # long enough to believe it
        await room.settled()
        assert room.state.clock.doubt is None
        assert room.state.clock() == room.wall  # the next day, by all clocks
        assert await spend_the_day(room) == 0
    async with room.open(dies=True):  # nor after a restart
        room.pass_time(70.0)
        await room.settled()
        assert await spend_the_day(room) == 0
        room.pass_time(begun + DAY - 20.0 - room.passed)
        await room.settled()
        assert await spend_the_day(room) == 0
        room.pass_time(30.0)
        await room.settled()
        assert await spend_the_day(room) > 0
        assert all(0 < micros <= 100_000 for micros in spent_by_day(room).values())
        room.wall -= 2 * DAY  # a day begins no second time
        await room.settled()
        assert await spend_the_day(room) == 0
    rows = all_rows(room.store)
    assert 100_000 < sum(price for _, _, price, _ in rows) <= 200_000


def test_what_has_expired_stays_so(tmp_path: Path) -> None:
    asyncio.run(_expired(InProcessBidder(tmp_path, [a_campaign()])))


async def _expired(room: InProcessBidder) -> None:
    async with room.open(dies=True):
        billed, early = await room.bid(1), await room.bid(2)
        assert await room.tell("billing", billed) == 200
        room.pass_time(61.0)
        assert await room.tell("billing", early) == 410
        late = await room.bid(3)
        room.wall -= 3_600.0
        await room.settled()
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
        assert await room.may_bid(4) is None
        room.wall += 7_200.0
        await room.settled()
        await room.bid(4)
    assert room.numbers() == sorted([billed.number, late.number])


def test_a_log_from_the_future_is_repaired(tmp_path: Path) -> None:
    asyncio.run(_repaired(InProcessBidder(tmp_path, [a_campaign(budget=5.0, daily_budget=0.1)])))


async def _repaired(room: InProcessBidder) -> None:
    """Its machine was booted with a clock of the next week, which nobody could know."""
    right = room.wall
    room.wall += 5 * DAY
    async with room.open(dies=True):
        sold = [await room.bid(group) for group in range(10)]
        out = sold.pop()
        for one in sold[:4]:
            assert await room.tell("billing", one, 0.1) == 200
        room.pass_time(61.0)
        await asyncio.to_thread(room.state.compactor.compact)
        sold = sold[:4] + [await room.bid(group) for group in range(5)]
        out = sold.pop()
        for one in sold[4:]:
            assert await room.tell("billing", one, 0.1) == 200
    room.wall = right + 61.0
    room.passed = 5.0  # another boot
    async with room.open(dies=True):
        assert (await room.ask("/healthz")).status == 503
        with pytest.raises(KreachError, match="in use by another bidder"):
            repair_clock(room.store, room.wall, Log("repair", lambda _: None))
        assert await room.may_bid(1) is None
    facts = clock_facts(room.store, room.wall)
    assert (facts.rows_in_future, facts.files_in_future, facts.micros_in_future) == (4, 1, 800)
    assert facts.doubt is not None
    before = all_rows(room.store)
    repair_clock(room.store, room.wall, Log("repair", lambda _: None))
    after = all_rows(room.store)
    assert [row[:3] for row in after] == [row[:3] for row in before]
    assert max(row[3] for row in after) <= room.wall * 1e6
    facts = clock_facts(room.store, room.wall)
    assert (facts.rows_in_future, facts.files_in_future) == (0, 0)
    assert sorted((room.store / "log").rglob("*.parquet")) == [
        room.store / "log" / name
        for (name,) in room.read("SELECT file FROM compacted ORDER BY file")
    ]
    room.passed = 1.0  # so that the mark of this machine's boot is not this room's
    async with room.open():
        assert (await room.ask("/healthz")).status == 200
        account = room.state.ledger.accounts[1]
        assert account.spent_on(0) == account.spent == 800
        for one in (*sold, out):  # the fence
            assert await room.tell("billing", one) == 410
        room.pass_time(70.0)
        await room.settled()
        await spend_the_day(room)
    assert {0} == set(spent_by_day(room))
    assert spent_by_day(room)[0] <= 100_000


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
        assert room.state.clock.doubt is not None
        for one in sold:
            assert await room.tell("billing", one) == 410
        assert room.counted()[:11] == [1] * 10 + [0]
    assert room.numbers() == sorted(one.number for one in sold)


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
