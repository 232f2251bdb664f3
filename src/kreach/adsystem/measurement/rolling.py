"""Reach of the last hours or days as a running number: record what comes, revert what gets old."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from heapq import heappop, heappush

from kreach.adsystem.measurement.meter import ReachMeter
from kreach.boundary.audience import Audience
from kreach.errors import KreachError

__all__ = ["RollingReachMeter"]

Moment = datetime | float | int


class RollingReachMeter:
    """A meter that holds the impressions of the last `span` and forgets older ones.

    At time t it covers (t − span, t], where t is the latest time it has been told of. Impressions
    may arrive out of order; one that is already too old is refused and counted in `late`. Reach of
    two windows does not add up (the same person may be in both), so each span has its own meter.

    >>> week = RollingReachMeter(Audience.disjoint([2]), caps=[1], span=timedelta(days=7))
    >>> from datetime import UTC
    >>> week.record(0, datetime(2026, 11, 1, tzinfo=UTC))
    True
    >>> week.record(0, datetime(2026, 11, 5, tzinfo=UTC)); week.reach
    True
    {1: 1.5}
    >>> week.advance(datetime(2026, 11, 8, tzinfo=UTC)); week.reach
    {1: 1.0}
    """

    def __init__(self, audience: Audience, caps: Sequence[int], span: timedelta | float) -> None:
        seconds = span.total_seconds() if isinstance(span, timedelta) else span
        is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not is_number or not 0.0 < seconds < float("inf"):
            raise KreachError.rule("span", "be a time > 0 (timedelta or seconds)", span)
        self._meter = ReachMeter(audience, caps)
        self._span_seconds = float(seconds)
        self._inside: list[tuple[float, int]] = []  # heap of (time, group)
        self._now_seconds = float("-inf")
        self.late = 0

    @property
    def reach(self) -> dict[int, float]:
        """Expected reach by cap of what lies inside the window."""
        return self._meter.reach

    @property
    def impressions(self) -> int:
        """How many impressions lie inside the window."""
        return len(self._inside)

    def record(self, group: int, at: Moment) -> bool:
        """Count an impression and move the window up to its time; False if it is too old."""
        seconds = _seconds("at", at)
        if seconds <= self._now_seconds - self._span_seconds:
            self.late += 1
            return False
        self._meter.record(group)
        heappush(self._inside, (seconds, int(group)))
        self._move_to(seconds)
        return True

    def advance(self, now: Moment) -> None:
        """Move the window up to `now`, without an impression. Time does not run backwards."""
        self._move_to(_seconds("now", now))

    def reach_probability(self, group: int, cap: int) -> float:
        """The chance that a request now reaches somebody under the cap within the window."""
        return self._meter.reach_probability(group, cap)

    def _move_to(self, seconds: float) -> None:
        self._now_seconds = max(self._now_seconds, seconds)
        horizon = self._now_seconds - self._span_seconds
        while self._inside and self._inside[0][0] <= horizon:
            self._meter.revert(heappop(self._inside)[1])


def _seconds(name: str, moment: Moment) -> float:
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise KreachError.rule(name, "have a time zone", moment.isoformat())
        return moment.timestamp()
    is_number = isinstance(moment, (int, float)) and not isinstance(moment, bool)
    if not is_number or not abs(moment) < float("inf"):
        raise KreachError.rule(name, "be a datetime with a zone or seconds", moment)
    return float(moment)
