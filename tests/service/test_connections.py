"""Slow and greedy clients are cut; the others notice nothing. Time is passed to the sweep."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from kreach.errors import KreachError
from kreach.service.connections import (
    BoundedProtocol,
    ServerSettings,
    allow_files,
    bounded_protocol,
    cut_slow_connections,
)
from kreach.service.fast_path import fast_path_protocol
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.web import App, Response

LIMITS = ServerSettings(
    header_seconds=10.0, idle_seconds=5, max_connections=20, max_header_bytes=2_000
)
GET = b"GET /here HTTP/1.1\r\nhost: x\r\n\r\n"
FAST = b"POST /fast HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nok"
KINDS = ("plain", "fast path")


class Site:
    """A server in this event loop, and its connections."""

    def __init__(self, port: int, state: Any) -> None:
        self.port, self.state = port, state
        self.clients: list[Client] = []

    async def connect(self, sent: bytes = b"") -> "Client":
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        client.writer.write(sent)
        await client.writer.drain()
        return client

    async def close(self) -> None:
        for connection in list(self.state.connections):
            connection.transport.abort()
        for client in self.clients:
            client.writer.close()
            with suppress(ConnectionError):
                await client.writer.wait_closed()

    async def arrived(self, count: int) -> None:
        """Wait until the server has so many connections."""
        async with asyncio.timeout(20):
            while len(self.state.connections) != count:
                await asyncio.sleep(0.005)

    def sweep(self, seconds: float) -> None:
        """As if so much time had passed."""
        cut_slow_connections(self.state.connections, asyncio.get_running_loop().time() + seconds)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self) -> bytes:
        """The status and body of one response."""
        async with asyncio.timeout(20):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            return head.split(b" ")[1] + b" " + await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """All until the server closes."""
        async with asyncio.timeout(20):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""


@asynccontextmanager
async def running(kind: str, limits: ServerSettings = LIMITS) -> AsyncIterator[Site]:
    app = App(Log("test", lambda _: None), Metrics("test"))
    app.route("GET /here", lambda _: Response(200, b"here"))
    app.route("GET /long", lambda _: Response(200, b"x" * 50_000_000))
    fast = app.fast_route("POST /fast", lambda body: Response(200, body))
    protocol: type[BoundedProtocol] = bounded_protocol(limits)
    if kind == "fast path":
        protocol = fast_path_protocol(fast, limits)
    config = uvicorn.Config(app, http=protocol, log_config=None, lifespan="off")
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
    site = Site(server.sockets[0].getsockname()[1], state)
    try:
        yield site
    finally:
        await site.close()
        server.close()


def run(work: Callable[[Site], Awaitable[None]], kind: str, **changes: Any) -> None:
    async def whole() -> None:
        fields = ServerSettings.__struct_fields__
        limits = ServerSettings(**{name: getattr(LIMITS, name) for name in fields} | changes)
        async with running(kind, limits) as site:
            await work(site)

    asyncio.run(whole())


@pytest.mark.parametrize("kind", KINDS)
def test_slow_heads_are_cut(kind: str) -> None:
    async def work(site: Site) -> None:
        slow = [await site.connect(GET[:at]) for at in (0, 1, 7, 20, len(GET) - 1)]
        again = await site.connect(GET)  # a second head that does not end
        assert await again.answer() == b"200 here"
        again.writer.write(GET[:10])
        strays = await site.connect(GET)
        assert await strays.answer() == b"200 here"
        strays.writer.write(b"\r\n\r\n")
        await site.arrived(len(slow) + 2)
        site.sweep(5.0)
        await asyncio.sleep(0)
        assert len(site.state.connections) == len(slow) + 2
        await asyncio.sleep(0.05)  # what was written last has arrived, or else is cut as idle
        site.sweep(11.0)
        for client in (*slow, again, strays):
            assert await client.rest() == b""
        fresh = await site.connect(GET)
        assert await fresh.answer() == b"200 here"

    run(work, kind)


def test_known_heads_and_long_lives_are_not_cut() -> None:
    async def work(site: Site) -> None:
        client = await site.connect()
        for _ in range(3):  # the parser reads the first; the others have a known head
            client.writer.write(FAST)
            assert await client.answer() == b"200 ok"
            site.sweep(1_000.0)
        client.writer.write(GET)
        assert await client.answer() == b"200 here"
        first_known = await site.connect(FAST)
        assert await first_known.answer() == b"200 ok"
        site.sweep(1_000.0)
        first_known.writer.write(FAST)
        assert await first_known.answer() == b"200 ok"

    run(work, "fast path")


@pytest.mark.parametrize("kind", KINDS)
def test_idle_connections_are_closed(kind: str) -> None:
    async def work(site: Site) -> None:
        client = await site.connect(GET if kind == "plain" else FAST)
        assert (await client.answer()).startswith(b"200")
        assert await client.rest() == b""

    run(work, kind, idle_seconds=1)


@pytest.mark.parametrize("kind", KINDS)
def test_long_heads_are_refused(kind: str) -> None:
    async def work(site: Site) -> None:
        long = b"x-long: " + b"x" * 3_000
        for head in (
            GET[:-2] + long + b"\r\n\r\n",
            FAST.replace(b"host: x", long),
            b"GET /" + b"a" * 3_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
            GET[:-2] + b"a: b\r\n" * 600 + b"\r\n",
        ):
            client = await site.connect(head)
            assert (await client.answer()).startswith(b"431 ")
            assert await client.rest() == b""
        split = await site.connect(GET[:-2] + b"a: " + b"x" * 1_500)
        await site.arrived(1)
        await asyncio.sleep(0.02)  # in two packets, if the machine is not too busy
        split.writer.write(b"x" * 1_500 + b"\r\n\r\n")
        assert (await split.answer()).startswith(b"431 ")
        assert await split.rest() == b""
        endless = await site.connect(GET[:-2])
        await site.arrived(1)
        async with asyncio.timeout(20):
            while site.state.connections:
                endless.writer.write(b"x" * 500)
                await asyncio.sleep(0.002)

    run(work, kind)


def test_connections_beyond_the_limit_get_503() -> None:
    async def work(site: Site) -> None:
        held = [await site.connect() for _ in range(3)]
        await site.arrived(3)
        over = await site.connect(GET)
        assert (await over.answer()).startswith(b"503 ")
        assert await over.rest() == b""
        held[0].writer.close()
        await site.arrived(2)
        fresh = await site.connect(GET)
        assert await fresh.answer() == b"200 here"

    run(work, "plain", max_connections=3)


def test_clients_that_do_not_read_are_cut() -> None:
    async def work(site: Site) -> None:
        client = await site.connect(GET.replace(b"/here", b"/long"))
        connection: Any = None
        async with asyncio.timeout(20):
            while connection is None or connection._stalled_since is None:
                await asyncio.sleep(0.005)
                connection = next(iter(site.state.connections), None)
        site.sweep(20.0)
        assert not connection.transport.is_closing()
        site.sweep(31.0)
        await site.arrived(0)
        assert len(await client.rest()) < 50_000_000

    run(work, "plain")


@pytest.mark.parametrize(
    "wrong",
    [
        {"header_seconds": 0.0},
        {"header_seconds": float("nan")},
        {"idle_seconds": 0},
        {"max_connections": 0},
        {"max_header_bytes": 100},
    ],
)
def test_settings_that_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(KreachError, match="must lie between"):
        ServerSettings(**wrong)


def test_connections_fit_the_files_that_a_process_may_open() -> None:
    few = ServerSettings(max_connections=10)
    assert allow_files(few).max_connections == 10
    many = allow_files(ServerSettings(max_connections=1_000_000))
    assert 1 <= many.max_connections <= 1_000_000
