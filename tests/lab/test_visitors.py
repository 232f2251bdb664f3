"""People who visit like the readers of a news portal: the figures they were fitted to, and order.

Tolerances are several standard errors of a run of this size; the seed is fixed.
"""

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from kreach.boundary.times import DAY_SECONDS, HOUR_SECONDS
from kreach.errors import KreachError
from kreach.lab.visitors import (
    Schedule,
    SiteVisitors,
    site_days,
    write_users,
    write_visits,
)
from kreach.numeric.types import FloatArray, IntArray

MONDAY = 1_506_902_400.0  # 2 October 2017
GROUP_SIZE = 20
DAYS = 16


@cache
def portal() -> tuple[IntArray, FloatArray]:
    """Visits of 16 days by those who came at all, as numbers from 0."""
    people = SiteVisitors.draw(40_000, None, seed=3, known=False)
    visits = people.schedule(MONDAY, MONDAY + DAYS * DAY_SECONDS)
    return np.unique(visits.person, return_inverse=True)[1], visits.at_seconds


@cache
def sessions() -> tuple[IntArray, FloatArray, IntArray]:
    """Person, start and number of requests: a pause of half an hour starts a new session."""
    person, at = portal()
    order = np.lexsort((at, person))
    person, at = person[order], at[order]
    new = np.r_[True, (np.diff(person) != 0) | (np.diff(at) > 1_800.0)]
    first = np.flatnonzero(new)
    return person[first], at[first], np.diff(np.r_[first, len(person)])


def same_by_gap(person: IntArray, at: FloatArray, seconds: tuple[float, float], lags: int) -> float:
    """How often two visits of a random group, so far apart, are one person's."""
    group = np.random.default_rng(0).permutation(person.max() + 1) // GROUP_SIZE
    order = np.lexsort((at, group[person]))
    person, at = person[order], at[order]
    same, pairs = 0, 0
    for lag in range(1, lags + 1):
        gap = at[lag:] - at[:-lag]
        of_group = group[person[lag:]] == group[person[:-lag]]
        chosen = of_group & (gap >= seconds[0]) & (gap < seconds[1])
        pairs += int(chosen.sum())
        same += int((person[lag:] == person[:-lag])[chosen].sum())
    return same / pairs


def test_people_differ_as_on_the_portal() -> None:
    counts = np.sort(np.bincount(portal()[0]))
    assert counts.mean() == pytest.approx(9.3, rel=0.06)
    assert 4.0 <= np.median(counts) <= 5.0
    rank = np.arange(1, len(counts) + 1)
    gini = 2.0 * (rank * counts).sum() / (len(counts) * counts.sum()) - 1.0
    assert gini == pytest.approx(0.56, abs=0.02)
    number = np.sort(np.bincount(sessions()[0]))
    assert (number == 1).mean() == pytest.approx(0.41, abs=0.02)
    assert number[-len(number) // 20 :].sum() / number.sum() == pytest.approx(0.26, abs=0.03)


def test_sessions_are_as_long_as_on_the_portal() -> None:
    requests = sessions()[2]
    assert requests.mean() == pytest.approx(2.7, abs=0.15)
    assert (requests == 2).mean() == pytest.approx(0.60, abs=0.03)
    assert (requests >= 10).mean() == pytest.approx(0.008, abs=0.003)


@pytest.mark.parametrize(
    ("minutes", "portal_share", "tolerance"),
    [((0, 1), 0.93, 0.07), ((1, 5), 0.92, 0.03), ((5, 10), 0.80, 0.05), ((10, 20), 0.54, 0.11)],
)
def test_a_request_soon_after_another_is_mostly_the_same_persons(
    minutes: tuple[int, int], portal_share: float, tolerance: float
) -> None:
    seconds = (60.0 * minutes[0], 60.0 * minutes[1])
    assert same_by_gap(*portal(), seconds, 1) == pytest.approx(portal_share, abs=tolerance)


@pytest.mark.parametrize(
    ("hours", "portal_share"),
    [(1, 0.17), (6, 0.12), (12, 0.08), (18, 0.11), (24, 0.21), (48, 0.19), (168, 0.20)],
)
def test_people_keep_their_hours(hours: int, portal_share: float) -> None:
    seconds = ((hours - 0.5) * HOUR_SECONDS, (hours + 0.5) * HOUR_SECONDS)
    person, at, _ = sessions()
    assert same_by_gap(person, at, seconds, 120) == pytest.approx(portal_share, abs=0.06)


def test_nights_and_weekends_are_quiet() -> None:
    at = portal()[1] - MONDAY
    by_hour = np.bincount((at % DAY_SECONDS // HOUR_SECONDS).astype(int), minlength=24)
    assert by_hour[3:6].sum() < 0.1 * by_hour[14:17].sum()
    by_day = np.bincount((at // DAY_SECONDS).astype(int))
    assert by_day[5:7].sum() == pytest.approx(by_day[1:3].sum() * 0.55 / 1.2, rel=0.1)
    week = 7.0 * DAY_SECONDS
    assert site_days(MONDAY, MONDAY + week) == pytest.approx(7.0)
    hours = [MONDAY + 5_000.0 + HOUR_SECONDS * hour for hour in (0, 7, 100, 168)]
    parts = [site_days(a, b) for a, b in pairwise(hours)]
    assert sum(parts) == pytest.approx(7.0)
    night = site_days(MONDAY + 3 * HOUR_SECONDS, MONDAY + 6 * HOUR_SECONDS)
    assert night == pytest.approx(1.2 * (0.6 + 0.5 + 0.5) / 99.9)


def test_overlapping_stretches_share_their_visits() -> None:
    people = SiteVisitors.draw(500, 1.0, seed=9)
    whole = people.schedule(MONDAY, MONDAY + 5 * DAY_SECONDS)
    middle = MONDAY + 1.4 * DAY_SECONDS
    later = SiteVisitors.draw(500, 1.0, seed=9).schedule(middle, MONDAY + 5 * DAY_SECONDS)
    tail = whole.at_seconds >= middle
    assert np.diff(whole.at_seconds).min() >= 0.0
    np.testing.assert_array_equal(whole.person[tail], later.person)
    np.testing.assert_array_equal(whole.at_seconds[tail], later.at_seconds)
    other = SiteVisitors.draw(500, 1.0, seed=10).schedule(middle, MONDAY + 5 * DAY_SECONDS)
    assert other.at_seconds.tolist() != later.at_seconds.tolist()


def test_rates_are_scaled_to_the_visits_asked_for() -> None:
    people = SiteVisitors.draw(20_000, 0.8, seed=2)
    visits = people.schedule(MONDAY, MONDAY + 21 * DAY_SECONDS)
    assert len(visits.person) / 20_000 == pytest.approx(0.8 * 21, rel=0.03)
    came = np.bincount(visits.person, minlength=20_000) > 0
    assert 0.8 < came.mean() < 1.0
    with pytest.raises(KreachError, match="visits_per_day"):
        SiteVisitors.draw(10, 0.0, seed=1)


def test_files_of_users_and_visits(tmp_path: Path) -> None:
    visits = Schedule(np.array([1, 0]), np.array([MONDAY, MONDAY + 1.5]))
    write_visits(tmp_path / "visits.csv", ("a", "b"), visits)
    assert (tmp_path / "visits.csv").read_text().splitlines() == [
        "user_id,ts",
        "b,2017-10-02T00:00:00Z",
        "a,2017-10-02T00:00:01.500000Z",
    ]
    write_users(tmp_path / "users.csv", ("a", "b"))
    assert (tmp_path / "users.csv").read_text() == "user_id\na\nb\n"
