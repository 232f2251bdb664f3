"""How many requests are still to come, learned as they come."""

from array import array
from collections.abc import Sequence

import numpy as np

from kreach.boundary.times import HOUR_SECONDS
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["Arrivals", "Traffic"]


class Traffic:
    """Requests by group since some time; several campaigns may share it."""

    def __init__(self, group_count: int, since: float) -> None:
        self.since = since
        self.total = 0
        self.by_group = array("I", bytes(4 * group_count))

    def record(self, group: int) -> None:
        """Count a request."""
        self.by_group[group] += 1
        self.total += 1


class Arrivals:
    """Extrapolates the requests of each group to the end of a flight.

    Counts them itself, or reads `traffic` that the server counts. Traffic follows `hourly`
    (24 weights, UTC) if given, else it is even. The total to come is the total so far times
    (weight of the time left)/(weight of the time gone). A group's share of it is its share so far,
    drawn towards equal shares by `prior_requests` per group. `share` of them all, in any group, are
    for places that suit the campaign.
    """

    def __init__(
        self,
        group_count: int,
        start: float,
        end: float,
        hourly: Sequence[float] | None = None,
        prior_requests: float = 5.0,
        traffic: Traffic | None = None,
    ) -> None:
        if not start < end:
            raise KreachError.rule("end", f"come after the start ({start})", end)
        if hourly is not None and (len(hourly) != 24 or not all(w >= 0 for w in hourly)):
            raise KreachError.rule("hourly", "be 24 weights ≥ 0", hourly)
        if hourly is not None and sum(hourly) <= 0:
            raise KreachError.rule("hourly", "not be all 0", hourly)
        self._end = end
        self.share = 1.0
        self.prior_requests = prior_requests
        self._counts = traffic is None
        self._traffic = traffic or Traffic(group_count, start)
        self._hourly = None if hourly is None else np.cumsum([0.0, *hourly]) / sum(hourly)

    @property
    def since(self) -> float:
        """When counting began."""
        return self._traffic.since

    @property
    def total(self) -> int:
        """Requests so far."""
        return self._traffic.total

    def record(self, group: int) -> None:
        """Count a request, unless `traffic` was passed in."""
        if self._counts:
            self._traffic.record(group)

    def left(self, now: float) -> float:
        """Expected requests that suit the campaign, from now to the end of the flight."""
        traffic = self._traffic
        gone = self._weight(traffic.since, now)
        if gone <= 0.0 or traffic.total == 0:
            return 0.0
        suiting = self.share * traffic.total
        return suiting * self._weight(min(now, self._end), self._end) / gone

    def left_of(self, group: int, left: float) -> float:
        """Of `left` requests in all, those of one group."""
        traffic, prior = self._traffic, self.prior_requests
        all_shares = traffic.total + prior * len(traffic.by_group)
        return left * (traffic.by_group[group] + prior) / all_shares

    def part(self, start: float, now: float, by_hour: FloatArray | None = None) -> float:
        """Of the requests expected from `start` to the end, the part until now.

        `by_hour`: what a request counts for, by hour of the day.
        """
        if by_hour is not None:
            whole = float(by_hour @ self._by_hour(start, self._end))
            gone = float(by_hour @ self._by_hour(start, min(now, self._end)))
            return gone / whole if whole > 0.0 else 1.0
        whole = self._weight(start, self._end)
        return self._weight(start, min(now, self._end)) / whole if whole > 0.0 else 1.0

    def shares_left(self, now: float) -> FloatArray:
        """Of the requests from now to the end, the share of each hour of the day (UTC)."""
        left = self._by_hour(now, self._end)
        total = float(left.sum())
        result: FloatArray = left / total if total > 0.0 else np.full(24, 1.0 / 24.0)
        return result

    def _by_hour(self, low: float, high: float) -> FloatArray:
        """Weight by hour of the day. Whole days have each hour once, the rest some of them."""
        first, last = low / HOUR_SECONDS, max(high, low) / HOUR_SECONDS
        days = int((last - first) // 24.0)
        hours = np.full(24, float(days))
        first += 24.0 * days
        for hour in range(int(first // 1.0), int(last // 1.0) + 1):
            hours[hour % 24] += max(min(last, hour + 1.0) - max(first, float(hour)), 0.0)
        weights = np.ones(24) if self._hourly is None else np.diff(self._hourly)
        result: FloatArray = hours * weights
        return result

    def evidence(self, now: float) -> float:
        """Requests, seen or assumed at first, behind each that is expected, in any group."""
        traffic = self._traffic
        seen = self.share * (traffic.total + self.prior_requests * len(traffic.by_group))
        left = self.left(now)
        return seen / left if left > 0.0 else float("inf")

    def left_by_group(self, now: float, groups: IntArray | None = None) -> FloatArray:
        """Expected requests to come, by group: of all groups, or of the given ones."""
        traffic, prior = self._traffic, self.prior_requests
        by_group = np.frombuffer(traffic.by_group, dtype=np.uint32)
        share = (by_group if groups is None else by_group[groups]).astype(np.float64) + prior
        all_shares = traffic.total + prior * len(by_group)
        result: FloatArray = self.left(now) * share / all_shares
        return result

    def _weight(self, low: float, high: float) -> float:
        if self._hourly is None:
            return max(high - low, 0.0)
        curve = self._hourly
        return max(self._day_weight(high, curve) - self._day_weight(low, curve), 0.0)

    def _day_weight(self, moment: float, curve: FloatArray) -> float:
        days, rest = divmod(moment / HOUR_SECONDS, 24.0)
        return float(days + np.interp(rest, np.arange(25), curve))
