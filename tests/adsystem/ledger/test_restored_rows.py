"""A restored journal: nobody bids with it before it is settled, and nothing is spent twice."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kreach.adsystem.ledger.fold import fold_log
from kreach.adsystem.ledger.journal import FILE, SCHEMA
from kreach.adsystem.ledger.restored_rows import (
    EPOCHS_SKIPPED,
    fence_journal,
    restored_micros,
    settle_journal,
)
from kreach.errors import KreachError
from kreach.service.sqlite import open_store, transaction
from tests.adsystem.ledger.sample_journals import DAY_MICROS, FIRST, journal, row, wait
from tests.faults.in_process_bidder import InProcessBidder, a_campaign
from tests.faults.service_processes import Sold


@contextmanager
def changing(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_store(folder / FILE, SCHEMA)) as connection, transaction(connection):
        yield connection


def test_a_fenced_journal_opens_once_it_is_settled(tmp_path: Path) -> None:
    with journal(tmp_path) as made:
        made.submit("impression", row(1))
        assert wait(made) is None
        first = made.epoch
    with changing(tmp_path) as connection:
        fence_journal(connection, FIRST)
    for _ in range(2):  # and the store is let go each time
        with pytest.raises(KreachError, match=r"restored from a backup at .*`kreach settle`"):
            journal(tmp_path).__enter__()
    with changing(tmp_path) as connection:
        assert restored_micros(connection) == FIRST
        settle_journal(connection, FIRST, {1: 700})
        settle_journal(connection, FIRST, {1: 700})  # repeated after a crash
        assert restored_micros(connection) == 0
    with journal(tmp_path) as made:
        assert made.epoch == first + EPOCHS_SKIPPED + 1
        assert made.fenced_epoch == first + EPOCHS_SKIPPED
        starts = {1: FIRST / 1e6 - 86_400.0}
        folded = fold_log(made, tmp_path, starts, {}, FIRST / 1e6)
    assert folded.spent == {1: {0: 101, 1: 700}}


def test_the_spend_of_a_restore_counts_on_its_day(tmp_path: Path) -> None:
    with journal(tmp_path):
        pass
    with changing(tmp_path) as connection:
        settle_journal(connection, FIRST + 2 * DAY_MICROS, {1: 700, 2: 5})
        settle_journal(connection, FIRST + 3 * DAY_MICROS, {1: 11})
    with journal(tmp_path) as made:
        folded = fold_log(made, tmp_path, {1: FIRST / 1e6, 3: FIRST / 1e6}, {}, FIRST / 1e6)
    assert folded.spent == {1: {2: 700, 3: 11}}  # campaign 2 is not known any more


def test_a_journal_cannot_be_restored_without_end(tmp_path: Path) -> None:
    with journal(tmp_path):
        pass
    for at in range(63):
        with changing(tmp_path) as connection:
            fence_journal(connection, FIRST + at)
            settle_journal(connection, FIRST + at, None)
    with changing(tmp_path) as connection, pytest.raises(KreachError, match="restored too often"):
        fence_journal(connection, FIRST)


def test_a_restored_bidder_honours_no_bid_from_before_and_has_less_money(tmp_path: Path) -> None:
    bidder = InProcessBidder(tmp_path, [a_campaign(budget=3.0, daily_budget=2.0)])

    async def before() -> None:
        async with bidder.open(dies=True):
            await tell_and_bid()

    async def tell_and_bid() -> None:
        sold.append(await bidder.bid())
        sold.append(await bidder.bid())
        assert await bidder.tell("billing", sold[0]) == 200

    async def after() -> None:
        async with bidder.open():
            account = bidder.state.accounts[1]
            assert account.spent == 1_900_001
            assert account.spent_on(0) == 1_900_001
            assert [await bidder.tell("billing", one) for one in sold] == [410, 410]
            assert await bidder.tell("loss", sold[1]) == 410
            new = await bidder.bid()
            assert new.number not in {one.number for one in sold}
            assert new.bid_micros <= 100_000 - 1
            assert await bidder.tell("billing", new) == 200

    sold: list[Sold] = []
    asyncio.run(before())
    with changing(bidder.store) as connection:
        fence_journal(connection, int(bidder.wall * 1e6))
        settle_journal(connection, int(bidder.wall * 1e6), {1: 1_900_000})
    asyncio.run(after())
    assert len(bidder.numbers()) == 2
