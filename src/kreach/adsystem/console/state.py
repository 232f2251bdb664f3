"""What all pages and browsers share: the reporting client, the poller, files and the clock."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

from kreach.adsystem.console.client import (
    CAMPAIGNS,
    Query,
    ReportingClient,
    ReportingUnavailable,
    RequestRefused,
    plan_query,
)
from kreach.adsystem.console.input_files import InputFile, read_audit, read_tradeoff, read_truth
from kreach.adsystem.console.poller import Poller
from kreach.adsystem.reports.report import PlanDocument
from kreach.adsystem.settings import ConsoleSettings
from kreach.boundary.times import from_seconds
from kreach.service.clock import Clock
from kreach.service.logs import Log

__all__ = ["Console", "Plans"]

T = TypeVar("T")

_PLAN_SECONDS = 180.0
_MAX_PLANS = 500
_FILE_SECONDS = 0.5


class Plans:
    """A cache of plans that all browsers share: reporting takes seconds for one."""

    def __init__(self, client: ReportingClient) -> None:
        self._client = client
        self._cache: OrderedDict[Query[PlanDocument], PlanDocument] = OrderedDict()
        self._tasks: dict[Query[PlanDocument], asyncio.Task[PlanDocument]] = {}
        self._slot = asyncio.Semaphore(1)  # reporting makes one at a time, and queues few

    async def get(self, query: Query[PlanDocument]) -> PlanDocument:
        """A plan, from the cache if it was made before."""
        if query in self._cache:
            self._cache.move_to_end(query)
            return self._cache[query]
        task = self._tasks.get(query)
        if task is None:
            task = self._tasks[query] = asyncio.create_task(self._request(query))
            task.add_done_callback(lambda done: self._store(query, done))
        return await asyncio.shield(task)

    def forget(self, campaign: str) -> None:
        """Drop the plans of a campaign that was changed."""
        path = plan_query(campaign).path
        for query in [cached for cached in self._cache if cached.path == path]:
            del self._cache[query]

    async def _request(self, query: Query[PlanDocument]) -> PlanDocument:
        async with self._slot:
            return await self._client.get(query, _PLAN_SECONDS)

    def _store(self, query: Query[PlanDocument], task: asyncio.Task[PlanDocument]) -> None:
        self._tasks.pop(query, None)
        if task.cancelled() or task.exception() is not None:
            return
        self._cache[query] = task.result()
        while len(self._cache) > _MAX_PLANS:
            self._cache.popitem(last=False)

    async def close(self) -> None:
        """Cancel what is under way."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Console:
    """One per process. The clock gives seconds since 1970; `speed` is 1 except in the demo."""

    def __init__(self, settings: ConsoleSettings, log: Log, clock: Clock, speed: float) -> None:
        self.settings, self.log, self.speed = settings, log, speed
        self._clock = clock
        self.client = ReportingClient(
            settings.reporting_url, settings.key_file, ca_file=settings.reporting_ca
        )
        self.poller = Poller(self._get)
        self.plans = Plans(self.client)
        self.audit = InputFile(settings.groups_audit, read_audit)
        self.tradeoff = InputFile(settings.tradeoff, read_tradeoff)
        self.truth = InputFile(settings.truth_file, read_truth)
        self._tasks: list[asyncio.Task[None]] = []
        self.unavailable: str | None = None  # why reporting does not answer

    def now(self) -> datetime:
        """The time, which is simulated in the demo."""
        return from_seconds(self._clock())

    async def start(self) -> None:
        """Start polling reporting and reading files."""
        work = (self.poller.run(), self._read_files())
        self._tasks = [asyncio.create_task(one) for one in work]

    async def stop(self) -> None:
        """Stop and close connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.plans.close()
        await self.client.close()

    async def change(self, campaign: str, body: Mapping[str, object]) -> None:
        """Change a campaign and refresh the pages."""
        await self.client.change(campaign, body)
        self.plans.forget(campaign)
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

    async def _read_files(self) -> None:
        files = [one for one in (self.audit, self.tradeoff, self.truth) if one.configured]
        while files:
            for one in files:
                before = one.problem
                await asyncio.to_thread(one.refresh)
                if one.problem and one.problem != before:
                    self.log.warning("file not shown", reason=one.problem)
            await asyncio.sleep(_FILE_SECONDS)
