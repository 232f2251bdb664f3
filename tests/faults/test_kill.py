"""A bidder that is killed at any instant, again and again, while an exchange trades with it."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kreach.adsystem.campaigns.campaign import Campaign, Cap
from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.campaigns.store import CampaignStore
from tests.adsystem.ledger.sample_journals import all_rows
from tests.faults.service_processes import (
    Client,
    Exchange,
    Service,
    Sold,
    alive,
    make_campaign,
    make_store,
    until,
)

EXPIRY_SECONDS = 8


def campaigns() -> list[Campaign]:
    now = datetime.now(UTC)
    second_day = now - timedelta(days=1) + timedelta(seconds=12)  # begins while the test runs
    rolling = (Cap(limit=1, span_seconds=1.0), Cap(limit=5, span_seconds=3.0))
    soon = now + timedelta(minutes=5)
    return [
        make_campaign("tiny", 0.3),
        make_campaign("daily", 5.0, daily_budget=0.25, start=second_day),
        make_campaign("rolling", 6.0, caps=rolling, bidder="planning", end=soon),
        make_campaign("planned", 9.0, bidder="planning", end=soon),
    ]


def families() -> list[Family]:
    """One whose budget is far below its members', and one without a budget."""
    weekly = Cap(limit=40, span_seconds=604_800.0)
    return [
        Family(id="brand", budget=0.35),
        Family(id="house", caps=(weekly,)),
    ]


def family_campaigns() -> list[Campaign]:
    soon = datetime.now(UTC) + timedelta(minutes=5)
    rolling = (Cap(limit=2, span_seconds=1.0), Cap(limit=9))
    return [
        make_campaign("first", 5.0, family="brand"),
        make_campaign("second", 0.3, family="brand"),
        make_campaign("third", 9.0, family="brand", bidder="planning", end=soon),
        make_campaign("fourth", 6.0, family="house", caps=rolling, bidder="planning", end=soon),
        make_campaign("fifth", 0.5, family="house"),
    ]


def spend(store: Path) -> tuple[dict[str, int], dict[tuple[str, int], int]]:
    """What the log says was spent, in all and by day of the flight; and that no limit is passed."""
    kept = CampaignStore(store)
    by_number = {one.number: one.campaign for one in kept.all()}
    stored_families = kept.families()
    kept.close()
    total: Counter[str] = Counter({campaign.id: 0 for campaign in by_number.values()})
    by_day: Counter[tuple[str, int]] = Counter()
    for _, number, price, bid_ts in all_rows(store):
        campaign = by_number[number]
        start = round(campaign.start.timestamp() * 1e6)
        total[campaign.id] += price
        by_day[campaign.id, (bid_ts - start) // 86_400_000_000] += price
    for stored in stored_families:
        members = [one.id for one in by_number.values() if one.family == stored.family.id]
        together = sum(total[name] for name in members)
        if stored.family.budget is not None:
            assert together <= round(stored.family.budget * 1e6)
    for campaign in by_number.values():
        assert total[campaign.id] <= round(campaign.budget * 1e6)
        for (name, _), micros in by_day.items():
            if name == campaign.id and campaign.daily_budget is not None:
                assert micros <= round(campaign.daily_budget * 1e6)
    return dict(total), dict(by_day)


def check_log(store: Path, exchange: Exchange) -> None:
    """Every impression that was acknowledged is there, once, at its price; and no other is."""
    rows = all_rows(store)
    prices = {number: price for number, _, price, _ in rows}
    assert len(prices) == len(rows)
    for number, sold in exchange.billed().items():
        assert prices.get(number) == sold.micros
    for number, price in prices.items():
        sold = exchange.sold[number]
        assert sold.fate in {"billed", "billing", "refused"}
        assert price == sold.micros


async def retry(bidder: Service, exchange: Exchange, chance: random.Random) -> None:
    """Tell what an earlier run was not told, or did not answer: honoured until it expires."""
    client = await Client.open(bidder.port)
    for sold in list(exchange.sold.values()):
        if sold.fate == "billing" or (sold.fate == "out" and chance.random() < 0.3):
            for _ in range(2):
                await exchange.bill(client, sold)
                if sold.fate != "billed":  # refused for its age, and not before its time
                    assert time.time() >= sold.expires
        elif sold.lost and chance.random() < 0.3:  # acknowledged, and billed by mistake
            reply = await client.ask(f"/openrtb2/billing/{sold.token}?price=0")
            assert reply.status in {404, 410}
    client.close()


async def trade_and_kill(bidder: Service, exchange: Exchange, seconds: float) -> list[int]:
    """Returns the processes that it had started."""
    asked = exchange.asked
    trading = asyncio.create_task(exchange.trade(bidder.port))
    await asyncio.sleep(seconds)
    while exchange.asked < asked + 150 and not trading.done():  # on a slow machine
        await asyncio.sleep(0.01)
    planners = bidder.children()
    bidder.kill()
    await trading
    return planners


def check_quiet(bidder: Service) -> None:
    """Nothing went wrong inside that nobody was told."""
    for event in bidder.events():
        assert event["level"] == "info", event


class Lives:
    """One store, one exchange, and one bidder after another."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        wanted: list[Campaign] | None = None,
        families: Sequence[Family] = (),
    ) -> None:
        self.chance = random.Random(seed)
        self.exchange = Exchange(random.Random(seed + 1), exp=(1, 2, 1_000, 1_000, 1_000))
        self.campaigns = wanted or campaigns()
        self.families = families
        self.config = make_store(
            folder,
            self.campaigns,
            families=families,
            expiry_seconds=EXPIRY_SECONDS,
            compaction_seconds=0.2,
            compaction_rows=1,
            pacing_seconds=0.2,
        )
        self.store = folder / "store"
        self.carried = 0
        self.planners: list[int] = []

    def still_born(self) -> None:
        """Killed while it starts."""
        starting = Service("bidder", self.config)
        time.sleep(self.chance.uniform(0.2, 2.5))
        starting.kill()

    def one(self, *, patient: bool = False) -> None:
        """Start on what the last one left, trade, and be killed; see that all is well."""
        with Service("bidder", self.config) as bidder:
            self._check_start(bidder)
            asyncio.run(retry(bidder, self.exchange, self.chance))
            if patient:
                nothing_carried(bidder)
            seconds = self.chance.uniform(0.4, 2.5)
            self.planners += asyncio.run(trade_and_kill(bidder, self.exchange, seconds))
            until(lambda: not any(map(alive, self.planners)), "planners end with their bidder")
            check_quiet(bidder)
            check_log(self.store, self.exchange)
            spend(self.store)

    def _check_start(self, bidder: Service) -> None:
        """It counts what the log says, and carries whatever may still be billed."""
        spent, _ = spend(self.store)
        left = {one.id: round(one.budget * 1e6) - spent[one.id] for one in self.campaigns}
        assert bidder.gauge("budget_left_micros") == left
        now = time.time()
        carried = bidder.gauge("carried_micros")
        out = [sold for sold in self.exchange.sold.values() if sold.fate == "out"]
        for name, held in carried.items():
            owed = sum(s.bid_micros for s in out if s.campaign == name and s.expires > now)
            assert owed <= held <= left[name]
        self.carried += sum(carried.values())
        self._check_families(bidder, spent, out)

    def _check_families(self, bidder: Service, spent: dict[str, int], out: list[Sold]) -> None:
        """A family has spent what its members have, and carries what any of them may owe."""
        lefts, now = bidder.gauge("family_budget_left_micros"), time.time()
        held = bidder.gauge("family_carried_micros")
        for family in self.families:
            if family.budget is None:
                continue
            members = {one.id for one in self.campaigns if one.family == family.id}
            left = round(family.budget * 1e6) - sum(spent[name] for name in members)
            assert lefts[family.id] == left
            owed = sum(s.bid_micros for s in out if s.campaign in members and s.expires > now)
            assert owed <= held[family.id] <= left


def nothing_carried(bidder: Service) -> None:
    """Wait until all that an earlier run had out must have expired."""
    until(lambda: not any(bidder.gauge("carried_micros").values()), "carried money is free")


def test_killed_again_and_again(tmp_path: Path) -> None:
    lives = Lives(tmp_path, seed=1)
    lives.one()
    lives.still_born()
    lives.one()
    lives.one()
    lives.still_born()
    lives.one(patient=True)
    exchange, store = lives.exchange, lives.store
    assert lives.carried > 0
    assert lives.planners
    with Service("bidder", lives.config) as bidder:
        nothing_carried(bidder)
        assert not any(bidder.gauge("reserved_micros").values())
        assert bidder.stop() == 0
        check_quiet(bidder)
    total, by_day = spend(store)
    check_log(store, exchange)
    assert total["tiny"] > 100_000  # limits were felt
    assert any(name == "daily" for name, _ in by_day)
    assert any((store / "log").rglob("*.parquet"))
    assert len(exchange.billed()) > 100
    assert {key.split()[1] for key in exchange.statuses} <= {"200", "204", "410"}


def test_a_familys_budget_holds_through_kills(tmp_path: Path) -> None:
    lives = Lives(tmp_path, seed=5, wanted=family_campaigns(), families=families())
    lives.one()
    lives.still_born()
    lives.one()
    lives.one()
    lives.one(patient=True)
    assert lives.carried > 0
    with Service("bidder", lives.config) as bidder:
        nothing_carried(bidder)
        assert not any(bidder.gauge("family_reserved_micros").values())
        assert bidder.stop() == 0
        check_quiet(bidder)
    total, _ = spend(lives.store)
    check_log(lives.store, lives.exchange)
    together = total["first"] + total["second"] + total["third"]
    assert 250_000 < together <= 350_000  # the family's limit was felt, and no other one
    assert sum(total[name] > 0 for name in ("first", "second", "third")) >= 2
    assert total["fourth"] + total["fifth"] > 100_000


def test_a_stop_in_order_carries_only_what_is_out(tmp_path: Path) -> None:
    config = make_store(
        tmp_path, [make_campaign("one", 5.0)], expiry_seconds=60, pacing_seconds=0.2
    )
    exchange = Exchange(random.Random(3), silent=0.5, lost=0.5, told_twice=0.0)

    async def some(port: int) -> None:
        client = await Client.open(port)
        for _ in range(60):
            await exchange.one_request(client)
        client.close()

    with Service("bidder", config) as bidder:
        until(lambda: bidder.gauge("budget_left_micros"), "campaigns are taken up")
        asyncio.run(some(bidder.port))
        assert bidder.stop() == 0
    out = [sold for sold in exchange.sold.values() if sold.fate == "out"]
    assert out
    with Service("bidder", config) as bidder:
        assert bidder.gauge("carried_micros") == {"one": sum(sold.bid_micros for sold in out)}
        spent = sum(sold.micros for sold in exchange.billed().values())
        assert bidder.gauge("budget_left_micros") == {"one": 5_000_000 - spent}
        exchange.told_twice = 0.5
        asyncio.run(retry(bidder, exchange, random.Random(1)))
    check_log(tmp_path / "store", exchange)
