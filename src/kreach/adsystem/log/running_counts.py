"""A cache of totals and counts by group that follows the live log.

A newer snapshot adds the rows since the last one. If some of these have moved into files meanwhile,
the log is counted again.
"""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from kreach.adsystem.log.counts import PlaceTotal, place_totals_from
from kreach.adsystem.log.draws import place_draws
from kreach.adsystem.log.engine import Columns
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.queries import campaign_group_counts, place_group_counts, place_totals
from kreach.adsystem.log.snapshot import NEWER_ROWS, Snapshot
from kreach.adsystem.measurement.drawn import GroupDraws
from kreach.boundary.times import Window
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.types import IntArray
from kreach.service.lru_cache import LruCache

__all__ = ["RunningCounts"]

_MAX_COUNTS = 32_000_000  # 8 bytes each
_MAX_TOGETHER = 8_000_000

_NEWER_COUNTS = place_group_counts(NEWER_ROWS)

T = TypeVar("T")


@dataclass(frozen=True)
class _AsOf(Generic[T]):
    """A value computed from the rows of each journal up to `rows`."""

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
    """Totals of all places, and an LRU cache of counts by group.

    One query on the rows since the last snapshot updates all of them. For use by several threads.
    """

    def __init__(self, max_counts: int = _MAX_COUNTS) -> None:
        self._lock = threading.Lock()
        self._totals: _AsOf[dict[Place, PlaceTotal]] | None = None
        self._counts = LruCache[Place, _AsOf[IntArray]](max_counts, lambda entry: len(entry.value))
        self._draws = LruCache[Place, _AsOf[GroupDraws]](
            max_counts, lambda entry: 2 * len(entry.value.draws)
        )

    def totals(self, now: Snapshot) -> dict[Place, PlaceTotal]:
        """Rows and spend by place."""
        with self._lock:
            before = self._totals
            if before is not None and before.rows == now.last_rows and before.extends_to(now):
                return before.value
            if before is None or not before.extends_to(now):
                totals = place_totals_from(now.columns(place_totals(now.table(), Window())))
            else:
                totals = self._extended(now, before)
            self._totals = _AsOf(now.generation, now.last_rows, totals)
            return totals

    def _extended(
        self, now: Snapshot, before: _AsOf[dict[Place, PlaceTotal]]
    ) -> dict[Place, PlaceTotal]:
        """Add the rows since: to totals, and to counts that are as of the same rows."""
        newer = now.newer(before.rows, _NEWER_COUNTS)
        totals = dict(before.value)
        places = list(zip(newer["campaign"].tolist(), newer["catalogue"].tolist(), strict=True))
        numbers = (newer[name].astype(np.int64).tolist() for name in ("n", "spend", "first"))
        for place, n, spend, first in zip(map(Place._make, places), *numbers, strict=True):
            totals[place] = totals.get(place, PlaceTotal()) + PlaceTotal(n, spend, first)
        for place, entry in self._counts.items():
            if entry.rows == before.rows and entry.generation == now.generation:
                self._store(now, place, _added(entry.value, newer, place))
        return totals

    def counts(self, now: Snapshot, place: Place, groups: int) -> IntArray:
        """Impressions of a campaign by group of a catalogue, all so far."""
        return next(self.counts_of(now, [place], groups))[1]

    def counts_of(
        self, now: Snapshot, places: Iterable[Place], groups: int
    ) -> Iterator[tuple[Place, IntArray]]:
        """Counts of several campaigns on one catalogue, cached ones first; the rest share scans."""
        self.totals(now)
        missing = []
        for place in places:
            entry = self._counts.get(place)
            if entry is not None and (entry.generation, entry.rows) == (
                now.generation,
                now.last_rows,
            ):
                yield place, entry.value
            else:
                missing.append(place)
        together = max(_MAX_TOGETHER // max(groups, 1), 1)
        for low in range(0, len(missing), together):
            batch = missing[low : low + together]
            columns = now.columns(campaign_group_counts(now.table(), batch))
            for place in batch:
                counts = _added(np.zeros(groups, dtype=np.int64), columns, place)
                self._store(now, place, counts)
                yield place, counts

    def draws_of(
        self, now: Snapshot, places: Iterable[Place], groups: int, model: VisitModel
    ) -> Iterator[tuple[Place, GroupDraws]]:
        """Effective draws of several campaigns on one catalogue; those with newer rows share scans.

        The rows before a newer one may be part of its session, so draws are not added to: a place
        is counted again when it has more rows. Logs only grow: as many rows are the same ones.
        """
        totals, missing = self.totals(now), []
        for place in places:
            rows = totals.get(place, PlaceTotal()).rows
            entry = self._draws.get(place)
            known = entry is not None and (entry.generation, entry.rows) == (
                now.generation,
                (rows,),
            )
            if entry is not None and known and entry.value.model is model:
                yield place, entry.value
            else:
                missing.append(place)
        together = max(_MAX_TOGETHER // max(groups, 1), 1)
        for low in range(0, len(missing), together):
            batch = missing[low : low + together]
            count = sum(totals.get(place, PlaceTotal()).rows for place in batch)
            for place, draws in place_draws(now, batch, groups, model, count):
                rows = totals.get(place, PlaceTotal()).rows
                self._draws.put(place, _AsOf(now.generation, (rows,), draws))
                yield place, draws

    def _store(self, now: Snapshot, place: Place, counts: IntArray) -> None:
        self._counts.put(place, _AsOf(now.generation, now.last_rows, counts))


def _added(counts: IntArray, columns: Columns, place: Place) -> IntArray:
    """Counts with the rows of a place; groups that the catalogue does not have are left out."""
    group = columns["group"].astype(np.int64)
    known = (columns["campaign"] == place.campaign) & (group >= 0) & (group < len(counts))
    if "catalogue" in columns:
        known &= columns["catalogue"] == place.catalogue
    if not known.any():
        return counts
    counts = counts.copy()  # the other may be in use
    counts[group[known]] += columns["n"][known]
    return counts
