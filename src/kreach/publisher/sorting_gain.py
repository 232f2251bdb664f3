"""How much better all of history sorts people into groups than its earlier half.

The model of groups formed by visits is fitted on the later half of history, in groups formed by the
earlier half (`site_model.py`). Groups formed by all of history have members more alike: their
sessions are less often one person's. By how much is extrapolated: groups formed by the earliest
quarter are compared with groups formed by the earlier half, both on the later half, each against
random groups of the same people. Twice the history is taken to help as much again.
"""

import numpy as np

from kreach.numeric.meetings import PART_US, PARTS
from kreach.numeric.types import IntArray
from kreach.publisher.directory import Visits
from kreach.publisher.grouping.base import Strategy, form_groups
from kreach.publisher.grouping.random import AtRandom
from kreach.publisher.meeting_table import pairs_within
from kreach.publisher.people import Attribute, People
from kreach.publisher.visit_history import sessions

__all__ = ["people_grouped_by", "people_seen", "sorting_gain"]

_MAX_PEOPLE = 100_000
_MAX_GAIN = 1.5
_MIN_PAIRS = 200.0  # of one person, in groups of either kind


def people_seen(visits: IntArray, people: People) -> tuple[People, IntArray]:
    """The people with visits, and their new number by the old one (−1 for all others)."""
    known = np.flatnonzero(visits)
    number = np.full(people.count, -1, dtype=np.int64)
    number[known] = np.arange(len(known))
    attributes = {
        name: Attribute(column.codes[known], column.labels)
        for name, column in people.attributes.items()
    }
    return People(visits[known], attributes), number


def people_grouped_by(
    visits: IntArray, people: People, *, everybody: bool
) -> tuple[People, IntArray]:
    """Who would be in groups formed by these visits, and their new number by the old one.

    Those seen by then; `everybody` where a build also groups people whom it has not seen.
    """
    if everybody:
        return People(visits, people.attributes), np.arange(people.count)
    return people_seen(visits, people)


def sorting_gain(
    visits: Visits, people: People, group_size: int, strategy: Strategy, seed: int
) -> float:
    """The factor by which a session meets more sessions of others in better sorted groups."""
    everybody = bool((people.visits == 0).any())
    if people.count > _MAX_PEOPLE:
        chosen = np.random.default_rng(seed).permutation(people.count) < _MAX_PEOPLE
        people, number = people_seen(np.where(chosen, np.maximum(people.visits, 1), 0), people)
        user = number[visits.user]
        visits = Visits(user[user >= 0], visits.at_us[user >= 0])
    half = len(visits) // 2
    later = Visits(visits.user[half:], visits.at_us[half:])
    advantages = []
    for length in (half // 2, half):
        earlier = np.bincount(visits.user[:length], minlength=people.count)
        then, number = people_grouped_by(earlier, people, everybody=everybody)
        if then.count < 2 * group_size:
            return 1.0
        user = number[later.user]
        mine = Visits(user[user >= 0], later.at_us[user >= 0])
        others = [
            _others_per_own(mine, form_groups(then, group_size, way, seed).group_of())
            for way in (strategy, AtRandom())
        ]
        if None in others:
            return 1.0
        sorted_groups, random_groups = (float(value or 1.0) for value in others)
        advantages.append(sorted_groups / random_groups)
    return float(np.clip(advantages[1] / advantages[0], 1.0, _MAX_GAIN))


def _others_per_own(visits: Visits, group_of: IntArray) -> float | None:
    """Pairs of sessions of different people per pair of one person's; None where there are few."""
    order = np.lexsort((visits.at_us, visits.user))
    user, at_us = visits.user[order], visits.at_us[order]
    _, start = sessions(user, at_us)
    user, part = user[start], at_us[start] // PART_US
    part = part - part.min(initial=np.iinfo(np.int64).max) // PARTS * PARTS
    same = float(pairs_within(user, part).sum())
    every = float(pairs_within(group_of[user], part).sum())
    return every / same - 1.0 if same >= _MIN_PAIRS and every > same else None
