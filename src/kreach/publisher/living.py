"""A living population: people join and leave, groups keep at least k, and few people move.

Stickiness is a privacy matter. An observer who sees somebody's group in every version intersects
the groups; if they are formed anew each time, a few versions single the person out (see `audit`).
"""

from dataclasses import dataclass

import numpy as np

from kreach.boundary.checks import as_whole_number
from kreach.errors import KreachError
from kreach.numeric.types import BoolArray, IntArray
from kreach.publisher.grouping.base import Assignment

__all__ = ["Regrouping", "regroup"]


@dataclass(frozen=True)
class Regrouping:
    """A new assignment and what it cost.

    People keep their order, without those who left and with those who joined at the end. `moved`
    counts people who stayed in the population and yet changed group.
    """

    assignment: Assignment
    joined: int
    left: int
    moved: int
    dissolved_groups: int
    split_groups: int


def regroup(assignment: Assignment, stays: BoolArray, joining: int, seed: int) -> Regrouping:
    """Take leavers out, put `joining` new people in (appended at the end), mend what broke.

    Joiners first fill groups that fell below k. Of the groups still below, the smallest are
    dissolved and their members fill the others; who is still missing comes from groups that can
    spare somebody. Groups of 2k and more are split. Only members of dissolved, split or lending
    groups move.
    """
    k = assignment.group_size
    joining = as_whole_number("joining", joining, least=0)
    old = assignment.group_of()
    if stays.shape != old.shape or stays.dtype != np.bool_:
        rule = f"be a truth value for each of the {len(old)} people"
        raise KreachError.rule("stays", rule, f"shape {stays.shape} of {stays.dtype}")
    staying = old[stays]
    total = len(staying) + joining
    if total < k:
        raise KreachError.rule("people", f"be at least group_size ({k}) people", total)
    generator = np.random.default_rng(as_whole_number("seed", seed, least=0))
    sizes = np.bincount(staying, minlength=assignment.group_count)
    groups = np.concatenate([staying, np.full(joining, -1)])
    homeless = np.arange(len(staying), total)
    dissolved = _dissolve(groups, sizes, homeless, k)
    homeless = generator.permutation(np.flatnonzero(groups < 0))
    _fill(groups, sizes, homeless, k)
    _lend(groups, sizes, k, generator)
    split = _split(groups, sizes, k, generator)
    moved = int(np.count_nonzero(groups[: len(staying)] != staying))
    _, compact = np.unique(groups, return_inverse=True)
    renewed = Assignment(compact.reshape(-1, 1), k, assignment.strategy)
    left = len(old) - len(staying)
    return Regrouping(renewed, joining, left, moved, dissolved, split)


def _dissolve(groups: IntArray, sizes: IntArray, homeless: IntArray, k: int) -> int:
    """Dissolve the smallest broken groups until the homeless suffice for the other broken ones.

    A group above half of k is not dissolved as long as somebody can lend: fewer people move.
    """
    broken = np.flatnonzero((sizes > 0) & (sizes < k))
    broken = broken[np.argsort(sizes[broken], kind="stable")]
    spare = int(np.maximum(sizes - k, 0).sum())
    need = int((k - sizes[broken]).sum())
    available = len(homeless)
    gone = 0
    for group in broken.tolist():
        if need <= available or (2 * sizes[group] > k and need <= available + spare):
            break
        need -= k - int(sizes[group])
        available += int(sizes[group])
        gone += 1
    dissolved = broken[:gone]
    groups[np.isin(groups, dissolved)] = -1
    sizes[dissolved] = 0
    return gone


def _fill(groups: IntArray, sizes: IntArray, homeless: IntArray, k: int) -> None:
    """Seat people without a group: first where a group lacks somebody, then evenly."""
    alive = np.flatnonzero(sizes > 0)
    if alive.size == 0:
        groups[homeless] = 0
        sizes[0] = len(homeless)
        return
    lacking = np.maximum(k - sizes[alive], 0)
    seats = np.repeat(alive, lacking)[: len(homeless)]
    rest = len(homeless) - len(seats)
    level = sizes + np.bincount(seats, minlength=len(sizes))
    if rest:
        by_size = alive[np.argsort(level[alive], kind="stable")]
        seats = np.concatenate([seats, np.tile(by_size, -(-rest // len(by_size)))[:rest]])
    groups[homeless] = seats
    sizes += np.bincount(seats, minlength=len(sizes))


def _lend(groups: IntArray, sizes: IntArray, k: int, generator: np.random.Generator) -> None:
    """Fill what is still below k with people from groups that have more than k."""
    broken = np.flatnonzero((sizes > 0) & (sizes < k))
    need = np.repeat(broken, k - sizes[broken])
    if need.size == 0:
        return
    shuffled = generator.permutation(len(groups))
    shuffled = shuffled[np.argsort(groups[shuffled], kind="stable")]
    starts = np.cumsum(sizes) - sizes
    place = np.arange(len(groups)) - starts[groups[shuffled]]
    lenders = shuffled[place < np.maximum(sizes - k, 0)[groups[shuffled]]]
    moving = lenders[: len(need)]
    sizes -= np.bincount(groups[moving], minlength=len(sizes))
    groups[moving] = need[: len(moving)]
    sizes += np.bincount(need[: len(moving)], minlength=len(sizes))


def _split(groups: IntArray, sizes: IntArray, k: int, generator: np.random.Generator) -> int:
    """Split groups of 2k and more: a random half of each leaves together."""
    large = np.flatnonzero(sizes >= 2 * k)
    if large.size == 0:
        return 0
    next_group = len(sizes)
    for group in large.tolist():
        members = generator.permutation(np.flatnonzero(groups == group))
        pieces = len(members) // k
        parts = np.arange(len(members)) * pieces // len(members)
        fresh = np.where(parts > 0, next_group + parts - 1, group)
        groups[members] = fresh
        next_group += pieces - 1
    return int(large.size)
