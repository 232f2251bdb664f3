"""A log's stream through the real processes on replayed time, and through the lab's bidder.

Gateway, bidder and reporting are asked over HTTP, one request after another. Each request sets the
clock of the services (`[clock] time_file`), at most `speed` times as fast as real time, and stands
still now and then until the bidder's plans are current, however busy the machine is. Truth is known
here.
"""

import asyncio
import json
import re
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.campaigns.campaign import Campaign, Cap, Creative
from kreach.adsystem.settings import BidderSettings
from kreach.boundary.times import HOUR_SECONDS, MICROS, iso_text
from kreach.lab.approaches import GroupedCampaign
from kreach.lab.auctions import Stream
from kreach.lab.exchange import Client, Placement, bid_request
from kreach.lab.processes import ServiceProcess
from kreach.lab.served import Delivery, ServedBidder, serve
from kreach.numeric.types import IntArray
from kreach.publisher.grouping.base import Assignment
from kreach.publisher.release import new_key, release
from kreach.publisher.store import write_build
from kreach.service.clock import ReplayClock

__all__ = ["Replay", "replay", "serve_campaign", "study_campaign"]

_SERVICES = ("gateway", "bidder", "reporting")
_PLACE = Placement()
_HOLDS = 60  # times in a flight that the clock waits for the bidder's plans
_LAG = re.compile(rb"^kreach_bidder_plan_lag_seconds ([0-9.e+-]+)$", re.MULTILINE)


def write_world(folder: Path, grouped: GroupedCampaign, starts: float) -> None:
    """The publisher's build, and the settings of all services."""
    study = grouped.campaign
    people = study.people
    groups: IntArray = grouped.group_of.reshape(-1, 1)
    assignment = Assignment(groups, grouped.group_size, grouped.strategy.name)
    key, created = new_key(), datetime.fromtimestamp(starts, UTC)
    released = release(
        people,
        assignment,
        key=key,
        buyer="replay",
        version="v1",
        now=created,
        model=grouped.model,
    )
    ids = [f"u{at}" for at in range(people.count)]
    facts = {
        "version": "v1",
        "strategy": assignment.strategy,
        "group_size": assignment.group_size,
        "attributes": [],
    }
    write_build(folder / "groups", ids, people, assignment, released, key, facts)
    hours = study.before.at_us // (HOUR_SECONDS * MICROS) % 24
    bidder = {
        "hourly": (np.bincount(hours, minlength=24) + 1.0).tolist(),
        "market_mu": 0.5 + float(np.log(1_000.0)),
        "market_sigma": 1.0,
    }
    sections: dict[str, dict[str, Any]] = {
        "adsystem": {"store": "store", "catalogues": ["groups/release"]},
        "bidder": bidder,
        "gateway": {"build": "groups", "store": "gateway-store"},
        "clock": {"time_file": "now"},
    }
    lines = []
    for name, values in sections.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    (folder / "kreach.toml").write_text("\n".join(lines) + "\n")


@dataclass
class Replay:
    """The stream of a flight, sent through running services one request after the other."""

    stream: Stream
    clock: ReplayClock
    speed: float
    addresses: dict[str, str]
    wins: list[int] = field(default_factory=list)
    spend_micros: int = 0
    refused: int = 0

    async def run(self, campaign: dict[str, Any]) -> dict[str, Any]:
        """Create the campaign, send all requests, and ask reporting what it reached."""
        gateway, bidder, reporting = (Client(self.addresses[name]) for name in _SERVICES)
        created = await reporting.ask("POST", "/v1/campaigns", campaign)
        if created.status != 201:
            raise RuntimeError(f"reporting answered {created.status}: {created.body[:500]!r}")
        await asyncio.sleep(3.0)  # the bidder loads it, and grants money
        begun, first = time.monotonic(), self.stream.at[0]
        hold = float(self.stream.at[-1] - first) / _HOLDS
        held = first
        columns = (self.stream.person, self.stream.at, self.stream.price)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for at, (person, now, price) in enumerate(rows):
            early = (now - first) / self.speed - (time.monotonic() - begun)
            while early > 0.0:  # time goes on between requests too
                self.clock.set(max(now - early * self.speed, self.clock()))
                await asyncio.sleep(min(early, 0.05))
                early = (now - first) / self.speed - (time.monotonic() - begun)
            self.clock.set(now)
            if now - held >= hold:
                await self._until_planned(bidder)
                held = now
            await self._request(at, person, price, gateway, bidder)
        await asyncio.sleep(1.0)
        answer = await reporting.ask("GET", f"/v1/campaigns/{campaign['id']}/reach?cap=1")
        for client in (gateway, bidder, reporting):
            await client.close()
        document: dict[str, Any] = answer.document
        return document

    async def _until_planned(self, bidder: Client) -> None:
        """Wait, while the clock stands, until no plan is due."""
        async with asyncio.timeout(60.0):
            while True:
                found = _LAG.search((await bidder.ask("GET", "/metrics")).body)
                if found is not None and float(found[1]) <= 0.0:
                    return
                await asyncio.sleep(0.02)

    async def _request(
        self, at: int, person: int, price: float, gateway: Client, bidder: Client
    ) -> None:
        user_id = f"u{person}"
        user = (await gateway.ask("POST", "/v1/identify", {"user_id": user_id})).document
        request = bid_request(at, user_id, user, [_PLACE])
        answer = await bidder.ask("POST", "/openrtb2/bid", request)
        if answer.status != 200:
            return
        bid = answer.document["seatbid"][0]["bid"][0]
        cpm = max(round(1_000.0 * price, 3), 0.001)
        if bid["price"] < cpm:
            await bidder.ask("GET", bid["lurl"])
            return
        billed = await bidder.ask("GET", bid["burl"].replace("${AUCTION_PRICE}", f"{cpm:.3f}"))
        if billed.status != 200:
            self.refused += 1
            return
        self.wins.append(at)
        self.spend_micros += round(1_000.0 * cpm)


def replay(
    folder: Path, grouped: GroupedCampaign, budget: float, stream: Stream, speed: float
) -> tuple[Replay, dict[str, Any]]:
    """Start the services, and send the stream through them."""
    starts = float(stream.at[0]) - 1.0
    folder.mkdir(parents=True, exist_ok=True)
    clock = ReplayClock(folder / "now", starts)
    write_world(folder, grouped, starts)
    definition = study_campaign(grouped, budget, float(stream.at[-1]) + 1.0)
    document = {
        "id": definition.id,
        "budget": budget,
        "start": iso_text(definition.start),
        "end": iso_text(definition.end),
        "caps": [{"limit": 1}],
        "max_cpm": definition.max_cpm,
        "creative": {"id": "x", "markup": "<a></a>", "width": 300, "height": 250},
    }
    with ExitStack() as stack:
        config = folder / "kreach.toml"
        running = {
            name: stack.enter_context(ServiceProcess(name, config, folder / f"{name}.log"))
            for name in _SERVICES
        }
        addresses = {name: process.address() for name, process in running.items()}
        sent = Replay(stream, clock, speed, addresses)
        return sent, asyncio.run(sent.run(document))


def study_campaign(grouped: GroupedCampaign, budget: float, end: float | None = None) -> Campaign:
    """A campaign of the whole flight, or until `end`, with the lab's limit of bids."""
    begins = grouped.campaign.starts_us / MICROS
    last = begins + grouped.campaign.seconds + 1.0 if end is None else end
    return Campaign(
        id="c",
        budget=budget,
        start=datetime.fromtimestamp(begins, UTC),
        end=datetime.fromtimestamp(last, UTC),
        caps=(Cap(limit=1),),
        max_cpm=10_000.0,
        creative=Creative(id="x", markup="<a></a>", width=300, height=250),
    )


def serve_campaign(
    grouped: GroupedCampaign,
    campaign: Campaign,
    stream: Stream,
    memory_hours: float | None = None,
    *,
    told: bool = True,
) -> Delivery:
    """One campaign in the live bidder's code, with the lab's prior and hours."""
    study = grouped.campaign
    hours = study.before.at_us // (HOUR_SECONDS * MICROS) % 24
    hourly = tuple((np.bincount(hours, minlength=24) + 1.0).tolist())
    mu = 0.5 + float(np.log(1_000.0))
    settings = BidderSettings(hourly=hourly, market_mu=mu, market_sigma=1.0)
    begins = study.starts_us / MICROS
    bidder = ServedBidder(
        grouped.sizes, grouped.model, begins, settings, memory_hours=memory_hours, told=told
    )
    number = bidder.add(campaign)
    return serve(bidder, stream)[number]
