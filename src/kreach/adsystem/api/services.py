"""What the routes use: the report services, their thread pools, and metrics."""

import asyncio
import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec
from fastapi import Response

from kreach.adsystem.access.gate import Viewer
from kreach.adsystem.access.ring import KeyRing
from kreach.adsystem.api.errors import json_response
from kreach.adsystem.api.scope import CampaignScope
from kreach.adsystem.api.workers import FairWorkers, Workers
from kreach.adsystem.reports.context import ReportContext
from kreach.adsystem.reports.report import Health, LogSource, Readiness
from kreach.adsystem.reports.service import ReportService
from kreach.adsystem.settings import AdSystemSettings, AdvertiserLimits
from kreach.service.metrics import Metrics
from kreach.service.reload import SettingsReload

__all__ = ["Forbidden", "HealthCheck", "ReadyCheck", "Services"]

_HEALTH_SECONDS = 1.0
T = TypeVar("T")


class Forbidden(RuntimeError):
    """The role may not use this route."""


class Services:
    """The report services, threads and counters.

    With keys there is a ring of them, and a service with the policy for advertisers.
    """

    def __init__(
        self,
        store: ReportContext,
        metrics: Metrics,
        operators: ReportService,
        ring: KeyRing | None = None,
        advertisers: ReportService | None = None,
        limits: AdvertiserLimits | None = None,
        reload: SettingsReload[Any, AdSystemSettings] | None = None,
    ) -> None:
        self._limits = limits or AdvertiserLimits()
        self.store, self.metrics, self.ring = store, metrics, ring
        self.operators, self.advertisers = operators, advertisers
        self.managing = Workers("campaigns", 2, 200)
        alone = ring is None  # then all callers are one owner
        self.measuring = FairWorkers(
            "reports",
            3,
            max_per_owner=3 if alone else 2,
            max_waiting_per_owner=60,
            max_waiting=600,
        )
        self.planning, self.coarse_planning = (
            FairWorkers(name, 2, max_per_owner=1, max_waiting_per_owner=5, max_waiting=100)
            for name in ("plans", "coarse plans")
        )
        self._reload = reload
        if reload is not None:
            reload.attach(lambda changed: asyncio.to_thread(store.take_up, changed), metrics)
        what = "1 for each catalogue in use"
        metrics.gauge(
            "catalogue", what, lambda: dict.fromkeys(store.catalogues.versions, 1.0), "catalogue"
        )
        self.reports = metrics.count("reports", "Reports, by kind", "kind")
        live = store.live
        alarms = store.corrections.alarms
        metrics.gauge(
            "model_alarm",
            "1 where a panel says that the visit model is off by more than it states",
            lambda: {name: float(alarm) for name, alarm in alarms.items()},
            "campaign",
        )
        metrics.gauge("live_rows", "Rows that are not in files", lambda: {"": live.live_rows})

        def age() -> dict[str, float]:
            newest = live.newest_micros / 1e6
            return {"": max(time.time() - newest, 0.0)} if newest else {}

        metrics.gauge("newest_row_age_seconds", "Age of the newest row that was read", age)
        self._add_source_gauges()
        what = "Campaigns whose log lacks rows that advertisers were shown: no newer figures"
        shown = operators if advertisers is None else advertisers
        metrics.gauge("chapters_behind", what, lambda: {"": shown.policy.chapters_behind()})
        if advertisers is not None:
            what = "Questions of advertisers that were not answered in full, by reason"
            metrics.tally("suppressed", what, advertisers.suppressions.by_reason, "reason")
        for name in ("managing", "measuring", "planning", "coarse_planning"):
            metrics.gauge(f"{name}_under_way", f"Requests under way, {name}", self._waiting(name))

    def _add_source_gauges(self) -> None:
        def by_bidder(value: Callable[[LogSource], float]) -> Callable[[], dict[str, float]]:
            return lambda: {one.bidder: value(one) for one in self.store.sources()}

        for name, what, value in (
            (
                "source_behind_seconds",
                "Age of the newest that came from a bidder on another machine",
                lambda one: math.inf if one.seconds_behind is None else one.seconds_behind,
            ),
            (
                "source_behind_rows",
                "Impressions that a bidder published and that are not here yet",
                lambda one: one.rows_behind,
            ),
            (
                "source_failing",
                "1 while stream or files of a bidder cannot be read",
                lambda one: float(one.failure is not None),
            ),
            (
                "source_ready",
                "1 once the log of a bidder is here in full",
                lambda one: float(one.ready),
            ),
        ):
            self.metrics.gauge(name, f"{what}, by bidder", by_bidder(value), "bidder")

    def _waiting(self, name: str) -> Callable[[], dict[str, float]]:
        workers: Workers | FairWorkers = getattr(self, name)
        return lambda: {"": workers.under_way}

    async def measure(self, viewer: Viewer, work: Callable[..., T], *args: Any) -> T:
        """Compute a report when it is the viewer's turn."""
        return await self.measuring.run(viewer.owner, work, *args)

    async def plan(self, viewer: Viewer, coarse: bool, work: Callable[..., T], *args: Any) -> T:
        """Compute a plan when it is the viewer's turn; a coarse one waits for no fine one."""
        workers = self.coarse_planning if coarse else self.planning
        return await workers.run(viewer.owner, work, *args)

    def scope(self, viewer: Viewer) -> CampaignScope:
        """The service that a viewer may use, and whose campaigns it may name."""
        if viewer.role == "operator":
            return CampaignScope(self.operators)
        if viewer.role == "advertiser" and viewer.advertiser and self.advertisers is not None:
            own = self._limits
            if self.ring is not None:
                own = self.ring.limits(viewer.advertiser, own)
            return CampaignScope(self.advertisers, viewer.advertiser, own)
        raise Forbidden(viewer.role)

    def health(self) -> Health:
        """Whether log and campaigns can be read, and whether changed settings are in use."""
        found = self.operators.health()
        if self._reload is None:
            return found
        return msgspec.structs.replace(found, reload=self._reload.failure or "ok")

    def close(self) -> None:
        """Wait for running work, then close the store."""
        if self.ring is not None:
            self.ring.close()
        for workers in (self.managing, self.measuring, self.planning, self.coarse_planning):
            workers.close()
        if self.advertisers is not None:
            self.advertisers.close()
        self.operators.close()
        self.store.close()


class ReadyCheck:
    """Whether requests can be answered in full, checked at most once a second."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lock = asyncio.Lock()
        self._checked_at = -math.inf
        self._missing: tuple[str, ...] = ()
        what = "1 while requests can be answered in full"
        services.metrics.gauge("ready", what, lambda: {"": float(not self._all_missing())})

    def _all_missing(self) -> tuple[str, ...]:
        ring = self._services.ring
        failing = ring is not None and ring.failing
        return (*self._missing, "keys") if failing else self._missing

    async def refresh(self) -> None:
        """Check again, if the last time is over a second ago."""
        async with self._lock:
            if time.monotonic() - self._checked_at >= _HEALTH_SECONDS:
                work = self._services.operators.waiting_for
                self._missing = await self._services.managing.run(work)
                self._checked_at = time.monotonic()

    async def response(self, viewer: Viewer) -> Response:
        """What is missing is for operators and publishers only."""
        await self.refresh()
        missing = self._all_missing()
        shown = missing if viewer.role in ("operator", "publisher") else ()
        document = Readiness(status="not ready" if missing else "ready", waiting_for=shown)
        return json_response(document, 503 if missing else 200)


class HealthCheck:
    """Whether the service can answer, checked at most once a second."""

    def __init__(self, services: Services) -> None:
        self._reports, self._workers = services.operators, services.managing
        self._ring = services.ring
        self._lock = asyncio.Lock()
        self._checked_at = -math.inf
        self._failure: str | None = None

    async def response(self) -> Response:
        """The status alone, for callers without a key."""
        async with self._lock:
            if time.monotonic() - self._checked_at >= _HEALTH_SECONDS:
                work = partial(self._reports.log_failure, incomplete=False)
                self._failure = await self._workers.run(work)
                self._checked_at = time.monotonic()
        failing = self._failure is not None or (self._ring is not None and self._ring.failing)
        status = "failing" if failing else "ok"
        return json_response({"status": status}, 503 if failing else 200)
