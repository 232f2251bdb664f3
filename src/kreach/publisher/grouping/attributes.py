"""Groups by generalisation over mixed attributes, in the manner of Mondrian.

Split the population at the middle of its most spread-out attribute, and each half again, as long
as both halves keep at least k. All boxes of one depth are split together by sorting, so the work
is O(N log N) for each of the log₂(N/k) depths, and nothing loops over people.
"""

from dataclasses import dataclass

import numpy as np

from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.grouping.base import cut_evenly
from kreach.publisher.people import People

__all__ = ["ByAttributes", "information_kept"]


@dataclass(frozen=True)
class ByAttributes:
    """Multidimensional generalisation over the named attributes (all, if none is named).

    Attributes are compared on the scale of ranks, so neither units nor outliers matter. A cut
    falls between two values if one near the middle leaves both sides at least k.
    """

    attributes: tuple[str, ...] = ()
    name = "attributes"

    def __call__(self, people: People, group_size: int, generator: np.random.Generator) -> IntArray:
        names = self.attributes or tuple(sorted(people.attributes))
        ranks = [people.attribute(name).ranks() for name in names]
        order = generator.permutation(people.count)
        sizes = np.array([people.count], dtype=np.int64)
        while ranks and sizes.max() >= 2 * group_size:
            order, sizes = _split_boxes(order, sizes, ranks, group_size)
        groups = np.empty(people.count, dtype=np.int64)
        groups[order] = (
            np.repeat(np.arange(len(sizes)), sizes) if ranks else cut_evenly(sizes, group_size)
        )
        return groups


def _split_boxes(
    order: IntArray, sizes: IntArray, ranks: list[FloatArray], group_size: int
) -> tuple[IntArray, IntArray]:
    """Split every box of at least 2k people; `order` lists people box after box."""
    starts = np.cumsum(sizes) - sizes
    spreads = []
    for column in ranks:
        here = column[order]
        spreads.append(np.maximum.reduceat(here, starts) - np.minimum.reduceat(here, starts))
    widest = np.argmax(np.stack(spreads), axis=0)
    box = np.repeat(np.arange(len(sizes)), sizes)
    value = np.empty(len(order))
    for index, column in enumerate(ranks):
        chosen = widest[box] == index
        value[chosen] = column[order[chosen]]
    line = np.lexsort((value, box))  # stable: equal values keep their random order
    order, value = order[line], value[line]
    cut = _cut_positions(value, starts, sizes, group_size)
    split = sizes >= 2 * group_size
    pieces = np.where(split, 2, 1)
    first = np.cumsum(pieces) - pieces
    new_sizes = np.empty(int(pieces.sum()), dtype=np.int64)
    new_sizes[first] = np.where(split, cut, sizes)
    new_sizes[first[split] + 1] = (sizes - cut)[split]
    return order, new_sizes


def _cut_positions(
    value: FloatArray, starts: IntArray, sizes: IntArray, group_size: int
) -> IntArray:
    """Where to cut each box: between two values if allowed, as near to the middle as possible."""
    box = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(value)) - starts[box]
    changes = np.concatenate([[False], value[1:] != value[:-1]])
    allowed = changes & (place >= group_size) & (sizes[box] - place >= group_size)
    pieces = np.maximum(sizes // group_size, 1)  # groups that the box can become
    centre = pieces // 2 * sizes // pieces
    middle = centre[box]
    distance = np.where(allowed, np.abs(place - middle), len(value))
    nearest = np.minimum.reduceat(distance, starts)
    at = np.where(allowed & (distance == nearest[box]), place, len(value))
    cut = np.minimum.reduceat(at, starts)
    return np.where(cut < sizes, cut, centre)


def information_kept(people: People, groups: IntArray, names: tuple[str, ...]) -> dict[str, float]:
    """For each attribute 1 − the mean spread of ranks inside a person's group.

    1: everybody in a group is equal in it; 0: every group spans the whole population. (The
    literature calls the complement the normalised certainty penalty.)
    """
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    starts = np.cumsum(sizes) - sizes
    shares = {}
    for name in names:
        here = people.attribute(name).ranks()[order]
        spread = np.maximum.reduceat(here, starts) - np.minimum.reduceat(here, starts)
        shares[name] = 1.0 - float(spread @ sizes) / max(people.count, 1)
    return shares
