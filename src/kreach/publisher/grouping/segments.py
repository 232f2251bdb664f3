"""Groups aligned with advertisers' targeting segments, as pure as k allows.

The paper's last experiment: efficiency rises almost linearly with coverage, the share of targeted
members in groups that hold any. A group inside one segment has coverage 1.
"""

from dataclasses import dataclass

import numpy as np

from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.grouping.base import cut_evenly, largest_group
from kreach.publisher.people import People

__all__ = ["BySegments"]


@dataclass(frozen=True)
class BySegments:
    """Cut inside cells of equal targeting attributes; pool cells that are too small.

    A cell is a combination of values of `attributes`, the most important first. Cells of at least
    k are cut on their own. Smaller ones are pooled with cells that agree on all but the last
    attribute, then on all but the last two, and so on. Inside a cell people are in random order
    or, with `by_rate`, ordered by past visits.
    """

    attributes: tuple[str, ...]
    by_rate: bool = False

    def __post_init__(self) -> None:
        if not self.attributes:
            raise KreachError.rule("attributes", "name at least one targeting attribute", "none")

    @property
    def name(self) -> str:
        """The name on the command line."""
        return "segments+rates" if self.by_rate else "segments"

    def __call__(self, people: People, group_size: int, generator: np.random.Generator) -> IntArray:
        codes = people.codes(self.attributes)
        chance = generator.random(people.count)
        inside = people.visits if self.by_rate else chance
        groups = np.full(people.count, -1, dtype=np.int64)
        next_group = 0
        for depth in range(len(self.attributes), -1, -1):
            left = np.flatnonzero(groups < 0)
            keys = tuple(codes[left, column] for column in range(depth - 1, -1, -1))
            line = left[np.lexsort((chance[left], inside[left], *keys))]
            lengths = _run_lengths(codes[line, :depth])
            enough = lengths >= group_size
            chosen = line[np.repeat(enough, lengths)]
            if chosen.size:
                cut = cut_evenly(lengths[enough], group_size)
                groups[chosen] = next_group + cut
                next_group += int(cut[-1]) + 1
        _place_remainder(groups, codes, group_size)
        return groups


def _run_lengths(rows: IntArray) -> IntArray:
    """Lengths of runs of equal rows."""
    if len(rows) == 0:
        return np.zeros(0, dtype=np.int64)
    starts = np.flatnonzero(np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)]))
    return np.diff(np.concatenate([starts, [len(rows)]]))


def _place_remainder(groups: IntArray, codes: IntArray, group_size: int) -> None:
    """Place the last people, fewer than k: each cell joins the most similar group with room.

    Where a group would reach 2k, it is cut in two along its cells.
    """
    rest = np.flatnonzero(groups < 0)
    if rest.size == 0:
        return
    placed = np.flatnonzero(groups >= 0)
    sizes = np.bincount(groups[placed])
    _, first = np.unique(groups[placed], return_index=True)
    example = codes[placed[first]]  # one member of each group
    cells, cell_of = np.unique(codes[rest], axis=0, return_inverse=True)
    for cell, values in enumerate(cells):
        people = rest[cell_of.reshape(-1) == cell]
        alike = (example == values).cumprod(axis=1).sum(axis=1)
        crowded = sizes + len(people) > largest_group(group_size)
        best = int(np.lexsort((sizes, -alike, crowded))[0])
        groups[people] = best
        sizes[best] += len(people)
    for group in np.flatnonzero(sizes >= 2 * group_size).tolist():
        members = np.flatnonzero(groups == group)
        members = members[np.lexsort(codes[members].T[::-1])]
        part = cut_evenly(np.array([len(members)]), group_size)
        groups[members] = np.where(part > 0, groups.max() + part, group)
