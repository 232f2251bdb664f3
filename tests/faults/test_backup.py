"""A backup of a bidder under load, and what a bidder does that was restored from it."""

import asyncio
import random
import shutil
import time
from pathlib import Path
from typing import Any

from kreach.adsystem.campaigns.store import CampaignStore
from tests.adsystem.ledger.sample_journals import all_rows
from tests.cli.command import kreach
from tests.faults.service_processes import Client, Exchange, Service, make_campaign, make_store

EXPIRY_SECONDS = 2


def spend_by_campaign(store: Path) -> dict[str, int]:
    """What the log of a store says was spent."""
    kept = CampaignStore(store)
    names = {one.number: one.campaign.id for one in kept.all()}
    kept.close()
    total = dict.fromkeys(names.values(), 0)
    for _, number, micros, _ in all_rows(store):
        total[names[number]] += micros
    return total


async def trade_and_back_up(bidder: Service, exchange: Exchange, config: Path, out: Path) -> None:
    """Backups while notices come and rows move into files: each has all that was acknowledged."""
    trading = asyncio.create_task(exchange.trade(bidder.port))
    for number in range(2):
        await asyncio.sleep(1.0)
        before = set(exchange.billed())
        backup = out / str(number)
        done = await asyncio.to_thread(
            kreach, "backup", "--config", str(config), "--out", str(backup)
        )
        assert done.code == 0, done.err
        rows = [row[0] for row in all_rows(backup / "files" / "store")]
        assert len(rows) == len(set(rows))
        assert before <= set(rows) <= set(exchange.sold)
    await asyncio.sleep(0.5)  # what comes after the last backup
    bidder.kill()
    await trading


async def old_notices(bidder: Service, exchange: Exchange) -> set[int]:
    """The answers to notices of bids from before the restore."""
    client = await Client.open(bidder.port)
    sold = [one for one in exchange.sold.values() if one.fate == "out"][-20:]
    statuses = {(await client.ask(f"/openrtb2/billing/{one.token}?price=0")).status for one in sold}
    client.close()
    return statuses


def test_a_restored_bidder_waits_for_what_was_spent_and_spends_the_rest_only(
    tmp_path: Path,
) -> None:
    campaigns = [make_campaign("one", 200.0), make_campaign("two", 600.0, daily_budget=300.0)]
    options: dict[str, Any] = {"compaction_seconds": 0.2, "compaction_rows": 1}
    config = make_store(tmp_path, campaigns, expiry_seconds=EXPIRY_SECONDS, **options)
    store, lost = tmp_path / "store", tmp_path / "lost"
    exchange = Exchange(random.Random(7), exp=(1,))
    with Service("bidder", config) as bidder:
        asyncio.run(trade_and_back_up(bidder, exchange, config, tmp_path / "backups"))
    assert list(store.glob("log/day=*/*.parquet"))
    shutil.move(store, lost)
    backup = ("--config", str(config), "--backup", str(tmp_path / "backups" / "1"))
    done = kreach("restore", *backup)
    assert done.code == 0, done.err
    assert "kreach settle" in done.out
    assert "must be empty" in kreach("restore", *backup).err

    refused = Service("bidder", config)
    assert refused.process.wait(60) == 1
    assert "say what was spent since the backup with `kreach settle`" in refused.log.read_text()

    spent, known = spend_by_campaign(lost), spend_by_campaign(store)
    unknown = {name: spent[name] - known[name] for name in spent}
    assert sum(unknown.values()) > 0
    table = tmp_path / "spend.csv"
    lines = [f"{name},{micros / 1e6:.6f}" for name, micros in unknown.items()]
    table.write_text("\n".join(["campaign,spend", *lines]) + "\n")
    settling = ("settle", "--config", str(config), "--spend", str(table))
    early = kreach(*settling)
    if "may be shown until" in early.err:  # unless the bidder took long to be refused
        time.sleep(EXPIRY_SECONDS + 3)
        early = kreach(*settling)
    assert early.code == 0, early.err
    assert "nothing to settle" in kreach(*settling).err

    later = Exchange(random.Random(8), exp=(1,))
    with Service("bidder", config) as bidder:
        left = {one.id: round(one.budget * 1e6) - spent[one.id] for one in campaigns}
        assert bidder.gauge("budget_left_micros") == left
        assert asyncio.run(old_notices(bidder, exchange)) == {410}

        async def spend_the_rest() -> None:
            trading = asyncio.create_task(later.trade(bidder.port))
            await asyncio.sleep(1.5)
            assert bidder.stop() == 0
            await trading

        asyncio.run(spend_the_rest())
    assert not set(later.sold) & set(exchange.sold)
    after = spend_by_campaign(store)
    assert sum(after.values()) > sum(known.values())
    assert after["one"] + unknown["one"] <= 200_000_000
    assert after["two"] + unknown["two"] <= 300_000_000  # of the day
