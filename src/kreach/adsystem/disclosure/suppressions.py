"""What was withheld from advertisers, and why: for operators and publishers."""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from kreach.boundary.times import iso_text
from kreach.service.clock import Clock

__all__ = ["Suppressions"]

_MOST = 1_000


@dataclass
class _Entry:
    first: float
    last: float
    times: int


class Suppressions:
    """The newest suppressions, each with how often it came, and counts by reason.

    They name campaigns, never who asked. The same question again is the same entry, so that one
    page that is looked at all day does not push all others out.
    """

    def __init__(self, clock: Clock, most: int = _MOST) -> None:
        self._clock, self._most = clock, most
        self._lock = Lock()
        self._entries: OrderedDict[tuple[str, str, str], _Entry] = OrderedDict()
        self._by_reason: dict[str, float] = {}

    def add(self, reason: str, campaign: str, asked: str) -> None:
        """Note that a question about a campaign was not answered, or not in full."""
        now = self._clock()
        key = (reason, campaign, asked)
        with self._lock:
            self._by_reason[reason] = self._by_reason.get(reason, 0) + 1
            entry = self._entries.setdefault(key, _Entry(now, now, 0))
            entry.last, entry.times = now, entry.times + 1
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)

    def by_reason(self) -> dict[str, float]:
        """How often each reason came since the start, for metrics."""
        with self._lock:
            return dict(self._by_reason)

    def document(self) -> dict[str, Any]:
        """The newest first."""
        with self._lock:
            entries = [(key, entry.first, entry.last, entry.times) for key, entry in self._listed()]
            totals = {reason: int(times) for reason, times in self._by_reason.items()}
        return {
            "by_reason": totals,
            "suppressions": [
                {
                    "reason": reason,
                    "campaign": campaign,
                    "asked": asked,
                    "first": _iso(first),
                    "last": _iso(last),
                    "times": times,
                }
                for (reason, campaign, asked), first, last, times in entries
            ],
        }

    def _listed(self) -> list[tuple[tuple[str, str, str], _Entry]]:
        return list(reversed(self._entries.items()))


def _iso(seconds: float) -> str:
    return iso_text(datetime.fromtimestamp(seconds, UTC))
