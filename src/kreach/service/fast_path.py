"""The fast path: one route answered inside the HTTP protocol, without ASGI.

ASGI costs about as much as deciding on a bid. For the one busy route, the server's HTTP protocol
passes the body to a function and writes the response. Other routes, and unusual requests of this
route, go through ASGI.
"""

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kreach.service.web import FastRoute, Response

__all__ = ["fast_path_protocol"]

_NO_CONTENT = HTTPStatus.NO_CONTENT.value
_STATUS = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
_KEEP_ALIVE_SECONDS = 5.0


class UnsentResponses:
    """Responses that are sent after all requests that have arrived are decided.

    Sending each at once would wake its reader, which then competes for the CPU.
    """

    def __init__(self) -> None:
        self._unsent: list[tuple[asyncio.Transport, bytes, bool]] = []

    def add(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        response: bytes,
        *,
        keep: bool,
    ) -> None:
        """Send a response soon; unless `keep`, close its connection afterwards."""
        if not self._unsent:
            loop.call_soon(self._send)
        self._unsent.append((transport, response, keep))

    def _send(self) -> None:
        batch, self._unsent = self._unsent, []
        for transport, response, keep in batch:
            if not transport.is_closing():
                transport.write(response)
                if not keep:
                    transport.close()


class FastPathProtocol(HttpToolsProtocol):
    """Answers `fast_route`; leaves the rest to its parent. Subclasses set both attributes."""

    fast_route: FastRoute
    unsent: UnsentResponses

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._fast_body: bytes | None = None  # the body so far of a request on the fast path
        self._active_at = 0.0
        self._timer_set = False

    def on_headers_complete(self) -> None:
        if (
            self.url == self.fast_route.path
            and self.parser.get_method() == self.fast_route.method
            and (self.cycle is None or self.cycle.response_complete)
            and not (self.expect_100_continue or self.flow.write_paused or self.pipeline)
            and not self.parser.should_upgrade()
        ):
            self._fast_body = b""
            self._active_at = self.loop.time()
            if not self._timer_set:  # one timer per connection, not one per request
                self._timer_set = True
                self.loop.call_later(_KEEP_ALIVE_SECONDS, self._close_if_idle)
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._fast_body is None:
            super().on_body(body)
        elif len(self._fast_body) <= self.fast_route.max_body_bytes:
            self._fast_body = self._fast_body + body if self._fast_body else body
            if len(self._fast_body) > self.fast_route.max_body_bytes:
                self._write(self.fast_route.respond(self._fast_body), keep=False)

    def on_message_complete(self) -> None:
        body = self._fast_body
        if body is None:
            super().on_message_complete()
            return
        self._fast_body = None
        if len(body) > self.fast_route.max_body_bytes:
            return  # answered already
        keep = self.parser.should_keep_alive() and self.parser.get_http_version() == "1.1"
        self._write(self.fast_route.respond(body), keep=keep)

    def _write(self, response: Response, *, keep: bool) -> None:
        status, body = response.status, response.body
        chunks = [_STATUS[status]]
        for name, value in response.headers:
            chunks += (name, b": ", value, b"\r\n")
        if status != _NO_CONTENT:
            chunks.append(b"content-length: %d\r\n" % len(body))
        if not keep and not any(name == b"connection" for name, _ in response.headers):
            chunks.append(b"connection: close\r\n")
        chunks += (b"\r\n", body)
        self.unsent.add(self.loop, self.transport, b"".join(chunks), keep=keep)
        self.server_state.total_requests += 1

    def _close_if_idle(self) -> None:
        """Close a connection that is idle, between requests or within one."""
        self._timer_set = False
        idle = self.loop.time() - self._active_at
        if self.transport.is_closing() or self.parser is None:
            return
        if self.cycle is not None and not self.cycle.response_complete:
            idle = 0.0  # a response is on its way
        if idle >= _KEEP_ALIVE_SECONDS:
            self.transport.close()
            return
        self._timer_set = True
        self.loop.call_later(_KEEP_ALIVE_SECONDS - idle, self._close_if_idle)


def fast_path_protocol(route: FastRoute) -> type[HttpToolsProtocol]:
    """The server's HTTP protocol with one route on the fast path."""

    class Protocol(FastPathProtocol):
        """Of one server: its route, and the responses of all its connections."""

        fast_route = route
        unsent = UnsentResponses()

    return Protocol
