"""Ways to buy that a visit model must measure right: which requests a campaign wins.

A campaign that wins at random is the easy case. Others win the first requests of each group, all in
one burst, at some hours only, or never soon after a win: each shifts how many wins are one
person's.
"""

from collections.abc import Callable

import numpy as np

from kreach.numeric.draws import HOUR_US, hour_of_day
from kreach.numeric.types import IntArray
from kreach.publisher.visit_history import VisitHistory

__all__ = ["PATTERNS", "spaced_rows", "window_start", "won_rows"]

_SPACE_US = 1_800_000_000
_EXTRA = 1.6  # spaced wins: so many times as many requests are bid on as are to be won


def won_rows(
    history: VisitHistory, pattern: str, share: float, generator: np.random.Generator
) -> IntArray:
    """The rows that a campaign wins; about `share` of all, where the pattern allows so many."""
    return PATTERNS[pattern](history, share, generator)


def window_start(
    won: VisitHistory, hours: float, first_us: int, last_us: int, generator: np.random.Generator
) -> float:
    """The start of a window of so many hours that holds a win taken at random."""
    length = hours * HOUR_US
    latest = max(last_us - length, first_us)
    if len(won) == 0:
        return first_us
    win = int(won.at_us[generator.integers(len(won))])
    return float(np.clip(win - generator.random() * length, first_us, latest))


def _random(history: VisitHistory, share: float, generator: np.random.Generator) -> IntArray:
    return np.flatnonzero(history.chances(generator) < share)


def _first(history: VisitHistory, share: float, generator: np.random.Generator) -> IntArray:
    """The first few requests of each group."""
    row = np.arange(len(history))
    turn = row - np.searchsorted(history.group, history.group)
    groups = max(len(np.unique(history.group)), 1)
    few = share * len(history) / groups
    more = generator.random(len(history.sizes)) < few % 1.0
    limit = np.floor(few) + more
    return np.flatnonzero(turn < limit[history.group])


def _burst(history: VisitHistory, share: float, generator: np.random.Generator) -> IntArray:
    """All requests of one stretch of time."""
    order = np.argsort(history.at_us, kind="stable")
    count = int(share * len(history))
    start = int(generator.integers(0, len(history) - count + 1))
    return np.sort(order[start : start + count])


def _hours(length: int) -> Callable[[VisitHistory, float, np.random.Generator], IntArray]:
    """At random in so many hours of the day, which start at a random one."""

    def rows(history: VisitHistory, share: float, generator: np.random.Generator) -> IntArray:
        start = int(generator.integers(0, 24))
        inside = np.flatnonzero((hour_of_day(history.at_us) - start) % 24 < length)
        chance = min(1.0, share * len(history) / max(len(inside), 1))
        return inside[history.chances(generator)[inside] < chance]

    return rows


def _spaced(history: VisitHistory, share: float, generator: np.random.Generator) -> IntArray:
    """At random, never within half an hour of a win of the group."""
    return spaced_rows(history, history.chances(generator) < min(1.0, _EXTRA * share))


def spaced_rows(history: VisitHistory, bid: np.ndarray) -> IntArray:
    """Of the rows bid on, the first of each group and then each first one half an hour after.

    From every row the next one that may be won is looked up; then all groups step together.
    """
    rows = np.flatnonzero(bid)
    group, at_us = history.group[rows], history.at_us[rows]
    if len(rows) == 0:
        return rows
    since = at_us - at_us.min()
    stride = int(since.max()) + _SPACE_US + 1
    key = group * stride + since
    after = np.searchsorted(key, key + _SPACE_US)
    won = np.zeros(len(rows), dtype=np.bool_)
    at = np.flatnonzero(np.diff(group, prepend=-1) != 0)
    while at.size:
        won[at] = True
        next_at = after[at]
        inside = next_at < len(rows)
        at, next_at = at[inside], next_at[inside]
        at = next_at[group[next_at] == group[at]]
    return rows[won]


PATTERNS: dict[str, Callable[[VisitHistory, float, np.random.Generator], IntArray]] = {
    "random": _random,
    "first of each group": _first,
    "burst": _burst,
    "six hours": _hours(6),
    "eight hours": _hours(8),
    "spaced": _spaced,
}
