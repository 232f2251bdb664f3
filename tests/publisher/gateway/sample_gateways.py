"""Builds, and gateways that serve them: in this event loop, on a socket, in another process."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import uvicorn

from kreach.publisher.gateway import GatewaySettings, gateway_app
from kreach.publisher.grouping import AtRandom, Overlapping, form_groups
from kreach.publisher.people import People
from kreach.publisher.release import Floors, release
from kreach.publisher.store import write_build
from kreach.service.logs import Log
from kreach.service.web import App
from tests.publisher.populations import KEY, NOW

__all__ = [
    "IDS",
    "GatewayProcess",
    "ManualClock",
    "Reply",
    "ask",
    "gateway_process",
    "log_to",
    "replies_to",
    "running_app",
    "sample_gateway",
    "serve_on_socket",
    "swap_link",
    "until",
    "write_sample_build",
]

IDS = [f"user-{i}" for i in range(120)]
ROOT = Path(__file__).resolve().parents[3]


def write_sample_build(
    folder: Path, version: str = "v1", ids: list[str] = IDS, layers: int = 1, seed: int = 1
) -> Path:
    """A build of these people in groups of at least ten."""
    people = People(np.full(len(ids), 3))
    floors = Floors(membership_class=5)
    strategy = AtRandom() if layers == 1 else Overlapping(layers, 5)
    assignment = form_groups(people, 10, strategy, seed)
    options: Any = {"key": KEY, "buyer": "acme", "now": NOW, "floors": floors}
    released = release(people, assignment, version=version, **options)
    facts = {"version": version, "group_size": 10, "strategy": strategy.name}
    write_build(folder, ids, people, assignment, released, KEY, facts)
    return folder


def swap_link(link: Path, target: Path) -> None:
    """Point a link elsewhere in one step, as a publisher would."""
    fresh = link.with_name(link.name + ".new")
    fresh.symlink_to(target)
    fresh.replace(link)


def log_to(lines: list[str] | None = None) -> Log:
    """A log into a list, or into nothing."""
    return Log("gateway", (lambda _: None) if lines is None else lines.append)


def sample_gateway(build: Path, lines: list[str] | None = None, **options: Any) -> App:
    """A app on a build; `clock` and `metrics` go to the app, the rest are settings."""
    given = {name: options.pop(name) for name in ("clock", "metrics") if name in options}
    return gateway_app(GatewaySettings(build=build, **options), log_to(lines), **given)


class ManualClock:
    """A clock that tests set."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Reply(NamedTuple):
    """Status and document."""

    status: int
    document: Any
    body: bytes


async def ask(app: App, route: str, body: object = b"") -> Reply:
    """One request, straight to the application."""
    method, path = route.split(" ")
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": raw}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1:8401"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "query_string": b""}
    scope["headers"] = headers
    await app(scope, receive, send)
    answered = sent[1]["body"]
    is_json = answered.startswith(b"{")
    return Reply(sent[0]["status"], json.loads(answered) if is_json else None, answered)


@asynccontextmanager
async def running_app(app: App) -> AsyncIterator[App]:
    """The application between its start and its stop."""
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    task = asyncio.create_task(app({"type": "lifespan"}, inbox.get, outbox.put))
    await inbox.put({"type": "lifespan.startup"})
    assert (await outbox.get())["type"] == "lifespan.startup.complete"
    try:
        yield app
    finally:
        await inbox.put({"type": "lifespan.shutdown"})
        assert (await outbox.get())["type"] == "lifespan.shutdown.complete"
        await task


def replies_to(app: App, *requests: tuple[str, object]) -> list[Reply]:
    """Replies to requests one after the other."""

    async def all_of_them() -> list[Reply]:
        async with running_app(app):
            return [await ask(app, route, body) for route, body in requests]

    return asyncio.run(all_of_them())


@contextmanager
def serve_on_socket(app: App) -> Iterator[str]:
    """The application on a socket of this machine, serve_on_socket by a thread; its address."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        until(lambda: server.started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()


def until(true: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait for something that must come; how long it takes does not matter."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


_PROGRAM = """
import sys
from pathlib import Path
import msgspec
from kreach.publisher.gateway import GatewaySettings, gateway_app
from kreach.service.config import load_settings, read_file
from kreach.service.logs import Log
from kreach.service.run import bind, serve

path = Path(sys.argv[1])
settings = load_settings(GatewaySettings, "gateway", read_file(path), base=path.parent)
log = Log("gateway")
serve(gateway_app(settings, log), log, bind(settings.host, settings.port))
"""


class GatewayProcess:
    """A gateway in a process of its own."""

    def __init__(self, folder: Path, toml: str) -> None:
        config = folder / "kreach.toml"
        config.write_text(f"[gateway]\nport = 0\n{toml}", encoding="utf-8")
        self.log_path = folder / f"log-{time.monotonic_ns()}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KREACH_")}
        with self.log_path.open("wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(config)],
                stderr=log,
                stdout=log,
                cwd=ROOT,
                env=environment,
            )
        try:
            until(lambda: self.events("ready") or self.popen.poll() is not None)
            self.url = f"http://127.0.0.1:{self.events('ready')[0]['port']}"
        except BaseException:
            self.end()
            raise

    def events(self, name: str) -> list[dict[str, Any]]:
        """What was logged under a name."""
        lines = self.log_path.read_text().splitlines()
        logged = [json.loads(line) for line in lines if line.startswith("{") and line[-1] == "}"]
        return [event for event in logged if event["event"] == name]

    def end(self, number: int = 9) -> None:
        """End it by a signal."""
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        self.popen.wait(20)


@contextmanager
def gateway_process(folder: Path, toml: str) -> Iterator[GatewayProcess]:
    """A gateway in a process of its own, ended in any case."""
    process = GatewayProcess(folder, toml)
    try:
        yield process
    finally:
        process.end()
