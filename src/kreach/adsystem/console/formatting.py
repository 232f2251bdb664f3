"""Numbers as the pages write them: with units, with uncertainty, and with a word for none."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = [
    "NONE",
    "between",
    "cap_words",
    "count",
    "day",
    "decimal",
    "flight_words",
    "interval",
    "level",
    "moment",
    "moment_of",
    "money",
    "percent",
    "phase",
    "plural",
    "utc_text",
]

NONE = "not told"
_GAP = "\u00a0"  # a number and its unit stay on one line


def count(value: float | None) -> str:
    """People or impressions: whole, but with a digit more where an expectation is small."""
    if value is None:
        return NONE
    if abs(value) < 9.95 and abs(value - round(value)) > 0.05:
        return f"{value:,.1f}"
    return f"{value:,.0f}"


def decimal(value: float | None, digits: int = 2) -> str:
    """A number that is no count."""
    return NONE if value is None else f"{value:,.{digits}f}"


def percent(share: float | None, digits: int = 1) -> str:
    """A share as a percentage."""
    if share is None:
        return NONE
    return f"{round(100.0 * share, digits) + 0.0:,.{digits}f}{_GAP}%"  # + 0: no minus before a zero


def money(amount: float | None, currency: str) -> str:
    """An amount with its currency; small amounts with four digits."""
    if amount is None:
        return NONE
    digits = 4 if 0.0 < abs(amount) < 0.1 else 2
    return f"{amount:,.{digits}f}{_GAP}{currency}".rstrip()


def between(ends: Sequence[float] | None, write: Any = count) -> str:
    """An interval: low to high."""
    if not ends:
        return NONE
    low, high = write(ends[0]), write(ends[1])
    return low if low == high else f"{low} to {high}"


def interval(ends: Sequence[float] | None, at: float | None, write: Any = count) -> str:
    """An interval and its level."""
    return NONE if not ends else f"{between(ends, write)} ({level(at)})"


def level(value: float | None) -> str:
    """The level of an interval: 0.95 is 95 %."""
    return NONE if value is None else f"{100.0 * value:g}{_GAP}%"


def plural(number: float, one: str, more: str | None = None) -> str:
    """A count with its noun."""
    return f"{count(number)} {one if number == 1 else more or one + 's'}"


def cap_words(cap: dict[str, Any]) -> str:
    """A frequency cap in words."""
    span = cap.get("span_seconds")
    within = "in the flight" if span is None else f"in {_span(float(span))}"
    return f"at most {cap['limit']} {within}"


def _span(seconds: float) -> str:
    for size, name in ((604_800.0, "week"), (86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute")):
        if seconds >= size and seconds % size == 0.0:
            return plural(seconds / size, name)
    return f"{seconds:g} seconds"


def moment_of(text: str) -> datetime:
    """A time as documents write it."""
    return datetime.fromisoformat(text).astimezone(UTC)


def moment(value: datetime | str | None) -> str:
    """Day and time."""
    if value is None:
        return NONE
    found = moment_of(value) if isinstance(value, str) else value
    return f"{found:%a} {found.day} {found:%b %Y, %H:%M}"


def day(value: datetime | str) -> str:
    """The day alone."""
    found = moment_of(value) if isinstance(value, str) else value
    return f"{found.day} {found:%b %Y}"


def flight_words(start: datetime, end: datetime) -> str:
    """The days of a flight, without saying anything twice."""
    if (start.year, start.month) == (end.year, end.month):
        return f"{start.day} to {day(end)}"
    return (
        f"{start.day} {start:%b} to {day(end)}"
        if start.year == end.year
        else (f"{day(start)} to {day(end)}")
    )


def utc_text(value: datetime) -> str:
    """A time as documents write it, to the second."""
    return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def phase(start: datetime, end: datetime, now: datetime) -> str:
    """Where a flight stands: before, on which day, or over."""
    if now < start:
        return f"starts {moment(start)}"
    days = max(-(-(end - start) // timedelta(days=1)), 1)
    if now >= end:
        return f"since {day(end)}"
    return f"day {(now - start) // timedelta(days=1) + 1} of {days}"
