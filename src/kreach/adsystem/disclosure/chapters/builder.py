"""How the book of one place grows: cells come in order of time, chapters go to the archive."""

from dataclasses import dataclass

import numpy as np

from kreach.adsystem.disclosure.chapters.chapter import (
    EMPTY,
    Book,
    Chapter,
    Content,
    Floors,
    People,
    close_chapters,
)
from kreach.adsystem.disclosure.chapters.grid import Numbers, Stretch
from kreach.adsystem.disclosure.chapters.store import Archive, Place
from kreach.numeric.types import IntArray

__all__ = ["Growth", "Watched"]


@dataclass(frozen=True)
class Watched:
    """A campaign on a catalogue, whose chapters are wanted.

    `over_micros`: when its last bid was made, as far as is known; None while it may go on.
    `people` is None where nobody can say whom groups hold: then no chapter is closed, and what is
    held back is shown when the campaign is over.
    """

    place: Place
    numbers: Numbers
    groups: int | None
    start_micros: int
    over_micros: int | None
    people: People | None


class Growth:
    """A place whose log goes beyond its book: up to `until`, and to its end if that is `final`."""

    def __init__(self, watched: Watched, book: Book, until_micros: int, *, final: bool) -> None:
        self.watched, self.book, self.final = watched, book, final
        self.begin_micros = book[-1].end_micros if len(book) else watched.start_micros
        self.until_micros = max(until_micros, self.begin_micros)
        self.late = False  # rows from before `begin` are in no chapter yet
        self.spoiled = False  # rows that were shown are gone from the log
        self.beaten = False  # another process was before us
        self._closed: list[tuple[int, Content]] = []
        self._rest = EMPTY
        self._touched = False

    @property
    def place(self) -> Place:
        """Campaign and catalogue."""
        return self.watched.place

    @property
    def numbers(self) -> Numbers:
        """The same, as the log numbers them."""
        return self.watched.numbers

    def stretch(self) -> Stretch:
        """The rows that are wanted of the log."""
        since = None if self.late else self.begin_micros
        groups = self.watched.groups
        return Stretch(self.numbers, since, self.begin_micros, self.until_micros, groups)

    def take(self, end_micros: int, content: Content, floors: Floors, archive: Archive) -> int:
        """Go on by one cell; returns how many groups of closed chapters now wait to be written.

        With late rows, the first cell holds all that chapters hold, too.
        """
        if self.late and not self._touched:
            left = content.without(_all(archive, self.place, self.book))
            if left is None:
                self.spoiled = True
            else:
                content = left
        self._touched = True
        if self.spoiled or self.beaten:
            return 0
        people = self.watched.people or _nobody
        made, self._rest = close_chapters([(end_micros, content)], floors, people, self._rest)
        self._closed += made
        return sum(len(chapter.groups) for _, chapter in made)

    def write(self, archive: Archive, *, last: bool) -> bool:
        """Have chapters written down; False if another process was before us.

        With the last cell of a campaign that is over, the newest chapter takes in what is left.
        """
        final = last and self.final
        first, begin = len(self.book), self.begin_micros
        if final and not self._closed and self.book.held:
            first, begin = first - 1, self.book[-1].start_micros
            held = next(archive.contents(self.place, range(first, first + 1)))
            self._closed = [(self.book[-1].end_micros, held)]
        if not self._closed:
            return True
        if final:
            end, content = self._closed[-1]
            self._closed[-1] = (max(end, self.until_micros), content.joined(self._rest))
        chapters = []
        for at, (end, content) in enumerate(self._closed):
            sums = (content.impressions, content.rows, content.spend_micros)
            done = final and at == len(self._closed) - 1
            chapters.append((Chapter(begin, end, *sums, done), content))
            begin = end
        self.beaten = not archive.add(self.place, self.book, chapters, first)
        self.begin_micros, self._closed = begin, []
        if not last:
            self.book = archive.book(self.place)
        return not self.beaten


def _all(archive: Archive, place: Place, book: Book) -> Content:
    """All that a book holds."""
    counts = np.zeros(0, dtype=np.int64)
    rows = spend = 0
    for content in archive.contents(place, range(len(book))):
        most = int(content.groups.max(initial=-1))
        if most >= len(counts):
            counts = np.concatenate([counts, np.zeros(2 * most + 1 - len(counts), dtype=np.int64)])
        counts[content.groups] += content.counts
        rows, spend = rows + content.rows, spend + content.spend_micros
    groups = np.flatnonzero(counts)
    return Content(groups, counts[groups], rows, spend)


def _nobody(_: IntArray) -> int:
    return 0
