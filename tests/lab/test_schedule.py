"""Visits that follow a schedule: each at its time, a person's own in order, prices by the seed."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from kreach.errors import KreachError
from kreach.lab.live import LiveRun
from kreach.lab.visitors import IndependentVisitors, Schedule, SiteVisitors

SPEED = 1_000.0
PEOPLE = SiteVisitors.draw(5, 1.0, seed=1)


@dataclass
class Recorded(LiveRun):
    """Records visits in place of sending them; each takes a moment."""

    seconds: float = 0.0
    started: list[tuple[int, int, float, float]] = field(default_factory=list)
    open_people: set[int] = field(default_factory=set)

    async def _visit(self, visit: Any) -> None:
        self.visits_started += 1
        assert visit.person not in self.open_people
        self.open_people.add(visit.person)
        self.started.append((visit.number, visit.person, visit.price, time.monotonic() * SPEED))
        await asyncio.sleep(self.seconds)
        self.open_people.discard(visit.person)


def clock() -> float:
    return time.monotonic() * SPEED


async def followed(
    visits: list[tuple[int, float]], seconds: float = 0.0, skip: int = 0, concurrency: int = 4
) -> Recorded:
    """Visits as person and simulated seconds from now."""
    begin = clock()
    schedule = Schedule(
        np.array([person for person, _ in visits], dtype=np.int64),
        np.array([begin + wait for _, wait in visits]),
    )
    async with Recorded(PEOPLE, "http://a", "http://b", seconds=seconds) as run:
        await run.follow(schedule, clock, SPEED, concurrency, skip=skip)
    return run


def test_visits_wait_for_their_time() -> None:
    begin = clock()
    run = asyncio.run(followed([(0, 20.0), (1, 60.0), (2, 110.0)]))
    assert [number for number, *_ in run.started] == [0, 1, 2]
    for (*_, at), due in zip(run.started, (20.0, 60.0, 110.0), strict=True):
        assert at >= begin + due


def test_visits_of_a_person_never_overlap_or_overtake() -> None:
    visits = [(person, 0.1 * at) for at, person in enumerate([0, 0, 1, 0, 1, 2, 0, 0, 3, 1])]
    run = asyncio.run(followed(visits, seconds=0.004, concurrency=6))
    for person in range(4):
        numbers = [number for number, who, *_ in run.started if who == person]
        assert numbers == [at for at, (who, _) in enumerate(visits) if who == person]
    assert len(run.started) == len(visits)
    assert run.late_seconds > 0.0  # one person's visits take longer than the schedule has


def test_a_run_that_continues_has_the_same_prices() -> None:
    visits = [(at % 5, 0.0) for at in range(12)]
    whole = asyncio.run(followed(visits))
    rest = asyncio.run(followed(visits, skip=7))
    assert [row[:3] for row in rest.started] == [row[:3] for row in whole.started][7:]
    assert asyncio.run(followed(visits, skip=20)).started == []


def test_people_with_a_schedule_are_not_drawn_one_by_one() -> None:
    async def run(people: SiteVisitors | IndependentVisitors) -> None:
        async with Recorded(people, "http://a", "http://b") as live:
            await live.run(3)

    asyncio.run(run(IndependentVisitors.draw(5, 0.8, seed=1)))
    with pytest.raises(KreachError, match="visit independently"):
        asyncio.run(run(PEOPLE))
