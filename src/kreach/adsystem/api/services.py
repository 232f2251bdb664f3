"""What the routes use: the report services, their thread pools, and metrics."""

import asyncio
import math
import time
from collections.abc import Callable

from fastapi import Response

from kreach.adsystem.access.gate import Viewer
from kreach.adsystem.access.ring import KeyRing
from kreach.adsystem.api.errors import json_response
from kreach.adsystem.api.scope import CampaignScope
from kreach.adsystem.api.web import Workers
from kreach.adsystem.reports.context import ReportContext
from kreach.adsystem.reports.service import ReportService
from kreach.service.metrics import Metrics

__all__ = ["Forbidden", "HealthCheck", "Services"]

_HEALTH_SECONDS = 1.0


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
    ) -> None:
        self.store, self.metrics, self.ring = store, metrics, ring
        self.operators, self.advertisers = operators, advertisers
        self.managing = Workers("campaigns", 2, 200)
        self.measuring = Workers("reports", 3, 60)
        self.planning = Workers("plans", 1, 5)
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
        if advertisers is not None:
            what = "Questions of advertisers that were not answered in full, by reason"
            metrics.tally("suppressed", what, advertisers.suppressions.by_reason, "reason")
        for name in ("managing", "measuring", "planning"):
            metrics.gauge(f"{name}_under_way", f"Requests under way, {name}", self._waiting(name))

    def _waiting(self, name: str) -> Callable[[], dict[str, float]]:
        workers: Workers = getattr(self, name)
        return lambda: {"": workers.under_way}

    def scope(self, viewer: Viewer) -> CampaignScope:
        """The service that a viewer may use, and whose campaigns it may name."""
        if viewer.role == "operator":
            return CampaignScope(self.operators)
        if viewer.role == "advertiser" and viewer.advertiser and self.advertisers is not None:
            return CampaignScope(self.advertisers, viewer.advertiser)
        raise Forbidden(viewer.role)

    def close(self) -> None:
        """Wait for running work, then close the store."""
        if self.ring is not None:
            self.ring.close()
        for workers in (self.managing, self.measuring, self.planning):
            workers.close()
        if self.advertisers is not None:
            self.advertisers.close()
        self.operators.close()
        self.store.close()


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
                self._failure = await self._workers.run(self._reports.log_failure)
                self._checked_at = time.monotonic()
        failing = self._failure is not None or (self._ring is not None and self._ring.failing)
        status = "failing" if failing else "ok"
        return json_response({"status": status}, 503 if failing else 200)
