"""One caller's work never keeps another's waiting for long. No test depends on times."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from kreach.adsystem.api.workers import Busy, FairWorkers, QueueFull


def pool(threads: int = 1, per_owner: int = 1, waiting: int = 14, total: int = 100) -> FairWorkers:
    return FairWorkers(
        "test",
        threads,
        max_per_owner=per_owner,
        max_waiting_per_owner=waiting,
        max_waiting=total,
    )


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(30):
            await work()

    asyncio.run(whole())


def test_owners_take_turns() -> None:
    """Fourteen plans of one advertiser, then two of another and one of a third."""

    async def work() -> None:
        workers, go, order = pool(), threading.Event(), list[str]()

        def plan(name: str) -> str:
            go.wait(30)
            order.append(name)
            return name

        names = [f"greedy{at}" for at in range(14)] + ["bob0", "bob1", "cid0"]
        tasks = [asyncio.create_task(workers.run(name[:3], plan, name)) for name in names]
        await asyncio.sleep(0)
        assert workers.under_way == 17
        go.set()
        assert await asyncio.gather(*tasks) == names
        assert order[:6] == ["greedy0", "greedy1", "bob0", "cid0", "greedy2", "bob1"]
        assert workers.under_way == 0
        workers.close()

    run(work)


def test_an_owner_does_not_take_all_threads() -> None:
    async def work() -> None:
        workers, go = pool(threads=2), threading.Event()
        held = [asyncio.create_task(workers.run("greedy", go.wait, 30)) for _ in range(5)]
        assert await workers.run("bob", lambda: 7) == 7
        assert not any(task.done() for task in held)
        go.set()
        assert await asyncio.gather(*held) == [True] * 5
        workers.close()

    run(work)


def test_a_full_queue_is_told_when_to_come_again() -> None:
    async def work() -> None:
        workers, go = pool(waiting=2, total=3), threading.Event()
        held = [asyncio.create_task(workers.run("greedy", go.wait, 30)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFull) as caught:
            await workers.run("greedy", lambda: 1)
        assert 1 <= caught.value.retry_seconds <= 60
        held.append(asyncio.create_task(workers.run("bob", go.wait, 30)))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await workers.run("cid", lambda: 1)
        go.set()
        await asyncio.gather(*held)
        assert await workers.run("greedy", lambda: 1) == 1
        workers.close()

    run(work)


def test_failures_and_callers_that_leave_free_their_place() -> None:
    async def work() -> None:
        workers, go = pool(), threading.Event()

        def fail() -> None:
            go.wait(30)
            raise ValueError("no plan")

        failing = asyncio.create_task(workers.run("a", fail))
        gone = asyncio.create_task(workers.run("a", lambda: 1))
        await asyncio.sleep(0)
        gone.cancel()
        go.set()
        with pytest.raises(ValueError, match="no plan"):
            await failing
        leaving = asyncio.create_task(workers.run("a", go.wait, 30))
        await asyncio.sleep(0)
        leaving.cancel()
        assert await workers.run("b", lambda: 2) == 2
        while workers.under_way:
            await asyncio.sleep(0.001)
        workers.close()

    run(work)
