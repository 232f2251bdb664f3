"""One poller for all browsers: it repeats a query while a page holds a lease on it.

Pages renew their leases whenever they look (`lease`). A page that was closed stops looking, its
lease expires, and the poller stops asking reporting.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, TypeVar

from kreach.adsystem.console.client import (
    Query,
    ReportingError,
    ReportingUnavailable,
    RequestRefused,
)
from kreach.service.clock import Clock

__all__ = ["Answers", "PolledAnswer", "Poller"]

T = TypeVar("T")
Get = Callable[[Query[Any]], Awaitable[Any]]

_LEASE_SECONDS = 6.0
_CACHE_SECONDS = 60.0  # after a lease: going back to a page shows it at once
_MAX_CONCURRENT = 4
_DUTY = 0.8  # share of the time that all requests together may take, however slow they are,
_DUTY_OF_ONE = 0.25  # and that one of them may take
_GAP_SECONDS = 0.15  # between requests, in the long run: keys have a limit per minute
_LOOK_SECONDS = 0.1
_MAX_RETRY_SECONDS = 5.0  # after a failure: pages recover soon after reporting does


@dataclass(frozen=True)
class PolledAnswer(Generic[T]):
    """The last document of a query, and the error of the last request if it failed.

    `version` changes with the document and the error. While reporting is unavailable, the document
    is the last one received, at `answered_at` (seconds of the poller's clock).
    """

    document: T | None = None
    error: ReportingError | None = None
    answered_at: float | None = None
    version: int = 0

    @property
    def stale(self) -> bool:
        """Whether reporting is unavailable, so that the document may be old."""
        return isinstance(self.error, ReportingUnavailable)

    @property
    def refusal(self) -> str | None:
        """Why reporting refuses the query."""
        return str(self.error) if isinstance(self.error, RequestRefused) else None


class Answers:
    """The answers to the queries of a page; empty answers to others."""

    def __init__(self, queries: Iterable[Query[Any]], lease: Callable[..., Any]) -> None:
        self._answers = {query: lease(query) for query in queries}

    def of(self, query: Query[T]) -> PolledAnswer[T]:
        """The answer to a query."""
        answer: PolledAnswer[T] = self._answers.get(query) or PolledAnswer()
        return answer

    @property
    def versions(self) -> list[tuple[Query[Any], int]]:
        """Changes when a query or an answer changes."""
        return [(query, answer.version) for query, answer in self._answers.items()]

    @property
    def errors(self) -> list[ReportingError]:
        """The errors of all queries."""
        return [one.error for one in self._answers.values() if one.error is not None]

    @property
    def oldest(self) -> float | None:
        """When the oldest document on the page was received (seconds of the poller's clock)."""
        times = [one.answered_at for one in self._answers.values() if one.document is not None]
        return min((at for at in times if at is not None), default=None)

    @property
    def any_waiting(self) -> bool:
        """Whether a query was never answered."""
        return not all(one.version for one in self._answers.values())

    @property
    def any_stale(self) -> bool:
        """Whether a document on the page may be old."""
        return any(one.stale and one.document is not None for one in self._answers.values())


@dataclass
class _Entry:
    answer: PolledAnswer[Any]
    leased_until: float = 0.0
    due: float = 0.0
    in_flight: bool = False
    asked_at: float = 0.0
    seconds: float = inf  # that the last answer took
    refresh: bool = False  # ask again as soon as the request in flight is answered


class Poller:
    """Keeps answers fresh. For use on one event loop; `run` does the work."""

    def __init__(self, get: Get, every_seconds: float = 2.0, clock: Clock = time.monotonic) -> None:
        self._get, self._every, self._clock = get, every_seconds, clock
        self._entries: dict[Query[Any], _Entry] = {}
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)
        self._tasks: set[asyncio.Task[None]] = set()
        self._version = 0
        self.request_count = 0

    def __len__(self) -> int:
        """Number of cached queries."""
        return len(self._entries)

    def lease(self, query: Query[T]) -> PolledAnswer[T]:
        """The newest answer; the poller keeps it fresh for some seconds."""
        entry = self._entries.get(query)
        if entry is None:
            entry = self._entries[query] = _Entry(PolledAnswer())
            self._wake.set()
        entry.leased_until = self._clock() + _LEASE_SECONDS
        return entry.answer

    def seconds_waiting(self, queries: Iterable[Query[Any]]) -> float:
        """How long the slowest of these requests has been under way; 0 if none is."""
        entries = (self._entries.get(query) for query in queries)
        asked = [one.asked_at for one in entries if one is not None and one.in_flight]
        return self._clock() - min(asked) if asked else 0.0

    def age(self, moment: float) -> float:
        """Seconds since a moment of the poller's clock."""
        return self._clock() - moment

    def refresh(self, path: str) -> None:
        """Repeat all queries under a path at once, after a change."""
        for query, entry in self._entries.items():
            if query.path.startswith(path):
                entry.due, entry.refresh = 0.0, entry.in_flight
        self._wake.set()

    async def run(self) -> None:
        """Send what is due until cancelled."""
        try:
            while True:
                self._start_due()
                self._wake.clear()
                try:
                    await asyncio.wait_for(self._wake.wait(), _LOOK_SECONDS)
                except TimeoutError:
                    continue
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start_due(self) -> None:
        now = self._clock()
        for query, entry in list(self._entries.items()):
            if entry.in_flight:
                continue
            if now > entry.leased_until + _CACHE_SECONDS:
                del self._entries[query]
            elif entry.due <= now <= entry.leased_until:
                entry.in_flight, entry.asked_at = True, now
                task = asyncio.create_task(self._request(query, entry))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _request(self, query: Query[Any], entry: _Entry) -> None:
        wait, started, most = 0.0, self._clock(), inf
        try:
            async with self._slots:
                started = self._clock()
                self.request_count += 1
                document = await self._get(query)
            self._store(entry, document, None, self._clock())
        except ReportingUnavailable as error:
            wait, most = error.wait_seconds, _MAX_RETRY_SECONDS
            self._store(entry, entry.answer.document, error, entry.answer.answered_at)
        except ReportingError as error:
            self._store(entry, None, error, self._clock())
        finally:
            entry.in_flight = False
            now = self._clock()
            leased = sum(now <= other.leased_until for other in self._entries.values())
            usual = min(now - started, entry.seconds)  # one slow answer may be a hiccup
            entry.seconds = now - started
            slow = usual * max(leased / _DUTY, 1.0 / _DUTY_OF_ONE)
            apart = max(self._every, leased * _GAP_SECONDS, min(slow, most))
            spent = now - started if most == inf else 0.0
            entry.due = now + (0.0 if entry.refresh else max(apart - spent, wait))
            entry.refresh = False

    def _store(
        self,
        entry: _Entry,
        document: object,
        error: ReportingError | None,
        answered_at: float | None,
    ) -> None:
        before = entry.answer
        version = before.version
        same = document == before.document and _content(error) == _content(before.error)
        if not same or not version:
            self._version = version = self._version + 1
        entry.answer = PolledAnswer(document, error, answered_at, version)


def _content(error: ReportingError | None) -> tuple[str, object]:
    return repr(error), getattr(error, "error", None)
