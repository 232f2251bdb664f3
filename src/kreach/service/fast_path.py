"""The fast path: one route answered inside the HTTP protocol, without ASGI.

ASGI costs about as much as deciding on a bid. For the one busy route, the server's HTTP protocol
passes the body to a function and writes the response. Other routes, and unusual requests of this
route, go through ASGI.

Exchanges send the same head with every request of a length. A head that the parser has read on
this route is known: the next message that arrives whole, with the same head to the byte, is not
parsed again. Heads are known only if all their fields are common ones that say nothing about a
person.
"""

import asyncio
from http import HTTPStatus
from typing import Any, ClassVar

from kreach.service.bodies import content_encoding
from kreach.service.connections import BoundedProtocol, ServerSettings
from kreach.service.web import JSON_HEADERS, FastRoute, Response

__all__ = ["fast_path_protocol"]

_OK, _NO_CONTENT = HTTPStatus.OK.value, HTTPStatus.NO_CONTENT.value
_STATUS = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
_OK_JSON = _STATUS[_OK] + b"content-type: application/json\r\ncontent-length: "
_MAX_HEADS = 4_096
_MAX_HEAD_BYTES = 1_024
_COMMON_FIELDS = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"connection",
        b"content-length",
        b"content-type",
        b"host",
        b"user-agent",
        b"x-openrtb-version",
    }
)


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


class FastPathProtocol(BoundedProtocol):
    """Answers `fast_route`; leaves the rest to its parent. Subclasses set these attributes."""

    fast_route: FastRoute
    unsent: UnsentResponses
    body_lengths: ClassVar[dict[bytes, int]]  # of messages with known heads

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._fast_body: bytes | None = None  # the body so far of a request on the fast path
        self._encoding = b""  # of that body
        self._within = False  # a message has begun and is not complete
        self._parsed_length: int | None = None  # of the last body, if the connection is kept
        self._active_at = 0.0
        self._timer_set = False

    def data_received(self, data: bytes) -> None:
        if self._within:
            super().data_received(data)
            return
        end = data.find(b"\r\n\r\n", 0, _MAX_HEAD_BYTES) + 4
        head, length = data[:end], len(data) - end
        if self.body_lengths.get(head) == length and self._is_free():
            if self.timeout_keep_alive_task is not None:
                self._unset_keepalive_if_required()
            self._head_since = None
            if self._timer_set:
                self._active_at = self.loop.time()
            else:
                self._note_activity()
            self._write(self.fast_route.respond(data[end:]), keep=True)
            return
        if self._parse(data) == length and end > 4:  # one message, and nothing after it
            self._learn(head, length)

    def _parse(self, data: bytes) -> int | None:
        """Leave it to the parser; the length of the last body on the fast path, if there is one."""
        self._parsed_length = None
        super().data_received(data)
        return self._parsed_length

    def _learn(self, head: bytes, length: int) -> None:
        if _COMMON_FIELDS.issuperset(name for name, _ in self.headers):
            if len(self.body_lengths) >= _MAX_HEADS:
                self.body_lengths.clear()
            self.body_lengths[head] = length

    def _is_free(self) -> bool:
        """Whether nothing is under way on this connection."""
        done = self.cycle is None or self.cycle.response_complete
        return done and not (self.flow.write_paused or self.pipeline)

    def _note_activity(self) -> None:
        self._active_at = self.loop.time()
        if not self._timer_set:  # one timer per connection, not one per request
            self._timer_set = True
            self.loop.call_later(self.limits.idle_seconds, self._close_if_idle)

    def _is_waiting(self) -> bool:
        return self._fast_body is None and super()._is_waiting()

    def on_message_begin(self) -> None:
        self._within = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if (
            self.url == self.fast_route.path
            and self.parser.get_method() == self.fast_route.method
            and self._is_free()
            and not (self.expect_100_continue or self.parser.should_upgrade())
        ):
            self._finish_head()
            self._fast_body = b""
            self._encoding = content_encoding(self.headers)
            self._note_activity()
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
        self._within = False
        if body is None:
            super().on_message_complete()
            return
        self._fast_body = None
        if len(body) > self.fast_route.max_body_bytes:
            return  # answered already
        keep = self.parser.should_keep_alive() and self.parser.get_http_version() == "1.1"
        self._parsed_length = len(body) if keep else None
        self._write(self.fast_route.respond(body, self._encoding), keep=keep)

    def _write(self, response: Response, *, keep: bool) -> None:
        status, body = response.status, response.body
        if keep and response.headers is JSON_HEADERS and status == _OK:
            whole = b"%b%d\r\n\r\n%b" % (_OK_JSON, len(body), body)
            self.unsent.add(self.loop, self.transport, whole, keep=True)
            self.server_state.total_requests += 1
            return
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
        if idle >= self.limits.idle_seconds:
            self.transport.close()
            return
        self._timer_set = True
        self.loop.call_later(self.limits.idle_seconds - idle, self._close_if_idle)


def fast_path_protocol(
    route: FastRoute, settings: ServerSettings | None = None
) -> type[BoundedProtocol]:
    """The server's HTTP protocol within limits, with one route on the fast path."""

    class Protocol(FastPathProtocol):
        """Of one server: its route, and what all its connections share."""

        limits = settings or ServerSettings()
        fast_route = route
        unsent = UnsentResponses()
        body_lengths: ClassVar[dict[bytes, int]] = {}

    return Protocol
