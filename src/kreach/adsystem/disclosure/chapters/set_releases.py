"""When advertisers may see campaigns together.

The overlap of campaigns is a sum over the groups that all of them served, and so is every
difference of unions: union(a, b) − a − b depends on nothing else. Groups in common may be few where
each campaign alone served many, and so may those that one more chapter adds to them. So a set of
campaigns is shown as of a *state*, the number of chapters of each, and a new state is released only
if for the set and every smaller set in it (of two campaigns or more)

    the groups that all of them served, and some of them again since the last state that was
    released of just these campaigns, hold at least `min_people` targeted people and
    `min_impressions` new impressions.

No such groups are too few as well: else an answer would tell none from one. Until then the last
state released is shown, or nothing. Released states are on disk before they are
shown, and grow only, so a difference of any two is at least one such step. Sets are combined on one
audience; a window of whole chapters of each campaign would be another set, so there are none.
"""

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np

from kreach.adsystem.disclosure.chapters.chapter import Floors
from kreach.adsystem.disclosure.chapters.store import ChapterStore, SetStates
from kreach.numeric.types import IntArray

__all__ = ["MAX_TOGETHER", "SetReleases", "SetState"]

MAX_TOGETHER = 5
_TRIES = 10

SetState = dict[int, int]
"""Chapters shown, by number of the campaign."""

Counts = Callable[[int, int], IntArray]
"""Impressions by group in the first so many chapters of a campaign."""


class SetReleases:
    """The states of sets of campaigns that advertisers may see."""

    def __init__(self, store: ChapterStore, floors: Floors) -> None:
        self._store, self._floors = store, floors

    def state(
        self, catalogue: str, shown: SetState, counts: Counts, people: Callable[[IntArray], int]
    ) -> SetState | None:
        """Release the newest state if it may be; else the last that was, if any."""
        members = tuple(sorted(shown))
        for _ in range(_TRIES):
            known = self._store.sets(catalogue)
            released = self._released(members, known, shown, counts, people)
            if not released or self._store.store_sets(catalogue, known, released):
                found = (known | released).get(members)
                return None if found is None else dict(zip(members, found, strict=True))
        return None  # others release all the time: ask again

    def _released(
        self,
        members: tuple[int, ...],
        known: SetStates,
        shown: SetState,
        counts: Counts,
        people: Callable[[IntArray], int],
    ) -> SetStates:
        """What is released now of a set and all sets in it: all or nothing."""
        new: SetStates = {}
        for one in _subsets(members):
            before = dict(zip(one, known.get(one, (0,) * len(one)), strict=True))
            if any(shown[campaign] < before[campaign] for campaign in one):
                return {}  # this view is older than what was released
            if any(shown[campaign] > before[campaign] for campaign in one):
                if not self._large_enough(before, shown, counts, people):
                    return {}
                new[one] = tuple(shown[campaign] for campaign in one)
        return new

    def _large_enough(
        self,
        before: SetState,
        shown: SetState,
        counts: Counts,
        people: Callable[[IntArray], int],
    ) -> bool:
        """Whether the groups in common that changed hold enough people and impressions."""
        now = [counts(one, shown[one]) for one in before]
        then = [counts(one, chapters) for one, chapters in before.items()]
        new = np.sum(now, axis=0) - np.sum(then, axis=0)
        changed = np.flatnonzero(np.all([each > 0 for each in now], axis=0) & (new > 0))
        enough = int(new[changed].sum()) >= self._floors.min_impressions
        return enough and people(changed) >= self._floors.min_people


def _subsets(members: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for size in range(2, len(members) + 1):
        yield from combinations(members, size)
