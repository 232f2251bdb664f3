"""The console's checks of requests, and the content security policy of its pages.

The console acts with a key and has no accounts, so a page of another site in the same browser must
not reach it (`service.request_checks`). The policy lets pages load nothing from elsewhere.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from kreach.adsystem.reports.report import ErrorDocument, ErrorInfo, to_json
from kreach.service.request_checks import RequestChecks

__all__ = ["HostGuard"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Receive, Send], Awaitable[None]]

_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        b"style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
        b"connect-src 'self'; frame-src 'self'; object-src 'none'; base-uri 'none'; "
        b"form-action 'self'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
)


class HostGuard:
    """Middleware that rejects other hosts and requests of other sites."""

    def __init__(self, app: Application, names: Iterable[str], host: str) -> None:
        self.app = app
        self._checks = RequestChecks(names, host, any_address=False, json_bodies=False)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 403."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refused = self._checks.refusal(scope)
        if refused is None:

            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message.get("headers", ()), *_HEADERS]
                await send(message)

            await self.app(scope, receive, send_with_headers)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            body = to_json(ErrorDocument(error=ErrorInfo(message=refused.message)))
            json = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": refused.status, "headers": json})
            await send({"type": "http.response.body", "body": body})
