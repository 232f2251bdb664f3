"""Reporting as an application: campaigns, reach, series, pacing, plans."""

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from kreach.adsystem.access.gate import Gate, Viewer
from kreach.adsystem.access.ring import KeyRing
from kreach.adsystem.api import models
from kreach.adsystem.api.views import Forbidden, Guarded, Pulse, Services
from kreach.adsystem.api.web import (
    Bearer,
    Busy,
    Guard,
    answer,
    open_to_all,
    refusal,
    told_of,
    viewer_of,
)
from kreach.adsystem.campaigns.campaign import ID
from kreach.adsystem.campaigns.questions import PlanQuestion, ReachQuestion
from kreach.adsystem.campaigns.store import CampaignEnded, CampaignExists, UnknownCampaign
from kreach.adsystem.disclosure.guard import Withheld
from kreach.adsystem.log.snapshot import LogFailing
from kreach.adsystem.reports.guarded import GuardedReporting
from kreach.adsystem.reports.noisy import NoisyReporting
from kreach.adsystem.reports.service import Reporting
from kreach.adsystem.settings import (
    AdSystemSettings,
    GuardSettings,
    NoiseSettings,
    ReportingSettings,
)
from kreach.boundary.times import Window
from kreach.errors import KreachError
from kreach.service.clock import Clock, SteadyClock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics

__all__ = ["reporting_app"]

_MAX_BODY_BYTES = 256_000
_ID = re.compile(ID)
_MOMENT = {"format": "date-time"}

Moment = Annotated[str | None, Query(max_length=64, json_schema_extra=_MOMENT)]
Caps = Annotated[list[Annotated[int, Query(ge=1, le=1_000)]], Query(max_length=10)]
Level = Annotated[float, Query(ge=0.01, le=0.9999, allow_inf_nan=False)]
Version = Annotated[str | None, Query(max_length=200)]
Amount = Annotated[float, Query(ge=1e-6, lt=1e12, allow_inf_nan=False)]
Asking = Annotated[Viewer, Depends(viewer_of)]


def _failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": models.Failure} for status in (422, *statuses)}


def reporting_app(
    shared: AdSystemSettings,
    settings: ReportingSettings,
    log: Log,
    clock: Clock | None = None,
    guard: GuardSettings | None = None,
    noise: NoiseSettings | None = None,
) -> FastAPI:
    """The service over a store. What the settings name is read now, and let go at the end.

    The clock (seconds since 1970) tells which keys have expired, how fast limits refill, and which
    of its numbers an advertiser may see. Without keys everybody is an operator.
    """
    metrics = Metrics("reporting")
    clock = SteadyClock() if clock is None else clock
    with ExitStack() as opened:  # what was opened before something fails is closed again
        reporting = Reporting(shared, settings, log)
        opened.callback(reporting.close)
        ring: KeyRing | None = None
        guarded: Guarded | None = None
        if settings.keys:
            ring = KeyRing(shared.store, clock, log)
            opened.callback(ring.close)
            guard = guard or GuardSettings()
            guarded = plain = GuardedReporting(reporting, guard, clock)
            opened.callback(plain.close)
            if noise is not None and noise.enabled:
                guarded = NoisyReporting(reporting, plain, noise, guard, clock)
        services = Services(reporting, metrics, ring, guarded)
        opened.pop_all()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if ring is not None:
            ring.start()
            if not len(ring):
                log.warning("no keys yet: nobody can be let in")
        yield
        services.close()

    app = FastAPI(
        title="kreach reporting",
        version="1",
        description="Campaigns, and their reach where only groups of people are known.",
        docs_url=None,  # they would fetch scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        **({} if ring is None else _WITH_KEYS),
    )
    admit = open_to_all if ring is None else Gate(ring, log, metrics, clock)
    limits = {"max_body_bytes": _MAX_BODY_BYTES}
    app.add_middleware(Guard, log=log, metrics=metrics, admit=admit, **limits)
    _refuse_with(app, log)
    _manage(app, services)
    _report(app, services)
    _tell_of_releases(app, services)
    _watch(app, services)
    if guarded is not None:
        _tell_of_suppressions(app, services, guarded)
    return app


_WITH_KEYS: dict[str, Any] = {
    "dependencies": [Depends(Bearer())],
    "responses": {
        401: {"model": models.Failure, "description": "No valid key"},
        403: {"model": models.Failure, "description": "The role may not do this"},
        429: {"model": models.Failure, "description": "More than the key is good for"},
    },
}


def _refuse_with(app: FastAPI, log: Log) -> None:
    """Every refusal in one form."""

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        errors = error.errors()
        if any(one["type"] == "json_invalid" for one in errors):
            return refusal(400, "the body must be JSON")
        return refusal(422, told_of(errors))

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> Response:
        known = {404: "there is no such path", 405: "the method is not one of this path"}
        message = known.get(error.status_code, "the body must be JSON")
        return refusal(error.status_code, message, **(error.headers or {}))

    @app.exception_handler(KreachError)
    async def broken_rule(_: Request, error: KreachError) -> Response:
        status = 422
        if isinstance(error, UnknownCampaign):
            status = 404
        elif isinstance(error, (CampaignExists, CampaignEnded)):
            status = 409
        if isinstance(error, Withheld):
            return answer(error.document(), status)
        return refusal(status, str(error))

    @app.exception_handler(Forbidden)
    async def forbidden(_: Request, error: Forbidden) -> Response:
        return refusal(403, f"the role {error} may not do this")

    @app.exception_handler(Busy)
    async def busy(_: Request, error: Busy) -> Response:
        return refusal(503, str(error), **{"retry-after": "5"})

    async def failing(_: Request, error: Exception) -> Response:
        told = str(error) if isinstance(error, LogFailing) else "the store cannot be used"
        log.error("store failing", kind=type(error).__name__, reason=told)
        return refusal(503, told, **{"retry-after": "5"})

    app.add_exception_handler(LogFailing, failing)
    app.add_exception_handler(sqlite3.Error, failing)
    app.add_exception_handler(OSError, failing)


def _known(campaign: str) -> str:
    """An id that a campaign can have; any other is unknown without looking."""
    if not _ID.fullmatch(campaign):
        raise UnknownCampaign(campaign)
    return campaign


def _manage(app: FastAPI, services: Services) -> None:
    workers, made = services.managing, services.made

    @app.post(
        "/v1/campaigns",
        status_code=201,
        response_model=models.CampaignDefinition,
        responses=_failures(400, 408, 409, 413, 503),
    )
    async def create_campaign(viewer: Asking, body: models.CampaignIn) -> Response:
        """Make a campaign; its audience must be known on the newest catalogue."""
        given = body.model_dump(exclude_unset=True)
        document = await workers.run(services.view(viewer).create, given)
        return answer(document, 201, location=f"/v1/campaigns/{document['id']}")

    @app.get("/v1/campaigns", response_model=models.CampaignList, responses=_failures(404, 503))
    async def list_campaigns(
        viewer: Asking,
        after: Annotated[str | None, Query(max_length=129)] = None,
        limit: Annotated[int, Query(ge=1, le=1_000)] = 200,
    ) -> Response:
        """Campaigns in the order they were made, with impressions, spend and unique reach."""
        made.add("list")
        return answer(await services.measuring.run(services.view(viewer).listing, after, limit))

    @app.get(
        "/v1/campaigns/{campaign}",
        response_model=models.CampaignStatus,
        responses=_failures(404, 503),
    )
    async def get_campaign(viewer: Asking, campaign: str, level: Level = 0.95) -> Response:
        """A campaign and how it stands."""
        made.add("status")
        asked = (_known(campaign), level)
        return answer(await services.measuring.run(services.view(viewer).status, *asked))

    @app.patch(
        "/v1/campaigns/{campaign}",
        response_model=models.CampaignDefinition,
        responses=_failures(400, 404, 408, 409, 413, 503),
    )
    async def change_campaign(
        viewer: Asking, campaign: str, body: models.CampaignChange
    ) -> Response:
        """Pause, resume, end, or change budget, end, limits of bids or creative."""
        asked = (_known(campaign), body.model_dump(exclude_unset=True))
        return answer(await workers.run(services.view(viewer).change, *asked))


def _report(app: FastAPI, services: Services) -> None:
    made = services.made
    of_campaign = _failures(404, 503)

    @app.get(
        "/v1/campaigns/{campaign}/reach",
        response_model=models.ReachDocument,
        responses=of_campaign,
    )
    async def get_reach(
        viewer: Asking,
        campaign: str,
        start: Moment = None,
        end: Moment = None,
        cap: Caps = [],  # noqa: B006 - copied per request
        level: Level = 0.95,
        catalogue: Version = None,
    ) -> Response:
        """Reach so far, or in [start, end); caps default to 1 and the campaign's own."""
        asked = ReachQuestion(Window.between(start, end), tuple(cap), level, catalogue)
        made.add("so far" if asked.so_far else "window")
        ask = services.view(viewer).reach
        return answer(await services.measuring.run(ask, _known(campaign), asked))

    @app.get(
        "/v1/campaigns/{campaign}/series",
        response_model=models.SeriesDocument,
        responses=of_campaign,
    )
    async def get_series(
        viewer: Asking,
        campaign: str,
        by: Literal["hour", "day", "week"] = "day",
        start: Moment = None,
        end: Moment = None,
        cap: Caps = [],  # noqa: B006
        level: Level = 0.95,
        catalogue: Version = None,
    ) -> Response:
        """Reach in each hour, day or week (from Monday, UTC), alone and cumulative."""
        made.add("series")
        asked = ReachQuestion(Window.between(start, end), tuple(cap), level, catalogue)
        ask = services.view(viewer).series
        return answer(await services.measuring.run(ask, _known(campaign), by, asked))

    @app.get(
        "/v1/campaigns/{campaign}/curve",
        response_model=models.CurveDocument,
        responses=of_campaign,
    )
    async def get_curve(
        viewer: Asking,
        campaign: str,
        by: Literal["hour", "day", "week"] = "hour",
        cap: Caps = [],  # noqa: B006
        level: Level = 0.95,
        catalogue: Version = None,
    ) -> Response:
        """Reach so far at the end of each hour, day or week: what a chart needs, quickly."""
        made.add("curve")
        asked = ReachQuestion(caps=tuple(cap), level=level, catalogue=catalogue)
        ask = services.view(viewer).curve
        return answer(await services.measuring.run(ask, _known(campaign), by, asked))

    @app.get(
        "/v1/campaigns/{campaign}/pacing",
        response_model=models.PacingDocument,
        responses=of_campaign,
    )
    async def get_pacing(
        viewer: Asking,
        campaign: str,
        start: Moment = None,
        end: Moment = None,
        points: Annotated[int, Query(ge=1, le=5_000)] = 500,
    ) -> Response:
        """Spend, multiplier and outcomes over time, thinned to at most about `points` rows."""
        made.add("pacing")
        asked = (_known(campaign), Window.between(start, end), points)
        return answer(await services.measuring.run(services.view(viewer).pacing, *asked))

    @app.get(
        "/v1/campaigns/{campaign}/plan",
        response_model=models.PlanDocument,
        responses=of_campaign,
    )
    async def get_plan(
        viewer: Asking,
        campaign: str,
        requests: Annotated[int | None, Query(ge=1, le=10**10)] = None,
        budget: Annotated[list[Amount], Query(max_length=8)] = [],  # noqa: B006
        reach: Amount | None = None,
        cap: Annotated[int | None, Query(ge=1, le=1_000)] = None,
        level: Level = 0.95,
        group_size: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    ) -> Response:
        """What budgets will reach, or what a reach will cost, with bands.

        `group_size` plans for the same people in groups of another size.
        """
        made.add("plan")
        asked = PlanQuestion(requests, cap, tuple(budget), reach, level, group_size)
        plan = services.view(viewer).plan
        return answer(await services.planning.run(plan, _known(campaign), asked))


def _tell_of_releases(app: FastAPI, services: Services) -> None:
    @app.get("/v1/catalogues", response_model=models.CatalogueList, responses=_failures(503))
    async def get_catalogues(viewer: Asking) -> Response:
        """The releases of groups that are in use, and the audiences of campaigns.

        Advertisers are told of the audiences that they may use.
        """
        if viewer.role == "publisher":
            told = services.reporting.catalogues
        else:
            told = services.view(viewer).catalogues
        return answer(await services.managing.run(told))


def _watch(app: FastAPI, services: Services) -> None:
    reporting = services.reporting
    pulse = Pulse(services)

    @app.get(
        "/healthz",
        response_model=models.Health,
        responses={503: {"model": models.Health}},
        openapi_extra={"security": [{}]} if services.ring is not None else None,
    )
    async def health(viewer: Asking) -> Response:
        """Whether the service can answer; without a key, no more than that."""
        if viewer.role not in ("operator", "publisher"):
            return await pulse.answer()
        found = await services.managing.run(reporting.health)
        return answer(found, 200 if found["status"] == "ok" else 503)

    text = {"content": {"text/plain": {"schema": {"type": "string"}}}}

    @app.get("/metrics", response_class=Response, responses={200: text})
    async def metrics(viewer: Asking) -> Response:
        """Counters in the format of Prometheus."""
        if viewer.role != "operator":
            raise Forbidden(viewer.role)
        await services.managing.run(reporting.look)
        shown = services.metrics.render()
        return Response(shown, media_type="text/plain; version=0.0.4; charset=utf-8")


def _tell_of_suppressions(app: FastAPI, services: Services, guarded: Guarded) -> None:
    @app.get("/v1/suppressions", response_model=models.SuppressionList)
    async def get_suppressions(viewer: Asking) -> Response:
        """What advertisers were not told lately, and why: for operators and publishers."""
        if viewer.role not in ("operator", "publisher"):
            raise Forbidden(viewer.role)
        return answer(await services.managing.run(guarded.suppressions))
