"""What all pages and browsers share: the reporting client, the poller, files and the clock."""

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

from kreach.adsystem.console.client import (
    CAMPAIGNS,
    VIEWER,
    Query,
    ReportingClient,
    ReportingUnavailable,
    RequestRefused,
)
from kreach.adsystem.console.endings import Endings
from kreach.adsystem.console.input_files import InputFile, read_audit, read_tradeoff, read_truth
from kreach.adsystem.console.poller import Poller
from kreach.adsystem.reports.report import PlanDocument, ViewerInfo
from kreach.adsystem.settings import ConsoleSettings
from kreach.boundary.times import from_seconds
from kreach.service.clock import Clock
from kreach.service.logs import Log

__all__ = ["Console", "FlightPlans", "InputFiles"]

T = TypeVar("T")

_PLAN_SECONDS = 180.0
_MAX_PLANS = 500
_PLAN_CACHE_SECONDS = 300.0
_FILE_SECONDS = 0.5


class FlightPlans:
    """A cache of plans that all browsers with a key share: reporting takes seconds for one."""

    def __init__(self, client: ReportingClient, clock: Clock = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._cache: OrderedDict[str, tuple[float, PlanDocument]] = OrderedDict()
        self._tasks: dict[str, asyncio.Task[PlanDocument]] = {}
        self._slot = asyncio.Semaphore(2)  # reporting queues few

    async def get(self, body: Mapping[str, object]) -> PlanDocument:
        """A plan, from the cache if it was made lately."""
        key = json.dumps(body, sort_keys=True)
        known = self._cache.get(key)
        if known is not None and self._clock() - known[0] < _PLAN_CACHE_SECONDS:
            self._cache.move_to_end(key)
            return known[1]
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(self._request(dict(body)))
            task.add_done_callback(lambda done: self._store(key, done))
        return await asyncio.shield(task)

    async def _request(self, body: Mapping[str, object]) -> PlanDocument:
        async with self._slot:
            return await self._client.plan(body, _PLAN_SECONDS)

    def _store(self, key: str, task: "asyncio.Task[PlanDocument]") -> None:
        self._tasks.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        self._cache[key] = (self._clock(), task.result())
        while len(self._cache) > _MAX_PLANS:
            self._cache.popitem(last=False)

    async def close(self) -> None:
        """Cancel what is under way."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class InputFiles:
    """Files that the settings name, read again when they change. One per process."""

    def __init__(self, settings: ConsoleSettings, log: Log) -> None:
        self._log = log
        self.audit = InputFile(settings.groups_audit, read_audit)
        self.tradeoff = InputFile(settings.tradeoff, read_tradeoff)
        self.truth = InputFile(settings.truth_file, read_truth)

    async def run(self) -> None:
        """Read them until cancelled."""
        files = [one for one in (self.audit, self.tradeoff, self.truth) if one.configured]
        while files:
            for one in files:
                before = one.problem
                await asyncio.to_thread(one.refresh)
                if one.problem and one.problem != before:
                    self._log.warning("file not shown", reason=one.problem)
            await asyncio.sleep(_FILE_SECONDS)


class Console:
    """One per API key. The clock gives seconds since 1970; `speed` is 1 except in the demo."""

    def __init__(
        self,
        settings: ConsoleSettings,
        log: Log,
        clock: Clock,
        speed: float,
        files: InputFiles,
        key: str | None = None,
    ) -> None:
        self.settings, self.log, self.speed = settings, log, speed
        self._clock = clock
        self.client = ReportingClient(
            settings.reporting_url, settings.key_file, key=key, ca_file=settings.reporting_ca
        )
        self.poller = Poller(self._get)
        self.flight_plans = FlightPlans(self.client)
        self.endings = Endings(self.change, log)
        self.audit, self.tradeoff, self.truth = files.audit, files.tradeoff, files.truth
        self._tasks: list[asyncio.Task[None]] = []
        self.unavailable: str | None = None  # why reporting does not answer

    def now(self) -> datetime:
        """The time, which is simulated in the demo."""
        return from_seconds(self._clock())

    async def start(self) -> None:
        """Start polling reporting."""
        self._tasks = [asyncio.create_task(self.poller.run())]

    async def stop(self) -> None:
        """End what is about to be ended, stop and close connections."""
        await self.endings.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.flight_plans.close()
        await self.client.close()

    async def viewer(self) -> ViewerInfo:
        """Who the console is to reporting; the key in a file may be another one by now."""
        return await self.client.get(VIEWER)

    async def change(self, campaign: str, body: Mapping[str, object]) -> None:
        """Change a campaign and refresh the pages."""
        await self.client.change(campaign, body)
        self.poller.refresh(CAMPAIGNS.path)

    async def create(self, body: Mapping[str, object]) -> None:
        """Create a campaign and refresh the pages."""
        await self.client.create(body)
        self.poller.refresh(CAMPAIGNS.path)

    async def _get(self, query: Query[T]) -> T:
        """Send a query; log when reporting becomes unavailable and when it is back."""
        try:
            document = await self.client.get(query)
        except ReportingUnavailable as error:
            if self.unavailable is None:
                detail = str(error.__cause__ or "")
                self.log.warning("reporting is unavailable", reason=str(error), detail=detail)
            self.unavailable = str(error)
            raise
        except RequestRefused:
            self._log_recovery()
            raise
        self._log_recovery()
        return document

    def _log_recovery(self) -> None:
        if self.unavailable is not None:
            self.log.info("reporting is available again")
        self.unavailable = None
