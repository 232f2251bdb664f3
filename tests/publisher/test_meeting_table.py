"""Pairs of sessions: against all pairs listed one by one, and on worlds that are known."""

import itertools

import numpy as np
import pytest

from kreach.numeric.meetings import PARTS, day_range
from kreach.publisher.meeting_table import (
    RANGES,
    Support,
    meeting_table,
    pairs_within,
    shrunk_meetings,
    supporters,
)
from kreach.publisher.visit_history import MIN_PEOPLE, sessions
from tests.publisher.visit_worlds import visit_world


def test_pairs_are_those_listed_one_by_one() -> None:
    generator = np.random.default_rng(2)
    owner = generator.integers(0, 30, 200)
    part = generator.integers(0, 700 * 2, 200)  # more than one block of parts
    expected = np.zeros((PARTS, PARTS, RANGES))
    people: set[tuple[int, int, int, int]] = set()
    for a, b in itertools.combinations(range(200), 2):
        if owner[a] == owner[b]:
            early, late = sorted((int(part[a]), int(part[b])))
            days = int(day_range(np.array(late // PARTS - early // PARTS)))
            expected[early % PARTS, late % PARTS, days] += 1
            people.add((int(owner[a]), early % PARTS, late % PARTS, days))
    assert np.array_equal(pairs_within(owner, part), expected)
    cells = supporters(owner, part, generator).cell
    counted = np.zeros_like(cells)
    for _, early, late, days in people:
        counted[early, late, days] += 1
    assert np.array_equal(cells, counted)


def test_nothing_has_no_pairs() -> None:
    nobody = np.zeros(0, dtype=np.int64)
    table, support = meeting_table(nobody, nobody, nobody, np.random.default_rng(1))
    assert np.array_equal(table, np.ones((PARTS, PARTS, RANGES)))
    assert support == 0


@pytest.mark.parametrize("dispersion", [0.5, 2.0])
def test_visits_without_hours_meet_as_the_dirichlet_law_says(dispersion: float) -> None:
    """(a + 1)/(ka + 1), at all hours and days apart."""
    world = visit_world(people=8_000, dispersion=dispersion, requests=1.0001, seed=5)
    _, start = sessions(world.person, world.at_us)
    group = world.group_of[world.person]
    table, support = meeting_table(
        world.person[start], group[start], world.at_us[start], np.random.default_rng(1)
    )
    expected = (dispersion + 1.0) / (20.0 * dispersion + 1.0)
    assert support >= MIN_PEOPLE
    assert table.mean() == pytest.approx(expected, rel=0.04)
    apart = table[:, :, 1:6]
    assert np.quantile(apart, [0.02, 0.98]) == pytest.approx([expected, expected], rel=0.3)


def test_people_who_keep_hours_meet_at_those_hours() -> None:
    world = visit_world(people=8_000, hours=4.0, requests=1.0001, seed=6)
    group = world.group_of[world.person]
    table, _ = meeting_table(world.person, group, world.at_us, np.random.default_rng(1))
    parts = np.arange(PARTS)
    near, far = table[parts, parts, 1].mean(), table[parts, (parts + 6) % PARTS, 1].mean()
    assert near > 4.0 * far


def test_cells_of_few_people_take_the_coarser_mean() -> None:
    """A cell with 19 people is not told from its neighbours; with 20 it is."""
    same, every = np.full((PARTS, PARTS, RANGES), 500.0), np.full((PARTS, PARTS, RANGES), 1e4)
    same[3, 5, 2] = 5_000.0
    few = Support(
        np.full(same.shape, MIN_PEOPLE - 1),
        np.full((PARTS, RANGES), MIN_PEOPLE),
        np.full(RANGES, MIN_PEOPLE),
    )
    pooled = shrunk_meetings(same, every, few)
    assert len(np.unique(pooled[np.arange(PARTS), (np.arange(PARTS) + 2) % PARTS, 2])) == 1
    enough = Support(few.cell + 1, few.difference, few.days)
    assert shrunk_meetings(same, every, enough)[3, 5, 2] == pytest.approx(0.46, abs=0.01)
    none = Support(few.cell, few.difference - 1, few.days - 1)
    assert len(np.unique(shrunk_meetings(same, every, none))) == 1


def test_cells_of_few_people_among_many_pairs_are_low() -> None:
    """Where 10,000 pairs are 19 people's at most, so much is known whoever they are."""
    same, every = np.full((PARTS, PARTS, RANGES), 500.0), np.full((PARTS, PARTS, RANGES), 1e4)
    same[3, 5, 2] = 0.0
    support = Support(
        np.full(same.shape, 250), np.full((PARTS, RANGES), 900), np.full(RANGES, 2_000)
    )
    values = []
    for people in (0, MIN_PEOPLE - 1):
        support.cell[3, 5, 2] = people
        values.append(shrunk_meetings(same, every, support)[3, 5, 2])
    assert values == pytest.approx([0.008, 0.008], abs=0.001)


def test_ranges_longer_than_history_take_over_the_last_one() -> None:
    world = visit_world(people=2_000, days=5.0)
    group = world.group_of[world.person]
    table, _ = meeting_table(world.person, group, world.at_us, np.random.default_rng(1))
    for days in range(4, RANGES):
        assert np.array_equal(table[:, :, days], table[:, :, 3])
