"""Middleware: authentication, body limits, request metrics."""

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import Request, Response
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from kreach.adsystem.access.gate import OPERATOR, Admit, Refusal, Viewer
from kreach.adsystem.api.errors import error_response
from kreach.errors import KreachError
from kreach.service.bodies import (
    BodyTimeout,
    BodyTooLong,
    UnsupportedEncoding,
    content_encoding,
    decompressed,
    read_body,
)
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.request_checks import RequestChecks

__all__ = [
    "Bearer",
    "RequestGuard",
    "open_to_all",
    "viewer_of",
]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[None]]

_BODY_SECONDS = 10.0
_CLOSE = {"connection": "close"}
_METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS")
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_VIEWER = "kreach.viewer"


def open_to_all(_: Any) -> Viewer | Refusal:
    """Admit everybody as an operator, for a service without keys."""
    return OPERATOR


class Bearer(SecurityBase):
    """Describes the key in OpenAPI; the middleware has authenticated the caller before."""

    model = HTTPBearer(description="A key, as `kreach keys add` shows it once.")
    scheme_name = "key"

    async def __call__(self, request: Request) -> None:
        """Nothing to do."""


async def viewer_of(request: Request) -> Viewer:
    """The authenticated caller of a request."""
    viewer: Viewer = request.scope[_VIEWER]
    return viewer


class RequestGuard:
    """Middleware: authenticates with `admit` and checks before it reads the body, limits the body,
    counts requests, and turns failures into 500.
    """

    def __init__(
        self,
        app: Application,
        log: Log,
        metrics: Metrics,
        max_body_bytes: int,
        admit: Admit = open_to_all,
        checks: RequestChecks | None = None,
    ) -> None:
        self._checks = checks
        self._app, self._log, self._admit = app, log, admit
        self._max_body_bytes = max_body_bytes
        self._requests = metrics.count("requests", "Requests, by route and status", "request")
        self._failures = metrics.count("http_failures", "Requests that failed inside", "kind")
        self._latency = metrics.histogram("latency_seconds", "Time to answer", _SECONDS)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        status = 0

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        refused: Response | None
        try:
            refused = self._refused(scope)
            if refused is None:
                body = await self._read(scope, receive)
                if body is None:
                    return
                if isinstance(body, Response):
                    refused = body
                else:
                    await self._app(scope, _again(body, receive), counted)
        except Exception as error:
            refused = self._failed(error, scope)
        if refused is not None and not status:
            await refused(scope, receive, counted)
        self._latency.observe(time.perf_counter() - begun)
        self._requests.add(f"{_method(scope)} {_route(scope)} {status}")

    def _refused(self, scope: Any) -> Response | None:
        """The response to a caller who is refused; an admitted viewer is put into the scope."""
        viewer = self._admit(scope)
        if isinstance(viewer, Refusal):
            return error_response(viewer.status, viewer.message, headers=viewer.headers)
        failed = None if self._checks is None else self._checks.refusal(scope)
        if failed is not None:
            return error_response(failed.status, failed.message)
        scope[_VIEWER] = viewer
        return None

    async def _read(self, scope: Any, receive: Receive) -> bytes | Response | None:
        """The body, or the response to one that is refused; None if the client has gone."""
        limit = self._max_body_bytes
        try:
            first = await asyncio.wait_for(receive(), _BODY_SECONDS)
            body = await read_body(first, receive, limit, _BODY_SECONDS)
            return decompressed(body, content_encoding(scope["headers"]), limit) if body else body
        except BodyTooLong as error:
            return error_response(413, str(error), headers=_CLOSE)
        except UnsupportedEncoding as error:
            return error_response(415, str(error), headers={"accept-encoding": "gzip"})
        except (BodyTimeout, TimeoutError):
            return error_response(408, "the body did not arrive in time", headers=_CLOSE)
        except KreachError as error:  # not the gzip that it says it is
            return error_response(400, str(error))

    def _failed(self, error: Exception, scope: Any) -> Response:
        kind = type(error).__name__
        self._failures.add(kind)
        self._log.error("request failed", kind=kind, where=_where(error), route=_route(scope))
        return error_response(500, "internal error")


def _again(body: bytes, receive: Receive) -> Receive:
    """Replay a body that was read, for the routes."""
    waiting = [body]

    async def replay() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay


def _method(scope: Any) -> str:
    return scope["method"] if scope["method"] in _METHODS else "other"


def _route(scope: Any) -> str:
    """The template of the path, so that client input stays out of labels and logs."""
    return str(getattr(scope.get("route"), "path", "other"))


def _where(error: BaseException) -> str:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return "" if last is None else f"{last.tb_frame.f_globals.get('__name__')}:{last.tb_lineno}"
