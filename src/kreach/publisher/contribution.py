"""Nobody counts for much more in a visit model than the twentieth of those who count most.

A history is cut before anything is counted, so that no released number rests on one person:

    span        from when 20 people have come to when 20 people have still to come: somebody who
                came weeks before all others does not make history longer
    requests    of a session, up to about as many as 20 people had in one
    sessions    in a part of the day, and in all, up to about as many as 20 people had

Whom a limit meets loses whole sessions, chosen by chance that depends on her alone, and the last
requests of long ones. Limits are the next round numbers (1, 2, 3, 4, 6, 8, 12, ...), so that one
person more or less seldom moves them. A site of many people loses next to nothing: crawlers mostly.
"""

import numpy as np
import numpy.typing as npt

from kreach.numeric.meetings import PART_US, PARTS
from kreach.numeric.types import BoolArray, IntArray
from kreach.publisher.visit_history import MIN_PEOPLE, VisitHistory, sessions

__all__ = ["bound_contributions"]


def bound_contributions(history: VisitHistory) -> VisitHistory:
    """The history without what only a few people did so often, or so early or late."""
    history = _within_span(history)
    if len(history) == 0:
        return history
    session, _ = sessions(history.person, history.at_us)
    turn = _turns(session, history.at_us)
    history = history.where(turn < _limit(history.person, turn + 1))
    session, start = sessions(history.person, history.at_us)
    kept = np.zeros(int(session.max()) + 1, dtype=np.bool_)
    kept[_within_limits(history.where(start))] = True  # by start; numbered below
    return history.where(kept[_number_of(session, start)])


def _within_span(history: VisitHistory) -> VisitHistory:
    """From the first instant by which enough people have come to the like instant at the end."""
    order = np.lexsort((history.at_us, history.person))
    person, at_us = history.person[order], history.at_us[order]
    first = np.flatnonzero(np.diff(person, prepend=-1) != 0)
    if len(first) < MIN_PEOPLE:
        return history.where(np.zeros(len(history), dtype=np.bool_))
    last = np.append(first[1:], len(person)) - 1
    start = np.partition(at_us[first], MIN_PEOPLE - 1)[MIN_PEOPLE - 1]
    end = np.partition(at_us[last], -MIN_PEOPLE)[-MIN_PEOPLE]
    return history.between(int(start), int(end) + 1)


def _within_limits(starts: VisitHistory) -> IntArray:
    """The sessions that stay, from their first requests."""
    part = starts.at_us // PART_US % PARTS
    chance = starts.key
    in_part = _turns(starts.person * PARTS + part, chance)
    stays = in_part < _limit(starts.person, in_part + 1)
    rows = np.flatnonzero(stays)
    in_all = _turns(starts.person[rows], chance[rows])
    return rows[in_all < _limit(starts.person[rows], in_all + 1)]


def _number_of(session: IntArray, start: BoolArray) -> IntArray:
    """The place of each request's session among the sessions in the order of their starts."""
    place = np.empty(int(session.max()) + 1, dtype=np.int64)
    place[session[start]] = np.arange(np.count_nonzero(start))
    return place[session]


def _turns(owner: IntArray, by: IntArray | npt.NDArray[np.uint64]) -> IntArray:
    """The place of each row among those of its owner, ordered by something else."""
    order = np.lexsort((by, owner))
    turn = np.empty(len(owner), dtype=np.int64)
    turn[order] = np.arange(len(owner)) - np.searchsorted(owner[order], owner[order])
    return turn


def _limit(person: IntArray, count: IntArray) -> int:
    """The next round number from what enough people come up to."""
    most = np.zeros(int(person.max(initial=0)) + 1, dtype=np.int64)
    np.maximum.at(most, person, count)
    if len(most) < MIN_PEOPLE:
        return 1
    reached = max(int(np.partition(most, -MIN_PEOPLE)[-MIN_PEOPLE]), 1)
    power = 1 << (reached.bit_length() - 1)
    return next(limit for limit in (power, power + power // 2, 2 * power) if limit >= reached)
