"""What all pages and browsers share: the way to reporting, the poller, files, and the time."""

import asyncio
from collections import OrderedDict
from contextlib import suppress
from datetime import UTC, datetime

from kreach.adsystem.console.client import (
    Away,
    Document,
    Question,
    Refused,
    ReportingClient,
    of_campaign,
)
from kreach.adsystem.console.input_files import Handed, read_audit, read_tradeoff, read_truth
from kreach.adsystem.console.poller import Feed
from kreach.adsystem.settings import ConsoleSettings
from kreach.service.clock import Clock
from kreach.service.logs import Log

__all__ = ["CATALOGUES", "LIST", "Console", "Plans"]

CATALOGUES = Question("/v1/catalogues")
LIST = Question("/v1/campaigns", (("limit", "1000"),))
_PLAN_SECONDS = 180.0
_MAX_PLANS = 500
_FILE_SECONDS = 0.5


class Plans:
    """Plans that were asked for, each once, whoever wants it: one takes reporting seconds."""

    def __init__(self, client: ReportingClient) -> None:
        self._client = client
        self._known: OrderedDict[Question, Document] = OrderedDict()
        self._under_way: dict[Question, asyncio.Task[Document]] = {}
        self._room = asyncio.Semaphore(1)  # reporting makes one at a time, and keeps few waiting

    async def get(self, campaign: str, *parameters: tuple[str, object]) -> Document:
        """A plan; refused or away as reporting says."""
        question = of_campaign(campaign, "plan", *parameters)
        if question in self._known:
            self._known.move_to_end(question)
            return self._known[question]
        task = self._under_way.get(question)
        if task is None:
            task = asyncio.create_task(self._ask(question))
            self._under_way[question] = task
            task.add_done_callback(lambda done: self._done(question, done))
        return await asyncio.shield(task)

    def forget(self, campaign: str) -> None:
        """A campaign was changed: its plans are made anew."""
        path = of_campaign(campaign, "plan").path
        for question in [known for known in self._known if known.path == path]:
            del self._known[question]

    async def _ask(self, question: Question) -> Document:
        async with self._room:
            return await self._client.get(question, _PLAN_SECONDS)

    def _done(self, question: Question, task: asyncio.Task[Document]) -> None:
        self._under_way.pop(question, None)
        if task.cancelled() or task.exception() is not None:
            return
        self._known[question] = task.result()
        while len(self._known) > _MAX_PLANS:
            self._known.popitem(last=False)

    async def close(self) -> None:
        """Stop asking."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Console:
    """One per process. The clock gives seconds since 1970; `speed` is 1 but in demonstrations."""

    def __init__(self, settings: ConsoleSettings, log: Log, clock: Clock, speed: float) -> None:
        self.settings, self.log, self.speed = settings, log, speed
        self._clock = clock
        self.client = ReportingClient(settings.reporting_url, settings.key_file)
        self.feed = Feed(self._ask)
        self.plans = Plans(self.client)
        self.audit = Handed(settings.groups_audit, read_audit)
        self.tradeoff = Handed(settings.tradeoff, read_tradeoff)
        self.truth = Handed(settings.truth_file, read_truth)
        self._tasks: list[asyncio.Task[None]] = []
        self.away: str | None = None

    def now(self) -> datetime:
        """The time, which in a demonstration is simulated."""
        return datetime.fromtimestamp(self._clock(), UTC)

    async def start(self) -> None:
        """Begin to work."""
        self._tasks = [
            asyncio.create_task(self.feed.run()),
            asyncio.create_task(self._read_files()),
        ]

    async def stop(self) -> None:
        """End it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.plans.close()
        await self.client.close()

    async def change(self, campaign: str, changes: Document) -> Document:
        """Change a campaign, and see to it that pages show that at once."""
        changed = await self.client.change(campaign, changes)
        self.plans.forget(campaign)
        self.feed.hurry("/v1/campaigns")
        return changed

    async def create(self, campaign: Document) -> Document:
        """Make a campaign, and see to it that pages show it at once."""
        made = await self.client.create(campaign)
        self.feed.hurry("/v1/campaigns")
        return made

    async def _ask(self, question: Question) -> Document:
        try:
            found = await self.client.get(question)
        except Away as away:
            if self.away is None:
                self.log.warning("reporting is away", reason=str(away))
            self.away = str(away)
            raise
        except Refused:
            self._back()
            raise
        self._back()
        return found

    def _back(self) -> None:
        if self.away is not None:
            self.log.info("reporting is back")
        self.away = None

    async def _read_files(self) -> None:
        files = [one for one in (self.audit, self.tradeoff, self.truth) if one.named]
        while files:
            for one in files:
                before = one.trouble
                await asyncio.to_thread(one.look)
                if one.trouble and one.trouble != before:
                    self.log.warning("file not shown", reason=one.trouble)
            with suppress(asyncio.TimeoutError):
                await asyncio.sleep(_FILE_SECONDS)
