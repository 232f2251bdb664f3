"""The hours or days that a run covers."""

from datetime import datetime

from kreach.adsystem.jobs.reach import Period
from kreach.boundary.checks import as_whole_number
from kreach.boundary.times import PERIOD_LENGTH, Window, as_instant, start_of_period
from kreach.errors import KreachError

__all__ = ["chosen_periods"]

_MAX_PERIODS = 10_000
_LAST_YEAR = 9998
_LIKE = {"hour": "an hour in UTC, such as 2026-11-01T13", "day": "a day in UTC, such as 2026-11-01"}


def chosen_periods(
    by: str,
    now: datetime,
    *,
    at: str | None = None,
    start: str | None = None,
    end: str | None = None,
    last: int | None = None,
) -> list[Period]:
    """The period `at`, those in [start, end), or the `last` full ones; else the last full one.

    Without `end` the last is the last full one.

    >>> from datetime import UTC
    >>> now = datetime(2026, 11, 2, 0, 20, tzinfo=UTC)
    >>> [period.start.isoformat() for period in chosen_periods("hour", now, last=2)]
    ['2026-11-01T22:00:00+00:00', '2026-11-01T23:00:00+00:00']
    """
    length, full = PERIOD_LENGTH[by], start_of_period(now, by)
    ways = {by: at, "from/to": start or end, "last": last}
    given = [way for way, value in ways.items() if value is not None]
    if len(given) > 1:
        raise KreachError.rule(given[0], "be given alone", f"{' and '.join(given)} together")
    if at is not None:
        begins = _edge(by, by, at)
        return [Period(begins, begins + length, by)]
    if last is not None:
        count = as_whole_number("last", last, minimum=1, maximum=_MAX_PERIODS)
        window = Window(full - count * length, full)
    elif start is None and end is None:
        window = Window(full - length, full)
    else:
        window = _stretch(by, start, end, full)
    return [Period(*_closed(one), by) for one in window.periods(by)]


def _stretch(by: str, start: str | None, end: str | None, full: datetime) -> Window:
    if start is None:
        raise KreachError.rule("from", "be given with to", "none")
    first = _edge("from", by, start)
    last = full if end is None else _edge("to", by, end)
    if first >= last:
        rule = f"come after from ({first:%Y-%m-%dT%H:%MZ})"
        raise KreachError.rule("to", rule, f"{last:%Y-%m-%dT%H:%MZ}")
    return Window(first, last)


def _edge(name: str, by: str, text: str) -> datetime:
    moment = as_instant(name, text)
    if moment is None or start_of_period(moment, by) != moment:
        raise KreachError.rule(name, f"be the start of {_LIKE[by]}", text)
    if moment.year > _LAST_YEAR:
        raise KreachError.rule(name, f"lie before the year {_LAST_YEAR + 1}", text)
    return moment


def _closed(window: Window) -> tuple[datetime, datetime]:
    assert window.start is not None
    assert window.end is not None
    return window.start, window.end
