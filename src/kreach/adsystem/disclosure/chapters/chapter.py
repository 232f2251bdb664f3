"""Chapters: a campaign's log on one catalogue, cut into pieces that may be shown as a whole.

A chapter ends at the first point of a grid where it holds at least `min_impressions` and the
groups that were served in it hold at least `min_people` targeted people. Only whole chapters are
ever shown, so

    two windows that are shown differ by whole chapters, or not at all,

and no difference of shown numbers speaks about fewer impressions or people than a chapter holds.
The newest chapter is withheld until the next one is closed, or until the campaign is over: then it
also takes in all later rows, however few. So the last totals are complete, and they still differ
from those before by a full chapter.

The content of a chapter is fixed when it is closed: all impressions before its end that no earlier
chapter holds. A late row goes into the next chapter; what was shown never changes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kreach.boundary.checks import as_counts, as_whole_number
from kreach.boundary.times import MICROS, MONDAY_SECONDS, PERIOD_LENGTH, as_period
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = [
    "EMPTY",
    "Chapter",
    "ChapterCounts",
    "ChapterList",
    "Edges",
    "Floors",
    "People",
    "close_chapters",
]

People = Callable[[IntArray], int]
"""The number of targeted people in these groups."""


@dataclass(frozen=True)
class Floors:
    """The minimum size of a chapter."""

    min_impressions: int
    min_people: int

    def __post_init__(self) -> None:
        as_whole_number("min_impressions", self.min_impressions, minimum=1)
        as_whole_number("min_people", self.min_people, minimum=1)


@dataclass(frozen=True, eq=False)
class ChapterCounts:
    """Impressions by group (ascending, each once), and rows and money of all groups.

    `rows` also counts rows of groups that the catalogue does not have: they are no impressions,
    and cost money all the same. `times` are those of the impressions in microseconds since 1970,
    by group, then time; None where no report needs them.
    """

    groups: IntArray
    counts: IntArray
    rows: int
    spend_micros: int
    times: IntArray | None = None

    @classmethod
    def of(
        cls,
        groups: IntArray,
        counts: IntArray,
        spend_micros: int,
        rows: int | None = None,
        times: IntArray | None = None,
    ) -> "ChapterCounts":
        """From groups in any order, some of them repeatedly; `times` in the order of a chapter."""
        distinct, place = np.unique(as_counts("groups", groups), return_inverse=True)
        added = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(added, place, counts)
        some = added != 0
        total = int(added.sum()) if rows is None else rows
        return cls(distinct[some], added[some], total, spend_micros, times)

    @cached_property
    def impressions(self) -> int:
        """Of groups that the catalogue has."""
        return int(self.counts.sum())

    def joined(self, other: "ChapterCounts") -> "ChapterCounts":
        """Both together."""
        if not other.rows:
            return self
        if not self.rows:
            return other
        groups = np.concatenate([self.groups, other.groups])
        counts = np.concatenate([self.counts, other.counts])
        spend = self.spend_micros + other.spend_micros
        times = None
        if self.times is not None and other.times is not None:
            at = np.concatenate([self.times, other.times])
            times = at[np.lexsort((at, np.repeat(groups, counts)))]
        return ChapterCounts.of(groups, counts, spend, self.rows + other.rows, times)

    def without(self, other: "ChapterCounts") -> "ChapterCounts | None":
        """These counts less `other`; None if they do not contain it."""
        negative = ChapterCounts(other.groups, -other.counts, -other.rows, -other.spend_micros)
        left = self.joined(negative)
        if left.rows < 0 or left.counts.min(initial=0) < 0:
            return None
        if self.times is None or other.times is None:
            return left
        times = _less(self, self.times, other, other.times)
        return None if len(times) != left.impressions else replace(left, times=times)


def _less(
    whole: ChapterCounts, times: IntArray, part: ChapterCounts, part_times: IntArray
) -> IntArray:
    """The times of `whole` that are not those of `part`, group by group, each as often as left."""
    group = np.concatenate([np.repeat(one.groups, one.counts) for one in (whole, part)])
    at = np.concatenate([times, part_times])
    sign = np.repeat([1, -1], [len(times), len(part_times)])
    order = np.lexsort((at, group))
    group, at, sign = group[order], at[order], sign[order]
    new = np.ones(len(at), dtype=bool)
    new[1:] = (group[1:] != group[:-1]) | (at[1:] != at[:-1])
    first = np.flatnonzero(new)
    left = np.add.reduceat(sign, first) if len(first) else sign
    result: IntArray = np.repeat(at[first], np.maximum(left, 0))
    return result


_NONE = np.zeros(0, dtype=np.int64)
EMPTY = ChapterCounts(_NONE, _NONE, 0, 0, _NONE)


def close_chapters(
    cells: Iterable[tuple[int, ChapterCounts]],
    floors: Floors,
    people: People,
    begun: ChapterCounts = EMPTY,
) -> tuple[list[tuple[int, ChapterCounts]], ChapterCounts]:
    """Cut cells of the grid, each with its end, into chapters; also returns the open remainder.

    A chapter is closed as early as possible, so later cells never change closed ones: the chapters
    of a log are the first chapters of every longer one.
    """
    closed: list[tuple[int, ChapterCounts]] = []
    for end, content in cells:
        begun = begun.joined(content)
        enough = begun.impressions >= floors.min_impressions
        if enough and people(begun.groups) >= floors.min_people:
            closed.append((end, begun))
            begun = EMPTY
    return closed, begun


class Chapter(NamedTuple):
    """A closed chapter; `final`: its campaign was over, and no chapter follows."""

    start_micros: int
    end_micros: int
    impressions: int
    rows: int
    spend_micros: int
    final: bool

    @classmethod
    def of(cls, values: Sequence[int]) -> "Chapter":
        """From numbers as they are stored."""
        start, end, impressions, rows, spend, final = values
        return cls(start, end, impressions, rows, spend, bool(final))


class Edges(NamedTuple):
    """The nearest edges of chapters before and after a moment, if any."""

    before_micros: int | None
    after_micros: int | None


@dataclass(frozen=True, eq=False)
class ChapterList:
    """The closed chapters of a campaign on one catalogue, each from the end of the one before.

    One row per chapter, in the order of `Chapter`.
    """

    table: IntArray

    @classmethod
    def of(cls, chapters: Iterable[Chapter]) -> "ChapterList":
        """From chapters one by one."""
        rows = [tuple(map(int, chapter)) for chapter in chapters]
        table = np.array(rows, dtype=np.int64).reshape(-1, len(Chapter._fields))
        if len(table) and (table[1:, 0] != table[:-1, 1]).any():
            raise KreachError("chapters must follow each other without a gap")
        return cls(table)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, at: int) -> Chapter:
        return Chapter.of(self.table[at].tolist())

    @property
    def newest_withheld(self) -> bool:
        """Whether the newest chapter is withheld until the next one is closed."""
        return len(self) > 0 and not self[-1].final

    @property
    def shown_count(self) -> int:
        """The number of chapters that may be shown: all but a withheld one."""
        return len(self) - self.newest_withheld

    @property
    def rows(self) -> int:
        """Rows of the log in all chapters."""
        return int(self.table[:, 3].sum())

    @property
    def starts(self) -> IntArray:
        """Starts of the chapters that may be shown."""
        return self.table[: self.shown_count, 0]

    @property
    def ends(self) -> IntArray:
        """Ends of the chapters that may be shown."""
        return self.table[: self.shown_count, 1]

    def impressions_at(self, moment_micros: int) -> int:
        """Impressions of all shown chapters that end up to a moment."""
        return int(self.table[: self._ended(moment_micros), 2].sum())

    def spend_at(self, moment_micros: int) -> int:
        """Spend of all shown chapters that end up to a moment."""
        return int(self.table[: self._ended(moment_micros), 4].sum())

    def _ended(self, moment_micros: int) -> int:
        return int(np.searchsorted(self.ends, moment_micros, side="right"))

    def within(self, start_micros: int | None, end_micros: int | None) -> range | None:
        """The shown chapters that make up a window exactly; None if they do not.

        Open ends are those of what is shown. Nothing comes before the first chapter, so a window
        may begin there or at any time before.
        """
        if not self.shown_count:
            return None
        first, last = 0, self.shown_count
        if start_micros is not None and start_micros > self.starts[0]:
            first = int(np.searchsorted(self.starts, start_micros))
            if first == self.shown_count or self.starts[first] != start_micros:
                return None
        if end_micros is not None:
            last = self._ended(end_micros)
            if not last or self.ends[last - 1] != end_micros:
                return None
        return range(first, last) if first < last else None

    def merged(self, chosen: range, by: str) -> list[range]:
        """Chapters put together by hour, day or week (from Monday, UTC).

        A stretch goes on to the first end of a chapter at or after the end of a period.
        """
        length = int(PERIOD_LENGTH[as_period(by)].total_seconds()) * MICROS
        edges = self.table[chosen.start : chosen.stop, :2].T + MONDAY_SECONDS * MICROS
        starts, ends = edges // length
        crossing = starts < ends
        crossing[-1:] = True
        stops = [chosen.start, *(np.flatnonzero(crossing) + chosen.start + 1).tolist()]
        return [range(first, stop) for first, stop in pairwise(stops)]

    def edges(self, moment_micros: int, *, of_end: bool) -> Edges:
        """The nearest edges at which a window may begin or end."""
        edges = self.ends if of_end else self.starts
        before = int(np.searchsorted(edges, moment_micros, side="right")) - 1
        after = int(np.searchsorted(edges, moment_micros))
        return Edges(
            int(edges[before]) if before >= 0 else None,
            int(edges[after]) if after < len(edges) else None,
        )
