"""What a series of versions gives away: how many people were in the same groups all along.

An observer who sees the group of a person in every version is left with those who were there as
long or longer, and in the same groups since. How long somebody has been there is counted from the
first group that the gateway named, member or not.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kreach.numeric.types import IntArray

__all__ = ["SMALL_CROWD", "Crowds", "crowds_over_versions"]

SMALL_CROWD = 5


@dataclass(frozen=True)
class Crowds:
    """Crowds that linking versions leaves: of all people of the newest version."""

    versions: int
    singled_out: int
    in_small_crowds: int  # of fewer than five, those singled out among them
    smallest: int
    median: float

    @staticmethod
    def of(groups: IntArray) -> "Crowds":
        """From everybody's groups (see `crowds_over_versions`)."""
        crowd = crowds_over_versions(groups)
        return Crowds(
            groups.shape[1],
            int(np.count_nonzero(crowd == 1)),
            int(np.count_nonzero(crowd < SMALL_CROWD)),
            int(crowd.min(initial=len(crowd))),
            float(np.median(crowd)) if len(crowd) else 0.0,
        )

    def document(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def crowds_over_versions(groups: IntArray) -> IntArray:
    """For everybody, how many people (with themselves) were in the same groups since they came.

    `groups` holds the group of each person (row) in each version (column), oldest first, and −1
    in the versions before their first.

    >>> crowds_over_versions(np.array([[0, 0], [0, 0], [0, 1], [-1, 0]])).tolist()
    [2, 2, 1, 3]
    """
    people, versions = groups.shape
    crowd = np.zeros(people, dtype=np.int64)
    here = np.arange(people)
    since = np.zeros(people, dtype=np.int64)  # equal for people in the same groups from here on
    for version in range(versions - 1, -1, -1):
        column = groups[here, version]
        there = column >= 0
        here, column, since = here[there], column[there], since[there]
        width = int(column.max(initial=0)) + 1
        _, since = np.unique(since * width + column, return_inverse=True)
        crowd[here] = np.bincount(since, minlength=1)[since]  # at last from their first version
    return crowd
