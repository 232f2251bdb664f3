"""One poller for all browsers: a question is asked again and again while somebody wants it.

Pages say what they want every time they look (`want`); that is a lease, not a subscription. A page
that was left or closed stops looking, its lease runs out, and reporting is no longer asked.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kreach.adsystem.console.client import Away, Document, Question, Refused
from kreach.service.clock import Clock

__all__ = ["NOTHING_YET", "Answer", "Feed"]

Ask = Callable[[Question], Awaitable[Document]]

_LEASE_SECONDS = 6.0
_KEPT_SECONDS = 60.0  # so that going back to a page shows it at once
_AT_ONCE = 4
_DUTY = 0.8  # of the time may go into asking, all questions together, however slow they are,
_DUTY_OF_ONE = 0.25  # and into one of them
_GAP_SECONDS = 0.15  # between requests, in the long run: a key is good for so many a minute
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Answer:
    """The last word on a question, and what is wrong with asking it now, if anything.

    `version` changes when the document or the trouble does. With trouble, the document is what was
    known before; `told_at` (seconds, of the feed's clock) says since when nothing newer is known.
    """

    document: Document | None = None
    trouble: Refused | Away | None = None
    told_at: float | None = None
    version: int = 0

    @property
    def stale(self) -> bool:
        """Whether reporting is away, so that the document may be old."""
        return isinstance(self.trouble, Away)


NOTHING_YET = Answer()


@dataclass
class _Entry:
    answer: Answer = NOTHING_YET
    wanted_until: float = 0.0
    due: float = 0.0
    asking: bool = False
    again: bool = False  # at once, when the answer under way is there


class Feed:
    """Answers, kept fresh. For use on one event loop; `run` does the work."""

    def __init__(self, ask: Ask, every_seconds: float = 2.0, clock: Clock = time.monotonic) -> None:
        self._ask, self._every, self._clock = ask, every_seconds, clock
        self._entries: dict[Question, _Entry] = {}
        self._woken = asyncio.Event()
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._versions = 0
        self.asked = 0

    def __len__(self) -> int:
        """Questions that are kept."""
        return len(self._entries)

    def want(self, question: Question) -> Answer:
        """The newest answer, which will be kept fresh for some seconds."""
        entry = self._entries.get(question)
        if entry is None:
            entry = self._entries[question] = _Entry()
            self._woken.set()
        entry.wanted_until = self._clock() + _LEASE_SECONDS
        return entry.answer

    def hurry(self, path: str) -> None:
        """Ask everything under a path again at once: something was changed."""
        for question, entry in self._entries.items():
            if question.path.startswith(path):
                entry.due, entry.again = 0.0, entry.asking
        self._woken.set()

    async def run(self) -> None:
        """Ask what is due until cancelled."""
        try:
            while True:
                self._begin_what_is_due()
                self._woken.clear()
                try:
                    await asyncio.wait_for(self._woken.wait(), _LOOK_SECONDS)
                except TimeoutError:
                    continue
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin_what_is_due(self) -> None:
        now = self._clock()
        for question, entry in list(self._entries.items()):
            if entry.asking:
                continue
            if now > entry.wanted_until + _KEPT_SECONDS:
                del self._entries[question]
            elif now <= entry.wanted_until and now >= entry.due:
                entry.asking = True
                task = asyncio.create_task(self._renew(question, entry))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _renew(self, question: Question, entry: _Entry) -> None:
        wait = 0.0
        begun = self._clock()
        try:
            async with self._room:
                begun = self._clock()
                self.asked += 1
                found = await self._ask(question)
            self._keep(entry, found, None, self._clock())
        except Refused as refused:
            self._keep(entry, None, refused, self._clock())
        except Away as away:
            wait = away.wait_seconds
            self._keep(entry, entry.answer.document, away, entry.answer.told_at)
        finally:
            entry.asking = False
            took = self._clock() - begun
            wanted = self._wanted()
            slow = took * max(wanted / _DUTY, 1.0 / _DUTY_OF_ONE)
            apart = max(self._every, wanted * _GAP_SECONDS, slow)
            entry.due = self._clock() + (0.0 if entry.again else max(apart - took, wait))
            entry.again = False

    def _wanted(self) -> int:
        now = self._clock()
        return sum(now <= entry.wanted_until for entry in self._entries.values())

    def _keep(
        self,
        entry: _Entry,
        document: Document | None,
        trouble: Refused | Away | None,
        told_at: float | None,
    ) -> None:
        before = entry.answer
        same = document == before.document and _words(trouble) == _words(before.trouble)
        if not same or not before.version:
            self._versions += 1
        version = before.version if same and before.version else self._versions
        entry.answer = Answer(document, trouble, told_at, version)


def _words(trouble: Refused | Away | None) -> tuple[str, str]:
    return (type(trouble).__name__, str(trouble))
