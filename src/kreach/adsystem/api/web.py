"""Around the routes: who asks, bodies that end, one form of error, counted requests, threads."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from kreach.adsystem.access.gate import OPERATOR, Admit, Refusal, Viewer
from kreach.errors import KreachError
from kreach.service.logs import Log
from kreach.service.metrics import Metrics

__all__ = [
    "Bearer",
    "Busy",
    "Guard",
    "Workers",
    "answer",
    "open_to_all",
    "refusal",
    "told_of",
    "viewer_of",
]

T = TypeVar("T")
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[None]]

_BODY_SECONDS = 10.0
_METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS")
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_MAX_SHOWN = 300
_VIEWER = "kreach.viewer"


class Busy(RuntimeError):
    """More is asked than is worked off."""


def answer(document: object, status: int = 200, **headers: str) -> Response:
    """A JSON document; numbers as Python writes them, so that none loses a digit."""
    body = json.dumps(document, allow_nan=False)
    return Response(body, status, headers, media_type="application/json")


def refusal(status: int, message: str, **headers: str) -> Response:
    """The one form of error."""
    return answer({"error": message}, status, **headers)


def told_of(errors: Sequence[Any]) -> str:
    """What is wrong with a request: field, rule and a short value, never the whole body."""
    first = errors[0]
    place = [str(part) for part in first["loc"]]
    if len(place) > 1 and place[0] in ("query", "path", "body", "header"):
        place = place[1:]
    said = str(first["msg"]).removeprefix("Value error, ")
    said = said[:1].lower() + said[1:]
    value = first.get("input")
    shown = "" if isinstance(value, (dict, list)) or value is None else _short(value)
    return f"{'.'.join(place) or 'request'}: {said}{shown}"[:_MAX_SHOWN]


def _short(value: object) -> str:
    return ", got" + str(KreachError.rule("", "", value)).partition(", got")[2]


class Workers:
    """Threads for work that would hold up the loop; a queue that grows too long is refused."""

    def __init__(self, name: str, threads: int, max_waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most = threads + max_waiting
        self._lock = threading.Lock()
        self.under_way = 0

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Do it in a thread, and wait for it."""
        with self._lock:
            if self.under_way >= self._most:
                raise Busy("too much is being asked at once: try again later")
            self.under_way += 1
        made = self._threads.submit(partial(work, *args))
        made.add_done_callback(self._done)
        return await asyncio.wrap_future(made)

    def _done(self, _: object) -> None:
        with self._lock:
            self.under_way -= 1

    def close(self) -> None:
        """Let what is under way come to its end."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def open_to_all(_: Any) -> Viewer | Refusal:
    """Let everybody in as an operator: a service without keys."""
    return OPERATOR


class Bearer(SecurityBase):
    """How the API describes that a key is asked for; who asks was decided before the routes."""

    model = HTTPBearer(description="A key, as `kreach keys add` shows it once.")
    scheme_name = "key"

    async def __call__(self, request: Request) -> None:
        """Nothing is left to do."""


async def viewer_of(request: Request) -> Viewer:
    """Who was let in with this request."""
    viewer: Viewer = request.scope[_VIEWER]
    return viewer


class Guard:
    """Middleware: lets in whom `admit` lets in, before it reads a body, and that within bounds.

    Counts requests, and turns failures into 500.
    """

    def __init__(
        self,
        app: Application,
        log: Log,
        metrics: Metrics,
        max_body_bytes: int,
        admit: Admit = open_to_all,
    ) -> None:
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

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        refused: Response | None
        try:
            refused = self._kept_out(scope)
            if refused is None:
                body = await asyncio.wait_for(self._body(receive), _BODY_SECONDS)
                if body is None:
                    return
                refused = self._too_long(body)
                if refused is None:
                    await self._app(scope, _again(body, receive), told)
        except TimeoutError:
            refused = refusal(408, "the body did not come in time", connection="close")
        except Exception as error:
            refused = self._failed(error, scope)
        if refused is not None and not status:
            await refused(scope, receive, told)
        self._latency.observe(time.perf_counter() - begun)
        self._requests.add(f"{_method(scope)} {_route(scope)} {status}")

    def _kept_out(self, scope: Any) -> Response | None:
        """What somebody who is not let in is told; who is let in stands in the scope."""
        found = self._admit(scope)
        if isinstance(found, Refusal):
            return refusal(found.status, found.message, **found.headers)
        scope[_VIEWER] = found
        return None

    def _too_long(self, body: bytes) -> Response | None:
        if len(body) <= self._max_body_bytes:
            return None
        rule = f"body must have at most {self._max_body_bytes} bytes"
        return refusal(413, rule, connection="close")

    def _failed(self, error: Exception, scope: Any) -> Response:
        kind = type(error).__name__
        self._failures.add(kind)
        self._log.error("request failed", kind=kind, where=_where(error), route=_route(scope))
        return refusal(500, "something went wrong inside")

    async def _body(self, receive: Receive) -> bytes | None:
        """The body, a little more than is allowed of one that is too long; None if nobody waits."""
        parts: list[bytes] = []
        size = 0
        while size <= self._max_body_bytes:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if not message.get("more_body"):
                break
        return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read, for the routes to read."""
    waiting = [body]

    async def replay() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay


def _method(scope: Any) -> str:
    return scope["method"] if scope["method"] in _METHODS else "other"


def _route(scope: Any) -> str:
    """The template of the path: what clients write into it stays out of labels and logs."""
    return str(getattr(scope.get("route"), "path", "other"))


def _where(error: BaseException) -> str:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return "" if last is None else f"{last.tb_frame.f_globals.get('__name__')}:{last.tb_lineno}"
