"""Numbers and times as text: with units and uncertainty, and a word for what is withheld."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from kreach.adsystem.reports.report import FrequencyCap
from kreach.boundary.times import DAY_SECONDS, HOUR_SECONDS

__all__ = [
    "WITHHELD",
    "cap_text",
    "count",
    "date",
    "date_time",
    "decimal",
    "flight_phase",
    "flight_text",
    "interval",
    "level",
    "money",
    "parse_time",
    "percent",
    "plural",
]

WITHHELD = "withheld"
_NBSP = "\u00a0"  # an amount and its currency stay on one line
_DAY = timedelta(days=1)
_SPANS = (
    (7 * DAY_SECONDS, "week"),
    (DAY_SECONDS, "day"),
    (HOUR_SECONDS, "hour"),
    (60, "minute"),
)


def count(value: float | None) -> str:
    """People or impressions: whole, with one decimal where an expectation is small."""
    if value is None:
        return WITHHELD
    if abs(value) < 9.95 and abs(value - round(value)) > 0.05:
        return f"{value:,.1f}"
    return f"{value:,.0f}"


def decimal(value: float | None, digits: int = 2) -> str:
    """A number that is not a count."""
    return WITHHELD if value is None else f"{value:,.{digits}f}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share as a percentage."""
    if share is None:
        return WITHHELD
    return f"{round(100.0 * share, digits) + 0.0:,.{digits}f}%"  # + 0: no minus before a zero


def money(amount: float | None, currency: str) -> str:
    """An amount with its currency; small amounts with four digits."""
    if amount is None:
        return WITHHELD
    digits = 4 if 0.0 < abs(amount) < 0.1 else 2
    return f"{amount:,.{digits}f}{_NBSP}{currency}".rstrip()


def interval(
    ends: Sequence[float] | None,
    at: float | None = None,
    write: Callable[[float], str] = count,
) -> str:
    """An interval, low to high, and its level if one is given."""
    if not ends:
        return WITHHELD
    low, high = write(ends[0]), write(ends[1])
    text = low if low == high else f"{low} to {high}"
    return text if at is None else f"{text} ({level(at)})"


def level(value: float) -> str:
    """The level of an interval: 0.95 is 95%."""
    return f"{100.0 * value:g}%"


def plural(number: float, one: str, many: str | None = None) -> str:
    """A count with its noun."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def cap_text(cap: FrequencyCap) -> str:
    """A frequency cap: 3 per person in 2 days."""
    span = cap.span_seconds
    return f"{cap.limit} per person " + ("per flight" if span is None else f"in {_span(span)}")


def _span(seconds: float) -> str:
    for size, name in _SPANS:
        if seconds >= size and seconds % size == 0.0:
            return plural(seconds / size, name)
    return f"{seconds:g} seconds"


def parse_time(text: str) -> datetime:
    """A time of a report, in UTC."""
    return datetime.fromisoformat(text).astimezone(UTC)


def date_time(value: datetime | str | None) -> str:
    """Date and time."""
    if value is None:
        return WITHHELD
    moment = parse_time(value) if isinstance(value, str) else value
    return f"{moment:%a} {moment.day} {moment:%b %Y, %H:%M}"


def date(moment: datetime) -> str:
    """The date alone."""
    return f"{moment.day} {moment:%b %Y}"


def flight_text(start: datetime, end: datetime) -> str:
    """The dates of a flight, without a repeated month or year."""
    if start.year != end.year:
        return f"{date(start)} to {date(end)}"
    month = "" if start.month == end.month else f" {start:%b}"
    return f"{start.day}{month} to {date(end)}"


def flight_phase(start: datetime, end: datetime, now: datetime) -> str:
    """When a flight starts, its current day, or when it ended."""
    if now < start:
        return f"starts {date_time(start)}"
    if now >= end:
        return f"ended {date(end)}"
    return f"day {(now - start) // _DAY + 1} of {max(-(-(end - start) // _DAY), 1)}"
