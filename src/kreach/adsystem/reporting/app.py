"""Reporting as an application: campaigns, reach, series, pacing, plans."""

import re
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from kreach.adsystem.campaigns.store import CampaignTaken, UnknownCampaign
from kreach.adsystem.reporting import models
from kreach.adsystem.reporting.live import LogFailing
from kreach.adsystem.reporting.service import CampaignEnded, Reporting
from kreach.adsystem.reporting.web import Busy, Guard, Workers, answer, refusal, told_of
from kreach.adsystem.settings import AdSystemSettings, ReportingSettings
from kreach.boundary.moments import Window
from kreach.errors import KreachError
from kreach.service.logs import Log
from kreach.service.metrics import Metrics

__all__ = ["reporting_app"]

_MOST_BODY_BYTES = 256_000
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MOMENT = {"format": "date-time"}

Moment = Annotated[str | None, Query(max_length=64, json_schema_extra=_MOMENT)]
Caps = Annotated[list[Annotated[int, Query(ge=1, le=1_000)]], Query(max_length=10)]
Level = Annotated[float, Query(ge=0.01, le=0.9999, allow_inf_nan=False)]
Version = Annotated[str | None, Query(max_length=200)]
Amount = Annotated[float, Query(ge=1e-6, lt=1e12, allow_inf_nan=False)]


def _failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": models.Failure} for status in (422, *statuses)}


class _Services:
    """What routes use: the service, threads for it, and counters."""

    def __init__(self, reporting: Reporting, metrics: Metrics) -> None:
        self.reporting, self.metrics = reporting, metrics
        self.managing = Workers("campaigns", 2, 200)
        self.measuring = Workers("reports", 3, 60)
        self.planning = Workers("plans", 1, 5)
        self.made = metrics.count("reports", "Reports made, by kind", "kind")
        live = reporting.live
        metrics.gauge("live_rows", "Rows that are not in files", lambda: {"": live.live_rows})

        def age() -> dict[str, float]:
            newest = live.newest_micros / 1e6
            return {"": max(time.time() - newest, 0.0)} if newest else {}

        metrics.gauge("newest_row_age_seconds", "Age of the newest row that was read", age)
        for name in ("managing", "measuring", "planning"):
            metrics.gauge(f"{name}_under_way", f"Requests under way, {name}", self._waiting(name))

    def _waiting(self, name: str) -> Callable[[], dict[str, float]]:
        workers: Workers = getattr(self, name)
        return lambda: {"": workers.under_way}

    def close(self) -> None:
        """Let what is under way end, then let go of the store."""
        for workers in (self.managing, self.measuring, self.planning):
            workers.close()
        self.reporting.close()


def reporting_app(shared: AdSystemSettings, settings: ReportingSettings, log: Log) -> FastAPI:
    """The service over a store. What the settings name is read now, and let go at the end."""
    metrics = Metrics("reporting")
    services = _Services(Reporting(shared, settings, log), metrics)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
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
    )
    app.add_middleware(Guard, log=log, metrics=metrics, most_body_bytes=_MOST_BODY_BYTES)
    _refuse_with(app, log)
    _manage(app, services)
    _report(app, services)
    _watch(app, services)
    return app


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
        elif isinstance(error, (CampaignTaken, CampaignEnded)):
            status = 409
        return refusal(status, str(error))

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
        raise UnknownCampaign.rule("campaign", "exist", campaign)
    return campaign


def _manage(app: FastAPI, services: _Services) -> None:
    reporting, workers, made = services.reporting, services.managing, services.made

    @app.post(
        "/v1/campaigns",
        status_code=201,
        response_model=models.CampaignDefinition,
        responses=_failures(400, 408, 409, 413, 503),
    )
    async def create_campaign(body: models.CampaignIn) -> Response:
        """Make a campaign; its audience must be known on the newest catalogue."""
        document = await workers.run(reporting.create, body.model_dump(exclude_unset=True))
        return answer(document, 201, location=f"/v1/campaigns/{document['id']}")

    @app.get("/v1/campaigns", response_model=models.CampaignList, responses=_failures(404, 503))
    async def list_campaigns(
        after: Annotated[str | None, Query(max_length=64)] = None,
        limit: Annotated[int, Query(ge=1, le=1_000)] = 200,
    ) -> Response:
        """Campaigns in the order they were made, with impressions, spend and unique reach."""
        made.add("list")
        return answer(await services.measuring.run(reporting.listing, after, limit))

    @app.get(
        "/v1/campaigns/{campaign}",
        response_model=models.CampaignStatus,
        responses=_failures(404, 503),
    )
    async def get_campaign(campaign: str, level: Level = 0.95) -> Response:
        """A campaign and how it stands."""
        made.add("status")
        return answer(await services.measuring.run(reporting.status, _known(campaign), level))

    @app.patch(
        "/v1/campaigns/{campaign}",
        response_model=models.CampaignDefinition,
        responses=_failures(400, 404, 408, 409, 413, 503),
    )
    async def change_campaign(campaign: str, body: models.CampaignChange) -> Response:
        """Pause, resume, end, or change budget, end, limits of bids or creative."""
        changes = body.model_dump(exclude_unset=True)
        return answer(await workers.run(reporting.change, _known(campaign), changes))


def _report(app: FastAPI, services: _Services) -> None:
    reporting, made = services.reporting, services.made
    of_campaign = _failures(404, 503)

    @app.get(
        "/v1/campaigns/{campaign}/reach",
        response_model=models.ReachDocument,
        responses=of_campaign,
    )
    async def get_reach(
        campaign: str,
        start: Moment = None,
        end: Moment = None,
        cap: Caps = [],  # noqa: B006 - copied per request
        level: Level = 0.95,
        catalogue: Version = None,
    ) -> Response:
        """Reach so far, or in [start, end); caps default to 1 and the campaign's own."""
        window = Window.between(start, end)
        made.add("so far" if window == Window() else "window")
        asked = (_known(campaign), window, cap, level, catalogue)
        return answer(await services.measuring.run(reporting.reach, *asked))

    @app.get(
        "/v1/campaigns/{campaign}/series",
        response_model=models.SeriesDocument,
        responses=of_campaign,
    )
    async def get_series(
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
        asked = (_known(campaign), Window.between(start, end), by, cap, level, catalogue)
        return answer(await services.measuring.run(reporting.series, *asked))

    @app.get(
        "/v1/campaigns/{campaign}/pacing",
        response_model=models.PacingDocument,
        responses=of_campaign,
    )
    async def get_pacing(
        campaign: str,
        start: Moment = None,
        end: Moment = None,
        points: Annotated[int, Query(ge=1, le=5_000)] = 500,
    ) -> Response:
        """Spend, multiplier and outcomes over time, thinned to at most about `points` rows."""
        made.add("pacing")
        asked = (_known(campaign), Window.between(start, end), points)
        return answer(await services.managing.run(reporting.pacing, *asked))

    @app.get(
        "/v1/campaigns/{campaign}/plan",
        response_model=models.PlanDocument,
        responses=of_campaign,
    )
    async def get_plan(
        campaign: str,
        requests: Annotated[int | None, Query(ge=1, le=10**10)] = None,
        budget: Annotated[list[Amount], Query(max_length=8)] = [],  # noqa: B006
        reach: Amount | None = None,
        cap: Annotated[int | None, Query(ge=1, le=1_000)] = None,
        level: Level = 0.95,
    ) -> Response:
        """What budgets will reach, or what a reach will cost, with bands."""
        made.add("plan")
        asked = (_known(campaign), requests, cap, budget, reach, level)
        return answer(await services.planning.run(reporting.plan, *asked))


def _watch(app: FastAPI, services: _Services) -> None:
    reporting = services.reporting

    @app.get("/healthz", response_model=models.Health, responses={503: {"model": models.Health}})
    async def health() -> Response:
        """Whether the service can answer."""
        found = await services.managing.run(reporting.health)
        return answer(found, 200 if found["status"] == "ok" else 503)

    text = {"content": {"text/plain": {"schema": {"type": "string"}}}}

    @app.get("/metrics", response_class=Response, responses={200: text})
    async def metrics() -> Response:
        """Counters in the format of Prometheus."""
        await services.managing.run(reporting.look)
        shown = services.metrics.render()
        return Response(shown, media_type="text/plain; version=0.0.4; charset=utf-8")
