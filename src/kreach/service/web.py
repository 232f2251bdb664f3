"""A small ASGI framework for the bidder and the gateway: routes, requests, responses."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from kreach.errors import KreachError
from kreach.service.bodies import (
    BodyTimeout,
    BodyTooLong,
    UnsupportedEncoding,
    check_length,
    content_encoding,
    decompressed,
    read_body,
)
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.request_checks import PREFLIGHT_HEADERS, RequestChecks, cors_headers

__all__ = [
    "JSON_HEADERS",
    "App",
    "FastRoute",
    "Handler",
    "Lifespan",
    "Request",
    "Response",
    "error_response",
    "json_response",
    "ready_response",
]

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Header = tuple[bytes, bytes]

_JSON: Header = (b"content-type", b"application/json")
JSON_HEADERS: list[Header] = [_JSON]
"""The headers of a response with JSON and nothing else; a busy route's are known by this list."""
_TEXT: Header = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


class Response(msgspec.Struct):
    """Status, headers and body. (A struct is made quicker than a class.)"""

    status: int
    body: bytes = b""
    headers: list[Header] = msgspec.field(default_factory=list)


@dataclass(slots=True)
class Request:
    """The input of a handler. It has no client address."""

    body: bytes
    rest: str  # the part of the path that `*` stands for
    query: bytes
    headers: Sequence[Header] = ()


Handler = Callable[[Request], Response | Awaitable[Response]]
Lifespan = Callable[[], Awaitable[None]]


def json_response(document: object, status: int = 200) -> Response:
    """A JSON document."""
    return Response(status, json.dumps(document).encode(), [_JSON])


def ready_response(waiting_for: Mapping[str, bool]) -> Response:
    """The answer of GET /readyz: 503 while the service waits for any of these.

    Alive and ready are two questions: a supervisor restarts what is not alive (/healthz), a load
    balancer sends no requests to what is not ready.
    """
    missing = [name for name, waits in waiting_for.items() if waits]
    if not missing:
        return json_response({"status": "ready"})
    return json_response({"status": "not ready", "waiting_for": missing}, 503)


def error_response(status: int, error: KreachError | str) -> Response:
    """The JSON form of every error: a message, and the field at fault if there is one."""
    message, fields = str(error), []
    if isinstance(error, KreachError) and error.field is not None:
        fields = [{"field": error.field, "code": error.code, "message": message}]
    return json_response({"error": {"message": message, "fields": fields}}, status)


class Respond(Protocol):
    """The response to a body, which may be compressed."""

    def __call__(self, body: bytes, encoding: bytes = b"") -> Response:
        """`encoding` is the body's, empty if it is not compressed."""
        ...


@dataclass(frozen=True, slots=True)
class FastRoute:
    """A route that the server answers without ASGI (see service/fast_path.py)."""

    method: bytes
    path: bytes
    max_body_bytes: int
    respond: Respond


class App:
    """An ASGI application made of handlers.

    A route is "METHOD /path" or, with any last segment, "METHOD /path/*". A handler returns a
    response or an awaitable of one. A KreachError becomes 400; any other exception becomes 500 and
    is logged by type only. Requests pass `checks` first, but for public routes; pages of their
    `origins` may read responses. `probes` is whether there is a route for metrics.
    """

    def __init__(
        self,
        log: Log,
        metrics: Metrics,
        *,
        max_body_bytes: int = 1_000_000,
        body_seconds: float = 10.0,
        checks: RequestChecks | None = None,
        probes: bool = True,
        start: Lifespan | None = None,
        stop: Lifespan | None = None,
    ) -> None:
        self._log, self._checks = log, checks
        self._public: set[str] = set()
        self._max_body_bytes, self._body_seconds = max_body_bytes, body_seconds
        self._start, self._stop = start, stop
        self._routes: dict[str, dict[str, Handler]] = {}
        self._prefixes: dict[str, dict[str, Handler]] = {}
        self._failures = metrics.count("http_failures", "Internal errors, by type", "kind")
        self._refused = metrics.count("http_refused", "Error responses, by status", "status")
        if probes:
            self.route("GET /metrics", lambda _: Response(200, metrics.render(), [_TEXT]))

    def route(self, route: str, handler: Handler, *, public: bool = False) -> None:
        """Add a route; a public path is for servers of others, whatever headers they send."""
        method, path = route.split(" ")
        if public:
            self._public.add(path.rstrip("*"))
        table = self._prefixes if path.endswith("*") else self._routes
        table.setdefault(path.rstrip("*"), {})[method] = handler

    def template(self, path: str) -> str:
        """The route of a path as it was added: without what a client wrote in place of `*`."""
        if path in self._routes:
            return path
        prefix = path.rpartition("/")[0] + "/"
        return prefix + "*" if prefix in self._prefixes else "other"

    def fast_route(self, route: str, handler: Callable[[bytes], Response]) -> FastRoute:
        """A route on the fast path: `handler` gets the body and returns the response."""
        method, path = route.split(" ")
        max_body_bytes = self._max_body_bytes

        def respond(body: bytes, encoding: bytes = b"") -> Response:
            try:
                if len(body) > max_body_bytes:
                    check_length(body, max_body_bytes)
                if encoding:
                    body = decompressed(body, encoding, max_body_bytes)
                response = handler(body)
            except Exception as error:
                response = self._error_response(error, path)
            if response.status >= 400:
                self._refused.add(str(response.status))
            return response

        return FastRoute(method.encode(), path.encode(), self._max_body_bytes, respond)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        origin = None if self._checks is None else self._checks.allowed_origin(scope)
        if origin is not None and scope["method"] == "OPTIONS":
            response: Response | None = Response(204, b"", list(PREFLIGHT_HEADERS))
        else:
            response = await self._respond(scope, receive)
        if response is None:
            return
        if origin is not None:
            response.headers = [*response.headers, *cors_headers(origin)]  # lists may be shared
        if response.status >= 400:
            self._refused.add(str(response.status))
        headers = response.headers
        if response.status != 204:  # which must not have a length
            headers = [*headers, (b"content-length", b"%d" % len(response.body))]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _respond(self, scope: Scope, receive: Receive) -> Response | None:
        """The response, or None if the client has disconnected."""
        route, rest = scope["path"], ""
        methods = self._routes.get(route)
        if methods is None:
            head, _, rest = route.rpartition("/")
            route = head + "/"
            methods = self._prefixes.get(route)
        if methods is None:
            return error_response(404, "no such path")
        handler = methods.get(scope["method"])
        if handler is None:
            allowed = ", ".join(sorted(methods))
            refused = error_response(405, f"the method must be {allowed}")
            refused.headers.append((b"allow", allowed.encode()))
            return refused
        if self._checks is not None and route not in self._public:
            failed = self._checks.refusal(scope)
            if failed is not None:
                return error_response(failed.status, failed.message)
        limit = self._max_body_bytes
        try:
            message = await receive()
            body: bytes | None = message.get("body", b"")
            if not body or message.get("more_body") or len(body) > limit:
                body = await read_body(message, receive, limit, self._body_seconds)
                if body is None:
                    return None
            if body:
                encoding = content_encoding(scope.get("headers", ()))
                body = decompressed(body, encoding, limit) if encoding else body
            headers = scope.get("headers", ())
            response = handler(Request(body, rest, scope["query_string"], headers))
            return response if isinstance(response, Response) else await response
        except Exception as error:
            return self._error_response(error, route)

    def _error_response(self, error: Exception, route: str) -> Response:
        if isinstance(error, (BodyTooLong, BodyTimeout)):
            refused = (
                error_response(413, error)
                if isinstance(error, BodyTooLong)
                else error_response(408, "the body did not arrive in time")
            )
            refused.headers.append((b"connection", b"close"))
            return refused
        if isinstance(error, UnsupportedEncoding):
            refused = error_response(415, error)
            refused.headers.append((b"accept-encoding", b"gzip"))
            return refused
        if isinstance(error, KreachError):
            return error_response(400, error)
        kind = type(error).__name__
        self._failures.add(kind)
        self._log.error("request failed", kind=kind, where=_where(error), route=route)
        return error_response(500, "internal error")

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle start and stop of the application; close websockets."""
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
