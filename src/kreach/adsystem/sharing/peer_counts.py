"""What other bidders counted: read from the feed, or from the counts where the feed is not enough.

For each campaign and catalogue it is known how much of the others is in one's own counts
(`others`), and up to which row of each of them. Rows come with the row before them: where one is
missing, the counts are looked at again, and what is more than is known is added. Counts only grow,
so what was added is never taken back and nothing is added twice.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.sharing.own_rows import own_counts
from kreach.adsystem.sharing.redis_pool import Place, Pool
from kreach.numeric.types import IntArray

__all__ = ["Reader", "Seen"]

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0


@dataclass(frozen=True)
class Seen:
    """Impressions that others had: by group, or (rolling caps) one by one with their moments."""

    campaign: int
    version: str
    groups: IntArray
    impressions: IntArray
    moments: IntArray | None = None  # in µs


class Reader:
    """Reads what is new. Used by one thread."""

    def __init__(self, pool: Pool, store: Path) -> None:
        self._pool, self._store = pool, store
        self._position: bytes | None = None
        self._have: dict[str, int] = {}  # of each bidder: the last row that was heard of
        self._others: dict[Place, IntArray] = {}
        self._base: dict[Place, dict[str, int]] = {}
        self._synced: set[Place] = set()
        self._again_at = 0.0
        self._wait = _FIRST_WAIT
        self._unread: list[Seen] = []

    def begin(self) -> None:
        """A run of Redis begins: its feed is a new one; what is known stays known."""
        self._position, rows = self._pool.position()
        for who, row in rows.items():
            if row > self._have.get(who, 0):
                self._synced.clear()  # said to this run before we came
                self._have[who] = row

    def read(
        self,
        places: frozenset[Place],
        groups: Mapping[str, int],
        rolling: Mapping[int, int],
        fed: int,
    ) -> None:
        """Read what is new for these campaigns and catalogues. `fed`: own rows that are counted."""
        assert self._position is not None
        heard = self._pool.hear(self._position)
        self._position = heard.position
        self._synced &= places
        if heard.missed:
            self._synced.clear()
        for who, after, last, version, table in heard.rows:
            if after > self._have.get(who, 0):
                self._synced.clear()  # something was missed
            self._have[who] = max(self._have.get(who, 0), last)
            for campaign in np.unique(table["campaign"]).tolist():
                place = (campaign, version)
                base = self._base.setdefault(place, {})
                mine = table[(table["campaign"] == campaign) & (table["row"] > base.get(who, 0))]
                if place in self._synced and len(mine):
                    base[who] = int(mine["row"][-1])
                    self._unread.append(self._rows(place, mine, campaign in rolling))
        self._counts(places, groups, rolling, fed)

    def take(self) -> list[Seen]:
        """What was read and not taken yet: also what was read before something went wrong."""
        taken, self._unread = self._unread, []
        return taken

    def _rows(self, place: Place, rows: "np.ndarray[Any, Any]", one_by_one: bool) -> Seen:
        groups = rows["group"].astype(np.int64)
        if one_by_one:
            return Seen(*place, groups, np.ones_like(groups), rows["bid_micros"].astype(np.int64))
        found, counts = np.unique(groups, return_counts=True)
        self._others[place][found] += counts.astype(self._others[place].dtype)
        return Seen(*place, found, counts)

    def _counts(
        self,
        places: frozenset[Place],
        groups: Mapping[str, int],
        rolling: Mapping[int, int],
        fed: int,
    ) -> None:
        """Look at the counts of places that the feed alone does not tell enough of."""
        wanted = places - self._synced
        if not wanted or time.monotonic() < self._again_at:
            return
        mine = own_counts(self._store, {p for p in wanted if p[0] not in rolling}, fed)
        complete = True
        for place in sorted(wanted):
            told = self._pool.counted(place)
            if place[0] in rolling:
                seen = self._times(place, rolling[place[0]])
            else:
                seen = self._more(place, told.impressions, groups[place[1]], mine[place])
            if len(seen.groups):
                self._unread.append(seen)
            base = self._base.setdefault(place, {})
            for who, row in told.rows.items():
                base[who] = max(base.get(who, 0), row)
            if all(told.rows.get(who, 0) >= row for who, row in self._have.items()):
                self._synced.add(place)
            else:
                complete = False  # somebody has yet to tell this run of Redis all it told others
        self._wait = _FIRST_WAIT if complete else min(2.0 * self._wait, _LONGEST_WAIT)
        self._again_at = 0.0 if complete else time.monotonic() + self._wait

    def _more(
        self, place: Place, impressions: IntArray, groups: int, mine: tuple[IntArray, ...]
    ) -> Seen:
        known = self._others.setdefault(place, np.zeros(groups, dtype=np.uint32))
        others = np.zeros(groups, dtype=np.int64)
        size = min(groups, len(impressions))
        others[:size] = impressions[:size]
        np.subtract.at(others, mine[0], mine[1])
        more = others - known
        at = np.flatnonzero(more > 0)
        known[at] = others[at]
        return Seen(*place, at, more[at])

    def _times(self, place: Place, since: int) -> Seen:
        base = self._base.setdefault(place, {})
        found = [
            (who, row, group, at)
            for who, row, group, at in self._pool.times(place, since)
            if who != self._pool.name and row > base.get(who, 0)
        ]
        for who, row, _, _ in found:
            base[who] = max(base.get(who, 0), row)
        groups = np.array([group for _, _, group, _ in found], dtype=np.int64)
        moments = np.array([at for _, _, _, at in found], dtype=np.int64)
        return Seen(*place, groups, np.ones_like(groups), moments)
