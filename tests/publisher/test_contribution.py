"""Nobody counts for more than the twentieth: limits by hand, and crawlers."""

import numpy as np

from kreach.numeric.types import IntArray
from kreach.publisher.contribution import bound_contributions
from kreach.publisher.visit_history import VisitHistory
from tests.publisher.visit_worlds import START_US, World, visit_world

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US


def history_of(person: IntArray, at_us: IntArray, people: int = 100) -> VisitHistory:
    return VisitHistory.of(person, np.arange(people) // 20, START_US + at_us)


def with_visits(world: World, person: int, at_us: IntArray) -> VisitHistory:
    whose = np.concatenate([world.person, np.full(len(at_us), person)])
    return VisitHistory.of(whose, world.group_of, np.concatenate([world.at_us, at_us]))


def test_a_site_of_like_people_loses_nothing() -> None:
    person = np.repeat(np.arange(100), 4)
    at_us = np.tile(np.array([0, 60_000_000, 5 * HOUR_US, 9 * HOUR_US]), 100)
    history = history_of(person, at_us)
    assert len(bound_contributions(history)) == len(history)


def test_history_begins_and_ends_when_twenty_people_have_come() -> None:
    person = np.arange(100)
    history = history_of(np.tile(person, 2), np.concatenate([person, 1_000 + person]) * HOUR_US)
    found = bound_contributions(history).at_us - START_US
    assert found.min() == 19 * HOUR_US
    assert found.max() == 1_080 * HOUR_US


def test_fewer_than_twenty_people_leave_nothing() -> None:
    assert len(bound_contributions(history_of(np.arange(19), np.arange(19)))) == 0
    assert len(bound_contributions(history_of(np.zeros(0, np.int64), np.zeros(0, np.int64)))) == 0


def test_limits_are_the_next_round_number_from_what_twenty_people_reach() -> None:
    """Twenty people had seven requests in a session, one had fifty: eight are left of hers."""
    counts = np.array([50] + [7] * 20 + [1] * 79)
    person = np.repeat(np.arange(100), counts)
    turn = np.arange(len(person)) - np.repeat(np.cumsum(counts) - counts, counts)
    history = history_of(person, (np.where(turn < 7, turn, turn / 100) * 60e6).astype(np.int64))
    left = np.bincount(bound_contributions(history).person)
    assert left[:21].tolist() == [8] + [7] * 20
    assert left[21:].sum() > 0


def test_a_crawler_counts_as_one_of_the_busiest() -> None:
    world = visit_world(seed=21)
    crawls = START_US + np.arange(0, 14 * DAY_US, HOUR_US // 4)
    history = bound_contributions(with_visits(world, 17, crawls))
    visits = np.bincount(history.person)
    assert visits[17] <= 2 * np.sort(visits)[-20]
    sessions_of_others = np.bincount(world.person)
    others = np.arange(len(visits)) != 17
    assert visits[others].sum() > 0.97 * sessions_of_others[others].sum()


def test_one_person_more_hardly_moves_what_is_left_of_others() -> None:
    world = visit_world(seed=21)
    with_crawler = bound_contributions(with_visits(world, 17, START_US + 5 * np.arange(100)))
    without = bound_contributions(world.history())
    keys = [history.key[history.person != 17] for history in (with_crawler, without)]
    assert len(np.setxor1d(*keys)) < 0.001 * len(without)
