"""Ways to buy: what each wins, against the plain rule."""

import numpy as np
import pytest

from kreach.numeric.draws import hour_of_day
from kreach.publisher.buying import PATTERNS, spaced_rows, window_start, won_rows
from kreach.publisher.visit_history import VisitHistory
from tests.publisher.visit_worlds import HOUR_US, visit_world

HISTORY = visit_world(people=1_000, days=5.0).history()
RANDOM = np.random.default_rng(3)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("share", [0.02, 0.1, 1.0])
def test_about_the_share_is_won_once_each(pattern: str, share: float) -> None:
    rows = won_rows(HISTORY, pattern, share, np.random.default_rng(1))
    assert np.array_equal(rows, np.unique(rows))
    limited = {"spaced", "six hours", "eight hours", "first of each group"}
    if share < 1.0 or pattern not in limited:
        assert len(rows) == pytest.approx(share * len(HISTORY), rel=0.65)


def test_the_first_of_each_group() -> None:
    rows = won_rows(HISTORY, "first of each group", 0.1, RANDOM)
    for group in range(5):
        here = np.flatnonzero(HISTORY.group == group)
        won = rows[HISTORY.group[rows] == group]
        assert won.tolist() == here[: len(won)].tolist()


def test_a_burst_is_one_stretch_of_time() -> None:
    rows = won_rows(HISTORY, "burst", 0.1, RANDOM)
    low, high = HISTORY.at_us[rows].min(), HISTORY.at_us[rows].max()
    assert np.count_nonzero((HISTORY.at_us >= low) & (HISTORY.at_us <= high)) == len(rows)


@pytest.mark.parametrize(("pattern", "hours"), [("six hours", 6), ("eight hours", 8)])
def test_hours_of_the_day(pattern: str, hours: int) -> None:
    rows = won_rows(HISTORY, pattern, 0.1, RANDOM)
    assert len(np.unique(hour_of_day(HISTORY.at_us[rows]))) == hours


def test_spaced_wins_are_those_of_a_loop() -> None:
    bid = RANDOM.random(len(HISTORY)) < 0.7
    last: dict[int, int] = {}
    expected = []
    for row in np.flatnonzero(bid).tolist():
        group, now = int(HISTORY.group[row]), int(HISTORY.at_us[row])
        if now - last.get(group, -(10**18)) >= 1_800_000_000:
            expected.append(row)
            last[group] = now
    assert spaced_rows(HISTORY, bid).tolist() == expected
    assert spaced_rows(HISTORY, np.zeros(len(HISTORY), dtype=np.bool_)).size == 0


def test_windows_hold_a_win() -> None:
    won = HISTORY.where(won_rows(HISTORY, "burst", 0.02, RANDOM))
    first, last = int(HISTORY.at_us.min()), int(HISTORY.at_us.max())
    for _ in range(50):
        start = window_start(won, 2.0, first, last, RANDOM)
        assert first <= start <= last - 2 * HOUR_US
        assert len(won.between(start, start + 2 * HOUR_US + 1)) > 0
    empty = VisitHistory.of(np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64))
    assert window_start(empty, 2.0, 5, 9, RANDOM) == 5
