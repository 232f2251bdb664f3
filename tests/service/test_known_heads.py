"""A message whose head is known is answered as if it had been parsed, and others are parsed."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from kreach.service import fast_path
from kreach.service.fast_path import fast_path_protocol
from kreach.service.web import JSON_HEADERS, FastRoute, Response


class _Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent, self.closed = b"", False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def write(self, data: Any) -> None:
        self.sent += bytes(data)


class Connection:
    """A connection without a socket, to a server that answers with the body it got."""

    def __init__(self, protocol: Any, runner: asyncio.Runner) -> None:
        self._runner, self.parsed = runner, 0
        config = uvicorn.Config(_no_app, log_config=None, lifespan="off")
        config.load()

        async def connect() -> None:
            self._protocol = protocol(config, ServerState(), {})
            self.transport = _Transport()
            self._protocol.connection_made(self.transport)
            parse = self._protocol._parse

            def counted(data: bytes) -> int | None:
                self.parsed += 1
                result: int | None = parse(data)
                return result

            self._protocol._parse = counted

        runner.run(connect())

    def send(self, *parts: bytes) -> bytes:
        """What comes back for data that arrives in these parts."""

        async def sending() -> bytes:
            self.transport.sent = b""
            for part in parts:
                self._protocol.data_received(part)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            return self.transport.sent

        return self._runner.run(sending())


async def _no_app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": b"asgi"})


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def protocol() -> Any:
    def respond(body: bytes, encoding: bytes = b"") -> Response:
        return Response(200, b"<%b>" % body, JSON_HEADERS)

    return fast_path_protocol(FastRoute(b"POST", b"/bid", 100, respond))


def post(body: bytes, more: str = "", path: str = "/bid") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\n{more}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_a_known_head_is_not_parsed_again(protocol: Any, runner: asyncio.Runner) -> None:
    first, second = Connection(protocol, runner), Connection(protocol, runner)
    answers = [first.send(post(b"one")), first.send(post(b"two")), second.send(post(b"six"))]
    assert [first.parsed, second.parsed] == [1, 0]
    assert [answer.rpartition(b"\r\n\r\n")[2] for answer in answers] == [
        b"<one>",
        b"<two>",
        b"<six>",
    ]
    heads = {answer.partition(b"\r\n\r\n")[0] for answer in answers}
    known = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5"
    assert heads == {known}
    assert first.send(post(b"seven")).endswith(b"<seven>")  # another head
    assert first.parsed == 2


def test_what_does_not_arrive_as_one_message_is_parsed(
    protocol: Any, runner: asyncio.Runner
) -> None:
    connection = Connection(protocol, runner)
    message = post(b"one")
    connection.send(message)
    assert connection.send(message[:-1], message[-1:]).endswith(b"<one>")
    assert connection.send(message[:30], message[30:]).endswith(b"<one>")
    both = connection.send(message + post(b"two"))
    assert both.index(b"<one>") < both.index(b"<two>")
    assert connection.send(message).endswith(b"<one>")
    # a body may look like a message: it is still a body
    inner = post(b"one")
    outer = post(inner, "accept: */*\r\n")
    assert connection.send(outer[: -len(inner)], inner).endswith(b"<%b>" % inner)
    assert protocol.body_lengths == {message[:-3]: 3}


@pytest.mark.parametrize(
    "more",
    [
        "connection: close\r\n",
        "expect: 100-continue\r\n",
        "x-forwarded-for: 192.0.2.7\r\n",
        "cookie: id=1\r\n",
    ],
)
def test_unusual_heads_are_not_remembered(protocol: Any, runner: asyncio.Runner, more: str) -> None:
    connection = Connection(protocol, runner)
    connection.send(post(b"one", more))
    assert protocol.body_lengths == {}


def test_other_routes_and_lengths_are_not_remembered(protocol: Any, runner: asyncio.Runner) -> None:
    connection = Connection(protocol, runner)
    assert b"asgi" in connection.send(post(b"one", path="/other"))
    chunked = b"POST /bid HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    assert connection.send(chunked + b"3\r\none\r\n0\r\n\r\n").endswith(b"<one>")
    assert protocol.body_lengths == {}
    connection.send(post(b"x" * 101))  # too long
    assert protocol.body_lengths == {}


def test_heads_are_forgotten_before_they_are_many(
    protocol: Any, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_path, "_MAX_HEADS", 3)
    connection = Connection(protocol, runner)
    for length in range(10):
        assert connection.send(post(b"x" * length)).endswith(b"<%b>" % (b"x" * length))
    assert len(protocol.body_lengths) <= 3
    assert post(b"")[:-4] + b"\r\n\r\n" not in protocol.body_lengths


def test_a_message_that_is_no_http_closes_the_connection(
    protocol: Any, runner: asyncio.Runner
) -> None:
    connection = Connection(protocol, runner)
    connection.send(post(b"one"))
    assert connection.send(b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert connection.transport.closed
