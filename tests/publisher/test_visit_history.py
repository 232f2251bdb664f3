"""Sessions, odds, traffic and lengths, counted by hand and on worlds that are known."""

import numpy as np
import pytest

from kreach.errors import KreachError
from kreach.numeric.draws import draw_shares
from kreach.publisher.visit_history import (
    GAP_EDGES_SECONDS,
    MIN_PEOPLE,
    SESSION_GAP_US,
    VisitHistory,
    continuation_odds,
    hourly_traffic,
    requests_per_session,
    round_steps,
    sessions,
)
from tests.publisher.visit_worlds import HOUR_US, START_US, visit_world

EDGES_US = np.round(np.array(GAP_EDGES_SECONDS) * 1e6).astype(np.int64)


def test_sessions_end_after_an_hour_without_a_request() -> None:
    person = np.array([0, 1, 0, 0, 1])
    at_us = np.array([0, 5, SESSION_GAP_US - 1, 2 * SESSION_GAP_US - 1, 6])
    session, start = sessions(person, at_us)
    assert session[0] == session[2] != session[3]
    assert session[1] == session[4]
    assert start.tolist() == [True, True, False, True, False]


def test_true_sessions_are_found() -> None:
    world = visit_world(people=1_000, sessions_per_day=0.1)
    session, start = sessions(world.person, world.at_us)
    true = len(np.unique(world.session))
    assert len(np.unique(session)) == int(start.sum()) == pytest.approx(true, rel=0.02)


@pytest.mark.parametrize("share", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("group_size", [5, 20, 100])
def test_effective_draws_are_the_sessions_won(share: float, group_size: int) -> None:
    """Of won requests at random, Σ of the shares of a draw = the number of true sessions."""
    world = visit_world(group_size=group_size, seed=3)
    history = world.history()
    session, _ = sessions(history.person, history.at_us)
    traffic = hourly_traffic(history)
    generator = np.random.default_rng(1)
    lags = 6 if group_size > 50 else 3
    odds, support = continuation_odds(history, session, traffic, lags, generator)
    assert support >= MIN_PEOPLE
    won = generator.random(len(history)) < share
    draws = draw_shares(history.group[won], history.at_us[won], EDGES_US, odds, traffic).sum()
    assert draws == pytest.approx(len(np.unique(session[won])), rel=0.03)


def test_odds_of_short_gaps_are_the_ratio_of_the_hazards() -> None:
    """Own request after g: q/m · e^(−g/m)/(1 − q + q e^(−g/m)); others: their rate. g → 0."""
    requests, gap = 4.0, 240.0
    world = visit_world(requests=requests, gap_seconds=gap, sessions_per_day=1.0, dispersion=1e4)
    history = world.history()
    session, _ = sessions(history.person, history.at_us)
    odds, _ = continuation_odds(history, session, np.ones(24), 1, np.random.default_rng(1))
    others = 19 * 1.0 * requests / 86_400.0
    expected = (1.0 - 1.0 / requests) / gap / others
    assert odds[0, 0] == pytest.approx(expected, rel=0.15)
    assert odds[0, -1] < 0.05 * expected


def test_rare_cells_have_no_odds() -> None:
    """19 people who click twice within a second, alone in their groups, are not told."""
    for people, told in ((MIN_PEOPLE - 1, False), (MIN_PEOPLE, True)):
        person = np.repeat(np.arange(people), 6)
        at_us = np.tile(np.array([0, 1, 2, 3, 4, 5]) * 1_000_000, people)
        history = VisitHistory.of(person, np.arange(100), START_US + at_us)
        session, _ = sessions(history.person, history.at_us)
        odds, support = continuation_odds(
            history, session, np.ones(24), 1, np.random.default_rng(1)
        )
        assert bool(odds.any()) is told
        assert support == (people if told else 0)


def test_gaps_of_few_people_are_pooled() -> None:
    """15 people who click after 10 s and 15 others after 40 s have one odds between them."""
    person = np.repeat(np.arange(30), 8)
    step = np.where(person < 15, 10, 40) * np.tile(np.arange(8), 30)
    history = VisitHistory.of(person, np.arange(100), START_US + step * 1_000_000)
    session, _ = sessions(history.person, history.at_us)
    odds, support = continuation_odds(history, session, np.ones(24), 1, np.random.default_rng(1))
    assert odds[0, 0] == odds[0, 1] > 0.0
    assert support == 30


def test_traffic_by_hour() -> None:
    person = np.arange(300)
    hour = np.repeat([3, 4, 4], 100)
    history = VisitHistory.of(person, person // 20, START_US + hour * HOUR_US)
    traffic = hourly_traffic(history)
    assert traffic[3] == pytest.approx(8.0, rel=0.03)
    assert traffic[4] == pytest.approx(16.0, rel=0.03)
    assert (np.delete(traffic, [3, 4]) == 0.02).all()


def test_hours_of_few_people_are_pooled() -> None:
    """One person who alone comes at 2 and another at 5 cannot be told apart."""
    person = np.concatenate([np.zeros(10, np.int64), np.ones(40, np.int64), np.arange(100)])
    hour = np.concatenate([np.full(10, 2), np.full(40, 5), np.full(100, 12)])
    history = VisitHistory.of(person, np.arange(100) // 20, START_US + hour * HOUR_US)
    traffic = hourly_traffic(history)
    assert traffic[2] == traffic[5] == traffic[0]


def test_requests_per_session_by_hand() -> None:
    session = np.concatenate([np.arange(100), np.arange(100), np.arange(25)])
    pmf = requests_per_session(session.copy(), session)
    assert pmf == pytest.approx([0.0, 0.75, 0.25], abs=0.005)


def test_long_sessions_of_few_people_are_pooled() -> None:
    lengths = [1] * 100 + [2] * 30 + [7] * 10 + [50] * 5  # the last 15 go with those of 2
    session = np.repeat(np.arange(len(lengths)), lengths)
    pmf = requests_per_session(session, session)
    pooled = round((30 * 2 + 10 * 7 + 5 * 50) / 45)
    assert np.flatnonzero(pmf).tolist() == [0, pooled - 1]
    assert pmf.sum() == pytest.approx(1.0, abs=1e-12)
    one_person = requests_per_session(np.zeros_like(session), session)
    assert np.count_nonzero(one_person) == 1


def test_rounding_is_to_steps_of_six_percent() -> None:
    values = np.array([0.0, 1.23456, 0.000123456, 98765.0])
    assert round_steps(values).tolist() == [0.0, 1.259, 0.0001259, 100_000.0]
    spread = np.geomspace(1e-6, 1e6, 1_000)
    assert np.abs(round_steps(spread) / spread - 1.0).max() < 0.03


def test_chances_are_uniform_and_stay_with_the_person() -> None:
    world = visit_world(people=2_000)
    history = world.history()
    chances = history.chances(np.random.default_rng(5))
    assert abs(chances.mean() - 0.5) < 4.0 / np.sqrt(12.0 * len(chances))
    assert abs(np.corrcoef(chances[1:], chances[:-1])[0, 1]) < 4.0 / np.sqrt(len(chances))
    stays = world.person != 7
    fewer = VisitHistory.of(world.person[stays], world.group_of, world.at_us[stays])
    assert np.array_equal(fewer.chances(np.random.default_rng(5)), chances[history.person != 7])


def test_requests_of_one_instant_come_in_random_order() -> None:
    """A log of days, listed by person, does not say that neighbours are one person."""
    person = np.repeat(np.arange(2_000), 2)
    history = VisitHistory.of(person, np.arange(2_000) // 20, np.full(4_000, START_US))
    beside = np.count_nonzero(np.diff(history.person) == 0)
    assert beside == pytest.approx(4_000 / 39 / 1.03, rel=0.4)


def test_bad_input() -> None:
    with pytest.raises(KreachError, match=r"at_us must have one entry per request \(2\), got 1"):
        VisitHistory.of(np.array([0, 1]), np.zeros(2, np.int64), np.array([0]))
    with pytest.raises(KreachError, match="person must be people with a group"):
        VisitHistory.of(np.array([2]), np.zeros(2, np.int64), np.array([0]))


def test_one_person_alone_in_an_hour_does_not_show() -> None:
    """However often she comes then: the hour counts as without visits."""
    everybody = np.arange(100)
    for often in (1, 800):
        person = np.concatenate([np.tile(everybody, 23), np.zeros(often, np.int64)])
        hour = np.concatenate([np.repeat(np.delete(np.arange(24), 3), 100), np.full(often, 3)])
        history = VisitHistory.of(person, everybody // 20, START_US + hour * HOUR_US)
        assert hourly_traffic(history)[3] == 0.02


def test_short_sessions_of_few_people_join_the_last_pool() -> None:
    session = np.concatenate([np.repeat(np.arange(100), 2), [100, 101]])
    pmf = requests_per_session(session.copy(), session)
    assert pmf.tolist() == [0.0, 1.0]
