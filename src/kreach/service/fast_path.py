"""One route answered inside the protocol: no task, no event, no messages.

ASGI costs about as much as deciding on a bid does. For the one route that carries the load, the
server's own HTTP protocol hands the body to a function and writes what it returns. Everything else
(and this route as well, whenever something is out of the ordinary) goes the way of ASGI.
"""

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kreach.service.web import Answer, Direct

__all__ = ["direct_protocol"]

_NO_CONTENT = HTTPStatus.NO_CONTENT.value
_STATUS = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
_KEEP_ALIVE_SECONDS = 5.0


def direct_protocol(direct: Direct) -> type[HttpToolsProtocol]:
    """The server's protocol with one route answered directly.

    Answers are sent when all requests that have come in are decided on: sending each at once would
    wake its reader, who then gets in the way of the next.
    """
    unsent: list[tuple[asyncio.Transport, bytes, bool]] = []

    def send() -> None:
        waiting, unsent[:] = unsent[:], ()
        for transport, answer, keep in waiting:
            if not transport.is_closing():
                transport.write(answer)
                if not keep:
                    transport.close()

    class DirectProtocol(HttpToolsProtocol):
        """Answers `direct`; leaves the rest to its parent."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._direct: bytes | None = None  # the body so far, while such a request comes in
            self._busy_at = 0.0
            self._watched = False

        def on_headers_complete(self) -> None:
            if (
                self.url == direct.path
                and self.parser.get_method() == direct.method
                and (self.cycle is None or self.cycle.response_complete)
                and not (self.expect_100_continue or self.flow.write_paused or self.pipeline)
                and not self.parser.should_upgrade()
            ):
                self._direct = b""
                self._busy_at = self.loop.time()
                if not self._watched:  # one timer per connection, not one per request
                    self._watched = True
                    self.loop.call_later(_KEEP_ALIVE_SECONDS, self._watch)
            else:
                super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            if self._direct is None:
                super().on_body(body)
            elif len(self._direct) <= direct.max_body_bytes:
                self._direct = self._direct + body if self._direct else body
                if len(self._direct) > direct.max_body_bytes:
                    self._write(direct.answer(self._direct), keep=False)

        def on_message_complete(self) -> None:
            body = self._direct
            if body is None:
                super().on_message_complete()
                return
            self._direct = None
            if len(body) > direct.max_body_bytes:
                return  # answered already
            keep = self.parser.should_keep_alive() and self.parser.get_http_version() == "1.1"
            self._write(direct.answer(body), keep=keep)

        def _write(self, answer: Answer, *, keep: bool) -> None:
            status, body = answer.status, answer.body
            parts = [_STATUS[status]]
            for name, value in answer.headers:
                parts += (name, b": ", value, b"\r\n")
            if status != _NO_CONTENT:
                parts.append(b"content-length: %d\r\n" % len(body))
            if not keep and not any(name == b"connection" for name, _ in answer.headers):
                parts.append(b"connection: close\r\n")
            parts += (b"\r\n", body)
            if not unsent:
                self.loop.call_soon(send)
            unsent.append((self.transport, b"".join(parts), keep))
            self.server_state.total_requests += 1

        def _watch(self) -> None:
            """Close a connection that fell silent, between requests or within one."""
            self._watched = False
            idle = self.loop.time() - self._busy_at
            if self.transport.is_closing() or self.parser is None:
                return
            if self.cycle is not None and not self.cycle.response_complete:
                idle = 0.0  # something is under way
            if idle >= _KEEP_ALIVE_SECONDS:
                self.transport.close()
                return
            self._watched = True
            self.loop.call_later(_KEEP_ALIVE_SECONDS - idle, self._watch)

    return DirectProtocol
