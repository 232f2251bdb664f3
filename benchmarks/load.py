"""A load generator: keep-alive connections, each with one request under way, on one core.

`run_load` saturates a server: a connection sends as soon as it has its answer. `run_paced` sends at
a rate, whatever the answers: a request that finds no free connection waits, and its time counts
from when it was due.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

__all__ = ["Load", "get", "post", "run_load", "run_paced"]

_PACE_SECONDS = 0.001  # requests that are due are sent so often

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def post(path: str, body: bytes) -> bytes:
    """The bytes of a POST."""
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def get(path: str) -> bytes:
    """The bytes of a GET."""
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()


@dataclass
class Load:
    """What came of a load: answers by status, and how long each took."""

    seconds: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)
    of_posts: list[float] = field(default_factory=list)  # of these, those that were POSTs

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latencies) / self.seconds

    def quantile(self, p: float, *, posts: bool = False) -> float:
        """A quantile of the time to answer, in seconds."""
        ordered = sorted(self.of_posts if posts else self.latencies)
        return ordered[min(int(p * len(ordered)), len(ordered) - 1)]


class _Client(asyncio.Protocol):
    def __init__(
        self,
        load: Load,
        following: Callable[[], bytes | None],
        answered: Callable[[int, bytes], None] | None,
    ) -> None:
        self._load, self._next, self._answered = load, following, answered
        self._buffer = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._send()

    def _send(self) -> None:
        request = self._next()
        if request is None:
            self._transport.close()
            return
        self._write(request, time.perf_counter())

    def _write(self, request: bytes, begun: float) -> None:
        self._post = request.startswith(b"POST")
        self._begun = begun
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        status = int(head[9:12])
        length = _LENGTH.search(head)
        if length is not None and len(body) < int(length.group(1)):
            return
        took = time.perf_counter() - self._begun
        self._load.latencies.append(took)
        if self._post:
            self._load.of_posts.append(took)
        self._load.statuses[status] = self._load.statuses.get(status, 0) + 1
        self._buffer = b""
        if self._answered is not None:
            self._answered(status, body)
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def run_load(
    port: int,
    following: Callable[[], bytes],
    seconds: float,
    connections: int = 16,
    answered: Callable[[int, bytes], None] | None = None,
) -> Load:
    """Send requests to 127.0.0.1 for some seconds."""
    import uvloop  # noqa: PLC0415

    async def main() -> Load:
        load = Load()
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds

        def bounded() -> bytes | None:
            return following() if loop.time() < until else None

        begun = loop.time()
        made = [
            await loop.create_connection(
                lambda: _Client(load, bounded, answered), "127.0.0.1", port
            )
            for _ in range(connections)
        ]
        await asyncio.gather(*(protocol.ended for _, protocol in made))
        load.seconds = loop.time() - begun
        return load

    return uvloop.run(main())


class _PacedClient(_Client):
    """Sends what is due when it is free."""

    def __init__(self, load: Load, pace: "_Pace", following: Callable[[], bytes]) -> None:
        super().__init__(load, following, None)
        self._pace, self._following = pace, following

    def _send(self) -> None:
        if self._pace.due:
            self.send_due(self._pace.due.popleft())
        else:
            self._pace.free.append(self)

    def send_due(self, due: float) -> None:
        """Send a request whose time counts from when it was due."""
        self._write(self._following(), due)

    def close(self) -> None:
        """End the connection."""
        self._transport.close()


class _Pace:
    def __init__(self) -> None:
        self.due: deque[float] = deque()
        self.free: deque[_PacedClient] = deque()


def run_paced(
    port: int, following: Callable[[], bytes], rate: float, seconds: float, connections: int = 64
) -> Load:
    """Send so many requests a second to 127.0.0.1 for some seconds."""
    import uvloop  # noqa: PLC0415

    async def main() -> Load:
        load, pace = Load(), _Pace()
        loop = asyncio.get_running_loop()
        clients = [
            (
                await loop.create_connection(
                    lambda: _PacedClient(load, pace, following), "127.0.0.1", port
                )
            )[1]
            for _ in range(connections)
        ]
        begun, sent = time.perf_counter(), 0
        while (now := time.perf_counter()) < begun + seconds:
            wanted = int((now - begun) * rate)
            for _ in range(wanted - sent):
                if pace.free:
                    pace.free.popleft().send_due(now)
                else:
                    pace.due.append(now)
            sent = wanted
            await asyncio.sleep(_PACE_SECONDS)
        while len(load.latencies) < sent and time.perf_counter() < begun + seconds + 10.0:
            await asyncio.sleep(_PACE_SECONDS)
        load.seconds = time.perf_counter() - begun
        for client in clients:
            client.close()
        await asyncio.gather(*(client.ended for client in clients))
        return load

    return uvloop.run(main())
