"""Host and origin checks, and the content security policy of the pages.

The console acts with a key, so a page of another site in the same browser must not reach it: the
Host of a request must be this machine or one of the names in the settings, and its Origin a page
of the console. The policy lets pages load nothing from elsewhere.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from kreach.adsystem.reports.report import ErrorDocument, ErrorInfo, to_json

__all__ = ["HostGuard"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[None]]

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        b"style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
        b"connect-src 'self'; frame-src 'self'; object-src 'none'; base-uri 'none'; "
        b"form-action 'self'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


class HostGuard:
    """Middleware that rejects other hosts and requests of other sites."""

    def __init__(self, app: Application, names: Iterable[str], host: str) -> None:
        self.app = app
        self._names = {*_LOOPBACK, *names, host.strip("[]").lower()}

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 403."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        if self._is_allowed(scope):

            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message.get("headers", ()), *_HEADERS]
                await send(message)

            await self.app(scope, receive, send_with_headers)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            error = ErrorInfo(message="host must be a name of the console")
            body = to_json(ErrorDocument(error=error))
            json = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 403, "headers": json})
            await send({"type": "http.response.body", "body": body})

    def _is_allowed(self, scope: Any) -> bool:
        hosts = _values(scope, b"host")
        origins = _values(scope, b"origin")
        if len(hosts) != 1 or len(origins) > 1:
            return False
        if _name(f"//{hosts[0]}") not in self._names:
            return False
        return not origins or _name(origins[0]) in self._names


def _values(scope: Any, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
