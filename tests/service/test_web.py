"""Routing, bodies, failures: the little HTTP framework under the bidder and the gateway."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kreach.errors import KreachError
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.web import App, Request, Response, json_response

SECRET = "zx81-secret-zx81"
Receive = Callable[[], Awaitable[dict[str, Any]]]


def sample_app(lines: list[str] | None = None, **options: Any) -> App:
    app = App(Log("test", ([] if lines is None else lines).append), Metrics("test"), **options)
    app.route("GET /here", lambda request: json_response({"query": request.query.decode()}))
    app.route("POST /here", lambda request: Response(200, request.body))
    app.route("POST /later", _later)
    app.route("GET /under/*", lambda request: Response(200, request.rest.encode()))
    app.route("GET /none", lambda _: Response(204, b"", [(b"x-why", b"so")]))
    return app


async def _later(request: Request) -> Response:
    await asyncio.sleep(0)
    return Response(200, request.body[::-1])


def one_chunk(body: bytes) -> Receive:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    return receive


def chunked(*messages: dict[str, Any]) -> Receive:
    """These messages, then silence."""
    ahead = iter(messages)

    async def receive() -> dict[str, Any]:
        for message in ahead:
            return message
        await asyncio.sleep(60)
        raise AssertionError("nobody waits that long")

    return receive


def chunk(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


GONE = {"type": "http.disconnect"}


def sent_messages(
    app: App,
    route: str,
    receive: Receive | bytes = b"",
    query: bytes = b"",
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> list[dict[str, Any]]:
    """All messages of an answer."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    method, path = route.split(" ", 1)
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path}
    scope["query_string"] = query
    scope["headers"] = headers
    coming = one_chunk(receive) if isinstance(receive, bytes) else receive
    asyncio.run(app(scope, coming, send))
    return sent


def response_to(
    app: App,
    route: str,
    receive: Receive | bytes = b"",
    query: bytes = b"",
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body."""
    start, body = sent_messages(app, route, receive, query, headers)
    assert (start["type"], body["type"]) == ("http.response.start", "http.response.body")
    return start["status"], dict(start["headers"]), body["body"]


def test_routes() -> None:
    app = sample_app()
    assert response_to(app, "GET /here", query=b"a=1")[2] == b'{"query": "a=1"}'
    assert response_to(app, "POST /here", b"body")[2] == b"body"
    assert response_to(app, "POST /later", b"body")[2] == b"ydob"
    assert response_to(app, "GET /under/token")[2] == b"token"
    assert response_to(app, "GET /under/")[2] == b""
    assert response_to(app, "GET /metrics")[0] == 200


@pytest.mark.parametrize(
    "path", ["/", "", "/her", "/here/", "/here/x", "/under", "/under/a/b", "*"]
)
def test_other_paths(path: str) -> None:
    status, headers, body = response_to(sample_app(), f"GET {path}")
    assert (status, headers[b"content-type"]) == (404, b"application/json")
    assert list(json.loads(body)) == ["error"]


def test_other_methods() -> None:
    status, headers, _ = response_to(sample_app(), "PUT /here")
    assert (status, headers[b"allow"]) == (405, b"GET, POST")
    status, headers, _ = response_to(sample_app(), "POST /under/x")
    assert (status, headers[b"allow"]) == (405, b"GET")


def test_lengths_are_told_but_for_no_content() -> None:
    app = sample_app()
    assert response_to(app, "POST /here", b"12345")[1][b"content-length"] == b"5"
    status, headers, body = response_to(app, "GET /none")
    assert (status, headers, body) == (204, {b"x-why": b"so"}, b"")


def test_bodies_in_parts() -> None:
    chunks = chunked(chunk(b"a"), chunk(b""), chunk(b"b"), chunk(b"c", more=False))
    assert response_to(sample_app(), "POST /here", chunks)[2] == b"abc"
    empty_first = chunked(chunk(b""), chunk(b"x", more=False))
    assert response_to(sample_app(), "POST /here", empty_first)[2] == b"x"
    assert response_to(sample_app(), "POST /here", chunked({"type": "http.request"}))[2] == b""


def test_bodies_that_are_too_long() -> None:
    app = sample_app(max_body_bytes=10)
    assert response_to(app, "POST /here", b"x" * 10)[0] == 200
    for coming in (
        one_chunk(b"x" * 11),
        chunked(chunk(b"x" * 6), chunk(b"x" * 5, more=False)),
        chunked(chunk(b"x" * 6), chunk(b"x" * 6)),  # refused before the rest has come
        chunked(chunk(b"x" * 20)),
    ):
        status, headers, body = response_to(app, "POST /here", coming)
        assert (status, headers[b"connection"]) == (413, b"close")
        assert b"xxx" not in body


def test_bodies_that_do_not_arrive() -> None:
    app = sample_app(body_seconds=0.05)
    status, headers, body = response_to(app, "POST /here", chunked(chunk(b"some")))
    assert (status, headers[b"connection"]) == (408, b"close")
    assert list(json.loads(body)) == ["error"]


def test_clients_that_left_get_no_answer() -> None:
    for coming in (chunked(GONE), chunked(chunk(b"a"), GONE), chunked(chunk(b""), GONE)):
        assert sent_messages(sample_app(), "POST /here", coming) == []


def test_failures_are_told_and_logged_without_their_text() -> None:
    lines: list[str] = []
    app = sample_app(lines)

    def at_once(_: Request) -> Response:
        raise RuntimeError(SECRET)

    async def awaited(_: Request) -> Response:
        await asyncio.sleep(0)
        raise LookupError(SECRET) from ValueError(SECRET)

    app.route("POST /breaks", at_once)
    app.route("POST /breaks/*", awaited)
    for path in ("/breaks", f"/breaks/{SECRET}"):
        status, _, body = response_to(app, f"POST {path}", SECRET.encode(), SECRET.encode())
        assert (status, list(json.loads(body))) == (500, ["error"])
        assert SECRET.encode() not in body
    events = [json.loads(line) for line in lines]
    assert [event["kind"] for event in events] == ["RuntimeError", "LookupError"]
    assert [event["route"] for event in events] == ["/breaks", "/breaks/"]
    assert all(event["where"].startswith("tests.service.test_web:") for event in events)
    assert SECRET not in "".join(lines)
    shown = response_to(app, "GET /metrics")[2].decode()
    assert 'kreach_test_http_failures_total{kind="RuntimeError"} 1.0' in shown
    assert 'kreach_test_http_refused_total{status="500"} 2.0' in shown
    assert SECRET not in shown


def test_what_is_the_clients_fault_is_said() -> None:
    lines: list[str] = []
    app = sample_app(lines)

    def refuses(_: Request) -> Response:
        raise KreachError.rule("price", "be a number", "?")

    app.route("GET /refuses", refuses)
    status, _, body = response_to(app, "GET /refuses")
    message = "price must be a number, got '?'"
    field = {"field": "price", "code": "invalid", "message": message}
    assert (status, json.loads(body)) == (400, {"error": {"message": message, "fields": [field]}})
    assert lines == []


def test_websockets_are_closed() -> None:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(sample_app()({"type": "websocket"}, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


def lifespan_messages(app: App) -> list[str]:
    """A life from start to stop: the messages that it sends."""
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(f"{message['type']} {message.get('message', '')}".strip())

    asyncio.run(app({"type": "lifespan"}, receive, send))
    return sent


def test_start_and_stop() -> None:
    done: list[str] = []

    async def start() -> None:
        done.append("start")

    async def stop() -> None:
        done.append("stop")

    complete = ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert lifespan_messages(sample_app(start=start, stop=stop)) == complete
    assert done == ["start", "stop"]
    assert lifespan_messages(sample_app()) == complete


def test_a_start_that_fails_is_logged() -> None:
    for error, kind in [
        (KreachError("store must be a folder"), "store must be a folder"),
        (OSError(SECRET), "OSError"),
    ]:
        lines: list[str] = []

        async def start(error: Exception = error) -> None:
            raise error

        assert lifespan_messages(sample_app(lines, start=start)) == [
            f"lifespan.startup.failed {kind}"
        ]
        assert json.loads(lines[0])["kind"] == kind
        assert SECRET not in "".join(lines)


def test_compressed_bodies() -> None:
    app = sample_app(max_body_bytes=1_000)
    bomb = gzip.compress(b"x" * 1_000_000)
    assert len(bomb) > 1_000
    small_bomb = gzip.compress(b"x" * 1_001)
    for body, encoding, status, answer in (
        (gzip.compress(b"body"), b"gzip", 200, b"body"),
        (gzip.compress(b"x" * 1_000), b"GZIP", 200, b"x" * 1_000),
        (b"body", b"identity", 200, b"body"),
        (small_bomb, b"gzip", 413, None),
        (bomb, b"gzip", 413, None),
        (zlib.compress(b"body"), b"deflate", 415, None),
        (b"body", b"br", 415, None),
        (gzip.compress(gzip.compress(b"body")), b"gzip, gzip", 415, None),
        (b"body", b"gzip", 400, None),
        (gzip.compress(b"body")[:-1], b"gzip", 400, None),
        (gzip.compress(b"body") + b"x", b"gzip", 400, None),
    ):
        headers = ((b"content-encoding", encoding),)
        found, _, plain = response_to(app, "POST /here", body, headers=headers)
        assert (found, plain) == (status, plain if answer is None else answer)
        fast = app.fast_route("POST /fast", lambda body: Response(200, body))
        response = fast.respond(body, encoding.lower())
        assert (response.status, response.body) == (status, plain)
    refused = response_to(app, "POST /here", b"x", headers=((b"content-encoding", b"br"),))
    assert refused[1][b"accept-encoding"] == b"gzip"
