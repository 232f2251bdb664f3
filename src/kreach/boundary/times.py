"""Instants, periods and windows.

Everything is UTC, and windows are half-open: [start, end). Stores and engines hold an instant as
whole microseconds since 1970 (`_micros`), clocks as seconds (`_seconds`, float).
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from kreach.errors import KreachError

__all__ = [
    "DAY_SECONDS",
    "EPOCH",
    "HOUR_SECONDS",
    "MICROS",
    "MONDAY_SECONDS",
    "PERIODS",
    "PERIOD_LENGTH",
    "Window",
    "as_instant",
    "as_period",
    "from_micros",
    "from_seconds",
    "iso_micros",
    "iso_optional",
    "iso_seconds",
    "iso_text",
    "period_edge",
    "start_of_period",
    "to_micros",
]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROS = 1_000_000  # microseconds in a second
HOUR_SECONDS = 3_600
DAY_SECONDS = 86_400
PERIOD_LENGTH = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}
PERIODS = tuple(PERIOD_LENGTH)
MONDAY_SECONDS = 3 * DAY_SECONDS  # weeks begin on Mondays, as 29 December 1969 was one
_MIN_SECONDS, _MAX_SECONDS = -62_135_596_800, 253_402_300_799  # of the years 1 and 9999
_MAX_PERIODS = 10_000


def as_instant(name: str, value: object) -> datetime | None:
    """A datetime in UTC from a datetime or ISO text (UTC unless it has a zone); None stays None."""
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
        end = self.end or start_of_period(last, by) + PERIOD_LENGTH[by]
        before_end = end - timedelta(microseconds=1)
        start = self.start or start_of_period(min(first, before_end), by)
        return Window(start, max(end, start + timedelta(microseconds=1)))

    def periods(self, by: str) -> list["Window"]:
        """The hours, days or weeks (from Monday) of a closed window; the ends may be cut off."""
        by = as_period(by)
        if self.start is None or self.end is None:
            raise KreachError.rule("window", "have a start and an end", self)
        if (self.end - self.start) / PERIOD_LENGTH[by] > _MAX_PERIODS:
            rule = f"hold at most {_MAX_PERIODS} periods"
            raise KreachError.rule("window", rule, f"{self.start} to {self.end} by {by}")
        edges = [self.start]
        edge = start_of_period(self.start, by) + PERIOD_LENGTH[by]
        while edge < self.end:
            edges.append(edge)
            edge += PERIOD_LENGTH[by]
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


def iso_optional(moment: datetime | None) -> str | None:
    """The same for an end that may be open."""
    return None if moment is None else iso_text(moment)


def to_micros(moment: datetime) -> int:
    """Whole microseconds since 1970."""
    since = moment - EPOCH
    return (since.days * DAY_SECONDS + since.seconds) * MICROS + since.microseconds


def from_micros(micros: int) -> datetime:
    """The instant of microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)


def from_seconds(seconds: float) -> datetime:
    """The instant so many seconds after 1970, clamped to the years 1 to 9999.

    >>> from_seconds(86_400.5).isoformat()
    '1970-01-02T00:00:00.500000+00:00'
    """
    return EPOCH + timedelta(seconds=min(max(seconds, _MIN_SECONDS), _MAX_SECONDS))


def iso_micros(micros: int) -> str:
    """Microseconds since 1970 as documents write a time."""
    return iso_text(from_micros(micros))


def iso_seconds(seconds: float) -> str:
    """Seconds since 1970 as documents write a time."""
    return iso_text(from_seconds(seconds))


def period_edge(seconds: int, by: str) -> int:
    """The first end of an hour, day or week (Monday, UTC) after a time in seconds since 1970.

    >>> period_edge(0, "week") // 86_400  # 1 January 1970 was a Thursday
    4
    """
    length = int(PERIOD_LENGTH[as_period(by)].total_seconds())
    shift = MONDAY_SECONDS if by == "week" else 0
    return (seconds + shift) // length * length - shift + length
