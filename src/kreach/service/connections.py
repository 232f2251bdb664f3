"""Limits on connections: how many, how long they may wait, and how long a request's head may be.

A server that waits for ever for a slow client can be filled with such clients by anybody. Here a
connection is cut when the head of a request does not arrive in time, when it is idle between
requests, and when its client does not read a response. One sweep a second looks at all of them, so
a request costs no timer of its own. Slow bodies are the business of `service/bodies.py`.
"""

import math
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kreach.errors import KreachError
from kreach.service.config import Settings

__all__ = [
    "BoundedProtocol",
    "ServerSettings",
    "allow_files",
    "bounded_protocol",
    "cut_slow_connections",
]

_SPARE_FILES = 256  # for the store, logs and listeners


class ServerSettings(Settings, frozen=True, kw_only=True):
    """`[server]`: limits on the connections of every service, and TLS.

    The head of a request arrives within `header_seconds` and has at most `max_header_bytes`. A
    connection without a request is closed after `idle_seconds`, one whose client has not read what
    was sent to it after `stalled_seconds`. Beyond `max_connections` clients get 503.

    With `tls_certificate` (PEM, with the chain) and `tls_key` connections are encrypted; with
    `tls_client_ca` clients need a certificate of one of these authorities.
    """

    header_seconds: float = 10.0
    idle_seconds: int = 5
    stalled_seconds: float = 30.0
    max_connections: int = 4_000
    max_header_bytes: int = 32_768
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None

    def __post_init__(self) -> None:
        for name, low, high in (
            ("header_seconds", 0.05, 3_600.0),
            ("idle_seconds", 1, 3_600),
            ("stalled_seconds", 0.05, 3_600.0),
            ("max_connections", 1, 1_000_000),
            ("max_header_bytes", 1_024, 10_000_000),
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise KreachError.rule(name, f"lie between {low:g} and {high:g}", value)
        if (self.tls_certificate is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_certificate"
            raise KreachError.rule(missing, "come with the other of the two files", None)
        if self.tls_client_ca is not None and self.tls_certificate is None:
            rule = "come with tls_certificate and tls_key"
            raise KreachError.rule("tls_client_ca", rule, str(self.tls_client_ca))

    @property
    def scheme(self) -> str:
        """Of this server's addresses."""
        return "http" if self.tls_certificate is None else "https"

    @property
    def sweep_seconds(self) -> float:
        """How often connections are looked at."""
        return min(1.0, self.header_seconds / 2, self.stalled_seconds / 2)


class _HeadTooLong(Exception):
    """Ends the parser's work on a head."""


class BoundedProtocol(HttpToolsProtocol):
    """The server's HTTP protocol within `limits`, which subclasses set."""

    limits: ClassVar[ServerSettings]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head_since: float | None = None  # when the wait for a head began, while it lasts
        self._head_count = 0
        self._head_bytes = 0  # of an unfinished head, without its first packet
        self._first_bytes = 0  # of the packet in which an unfinished head began
        self._packet_bytes = 0  # of the packet that is being read
        self._stalled_since: float | None = None
        self._too_long = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._head_since = self.loop.time()
        if len(self.connections) > self.limits.max_connections:
            self._refuse(b"503 Service Unavailable", b"too many connections: try again later")

    def data_received(self, data: bytes) -> None:
        before = self._head_count
        self._packet_bytes = len(data)
        super().data_received(data)
        if self._head_count == before:
            self._count_bytes(len(data))
        elif self._head_since is not None:
            self._first_bytes = len(data)

    def _count_bytes(self, length: int) -> None:
        """Bytes that began no request: of an unfinished head, of a body, or strays."""
        if self._head_since is not None:
            self._head_bytes += length
            if self._head_bytes > self.limits.max_header_bytes:
                self._refuse_head()
        elif self._is_waiting():
            # strays, or the body of a request that is answered already: they keep nothing open
            spare = max(self.limits.idle_seconds - self.limits.header_seconds, 0.0)
            self._head_since = self.loop.time() + spare

    def _is_waiting(self) -> bool:
        """Whether no request is being read or answered."""
        return self.cycle is None or self.cycle.response_complete

    def on_message_begin(self) -> None:
        self._head_since = self.loop.time()
        self._head_count += 1
        self._head_bytes = self._first_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._finish_head()
        super().on_headers_complete()

    def _finish_head(self) -> None:
        self._head_since = None
        arrived = self._first_bytes + self._head_bytes + self._packet_bytes
        if arrived <= self.limits.max_header_bytes:
            return  # as nearly always: all packets are no longer than a head may be
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.limits.max_header_bytes:
            self._too_long = True
            raise _HeadTooLong

    def send_400_response(self, msg: str) -> None:
        if self._too_long:
            self._refuse_head()
        else:
            super().send_400_response(msg)

    def _refuse_head(self) -> None:
        self._refuse(b"431 Request Header Fields Too Large", b"the head of the request is too long")

    def _refuse(self, status: bytes, message: bytes) -> None:
        if self.transport.is_closing():
            return
        body = b'{"error": {"message": "%b", "fields": []}}' % message
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%b" % (status, len(body), body)
        )
        self.transport.close()

    def pause_writing(self) -> None:
        self._stalled_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stalled_since = None
        super().resume_writing()

    def cut_if_slow(self, now: float) -> None:
        """Close the connection if its client has taken too long."""
        head, stalled = self._head_since, self._stalled_since
        if stalled is not None and now - stalled > self.limits.stalled_seconds:
            self.transport.abort()  # what is not read will not be
        elif head is not None and now - head > self.limits.header_seconds:
            self.transport.close()


def bounded_protocol(settings: ServerSettings) -> type[BoundedProtocol]:
    """The server's HTTP protocol within these limits."""

    class Protocol(BoundedProtocol):
        """Of one server."""

        limits = settings

    return Protocol


def cut_slow_connections(connections: set[Any], now: float) -> None:
    """Close every connection that has taken too long; `now` is the event loop's time."""
    for connection in list(connections):
        if isinstance(connection, BoundedProtocol):
            connection.cut_if_slow(now)


def allow_files(settings: ServerSettings) -> ServerSettings:
    """Raise this process's limit of open files for the connections, or lower these to fit it."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return settings
    wanted = settings.max_connections + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return settings
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        most = soft
    fitting = max(min(settings.max_connections, most - _SPARE_FILES), most // 2, 1)
    return replace(settings, max_connections=min(fitting, settings.max_connections))
