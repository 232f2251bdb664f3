"""Reporting is killed while campaigns are made and changed; the bidder beside it goes on."""

import asyncio
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.faults.service_processes import (
    Client,
    Exchange,
    Service,
    make_campaign,
    make_store,
    until,
)


class Advertiser:
    """Makes campaigns and raises their budgets; knows what was acknowledged."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.budgets: dict[str, list[int]] = {}  # acknowledged, then perhaps one that was only sent

    async def work(self, port: int) -> None:
        """Until the other side dies."""
        now = datetime.now(UTC)
        flight = {
            "start": (now - timedelta(hours=1)).isoformat(),
            "end": (now + timedelta(hours=1)).isoformat(),
        }
        client = None
        try:
            client = await Client.open(port)
            while True:
                name = f"{self.name}-{len(self.budgets)}"
                known = self.budgets[name] = [0]
                body: dict[str, object] = {
                    "id": name,
                    "budget": 1,
                    "max_cpm": 5,
                    "state": "paused",
                    **flight,
                }
                known.append(1)
                reply = await client.ask("/v1/campaigns", json.dumps(body).encode())
                assert reply.status == 201, reply
                known.remove(known[0])
                for budget in (2, 3, 4):
                    known.append(budget)
                    changed = json.dumps({"budget": budget}).encode()
                    reply = await client.ask(f"/v1/campaigns/{name}", changed, "PATCH")
                    assert reply.status == 200, reply
                    known.remove(known[0])
        except OSError:
            return
        finally:
            if client is not None:
                client.close()


async def die_under_load(
    reporting: Service, bidder: Service, exchange: Exchange, people: list[Advertiser], changes: int
) -> None:
    trading = [asyncio.create_task(_trade(bidder.port, exchange)) for _ in range(2)]
    working = [asyncio.create_task(person.work(reporting.port)) for person in people]
    before = sum(len(person.budgets) for person in people)
    while sum(len(person.budgets) for person in people) < before + changes:
        await asyncio.sleep(0.005)
    reporting.kill()
    await asyncio.gather(*working)
    count = exchange.statuses.get("bid 200", 0)
    while exchange.statuses.get("bid 200", 0) < count + 20:  # it does go on
        assert not any(task.done() for task in trading)
        await asyncio.sleep(0.01)
    for task in trading:
        task.cancel()
    await asyncio.gather(*trading, return_exceptions=True)


async def _trade(port: int, exchange: Exchange) -> None:
    client = await Client.open(port)
    try:
        while True:
            await exchange.one_request(client)
    finally:
        client.close()


def test_bidding_goes_on_and_every_acknowledged_change_is_there(tmp_path: Path) -> None:
    config = make_store(tmp_path, [make_campaign("rich", 1_000.0)], pacing_seconds=0.2)
    exchange = Exchange(random.Random(31))
    people = [Advertiser(f"advertiser{n}") for n in range(3)]
    with Service("bidder", config) as bidder:
        for round_ in range(2):
            with Service("reporting", config) as reporting:
                chance = random.Random(round_).randint(5, 20)
                asyncio.run(die_under_load(reporting, bidder, exchange, people, chance))
        with Service("reporting", config) as reporting:
            found = {}
            for person in people:
                for name, budgets in person.budgets.items():
                    reply = reporting.ask(f"/v1/campaigns/{name}")
                    if reply.status == 404:
                        assert budgets[0] == 0, name  # was never acknowledged
                        continue
                    found[name] = reply.document["budget"]
                    assert found[name] in budgets, (name, budgets)
            assert len(found) > 5
            wanted = {name: round(budget * 1e6) for name, budget in found.items()}
            until(
                lambda: wanted.items() <= bidder.gauge("budget_left_micros").items(),
                "the bidder has taken up all that there is",
            )
            assert reporting.stop() == 0
        assert {key.split()[1] for key in exchange.statuses} <= {"200", "204"}
        assert all(event["level"] == "info" for event in bidder.events())
        assert bidder.stop() == 0
