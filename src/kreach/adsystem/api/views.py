"""What routes stand on: the service as each viewer may see it, threads for it, and counters."""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Any, Protocol

from fastapi import Response

from kreach.adsystem.access.gate import Viewer
from kreach.adsystem.access.ring import KeyRing
from kreach.adsystem.api.scope import OwnCampaigns, Reports
from kreach.adsystem.api.web import Workers, answer
from kreach.adsystem.reports.service import Reporting
from kreach.service.metrics import Metrics

__all__ = ["Forbidden", "Guarded", "Pulse", "Services"]

_PULSE_SECONDS = 1.0


class Forbidden(RuntimeError):
    """A role asks for what it may not have: the gate let it through to the wrong place."""


class Guarded(Reports, Protocol):
    """All campaigns as advertisers may see them, and what they are not told."""

    def suppressions(self) -> dict[str, Any]:
        """What was withheld lately, and why."""

    def suppressed_by_reason(self) -> dict[str, float]:
        """How often something was withheld since the start."""

    def close(self) -> None:
        """Let go of what it keeps."""


class Services:
    """What routes use: the service, threads for it, and counters.

    With keys there is a ring of them, and the service as advertisers may see it (`guarded`).
    """

    def __init__(
        self,
        reporting: Reporting,
        metrics: Metrics,
        ring: KeyRing | None = None,
        guarded: Guarded | None = None,
    ) -> None:
        self.reporting, self.metrics, self.ring = reporting, metrics, ring
        self.guarded = guarded
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
        if guarded is not None:
            what = "Questions of advertisers that were not answered in full, by reason"
            metrics.tally("suppressed", what, guarded.suppressed_by_reason, "reason")
        for name in ("managing", "measuring", "planning"):
            metrics.gauge(f"{name}_under_way", f"Requests under way, {name}", self._waiting(name))

    def _waiting(self, name: str) -> Callable[[], dict[str, float]]:
        workers: Workers = getattr(self, name)
        return lambda: {"": workers.under_way}

    def view(self, viewer: Viewer) -> Reporting | OwnCampaigns:
        """Campaigns as a viewer may see them."""
        if viewer.role == "operator":
            return self.reporting
        if viewer.role == "advertiser" and viewer.advertiser and self.guarded is not None:
            return OwnCampaigns(self.guarded, viewer.advertiser)
        raise Forbidden(viewer.role)

    def close(self) -> None:
        """Let what is under way end, then let go of the store."""
        if self.ring is not None:
            self.ring.close()
        for workers in (self.managing, self.measuring, self.planning):
            workers.close()
        if self.guarded is not None:
            self.guarded.close()
        self.reporting.close()


class Pulse:
    """Whether the service can answer: looked at once a second, however often strangers ask."""

    def __init__(self, services: Services) -> None:
        self._reporting, self._workers = services.reporting, services.managing
        self._ring = services.ring
        self._lock = asyncio.Lock()
        self._looked_at = -math.inf
        self._failure: str | None = None

    async def answer(self) -> Response:
        """The status, and nothing of campaigns and catalogues."""
        async with self._lock:
            if time.monotonic() - self._looked_at >= _PULSE_SECONDS:
                self._failure = await self._workers.run(self._reporting.look)
                self._looked_at = time.monotonic()
        failing = self._failure is not None or (self._ring is not None and self._ring.failing)
        return answer({"status": "failing" if failing else "ok"}, 503 if failing else 200)
