"""The reporting API as an application: its services, its policy and its error handlers."""

import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from math import isfinite
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from kreach.adsystem.access.gate import Gate
from kreach.adsystem.access.ring import KeyRing
from kreach.adsystem.api.errors import (
    error_response,
    kreach_error_response,
    validation_response,
)
from kreach.adsystem.api.openapi import describe, returns
from kreach.adsystem.api.routes import add_routes
from kreach.adsystem.api.services import Forbidden, Services
from kreach.adsystem.api.web import Bearer, RequestGuard, open_to_all
from kreach.adsystem.api.workers import Busy, QueueFull
from kreach.adsystem.disclosure.chapters.policy import ChapterPolicy
from kreach.adsystem.disclosure.noise.policy import NoisePolicy
from kreach.adsystem.disclosure.open import OpenPolicy
from kreach.adsystem.log.request_counts import RequestCounts
from kreach.adsystem.log.snapshot import LogUnavailable
from kreach.adsystem.reports.context import ReportContext
from kreach.adsystem.reports.policy import Policy
from kreach.adsystem.reports.report import Health, LogSource
from kreach.adsystem.reports.service import ReportService
from kreach.adsystem.settings import (
    AdSystemSettings,
    GuardSettings,
    NoiseSettings,
    ReportingSettings,
)
from kreach.adsystem.shipping.mirrors import LogMirrors
from kreach.errors import KreachError
from kreach.service.clock import Clock, SteadyClock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.reload import SettingsReload
from kreach.service.request_checks import RequestChecks

__all__ = ["advertiser_policy", "reporting_app"]

_MAX_BODY_BYTES = 256_000
_RETRY = {"retry-after": "5"}
_NO_PATH = {404: "there is no such path", 405: "this path does not have this method"}


def advertiser_policy(
    store: ReportContext, guard: GuardSettings, noise: NoiseSettings, clock: Clock
) -> Policy:
    """The policy for advertisers that the settings choose: noise, chapters or open."""
    chapters = ChapterPolicy(store, guard, clock) if guard.enabled else None
    if noise.enabled:
        return NoisePolicy(store, noise, clock, chapters)
    return OpenPolicy(store) if chapters is None else chapters


def reporting_app(
    shared: AdSystemSettings,
    settings: ReportingSettings,
    log: Log,
    clock: Clock | None = None,
    guard: GuardSettings | None = None,
    noise: NoiseSettings | None = None,
    bidders: Sequence[str] = (),
    mirrors: LogMirrors | None = None,
    reload: SettingsReload[Any, AdSystemSettings] | None = None,
) -> FastAPI:
    """The service over a store, which is opened now and closed at the end.

    `bidders` names those that share the store, if they have names. `mirrors` bring the logs of
    those on other machines; they run as long as the service. `reload` brings other catalogues and
    audiences while it runs.

    The clock (seconds since 1970) decides which keys have expired, how fast rate limits refill, and
    what an advertiser may see. Without keys everybody is an operator.
    """
    metrics = Metrics("reporting")
    metrics.store_gauges(shared.store)
    clock = SteadyClock() if clock is None else clock
    with ExitStack() as opened:  # closes what is open if a later step fails
        counted = settings.traffic == "counted"
        requests = RequestCounts(shared.store, bidders) if counted else None
        sources = tuple if mirrors is None else partial(_sources, mirrors)
        store = ReportContext(shared, settings.memory, log, requests, sources)
        opened.callback(store.close)
        operators = ReportService(store, OpenPolicy(store), clock)
        ring: KeyRing | None = None
        advertisers: ReportService | None = None
        if settings.keys:
            ring = KeyRing(shared.store, clock, log)
            opened.callback(ring.close)
            # what is closed for advertisers stays closed: not before all rows of it are here
            settled = clock if mirrors is None else mirrors.complete_clock(clock)
            policy = advertiser_policy(
                store, guard or GuardSettings(), noise or NoiseSettings(), settled
            )
            reviewed = shared.creative_review == "required"
            advertisers = ReportService(store, policy, clock, review_required=reviewed)
            opened.callback(advertisers.close)
        services = Services(store, metrics, operators, ring, advertisers, settings.limits, reload)
        opened.pop_all()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if mirrors is not None:
            mirrors.start()
        if ring is not None:
            ring.start()
            if not len(ring):
                log.warning("no keys yet: every request will be refused")
        yield
        services.close()
        if mirrors is not None:
            mirrors.close()

    app = FastAPI(
        title="kreach reporting",
        version="1",
        description="Campaigns, and their reach where only groups of people are known.",
        docs_url=None,  # it would load scripts from a CDN
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        **(_without_keys() if ring is None else _with_keys()),
    )
    admit = open_to_all if ring is None else Gate(ring, log, metrics, clock)
    app.add_middleware(
        RequestGuard,
        log=log,
        metrics=metrics,
        admit=admit,
        max_body_bytes=_MAX_BODY_BYTES,
        checks=_checks(settings),
    )
    _add_error_handlers(app, log)
    add_routes(app, services)
    describe(app)
    return app


def _sources(mirrors: LogMirrors) -> tuple[LogSource, ...]:
    """How fresh the logs of bidders on other machines are."""
    return tuple(
        LogSource(
            bidder=one.bidder,
            ready=one.ready,
            stale=mirrors.is_stale(one),
            seconds_behind=round(one.seconds_behind, 3) if isfinite(one.seconds_behind) else None,
            rows_behind=one.rows_behind,
            failure=one.failure,
        )
        for one in mirrors.statuses()
    )


def _checks(settings: ReportingSettings) -> RequestChecks:
    """With keys and without `names`, any Host: a page of another site has no key to use."""
    any_host = settings.keys and not settings.names
    return RequestChecks(settings.names, settings.host, any_host=any_host)


def _without_keys() -> dict[str, Any]:
    return {"responses": _failures({403: "A page of another site", 429: "Queue full"})}


def _with_keys() -> dict[str, Any]:
    errors = {
        401: "No valid key",
        403: "The role may not do this",
        429: "Rate limit exceeded, or queue full",
    }
    return {"dependencies": [Depends(Bearer())], "responses": _failures(errors)}


def _failures(texts: Mapping[int, str]) -> dict[int, dict[str, Any]]:
    failure = returns(Health)[422]
    return {status: failure | {"description": text} for status, text in texts.items()}


def _add_error_handlers(app: FastAPI, log: Log) -> None:
    """Every error in one form."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return validation_response(error.errors())

    @app.exception_handler(HTTPException)
    async def not_routed(_: Request, error: HTTPException) -> Response:
        message = _NO_PATH.get(error.status_code, "the body must be JSON")
        return error_response(error.status_code, message, headers=error.headers)

    @app.exception_handler(KreachError)
    async def rejected(_: Request, error: KreachError) -> Response:
        return kreach_error_response(error)

    @app.exception_handler(Forbidden)
    async def forbidden(_: Request, error: Forbidden) -> Response:
        return error_response(403, f"the role {error} may not do this")

    @app.exception_handler(Busy)
    async def busy(_: Request, error: Busy) -> Response:
        return error_response(503, str(error), headers=_RETRY)

    @app.exception_handler(QueueFull)
    async def queue_full(_: Request, error: QueueFull) -> Response:
        return error_response(429, str(error), headers={"retry-after": str(error.retry_seconds)})

    async def unavailable(_: Request, error: Exception) -> Response:
        message = str(error) if isinstance(error, LogUnavailable) else "the store cannot be used"
        log.error("store unavailable", kind=type(error).__name__, reason=message)
        return error_response(503, message, headers=_RETRY)

    app.add_exception_handler(LogUnavailable, unavailable)
    app.add_exception_handler(sqlite3.Error, unavailable)
    app.add_exception_handler(OSError, unavailable)
