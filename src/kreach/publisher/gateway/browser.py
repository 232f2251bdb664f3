"""The gateway's door for browsers, on a port of its own: a visitor's page asks for its own group.

It has one route. The user is in a signed cookie (`user_tokens`), never in the body, so that nobody
can ask for somebody else; and there is no route to caps, metrics or the directory, so this port
can be public while the gateway's other one stays internal.
"""

from time import perf_counter

from kreach.publisher.gateway.catalogue_versions import CatalogueRollover
from kreach.publisher.gateway.settings import BrowserSettings
from kreach.publisher.gateway.user_tokens import UserTokens, read_user_key
from kreach.service.clock import Clock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.request_checks import RequestChecks
from kreach.service.web import App, Request, Response, error_response, ready_response

__all__ = ["browser_app"]

_MAX_BODY_BYTES = 1_000  # bodies are not read
_HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]


def browser_app(
    settings: BrowserSettings,
    catalogues: CatalogueRollover,
    log: Log,
    metrics: Metrics,
    clock: Clock,
) -> App:
    """The application; `metrics` are the gateway's own, which this port does not show."""
    checks = RequestChecks(
        settings.names,
        settings.host,
        origins=settings.allowed_origins,
        json_bodies=False,
    )
    app = App(log, Metrics("browser"), max_body_bytes=_MAX_BODY_BYTES, checks=checks, probes=False)
    tokens = UserTokens(read_user_key(settings.user_key_file))
    app.route("POST /v1/identify", _BrowserRoute(settings, tokens, catalogues, metrics, clock))
    app.route("GET /readyz", lambda _: ready_response({}))
    return app


class _BrowserRoute:
    """POST /v1/identify of a browser."""

    def __init__(
        self,
        settings: BrowserSettings,
        tokens: UserTokens,
        catalogues: CatalogueRollover,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._cookie, self._tokens = settings.cookie.encode(), tokens
        self._catalogues, self._clock = catalogues, clock
        what = "Visits of browsers, by result"
        self._answered = metrics.count("browser_identifications", what, "result")
        self._seconds = metrics.histogram("browser_seconds", "Time to answer a browser")

    def __call__(self, request: Request) -> Response:
        began = perf_counter()
        token = _cookie(request, self._cookie)
        if token is None:
            self._answered.add("no token")
            return Response(204, b"", [(b"cache-control", b"no-store")])
        user_id = self._tokens.user_id(token, self._clock())
        if user_id is None:
            self._answered.add("invalid token")
            return error_response(401, "the user token is not valid, or has expired")
        response = Response(200, self._catalogues.current.user_object(user_id), list(_HEADERS))
        self._answered.add("ok")
        self._seconds.observe(perf_counter() - began)
        return response


def _cookie(request: Request, name: bytes) -> str | None:
    for header, value in request.headers:
        if header == b"cookie":
            for pair in value.split(b";"):
                key, equals, text = pair.strip().partition(b"=")
                if equals and key == name:
                    return text.decode("latin-1")
    return None
