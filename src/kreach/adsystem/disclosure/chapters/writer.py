"""Writes the chapters of campaigns as the log grows, before anybody sees them."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from threading import RLock

import numpy as np

from kreach.adsystem.disclosure.chapters.builder import ChapterBuilder, WatchedPlace
from kreach.adsystem.disclosure.chapters.chapter import ChapterList, Floors
from kreach.adsystem.disclosure.chapters.grid import cells_of, sizes_of
from kreach.adsystem.disclosure.chapters.store import ChapterStore, Flight
from kreach.adsystem.disclosure.chapters.times import ChapterTimes
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.snapshot import Snapshot
from kreach.adsystem.measurement.drawn import GroupDraws
from kreach.adsystem.settings import GuardSettings
from kreach.boundary.times import MICROS
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.types import IntArray
from kreach.service.lru_cache import LruCache

__all__ = ["ChapterWriter", "observe_flight"]

_MAX_PLACES = 10_000
_MAX_COUNTS = 16_000_000  # 8 bytes each
_MAX_TIMES = 8_000_000  # impressions, 24 bytes each
_MAX_UNWRITTEN = 8_000_000  # groups of closed chapters in memory
_TRIES = 5
_NEVER = 2**62


class ChapterWriter:
    """Chapters of all campaigns. For use by several threads."""

    def __init__(self, store: ChapterStore, settings: GuardSettings) -> None:
        self._store = store
        self._floors = Floors(settings.min_impressions, settings.min_people)
        self._grid = settings.grid_seconds * MICROS
        self._settle = round(settings.settle_seconds * MICROS)
        self._closing = round(settings.closing_seconds * MICROS)
        self._lock = RLock()
        self._chapters: OrderedDict[Place, ChapterList] = OrderedDict()
        self._checked: dict[Place, int] = {}
        self._behind: dict[Place, tuple[int, int | None]] = {}  # at this horizon, resumed so far
        self._resumed: dict[Place, int] = {}
        self._flights: dict[int, Flight] = {}
        self._times = LruCache[Place, ChapterTimes](_MAX_TIMES, lambda one: len(one.at_us))
        self._counts = LruCache[Place, tuple[int, IntArray]](_MAX_COUNTS, lambda one: len(one[1]))

    # -- reading ------------------------------------------------------------------------------

    def chapters(self, place: Place) -> ChapterList:
        """The chapters of a place as of the last update."""
        with self._lock:
            chapters = self._chapters.get(place)
            if chapters is None:
                chapters = self._chapters[place] = self._store.chapters(place)
            self._chapters.move_to_end(place)
            while len(self._chapters) > _MAX_PLACES:
                self._checked.pop(self._chapters.popitem(last=False)[0], None)
            return chapters

    def counts(self, place: Place, chosen: range, groups: int) -> IntArray:
        """Impressions by group in chapters that are shown; sums from the first are cached."""
        known, added = 0, np.zeros(groups, dtype=np.int64)
        if chosen.start == 0:
            cached, before = self._counts.get(place) or (0, added)
            if cached <= chosen.stop and len(before) == groups:
                known, added = cached, before.copy()
        rest = range(max(chosen.start, known), chosen.stop)
        for content in self._store.contents(place, rest):
            here = content.groups < groups
            added[content.groups[here]] += content.counts[here]
        if chosen.start == 0 and rest:
            with self._lock:
                cached, _ = self._counts.get(place) or (0, added)
                if cached <= chosen.stop:
                    self._counts.put(place, (chosen.stop, added.copy()))
        return added

    def draws(
        self, place: Place, chosen: range, groups: int, model: VisitModel
    ) -> GroupDraws | None:
        """Effective draws of chapters that are shown; None if some were closed without times."""
        times = self.times(place)
        return None if times is None else times.draws(chosen, groups, model)

    def times(self, place: Place) -> ChapterTimes | None:
        """The rows of chapters that are shown; None if some were closed without times."""
        shown = self.chapters(place).shown_count
        times = self._times.get(place)
        if times is None or times.chapters < shown:
            known = 0 if times is None else times.chapters
            times = ChapterTimes.of(self._store.contents(place, range(known, shown)), times)
            if times is None:
                return None
            self._times.put(place, times)
        return times

    def behind(self, place: Place) -> bool:
        """Whether the log lacks rows that chapters hold; then no chapter can be closed."""
        return place in self._behind

    @property
    def behind_count(self) -> int:
        """Places whose log lacks rows that chapters hold, as of the last look at each."""
        return len(self._behind)

    def last_bid(
        self, campaign: int, end_micros: int, *, ended: bool, now_micros: int
    ) -> int | None:
        """When a campaign's last bid was made: at the end of its flight, or when it was ended.

        Bids outstanding when an end was moved into the past count from the moment of that change.
        """
        with self._lock:
            before = self._flights.get(campaign) or self._store.flight(campaign)
            flight = observe_flight(before, end_micros, ended, now_micros)
            if flight != before and (before is not None or flight.ended_micros is not None):
                self._store.store_flight(campaign, flight)
            self._flights[campaign] = flight
        over = max(end_micros, flight.moved_micros or end_micros)
        if flight.ended_micros is not None:
            over = min(over, flight.ended_micros)
        return over if over <= now_micros else None

    # -- writing ------------------------------------------------------------------------------

    def update(
        self,
        now: Snapshot,
        rows: Mapping[Place, int],
        watched: Iterable[WatchedPlace],
        now_micros: int,
    ) -> None:
        """Close the chapters of all these places that can be closed.

        `rows` is the number of rows of each in the log. A few queries serve all places together;
        places without a newly finished cell of the grid are skipped.
        """
        horizon = self._horizon(now_micros)
        with self._lock:
            self._resumed = self._store.resumptions()
            places = [one for one in watched if self._may_grow(one, rows.get(one.log_place, 0))]
            for _ in range(_TRIES):
                stale = [builder for one in places if (builder := self._stale(one, horizon))]
                if not stale or self._extend(now, rows, stale, horizon):
                    return

    def find_behind(
        self,
        now: Snapshot,
        rows: Mapping[Place, int],
        watched: Iterable[WatchedPlace],
        now_micros: int,
    ) -> list[Place]:
        """The places whose log lacks rows that chapters hold. Closes nothing: nobody is watched."""
        horizon = self._horizon(now_micros)
        with self._lock:
            self._resumed = self._store.resumptions()
            builders = [self._builder(replace(one, people=None), horizon) for one in watched]
            self._extend(now, rows, builders, horizon)
            return [one.place for one in builders if self.behind(one.place)]

    def _horizon(self, now_micros: int) -> int:
        return (now_micros - self._settle) // self._grid * self._grid

    def _may_grow(self, one: WatchedPlace, rows: int) -> bool:
        """Whether a place could have a new chapter, one to release, or fewer rows than before."""
        if one.place in self._resumed or one.place in self._behind:
            return True  # which rows count, and whether all are back, is for a query to say
        chapters = self.chapters(one.place)
        if rows < chapters.rows or (one.over_micros is not None and chapters.newest_withheld):
            return True
        return one.people is not None and rows - chapters.rows >= self._floors.min_impressions

    def _stale(self, one: WatchedPlace, horizon: int) -> ChapterBuilder | None:
        builder = self._builder(one, horizon)
        checked = max(builder.begin_micros, self._checked.get(one.place, builder.begin_micros))
        if self._behind.get(one.place) == (horizon, self._resumed.get(one.place)):
            return None
        ending = builder.final and builder.chapters.newest_withheld
        return builder if ending or builder.until_micros > checked else None

    def _builder(self, one: WatchedPlace, horizon: int) -> ChapterBuilder:
        final = _NEVER
        if one.over_micros is not None:
            final = -(-(one.over_micros + self._closing) // self._grid) * self._grid
        restored = self._store.restored_micros
        return ChapterBuilder(
            one,
            self.chapters(one.place),
            min(horizon, final),
            final=final <= horizon,
            restored_micros=None if restored is None else -(-restored // self._grid) * self._grid,
            resumed=self._resumed.get(one.place, 0),
        )

    def _extend(
        self, now: Snapshot, rows: Mapping[Place, int], stale: list[ChapterBuilder], horizon: int
    ) -> bool:
        """Close what can be closed; False if another process wrote first in a place."""
        sizes = sizes_of(now, [one.stretch() for one in stale], self._grid)
        resumed = [since for one in stale if (since := one.rows_since_resumed()) is not None]
        counted = sizes_of(now, resumed, self._grid)
        rows = {**rows, **{place: sum(cells.values()) for place, cells in counted.items()}}
        for one in stale:
            mine = sizes[one.log_place]
            surplus = rows.get(one.log_place, 0) - one.rows_in_chapters - sum(mine.values())
            one.rows_missing, one.late = surplus < 0, surplus > 0
            if one.late:
                first = (one.begin_micros // self._grid + 1) * self._grid
                mine[first] = mine.get(first, 0) + surplus
        growing = {one.log_place: one for one in stale if not one.rows_missing}
        stretches = [one.stretch() for one in growing.values()]
        waiting = 0
        for log_place, end, content in cells_of(now, stretches, sizes, self._grid):
            waiting += growing[log_place].take(end, content, self._floors, self._store)
            if waiting > _MAX_UNWRITTEN:
                self._write(stale, horizon, last=False)
                waiting = 0
        return self._write(stale, horizon, last=True)

    def _write(self, growing: Iterable[ChapterBuilder], horizon: int, *, last: bool) -> bool:
        alone = True
        for one in growing:
            if one.rows_missing:
                self._behind[one.place] = (horizon, self._resumed.get(one.place))
                continue
            if one.lost_race or not one.write(self._store, last=last):
                alone = False
            elif last:
                self._checked[one.place] = one.until_micros
                self._behind.pop(one.place, None)
            self._chapters.pop(one.place, None)
        return alone


def observe_flight(before: Flight | None, end_micros: int, ended: bool, now_micros: int) -> Flight:
    """The end of a campaign as known after another observation."""
    if before is None:
        return Flight(end_micros, None, now_micros if ended else None)
    moved = before.moved_micros
    if end_micros != before.end_micros:
        moved = now_micros if end_micros < now_micros else None
    seen = before.ended_micros
    return Flight(end_micros, moved, (now_micros if seen is None else seen) if ended else None)
