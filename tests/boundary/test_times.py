"""Instants, periods and windows."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.boundary.times import (
    EPOCH,
    PERIOD_LENGTH,
    PERIODS,
    Window,
    as_instant,
    from_micros,
    from_seconds,
    iso_micros,
    iso_optional,
    iso_seconds,
    iso_text,
    period_edge,
    start_of_period,
    to_micros,
)
from kreach.errors import KreachError

FIRST = datetime(2026, 11, 4, 10, 20, tzinfo=UTC)  # a Wednesday
LAST = datetime(2026, 11, 9, 23, 59, tzinfo=UTC)
INSTANTS = st.datetimes(timezones=st.just(UTC))
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
YEARS_1_AND_9999 = (-62_135_596_800, 253_402_300_799)


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


@given(INSTANTS)
def test_micros_and_instants_are_inverse(moment: datetime) -> None:
    micros = to_micros(moment)
    assert from_micros(micros) == moment
    assert to_micros(from_micros(micros)) == micros
    assert iso_micros(micros) == iso_text(moment)


@given(INSTANTS, st.integers(1, 10**9))
def test_micros_count_microseconds(moment: datetime, later: int) -> None:
    assert to_micros(EPOCH) == 0
    if moment < datetime(9999, 1, 1, tzinfo=UTC):
        assert to_micros(moment + timedelta(microseconds=later)) - to_micros(moment) == later


@given(st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=OFFSETS))
def test_micros_do_not_depend_on_the_zone(moment: datetime) -> None:
    assert to_micros(moment) == to_micros(moment.astimezone(UTC))


@given(INSTANTS)
def test_iso_text_is_read_back(moment: datetime) -> None:
    assert as_instant("ts", iso_text(moment)) == moment
    assert iso_text(moment).endswith("Z")
    assert (iso_optional(moment), iso_optional(None)) == (iso_text(moment), None)


@given(st.integers(*YEARS_1_AND_9999))
def test_seconds_agree_with_micros(seconds: int) -> None:
    assert from_seconds(seconds) == from_micros(seconds * 1_000_000)
    assert iso_seconds(seconds) == iso_micros(seconds * 1_000_000)


@pytest.mark.parametrize(("seconds", "edge"), [(-1e300, 0), (1e300, 1), (float("inf"), 1)])
def test_seconds_outside_the_calendar_are_clamped(seconds: float, edge: int) -> None:
    assert from_seconds(seconds) == from_seconds(YEARS_1_AND_9999[edge])


@given(st.integers(-(10**11) // 2, 2 * 10**11), st.sampled_from(PERIODS))
def test_a_period_edge_is_the_end_of_the_period_that_holds_the_time(seconds: int, by: str) -> None:
    end = start_of_period(from_seconds(seconds), by) + PERIOD_LENGTH[by]
    edge = period_edge(seconds, by)
    assert from_seconds(edge) == end
    assert seconds < edge
    assert period_edge(edge - 1, by) == edge


def test_an_unknown_period_has_no_edge() -> None:
    with pytest.raises(KreachError, match=r"^by must be one of hour, day, week, got 'month'$"):
        period_edge(0, "month")


@given(INSTANTS, INSTANTS, st.sampled_from(PERIODS))
def test_periods_cover_a_window_without_gaps(one: datetime, other: datetime, by: str) -> None:
    start = min(one, other)
    end = min(max(one, other), start + 50 * PERIOD_LENGTH[by])
    if start == end or end > datetime(9999, 12, 1, tzinfo=UTC):
        return
    periods = Window(start, end).periods(by)
    assert (periods[0].start, periods[-1].end) == (start, end)
    assert all(a.end == b.start for a, b in pairwise(periods))
    assert all(b.start == start_of_period(b.start, by) for b in periods[1:] if b.start)
