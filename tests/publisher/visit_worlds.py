"""Simulated sites whose sessions, rates and hours are known."""

from dataclasses import dataclass

import numpy as np

from kreach.numeric.types import IntArray
from kreach.publisher.visit_history import VisitHistory

__all__ = ["START_US", "World", "visit_world"]

START_US = 1_767_225_600_000_000  # 2026-01-01
DAY_US = 86_400_000_000
HOUR_US = DAY_US // 24


@dataclass(frozen=True, eq=False)
class World:
    """Requests in order of time, with the true session of each."""

    person: IntArray
    at_us: IntArray
    session: IntArray
    group_of: IntArray

    def history(self, seed: int = 0) -> VisitHistory:
        """As the publisher sees it: without the sessions."""
        return VisitHistory.of(self.person, self.group_of, self.at_us, seed)


def visit_world(
    people: int = 4_000,
    group_size: int = 20,
    days: float = 14.0,
    *,
    sessions_per_day: float = 0.4,
    dispersion: float = 1.0,
    requests: float = 3.0,
    gap_seconds: float = 90.0,
    hours: float | None = None,
    seed: int = 1,
) -> World:
    """People with gamma rates; a session is a geometric number of requests, gaps exponential.

    With `hours` everybody keeps to so many hours of the day, which start at a random one.
    """
    generator = np.random.default_rng(seed)
    rates = generator.gamma(dispersion, sessions_per_day / dispersion, people)
    count = generator.poisson(rates * days)
    person = np.repeat(np.arange(people), count)
    begin = generator.uniform(0.0, days * DAY_US, len(person))
    if hours is not None:
        favourite = generator.integers(0, 24, people)[person]
        inside = generator.uniform(0.0, hours, len(person))
        begin = begin // DAY_US * DAY_US + ((favourite + inside) % 24.0) * HOUR_US
    length = generator.geometric(1.0 / requests, len(person))
    session = np.repeat(np.arange(len(person)), length)
    gaps = generator.exponential(gap_seconds * 1e6, len(session))
    first = np.repeat(np.cumsum(length) - length, length) == np.arange(len(session))
    elapsed = np.cumsum(np.where(first, 0.0, gaps))
    elapsed -= np.repeat(elapsed[np.cumsum(length) - length], length)
    at_us = START_US + (begin[session] + elapsed).astype(np.int64)
    order = np.argsort(at_us, kind="stable")
    group_of = generator.permutation(people) // group_size
    return World(person[session][order], at_us[order], session[order], group_of)
