"""A deployment on three machines that loses processes and a disk.

Run it by `python -m simulations.deployment`.

Two bidders on machines of their own; Redis, NATS, an object store and reporting on a third. An
exchange outside trades with the bidders, and writes down what was acknowledged. A bidder, the
stream and reporting are killed under load; then one bidder's machine dies and its disk is lost.
What reporting says was spent must be what the exchange was told, to the micro, and it must measure
as many impressions. No machine has a catalogue: each fetches what was pushed to the object store.

Machines are network namespaces where this process may make them, else loopback addresses.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.lab.exchange import Client
from kreach.lab.processes import ServiceProcess
from simulations.fleet import RedisServer, free_port
from simulations.machines import Machine, Network, can_make_namespaces
from simulations.shipping_servers import BUCKET, KEYS, NatsServer, object_server_command

__all__ = ["Deployment", "TradingRecord", "run_deployment"]

GROUPS, GROUP_SIZE = 60, 40
TOKEN_KEY = "a7" * 32
_ASK = """import json, sys, urllib.request
method, address, body = sys.argv[1:]
request = urllib.request.Request(address, body.encode() or None, method=method)
request.add_header("content-type", "application/json")
try:
    answer = urllib.request.urlopen(request, timeout=30)
except urllib.error.HTTPError as error:
    answer = error
print(json.dumps([answer.status, answer.read().decode()]))
"""


@dataclass
class Notice:
    """A billing notice: whose it is, what it costs, and what was answered last."""

    bidder: str
    campaign: str
    target: str
    micros: int
    status: int = 0  # 0: no answer


@dataclass
class TradingRecord:
    """All notices that the exchange sent."""

    notices: list[Notice] = field(default_factory=list)
    no_bids: Counter[str] = field(default_factory=Counter)
    answers: Counter[int] = field(default_factory=Counter)

    def spend(self) -> dict[str, int]:
        """What was acknowledged, by campaign."""
        total: Counter[str] = Counter()
        for notice in self.notices:
            if notice.status == 200:
                total[notice.campaign] += notice.micros
        return dict(total)

    def impressions(self) -> dict[str, int]:
        """Notices that were acknowledged, by campaign."""
        return dict(Counter(each.campaign for each in self.notices if each.status == 200))

    @property
    def acknowledged(self) -> int:
        """Notices that were answered with 200."""
        return sum(notice.status == 200 for notice in self.notices)

    def unsettled(self) -> list[Notice]:
        """Those that the exchange sends again: without an answer, or told to."""
        return [notice for notice in self.notices if notice.status in (0, 503)]


class Deployment:
    """The processes of a system, by machine."""

    def __init__(self, network: Network, campaigns: dict[str, float], acknowledge: str) -> None:
        self.machines, self.budgets, self._acknowledge = network.machines, campaigns, acknowledge
        self.record = TradingRecord()
        self._chance = random.Random(5)
        self._stack = ExitStack()
        hub = self.machines["hub"]
        self._ports = {name: free_port() for name in ("b1", "b2", "reporting", "files")}
        self.redis = self._stack.enter_context(
            RedisServer(self._folder(hub, "redis"), hub.address, hub.prefix)
        )
        self.nats = self._stack.enter_context(
            NatsServer(self._folder(hub, "nats"), hub.address, hub.prefix)
        )
        self._start_files(hub)
        self._release = self._push_catalogue(hub)
        self.services: dict[str, ServiceProcess] = {}
        for name in ("b1", "b2"):
            self.configure(name)
        self.configure("reporting")

    def _folder(self, machine: Machine, name: str) -> Path:
        folder = machine.root / name
        folder.mkdir()
        return folder

    def _start_files(self, hub: Machine) -> None:
        command = [*hub.prefix, *object_server_command(hub.address, self._ports["files"])]
        with (hub.root / "files.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self._stack.callback(process.wait, 20)
        self._stack.callback(process.kill)
        self.files_url = f"http://{hub.address}:{self._ports['files']}"
        until(lambda: self._outside("PUT", f"{self.files_url}/{BUCKET}")[0] == 200, "bucket")

    def _push_catalogue(self, hub: Machine) -> str:
        """`kreach catalogues push` of a publisher's release. Returns its address."""
        ids = tuple(f"g{j:03d}" for j in range(GROUPS))
        released = datetime(2026, 1, 1, tzinfo=UTC)
        catalogue = Catalogue("v1", released, GROUP_SIZE, ids, np.full(GROUPS, GROUP_SIZE))
        folder = hub.root / "delivered"
        write_catalogue(catalogue, folder / "release")
        config = folder / "push.toml"
        options = [f"{key} = {json.dumps(value)}" for key, value in self._options().items()]
        config.write_text("\n".join(["[releases.options]", *options]) + "\n")
        to = ("--to", f"s3://{BUCKET}/releases", "--config", str(config), "--json")
        answer = self._kreach(hub, "catalogues", "push", str(folder / "release"), *to)
        return str(answer["address"])

    def _options(self) -> dict[str, str]:
        return {"endpoint": self.files_url, "region": "us-east-1", "allow_http": "true"}

    @staticmethod
    def _kreach(machine: Machine, *arguments: str) -> dict[str, Any]:
        """The answer of a command on a machine."""
        done = subprocess.run(
            [*machine.prefix, sys.executable, "-m", "kreach", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | KEYS,
        )
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    @staticmethod
    def _outside(method: str, address: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", _ASK, method, address, ""], capture_output=True, check=False
        )
        return tuple(json.loads(done.stdout)) if done.returncode == 0 else (0, "")

    # -- machines -----------------------------------------------------------------------------

    def machine_of(self, service: str) -> Machine:
        """Where a service runs."""
        return self.machines["hub" if service == "reporting" else service]

    def configure(self, service: str) -> None:
        """Install a machine anew: settings, nothing else."""
        machine = self.machine_of(service)
        sections: dict[str, dict[str, Any]] = {
            "adsystem": {"store": "store"},
            "releases": {"catalogues": [self._release]},
            "redis": {"url": self.redis.url, "bidders": ["b1", "b2"]},
            "shipping": {
                "stream": self.nats.url,
                "files": f"s3://{BUCKET}/deployment",
                "acknowledge": self._acknowledge,
                "files_seconds": 0.3,
                "heartbeat_seconds": 0.3,
                "publish_seconds": 0.1,
                "timeout_seconds": 1.0,
            },
        }
        if service == "reporting":
            sections["reporting"] = {"port": self._ports["reporting"]}
        else:
            sections["bidder"] = {
                "name": service,
                "host": machine.address,
                "token_key": TOKEN_KEY,
                "first_bid_share": 1.0,
                "compaction_seconds": 0.3,
                "compaction_rows": 1,
                "pacing_seconds": 0.5,
            }
        lines = []
        for section, values in sections.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        lines += ["[shipping.files_options]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in self._options().items()]
        self._config(service).write_text("\n".join(lines) + "\n")

    def _config(self, service: str) -> Path:
        return self.machine_of(service).root / f"{service}.toml"

    def start(self, service: str) -> None:
        """Start a service on its machine."""
        machine = self.machine_of(service)
        kind = "reporting" if service == "reporting" else "bidder"
        log = machine.root / f"{service}.log"
        process = ServiceProcess(
            kind, self._config(service), log, self._ports[service], KEYS, machine.prefix
        )
        self.services[service] = process
        process.port()

    def kill(self, service: str) -> None:
        """As the power would."""
        self.services.pop(service).stop(signal.SIGKILL)

    def repair(self, bidder: str) -> dict[str, Any]:
        """`kreach repair bidder` on the bidder's machine."""
        config = str(self._config(bidder))
        return self._kreach(
            self.machine_of(bidder), "repair", "bidder", "--config", config, "--json"
        )

    def close(self) -> None:
        """End all processes."""
        for process in self.services.values():
            process.__exit__()
        self._stack.close()

    # -- reporting ----------------------------------------------------------------------------

    def ask(self, method: str, path: str, document: object = None) -> tuple[int, Any]:
        """Ask reporting, on its own machine: it listens there only."""
        address = f"http://127.0.0.1:{self._ports['reporting']}{path}"
        body = "" if document is None else json.dumps(document)
        done = subprocess.run(
            [*self.machines["hub"].prefix, sys.executable, "-c", _ASK, method, address, body],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            return 0, None
        status, text = json.loads(done.stdout)
        return int(status), json.loads(text)

    def create_campaigns(self) -> None:
        """By reporting, which tells the bidders through Redis."""
        now = datetime.now(UTC)
        for name, budget in self.budgets.items():
            campaign = {
                "id": name,
                "budget": budget,
                "start": (now - timedelta(hours=1)).isoformat(),
                "end": (now + timedelta(hours=2)).isoformat(),
                "caps": [{"limit": 40}],
                "bidder": "paper",
                "expected_requests": 300,
                "max_cpm": 20.0,
                "creative": {"markup": "<b>ad</b>", "width": 300, "height": 250},
            }
            status, answer = self.ask("POST", "/v1/campaigns", campaign)
            if status != 201:
                raise RuntimeError(f"campaign not created: {answer}")

    def reported(self) -> dict[str, int]:
        """What reporting says was spent, by campaign; nothing while it cannot say."""
        status, answer = self.ask("GET", "/v1/campaigns")
        if status != 200:
            return {}
        return {
            one["id"]: one["status"]["spend_micros"]
            for one in answer["campaigns"]
            if one["status"]["spend_micros"]
        }

    def measured(self) -> dict[str, int]:
        """The impressions of which reporting measures the reach, by campaign."""
        found = {}
        for name in self.budgets:
            status, answer = self.ask("GET", f"/v1/campaigns/{name}/reach?cap=1")
            if status == 200 and answer["reports"][0]["reach"] > 0.0:
                found[name] = answer["impressions"]
        return found

    def sources(self) -> dict[str, Any]:
        """How fresh reporting says it is, by bidder."""
        status, answer = self.ask("GET", "/healthz")
        return {one["bidder"]: one for one in (answer or {}).get("sources") or ()} if status else {}

    # -- the exchange -------------------------------------------------------------------------

    async def trade(
        self,
        requests: int,
        *,
        bidders: tuple[str, ...],
        exp: int = 0,
        under_way: asyncio.Event | None = None,
    ) -> None:
        """So many requests to these bidders in turn, eight at a time.

        With `under_way`, more of them until it is set.
        """
        clients = {name: self._client(name) for name in bidders}
        asked = 0

        async def one_after_the_other() -> None:
            nonlocal asked
            while asked < requests or (under_way is not None and not under_way.is_set()):
                asked += 1
                name = bidders[asked % len(bidders)]
                try:
                    await self._request(name, clients[name], exp)
                except (OSError, TimeoutError, EOFError):
                    self.record.no_bids["no answer"] += 1
                    await asyncio.sleep(0.02)

        await asyncio.gather(*(one_after_the_other() for _ in range(8)))
        for client in clients.values():
            await client.close()

    def _client(self, bidder: str) -> Client:
        return Client(f"http://{self.machine_of(bidder).address}:{self._ports[bidder]}", 10.0)

    async def _request(self, bidder: str, client: Client, exp: int) -> None:
        group = self._chance.randrange(GROUPS)
        data = {"name": "kreach", "segment": [{"id": f"g{group:03d}"}], "ext": {"catalogue": "v1"}}
        imp: dict[str, Any] = {"id": "1", "banner": {"w": 300, "h": 250}}
        if exp:
            imp["exp"] = exp
        asked = {"id": "r", "at": 2, "imp": [imp], "user": {"data": [data]}}
        answer = await client.ask("POST", "/openrtb2/bid", asked)
        if answer.status != 200:
            self.record.no_bids[answer.headers.get("x-no-bid", str(answer.status))] += 1
            await asyncio.sleep(0.005)
            return
        bid = answer.document["seatbid"][0]["bid"][0]
        price = f"{float(bid['price']) * self._chance.choice([0.3, 0.7, 1.0]):.3f}"
        target = bid["burl"].replace("${AUCTION_PRICE}", price)
        micros = ceil(round(float(price) * 1_000, 6))
        notice = Notice(bidder, bid["cid"], target, micros)
        self.record.notices.append(notice)
        await self._send(client, notice)

    async def _send(self, client: Client, notice: Notice) -> None:
        notice.status = 0 if notice.status != 200 else 200
        answer = await client.ask("GET", notice.target)
        self.record.answers[answer.status] += 1
        notice.status = answer.status

    async def send_again(self) -> None:
        """Send what was not answered, or answered with 503, as exchanges do."""
        for name in ("b1", "b2"):
            client = self._client(name)
            for notice in self.record.unsettled():
                if notice.bidder == name and name in self.services:
                    try:
                        await self._send(client, notice)
                    except (OSError, TimeoutError, EOFError):
                        continue
            await client.close()

    async def send_until_settled(self) -> None:
        """Send again until each notice has an answer that stands."""
        end = time.monotonic() + 60.0
        while self.record.unsettled():
            if time.monotonic() > end:
                raise RuntimeError(f"{len(self.record.unsettled())} notices without an answer")
            await self.send_again()
            await asyncio.sleep(0.1)


def until(true: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Wait for something that must come; how long it takes does not matter."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise RuntimeError(f"never happened: {what}")
        time.sleep(0.1)


@contextmanager
def deployed(
    root: Path, budgets: dict[str, float], *, namespaces: bool, acknowledge: str = "replicated"
) -> Iterator[Deployment]:
    """A deployment that runs, with campaigns that its bidders know."""
    with Network(root, ("b1", "b2", "hub"), namespaces=namespaces) as network:
        deployment = Deployment(network, budgets, acknowledge)
        try:
            for service in ("reporting", "b1", "b2"):
                deployment.start(service)
            deployment.create_campaigns()
            yield deployment
        finally:
            deployment.close()


async def _bids(deployment: Deployment, bidder: str) -> bool:
    before = len(deployment.record.notices)
    await deployment.trade(4, bidders=(bidder,), exp=2)
    return len(deployment.record.notices) > before


def _wait_for_bids(deployment: Deployment, *bidders: str) -> None:
    for bidder in bidders:
        until(lambda name=bidder: asyncio.run(_bids(deployment, name)), f"{bidder} bids")  # type: ignore[misc]


async def _under_load(
    deployment: Deployment, requests: int, fault: Callable[[], None], bidders: tuple[str, ...]
) -> None:
    """A fault in the middle of trading."""
    before, over = len(deployment.record.notices), asyncio.Event()
    trading = asyncio.create_task(deployment.trade(requests, bidders=bidders, under_way=over))
    while len(deployment.record.notices) < before + requests // 4:
        await asyncio.sleep(0.005)
    await asyncio.to_thread(fault)
    over.set()
    await trading


def run_deployment(root: Path, *, requests: int, namespaces: bool) -> dict[str, Any]:
    """All that can go wrong, one after the other; returns what came of it."""
    budgets = {"large": 500.0, "small": 2.0}
    with deployed(root, budgets, namespaces=namespaces) as system:
        _wait_for_bids(system, "b1", "b2")
        both = ("b1", "b2")
        asyncio.run(system.trade(requests, bidders=both, exp=2))  # these move into files
        first = len(system.record.notices)
        shipped = root / "hub" / "store" / "mirrors"
        until(lambda: list(shipped.rglob("*.parquet")), "files are mirrored")

        asyncio.run(_under_load(system, requests, lambda: system.kill("b1"), both))
        system.start("b1")

        def stream_fails() -> None:
            system.nats.kill()
            time.sleep(1.0)
            system.nats.start()

        asyncio.run(_under_load(system, requests, stream_fails, both))
        asyncio.run(system.send_until_settled())

        asyncio.run(_under_load(system, requests, lambda: system.kill("reporting"), both))
        system.start("reporting")

        asyncio.run(_under_load(system, requests, lambda: system.kill("b2"), both))
        machine = system.machine_of("b2")
        machine.lose_disk()
        system.configure("b2")
        asyncio.run(system.trade(requests, bidders=("b1",)))
        rebuilt = system.repair("b2")
        system.start("b2")
        asyncio.run(system.send_until_settled())
        _wait_for_bids(system, "b2")
        asyncio.run(system.trade(requests, bidders=both))
        asyncio.run(system.send_until_settled())

        record = system.record
        try:
            until(lambda: system.reported() == record.spend(), "reporting agrees", 30.0)
        except RuntimeError as error:
            told = f"{system.reported()}, the exchange {record.spend()}; {dict(record.answers)}"
            raise RuntimeError(f"reporting says {told}") from error
        return {
            "machines": "network namespaces" if namespaces else "loopback addresses",
            "notices": len(record.notices),
            "in_files_at_least": first,
            "acknowledged": record.acknowledged,
            "answers": {str(status): count for status, count in sorted(record.answers.items())},
            "spend_micros": record.spend(),
            "reported_micros": system.reported(),
            "impressions": record.impressions(),
            "measured_impressions": system.measured(),
            "budgets": budgets,
            "rebuilt_impressions": rebuilt["impressions"],
            "sources": system.sources(),
        }


def main() -> None:
    """Run it and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2_000, help="in each of seven phases")
    parser.add_argument("--loopback", action="store_true", help="make no network namespaces")
    given = parser.parse_args()
    namespaces = not given.loopback and can_make_namespaces()
    if not namespaces and not given.loopback:
        print("no right to make network namespaces: on loopback addresses instead")
    with tempfile.TemporaryDirectory(prefix="kreach-deployment-") as root:
        found = run_deployment(Path(root), requests=given.requests, namespaces=namespaces)
    print(json.dumps(found, indent=2))
    if found["spend_micros"] != found["reported_micros"]:
        sys.exit("reporting does not agree with the exchange")
    if found["impressions"] != found["measured_impressions"]:
        sys.exit("reporting measures other impressions than the exchange was told")


if __name__ == "__main__":
    main()
