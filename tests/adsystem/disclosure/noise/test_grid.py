"""The grid of noisy answers: cells, points and windows, by the clock and the flight alone."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.disclosure.noise.grid import FlightGrid, flight_grid, window_in
from kreach.adsystem.reports.policy import Withheld
from kreach.adsystem.settings import NoiseSettings
from kreach.boundary.times import Window, iso_seconds
from kreach.errors import KreachError

START = datetime(2026, 11, 1, tzinfo=UTC)
DAY = 86_400
ANY_TIME = st.datetimes(
    datetime(1, 1, 2),
    datetime(9999, 12, 30),
    timezones=st.just(UTC),
)


def campaign(start: datetime, end: datetime) -> Campaign:
    return Campaign(id="spring", budget=5.0, max_cpm=5.0, start=start, end=end)


@given(
    start=ANY_TIME,
    length=st.timedeltas(timedelta(seconds=1), timedelta(days=3_000)),
    now=ANY_TIME,
    cell=st.sampled_from([600, 3_600, DAY]),
    most=st.integers(1, 200),
)
def test_points_cover_the_flight_in_at_most_so_many_steps(
    start: datetime, length: timedelta, now: datetime, cell: int, most: int
) -> None:
    if start > datetime.max.replace(tzinfo=UTC) - length:
        return
    settings = NoiseSettings(point_seconds=cell, max_points=most)
    span = flight_grid(campaign(start, start + length), settings, now.timestamp())
    assert span.first <= start.timestamp() < span.first + cell
    closed = (start + length).timestamp() + settings.closing_seconds
    assert span.last - cell < closed <= span.last
    everything = FlightGrid(cell, span.first, span.last, span.last, span.stride)
    ends = everything.due(None, span.stride)
    assert len(ends) <= most
    assert ends[-1] == span.last
    assert all(0 < b - a <= span.stride for a, b in pairwise([span.first, *ends]))
    due = span.due(None, span.stride)
    assert due == [end for end in ends if end <= now.timestamp() - settings.settle_seconds]
    if due:
        assert span.due(due[0], span.stride) == due[1:]


def told_or_withheld(span: FlightGrid, window: Window) -> tuple[int, int] | Withheld:
    try:
        return window_in(span, window)
    except Withheld as error:
        return error


@given(start=ANY_TIME, first=st.none() | ANY_TIME, last=st.none() | ANY_TIME, now=ANY_TIME)
def test_a_window_is_told_on_the_grid_or_refused_with_times_that_are(
    start: datetime, first: datetime | None, last: datetime | None, now: datetime
) -> None:
    if first is not None and last is not None and first >= last:
        return
    end = (
        min(start + timedelta(days=30), datetime.max.replace(tzinfo=UTC))
        if (start < datetime(9999, 11, 1, tzinfo=UTC))
        else start + timedelta(hours=1)
    )
    span = flight_grid(campaign(start, end), NoiseSettings(), now.timestamp())
    told = told_or_withheld(span, Window(first, last))
    if isinstance(told, Withheld):
        assert told.reason in ("not over yet", "window not of whole cells")
        assert told.allowed is not None
        assert told.allowed.start or told.allowed.end
        return
    low, high = told
    assert span.first <= low < high <= min(span.over, span.last)
    assert (low - span.first) % DAY == (high - span.first) % DAY == 0


def test_weeks_begin_on_mondays_and_hours_need_cells_of_an_hour() -> None:
    first = int(START.timestamp())  # a Sunday
    span = FlightGrid(DAY, first, first + 30 * DAY, first + 12 * DAY, DAY)
    weeks = span.periods(first, first + 12 * DAY, "week")
    assert [iso_seconds(low)[8:10] for low, _ in weeks] == ["01", "02", "09"]
    assert weeks[-1][1] == first + 12 * DAY
    assert len(span.periods(first, first + 12 * DAY, "day")) == 12
    with pytest.raises(KreachError, match="by must be one of day, week: with noise a cell has"):
        span.periods(first, first + DAY, "hour")
    hours = FlightGrid(3_600, first, first + DAY, first + DAY, 3_600).periods(
        first, first + DAY, "hour"
    )
    assert len(hours) == 24


def test_times_that_no_calendar_holds_are_shown_as_its_ends() -> None:
    assert iso_seconds(10**12) == "9999-12-31T23:59:59Z"
    assert iso_seconds(-(10**12)) == "0001-01-01T00:00:00Z"
    assert iso_seconds(0.5) == "1970-01-01T00:00:00.500000Z"
