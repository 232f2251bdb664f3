"""Times and windows. Everything is UTC, and windows are half-open: [start, end)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from kreach.errors import KreachError

__all__ = ["PERIODS", "Window", "as_instant", "as_period", "iso_text"]

PERIODS = ("hour", "day", "week")
_MAX_PERIODS = 10_000
_LENGTH = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}


def as_instant(name: str, value: object) -> datetime | None:
    """A time in UTC from a datetime or ISO text; without a zone it is UTC; None stays None."""
    if value is None:
        return None
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
    if not isinstance(moment, datetime):
        raise KreachError.rule(name, "be a time such as 2026-11-01T00:00:00Z", value)
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        raise KreachError.rule(name, "lie between the years 1 and 9999 in UTC", value) from None


def as_period(by: str) -> str:
    """One of the periods that a series can have."""
    if by not in PERIODS:
        raise KreachError.rule("by", f"be one of {', '.join(PERIODS)}", by)
    return by


@dataclass(frozen=True)
class Window:
    """From `start` up to but not including `end`; None is open.

    >>> Window.between("2026-11-01", "2026-11-03").periods("day")[1].start.isoformat()
    '2026-11-02T00:00:00+00:00'
    """

    start: datetime | None = None
    end: datetime | None = None

    @classmethod
    def between(cls, start: object = None, end: object = None) -> "Window":
        """A window from datetimes or ISO text."""
        window = cls(as_instant("start", start), as_instant("end", end))
        if window.start and window.end and window.start >= window.end:
            raise KreachError.rule("end", f"be after start ({window.start.isoformat()})", end)
        return window

    def holding(self, first: datetime, last: datetime, by: str) -> "Window":
        """This window, with open ends closed around the given times at full periods."""
        end = self.end or start_of_period(last, by) + _LENGTH[by]
        before_end = end - timedelta(microseconds=1)
        start = self.start or start_of_period(min(first, before_end), by)
        return Window(start, max(end, start + timedelta(microseconds=1)))

    def periods(self, by: str) -> list["Window"]:
        """The hours, days or weeks (from Monday) of a closed window; the ends may be cut off."""
        by = as_period(by)
        if self.start is None or self.end is None:
            raise KreachError.rule("window", "have a start and an end", self)
        if (self.end - self.start) / _LENGTH[by] > _MAX_PERIODS:
            rule = f"hold at most {_MAX_PERIODS} periods"
            raise KreachError.rule("window", rule, f"{self.start} to {self.end} by {by}")
        edges = [self.start]
        edge = start_of_period(self.start, by) + _LENGTH[by]
        while edge < self.end:
            edges.append(edge)
            edge += _LENGTH[by]
        edges.append(self.end)
        return [Window(a, b) for a, b in pairwise(edges)]


def start_of_period(moment: datetime, by: str) -> datetime:
    """The beginning of the hour, day or week (Monday) that holds a time."""
    hour = moment.replace(minute=0, second=0, microsecond=0)
    if by == "hour":
        return hour
    day = hour.replace(hour=0)
    return day if by == "day" else day - timedelta(days=day.weekday())


def iso_text(moment: datetime) -> str:
    """A time in UTC as documents write it."""
    return moment.isoformat().replace("+00:00", "Z")
