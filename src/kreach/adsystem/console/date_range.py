"""Ranges of dates that people choose: presets, or two times of their own."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kreach.boundary.times import iso_text

__all__ = ["CUSTOM", "PRESETS", "TO_DATE", "DateRange"]

TO_DATE, CUSTOM = "to-date", "custom"
PRESETS = {
    TO_DATE: "Flight to date",
    "today": "Today",
    "yesterday": "Yesterday",
    "last-7-days": "Last 7 days",
    "flight": "Whole flight",
}
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class DateRange:
    """A preset, or `custom` with its times. Days are UTC; half-open, as everywhere."""

    preset: str = TO_DATE
    start: str | None = None
    end: str | None = None

    @classmethod
    def of_query(cls, parameters: Iterable[tuple[str, str]]) -> "DateRange":
        """Read an address; what is no range is the flight to date.

        >>> DateRange.of_query([("range", "today")]).preset, DateRange.of_query([("range", "x")])
        ('today', DateRange(preset='to-date', start=None, end=None))
        """
        given = dict(parameters)
        if given.get("start") and given.get("end"):
            return cls(CUSTOM, given["start"], given["end"])
        preset = given.get("range", TO_DATE)
        return cls(preset if preset in PRESETS else TO_DATE)

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The range in an address."""
        if self.preset == CUSTOM and self.start and self.end:
            return [("start", self.start), ("end", self.end)]
        return [] if self.preset == TO_DATE else [("range", self.preset)]

    def window(self, now: datetime, flight: tuple[datetime, datetime]) -> tuple[str, str] | None:
        """Start and end for reporting; None for everything so far.

        >>> from datetime import UTC
        >>> noon = datetime(2026, 11, 4, 12, tzinfo=UTC)
        >>> flight = (noon - timedelta(days=2), noon + timedelta(days=9))
        >>> DateRange("last-7-days").window(noon, flight)
        ('2026-10-29T00:00:00Z', '2026-11-05T00:00:00Z')
        """
        if self.preset == CUSTOM and self.start and self.end:
            return self.start, self.end
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        spans = {
            "today": (today, today + _DAY),
            "yesterday": (today - _DAY, today),
            "last-7-days": (today - 6 * _DAY, today + _DAY),
            "flight": flight,
        }
        span = spans.get(self.preset)
        return None if span is None else (iso_text(span[0]), iso_text(span[1]))
