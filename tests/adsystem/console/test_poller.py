"""One poller for all browsers: leases, errors, and the number of requests."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kreach.adsystem.console.client import Query, ReportingUnavailable, RequestRefused
from kreach.adsystem.console.poller import Answers, PolledAnswer, Poller
from kreach.adsystem.reports.report import Allowed, ErrorInfo

Document = dict[str, Any]
A, B = Query("/a", dict), Query("/b", dict, (("cap", "1"),))


class FakeReporting:
    """A poller, the clock that a test moves, and the service that it polls."""

    def __init__(self, every_seconds: float = 2.0) -> None:
        self.now = 100.0
        self.requests: Counter[Query[Any]] = Counter()
        self.answer: Callable[[Query[Any]], Document] = lambda query: {"path": query.path}
        self.seconds = 0.0
        self.poller = Poller(self._get, every_seconds, lambda: self.now)

    async def _get(self, query: Query[Any]) -> Document:
        self.requests[query] += 1
        self.now += self.seconds
        await asyncio.sleep(0)
        return self.answer(query)

    async def advance(self, seconds: float, *leased: Query[Any]) -> None:
        """Let time pass in small steps, with pages that renew their leases."""
        for _ in range(round(seconds / 0.5)):
            for query in leased:
                self.poller.lease(query)
            self.now += 0.5
            self.poller.refresh("/nothing")  # wakes it
            for _ in range(6):
                await asyncio.sleep(0)


def run(
    work: Callable[[FakeReporting], Awaitable[None]], fake: FakeReporting | None = None
) -> FakeReporting:
    fake = fake or FakeReporting()

    async def go() -> None:
        task = asyncio.create_task(fake.poller.run())
        try:
            await work(fake)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(go())
    return fake


def test_pages_with_the_same_query_share_requests() -> None:
    async def work(fake: FakeReporting) -> None:
        await fake.advance(20.0, A, A, A, B)

    fake = run(work)
    assert 9 <= fake.requests[A] <= 11  # every two seconds
    assert 9 <= fake.requests[B] <= 11


def test_a_query_without_a_lease_is_not_sent_and_then_dropped() -> None:
    async def work(fake: FakeReporting) -> None:
        await fake.advance(4.0, A)
        before = fake.requests[A]
        await fake.advance(30.0)
        assert fake.requests[A] - before <= 4  # the lease
        assert len(fake.poller) == 1
        await fake.advance(60.0)
        assert len(fake.poller) == 0

    run(work)


def test_the_version_changes_with_the_document_and_not_with_every_answer() -> None:
    async def work(fake: FakeReporting) -> None:
        await fake.advance(3.0, A)
        first = fake.poller.lease(A)
        await fake.advance(6.0, A)
        again = fake.poller.lease(A)
        assert first.document == {"path": "/a"}
        assert again.version == first.version
        assert again.answered_at is not None
        assert first.answered_at is not None
        assert again.answered_at > first.answered_at
        fake.answer = lambda _: {"path": "other"}
        await fake.advance(3.0, A)
        assert fake.poller.lease(A).version != first.version

    run(work)


def test_while_reporting_is_unavailable_the_last_document_stays() -> None:
    def fail(_: Query[Any]) -> Document:
        raise ReportingUnavailable("reporting cannot be reached")

    async def work(fake: FakeReporting) -> None:
        await fake.advance(3.0, A)
        good, fake.answer = fake.answer, fail
        await fake.advance(3.0, A)
        answer = fake.poller.lease(A)
        assert answer.stale
        assert answer.document == {"path": "/a"}
        fake.answer = good
        await fake.advance(3.0, A)
        assert fake.poller.lease(A) == PolledAnswer(
            {"path": "/a"}, None, fake.poller.lease(A).answered_at, fake.poller.lease(A).version
        )
        assert not fake.poller.lease(A).stale

    run(work)


def test_a_refusal_is_an_answer_without_a_document() -> None:
    def refuse(_: Query[Any]) -> Document:
        raise RequestRefused(404, ErrorInfo(message="no campaign 'x'"))

    async def work(fake: FakeReporting) -> None:
        await fake.advance(3.0, A)
        fake.answer = refuse
        await fake.advance(3.0, A)
        answer = fake.poller.lease(A)
        assert answer.document is None
        assert not answer.stale
        assert str(answer.error) == "no campaign 'x'"

    run(work)


def test_retry_after_is_respected() -> None:
    def busy(_: Query[Any]) -> Document:
        raise ReportingUnavailable("too many requests", wait_seconds=10.0)

    async def work(fake: FakeReporting) -> None:
        fake.answer = busy
        await fake.advance(20.0, A)

    assert run(work).requests[A] <= 3


@pytest.mark.parametrize(("seconds", "most"), [(0.0, 11), (4.0, 5)])
def test_a_slow_query_is_sent_less_often(seconds: float, most: int) -> None:
    fake = FakeReporting()
    fake.seconds = seconds

    async def work(fake: FakeReporting) -> None:
        await fake.advance(20.0, A)

    run(work, fake)
    assert 2 <= fake.requests[A] <= most


def test_one_slow_answer_does_not_leave_a_page_old() -> None:
    async def work(fake: FakeReporting) -> None:
        await fake.advance(6.0, A)
        fake.seconds = 8.0
        before = fake.requests[A]
        while fake.requests[A] == before:
            await fake.advance(0.5, A)
        fake.seconds, before = 0.0, fake.requests[A]
        await fake.advance(4.0, A)
        assert fake.requests[A] > before

    run(work)


def test_many_queries_stay_within_the_limit_of_a_key() -> None:
    many = [Query(f"/{at}", dict) for at in range(60)]

    async def work(fake: FakeReporting) -> None:
        await fake.advance(60.0, *many)

    assert sum(run(work).requests.values()) <= 60 + 60 / 0.15 * 1.1


def test_a_change_is_shown_at_once() -> None:
    async def work(fake: FakeReporting) -> None:
        await fake.advance(1.0, A, B)
        before = fake.requests[A], fake.requests[B]
        fake.poller.refresh("/a")
        for _ in range(6):
            await asyncio.sleep(0)
        assert (fake.requests[A], fake.requests[B]) == (before[0] + 1, before[1])

    run(work)


def test_a_refusal_with_other_offers_is_a_new_version() -> None:
    def refuse(end: str) -> Callable[[Query[Any]], Document]:
        def answer(_: Query[Any]) -> Document:
            allowed = Allowed(end=(end,))
            raise RequestRefused(422, ErrorInfo(message="not allowed", allowed=allowed))

        return answer

    async def work(fake: FakeReporting) -> None:
        versions = []
        for end in ("a", "a", "b"):
            fake.answer = refuse(end)
            await fake.advance(3.0, A)
            versions.append(fake.poller.lease(A).version)
        assert versions[0] == versions[1] != versions[2]

    run(work)


def test_a_page_waits_until_all_its_queries_were_answered() -> None:
    async def work(fake: FakeReporting) -> None:
        await fake.advance(1.0, A)
        assert not Answers((A,), fake.poller.lease).any_waiting
        assert Answers((A, B), fake.poller.lease).any_waiting

        def fail(_: Query[Any]) -> Document:
            raise ReportingUnavailable("reporting cannot be reached")

        fake.answer = fail
        await fake.advance(1.0, A, B)
        assert not Answers((A, B), fake.poller.lease).any_waiting  # an error is an answer

    run(work)
