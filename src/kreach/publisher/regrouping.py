"""Regroup a population that changes: groups keep at least k members, and few people move.

An observer who sees somebody's group in every version intersects the groups. If they are formed
anew each time, a few versions single the person out (see `audit`). If groups stay, whoever moves
*alone* is singled out too. So nobody is ever moved alone: newcomers fill gaps, groups that remain
below k are merged whole, and a group is split only when nobody ends up alone.
"""

from dataclasses import dataclass

import numpy as np

from kreach.boundary.checks import as_whole_number
from kreach.errors import KreachError
from kreach.numeric.types import BoolArray, IntArray
from kreach.publisher.grouping.base import Assignment, cut_evenly

__all__ = ["Regrouping", "regroup"]


@dataclass(frozen=True)
class Regrouping:
    """A new assignment, and how many people and groups changed.

    People keep their order, without those who left and with those who joined at the end. `moved`
    counts people who stayed in the population and yet changed group.
    """

    assignment: Assignment
    joined: int
    left: int
    moved: int
    new_groups: int
    merged_groups: int
    split_groups: int


def regroup(assignment: Assignment, stays: BoolArray, joining: int, seed: int) -> Regrouping:
    """Remove leavers, append `joining` new people at the end, and repair groups below k.

    Newcomers complete the groups that lack the fewest, then form groups of their own. Groups that
    still have fewer than k merge with each other. Groups may grow to 3k − 1 before they split, and
    beyond where a split would leave somebody without a companion of the old group.
    """
    k = assignment.group_size
    joining = as_whole_number("joining", joining, minimum=0)
    old = assignment.group_of()
    if stays.shape != old.shape or stays.dtype != np.bool_:
        rule = f"be a bool for each of the {len(old)} people"
        raise KreachError.rule("stays", rule, f"shape {stays.shape} of {stays.dtype}")
    staying = old[stays]
    total = len(staying) + joining
    if total < k:
        raise KreachError.rule("people", f"be at least group_size ({k}) people", total)
    generator = np.random.default_rng(as_whole_number("seed", seed, minimum=0))
    sizes = np.bincount(staying, minlength=assignment.group_count)
    seats, new_groups = _assign_newcomers(sizes, joining, k)
    groups = np.concatenate([staying, generator.permutation(seats)])
    merged = _merge(groups, k)
    before = np.concatenate([staying, np.full(joining, -1)])
    split = _split(groups, before, k, generator)
    moved = int(np.count_nonzero(groups[: len(staying)] != staying))
    _, compact = np.unique(groups, return_inverse=True)
    renewed = Assignment(compact.reshape(-1, 1), k, assignment.strategy)
    left = len(old) - len(staying)
    return Regrouping(renewed, joining, left, moved, new_groups, merged, split)


def _assign_newcomers(sizes: IntArray, joining: int, k: int) -> tuple[IntArray, int]:
    """A group for each newcomer, and how many of the groups are new."""
    small = np.flatnonzero((sizes > 0) & (sizes < k))
    lacking = k - sizes[small]
    order = np.argsort(lacking, kind="stable")
    seats = np.repeat(small[order], lacking[order])[:joining]
    rest = joining - len(seats)
    if rest >= k:
        fresh = len(sizes) + cut_evenly(np.array([rest]), k)
        return np.concatenate([seats, fresh]), rest // k
    occupied = np.flatnonzero(sizes > 0)
    level = sizes + np.bincount(seats, minlength=len(sizes))
    smallest = occupied[np.argsort(level[occupied], kind="stable")]
    if rest:  # fewer than k: one each to the smallest groups
        seats = np.concatenate([seats, np.tile(smallest, -(-rest // len(smallest)))[:rest]])
    return seats, 0


def _merge(groups: IntArray, k: int) -> int:
    """Merge groups of fewer than k, smallest first, under the name of the largest of them."""
    sizes = np.bincount(groups)
    small = np.flatnonzero((sizes > 0) & (sizes < k))
    small = small[np.argsort(sizes[small], kind="stable")]
    name = np.arange(len(sizes))
    bundle: list[int] = []
    people = 0
    for group in small.tolist():
        bundle.append(group)
        people += int(sizes[group])
        if people >= k:
            name[bundle] = group  # the largest comes last
            bundle, people = [], 0
    if bundle:  # the rest joins the smallest group of at least k
        merged = np.bincount(name, weights=sizes, minlength=len(sizes))
        merged[merged < k] = np.inf
        name[bundle] = int(merged.argmin())
    groups[:] = name[groups]
    return len(small)


def _split(groups: IntArray, before: IntArray, k: int, generator: np.random.Generator) -> int:
    """Split groups of 3k and more in two, repeatedly, as long as nobody ends up alone.

    Members are ordered by the group they were in before, newcomers last. Of the cuts that leave
    both parts at least k and no member of an old group alone, the one nearest the middle is taken.
    """
    split = 0
    queue = np.flatnonzero(np.bincount(groups) >= 3 * k).tolist()
    while queue:
        group = queue.pop()
        members = generator.permutation(np.flatnonzero(groups == group))
        members = members[np.lexsort((before[members], before[members] < 0))]
        cut = _safe_cut(before[members], k)
        if cut is None:
            continue
        fresh = int(groups.max()) + 1
        groups[members[cut:]] = fresh
        split += 1
        queue.extend(g for g, n in ((group, cut), (fresh, len(members) - cut)) if n >= 3 * k)
    return split


def _safe_cut(before: IntArray, k: int) -> int | None:
    """The position of a cut, or None if every cut would leave somebody alone."""
    count = len(before)
    cuts = np.arange(k, count - k + 1)
    run_start = np.flatnonzero(np.concatenate([[True], before[1:] != before[:-1]]))
    run_end = np.concatenate([run_start[1:], [count]])
    run = np.searchsorted(run_start, cuts, side="right") - 1
    left, right = cuts - run_start[run], run_end[run] - cuts
    newcomers = before[np.minimum(cuts, count - 1)] < 0
    safe = cuts[newcomers | (left == 0) | ((left > 1) & (right > 1))]
    return int(safe[np.argmin(np.abs(safe - count // 2))]) if safe.size else None
