"""The times of a chapter's impressions, where the catalogue has a visit model.

A reach figure then depends on when impressions came, so a chapter keeps the times of its rows
beside their counts. They are fixed when it is closed: effective draws of chapters are computed from
these and not from the log, where a late row would change what was shown.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kreach.adsystem.disclosure.chapters.chapter import ChapterCounts
from kreach.adsystem.measurement.drawn import GroupDraws
from kreach.adsystem.measurement.times import group_draws
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.types import IntArray

__all__ = ["ChapterTimes", "packed_times", "unpacked_times"]


@dataclass(frozen=True, eq=False)
class ChapterTimes:
    """Group, time and chapter of each impression of the first chapters, by group, then time."""

    group: IntArray
    at_us: IntArray
    chapter: IntArray
    chapters: int  # how many

    @classmethod
    def of(
        cls, contents: Iterable[ChapterCounts], before: "ChapterTimes | None" = None
    ) -> "ChapterTimes | None":
        """The impressions of chapters after those of `before`; None if some have no times."""
        chapters = 0 if before is None else before.chapters
        columns = [] if before is None else [(before.group, before.at_us, before.chapter)]
        for content in contents:
            if content.times is None:
                return None
            group = np.repeat(content.groups, content.counts)
            columns.append((group, content.times, np.full(len(group), chapters)))
            chapters += 1
        nothing = (np.zeros(0, dtype=np.int64),) * 3
        group, at_us, chapter = (
            np.concatenate(c) for c in zip(*(columns or [nothing]), strict=True)
        )
        order = np.lexsort((at_us, group))
        return cls(group[order], at_us[order], chapter[order], chapters)

    def draws(self, chosen: range, groups: int, model: VisitModel) -> GroupDraws:
        """The effective draws of some chapters that follow each other."""
        here = (self.chapter >= chosen.start) & (self.chapter < chosen.stop)
        here &= self.group < groups
        return group_draws(groups, self.group[here], self.at_us[here], model)


def packed_times(content: ChapterCounts) -> bytes | None:
    """The times of a chapter for its store; None where they are not known."""
    if content.times is None:
        return None
    steps = np.diff(content.times, prepend=0)
    return zlib.compress(steps.astype("<i8").tobytes(), 1)


def unpacked_times(packed: bytes | None) -> IntArray | None:
    """As `packed_times` wrote them."""
    if packed is None:
        return None
    result: IntArray = np.cumsum(np.frombuffer(zlib.decompress(packed), dtype="<i8"))
    return result.astype(np.int64)
