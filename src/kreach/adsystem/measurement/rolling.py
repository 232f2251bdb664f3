"""Reach of a sliding window: record new impressions, revert those that leave the window."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Any

import numpy as np

from kreach.adsystem.measurement.meter import ReachMeter
from kreach.adsystem.measurement.meter_display import MeterDisplay
from kreach.boundary.audience import Audience
from kreach.boundary.times import EPOCH
from kreach.errors import KreachError

__all__ = ["RollingReachMeter"]

Moment = datetime | float | int
_MICROSECOND = timedelta(microseconds=1)


class RollingReachMeter(MeterDisplay):
    """A meter of the impressions of the last `span`.

    At time t it covers (t − span, t], where t is the latest time recorded. Impressions may arrive
    out of order; one that is already too old is refused and counted in `late`. Reach of
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
        self._span_ns = _nanoseconds("span", span, "be a time > 0 (timedelta or seconds)")
        if self._span_ns <= 0:
            raise KreachError.rule("span", "be a time > 0 (timedelta or seconds)", span)
        self._meter = ReachMeter(audience, caps)
        self._inside: list[tuple[int, int]] = []  # heap of (time, group)
        self._now_ns: int | None = None
        self.late = 0

    @property
    def reach(self) -> dict[int, float]:
        """Expected reach in the window, by cap."""
        return self._meter.reach

    @property
    def impressions(self) -> int:
        """The number of impressions in the window."""
        return len(self._inside)

    def record(self, group: int, at: Moment) -> bool:
        """Count an impression and move the window up to its time; False if it is too old."""
        moment = _moment_ns("at", at)
        self._meter.count(group)  # refuses a group that does not exist, however old
        if self._now_ns is not None and moment <= self._now_ns - self._span_ns:
            self.late += 1
            return False
        self._meter.record(group)
        heappush(self._inside, (moment, int(group)))
        self._move_to(moment)
        return True

    def advance(self, now: Moment) -> None:
        """Move the window up to `now`, without an impression. Time does not run backwards."""
        self._move_to(_moment_ns("now", now))

    def reach_probability(self, group: int, cap: int) -> float:
        """The chance that a request now reaches somebody under the cap within the window."""
        return self._meter.reach_probability(group, cap)

    def _facts(self) -> dict[str, Any]:
        return {"seconds": self._span_ns / 1e9, "impressions": self.impressions, "late": self.late}

    def _move_to(self, moment: int) -> None:
        self._now_ns = moment if self._now_ns is None else max(self._now_ns, moment)
        horizon = self._now_ns - self._span_ns
        while self._inside and self._inside[0][0] <= horizon:
            self._meter.revert(heappop(self._inside)[1])


def _moment_ns(name: str, moment: Moment) -> int:
    """Nanoseconds since 1970, exactly for datetimes."""
    rule = "be a datetime with a zone or seconds"
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise KreachError.rule(name, "have a time zone", moment.isoformat())
        return _nanoseconds(name, moment - EPOCH, rule)
    return _nanoseconds(name, moment, rule)


def _nanoseconds(name: str, span: timedelta | float, rule: str) -> int:
    if isinstance(span, timedelta):
        return span // _MICROSECOND * 1000
    is_number = isinstance(span, (int, float, np.integer, np.floating))
    if not is_number or isinstance(span, bool) or not abs(span) < float("inf"):
        raise KreachError.rule(name, rule, span)
    if abs(span) >= 2**53:  # whole seconds; the product would lose digits or overflow
        return int(span) * 10**9
    return round(float(span) * 1e9)
