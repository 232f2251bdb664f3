"""The gateway over HTTP. It is the publisher's: nobody else may reach it."""

import asyncio
import signal
from contextlib import suppress
from time import perf_counter

import msgspec

from kreach.publisher.gateway.catalogue_versions import Editions
from kreach.publisher.gateway.hard_cap import HardCaps
from kreach.publisher.gateway.requests import MAX_BODY_BYTES, Allow, Identify, Shown, read_body
from kreach.publisher.gateway.settings import GatewaySettings
from kreach.publisher.gateway.showings import StoreDown
from kreach.service.clock import Clock
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from kreach.service.web import Answer, Request, Site, error_answer, json_answer

__all__ = ["gateway_site"]

_JSON = [(b"content-type", b"application/json")]


def gateway_site(
    settings: GatewaySettings,
    log: Log,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
) -> Site:
    """The gateway as an ASGI application.

    The build is read at once; a KreachError says what is wrong with it or with the store. Without
    a clock the machine's is used, not before the latest time that the store holds.
    """
    metrics = metrics or Metrics("gateway")
    editions = Editions(settings.build, settings.choice, settings.provider, log, metrics)
    caps = None
    if settings.enabled_caps:
        caps = HardCaps(settings.store, settings.caps, settings.hold_seconds, clock)
    watch = _Watch(editions, settings.reload_seconds)

    async def start() -> None:
        if caps is not None:
            caps.showings.start()
        watch.start()

    async def stop() -> None:
        await watch.stop()
        if caps is not None:
            await asyncio.to_thread(caps.showings.stop)

    site = Site(log, metrics, max_body_bytes=MAX_BODY_BYTES, start=start, stop=stop)
    site.route("POST /v1/identify", _Identification(editions, metrics))
    hard = _Capping(caps, log, metrics)
    site.route("POST /v1/allow", hard.allow)
    site.route("POST /v1/shown", hard.shown)
    site.route("GET /healthz", lambda _: _health(editions, caps))
    return site


class _Identification:
    """POST /v1/identify."""

    def __init__(self, editions: Editions, metrics: Metrics) -> None:
        self._editions = editions
        self._decoder = msgspec.json.Decoder(Identify)
        self._done = metrics.count("identifications", "Visits answered, by version", "catalogue")
        self._strangers = metrics.count("strangers", "Visits of users not in the build")
        self._seconds = metrics.histogram("identify_seconds", "Time to answer a visit")

    def __call__(self, request: Request) -> Answer:
        began = perf_counter()
        user_id = read_body(self._decoder, request.body).user_id
        edition = self._editions.current
        answer = Answer(200, edition.answer(user_id), _JSON)
        self._done.add(edition.version)
        if user_id not in edition.gateway:
            self._strangers.add()
        self._seconds.observe(perf_counter() - began)
        return answer


class _Capping:
    """POST /v1/allow and /v1/shown. Campaigns without a cap here cost no look at the store."""

    def __init__(self, caps: HardCaps | None, log: Log, metrics: Metrics) -> None:
        self._caps, self._log = caps, log
        self._allow = msgspec.json.Decoder(Allow)
        self._shown = msgspec.json.Decoder(Shown)
        self._dropped = metrics.count("capped", "Bids dropped at the hard cap", "campaign")
        self._recorded = metrics.count("showings", "Showings recorded", "campaign")
        self._repeats = metrics.count("showing_repeats", "Showings that were recorded before")
        self._down = metrics.count("store_failures", "Requests that the store failed", "route")
        self._allow_seconds = metrics.histogram("allow_seconds", "Time to answer which may show")
        self._shown_seconds = metrics.histogram("shown_seconds", "Time to record a showing")
        if caps is not None:
            store = caps.showings
            metrics.gauge("store_rows", "Showings in the store", lambda: {"": store.rows})
            metrics.gauge("store_batches", "Transactions so far", lambda: {"": store.batches})
            metrics.gauge("store_down", "1 if not writable", lambda: {"": bool(store.trouble)})
            metrics.gauge("holds", "Showings held for", lambda: {"": len(caps.holds)})

    def allow(self, request: Request) -> Answer:
        began = perf_counter()
        asked = read_body(self._allow, request.body)
        allowed = list(dict.fromkeys(asked.campaigns))
        if self._caps is not None:
            try:
                free = self._caps.allowed(asked.user_id, allowed, asked.hold)
            except StoreDown as why:
                return self._failed("allow", why)
            for campaign in set(allowed).difference(free):
                self._dropped.add(campaign)
            allowed = free
        self._allow_seconds.observe(perf_counter() - began)
        return json_answer({"allowed": allowed})

    async def shown(self, request: Request) -> Answer:
        began = perf_counter()
        asked = read_body(self._shown, request.body)
        recorded, capped = False, self._caps is not None and asked.campaign in self._caps.caps
        if self._caps is not None and capped:
            try:
                recorded = await self._caps.shown(
                    asked.user_id, asked.campaign, asked.impression_id
                )
            except StoreDown as why:
                return self._failed("shown", why)
            if recorded:
                self._recorded.add(asked.campaign)
            else:
                self._repeats.add()
        self._shown_seconds.observe(perf_counter() - began)
        return json_answer({"capped": capped, "recorded": recorded})

    def _failed(self, route: str, why: StoreDown) -> Answer:
        self._down.add(route)
        self._log.error("store failed", route=route, why=str(why))
        answer = error_answer(503, str(why))
        answer.headers.append((b"retry-after", b"1"))
        return answer


def _health(editions: Editions, caps: HardCaps | None) -> Answer:
    """Whether all of it works. The number of people is in the metrics, for the publisher only."""
    document = {"status": "ok", "catalogue": editions.current.version, "hard_cap": "off"}
    if caps is None:
        return json_answer(document)
    if caps.showings.trouble is None:
        return json_answer(document | {"hard_cap": "on"})
    failing = {"status": "failing", "hard_cap": "failing", "why": caps.showings.trouble}
    return json_answer(document | failing, 503)


class _Watch:
    """Looks for a new build at intervals and at SIGHUP."""

    def __init__(self, editions: Editions, seconds: float) -> None:
        self._editions, self._seconds = editions, seconds
        self._tasks: set[asyncio.Task[object]] = set()

    def start(self) -> None:
        self._begin(force=None)
        with suppress(ValueError, RuntimeError, NotImplementedError, AttributeError):
            # not in a thread that is not the main one, nor where there is no such signal
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._begin, True)

    async def stop(self) -> None:
        with suppress(ValueError, RuntimeError, NotImplementedError, AttributeError):
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, force: bool | None) -> None:
        work = self._look_on() if force is None else self._editions.look(force=force)
        task: asyncio.Task[object] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            await self._editions.look()
