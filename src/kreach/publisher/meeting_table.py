"""The table of meetings: how likely two sessions of a group are one person's, by hours and days.

For every pair of sessions of one group, the earlier in part p of the day, the later in part q and
so many days after, the table has

    c[p, q, days] = pairs of one person / pairs.

Pairs are counted through the products X'X of the matrices of sessions by (person, time) and by
(group, time), with time in parts of days; no pair is listed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kreach.numeric.meetings import DAY_EDGES, PART_US, PARTS, crowded_meeting, day_range
from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.visit_history import MIN_PEOPLE

__all__ = [
    "Support",
    "meeting_table",
    "pairs_within",
    "recent_crowding",
    "shrunk_meetings",
    "supporters",
]

RANGES = len(DAY_EDGES) + 1
_PSEUDO_PAIRS = 1_000.0
_MAX_DAYS = 400  # of history: the ranges of days do not tell longer lags apart
_BLOCK = 512  # parts of days at a time: bounds the memory
_COUNTED_SESSIONS = 20  # of one person, where people behind a cell are counted
_COUNTED_PEOPLE = 100_000


@dataclass(frozen=True, eq=False)
class Support:
    """How many people have two sessions so apart: by cell, by difference of parts, by range.

    At least so many: of very busy people and very large sites a sample is counted.
    """

    cell: IntArray  # (PARTS, PARTS, RANGES)
    difference: IntArray  # (PARTS, RANGES)
    days: IntArray  # (RANGES,)


def meeting_table(
    person: IntArray, group: IntArray, start_us: IntArray, generator: np.random.Generator
) -> tuple[FloatArray, int]:
    """The shrunk table from person, group and start of every session; and its rarest support."""
    part = start_us // PART_US
    if len(part):
        recent = part > part.max() - _MAX_DAYS * PARTS
        person, group, part = person[recent], group[recent], part[recent]
        part = part - part.min() // PARTS * PARTS
    same = pairs_within(person, part)
    every = pairs_within(group, part)
    support = supporters(person, part, generator)
    shown = support.cell[support.cell >= MIN_PEOPLE]
    return shrunk_meetings(same, every, support), int(shown.min()) if shown.size else 0


def pairs_within(owner: IntArray, part: IntArray) -> FloatArray:
    """Pairs of sessions with one owner by (earlier part, later part, range of days apart)."""
    from scipy.sparse import csc_matrix  # noqa: PLC0415 - slow to import

    result = np.zeros(PARTS * PARTS * RANGES)
    if len(part) == 0:
        return result.reshape(PARTS, PARTS, RANGES)
    used, column = np.unique(part, return_inverse=True)
    _, row = np.unique(owner, return_inverse=True)
    table: Any = csc_matrix((np.ones(len(part)), (row, column)))
    table.sum_duplicates()
    for first in range(0, len(used), _BLOCK):
        product = (table[:, first : first + _BLOCK].T @ table[:, first:]).tocoo()
        earlier, later = used[product.row + first], used[product.col + first]
        pairs = product.data * np.where(product.row == product.col, 0.5, 1.0)
        ahead = product.col >= product.row
        cell = _cell(earlier, later)
        result += np.bincount(cell[ahead], weights=pairs[ahead], minlength=len(result))
    cells = result.reshape(PARTS, PARTS, RANGES)
    alone = np.bincount(part % PARTS, minlength=PARTS)  # a session is no pair with itself
    cells[np.arange(PARTS), np.arange(PARTS), 0] -= 0.5 * alone
    return np.maximum(cells, 0.0)


def supporters(person: IntArray, part: IntArray, generator: np.random.Generator) -> Support:
    """The people behind the pairs of one person."""
    if len(person):
        names = np.unique(person)
        if len(names) > _COUNTED_PEOPLE:
            chosen = generator.choice(names, _COUNTED_PEOPLE, replace=False)
            some = np.isin(person, chosen)
            person, part = person[some], part[some]
    shuffled = np.lexsort((generator.random(len(person)), person))
    first = np.searchsorted(person[shuffled], person[shuffled])
    sample = shuffled[np.arange(len(person)) - first < _COUNTED_SESSIONS]
    order = sample[np.lexsort((part[sample], person[sample]))]
    person, part = person[order], part[order]
    stride = PARTS * PARTS * RANGES
    found = [np.zeros(0, dtype=np.int64)]
    for lag in range(1, _COUNTED_SESSIONS):
        at = np.flatnonzero(person[lag:] == person[:-lag]) if len(person) > lag else person[:0]
        found.append(np.unique(person[at] * stride + _cell(part[at], part[at + lag])))
    key = np.unique(np.concatenate(found))
    who, cell = key // stride, key % stride
    days = cell % RANGES
    parts = cell // RANGES
    difference = (parts % PARTS - parts // PARTS) % PARTS
    apart = np.unique(who * (PARTS * RANGES) + difference * RANGES + days) % (PARTS * RANGES)
    return Support(
        np.bincount(cell, minlength=stride).reshape(PARTS, PARTS, RANGES),
        np.bincount(apart, minlength=PARTS * RANGES).reshape(PARTS, RANGES),
        np.bincount(np.unique(who * RANGES + days) % RANGES, minlength=RANGES),
    )


def shrunk_meetings(same: FloatArray, every: FloatArray, support: Support) -> FloatArray:
    """Pairs of one person over pairs, each cell drawn to coarser means by 1,000 pseudo-pairs.

    A cell is drawn to the mean of its difference of parts within its range of days, that to the
    mean of the range, that to the overall mean. Where fewer than `MIN_PEOPLE` people have such
    pairs, their pairs are not looked at: the cell is what it would be with `MIN_PEOPLE` people of
    the usual number of pairs, and the coarser mean at most. Ranges longer than history, or with
    fewer people in all, take over the one before.
    """
    base = float(same.sum() / every.sum()) if every.sum() > 0.0 else 1.0
    parts = np.arange(PARTS)
    result = np.full(same.shape, base)
    for days in range(RANGES):
        here, pairs = same[:, :, days], every[:, :, days]
        if pairs.sum() == 0.0 or support.days[days] < MIN_PEOPLE:
            result[:, :, days] = result[:, :, days - 1] if days else base
            continue
        usual = here.sum() / max(support.days[days], 1)  # pairs of one person
        mean = _shrunk(here.sum(), pairs.sum(), support.days[days], usual, base)
        by_difference = here.sum() / max(support.difference[:, days].sum(), 1)
        by_cell = here.sum() / max(support.cell[:, :, days].sum(), 1)
        for difference in range(PARTS):
            at = parts, (parts + difference) % PARTS
            people = support.difference[difference, days]
            alike = _shrunk(here[at].sum(), pairs[at].sum(), people, by_difference, mean)
            cell = support.cell[(*at, days)]
            result[(*at, days)] = _shrunk(here[at], pairs[at], cell, by_cell, alike)
    return result


def recent_crowding(
    table: FloatArray, person: IntArray, group: IntArray, start_us: IntArray, traffic: float
) -> float:
    """The factor by which `crowded_meeting` takes the table to the level of recent sessions.

    Fewer others, by less traffic or because people have stopped coming, make two sessions likelier
    one person's. The mean over recent pairs says how much, drawn by 1,000 pseudo-pairs to what the
    change of traffic alone would make of it.
    """
    part = start_us // PART_US
    part = part - part.min(initial=np.iinfo(np.int64).max) // PARTS * PARTS
    same, every = pairs_within(person, part), pairs_within(group, part)
    if every.sum() == 0.0 or np.count_nonzero(np.bincount(person) > 1) < MIN_PEOPLE:
        return traffic

    def mean(factor: float) -> float:
        return float((crowded_meeting(table, factor) * every).sum() / every.sum())

    wanted = (same.sum() + _PSEUDO_PAIRS * mean(traffic)) / (every.sum() + _PSEUDO_PAIRS)
    low, high = np.log(traffic) - 3.0, np.log(traffic) + 3.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if mean(np.exp(middle)) > wanted else (low, middle)
    return float(np.exp(0.5 * (low + high)))


def _cell(earlier: IntArray, later: IntArray) -> IntArray:
    """The index in the flat table of two sessions in these parts, counted from one midnight."""
    days = day_range(later // PARTS - earlier // PARTS)
    result: IntArray = (earlier % PARTS * PARTS + later % PARTS) * RANGES + days
    return result


def _shrunk(same: Any, every: Any, people: Any, usual: Any, towards: Any) -> Any:
    enough = np.asarray(people) >= MIN_PEOPLE
    counted = np.where(enough, same, MIN_PEOPLE * usual)
    mean = (counted + _PSEUDO_PAIRS * towards) / (every + _PSEUDO_PAIRS)
    return np.where(enough, mean, np.minimum(mean, towards))
