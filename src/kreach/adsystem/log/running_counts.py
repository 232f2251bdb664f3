"""Totals and counts by group, carried from one snapshot of the live log to the next.

What was counted up to a row of each journal is brought up to a newer snapshot by the rows after it.
If some of these have moved into files meanwhile, the log is counted again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from kreach.adsystem.log.counts import PlaceTotal, place_totals_from
from kreach.adsystem.log.engine import Columns
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.queries import campaign_group_counts, place_totals
from kreach.adsystem.log.snapshot import Snapshot
from kreach.boundary.times import Window
from kreach.numeric.types import IntArray
from kreach.service.lru_cache import LruCache

__all__ = ["RunningCounts"]

_MAX_COUNTS = 32_000_000  # 8 bytes each
_MAX_TOGETHER = 8_000_000

T = TypeVar("T")


@dataclass(frozen=True)
class _AsOf(Generic[T]):
    """What the rows up to one of each journal add up to."""

    generation: int
    rows: tuple[int, ...]
    value: T

    def extends_to(self, now: Snapshot) -> bool:
        """Whether all rows since are live, so that they can be added."""
        if self.generation != now.generation:  # and so other journals, maybe
            return False
        marks = zip(now.compacted_rows, self.rows, now.last_rows, strict=True)
        return all(compacted <= row <= last for compacted, row, last in marks)


class RunningCounts:
    """Totals of all places; counts by group of those that were asked for lately."""

    def __init__(self, max_counts: int = _MAX_COUNTS) -> None:
        self._totals: _AsOf[dict[Place, PlaceTotal]] | None = None
        self._counts = LruCache[Place, _AsOf[IntArray]](max_counts, lambda held: len(held.value))

    def totals(self, now: Snapshot) -> dict[Place, PlaceTotal]:
        """Rows and spend by place."""
        before = self._totals
        if before is None or not before.extends_to(now):
            totals = place_totals_from(now.columns(place_totals(now.table(), Window())))
        elif before.rows == now.last_rows:
            return before.value
        else:
            totals = dict(before.value)
            newer = now.columns(place_totals(now.newer(before.rows), Window()))
            for place, total in place_totals_from(newer).items():
                totals[place] = totals.get(place, PlaceTotal()) + total
        self._totals = _AsOf(now.generation, now.last_rows, totals)
        return totals

    def counts(self, now: Snapshot, place: Place, groups: int) -> IntArray:
        """Impressions of a campaign by group of a catalogue, all so far."""
        return next(self.counts_of(now, [place], groups))[1]

    def counts_of(
        self, now: Snapshot, places: Iterable[Place], groups: int
    ) -> Iterator[tuple[Place, IntArray]]:
        """Counts of several campaigns on one catalogue, cached ones first; the rest share scans."""
        missing = []
        for place in places:
            before = self._counts.get(place)
            if before is not None and before.extends_to(now):
                yield place, self._extended(now, place, before)
            else:
                missing.append(place)
        together = max(_MAX_TOGETHER // max(groups, 1), 1)
        for low in range(0, len(missing), together):
            batch = missing[low : low + together]
            log = now.table()
            columns = now.columns(campaign_group_counts(log, batch))
            for place in batch:
                counts = np.zeros(groups, dtype=np.int64)
                _add(counts, columns, place)
                self._store(now, place, counts)
                yield place, counts

    def _extended(self, now: Snapshot, place: Place, before: _AsOf[IntArray]) -> IntArray:
        if before.rows == now.last_rows:
            return before.value
        columns = now.columns(campaign_group_counts(now.newer(before.rows), [place]))
        counts = before.value
        if len(columns["group"]):
            counts = counts.copy()  # the other may be in use
            _add(counts, columns, place)
        self._store(now, place, counts)
        return counts

    def _store(self, now: Snapshot, place: Place, counts: IntArray) -> None:
        self._counts.put(place, _AsOf(now.generation, now.last_rows, counts))


def _add(counts: IntArray, columns: Columns, place: Place) -> None:
    """Add the rows of a place; groups that the catalogue does not have are left out."""
    group = columns["group"].astype(np.int64)
    known = (columns["campaign"] == place.campaign) & (group >= 0) & (group < len(counts))
    counts[group[known]] += columns["n"][known]
