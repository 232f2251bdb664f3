"""Two attacks, run on the publisher's own data.

*Linkage over time*: an observer sees a person's group in every version. *Intersection*: an observer
compares overlapping groups or the audiences of campaigns.
"""

import numpy as np

from kreach.numeric.types import BoolArray, IntArray
from kreach.publisher.audit.report import Intersection, Linkage, Spread
from kreach.publisher.grouping.base import Assignment, form_groups
from kreach.publisher.grouping.random import AtRandom
from kreach.publisher.people import People
from kreach.publisher.regrouping import regroup
from kreach.publisher.release import Floors

__all__ = ["intersection_attack", "linkage", "linkage_attack"]

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
    """Linkage over eight versions with churn: groups formed anew each time, and sticky groups."""
    if assignment.overlapping:
        return ()
    last = VERSIONS[-1]
    generator = np.random.default_rng(seed)
    count = len(assignment.groups)
    anew, sticky = [assignment.group_of()], [assignment.group_of()]
    person = np.arange(count)  # the person in each row of the sticky assignment, −1 if new
    current, moved = assignment, 0
    k = assignment.group_size
    for _ in range(1, last):
        stays = generator.random(len(current.groups)) >= churn
        joining = round(_REPLACED * np.count_nonzero(~stays))
        if np.count_nonzero(stays) + joining < k:
            break  # too few people are left
        renewed = regroup(current, stays, joining, seed=int(generator.integers(2**31)))
        person = np.concatenate([person[stays], np.full(renewed.joined, -1)])
        current, moved = renewed.assignment, moved + renewed.moved
        groups = np.full(count, -1)
        groups[person[person >= 0]] = current.group_of()[person >= 0]
        sticky.append(groups)
        # formed anew: the same people, shuffled again (the paper's random groups)
        fresh = People(np.zeros(count, dtype=np.int64))
        anew.append(form_groups(fresh, k, AtRandom(), int(generator.integers(2**31))).group_of())
    moved_share = moved / max(count * (len(sticky) - 1), 1)
    present = np.cumprod(np.stack(sticky, axis=1) >= 0, axis=1).astype(np.bool_)
    return tuple(
        _linkage_by_versions(method, np.stack(columns, axis=1), present, share)
        for method, columns, share in (
            ("formed anew each version", anew, 1.0),
            ("sticky", sticky, moved_share),
        )
    )


def _linkage_by_versions(
    method: str, sequences: IntArray, present: BoolArray, moved_share: float
) -> Linkage:
    """The attack after each number of versions, on people who are in all of them."""
    versions = tuple(v for v in VERSIONS if v <= sequences.shape[1])
    seen = [linkage(sequences[present[:, v - 1], :v])[-1] for v in versions]
    unique, smallest, median = zip(*seen, strict=True)
    return Linkage(method, versions, unique, smallest, median, moved_share)


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
