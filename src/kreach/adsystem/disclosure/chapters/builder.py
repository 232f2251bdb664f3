"""Builds the chapters of one place from its cells, in order of time, and stores them."""

from dataclasses import dataclass

import numpy as np

from kreach.adsystem.disclosure.chapters.chapter import (
    EMPTY,
    Chapter,
    ChapterCounts,
    ChapterList,
    Floors,
    People,
    close_chapters,
)
from kreach.adsystem.disclosure.chapters.grid import Stretch
from kreach.adsystem.disclosure.chapters.store import ChapterStore
from kreach.adsystem.disclosure.chapters.times import ChapterTimes
from kreach.adsystem.log.place import Place
from kreach.numeric.types import IntArray

__all__ = ["ChapterBuilder", "WatchedPlace"]


@dataclass(frozen=True)
class WatchedPlace:
    """A campaign on a catalogue whose chapters are updated.

    `place` names the catalogue by its version, `log_place` by its number in the log.

    `over_micros`: the time of its last bid, as far as is known; None while it may go on.
    `people` is None where the catalogue is unknown: then no chapter is closed, and a withheld one
    is shown when the campaign is over. `timed`: reports need the times of impressions.
    """

    place: Place
    log_place: Place
    groups: int | None
    start_micros: int
    over_micros: int | None
    people: People | None
    timed: bool = False


class ChapterBuilder:
    """A place whose log goes beyond its chapters: up to `until`, to its end if that is `final`.

    `restored_micros`: the store was restored from a backup then, and rows from before may have been
    shown in chapters that are lost, with other rows that are lost too. So the next chapter meets
    the floors with rows from after the restore alone: what tells it from a lost one is never few.

    `resumed`: the log lost rows of the first so many chapters, and an operator accepted that. What
    is in them cannot be told from what is not. So no row from before their end is counted again,
    and none that was late for them: rows that come back would be in two chapters.
    """

    def __init__(
        self,
        watched: WatchedPlace,
        chapters: ChapterList,
        until_micros: int,
        *,
        final: bool,
        restored_micros: int | None = None,
        resumed: int = 0,
    ) -> None:
        self.watched, self.chapters, self.final = watched, chapters, final
        self._resumed = resumed
        self.begin_micros = chapters[-1].end_micros if len(chapters) else watched.start_micros
        self.until_micros = max(until_micros, self.begin_micros)
        self.late = False  # rows from before `begin` are in no chapter yet
        self.rows_missing = False  # the log lacks rows that chapters hold
        self.lost_race = False  # another process wrote first
        self._closed: list[tuple[int, ChapterCounts]] = []
        self._rest = EMPTY
        self._fence = restored_micros or self.begin_micros
        self._before_fence = EMPTY
        self._touched = False

    @property
    def place(self) -> Place:
        """Campaign and catalogue."""
        return self.watched.place

    @property
    def log_place(self) -> Place:
        """The same by the numbers of the log."""
        return self.watched.log_place

    @property
    def rows_in_chapters(self) -> int:
        """Rows that the log must have; of a place that was resumed, those since."""
        return int(self.chapters.table[self._resumed :, 3].sum())

    @property
    def _resumed_micros(self) -> int | None:
        return self.chapters[self._resumed - 1].end_micros if self._resumed else None

    def rows_since_resumed(self) -> Stretch | None:
        """The rows that count for a place that was resumed; None for any other: all of the log."""
        since = self._resumed_micros
        return None if since is None else Stretch(self.log_place, since, since, since, None)

    def stretch(self) -> Stretch:
        """The rows to read from the log."""
        since = self._resumed_micros if self.late else self.begin_micros
        groups = self.watched.groups
        timed = self.watched.timed
        return Stretch(self.log_place, since, self.begin_micros, self.until_micros, groups, timed)

    def take(
        self, end_micros: int, content: ChapterCounts, floors: Floors, store: ChapterStore
    ) -> int:
        """Add one cell; returns how many groups of newly closed chapters are to be written.

        With late rows, the first cell also holds the rows of all existing chapters.
        """
        if self.late and not self._touched:
            existing = range(self._resumed, len(self.chapters))
            left = content.without(_all(store, self.place, existing))
            if left is None:
                self.rows_missing = True
            else:
                content = left
        self._touched = True
        if self.rows_missing or self.lost_race:
            return 0
        if end_micros <= self._fence:
            self._before_fence = self._before_fence.joined(content)
            return 0
        people = self.watched.people or _nobody
        closed, self._rest = close_chapters([(end_micros, content)], floors, people, self._rest)
        if closed:
            end, first = closed[0]
            closed[0] = (end, first.joined(self._before_fence))
            self._before_fence = EMPTY
        self._closed += closed
        return sum(len(chapter.groups) for _, chapter in closed)

    def write(self, store: ChapterStore, *, last: bool) -> bool:
        """Store closed chapters; False if another process wrote first.

        With the last cell of a campaign that is over, the newest chapter takes in the remainder.
        """
        final = last and self.final
        first, begin = len(self.chapters), self.begin_micros
        if final and not self._closed and begin < self._fence:
            return True  # too few rows since the restore: what there is stays withheld
        if final and not self._closed and self.chapters.newest_withheld:
            first, begin = first - 1, self.chapters[-1].start_micros
            newest = next(store.contents(self.place, range(first, first + 1)))
            self._closed = [(self.chapters[-1].end_micros, newest)]
        if not self._closed:
            return True
        if final:
            end, content = self._closed[-1]
            self._closed[-1] = (max(end, self.until_micros), content.joined(self._rest))
        written = []
        for at, (end, content) in enumerate(self._closed):
            sums = (content.impressions, content.rows, content.spend_micros)
            done = final and at == len(self._closed) - 1
            written.append((Chapter(begin, end, *sums, done), content))
            begin = end
        self.lost_race = not store.add(self.place, self.chapters, written, first)
        self.begin_micros, self._closed = begin, []
        if not last:
            self.chapters = store.chapters(self.place)
        return not self.lost_race


def _all(store: ChapterStore, place: Place, chosen: range) -> ChapterCounts:
    """The counts of chapters together."""
    counts = np.zeros(0, dtype=np.int64)
    rows = spend = 0
    contents = list(store.contents(place, chosen))
    for content in contents:
        last = int(content.groups.max(initial=-1))
        if last >= len(counts):
            counts = np.concatenate([counts, np.zeros(2 * last + 1 - len(counts), dtype=np.int64)])
        counts[content.groups] += content.counts
        rows, spend = rows + content.rows, spend + content.spend_micros
    groups, all_times = np.flatnonzero(counts), ChapterTimes.of(contents)
    times = None if all_times is None else all_times.at_us
    return ChapterCounts(groups, counts[groups], rows, spend, times)


def _nobody(_: IntArray) -> int:
    return 0
