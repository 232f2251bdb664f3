"""HTTP on raw ASGI: routes, bodies, answers. As little as the bid endpoint can do with."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kreach.errors import KreachError
from kreach.service.logs import Log
from kreach.service.metrics import Metrics

__all__ = [
    "Answer",
    "Direct",
    "Handler",
    "Lifespan",
    "Request",
    "Site",
    "error_answer",
    "json_answer",
]

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

_JSON: Header = (b"content-type", b"application/json")
_TEXT: Header = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
_BODY_SECONDS = 10.0


@dataclass(slots=True)
class Answer:
    """Status, headers and body."""

    status: int
    body: bytes = b""
    headers: list[Header] = field(default_factory=list)


@dataclass(slots=True)
class Request:
    """What a handler may look at. There is no client address here."""

    body: bytes
    rest: str  # of the path, behind the route
    query: bytes


class _TooLong(KreachError):
    """A body beyond what is read."""


class _TooSlow(Exception):
    """A body that did not come in time."""


Handler = Callable[[Request], Answer | Awaitable[Answer]]
Lifespan = Callable[[], Awaitable[None]]


def json_answer(document: object, status: int = 200) -> Answer:
    """A JSON document."""
    return Answer(status, json.dumps(document).encode(), [_JSON])


def error_answer(status: int, message: str) -> Answer:
    """The one form of error that services answer."""
    return json_answer({"error": message}, status)


@dataclass(frozen=True, slots=True)
class Direct:
    """A route that is answered without ASGI (see service/direct.py)."""

    method: bytes
    path: bytes
    max_body_bytes: int
    answer: Callable[[bytes], Answer]


class Site:
    """An ASGI application made of handlers.

    A route is "METHOD /path" or, to take the rest of the path, "METHOD /path/*". A handler may
    answer at once or be awaited. A KreachError is the client's fault and becomes 400; anything else
    is ours and becomes 500, logged by type only.
    """

    def __init__(
        self,
        log: Log,
        metrics: Metrics,
        *,
        max_body_bytes: int = 1_000_000,
        start: Lifespan | None = None,
        stop: Lifespan | None = None,
    ) -> None:
        self._log = log
        self._max_body_bytes = max_body_bytes
        self._start, self._stop = start, stop
        self._routes: dict[str, dict[str, Handler]] = {}
        self._prefixes: dict[str, dict[str, Handler]] = {}
        self._failures = metrics.count("http_failures", "Requests that failed inside", "kind")
        self._refused = metrics.count("http_refused", "Requests refused, by status", "status")
        self.route("GET /metrics", lambda _: Answer(200, metrics.render(), [_TEXT]))

    def route(self, route: str, handler: Handler) -> None:
        """Add a route."""
        method, path = route.split(" ")
        table = self._prefixes if path.endswith("*") else self._routes
        table.setdefault(path.rstrip("*"), {})[method] = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        answer = await self._answer(scope, receive)
        if answer is None:
            return
        if answer.status >= 400:
            self._refused.add(str(answer.status))
        headers = answer.headers
        if answer.status != 204:  # which must not have a length
            headers = [*headers, (b"content-length", b"%d" % len(answer.body))]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer | None:
        route, rest = scope["path"], ""
        methods = self._routes.get(route)
        if methods is None:
            head, _, rest = route.rpartition("/")
            route = head + "/"
            methods = self._prefixes.get(route)
        if methods is None:
            return error_answer(404, "there is no such path")
        handler = methods.get(scope["method"])
        if handler is None:
            allowed = ", ".join(sorted(methods))
            refused = error_answer(405, f"the method must be {allowed}")
            refused.headers.append((b"allow", allowed.encode()))
            return refused
        try:
            message = await receive()
            body: bytes | None = message.get("body", b"")
            if not body or message.get("more_body") or len(body) > self._max_body_bytes:
                body = await self._long_body(message, receive)
                if body is None:
                    return None
            answer = handler(Request(body, rest, scope["query_string"]))
            return answer if isinstance(answer, Answer) else await answer
        except Exception as error:
            return self._failed(error, route)

    def _failed(self, error: Exception, route: str) -> Answer:
        """What a client is told when a handler gave up."""
        if isinstance(error, _TooLong):
            refused = error_answer(413, str(error))
            refused.headers.append((b"connection", b"close"))
            return refused
        if isinstance(error, KreachError):
            return error_answer(400, str(error))
        if isinstance(error, _TooSlow):
            refused = error_answer(408, "the body did not come in time")
            refused.headers.append((b"connection", b"close"))
            return refused
        self._failures.add(type(error).__name__)
        kind, where = type(error).__name__, _where(error)
        self._log.error("request failed", kind=kind, where=where, route=route)
        return error_answer(500, "something went wrong inside")

    def direct(self, route: str, handler: Callable[[bytes], Answer]) -> "Direct":
        """A route that a function of the body answers, for a server that skips ASGI on it."""
        method, path = route.split(" ")

        def answer(body: bytes) -> Answer:
            try:
                if len(body) > self._max_body_bytes:
                    raise _TooLong.rule(
                        "body", f"have at most {self._max_body_bytes} bytes", "more"
                    )
                found = handler(body)
            except Exception as error:
                found = self._failed(error, path)
            if found.status >= 400:
                self._refused.add(str(found.status))
            return found

        return Direct(method.encode(), path.encode(), self._max_body_bytes, answer)

    async def _long_body(self, message: dict[str, Any], receive: Receive) -> bytes | None:
        """The body, or None if the client has gone."""
        if message["type"] == "http.disconnect":
            return None
        body: bytes | None = message.get("body", b"")
        if message.get("more_body"):
            try:
                rest = self._rest_of_body(body or b"", receive)
                body = await asyncio.wait_for(rest, _BODY_SECONDS)
            except TimeoutError:
                raise _TooSlow from None
        if body is not None:
            self._check_length(body)
        return body

    def _check_length(self, body: bytes) -> None:
        if len(body) > self._max_body_bytes:
            raise _TooLong.rule("body", f"have at most {self._max_body_bytes} bytes", "more")

    async def _rest_of_body(self, body: bytes, receive: Receive) -> bytes | None:
        parts, size = [body], len(body)
        while size <= self._max_body_bytes:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if not message.get("more_body"):
                break
        return b"".join(parts)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Start and stop; whatever is neither HTTP nor that (websockets) is closed."""
        if scope["type"] != "lifespan":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
            return
        await receive()
        try:
            if self._start is not None:
                await self._start()
        except Exception as error:
            kind = str(error) if isinstance(error, KreachError) else type(error).__name__
            self._log.error("start failed", kind=kind, where=_where(error))
            await send({"type": "lifespan.startup.failed", "message": kind})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if self._stop is not None:
            await self._stop()
        await send({"type": "lifespan.shutdown.complete"})


def _where(error: BaseException) -> str:
    """The place in the code, without any value."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return ""
    return f"{last.tb_frame.f_globals.get('__name__')}:{last.tb_lineno}"
