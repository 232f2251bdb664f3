"""A fleet that is upgraded one bidder after the other, under load: no notice is lost or doubled."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest
from simulations.fleet import RedisServer

from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger import tokens
from kreach.adsystem.ledger.tokens import Tokens
from tests.adsystem.ledger.sample_journals import all_rows
from tests.faults.service_processes import (
    TOKEN_KEY,
    Client,
    Exchange,
    Service,
    Sold,
    make_campaign,
    make_store,
)
from tests.faults.test_kill import check_log

pytestmark = pytest.mark.xdist_group("fleet")

NAMES = ("b1", "b2")
FORMER_VERSIONS = (2, 3)
BUDGETS = {"one": 4.0, "two": 90.0}


def former_token(sold: Sold, bidder: str, version: int) -> str:
    """The token of a bid as an older version made it."""
    made = Tokens(bytes.fromhex(TOKEN_KEY), bidder)
    claim = made.read(sold.token)
    assert claim is not None
    fields = {2: 8, 3: 9}[version]
    body = tokens._FORMS[version].pack(version, *claim[:fields])
    return tokens._text(body + made._signature(body)).decode()


class UpgradedFleet:
    """Two bidders at addresses that stay, each with an exchange of its own, and a Redis."""

    def __init__(self, root: Path, redis: RedisServer) -> None:
        campaigns = [make_campaign(name, budget) for name, budget in BUDGETS.items()]
        self.config = make_store(
            root, campaigns, expiry_seconds=120, compaction_seconds=0.5, compaction_rows=1
        )
        with self.config.open("a") as file:
            file.write(f'[redis]\nurl = "{redis.url}"\nbidders = ["b1", "b2"]\n')
        self.folders = {name: root / "store" / "bidders" / name for name in NAMES}
        for folder in self.folders.values():  # as if reporting had published them
            kept = CampaignStore(folder)
            for campaign in campaigns:
                kept.add(campaign)
            kept.close()
        self.exchanges = {
            name: Exchange(random.Random(at), bidder=name, silent=0.3)
            for at, name in enumerate(NAMES, 1)
        }
        self.running: dict[str, Service] = {}
        self.former = 0

    def start(self, name: str) -> Service:
        """Start a bidder, of the next version."""
        self.running[name] = Service("bidder", self.config, KREACH_BIDDER_NAME=name)
        return self.running[name].started()

    async def trade(self, seconds: float, stops: str = "") -> None:
        """Load on all; one of them may be stopped, in order, in the middle of it."""
        trading = {
            name: asyncio.create_task(self.exchanges[name].trade(bidder.port, 2))
            for name, bidder in self.running.items()
        }
        await asyncio.sleep(seconds)
        if stops:
            bidder = self.running.pop(stops)
            assert await asyncio.to_thread(bidder.stop) == 0
            for event in bidder.events():  # while not all have begun, nothing is shared
                assert event["level"] == "info" or event["event"] == "not sharing", event
            await trading.pop(stops)
            await asyncio.sleep(seconds / 2)  # the others go on
        for task in trading.values():
            task.cancel()
        await asyncio.gather(*trading.values(), return_exceptions=True)

    async def repeat(self, name: str) -> None:
        """Send what the former run did not answer, and what it was not told; in former formats."""
        exchange = self.exchanges[name]
        client = await Client.open(self.running[name].port)
        for sold in list(exchange.sold.values()):
            if sold.fate not in {"out", "billing"}:
                continue
            version = exchange.chance.choice((*FORMER_VERSIONS, None))
            if version is not None:
                sold.token = former_token(sold, name, version)
                self.former += 1
            await exchange.bill(client, sold)
            assert sold.fate == "billed", sold
        client.close()

    def check(self) -> None:
        """Each log has what was acknowledged, once; all together are within the budgets."""
        spent: Counter[int] = Counter()
        for name, folder in self.folders.items():
            check_log(folder, self.exchanges[name])
            for _, campaign, micros, _ in all_rows(folder):
                spent[campaign] += micros
        for number, budget in enumerate(BUDGETS.values(), 1):
            assert spent[number] <= round(budget * 1e6)


def test_a_fleet_is_upgraded_one_by_one_and_loses_no_notice(tmp_path: Path) -> None:
    async def upgrade(fleet: UpgradedFleet) -> None:
        for name in NAMES:
            await asyncio.to_thread(fleet.start, name)
        for name in NAMES:
            await fleet.trade(0.8, stops=name)
            await asyncio.to_thread(fleet.start, name)
            await fleet.repeat(name)
            fleet.check()
        await fleet.trade(0.5)

    with RedisServer(tmp_path) as redis:
        fleet = UpgradedFleet(tmp_path, redis)
        try:
            asyncio.run(upgrade(fleet))
            for name in NAMES:
                assert fleet.running.pop(name).stop() == 0
            fleet.check()
        finally:
            for bidder in fleet.running.values():
                bidder.kill()
    for name, exchange in fleet.exchanges.items():
        assert exchange.billed(), name
        assert exchange.statuses.get("billing 200", 0) > 20
    assert fleet.former > 10
