"""The requests that bidders counted, by catalogue and hour: totals of all groups.

Every bidder has its rows in its own journal, and they add up. An hour counts for a catalogue only
if every bidder that had started by then has counted all of it, and if hardly any request named
another catalogue: while a new one is rolled out, each of the two gets part of the visits.
"""

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from pathlib import Path

from kreach.adsystem.ledger.request_rows import read_request_rows
from kreach.adsystem.log.snapshot import journal_reader
from kreach.adsystem.store_layout import BIDDERS_FOLDER, log_folders

__all__ = ["RequestCounts", "RequestHistory"]

_MAX_OTHERS = 0.05  # of the requests of an hour
_MAX_AGE_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class _BidderHours:
    """The rows of one bidder: None for hours that it did not count all of."""

    by_version: dict[str, dict[int, int | None]]
    first: int  # hour
    until: float  # the last hour that it may have had requests in; infinite while it is in use


class RequestHistory:
    """What was counted up to some moment."""

    def __init__(self, bidders: Collection[_BidderHours]) -> None:
        self._bidders = bidders
        hours = [h for one in bidders for rows in one.by_version.values() for h in rows]
        self.end_hour = max(hours, default=-1) + 1

    def covered(self, version: str, start: int, end: int) -> dict[int, int]:
        """Requests of a catalogue by hour in [start, end), of hours that all bidders counted."""
        result = {}
        for hour in range(start, min(end, self.end_hour)):
            there = [one for one in self._bidders if one.first <= hour <= one.until]
            mine = [one.by_version.get(version, {}).get(hour) for one in there]
            counted = [requests for requests in mine if requests is not None]
            if not there or len(counted) < len(there):
                continue
            others = sum(
                rows.get(hour) or 0
                for one in there
                for other, rows in one.by_version.items()
                if other != version
            )
            if others <= _MAX_OTHERS * (sum(counted) + others):
                result[hour] = sum(counted)
        return result


class RequestCounts:
    """Reads the journals of a store. For use by several threads.

    With names of bidders, the others have been retired: that they count no more is no gap. Of an
    unnamed set nobody knows whether one that is silent is down, so its silence is a gap.
    """

    def __init__(
        self,
        store: Path,
        bidders: Collection[str] = (),
        *,
        max_age_seconds: float = _MAX_AGE_SECONDS,
    ) -> None:
        self._store, self._names, self._max_age = store, frozenset(bidders), max_age_seconds
        self._lock = threading.Lock()
        self._read: tuple[float, RequestHistory] | None = None

    def history(self) -> RequestHistory:
        """All that was counted, as of a few seconds ago."""
        with self._lock:
            now = time.monotonic()
            if self._read is None or now - self._read[0] > self._max_age:
                folders = log_folders(self._store)
                each = [_hours(folder, in_use=self._is_in_use(folder)) for folder in folders]
                history = RequestHistory([one for one in each if one is not None])
                self._read = (now, history)
            return self._read[1]

    def _is_in_use(self, folder: Path) -> bool:
        named = folder.parent == self._store / BIDDERS_FOLDER
        return not self._names or (named and folder.name in self._names)


def _hours(folder: Path, *, in_use: bool) -> _BidderHours | None:
    """The rows of a bidder; None if it has counted nothing yet."""
    by_version: dict[str, dict[int, int | None]] = {}
    with journal_reader(folder) as reader:
        if reader is None:
            return None
        for version, hour, requests in read_request_rows(reader):
            by_version.setdefault(version, {})[hour] = requests
    if not by_version:
        return None
    hours = [hour for rows in by_version.values() for hour in rows]
    until = inf if in_use else max(hours) + 1  # it stopped in the hour after its last row
    return _BidderHours(by_version, min(hours), until)
