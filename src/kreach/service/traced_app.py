"""Applications and the fast route with a span around sampled requests."""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from typing import Any

from kreach.service.tracing import Tracer
from kreach.service.web import App, FastRoute, Response

__all__ = ["TracedApp", "traced_route"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_METHODS = frozenset({"GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS"})
_REASON = b"x-no-bid"
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})


def traced_route(route: FastRoute, tracer: Tracer) -> FastRoute:
    """The fast route with a span around sampled requests; others go straight on."""
    name = f"{route.method.decode()} {route.path.decode()}"
    respond, sampled = route.respond, tracer.sampled

    def traced_respond(body: bytes, encoding: bytes = b"") -> Response:
        if not sampled():
            return respond(body, encoding)
        with tracer.request(name) as span:
            response = respond(body, encoding)
            _describe(span, response.status, response.headers)
            return response

    return replace(route, respond=traced_respond)


class TracedApp:
    """An application with a span around sampled requests. Probes have none."""

    def __init__(self, app: Any, tracer: Tracer) -> None:
        self._app, self._tracer = app, tracer

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer a request."""
        probe = scope["type"] != "http" or scope["path"] in _PROBES
        if probe or not self._tracer.sampled():
            await self._app(scope, receive, send)
            return
        with self._tracer.request("request") as span:

            async def noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _describe(span, message["status"], message.get("headers", ()))
                await send(message)

            try:
                await self._app(scope, receive, noted)
            finally:
                method = scope["method"] if scope["method"] in _METHODS else "other"
                span.update_name(f"{method} {_template(self._app, scope)}")


def _template(app: Any, scope: Any) -> str:
    """The template of a path: what clients write into it stays out of spans."""
    if isinstance(app, App):
        return app.template(scope["path"])
    return str(getattr(scope.get("route"), "path", "other"))


def _describe(span: Any, status: int, headers: Any) -> None:
    span.set_attribute("http.response.status_code", status)
    for name, value in headers:
        if name == _REASON:
            span.set_attribute("kreach.no_bid", value.decode())
    if status >= 500:
        from opentelemetry.trace import StatusCode  # noqa: PLC0415

        span.set_status(StatusCode.ERROR)
