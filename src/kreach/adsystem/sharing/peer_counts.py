"""Impressions of other bidders: from the feed, or from the counts where the feed has gaps.

For each campaign and catalogue it is known how many impressions of others are in the own counts
(`_others`), and up to which row of each bidder. Feed entries name the row before them: where one
is missing, the counts are read again and the difference is added. Counts only grow, so nothing is
taken back and nothing is added twice.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.sharing.own_rows import own_counts
from kreach.adsystem.sharing.redis_pool import RedisPool, SharedPlace
from kreach.numeric.types import IntArray

__all__ = ["PeerCounts", "PeerImpressions"]

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0


@dataclass(frozen=True)
class PeerImpressions:
    """Impressions of others: one by one with their times, or by group where counts were read."""

    campaign: int
    version: str
    groups: IntArray
    impressions: IntArray
    times: IntArray | None = None  # in µs


class PeerCounts:
    """Reads new impressions of other bidders. Used by one thread."""

    def __init__(self, pool: RedisPool, store: Path) -> None:
        self._pool, self._store = pool, store
        self._position: bytes | None = None
        self._last_rows: dict[str, int] = {}  # of each bidder: the last row in the feed
        self._others: dict[SharedPlace, IntArray] = {}
        self._base: dict[SharedPlace, dict[str, int]] = {}
        self._synced: set[SharedPlace] = set()
        self._retry_at = 0.0
        self._wait = _FIRST_WAIT
        self._unread: list[PeerImpressions] = []

    def start(self) -> None:
        """Join a run of Redis: its feed is a new one, what is known stays known."""
        self._position, rows = self._pool.feed_position()
        for name, row in rows.items():
            if row > self._last_rows.get(name, 0):
                self._synced.clear()  # counted before we joined
                self._last_rows[name] = row

    def read(
        self,
        places: frozenset[SharedPlace],
        groups: Mapping[str, int],
        rolling: Mapping[int, int],
        own_row: int,
    ) -> None:
        """Read what is new for these campaigns and catalogues.

        `own_row`: the last own row that is counted.
        """
        assert self._position is not None
        batch = self._pool.read_feed(self._position)
        self._position = batch.position
        self._synced &= places
        if batch.missed:
            self._synced.clear()
        for name, after, last, version, table in batch.rows:
            if after > self._last_rows.get(name, 0):
                self._synced.clear()  # an entry is missing
            self._last_rows[name] = max(self._last_rows.get(name, 0), last)
            for campaign in np.unique(table["campaign"]).tolist():
                place = (campaign, version)
                base = self._base.setdefault(place, {})
                new = table[(table["campaign"] == campaign) & (table["row"] > base.get(name, 0))]
                if place in self._synced and len(new):
                    base[name] = int(new["row"][-1])
                    self._unread.append(self._rows(place, new, rolling=campaign in rolling))
        self._read_counts(places, groups, rolling, own_row)

    def take(self) -> list[PeerImpressions]:
        """Impressions read since the last call, also those read before an error."""
        taken, self._unread = self._unread, []
        return taken

    def retry_now(self) -> None:
        """Read the counts again at the next call, without waiting for others to catch up."""
        self._retry_at = 0.0

    def _rows(
        self, place: SharedPlace, rows: "np.ndarray[Any, Any]", *, rolling: bool
    ) -> PeerImpressions:
        groups = rows["group"].astype(np.int64)
        if not rolling:
            np.add.at(self._others[place], groups, 1)
        times = rows["bid_micros"].astype(np.int64)
        return PeerImpressions(*place, groups, np.ones_like(groups), times)

    def _read_counts(
        self,
        places: frozenset[SharedPlace],
        groups: Mapping[str, int],
        rolling: Mapping[int, int],
        own_row: int,
    ) -> None:
        """Read the counts of places for which the feed has gaps."""
        wanted = places - self._synced
        if not wanted or time.monotonic() < self._retry_at:
            return
        own = own_counts(self._store, {p for p in wanted if p[0] not in rolling}, own_row)
        complete = True
        for place in sorted(wanted):
            shared = self._pool.counts(place)
            if place[0] in rolling:
                new = self._new_times(place, rolling[place[0]])
            else:
                new = self._difference(place, shared.impressions, groups[place[1]], own[place])
            if len(new.groups):
                self._unread.append(new)
            base = self._base.setdefault(place, {})
            for name, row in shared.rows.items():
                base[name] = max(base.get(name, 0), row)
            if all(shared.rows.get(name, 0) >= row for name, row in self._last_rows.items()):
                self._synced.add(place)
            else:
                complete = False  # a bidder has yet to send this run of Redis all its rows
        self._wait = _FIRST_WAIT if complete else min(2.0 * self._wait, _LONGEST_WAIT)
        self._retry_at = 0.0 if complete else time.monotonic() + self._wait

    def _difference(
        self, place: SharedPlace, impressions: IntArray, groups: int, own: tuple[IntArray, ...]
    ) -> PeerImpressions:
        known = self._others.setdefault(place, np.zeros(groups, dtype=np.uint32))
        others = np.zeros(groups, dtype=np.int64)
        size = min(groups, len(impressions))
        others[:size] = impressions[:size]
        np.subtract.at(others, own[0], own[1])
        more = others - known
        at = np.flatnonzero(more > 0)
        known[at] = others[at]
        return PeerImpressions(*place, at, more[at])

    def _new_times(self, place: SharedPlace, since: int) -> PeerImpressions:
        base = self._base.setdefault(place, {})
        rows = [
            (name, row, group, at)
            for name, row, group, at in self._pool.impression_times(place, since)
            if name != self._pool.name and row > base.get(name, 0)
        ]
        for name, row, _, _ in rows:
            base[name] = max(base.get(name, 0), row)
        groups = np.array([group for _, _, group, _ in rows], dtype=np.int64)
        times = np.array([at for _, _, _, at in rows], dtype=np.int64)
        return PeerImpressions(*place, groups, np.ones_like(groups), times)
