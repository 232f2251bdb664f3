"""Fitting how often the next request of a group is the same person's, from history."""

import numpy as np
import numpy.typing as npt
import pytest

import kreach as kr
from kreach.boundary.recency import RecencyTable
from kreach.errors import KreachError
from kreach.publisher.directory import Visits
from kreach.publisher.recency import DEFAULT_EDGES_SECONDS, fit_recency

IntArray = npt.NDArray[np.int64]

EDGES = (60.0, 3_600.0)
SESSIONS = RecencyTable(EDGES, (0.9, 0.4, 0.05))


def world(
    groups: int, size: int, visits: int, table: RecencyTable, seed: int
) -> tuple[Visits, IntArray]:
    """Each visit is the previous visitor's with the chance of its gap, else anybody's."""
    generator = np.random.default_rng(seed)
    who: list[int] = []
    when: list[int] = []
    for group in range(groups):
        now, last = int(generator.integers(1_000_000)), int(generator.integers(size))
        for gap in np.exp(generator.uniform(np.log(5.0), np.log(40_000.0), size=visits)).tolist():
            now += int(gap * 1e6)
            if generator.random() >= table.same(int(gap * 1e6) / 1e6):
                last = int(generator.integers(size))
            who.append(group * size + last)
            when.append(now)
    order = np.argsort(when, kind="stable")
    group_of = np.repeat(np.arange(groups), size)
    return Visits(np.array(who)[order], np.array(when)[order]), group_of


def test_a_simulated_table_is_recovered() -> None:
    """20 groups of 400, 600 visits each: some 3,000 pairs or more in a range, standard error at
    most 0.009; z-tolerance 4.5, and 0.003 for meeting the same of 400 people by chance."""
    visits, group_of = world(20, 400, 600, SESSIONS, 11)
    table = fit_recency(visits, group_of, EDGES)
    assert table.edges_seconds == EDGES
    assert table.same_visitor == pytest.approx(SESSIONS.same_visitor, abs=4.5 * 0.009 + 0.003)


@pytest.mark.parametrize("size", [2, 5, 20])
def test_visits_without_sessions_leave_the_value_as_it_is(size: int) -> None:
    """Independent visits meet the same person by chance, 1 in k times. A valuation that uses the
    fitted table must not count that twice: after a win the next request is worth 1 − 1/k."""
    visits, group_of = world(30, size, 400, RecencyTable(EDGES, (0.0, 0.0, 0.0)), 12)
    fitted = fit_recency(visits, group_of, EDGES)
    valuation = kr.RecencyValuation(kr.Audience.disjoint([size]), 1, fitted)
    valuation.probability(0, 0.0)
    valuation.record(0, 0.0)
    assert valuation.probability(0, 30.0) == pytest.approx(1.0 - 1.0 / size, abs=0.03)


def test_by_hand() -> None:
    """Two groups; gaps count within a group only, in the order of time."""
    second = 1_000_000
    group_of = np.array([0, 0, 1])
    visits = Visits(
        np.array([0, 2, 0, 1, 2]), np.array([0, 5, 10, 100, 4_000], dtype=np.int64) * second
    )
    # group 0: user 0, user 0 (gap 10), user 1 (gap 90); group 1: user 2, user 2 (gap 3,995)
    table = fit_recency(visits, group_of, EDGES, prior_pairs=1.0)
    overall = 2 / 3
    met = ((1 + overall) / 2, (0 + overall) / 2, (1 + overall) / 2)
    # by chance: 2/6 of the pairs of group 0, all of group 1; two and one successive pairs
    chance = (2 * (2 / 6) + 1 * 1) / 3
    assert table.same_visitor == pytest.approx(
        tuple(max(0.0, (share - chance) / (1 - chance)) for share in met)
    )


def test_ranges_without_pairs_take_the_overall_share() -> None:
    visits, group_of = world(3, 10, 50, SESSIONS, 13)
    table = fit_recency(visits, group_of, (60.0, 1e6, 1e7))
    assert table.same_visitor[2] == table.same_visitor[3]
    assert min(table.same_visitor[:2]) <= table.same_visitor[2] <= max(table.same_visitor[:2])


def test_few_pairs_are_drawn_to_the_overall_share() -> None:
    visits, group_of = world(3, 10, 50, SESSIONS, 14)
    spread = []
    for prior in (1e-9, 20.0, 1e9):
        shares = fit_recency(visits, group_of, EDGES, prior_pairs=prior).same_visitor
        spread.append(max(shares) - min(shares))
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] < 1e-6


def test_default_ranges() -> None:
    visits, group_of = world(5, 50, 100, SESSIONS, 15)
    table = fit_recency(visits, group_of)
    assert table.edges_seconds == DEFAULT_EDGES_SECONDS
    assert len(table.same_visitor) == len(DEFAULT_EDGES_SECONDS) + 1
    assert table.same_visitor[0] > table.same_visitor[-1]


def test_nobody_ever_meets() -> None:
    """One visit a group: there is no pair to learn from, and so no session is assumed."""
    visits = Visits(np.array([0, 1, 2]), np.array([1, 2, 3], dtype=np.int64))
    table = fit_recency(visits, np.array([0, 1, 2]), EDGES)
    assert table.same_visitor == (0.0, 0.0, 0.0)


def test_what_crosses_is_the_same_whoever_the_people_are() -> None:
    """Renaming people within their groups changes nothing."""
    visits, group_of = world(4, 6, 100, SESSIONS, 16)
    renamed = np.arange(24).reshape(4, 6)[:, ::-1].ravel()
    other = Visits(renamed[visits.user], visits.at_us)
    assert fit_recency(other, group_of) == fit_recency(visits, group_of)


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_visits_are_refused(count: int) -> None:
    visits = Visits(np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64))
    with pytest.raises(KreachError, match=rf"^visits must hold at least two visits, got {count}"):
        fit_recency(visits, np.zeros(1, dtype=np.int64))


def test_impossible_ranges_are_refused() -> None:
    visits, group_of = world(2, 3, 10, SESSIONS, 17)
    with pytest.raises(KreachError, match=r"^edges_seconds must rise from above 0, got"):
        fit_recency(visits, group_of, (60.0, 30.0))
