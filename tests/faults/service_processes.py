"""Real services in processes of their own, which tests kill; and a client that keeps the record."""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from kreach.adsystem.campaigns.campaign import Campaign, Cap, Creative
from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger.tokens import Tokens
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue

GROUPS = 40
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def until(true: Callable[[], object], what: str, seconds: float = 180.0) -> None:
    """Wait for something that must come; how long it takes does not matter."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.05)


def make_store(
    root: Path,
    campaigns: Sequence[Campaign],
    store: Path | None = None,
    families: Sequence[Family] = (),
    **bidder: Any,
) -> Path:
    """A catalogue, campaigns, their families and a settings file."""
    ids = tuple(f"g{j:03d}" for j in range(GROUPS))
    sizes = np.random.default_rng(1).integers(20, 40, GROUPS)
    write_catalogue(Catalogue("v1", datetime.now(UTC), 20, ids, sizes), root / "release")
    store = store or root / "store"
    kept = CampaignStore(store)
    for family in families:
        kept.add_family(family)
    for campaign in campaigns:
        kept.add(campaign)
    kept.close()
    lines = ["[adsystem]", f'store = "{store}"', 'catalogues = ["release"]', "[bidder]"]
    bidder = {"first_bid_share": 1.0, "token_key": TOKEN_KEY} | bidder
    lines += [f"{name} = {json.dumps(value)}" for name, value in bidder.items()]
    config = root / "kreach.toml"
    config.write_text("\n".join(lines) + "\n")
    return config


def make_campaign(name: str, budget: float, **more: Any) -> Campaign:
    """A campaign that bids high from its first request on."""
    now = datetime.now(UTC)
    given: dict[str, Any] = {
        "id": name,
        "budget": budget,
        "start": now - timedelta(hours=1),
        "end": now + timedelta(hours=1),
        "caps": (Cap(limit=20),),
        "bidder": "paper",
        "expected_requests": 50,
        "market_mu": 1.5,
        "market_sigma": 0.5,
        "max_cpm": 20.0,
        "creative": Creative(markup="<b>ad</b>", width=300, height=250),
    }
    return Campaign(**(given | more))


class Service:
    """`kreach serve` in a process; its log goes to a file, so that nothing waits for a reader."""

    def __init__(self, kind: str, config: Path, **environment: str) -> None:
        self.log = config.parent / f"{kind}-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "kreach",
                    "serve",
                    kind,
                    "--config",
                    str(config),
                    "--port",
                    "0",
                ],
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=os.environ | environment,
            )

    def events(self) -> list[dict[str, Any]]:
        """What it logged so far."""
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def started(self) -> "Service":
        """Wait until it serves."""
        until(
            lambda: (
                self.process.poll() is not None or any(e["event"] == "ready" for e in self.events())
            ),
            "the service is ready",
        )
        ready = [event for event in self.events() if event["event"] == "ready"]
        assert ready, self.log.read_text()
        self.port = int(ready[0]["port"])
        return self

    def kill(self) -> None:
        """As the power would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)

    def stop(self) -> int:
        """In order; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def __enter__(self) -> "Service":
        return self.started()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.kill()

    def children(self) -> list[int]:
        """Processes that it started."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                rest = entry.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(rest[1]) == self.process.pid:
                found.append(int(entry.parent.name))
        return found

    def ask(self, path: str, body: bytes | None = None) -> "Reply":
        """One request on a connection of its own."""

        async def once() -> Reply:
            client = await Client.open(self.port)
            try:
                return await client.ask(path, body)
            finally:
                client.close()

        return asyncio.run(once())

    def gauge(self, name: str) -> dict[str, int]:
        """A metric by campaign, or by family."""
        text = self.ask("/metrics").body.decode()
        found = re.findall(
            rf'^kreach_bidder_{name}{{(?:campaign|family)="([^"]+)"}} (\S+)$', text, re.MULTILINE
        )
        return {campaign: int(float(value)) for campaign, value in found}


def alive(pid: int) -> bool:
    """Whether a process runs still (one that nobody has asked after yet does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: int
    head: bytes
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def no_bid(self) -> str:
        """Why there is no bid."""
        found = re.search(rb"x-no-bid: ([^\r]+)", self.head)
        return "" if found is None else found.group(1).decode()


class Client:
    """A keep-alive connection. Raises ConnectionError when the other side dies."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, path: str, body: bytes | None = None, method: str = "") -> Reply:
        method = method or ("GET" if body is None else "POST")
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        body = body or b""
        self._writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        try:
            told = await self._reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(told)
            content = await self._reader.readexactly(int(length.group(1))) if length else b""
        except asyncio.IncompleteReadError as error:
            raise ConnectionError from error
        return Reply(int(told[9:12]), told, content)

    def close(self) -> None:
        self._writer.close()


def bid_request(group: int, **imp: Any) -> bytes:
    """A request for one place."""
    data = {"name": "kreach", "segment": [{"id": f"g{group:03d}"}], "ext": {"catalogue": "v1"}}
    request = {"id": "r", "imp": [{"id": "1", "banner": {}, **imp}], "user": {"data": [data]}}
    return json.dumps(request).encode()


TOKEN_KEY = "5e" * 32


@dataclass
class Sold:
    """A bid, and how its notice went."""

    number: int
    campaign: str
    token: str
    bid_micros: int
    expires: float  # not before this
    price: str = ""
    micros: int = 0
    fate: str = "out"  # lost, billing (sent, no answer), billed (acknowledged), refused
    lost: bool = False  # and it was acknowledged

    @property
    def billing(self) -> str:
        return f"/openrtb2/billing/{self.token}?price={self.price}"


def parse_bid(reply: Reply, asked: float, bidder: str = "") -> Sold:
    """The bid in an answer to what was asked then; its number is in its token."""
    bid = reply.document["seatbid"][0]["bid"][0]
    token = bid["burl"].rpartition("/")[2].partition("?")[0]
    micros = round(bid["price"] * 1_000)
    claim = Tokens(bytes.fromhex(TOKEN_KEY), bidder).read(token)
    assert claim is not None
    return Sold(claim.impression, bid["cid"], token, micros, asked + bid["exp"])


@dataclass
class Exchange:
    """Asks for bids and tells their end, in random order, and writes everything down."""

    chance: random.Random
    groups: int = GROUPS
    lost: float = 0.2
    silent: float = 0.15
    told_twice: float = 0.2
    exp: tuple[int, ...] = ()
    bidder: str = ""  # the name of the one that it trades with
    sold: dict[int, Sold] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    reasons: set[str] = field(default_factory=set)

    @property
    def asked(self) -> int:
        """Bid requests that were answered."""
        return self.statuses.get("bid 200", 0) + self.statuses.get("bid 204", 0)

    def _count(self, kind: str, status: int) -> None:
        key = f"{kind} {status}"
        self.statuses[key] = self.statuses.get(key, 0) + 1

    async def trade(self, port: int, connections: int = 6) -> None:
        """Until the other side dies."""
        await asyncio.gather(*(self._one(port) for _ in range(connections)))

    async def _one(self, port: int) -> None:
        client = None
        try:
            client = await Client.open(port)
            while True:
                await self.one_request(client)
        except OSError:
            return
        finally:
            if client is not None:
                client.close()

    async def one_request(self, client: Client) -> Sold | None:
        """A bid request and what follows from it."""
        chance = self.chance
        imp = {"exp": chance.choice(self.exp)} if self.exp else {}
        asked = time.time()
        reply = await client.ask("/openrtb2/bid", bid_request(chance.randrange(self.groups), **imp))
        self._count("bid", reply.status)
        if reply.status != 200:
            self.reasons.add(reply.no_bid)
            await asyncio.sleep(0.002)
            return None
        sold = parse_bid(reply, asked, self.bidder)
        assert sold.number not in self.sold, "two bids of one number"
        self.sold[sold.number] = sold
        if chance.random() < self.silent:
            return sold
        if chance.random() < self.lost:
            sold.fate = "lost"
            reply = await client.ask(f"/openrtb2/loss/{sold.token}")
            sold.lost = reply.status == 200
            self._count("loss", reply.status)
            return sold
        if chance.random() < 0.5:
            self._count("win", (await client.ask(f"/openrtb2/win/{sold.token}")).status)
        await self.bill(client, sold)
        return sold

    async def bill(self, client: Client, sold: Sold) -> None:
        """Tell an impression, now and then more than once."""
        if not sold.price:
            share = self.chance.choice([0.1, 0.5, 1.0, 1.0])
            sold.price = f"{sold.bid_micros * share / 1_000:.3f}"
            sold.micros = ceil(round(float(sold.price) * 1_000, 6))
        sold.fate = "billing"
        while True:
            reply = await client.ask(sold.billing)
            self._count("billing", reply.status)
            if reply.status == 200:
                sold.fate = "billed"
            elif sold.fate != "billed":
                sold.fate = "refused"
            if self.chance.random() >= self.told_twice:
                return

    def billed(self) -> dict[int, Sold]:
        """Impressions whose billing was acknowledged."""
        return {number: sold for number, sold in self.sold.items() if sold.fate == "billed"}
