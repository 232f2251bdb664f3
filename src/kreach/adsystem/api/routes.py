"""The routes of the reporting API. Each asks a report service in a thread and answers a struct."""

import re
from typing import Annotated, Literal

from fastapi import Depends, FastAPI, Query, Response

from kreach.adsystem.access.gate import Viewer
from kreach.adsystem.api import inputs
from kreach.adsystem.api.errors import json_response
from kreach.adsystem.api.openapi import returns
from kreach.adsystem.api.scope import MAX_TOGETHER
from kreach.adsystem.api.services import Forbidden, HealthCheck, ReadyCheck, Services
from kreach.adsystem.api.web import viewer_of
from kreach.adsystem.campaigns.campaign import ID
from kreach.adsystem.campaigns.store import UnknownCampaign, UnknownFamily
from kreach.adsystem.reports import combined_report, report
from kreach.adsystem.reports.questions import FlightQuestion, PlanQuestion, ReachQuestion
from kreach.adsystem.reports.service import ReportService
from kreach.boundary.times import Window
from kreach.errors import KreachError

__all__ = ["add_routes"]

_ID = re.compile(ID)
_FORMAT = {"format": "date-time"}

Instant = Annotated[str | None, Query(max_length=64, json_schema_extra=_FORMAT)]
Caps = Annotated[list[Annotated[int, Query(ge=1, le=1_000)]], Query(max_length=10)]
Level = Annotated[float, Query(ge=0.01, le=0.9999, allow_inf_nan=False)]
Version = Annotated[str | None, Query(max_length=200)]
Amount = Annotated[float, Query(ge=1e-6, lt=1e12, allow_inf_nan=False)]
Period = Literal["hour", "day", "week"]
Caller = Annotated[Viewer, Depends(viewer_of)]


def add_routes(app: FastAPI, services: Services) -> None:
    """Campaigns, reports, catalogues, health, metrics and, with keys, suppressions."""
    _add_campaigns(app, services)
    _add_reviews(app, services)
    _add_families(app, services)
    _add_reach(app, services)
    _add_together(app, services)
    _add_pacing_and_plan(app, services)
    _add_flight_plans(app, services)
    _add_viewer(app)
    _add_catalogues(app, services)
    _add_monitoring(app, services)
    if services.advertisers is not None:
        _add_suppressions(app, services, services.advertisers)


def _campaign(name: str) -> str:
    """A valid campaign id; any other is unknown."""
    if not _ID.fullmatch(name):
        raise UnknownCampaign(name)
    return name


def _add_campaigns(app: FastAPI, services: Services) -> None:
    @app.post(
        "/v1/campaigns",
        status_code=201,
        responses=returns(report.CampaignDefinition, 400, 408, 409, 413, 415, 503, status=201),
    )
    async def create_campaign(viewer: Caller, body: inputs.CampaignIn) -> Response:
        """Create a campaign; the newest catalogue must have its audience."""
        given = body.model_dump(exclude_unset=True)
        document = await services.managing.run(services.scope(viewer).create, given)
        return json_response(document, 201, {"location": f"/v1/campaigns/{document.id}"})

    @app.get("/v1/campaigns", responses=returns(report.CampaignList, 404, 503))
    async def list_campaigns(
        viewer: Caller,
        after: Annotated[str | None, Query(max_length=129)] = None,
        limit: Annotated[int, Query(ge=1, le=1_000)] = 200,
    ) -> Response:
        """Campaigns in the order they were created, with impressions, spend and people reached."""
        services.reports.add("list")
        listing = services.scope(viewer).listing
        return json_response(await services.measure(viewer, listing, after, limit))

    @app.get("/v1/campaigns/{campaign}", responses=returns(report.CampaignStatus, 404, 503))
    async def get_campaign(viewer: Caller, campaign: str, level: Level = 0.95) -> Response:
        """A campaign and its delivery."""
        services.reports.add("status")
        scope, name = services.scope(viewer), _campaign(campaign)
        return json_response(
            await services.measure(viewer, scope.ask, scope.service.status, name, level)
        )

    @app.patch(
        "/v1/campaigns/{campaign}",
        responses=returns(report.CampaignDefinition, 400, 404, 408, 409, 413, 415, 503),
    )
    async def change_campaign(
        viewer: Caller, campaign: str, body: inputs.CampaignChange
    ) -> Response:
        """Pause, resume, end, or change budget, end, bid limits, creatives or deals."""
        scope, name = services.scope(viewer), _campaign(campaign)
        changes = body.model_dump(exclude_unset=True)
        return json_response(await services.managing.run(scope.change, name, changes))


def _add_reviews(app: FastAPI, services: Services) -> None:
    @app.post(
        "/v1/campaigns/{campaign}/review",
        responses=returns(report.CampaignDefinition, 400, 404, 408, 409, 413, 415, 503),
    )
    async def review_creative(viewer: Caller, campaign: str, body: inputs.ReviewIn) -> Response:
        """Approve or reject a creative, for operators. An advertiser reads the reason."""
        if viewer.role != "operator":
            raise Forbidden(viewer.role)
        review, name = services.operators.review, _campaign(campaign)
        return json_response(
            await services.managing.run(
                review, name, body.creative, body.decision, body.reason, body.version
            )
        )


def _family(name: str) -> str:
    """A valid family id; any other is unknown."""
    if not _ID.fullmatch(name):
        raise UnknownFamily(name)
    return name


def _add_families(app: FastAPI, services: Services) -> None:
    @app.post(
        "/v1/families",
        status_code=201,
        responses=returns(report.FamilyDefinition, 400, 408, 409, 413, 415, 503, status=201),
    )
    async def create_family(viewer: Caller, body: inputs.FamilyIn) -> Response:
        """Create a family; campaigns join it when they are created."""
        given = body.model_dump(exclude_unset=True)
        document = await services.managing.run(services.scope(viewer).create_family, given)
        return json_response(document, 201, {"location": f"/v1/families/{document.id}"})

    @app.get("/v1/families", responses=returns(report.FamilyList, 503))
    async def list_families(viewer: Caller) -> Response:
        """Families in the order they were created, with their campaigns."""
        return json_response(await services.managing.run(services.scope(viewer).families))

    @app.get("/v1/families/{family}", responses=returns(report.FamilyDefinition, 404, 503))
    async def get_family(viewer: Caller, family: str) -> Response:
        """A family and its campaigns."""
        scope, name = services.scope(viewer), _family(family)
        return json_response(await services.managing.run(scope.family, scope.service.family, name))

    @app.patch(
        "/v1/families/{family}",
        responses=returns(report.FamilyDefinition, 400, 404, 408, 413, 415, 503),
    )
    async def change_family(viewer: Caller, family: str, body: inputs.FamilyChange) -> Response:
        """Change the budget; null is none."""
        scope, name = services.scope(viewer), _family(family)
        changes = body.model_dump(exclude_unset=True)
        return json_response(
            await services.managing.run(scope.family, scope.service.change_family, name, changes)
        )


def _add_together(app: FastAPI, services: Services) -> None:
    @app.get("/v1/reach", responses=returns(combined_report.CombinedDocument, 404, 503))
    async def get_together(
        viewer: Caller,
        campaign: Annotated[
            list[Annotated[str, Query(max_length=129)]],
            Query(min_length=2, max_length=MAX_TOGETHER),
        ],
        start: Instant = None,
        end: Instant = None,
        cap: Caps = [],  # noqa: B006
        level: Level = 0.95,
        catalogue: Version = None,
    ) -> Response:
        """Several campaigns of one audience, alone and together: union, overlap, what each adds.

        So far, or in [start, end); caps default to 1. Campaigns add in the order given.
        """
        services.reports.add("together")
        question = ReachQuestion(Window.between(start, end), tuple(cap), level, catalogue)
        names = [_campaign(name) for name in campaign]
        if len(set(names)) < 2:
            raise KreachError.rule("campaign", "name two different campaigns or more", names[0])
        scope = services.scope(viewer)
        return json_response(await services.measure(viewer, scope.together, names, question))

    @app.get(
        "/v1/families/{family}/reach",
        responses=returns(combined_report.CombinedDocument, 404, 503),
    )
    async def get_family_reach(
        viewer: Caller,
        family: str,
        start: Instant = None,
        end: Instant = None,
        cap: Caps = [],  # noqa: B006
        level: Level = 0.95,
        catalogue: Version = None,
    ) -> Response:
        """The campaigns of a family, alone and together; caps default to 1 and the family's."""
        services.reports.add("together")
        question = ReachQuestion(Window.between(start, end), tuple(cap), level, catalogue)
        scope, name = services.scope(viewer), _family(family)
        return json_response(await services.measure(viewer, scope.family_reach, name, question))


def _add_reach(app: FastAPI, services: Services) -> None:
    @app.get("/v1/campaigns/{campaign}/reach", responses=returns(report.ReachDocument, 404, 503))
    async def get_reach(
        viewer: Caller,
        campaign: str,
        start: Instant = None,
        end: Instant = None,
        cap: Caps = [],  # noqa: B006 - copied per request
        level: Level = 0.95,
        catalogue: Version = None,
    ) -> Response:
        """Reach so far, or in [start, end); caps default to 1 and the campaign's own."""
        question = ReachQuestion(Window.between(start, end), tuple(cap), level, catalogue)
        services.reports.add("so far" if question.so_far else "window")
        scope, name = services.scope(viewer), _campaign(campaign)
        return json_response(
            await services.measuring.run(
                viewer.owner, scope.ask, scope.service.reach, name, question
            )
        )

    @app.get("/v1/campaigns/{campaign}/series", responses=returns(report.SeriesDocument, 404, 503))
    async def get_series(
        viewer: Caller,
        campaign: str,
        by: Period = "day",
        start: Instant = None,
        end: Instant = None,
        cap: Caps = [],  # noqa: B006
        level: Level = 0.95,
        catalogue: Version = None,
    ) -> Response:
        """Reach in each hour, day or week (from Monday, UTC), alone and cumulative."""
        services.reports.add("series")
        question = ReachQuestion(Window.between(start, end), tuple(cap), level, catalogue)
        scope, name = services.scope(viewer), _campaign(campaign)
        return json_response(
            await services.measuring.run(
                viewer.owner, scope.ask, scope.service.series, name, by, question
            )
        )

    @app.get("/v1/campaigns/{campaign}/curve", responses=returns(report.CurveDocument, 404, 503))
    async def get_curve(
        viewer: Caller,
        campaign: str,
        by: Period = "hour",
        cap: Caps = [],  # noqa: B006
        level: Level = 0.95,
        catalogue: Version = None,
    ) -> Response:
        """Reach so far at the end of each hour, day or week: what a chart needs, quickly."""
        services.reports.add("curve")
        question = ReachQuestion(caps=tuple(cap), level=level, catalogue=catalogue)
        scope, name = services.scope(viewer), _campaign(campaign)
        return json_response(
            await services.measuring.run(
                viewer.owner, scope.ask, scope.service.curve, name, by, question
            )
        )


def _add_pacing_and_plan(app: FastAPI, services: Services) -> None:
    @app.get("/v1/campaigns/{campaign}/pacing", responses=returns(report.PacingDocument, 404, 503))
    async def get_pacing(
        viewer: Caller,
        campaign: str,
        start: Instant = None,
        end: Instant = None,
        points: Annotated[int, Query(ge=1, le=5_000)] = 500,
    ) -> Response:
        """Spend, multiplier and outcomes over time, thinned to at most about `points` rows."""
        services.reports.add("pacing")
        window = Window.between(start, end)
        scope, name = services.scope(viewer), _campaign(campaign)
        return json_response(
            await services.measuring.run(
                viewer.owner, scope.ask, scope.service.pacing, name, window, points
            )
        )

    @app.get("/v1/campaigns/{campaign}/plan", responses=returns(report.PlanDocument, 404, 503))
    async def get_plan(
        viewer: Caller,
        campaign: str,
        requests: Annotated[int | None, Query(ge=1, le=10**10)] = None,
        budget: Annotated[list[Amount], Query(max_length=8)] = [],  # noqa: B006
        reach: Amount | None = None,
        cap: Annotated[int | None, Query(ge=1, le=1_000)] = None,
        level: Level = 0.95,
        group_size: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
        auction: Annotated[str, Query(pattern="^(second_price|first_price)$")] = "second_price",
        max_cost_per_reach: Amount | None = None,
        people: Annotated[float | None, Query(ge=1, lt=1e12, allow_inf_nan=False)] = None,
        precision: Literal["coarse", "fine"] = "fine",
    ) -> Response:
        """Forecast reach of budgets, or the cost of a reach or of people, with bands.

        The answer is that of `POST /v1/plans` for the campaign's audience, dates, cap and budget.
        `group_size` plans for the same people in groups of another size. A campaign bids in
        first-price and second-price auctions; a plan assumes that all are of one type. A further
        reach costs at most `max_cost_per_reach`, by default the campaign's own limit.
        """
        services.reports.add("plan")
        question = PlanQuestion(
            requests,
            cap,
            tuple(budget),
            reach,
            level,
            group_size,
            auction,
            max_cost_per_reach,
            people,
            precision == "coarse",
        )
        scope, name = services.scope(viewer), _campaign(campaign)
        ask = scope.service.plan
        return json_response(
            await services.plan(viewer, question.coarse, scope.ask, ask, name, question)
        )


def _add_flight_plans(app: FastAPI, services: Services) -> None:
    @app.post("/v1/plans", responses=returns(report.PlanDocument, 400, 408, 413, 415, 503))
    async def plan_flight(viewer: Caller, body: inputs.PlanIn) -> Response:
        """Forecast a flight that no campaign has yet: reach of budgets, or the cost of people.

        Requests and prices default to what bidders observed. A coarse plan comes at once, a fine
        one rests on more simulated flights. Nothing is stored.
        """
        services.reports.add("flight plan")
        service, question = services.scope(viewer).service, _flight(body)
        return json_response(
            await services.plan(viewer, question.plan.coarse, service.plan_flight, question)
        )


def _flight(body: inputs.PlanIn) -> FlightQuestion:
    market = None
    if body.market_mu is not None and body.market_sigma is not None:
        market = (body.market_mu, body.market_sigma)
    elif body.market_mu is not None or body.market_sigma is not None:
        missing = "market_mu" if body.market_mu is None else "market_sigma"
        raise KreachError(
            f"{missing} is required with the other one", field=missing, code="required"
        )
    window = Window.between(body.start, body.end)
    question = PlanQuestion(
        requests=body.requests,
        cap=body.cap,
        budgets=tuple(body.budgets),
        level=body.level,
        group_size=body.group_size,
        auction=body.auction,
        max_cost_per_reach=body.max_cost_per_reach,
        people=body.people,
        coarse=body.precision == "coarse",
    )
    return FlightQuestion(question, window.start, window.end, body.audience, market, body.with_ids)


def _add_viewer(app: FastAPI) -> None:
    @app.get("/v1/viewer", responses=returns(report.ViewerInfo))
    async def get_viewer(viewer: Caller) -> Response:
        """Who the caller is to this service: the role of its key."""
        return json_response(
            report.ViewerInfo(role=viewer.role, advertiser=viewer.advertiser, key=viewer.key)
        )


def _add_catalogues(app: FastAPI, services: Services) -> None:
    @app.get("/v1/catalogues", responses=returns(report.CatalogueList, 503))
    async def get_catalogues(viewer: Caller) -> Response:
        """The releases of groups in use, and the audiences of campaigns.

        Advertisers see the audiences that they may use. Operators and publishers also see what
        crossed, by type, and what was spent of the budgets of noise and of panels.
        """
        if viewer.role == "advertiser":
            own = services.scope(viewer).service
            return json_response(await services.managing.run(own.catalogues))
        if viewer.role not in ("operator", "publisher"):
            raise Forbidden(viewer.role)
        policy = None if services.advertisers is None else services.advertisers.policy
        return json_response(await services.managing.run(services.operators.catalogues, policy))


def _add_monitoring(app: FastAPI, services: Services) -> None:
    check = HealthCheck(services)

    @app.get(
        "/healthz",
        responses=returns(report.Health)
        | {503: returns(report.Health)[200] | {"description": "Failing"}},
        openapi_extra={"security": [{}]} if services.ring is not None else None,
    )
    async def health(viewer: Caller) -> Response:
        """Whether the service can answer; without a key, no more than that."""
        if viewer.role not in ("operator", "publisher"):
            return await check.response()
        document = await services.managing.run(services.health)
        return json_response(document, 200 if document.status == "ok" else 503)

    ready = ReadyCheck(services)

    @app.get(
        "/readyz",
        responses=returns(report.Readiness)
        | {503: returns(report.Readiness)[200] | {"description": "Not ready"}},
        openapi_extra={"security": [{}]} if services.ring is not None else None,
    )
    async def readiness(viewer: Caller) -> Response:
        """Whether the service may get requests: log, store, keys and catalogues can be used."""
        return await ready.response(viewer)

    text = {"content": {"text/plain": {"schema": {"type": "string"}}}}

    @app.get("/metrics", response_class=Response, responses={200: text})
    async def metrics(viewer: Caller) -> Response:
        """Counters in the format of Prometheus."""
        if viewer.role != "operator":
            raise Forbidden(viewer.role)
        await services.managing.run(services.operators.log_failure)
        await ready.refresh()
        rendered = services.metrics.render()
        return Response(rendered, media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_suppressions(app: FastAPI, services: Services, advertisers: ReportService) -> None:
    @app.get("/v1/suppressions", responses=returns(report.SuppressionList))
    async def get_suppressions(viewer: Caller) -> Response:
        """Answers lately withheld from advertisers, and why: for operators and publishers."""
        if viewer.role not in ("operator", "publisher"):
            raise Forbidden(viewer.role)
        return json_response(await services.managing.run(advertisers.suppressions.document))
