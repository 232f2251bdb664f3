"""One poller for all browsers: leases, trouble, and how much is asked."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from kreach.adsystem.console.client import Away, Document, Question, Refused
from kreach.adsystem.console.poller import Answer, Feed

A, B = Question("/a"), Question("/b", (("cap", "1"),))


class World:
    """A clock that the test moves, and a service whose mood it sets."""

    def __init__(self, every_seconds: float = 2.0) -> None:
        self.now = 100.0
        self.asked: Counter[Question] = Counter()
        self.say: Callable[[Question], Document] = lambda question: {"path": question.path}
        self.takes = 0.0
        self.feed = Feed(self._ask, every_seconds, lambda: self.now)

    async def _ask(self, question: Question) -> Document:
        self.asked[question] += 1
        self.now += self.takes
        await asyncio.sleep(0)
        return self.say(question)

    async def pass_(self, seconds: float, *wanted: Question) -> None:
        """Let time pass in small steps, with pages that look."""
        for _ in range(round(seconds / 0.5)):
            for question in wanted:
                self.feed.want(question)
            self.now += 0.5
            self.feed.hurry("/nothing")  # wakes it
            for _ in range(6):
                await asyncio.sleep(0)


def run(work: Callable[[World], Awaitable[None]], world: World | None = None) -> World:
    world = world or World()

    async def go() -> None:
        task = asyncio.create_task(world.feed.run())
        try:
            await work(world)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(go())
    return world


def test_several_pages_that_want_the_same_are_one_question() -> None:
    async def work(world: World) -> None:
        await world.pass_(20.0, A, A, A, B)

    world = run(work)
    assert 9 <= world.asked[A] <= 11  # every two seconds
    assert 9 <= world.asked[B] <= 11


def test_what_nobody_wants_any_more_is_not_asked_and_then_forgotten() -> None:
    async def work(world: World) -> None:
        await world.pass_(4.0, A)
        before = world.asked[A]
        await world.pass_(30.0)
        assert world.asked[A] - before <= 4  # the lease
        assert len(world.feed) == 1
        await world.pass_(60.0)
        assert len(world.feed) == 0

    run(work)


def test_the_version_changes_with_the_document_and_not_with_every_answer() -> None:
    async def work(world: World) -> None:
        await world.pass_(3.0, A)
        first = world.feed.want(A)
        await world.pass_(6.0, A)
        again = world.feed.want(A)
        assert first.document == {"path": "/a"}
        assert again.version == first.version
        assert again.told_at is not None
        assert first.told_at is not None
        assert again.told_at > first.told_at
        world.say = lambda _: {"path": "other"}
        await world.pass_(3.0, A)
        assert world.feed.want(A).version != first.version

    run(work)


def test_while_reporting_is_away_the_last_document_stays_and_it_comes_back_by_itself() -> None:
    def fail(_: Question) -> Document:
        raise Away("it cannot be reached")

    async def work(world: World) -> None:
        await world.pass_(3.0, A)
        good, world.say = world.say, fail
        await world.pass_(3.0, A)
        answer = world.feed.want(A)
        assert answer.stale
        assert answer.document == {"path": "/a"}
        world.say = good
        await world.pass_(3.0, A)
        assert world.feed.want(A) == Answer(
            {"path": "/a"}, None, world.feed.want(A).told_at, world.feed.want(A).version
        )
        assert not world.feed.want(A).stale

    run(work)


def test_a_refusal_is_an_answer_without_a_document() -> None:
    def refuse(_: Question) -> Document:
        raise Refused(404, {"error": "no campaign 'x'"})

    async def work(world: World) -> None:
        await world.pass_(3.0, A)
        world.say = refuse
        await world.pass_(3.0, A)
        answer = world.feed.want(A)
        assert answer.document is None
        assert not answer.stale
        assert str(answer.trouble) == "no campaign 'x'"

    run(work)


def test_reporting_that_asks_for_patience_gets_it() -> None:
    def busy(_: Question) -> Document:
        raise Away("too much is being asked", wait_seconds=10.0)

    async def work(world: World) -> None:
        world.say = busy
        await world.pass_(20.0, A)

    assert run(work).asked[A] <= 3


@pytest.mark.parametrize(("takes", "most"), [(0.0, 11), (4.0, 5)])
def test_a_slow_question_is_asked_less_often(takes: float, most: int) -> None:
    world = World()
    world.takes = takes

    async def work(world: World) -> None:
        await world.pass_(20.0, A)

    run(work, world)
    assert 2 <= world.asked[A] <= most


def test_many_questions_stay_within_what_a_key_is_good_for() -> None:
    many = [Question(f"/{at}") for at in range(60)]

    async def work(world: World) -> None:
        await world.pass_(60.0, *many)

    assert sum(run(work).asked.values()) <= 60 + 60 / 0.15 * 1.1


def test_a_change_is_shown_at_once() -> None:
    async def work(world: World) -> None:
        await world.pass_(1.0, A, B)
        before = world.asked[A], world.asked[B]
        world.feed.hurry("/a")
        for _ in range(6):
            await asyncio.sleep(0)
        assert (world.asked[A], world.asked[B]) == (before[0] + 1, before[1])

    run(work)
