"""Notices that come twice, in the wrong order, too late, not at all, or changed on the way."""

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kreach.adsystem.campaigns.campaign import Cap
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger.journal import Done
from kreach.adsystem.reports.pacing import applied_at, applied_revision, last_pace
from tests.adsystem.ledger.sample_journals import all_rows
from tests.faults.in_process_bidder import InProcessBidder, a_campaign
from tests.faults.service_processes import Sold, bid_request, parse_bid

Story = Callable[[InProcessBidder], Awaitable[None]]


def runtime(folder: Path, story: Story, **campaign: object) -> InProcessBidder:
    """Have a story happen to a bidder; nothing may go wrong inside."""
    room = InProcessBidder(folder, [a_campaign(**campaign)])  # type: ignore[arg-type]

    async def main() -> None:
        async with room.open():
            await story(room)

    asyncio.run(main())
    assert not room.troubles()
    return room


def test_a_billing_that_is_repeated_counts_once(tmp_path: Path) -> None:
    async def story(room: InProcessBidder) -> None:
        sold = await room.bid()
        for price in (0.3, 0.3, 0.1, 1e6):  # whatever is said later
            assert await room.tell("billing", sold, price) == 200
        assert all_rows(room.store)[0][2] == 300
        assert room.counted()[0] == 1

    assert len(runtime(tmp_path, story).numbers()) == 1


def test_billings_of_one_bid_at_the_same_time_count_once(tmp_path: Path) -> None:
    async def story(room: InProcessBidder) -> None:
        for round_ in range(5):
            sold = await room.bid(round_)
            told = await asyncio.gather(
                *(room.ask(f"/openrtb2/billing/{sold.token}?price=0.3") for _ in range(40))
            )
            assert [reply.status for reply in told] == [200] * 40
            said = [reply.document["status"] for reply in told]
            assert sorted(said) == ["done"] + ["repeated"] * 39
            assert room.counted()[round_] == 1

    assert len(runtime(tmp_path, story).numbers()) == 5


def test_any_order_of_notices(tmp_path: Path) -> None:
    """The first of billing and loss decides; a win decides nothing."""

    async def story(room: InProcessBidder) -> None:
        account = room.state.ledger.accounts[1]
        orders = {
            ("win", "billing"): (200, 200),
            ("billing", "win"): (200, 200),
            ("billing", "loss"): (200, 200),
            ("billing", "loss", "billing"): (200, 200, 200),
            ("loss", "billing"): (200, 404),
            ("loss", "loss"): (200, 404),
            ("loss", "win"): (200, 404),
            ("win", "loss"): (200, 200),
            ("win", "win", "loss", "billing"): (200, 200, 200, 404),
            ("win", "billing", "loss", "win"): (200, 200, 200, 200),
        }
        for group, (order, expected) in enumerate(orders.items()):
            sold = await room.bid(group)
            assert account.reserved == sold.bid_micros
            told = [await room.tell(kind, sold, 0.2) for kind in order]
            assert tuple(told) == expected, order
            billed = ("billing", 200) in zip(order, expected, strict=True)
            assert room.counted()[group] == billed, order
            assert account.reserved == 0
            assert (sold.number in room.numbers()) == billed
        assert account.spent == 200 * len(room.numbers())

    runtime(tmp_path, story)


def test_what_comes_too_late_is_refused_and_its_money_was_free_again(tmp_path: Path) -> None:
    async def story(room: InProcessBidder) -> None:
        account = room.state.ledger.accounts[1]
        lost, won, short = await room.bid(1), await room.bid(2), await room.bid(3, exp=5)
        assert await room.tell("win", won) == 200
        assert room.counted()[2] == 1  # likely
        room.pass_time(5.0)
        await room.settled()
        assert await room.tell("billing", short) == 410
        assert account.reserved == lost.bid_micros + won.bid_micros
        room.pass_time(60.0)
        assert await room.tell("billing", lost) == 410  # before anybody swept
        await room.settled()
        assert account.reserved == 0
        assert room.counted()[2] == 0  # and not shown after all
        for sold in (lost, won, short):
            for kind in ("billing", "win", "loss"):
                assert await room.tell(kind, sold) == 410
        assert account.spent == 0

    assert runtime(tmp_path, story).numbers() == []


def test_a_win_that_left_every_window_before_it_expired(tmp_path: Path) -> None:
    """Caps of seconds, notices of minutes: what is forgotten need not be taken back."""
    spans = (Cap(limit=1, span_seconds=1.0), Cap(limit=3, span_seconds=10.0))

    async def story(room: InProcessBidder) -> None:
        first, second, third = [await room.bid(4) for _ in range(3)]
        for sold in (first, second, third):
            assert await room.tell("win", sold) == 200
        room.pass_time(11.0)
        await room.bid(4)  # looks at the windows
        assert await room.tell("loss", first) == 200
        room.pass_time(60.0)
        await room.settled()
        assert room.state.ledger.wins_out == 0
        assert room.state.ledger.accounts[1].reserved == 0
        assert await room.tell("billing", second) == 410

    runtime(tmp_path, story, caps=spans)


def test_a_loss_that_was_acknowledged_is_not_billed_after_a_crash(tmp_path: Path) -> None:
    room = InProcessBidder(tmp_path, [a_campaign()])

    async def main() -> None:
        async with room.open(dies=True):
            sold = [await room.bid(group) for group in range(20)]
            told = await asyncio.gather(*(room.tell("loss", one) for one in sold[:10]))
            assert told == [200] * 10
            out = sum(one.bid_micros for one in sold[10:])
            assert room.state.ledger.accounts[1].reserved == out
        async with room.open(dies=True):
            for one in sold[:10]:
                assert await room.tell("billing", one) == 404
                assert await room.tell("win", one) == 404
            carried = room.state.ledger.accounts[1].carried
            for one in sold[10:15]:  # told only now
                assert await room.tell("loss", one) == 200
                carried -= one.bid_micros
                assert room.state.ledger.accounts[1].carried == carried
        async with room.open():
            for one in sold[:15]:
                assert await room.tell("billing", one) == 404
            for one in sold[15:]:
                assert await room.tell("billing", one) == 200
            room.pass_time(61.0)
            await room.settled()
            assert room.read("SELECT * FROM losses") == []  # nobody can bill them any more
        assert room.numbers() == sorted(one.number for one in sold[15:])

    asyncio.run(main())
    assert not room.troubles()


def test_a_loss_that_cannot_be_written_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = InProcessBidder(tmp_path, [a_campaign(budget=5_000.0)])

    def fail(kind: str, values: object, done: Done) -> None:
        assert kind == "losses"
        done(OSError("the disk is full"))

    async def main() -> None:
        async with room.open():
            account = room.state.ledger.accounts[1]
            lost, won = await room.bid(1), await room.bid(2)
            assert await room.tell("win", won) == 200
            with monkeypatch.context() as patch:
                patch.setattr(room.state.journal, "submit", fail)
                told = await asyncio.gather(room.tell("loss", lost), room.tell("loss", won))
            assert list(told) == [503, 503]
            assert account.reserved == lost.bid_micros + won.bid_micros
            assert await room.tell("loss", lost) == 200
            assert await room.tell("billing", won) == 200
            assert account.reserved == 0
            assert await room.tell("billing", lost) == 404

    asyncio.run(main())


def test_a_second_price_is_kept_as_a_conflict(tmp_path: Path) -> None:
    room = InProcessBidder(tmp_path, [a_campaign()])

    async def billed(sold: Sold, price: float) -> object:
        reply = await room.ask(f"/openrtb2/billing/{sold.token}?price={price}")
        assert reply.status == 200
        return reply.document["status"]

    async def main() -> None:
        async with room.open(dies=True):
            sold, other = await room.bid(1), await room.bid(2)
            for price, said in ((0.3, "done"), (0.3, "repeated"), (0.1, "conflict")):
                assert await billed(sold, price) == said
            said_at_once = await asyncio.gather(*(billed(other, 0.2 + at % 2) for at in range(6)))
            assert sorted(map(str, said_at_once)) == ["conflict"] * 3 + ["done"] + ["repeated"] * 2
            assert b'price_conflicts_total{campaign="one"} 4.0' in (await room.ask("/metrics")).body
        async with room.open():  # nor does a crash forget the first one
            assert await billed(sold, 0.2) == "conflict"
            for at in range(50):  # of a token that went astray
                assert await billed(sold, 0.5 + at / 1_000) == "conflict"
        rows = room.read("SELECT micros, other_micros FROM conflicts WHERE micros = 300")
        assert len(rows) == 8
        assert {(300, 100), (300, 200)} <= set(rows)
        pace = last_pace(room.store, 1)
        assert pace is not None
        assert pace.conflicts == 2
        assert [price for _, _, price, _ in all_rows(room.store)] == [300, 200]

    asyncio.run(main())
    assert not room.troubles()


def test_a_lowered_budget_says_when_it_is_in_force(tmp_path: Path) -> None:
    """From then on nothing is bid beyond it; what bids that are out may cost is said."""
    room = InProcessBidder(tmp_path, [a_campaign(budget=50.0)])

    async def main() -> None:
        store = CampaignStore(room.store)
        async with room.open():
            out = [await room.bid(group) for group in range(10)]
            exposure = sum(one.bid_micros for one in out)
            assert await room.tell("billing", await room.bid(11), 0.05) == 200
            changed = store.change("one", {"budget": 0.0001})
            applied = applied_revision(room.store)
            assert applied is not None
            assert applied < changed.revision
            while (applied_revision(room.store) or 0) < changed.revision:
                await room.settled()
            assert applied_at(room.store, changed.number, changed.revision) is not None
            for group in range(40):
                assert await room.may_bid(group) is None
            pace = last_pace(room.store, 1)
            assert pace is not None
            assert pace.open_exposure_micros == exposure
            for one in out:  # they were made before
                assert await room.tell("billing", one, 0.05) == 200
            assert room.state.ledger.accounts[1].spent == 11 * 50
        store.close()

    asyncio.run(main())


NO_PRICES = [
    "",
    "?",
    "?price=",
    "?price=${AUCTION_PRICE}",
    "?price=%24%7BAUCTION_PRICE%7D",
    "?price=abc",
    "?price=nan",
    "?price=inf",
    "?price=-1",
    "?price=-0.000001",
    "?price=1e300",
    "?price=1&price=1",
    "?price=0x10",
    "?price=1,5",
    "?price=%00",
    "?price=%ff%fe",
    "?Price=1",
    "?price",
]


def test_a_price_that_is_none_is_refused_and_the_bid_stays_out(tmp_path: Path) -> None:
    async def story(room: InProcessBidder) -> None:
        sold = await room.bid()
        for query in NO_PRICES:
            reply = await room.ask(f"/openrtb2/billing/{sold.token}{query}")
            assert reply.status == 400, query
            assert "price must" in reply.document["error"]["message"]
            assert room.state.ledger.accounts[1].reserved == sold.bid_micros
        assert await room.tell("billing", sold, 0) == 200  # free of charge is a price

    assert len(runtime(tmp_path, story).numbers()) == 1


def test_a_price_above_the_bid_is_refused_by_the_micro(tmp_path: Path) -> None:
    async def story(room: InProcessBidder) -> None:
        sold = await room.bid()
        exact = sold.bid_micros / 1_000
        for price in (exact + 0.001, exact + 0.0001, exact * 2, 1e9):
            assert await room.tell("billing", sold, f"{price:.6f}") == 400
        assert await room.tell("billing", sold, f"{exact:.3f}") == 200
        assert room.state.ledger.accounts[1].spent == sold.bid_micros

    runtime(tmp_path, story)


def test_changed_tokens_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async def story(room: InProcessBidder) -> None:
        chance = random.Random(8)
        sold = await room.bid()
        for kind in ("billing", "win", "loss"):
            for _ in range(60):
                at = chance.randrange(len(sold.token))
                other = chance.choice(sorted(set("ABCxyz019-_") - {sold.token[at]}))
                changed = sold.token[:at] + other + sold.token[at + 1 :]
                reply = await room.ask(f"/openrtb2/{kind}/{changed}?price=0.1")
                assert reply.status == 403
            for changed in ("", "x", "é" * 79, sold.token + "=", sold.token[:-1], "0" * 5_000):
                assert (await room.ask(f"/openrtb2/{kind}/{changed}?price=0.1")).status == 403
        assert room.state.ledger.accounts[1].reserved == sold.bid_micros
        assert room.state.ledger.bids_out == 1

    assert runtime(tmp_path, story).numbers() == []


def test_notices_in_any_mix_agree_with_the_log(tmp_path: Path) -> None:
    """Hundreds at once, most of them doubled, some of them while the log fails."""

    def broken(connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("the disk is full")

    async def story(room: InProcessBidder) -> None:
        chance = random.Random(9)
        acknowledged: dict[int, int] = {}
        statuses = set()

        async def one(group: int) -> None:
            offer = await room.ask("/openrtb2/bid", bid_request(group))
            if offer.status != 200:
                assert offer.no_bid == "log cannot be written"
                return
            sold = parse_bid(offer, room.wall)
            price = chance.randint(0, sold.bid_micros)
            told = [("billing", price)] * chance.randint(1, 3) + [("win", 0)] * chance.randint(0, 2)
            told += [("loss", 0)] if chance.random() < 0.1 else []
            chance.shuffle(told)
            for kind, micros in told:
                await asyncio.sleep(chance.random() / 50)
                if kind == "billing" and chance.random() < 0.2:
                    room.state.journal.run(broken)
                reply = await room.ask(f"/openrtb2/{kind}/{sold.token}?price={micros / 1_000:.3f}")
                statuses.add(reply.status)
                if kind == "billing" and reply.status == 200:
                    acknowledged[sold.number] = price

        for _ in range(6):
            while (await room.ask("/healthz")).status != 200:
                await asyncio.sleep(0.05)
            await asyncio.gather(*(one(chance.randrange(10)) for _ in range(30)))
        await room.settled()
        rows = {number: price for number, _, price, _ in all_rows(room.store)}
        assert rows == acknowledged
        assert statuses == {200, 404, 503}
        account = room.state.ledger.accounts[1]
        assert account.spent == sum(rows.values())
        room.pass_time(100.0)
        await room.settled()
        assert account.reserved == 0
        assert room.state.ledger.wins_out == 0
        assert sum(room.counted()) == len(rows)

    # one grant is enough for all bids: further ones would fail with the log, for want of money
    room = InProcessBidder(tmp_path, [a_campaign(budget=5_000.0)])

    async def main() -> None:
        async with room.open():
            await story(room)

    asyncio.run(main())
    assert {line["event"] for line in room.troubles()} == {"log cannot be written"}
