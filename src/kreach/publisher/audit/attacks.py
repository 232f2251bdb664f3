"""Two attacks, run on the publisher's own data.

*Linkage over time*: an observer sees a person's group in every version (lineage.py).
*Intersection*: an observer compares overlapping groups or the audiences of campaigns.
"""

from collections.abc import Callable

import numpy as np

from kreach.numeric.types import BoolArray, IntArray
from kreach.publisher.audit.report import Intersection, Linkage, Spread
from kreach.publisher.grouping.base import Assignment, form_groups
from kreach.publisher.grouping.random import AtRandom
from kreach.publisher.lineage import Crowds
from kreach.publisher.people import People
from kreach.publisher.regrouping import regroup
from kreach.publisher.release import Floors
from kreach.publisher.renewed_people import RenewalPolicy

__all__ = ["STICKY", "intersection_attack", "linkage", "linkage_attack"]

STICKY, GAPS = "sticky", "sticky, newcomers fill gaps"
VERSIONS = (1, 2, 4, 8)
_REPLACED = 0.8  # of those who leave; a shrinking population breaks groups and forces moves


def linkage(sequences: IntArray) -> list[tuple[float, int, float]]:
    """For each number of versions seen: share of unique sequences, smallest and median crowd.

    `sequences` holds the group of each person (row) in each version (column).
    """
    result = []
    crowd_of = np.zeros(len(sequences), dtype=np.int64)
    for column in sequences.T:
        _, crowd_of = np.unique(
            crowd_of * (int(column.max(initial=0)) + 1) + column, return_inverse=True
        )
        crowd = np.bincount(crowd_of)[crowd_of]
        smallest = int(crowd.min(initial=len(sequences)))
        unique = np.count_nonzero(crowd == 1) / max(len(crowd), 1)
        median = float(np.median(crowd)) if len(crowd) else 0.0
        result.append((float(unique), smallest, median))
    return result


def linkage_attack(assignment: Assignment, churn: float, seed: int) -> tuple[Linkage, ...]:
    """Linkage over eight versions with churn, of everybody in the newest: newcomers too.

    Newcomers have a past: before they were members the gateway named a group for them, that of a
    member picked by a hash. "sticky" is what `kreach groups renew` does by default: they stay
    there, and groups are merged below 1.25 k. Beside it, what groups formed anew, and newcomers who
    fill gaps, would give away.
    """
    if assignment.overlapping:
        return ()
    methods = (("formed anew each version", _formed_anew), (GAPS, _gaps_filled), (STICKY, _sticky))
    return tuple(_followed(name, renew, assignment, churn, seed) for name, renew in methods)


def _followed(
    method: str, renew: "_Renew", assignment: Assignment, churn: float, seed: int
) -> Linkage:
    """Follow everybody from version to version; the churn is the same for every method."""
    generator = np.random.default_rng(seed)
    groups, current = assignment.groups, assignment  # groups: (people, versions so far)
    crowds, moved, people = [Crowds.of(groups)], 0, [len(groups)]
    for _ in range(1, VERSIONS[-1]):
        stays = generator.random(len(groups)) >= churn
        joining = round(_REPLACED * np.count_nonzero(~stays))
        named = current.group_of()[generator.integers(0, len(groups), joining)]
        if np.count_nonzero(stays) + joining < assignment.group_size:
            break  # too few people are left
        current, changed = renew(current, stays, named, int(generator.integers(2**31)))
        past = np.full((joining, groups.shape[1]), -1)
        past[:, -1] = named
        groups = np.column_stack([np.concatenate([groups[stays], past]), current.group_of()])
        crowds.append(Crowds.of(groups))
        people.append(len(groups))
        moved += changed
    seen = [(v, crowds[v - 1], people[v - 1]) for v in VERSIONS if v <= len(crowds)]
    return Linkage(
        method,
        tuple(v for v, _, _ in seen),
        tuple(crowd.singled_out / count for _, crowd, count in seen),
        tuple(crowd.in_small_crowds / count for _, crowd, count in seen),
        tuple(crowd.smallest for _, crowd, _ in seen),
        tuple(crowd.median for _, crowd, _ in seen),
        moved / max(sum(people[:-1]), 1),
    )


def _formed_anew(
    current: Assignment, stays: BoolArray, named: IntArray, seed: int
) -> tuple[Assignment, int]:
    """The paper's random groups, shuffled again."""
    people = People(np.zeros(np.count_nonzero(stays) + len(named), dtype=np.int64))
    return form_groups(people, current.group_size, AtRandom(), seed), len(stays)


def _gaps_filled(
    current: Assignment, stays: BoolArray, named: IntArray, seed: int
) -> tuple[Assignment, int]:
    renewed = regroup(current, stays, len(named), seed)
    return renewed.assignment, renewed.moved


def _sticky(
    current: Assignment, stays: BoolArray, named: IntArray, seed: int
) -> tuple[Assignment, int]:
    k, people = current.group_size, int(np.count_nonzero(stays)) + len(named)
    room = min(int(np.ceil(RenewalPolicy().room * k)), people)
    renewed = regroup(current, stays, len(named), seed, named=named, repair_below=room)
    return renewed.assignment, renewed.moved


_Renew = Callable[[Assignment, BoolArray, IntArray, int], tuple[Assignment, int]]
"""The next version, and how many of those who stay moved."""


def intersection_attack(
    people: People, assignment: Assignment, segments: tuple[str, ...], floors: Floors
) -> Intersection:
    classes, in_small = None, 0
    if assignment.overlapping:
        _, headcount = np.unique(assignment.groups, axis=0, return_counts=True)
        classes = Spread.of(headcount)
        in_small = int(headcount[headcount < floors.membership_class].sum())
    pairs = small_pairs = isolated_people = 0
    floor = floors.visible(assignment.group_size)[0]
    group_of = assignment.groups[:, 0]
    sizes = np.bincount(group_of)
    for name in segments:
        attribute = people.attribute(name)
        for code in range(len(attribute.labels)):
            # a buyer of "everybody" and of "all but this segment" can subtract the two
            counts = np.bincount(group_of, weights=attribute.codes == code, minlength=len(sizes))
            released = counts >= floor
            rest = sizes - counts
            isolated = released & (rest > 0) & (rest < floor)
            pairs += 1
            small_pairs += bool(isolated.any())
            isolated_people += int(rest[isolated].sum())
    return Intersection(classes, in_small, pairs, small_pairs, isolated_people)
