"""Sums and differences of audiences: which of them come close to another one.

If *left* and *right* are released, an audience of everybody on either list and one person more
discloses her: it differs from left + right by her. So does the whole from left + right − both. The
number of such sums grows fast with the audiences, so they are filtered: by their totals, then by
sums over few parts of the groups. Both are lower bounds,

    |Σ over a part| ≤ Σ over the part |…|, so distance of parts ≤ distance of groups,

and the caller compares what passes both group by group.
"""

from collections.abc import Iterator
from math import comb

import numpy as np

from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = ["Combinations", "Signed", "check_together"]

_PARTS = 256
_MAX_COMBINATIONS = 4_000_000
_AT_ONCE = 4_096

Signed = tuple[tuple[str, int], ...]


def check_together(audiences: int, together: int) -> None:
    """Refuse more audiences than can be combined: all combinations are in memory.

    >>> check_together(100, 4)
    >>> check_together(200, 4)
    Traceback (most recent call last):
        ...
    kreach.errors.KreachError: audiences_together must be at most 3 with 200 audiences, got 4
    """
    sums = [comb(audiences, size) << size for size in range(together)]
    limit = next(
        (size for size in range(together) if sum(sums[: size + 1]) > _MAX_COMBINATIONS), None
    )
    if limit is not None:
        rule = f"be at most {limit} with {audiences} audiences"
        raise KreachError.rule("audiences_together", rule, together)


class Combinations:
    """All Σ ± audience of up to `max_size` different ones, at least one of them with a plus.

    >>> combinations = Combinations(2)
    >>> combinations.add("men", np.array([5, 3]))
    >>> combinations.add("women", np.array([4, 6]))
    >>> list(combinations.near(np.array([9, 8]), 2))
    [(('men', 1), ('women', 1))]
    """

    def __init__(self, max_size: int) -> None:
        self._names: list[str] = []
        self._parts = np.zeros((1, _PARTS), dtype=np.int64)  # of nobody, then of each audience
        self._totals = np.zeros(1, dtype=np.int64)  # of the empty sum first
        self._members = np.zeros((1, max_size), dtype=np.int32)  # ±number of the audience, from 1

    def add(self, name: str, counts: IntArray) -> None:
        """Add an audience, by its head-counts: to each sum with room for it, plus and minus."""
        self._names.append(name)
        self._parts = np.vstack([self._parts, _in_parts(counts)])
        room = self._members[:, -1] == 0
        totals, members = self._totals[room], self._members[room]
        total = int(counts.sum())
        for sign in (1, -1):
            more = np.roll(members, 1, axis=1)
            more[:, 0] = sign * len(self._names)
            self._totals = np.append(self._totals, totals + sign * total)
            self._members = np.vstack([self._members, more])

    def near(self, counts: IntArray, floor: int) -> Iterator[Signed]:
        """The sums that may be closer than the floor, as (name, sign); all others are not."""
        mine = _in_parts(counts)
        close = np.abs(self._totals - counts.sum()) < floor
        candidates = self._members[close & (self._members > 0).any(axis=1)]
        for low in range(0, len(candidates), _AT_ONCE):
            some = candidates[low : low + _AT_ONCE]
            parts = (np.sign(some)[:, :, None] * self._parts[np.abs(some)]).sum(axis=1)
            for members in some[np.abs(parts - mine).sum(axis=1) < floor].tolist():
                named = [number for number in members if number]
                yield tuple(
                    (self._names[abs(number) - 1], 1 if number > 0 else -1)
                    for number in sorted(named, key=abs)
                )


def _in_parts(counts: IntArray) -> IntArray:
    at = np.arange(len(counts)) % _PARTS
    return np.bincount(at, counts, _PARTS).astype(np.int64)
