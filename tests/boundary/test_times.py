"""Windows whose ends are left open are closed at full periods."""

from datetime import UTC, datetime, timedelta

import pytest

from kreach.boundary.times import Window, start_of_period

FIRST = datetime(2026, 11, 4, 10, 20, tzinfo=UTC)  # a Wednesday
LAST = datetime(2026, 11, 9, 23, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("by", "start", "end"),
    [
        ("hour", "2026-11-04T10:00Z", "2026-11-10T00:00Z"),
        ("day", "2026-11-04", "2026-11-10"),
        ("week", "2026-11-02", "2026-11-16"),
    ],
)
def test_open_ends_are_closed_around_what_is_there(by: str, start: str, end: str) -> None:
    assert Window().holding(FIRST, LAST, by) == Window.between(start, end)


@pytest.mark.parametrize("by", ["hour", "day", "week"])
@pytest.mark.parametrize("hours", [-700.5, -1.0, 0.0, 0.25, 30.0, 500.0])
def test_an_open_start_is_that_of_a_period_before_the_end(by: str, hours: float) -> None:
    """Also where the end comes before anything that is there."""
    end = FIRST + timedelta(hours=hours)
    closed = Window(None, end).holding(FIRST, LAST, by)
    assert closed.start is not None
    assert closed.end == end
    assert closed.start < end
    assert closed.start == start_of_period(closed.start, by)
    assert closed.periods(by)[0].start == closed.start
