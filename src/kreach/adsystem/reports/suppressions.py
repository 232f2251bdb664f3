"""A log of withheld answers and their reasons, for operators and publishers."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from kreach.adsystem.reports.report import Suppression, SuppressionList
from kreach.boundary.times import iso_seconds
from kreach.service.clock import Clock

__all__ = ["Suppressions"]

_MAX_ENTRIES = 1_000


@dataclass
class _Entry:
    first: float
    last: float
    times: int


class Suppressions:
    """The newest suppressions, each with how often it came, and counts by reason.

    They name campaigns, never callers. A repeated question is one entry, so that one page that is
    open all day does not push all others out.
    """

    def __init__(self, clock: Clock, max_entries: int = _MAX_ENTRIES) -> None:
        self._clock, self._max_entries = clock, max_entries
        self._lock = Lock()
        self._entries: OrderedDict[tuple[str, str, str], _Entry] = OrderedDict()
        self._by_reason: dict[str, float] = {}

    def add(self, reason: str, campaign: str, question: str) -> None:
        """Note that a question about a campaign was not answered, or not in full."""
        now = self._clock()
        key = (reason, campaign, question)
        with self._lock:
            self._by_reason[reason] = self._by_reason.get(reason, 0) + 1
            entry = self._entries.setdefault(key, _Entry(now, now, 0))
            entry.last, entry.times = now, entry.times + 1
            self._entries.move_to_end(key)
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)

    def by_reason(self) -> dict[str, float]:
        """Counts by reason since the start, for metrics."""
        with self._lock:
            return dict(self._by_reason)

    def document(self) -> SuppressionList:
        """The newest first."""
        with self._lock:
            entries = list(reversed(self._entries.items()))
            return SuppressionList(
                by_reason={reason: int(times) for reason, times in self._by_reason.items()},
                suppressions=tuple(
                    Suppression(
                        reason=reason,
                        campaign=campaign,
                        asked=question,
                        first=iso_seconds(entry.first),
                        last=iso_seconds(entry.last),
                        times=entry.times,
                    )
                    for (reason, campaign, question), entry in entries
                ),
            )
