"""Routing, bodies, failures: the little HTTP framework under the bidder and the gateway."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kreach.errors import KreachError
from kreach.service import web
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.web import Answer, Request, Site, json_answer

SECRET = "zx81-secret-zx81"
Receive = Callable[[], Awaitable[dict[str, Any]]]


def made_site(lines: list[str] | None = None, **options: Any) -> Site:
    site = Site(Log("test", ([] if lines is None else lines).append), Metrics("test"), **options)
    site.route("GET /here", lambda request: json_answer({"query": request.query.decode()}))
    site.route("POST /here", lambda request: Answer(200, request.body))
    site.route("POST /later", _later)
    site.route("GET /under/*", lambda request: Answer(200, request.rest.encode()))
    site.route("GET /none", lambda _: Answer(204, b"", [(b"x-why", b"so")]))
    return site


async def _later(request: Request) -> Answer:
    await asyncio.sleep(0)
    return Answer(200, request.body[::-1])


def whole(body: bytes) -> Receive:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    return receive


def in_parts(*messages: dict[str, Any]) -> Receive:
    """These messages, then silence."""
    ahead = iter(messages)

    async def receive() -> dict[str, Any]:
        for message in ahead:
            return message
        await asyncio.sleep(60)
        raise AssertionError("nobody waits that long")

    return receive


def part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


GONE = {"type": "http.disconnect"}


def asked(
    site: Site, route: str, receive: Receive | bytes = b"", query: bytes = b""
) -> list[dict[str, Any]]:
    """All messages of an answer."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    method, path = route.split(" ", 1)
    scope = {"type": "http", "method": method, "path": path, "query_string": query}
    coming = whole(receive) if isinstance(receive, bytes) else receive
    asyncio.run(site(scope, coming, send))
    return sent


def answered(
    site: Site, route: str, receive: Receive | bytes = b"", query: bytes = b""
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers and body."""
    start, body = asked(site, route, receive, query)
    assert (start["type"], body["type"]) == ("http.response.start", "http.response.body")
    return start["status"], dict(start["headers"]), body["body"]


def test_routes() -> None:
    site = made_site()
    assert answered(site, "GET /here", query=b"a=1")[2] == b'{"query": "a=1"}'
    assert answered(site, "POST /here", b"body")[2] == b"body"
    assert answered(site, "POST /later", b"body")[2] == b"ydob"
    assert answered(site, "GET /under/token")[2] == b"token"
    assert answered(site, "GET /under/")[2] == b""
    assert answered(site, "GET /metrics")[0] == 200


@pytest.mark.parametrize(
    "path", ["/", "", "/her", "/here/", "/here/x", "/under", "/under/a/b", "*"]
)
def test_other_paths(path: str) -> None:
    status, headers, body = answered(made_site(), f"GET {path}")
    assert (status, headers[b"content-type"]) == (404, b"application/json")
    assert list(json.loads(body)) == ["error"]


def test_other_methods() -> None:
    status, headers, _ = answered(made_site(), "PUT /here")
    assert (status, headers[b"allow"]) == (405, b"GET, POST")
    status, headers, _ = answered(made_site(), "POST /under/x")
    assert (status, headers[b"allow"]) == (405, b"GET")


def test_lengths_are_told_but_for_no_content() -> None:
    site = made_site()
    assert answered(site, "POST /here", b"12345")[1][b"content-length"] == b"5"
    status, headers, body = answered(site, "GET /none")
    assert (status, headers, body) == (204, {b"x-why": b"so"}, b"")


def test_bodies_in_parts() -> None:
    parts = in_parts(part(b"a"), part(b""), part(b"b"), part(b"c", more=False))
    assert answered(made_site(), "POST /here", parts)[2] == b"abc"
    empty_first = in_parts(part(b""), part(b"x", more=False))
    assert answered(made_site(), "POST /here", empty_first)[2] == b"x"
    assert answered(made_site(), "POST /here", in_parts({"type": "http.request"}))[2] == b""


def test_bodies_that_are_too_long() -> None:
    site = made_site(max_body_bytes=10)
    assert answered(site, "POST /here", b"x" * 10)[0] == 200
    for coming in (
        whole(b"x" * 11),
        in_parts(part(b"x" * 6), part(b"x" * 5, more=False)),
        in_parts(part(b"x" * 6), part(b"x" * 6)),  # refused before the rest has come
        in_parts(part(b"x" * 20)),
    ):
        status, headers, body = answered(site, "POST /here", coming)
        assert (status, headers[b"connection"]) == (413, b"close")
        assert b"xxx" not in body


def test_bodies_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_BODY_SECONDS", 0.05)
    status, headers, body = answered(made_site(), "POST /here", in_parts(part(b"some")))
    assert (status, headers[b"connection"]) == (408, b"close")
    assert list(json.loads(body)) == ["error"]


def test_clients_that_left_get_no_answer() -> None:
    for coming in (in_parts(GONE), in_parts(part(b"a"), GONE), in_parts(part(b""), GONE)):
        assert asked(made_site(), "POST /here", coming) == []


def test_failures_are_told_and_logged_without_their_text() -> None:
    lines: list[str] = []
    site = made_site(lines)

    def at_once(_: Request) -> Answer:
        raise RuntimeError(SECRET)

    async def awaited(_: Request) -> Answer:
        await asyncio.sleep(0)
        raise LookupError(SECRET) from ValueError(SECRET)

    site.route("POST /breaks", at_once)
    site.route("POST /breaks/*", awaited)
    for path in ("/breaks", f"/breaks/{SECRET}"):
        status, _, body = answered(site, f"POST {path}", SECRET.encode(), SECRET.encode())
        assert (status, list(json.loads(body))) == (500, ["error"])
        assert SECRET.encode() not in body
    told = [json.loads(line) for line in lines]
    assert [event["kind"] for event in told] == ["RuntimeError", "LookupError"]
    assert [event["route"] for event in told] == ["/breaks", "/breaks/"]
    assert all(event["where"].startswith("tests.service.test_site:") for event in told)
    assert SECRET not in "".join(lines)
    shown = answered(site, "GET /metrics")[2].decode()
    assert 'kreach_test_http_failures_total{kind="RuntimeError"} 1.0' in shown
    assert 'kreach_test_http_refused_total{status="500"} 2.0' in shown
    assert SECRET not in shown


def test_what_is_the_clients_fault_is_said() -> None:
    lines: list[str] = []
    site = made_site(lines)

    def refuses(_: Request) -> Answer:
        raise KreachError.rule("price", "be a number", "?")

    site.route("GET /refuses", refuses)
    status, _, body = answered(site, "GET /refuses")
    assert (status, json.loads(body)) == (400, {"error": "price must be a number, got '?'"})
    assert lines == []


def test_websockets_are_closed() -> None:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(made_site()({"type": "websocket"}, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


def lived(site: Site) -> list[str]:
    """A life from start to stop: the messages that it sends."""
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        return {"type": "lifespan"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(f"{message['type']} {message.get('message', '')}".strip())

    asyncio.run(site({"type": "lifespan"}, receive, send))
    return sent


def test_start_and_stop() -> None:
    done: list[str] = []

    async def start() -> None:
        done.append("start")

    async def stop() -> None:
        done.append("stop")

    complete = ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert lived(made_site(start=start, stop=stop)) == complete
    assert done == ["start", "stop"]
    assert lived(made_site()) == complete


def test_a_start_that_fails_is_logged() -> None:
    for error, told in [
        (KreachError("store must be a folder"), "store must be a folder"),
        (OSError(SECRET), "OSError"),
    ]:
        lines: list[str] = []

        async def start(error: Exception = error) -> None:
            raise error

        assert lived(made_site(lines, start=start)) == [f"lifespan.startup.failed {told}"]
        assert json.loads(lines[0])["kind"] == told
        assert SECRET not in "".join(lines)
