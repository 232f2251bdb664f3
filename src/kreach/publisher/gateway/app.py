"""The gateway over HTTP. Only the publisher's own servers may reach it."""

import asyncio
import signal
from contextlib import suppress
from time import perf_counter, time

import msgspec

from kreach.publisher.gateway.browser import browser_app
from kreach.publisher.gateway.catalogue_versions import CatalogueRollover
from kreach.publisher.gateway.hard_cap import HardCaps
from kreach.publisher.gateway.panel import GatewayPanel
from kreach.publisher.gateway.requests import (
    MAX_BODY_BYTES,
    AllowRequest,
    IdentifyRequest,
    ShownRequest,
    decode_request,
)
from kreach.publisher.gateway.settings import GatewaySettings
from kreach.publisher.gateway.showings import FILE, StoreUnavailable
from kreach.service.clock import Clock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.request_checks import RequestChecks
from kreach.service.web import (
    App,
    Request,
    Response,
    error_response,
    json_response,
    ready_response,
)

__all__ = ["gateway_app", "gateway_apps"]

_JSON = [(b"content-type", b"application/json")]


def gateway_app(
    settings: GatewaySettings,
    log: Log,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
) -> App:
    """The gateway as an ASGI application, without its port for browsers."""
    return gateway_apps(settings, log, metrics, clock)[0]


def gateway_apps(
    settings: GatewaySettings,
    log: Log,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
) -> tuple[App, App | None]:
    """The gateway as an ASGI application and, with `browser`, another for that port.

    The build is read at once; a KreachError says what is wrong with it or with the store. Without
    a clock the machine's is used, not before the latest time in the store.
    """
    metrics = metrics or Metrics("gateway")
    panel = None
    if settings.panel is not None:
        panel = GatewayPanel(settings.panel, settings.store, log, metrics, clock)
    catalogues = CatalogueRollover(
        settings.build,
        settings.choice,
        settings.provider,
        log,
        metrics,
        settings.memory_hours,
        None if panel is None else panel.load,
        settings.segtax,
    )
    caps = None
    must_forget = settings.memory_hours is not None and (settings.store / FILE).exists()
    if settings.enabled_caps or settings.enabled_families or must_forget:
        caps = HardCaps(
            settings.store,
            settings.caps,
            settings.hold_seconds,
            clock,
            settings.memory_seconds,
            settings.families,
        )
    watcher = _BuildWatcher(catalogues, settings.reload_seconds)

    async def start() -> None:
        if caps is not None:
            caps.showings.start()
        if panel is not None:
            panel.start()
        watcher.start()

    async def stop() -> None:
        await watcher.stop()
        if caps is not None:
            await asyncio.to_thread(caps.showings.stop)
        if panel is not None:
            await panel.stop()

    checks = RequestChecks(settings.names, settings.host)
    app = App(log, metrics, max_body_bytes=MAX_BODY_BYTES, checks=checks, start=start, stop=stop)
    app.route("POST /v1/identify", _IdentifyRoute(catalogues, metrics))
    cap_routes = _CapRoutes(caps, panel, catalogues, log, metrics)
    app.route("POST /v1/allow", cap_routes.allow)
    app.route("POST /v1/shown", cap_routes.shown)
    app.route("GET /healthz", lambda _: _health(catalogues, caps, panel))
    app.route("GET /readyz", lambda _: _readiness(caps, panel))
    if settings.browser is None:
        return app, None
    return app, browser_app(settings.browser, catalogues, log, metrics, clock or time)


class _IdentifyRoute:
    """POST /v1/identify. Nothing counts who is not in the build: it would tell whether an id is."""

    def __init__(self, catalogues: CatalogueRollover, metrics: Metrics) -> None:
        self._catalogues = catalogues
        self._decoder = msgspec.json.Decoder(IdentifyRequest)
        self._answered = metrics.count(
            "identifications", "Visits answered, by version", "catalogue"
        )
        self._seconds = metrics.histogram("identify_seconds", "Time to answer a visit")

    def __call__(self, request: Request) -> Response:
        began = perf_counter()
        user_id = decode_request(self._decoder, request.body).user_id
        served = self._catalogues.current
        response = Response(200, served.user_object(user_id), _JSON)
        self._answered.add(served.version)
        self._seconds.observe(perf_counter() - began)
        return response


class _CapRoutes:
    """POST /v1/allow and /v1/shown. The store is read only for campaigns with a hard cap."""

    def __init__(
        self,
        caps: HardCaps | None,
        panel: GatewayPanel | None,
        catalogues: CatalogueRollover,
        log: Log,
        metrics: Metrics,
    ) -> None:
        self._caps, self._panel, self._catalogues, self._log = caps, panel, catalogues, log
        self._allow_decoder = msgspec.json.Decoder(AllowRequest)
        self._shown_decoder = msgspec.json.Decoder(ShownRequest)
        self._capped = metrics.count("capped", "Bids dropped at the hard cap", "campaign")
        self._recorded = metrics.count("showings", "Showings recorded", "campaign")
        self._duplicates = metrics.count("showing_repeats", "Showings that were recorded before")
        self._failures = metrics.count("store_failures", "Requests that the store failed", "route")
        self._allow_seconds = metrics.histogram("allow_seconds", "Time to answer /v1/allow")
        self._shown_seconds = metrics.histogram("shown_seconds", "Time to record a showing")
        if caps is not None:
            store = caps.showings
            metrics.gauge("store_rows", "Showings in the store", lambda: {"": store.rows})
            metrics.gauge("store_batches", "Transactions so far", lambda: {"": store.batches})
            metrics.gauge("store_down", "1 if not writable", lambda: {"": bool(store.failure)})
            what = "Bids dropped at the hard cap of a family"
            metrics.tally("family_capped", what, lambda: dict(caps.dropped_by_family), "family")
            metrics.gauge("holds", "Showings on hold", lambda: {"": len(caps.holds)})

    def allow(self, request: Request) -> Response:
        began = perf_counter()
        body = decode_request(self._allow_decoder, request.body)
        allowed = list(dict.fromkeys(body.campaigns))
        if self._caps is not None:
            try:
                below_cap = self._caps.allowed(body.user_id, allowed, body.hold)
            except StoreUnavailable as error:
                return self._unavailable("allow", error)
            for campaign in set(allowed).difference(below_cap):
                self._capped.add(campaign)
            allowed = below_cap
        self._allow_seconds.observe(perf_counter() - began)
        return json_response({"allowed": allowed})

    async def shown(self, request: Request) -> Response:
        began = perf_counter()
        body = decode_request(self._shown_decoder, request.body)
        user_id, campaign, impression_id = body.user_id, body.campaign, body.impression_id
        recorded, capped = False, self._caps is not None and self._caps.counts(campaign)
        try:
            if self._caps is not None and capped:
                recorded = await self._caps.shown(user_id, campaign, impression_id)
            if self._panel is not None:
                served = self._catalogues.current
                group = served.lookup.identify(user_id).group
                await self._panel.shown(user_id, campaign, impression_id, served.version, group)
        except StoreUnavailable as error:  # the publisher repeats it, and each store counts once
            return self._unavailable("shown", error)
        if recorded:
            self._recorded.add(campaign)
        elif capped:
            self._duplicates.add()
        self._shown_seconds.observe(perf_counter() - began)
        return json_response({"capped": capped, "recorded": recorded})

    def _unavailable(self, route: str, error: StoreUnavailable) -> Response:
        self._failures.add(route)
        self._log.error("store failed", route=route, why=str(error))
        response = error_response(503, str(error))
        response.headers.append((b"retry-after", b"1"))
        return response


def _readiness(caps: HardCaps | None, panel: GatewayPanel | None) -> Response:
    """A build is served as soon as there is an application; stores may fail later."""
    return ready_response(
        {
            "hard_cap": caps is not None and caps.showings.failure is not None,
            "panel": panel is not None and panel.showings.failure is not None,
        }
    )


def _health(
    catalogues: CatalogueRollover, caps: HardCaps | None, panel: GatewayPanel | None
) -> Response:
    """Whether the service works. The number of people is in the metrics only."""
    document = {"status": "ok", "catalogue": catalogues.current.version, "hard_cap": "off"}
    stores = [("hard_cap", caps.showings)] if caps is not None else []
    if panel is not None:
        document["panel"] = "on"
        stores.append(("panel", panel.showings))
    if caps is not None and caps.enabled:
        document["hard_cap"] = "on"
    for name, store in stores:
        if store.failure is not None:
            failing = {"status": "failing", name: "failing", "why": store.failure}
            return json_response(document | failing, 503)
    return json_response(document)


class _BuildWatcher:
    """Reloads the build at intervals and on SIGHUP."""

    def __init__(self, catalogues: CatalogueRollover, seconds: float) -> None:
        self._catalogues, self._seconds = catalogues, seconds
        self._tasks: set[asyncio.Task[object]] = set()

    def start(self) -> None:
        self._create_task(force=None)
        with suppress(ValueError, RuntimeError, NotImplementedError, AttributeError):
            # signals need the main thread and a system that has them
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._create_task, True)

    async def stop(self) -> None:
        with suppress(ValueError, RuntimeError, NotImplementedError, AttributeError):
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _create_task(self, force: bool | None) -> None:
        work = self._reload_forever() if force is None else self._catalogues.reload(force=force)
        task: asyncio.Task[object] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reload_forever(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            await self._catalogues.reload()
