"""Regroup a population that changes: groups keep at least k members, and few people move.

An observer who sees somebody's group in every version intersects the groups. If they are formed
anew each time, a few versions single the person out (see `audit`). If groups stay, whoever moves
*alone* is singled out too. So nobody is ever moved alone: groups that fall below k are merged
whole, and a group is split only when everybody keeps company of the old group.

Newcomers have a past as well: between two versions the gateway named a group for them too. Who
stays where the gateway put him (`named`) does not move at all; who fills a gap elsewhere does, and
alone.
"""

from dataclasses import dataclass

import numpy as np

from kreach.boundary.checks import as_whole_number
from kreach.errors import KreachError
from kreach.numeric.types import BoolArray, IntArray
from kreach.publisher.diverse_merging import DiverseMerging
from kreach.publisher.grouping.base import LARGEST_SEED, Assignment, cut_evenly

__all__ = ["RENEW_WEEKS", "Regrouping", "regroup"]

RENEW_WEEKS = 4  # between two versions (docs/renewal.md)


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
    diversity_merges: int = 0


def regroup(
    assignment: Assignment,
    stays: BoolArray,
    joining: int,
    seed: int,
    *,
    counted: BoolArray | None = None,
    named: IntArray | None = None,
    cells: IntArray | None = None,
    repair_below: int | None = None,
    diverse: DiverseMerging | None = None,
) -> Regrouping:
    """Remove leavers, append `joining` new people at the end, and repair groups below k.

    Newcomers go to the groups that are `named` for them. Without those they complete the groups
    that lack the fewest, then form groups of their own. Groups that have fewer than k merge with
    each other. Groups may grow to 3k − 1 before they split, and beyond where a split would leave
    somebody without companions of the old group.

    `counted` says who counts for k, of those who stay and then of the newcomers: people who have
    not been seen for long keep their group and hide nobody. `cells` are the targeting segments of
    the same people: gaps are filled and groups merged inside a cell as far as k allows.
    `repair_below` (k unless given) is the number of counted people that every group is to have:
    more than k leaves room for those who stop coming before the next version. `diverse` are the
    diversity floors of the same people: groups that break one are merged further, and none is split
    into groups that do; refused if they cannot be held.
    """
    k = as_whole_number(
        "repair_below",
        assignment.group_size if repair_below is None else repair_below,
        minimum=assignment.group_size,
    )
    joining = as_whole_number("joining", joining, minimum=0)
    old = assignment.group_of()
    _check_shape("stays", stays, len(old), np.bool_)
    staying = old[stays]
    total = len(staying) + joining
    counts = np.ones(total, dtype=np.bool_) if counted is None else counted
    _check_shape("counted", counts, total, np.bool_)
    if np.count_nonzero(counts) < k:
        rule = f"be at least group_size ({k}) people"
        raise KreachError.rule("people", rule, int(np.count_nonzero(counts)))
    everybody = np.zeros(total, dtype=np.int64) if cells is None else cells
    _check_shape("cells", everybody, total, np.int64)
    generator = np.random.default_rng(as_whole_number("seed", seed, 0, LARGEST_SEED))
    before, new_groups = np.concatenate([staying, np.full(joining, -1)]), 0
    if named is not None:
        _check_named(named, joining, np.bincount(staying, minlength=assignment.group_count))
        groups = np.concatenate([staying, named])
        before = groups.copy()
    else:
        sizes = np.bincount(staying[counts[: len(staying)]], minlength=assignment.group_count)
        cell_of_group = _main_cell(staying, everybody[: len(staying)], assignment.group_count)
        occupied = np.bincount(staying, minlength=assignment.group_count) > 0
        seats, new_groups = _assign_newcomers(
            sizes, occupied, cell_of_group, everybody[len(staying) :], k, generator
        )
        groups = np.concatenate([staying, seats])
    merged = _merge(groups, counts, _main_cell(groups, everybody), k)
    split = _split(groups, before, counts, k, generator, diverse)
    merges = 0  # after splits: what is merged here is not split again at once
    if diverse is not None:
        merges = diverse.merge(groups, counts, _main_cell(groups, everybody), k)
    moved = int(np.count_nonzero(groups[: len(staying)] != staying))
    _, compact = np.unique(groups, return_inverse=True)
    renewed = Assignment(compact.reshape(-1, 1), assignment.group_size, assignment.strategy)
    left = len(old) - len(staying)
    return Regrouping(renewed, joining, left, moved, new_groups, merged, split, merges)


def _check_shape(name: str, array: BoolArray | IntArray, people: int, kind: type) -> None:
    if array.shape != (people,) or array.dtype != kind:
        rule = f"be a {np.dtype(kind).name} for each of the {people} people"
        raise KreachError.rule(name, rule, f"shape {array.shape} of {array.dtype}")


def _check_named(named: IntArray, joining: int, sizes: IntArray) -> None:
    _check_shape("named", named, joining, np.int64)
    if joining and not (named.min() >= 0 and named.max() < len(sizes)):
        rule = f"be groups of the assignment (0 to {len(sizes) - 1})"
        raise KreachError.rule("named", rule, f"{named.min()} to {named.max()}")


def _main_cell(groups: IntArray, cells: IntArray, count: int | None = None) -> IntArray:
    """The most frequent cell of each group; −1 for a group without members."""
    count = int(groups.max(initial=-1)) + 1 if count is None else count
    width = int(cells.max(initial=0)) + 1
    pair, people = np.unique(groups * width + cells, return_counts=True)
    result = np.full(count, -1)
    order = np.argsort(people, kind="stable")  # the largest is written last
    result[pair[order] // width] = pair[order] % width
    return result


def _assign_newcomers(
    sizes: IntArray,
    occupied: BoolArray,
    cell_of_group: IntArray,
    cells: IntArray,
    k: int,
    generator: np.random.Generator,
) -> tuple[IntArray, int]:
    """A group for each newcomer, cell by cell, and how many of the groups are new."""
    groups = np.full(len(cells), -1)
    next_group, new_groups = len(sizes), 0
    level = sizes.copy()
    for cell in [*np.unique(cells).tolist(), None]:  # at last those whose cell has no group
        people = np.flatnonzero(groups < 0) if cell is None else np.flatnonzero(cells == cell)
        home = np.flatnonzero(occupied if cell is None else occupied & (cell_of_group == cell))
        if len(people) == 0 or (len(people) < k and len(home) == 0):
            continue
        seats, fresh = _seats(level, home, len(people), k, next_group)
        groups[people] = generator.permutation(seats)
        next_group, new_groups = next_group + fresh, new_groups + fresh
        level = level + np.bincount(seats[seats < len(level)], minlength=len(level))
    if (groups < 0).any():  # fewer than k and nobody else is left: one group, merged later
        groups[groups < 0] = next_group
        new_groups += 1
    return groups, new_groups


def _seats(
    sizes: IntArray, home: IntArray, people: int, k: int, next_group: int
) -> tuple[IntArray, int]:
    """Groups for so many newcomers among the groups of `home`, and how many new ones."""
    small = home[sizes[home] < k]
    lacking = k - sizes[small]
    order = np.argsort(lacking, kind="stable")
    seats = np.repeat(small[order], lacking[order])[:people]
    rest = people - len(seats)
    if rest >= k:
        return np.concatenate([seats, next_group + cut_evenly(np.array([rest]), k)]), rest // k
    if rest:  # fewer than k: one each to the smallest groups
        level = (sizes + np.bincount(seats, minlength=len(sizes)))[home]
        smallest = home[np.argsort(level, kind="stable")]
        seats = np.concatenate([seats, np.tile(smallest, -(-rest // len(smallest)))[:rest]])
    return seats, 0


def _merge(groups: IntArray, counts: BoolArray, cell_of_group: IntArray, k: int) -> int:
    """Merge groups of fewer than k, inside their cells first; how many were too small."""
    sizes = np.bincount(groups[counts], minlength=len(cell_of_group))
    occupied = np.bincount(groups, minlength=len(cell_of_group)) > 0
    small = np.flatnonzero(occupied & (sizes < k))
    name = np.arange(len(sizes))
    for cell in np.unique(cell_of_group[small]).tolist():
        home = np.flatnonzero(occupied & (cell_of_group == cell))
        _merge_inside(name, sizes, home, k)
    merged = np.bincount(name, weights=sizes, minlength=len(sizes))
    if (merged[np.unique(name[small])] < k).any():  # a cell of fewer than k joins other cells
        _merge_inside(name, sizes, np.flatnonzero(occupied), k)
    groups[:] = name[groups]
    return len(small)


def _merge_inside(name: IntArray, sizes: IntArray, home: IntArray, k: int) -> None:
    """Merge what is below k among some groups, smallest first, under the name of the largest."""
    level = np.bincount(name[home], weights=sizes[home], minlength=len(sizes))
    present = np.unique(name[home])
    small = present[level[present] < k]
    alias = np.arange(len(sizes))
    bundle: list[int] = []
    people = 0.0
    for group in small[np.argsort(level[small], kind="stable")].tolist():
        bundle.append(group)
        people += level[group]
        if people >= k:
            alias[bundle] = group  # the largest comes last
            level[bundle] = 0.0
            level[group] = people
            bundle, people = [], 0.0
    whole = present[level[present] >= k]
    if bundle:  # the rest joins the smallest group of at least k, if there is one
        alias[bundle] = whole[level[whole].argmin()] if whole.size else bundle[-1]
    name[:] = alias[name]


def _split(
    groups: IntArray,
    before: IntArray,
    counts: BoolArray,
    k: int,
    generator: np.random.Generator,
    diverse: DiverseMerging | None,
) -> int:
    """Split groups of 3k and more in two, repeatedly, as long as everybody keeps company.

    Members are ordered by the group they were in before, newcomers last. Of the cuts that leave
    both parts at least k and enough company of an old group to each of its members, the one
    nearest the middle is taken, unless a part would break a diversity floor.
    """
    split = 0
    queue = np.flatnonzero(np.bincount(groups[counts]) >= 3 * k).tolist()
    while queue:
        group = queue.pop()
        members = generator.permutation(np.flatnonzero(groups == group))
        members = members[np.lexsort((before[members], before[members] < 0))]
        cut = _safe_cut(before[members], counts[members], k)
        if cut is None:
            continue
        part = (np.arange(len(members)) >= cut).astype(np.int64)
        if diverse is not None and not diverse.hold(part, members).all():
            continue
        fresh = int(groups.max()) + 1
        groups[members[cut:]] = fresh
        split += 1
        halves = ((group, members[:cut]), (fresh, members[cut:]))
        queue.extend(g for g, half in halves if np.count_nonzero(counts[half]) >= 3 * k)
    return split


def _safe_cut(before: IntArray, counts: BoolArray, k: int) -> int | None:
    """The position of a cut, or None if every cut would leave somebody without company."""
    count = len(before)
    counted = np.concatenate([[0], np.cumsum(counts)])
    cuts = np.flatnonzero((counted >= k) & (counted[-1] - counted >= k))
    run_start = np.flatnonzero(np.concatenate([[True], before[1:] != before[:-1]]))
    run_end = np.concatenate([run_start[1:], [count]])
    run = np.searchsorted(run_start, cuts, side="right") - 1
    left, right = cuts - run_start[run], run_end[run] - cuts
    newcomers = before[np.minimum(cuts, count - 1)] < 0
    company = max(2, k // 4)
    safe = cuts[newcomers | (left == 0) | ((left >= company) & (right >= company))]
    middle = counted[-1] / 2.0
    return int(safe[np.argmin(np.abs(counted[safe] - middle))]) if safe.size else None
