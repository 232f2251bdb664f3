"""How many requests are still to come, learned as they come."""

from collections.abc import Sequence

import numpy as np

from kreach.errors import KreachError
from kreach.numeric.types import FloatArray

__all__ = ["Arrivals"]

HOUR_SECONDS = 3_600.0


class Arrivals:
    """Counts requests by group and extrapolates them to the end of a flight.

    Traffic follows `hourly` (24 weights, UTC) if given, else it is even. The total to come is
    the total so far times (weight of the time left)/(weight of the time gone). A group's share of
    it is its share so far, drawn towards equal shares by `prior_requests` per group.
    """

    def __init__(
        self,
        group_count: int,
        start: float,
        end: float,
        hourly: Sequence[float] | None = None,
        prior_requests: float = 5.0,
    ) -> None:
        if not start < end:
            raise KreachError.rule("end", f"come after the start ({start})", end)
        if hourly is not None and (len(hourly) != 24 or not all(w >= 0 for w in hourly)):
            raise KreachError.rule("hourly", "be 24 weights ≥ 0", hourly)
        if hourly is not None and sum(hourly) <= 0:
            raise KreachError.rule("hourly", "not be all 0", hourly)
        self._start, self._end = start, end
        self._prior = prior_requests
        self._by_group = [0] * group_count
        self._hourly = None if hourly is None else np.cumsum([0.0, *hourly]) / sum(hourly)
        self.total = 0

    def record(self, group: int) -> None:
        """Count a request."""
        self._by_group[group] += 1
        self.total += 1

    def left(self, now: float) -> float:
        """Expected requests from now to the end of the flight."""
        gone = self._weight(self._start, now)
        if gone <= 0.0 or self.total == 0:
            return 0.0
        return self.total * self._weight(min(now, self._end), self._end) / gone

    def left_of(self, group: int, left: float) -> float:
        """Of `left` requests in all, those of one group."""
        all_shares = self.total + self._prior * len(self._by_group)
        return left * (self._by_group[group] + self._prior) / all_shares

    def left_by_group(self, now: float) -> FloatArray:
        """Expected requests to come, by group."""
        share = np.array(self._by_group, dtype=np.float64) + self._prior
        result: FloatArray = self.left(now) * share / share.sum()
        return result

    def _weight(self, low: float, high: float) -> float:
        if self._hourly is None:
            return max(high - low, 0.0)
        curve = self._hourly
        return max(self._day_weight(high, curve) - self._day_weight(low, curve), 0.0)

    def _day_weight(self, moment: float, curve: FloatArray) -> float:
        days, rest = divmod(moment / HOUR_SECONDS, 24.0)
        return float(days + np.interp(rest, np.arange(25), curve))
