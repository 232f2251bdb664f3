"""Requests of a catalogue by whole hour: how busy the site was, for reports.

Totals of all groups only. A request adds one to a counter; once an hour a catalogue's total is a
row of the journal. An hour in which the bidder was not there all the time has no total: it must
not look like low traffic.
"""

from kreach.boundary.times import HOUR_SECONDS

__all__ = ["RequestHours"]

_MAX_STALL_SECONDS = 10.0  # between two looks at the counter


class RequestHours:
    """Cuts a counter that only rises into hours since 1970."""

    def __init__(self, now: float) -> None:
        self._hour = int(now // HOUR_SECONDS)
        self._is_whole = False  # the bidder has been here since the hour began
        self._before = 0  # requests before this hour
        self._last = now
        self._is_new = True

    def advance(self, now: float, requests: int) -> list[tuple[int, int | None]]:
        """Hours to write, given the requests so far: None where they were not all counted.

        The hour of the start is written at once: other bidders' totals lack what came here.
        """
        if now - self._last > _MAX_STALL_SECONDS:
            self._is_whole = False
        self._last = now
        rows: list[tuple[int, int | None]] = []
        if self._is_new:
            rows.append((self._hour, None))
            self._is_new = False
        hour = int(now // HOUR_SECONDS)
        if hour > self._hour:
            if self._is_whole:
                rows.append((self._hour, requests - self._before))
            on_time = now - hour * HOUR_SECONDS <= _MAX_STALL_SECONDS
            self._is_whole = on_time and hour == self._hour + 1
            self._hour, self._before = hour, requests
        return rows
