"""Effective draws and calendars against plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.numeric.draws import HOUR_US, draw_shares, gap_odds, hour_of_day, sum_by
from kreach.numeric.meetings import (
    DAY_EDGES,
    PARTS,
    calendar,
    crowded_meeting,
    day_range,
    mean_meeting,
    meeting_at,
    pair_weights,
)

EDGES_US = np.array([30_000_000, 600_000_000, 3_600_000_000])
seeds = st.integers(0, 2**32 - 1)


def test_gaps_fall_below_their_edge_and_beyond_the_last_into_nothing() -> None:
    gaps = np.array([0, 29_999_999, 30_000_000, 599_999_999, 3_599_999_999, 3_600_000_000])
    assert gap_odds(gaps, EDGES_US, np.array([5.0, 2.0, 1.0])).tolist() == [5, 5, 2, 2, 1, 0]


@given(seeds, st.integers(1, 4), st.integers(0, 40))
def test_shares_of_a_draw_by_a_plain_loop(seed: int, lags: int, rows: int) -> None:
    generator = np.random.default_rng(seed)
    group = np.sort(generator.integers(3, size=rows))
    at_us = generator.integers(0, 5 * HOUR_US, size=rows)
    order = np.lexsort((at_us, group))
    group, at_us = group[order], at_us[order]
    odds = generator.exponential(2.0, (lags, 3))
    traffic = generator.uniform(0.2, 2.0, 24)
    ours = draw_shares(group, at_us, EDGES_US, odds, traffic)
    for row in range(rows):
        share, tau = 1.0, traffic[int(at_us[row] // HOUR_US % 24)]
        for lag in range(1, lags + 1):
            before = row - lag
            if before < 0 or group[before] != group[row]:
                continue
            gap = int(at_us[row] - at_us[before])
            column = sum(gap >= edge for edge in EDGES_US.tolist())
            o = odds[lag - 1][column] if column < 3 else 0.0
            share *= 1.0 - o / (o + tau)
        assert ours[row] == pytest.approx(share, rel=1e-12)


def test_hours_and_sums() -> None:
    assert hour_of_day(np.array([0, HOUR_US - 1, 25 * HOUR_US])).tolist() == [0, 0, 1]
    assert sum_by(np.array([2, 0, 2]), np.array([0.5, 1.0, 0.25]), 4).tolist() == [1, 0, 0.75, 0]


def test_days_apart_by_range() -> None:
    days = np.array([0, 1, 2, 3, 6, 7, 8, 13, 14, 27, 28, 55, 56, 400])
    assert day_range(days).tolist() == [0, 1, 2, 3, 3, 4, 5, 5, 6, 6, 7, 7, 8, 8]


@given(seeds, st.integers(1, 12))
def test_pairs_of_draws_by_a_double_loop(seed: int, rows: int) -> None:
    generator = np.random.default_rng(seed)
    part = np.sort(generator.integers(1000, 1000 + 20 * PARTS, size=rows))
    draws = generator.uniform(0.1, 3.0, rows)
    meeting = generator.uniform(0.0, 1.0, (PARTS, PARTS, len(DAY_EDGES) + 1))
    cells: dict[int, float] = {}
    for p, d in zip(part.tolist(), draws.tolist(), strict=True):
        cells[p] = cells.get(p, 0.0) + d
    wanted = np.zeros_like(meeting)
    listed = sorted(cells.items())
    for i, (early, first) in enumerate(listed):
        for j, (late, second) in enumerate(listed[i:], start=i):
            apart = late // PARTS - early // PARTS
            pairs = first * second * (0.5 if i == j else 1.0)
            wanted[early % PARTS, late % PARTS, sum(apart >= e for e in DAY_EDGES)] += pairs
    days = calendar(part, draws)
    assert days.sum() == pytest.approx(draws.sum())
    assert pair_weights(days) == pytest.approx(wanted, abs=1e-9)
    expected = (wanted * meeting).sum() / wanted.sum()
    assert mean_meeting(meeting, days) == pytest.approx(expected, rel=1e-9)


@given(seeds, st.integers(2, 30))
def test_pairs_with_each_new_draw_are_all_pairs(seed: int, rows: int) -> None:
    """What a stream adds up draw by draw is the mean over pairs of the whole campaign."""
    generator = np.random.default_rng(seed)
    part = np.sort(generator.integers(500, 500 + 5 * PARTS, size=rows))
    meeting = generator.uniform(0.0, 1.0, (PARTS, PARTS, len(DAY_EDGES) + 1))
    one_by_one = sum(
        i * meeting_at(meeting, part[:i], np.ones(i), int(part[i])) for i in range(1, rows)
    )
    pairs = 0.0
    for i in range(rows):
        for j in range(i):
            days = day_range(part[i : i + 1] // PARTS - part[j] // PARTS)[0]
            pairs += meeting[part[j] % PARTS, part[i] % PARTS, days]
    assert one_by_one == pytest.approx(pairs, rel=1e-10)


def test_without_draws() -> None:
    meeting = np.random.default_rng(0).uniform(size=(PARTS, PARTS, len(DAY_EDGES) + 1))
    none = np.zeros(0, dtype=np.int64)
    assert calendar(none, np.zeros(0)).shape == (0, PARTS)
    assert mean_meeting(meeting, calendar(none, np.zeros(0))) == pytest.approx(meeting.mean())
    assert meeting_at(meeting, none, np.zeros(0), 5 + 7 * PARTS) == meeting[5, 5, 0]


def test_more_people_meet_less_often() -> None:
    c = np.array([0.1, 0.5, 1.0, 0.0])
    assert crowded_meeting(c, 1.0) == pytest.approx(c)
    assert crowded_meeting(c, 2.0) == pytest.approx([0.1 / 1.9, 1.0 / 3.0, 1.0, 0.0])
