"""A log whose tail is torn, and one that is damaged: a prefix of the truth, or none at all."""

import asyncio
import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.adsystem.ledger.sample_journals import all_rows
from tests.faults.in_process_bidder import InProcessBidder
from tests.faults.service_processes import (
    Client,
    Exchange,
    Service,
    Sold,
    make_campaign,
    make_store,
    until,
)

pytestmark = pytest.mark.xdist_group("torn log")

BUDGET = 300_000


@dataclass
class Dead:
    """What a killed bidder left behind."""

    folder: Path
    epoch: int
    sold: list[Sold]
    acknowledged: dict[int, int]
    safe_bytes: int  # of the tail: all that was acknowledged is in them
    all_bytes: int

    def copy(self, to: Path) -> Path:
        """The tail of a copy, for harm."""
        shutil.copytree(self.folder, to)
        (to / "kreach.toml").write_text(
            f'[adsystem]\nstore = "{to / "store"}"\ncatalogues = ["release"]\n'
        )
        return to / "store" / "live.sqlite3-wal"


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Dead:
    folder = tmp_path_factory.mktemp("dead")
    campaign = make_campaign("one", BUDGET / 1e6, daily_budget=BUDGET / 1e6)
    config = make_store(
        folder, [campaign], expiry_seconds=600, pacing_seconds=0.3, compaction_seconds=3_600
    )
    exchange = Exchange(random.Random(21), silent=0.3, lost=0.1, told_twice=0.0)
    tail = folder / "store" / "live.sqlite3-wal"
    with Service("bidder", config) as bidder:

        async def some() -> None:
            client = await Client.open(bidder.port)
            while len(exchange.billed()) < 30:
                await exchange.one_request(client)
            client.close()

        asyncio.run(some())
        safe = tail.stat().st_size
        until(lambda: tail.stat().st_size > safe + 20_000, "more is written, told to nobody")
        epoch = bidder.ask("/healthz").document["epoch"]
        bidder.kill()
    acknowledged = {number: sold.micros for number, sold in exchange.billed().items()}
    sold = list(exchange.sold.values())
    return Dead(folder, epoch, sold, acknowledged, safe, tail.stat().st_size)


def rows_in_order(store: Path) -> list[tuple[int, int]]:
    with closing(
        sqlite3.connect(f"{(store / 'live.sqlite3').as_uri()}?mode=ro", uri=True)
    ) as found:
        return found.execute("SELECT impression, micros FROM impressions ORDER BY row").fetchall()


async def live_on(folder: Path, dead: Dead) -> int:
    """Start on what is left, tell everything again; nothing counts twice and no limit is passed."""
    room = InProcessBidder(folder, expiry_seconds=600)
    async with room.open(dies=True):
        left = rows_in_order(room.store)
        account = room.state.ledger.accounts[1]
        assert room.state.ledger.epoch == dead.epoch + 1
        assert account.spent == sum(micros for _, micros in left)
        assert sum(room.counted()) == len(left)
        assert account.spent + account.carried <= BUDGET
        known = {number for number, _ in left}
        for sold in dead.sold:
            if sold.fate == "lost":
                continue
            price = f"{(sold.micros or sold.bid_micros) / 1_000:.3f}"
            reply = await room.ask(f"/openrtb2/billing/{sold.token}?price={price}")
            assert reply.status in {200, 404}  # known again, or more than can have been out
            if sold.number in known:
                assert reply.document == {"status": "repeated"}
        for group in range(40):
            more = await room.may_bid(group)
            if more is not None:
                assert await room.tell("billing", more, f"{more.bid_micros / 1_000:.3f}") == 200
    rows = all_rows(room.store)
    assert len({number for number, *_ in rows}) == len(rows)
    assert sum(price for _, _, price, _ in rows) <= BUDGET
    assert not room.troubles()
    return len(left)


def test_a_tail_that_is_cut_anywhere_leaves_a_prefix(tmp_path: Path, dead: Dead) -> None:
    dead.copy(tmp_path / "whole")
    truth = rows_in_order(tmp_path / "whole" / "store")
    assert dict(truth) == dead.acknowledged
    chance = random.Random(22)
    cuts = [0, 1, 31, 32, 33, *(chance.randrange(dead.all_bytes) for _ in range(8))]
    kept = set()
    for at, cut in enumerate(sorted(cuts)):
        tail = dead.copy(tmp_path / str(at))
        with tail.open("r+b") as file:
            file.truncate(cut)
        left = rows_in_order(tail.parent)
        assert left == truth[: len(left)]
        assert asyncio.run(live_on(tmp_path / str(at), dead)) == len(left)
        kept.add(len(left))
    assert 0 in kept
    assert len(kept) > 4


@pytest.mark.parametrize("harm", ["cut", "garbage behind", "garbage over"])
def test_what_was_acknowledged_survives_a_torn_end(tmp_path: Path, dead: Dead, harm: str) -> None:
    chance = random.Random(harm)
    for at in range(4):
        tail = dead.copy(tmp_path / str(at))
        with tail.open("r+b") as file:
            if harm == "cut":
                file.truncate(chance.randint(dead.safe_bytes, dead.all_bytes))
            elif harm == "garbage behind":
                file.seek(0, 2)
                file.write(chance.randbytes(chance.randint(1, 9_000)))
            else:
                file.seek(chance.randint(dead.safe_bytes, dead.all_bytes - 100))
                file.write(chance.randbytes(chance.randint(1, 9_000)))
        assert dict(rows_in_order(tail.parent)) == dead.acknowledged
        assert asyncio.run(live_on(tmp_path / str(at), dead)) == len(dead.acknowledged)


def test_a_process_starts_on_a_torn_tail(tmp_path: Path, dead: Dead) -> None:
    tail = dead.copy(tmp_path / "torn")
    with tail.open("r+b") as file:
        file.truncate(random.Random(23).randint(dead.safe_bytes, dead.all_bytes))
    with Service("bidder", tmp_path / "torn" / "kreach.toml") as bidder:
        spent = sum(dead.acknowledged.values())
        assert bidder.gauge("budget_left_micros") == {"one": BUDGET - spent}
        folded = next(event for event in bidder.events() if event["event"] == "log loaded")
        assert folded["impressions"] == len(dead.acknowledged)
        assert bidder.stop() == 0


def test_a_damaged_database_is_refused_in_one_line(tmp_path: Path, dead: Dead) -> None:
    tail = dead.copy(tmp_path / "damaged")
    with closing(sqlite3.connect(tail.parent / "live.sqlite3")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # into the main file with all of it
        root = "SELECT rootpage FROM sqlite_master WHERE name = 'impressions'"
        page = database.execute(root).fetchone()[0] - 1
    main = tail.parent / "live.sqlite3"
    content = bytearray(main.read_bytes())
    content[page * 4096 : page * 4096 + 4096] = random.Random(24).randbytes(4096)
    main.write_bytes(content)
    bidder = Service("bidder", tmp_path / "damaged" / "kreach.toml")
    try:
        assert bidder.process.wait(60) == 1
    finally:
        bidder.kill()
    lines = bidder.log.read_text().splitlines()
    errors = [event for event in bidder.events() if event["level"] == "error"]
    assert [event["event"] for event in errors] == ["start failed"]
    assert "store must hold a log that can be written" in errors[0]["kind"]
    assert lines[-1].startswith("kreach: ")
    assert not any("Traceback" in line for line in lines)
    assert main.read_bytes() == content  # for whoever wants to rescue something
