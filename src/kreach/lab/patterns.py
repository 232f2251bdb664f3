"""Buying patterns: which requests of a flight a campaign wins, by who buys and when.

An estimator that is right for random wins only is wrong for every buyer but a random one. Each
pattern picks about a share of the requests without knowing who made them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from kreach.numeric.draws import hour_of_day
from kreach.numeric.types import BoolArray, FloatArray, IntArray

__all__ = ["PATTERNS", "Requests", "select", "utc_hours"]

_NIGHT_HOURS, _OFFICE_HOURS = 6, 8
_SPACING_SECONDS = 1_800.0


@dataclass(frozen=True, eq=False)
class Requests:
    """The requests of a flight in order of time: all that a buyer sees of them."""

    group: IntArray
    at: FloatArray  # seconds since the start of the flight
    hour: IntArray  # UTC hour of day
    price: FloatArray  # the highest competing bid

    def __len__(self) -> int:
        return len(self.group)


Pattern = Callable[[Requests, float, np.random.Generator], IntArray]


def _random(requests: Requests, share: float, generator: np.random.Generator) -> IntArray:
    return np.flatnonzero(generator.random(len(requests)) < share)


def _first_of_group(requests: Requests, share: float, generator: np.random.Generator) -> IntArray:
    """The first requests of each group, as many for each."""
    order = np.argsort(requests.group, kind="stable")
    group = requests.group[order]
    starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    rank = np.arange(len(group)) - np.repeat(starts, np.diff(np.append(starts, len(group))))
    each = share * len(group) / len(starts)
    limit = np.floor(each) + (generator.random(int(group.max()) + 1) < each % 1.0)
    return np.sort(order[rank < limit[group]])


def _burst(requests: Requests, share: float, generator: np.random.Generator) -> IntArray:
    """Everything for a stretch of the flight."""
    count = max(int(share * len(requests)), 1)
    first = int(generator.integers(0, len(requests) - count + 1))
    return np.arange(first, first + count)


def _within(
    hours: BoolArray, requests: Requests, share: float, generator: np.random.Generator
) -> IntArray:
    inside = np.flatnonzero(hours[requests.hour])
    chance = min(share * len(requests) / max(len(inside), 1), 1.0)
    return inside[generator.random(len(inside)) < chance]


def _night(requests: Requests, share: float, generator: np.random.Generator) -> IntArray:
    """The quietest six hours of the day."""
    return _within(_stretch(requests, _NIGHT_HOURS, busiest=False), requests, share, generator)


def _office(requests: Requests, share: float, generator: np.random.Generator) -> IntArray:
    """The busiest eight hours of the day."""
    return _within(_stretch(requests, _OFFICE_HOURS, busiest=True), requests, share, generator)


def _stretch(requests: Requests, length: int, *, busiest: bool) -> BoolArray:
    """The hours of the day of the busiest or quietest stretch of so many hours in a row."""
    by_hour = np.bincount(requests.hour, minlength=24)
    sums = np.array([np.roll(by_hour, -start)[:length].sum() for start in range(24)])
    if not busiest:
        sums = np.where(sums > 0, -sums, -sums.max() - 1)  # not hours without any request
    start = int(sums.argmax())
    return np.isin(np.arange(24), (start + np.arange(length)) % 24)


def _spaced(requests: Requests, share: float, generator: np.random.Generator) -> IntArray:
    """Never within half an hour of a win in the same group."""
    last: dict[int, float] = {}
    won = []
    wanted = generator.random(len(requests)) < min(1.5 * share, 1.0)
    for at in np.flatnonzero(wanted).tolist():
        group, moment = int(requests.group[at]), float(requests.at[at])
        if moment - last.get(group, -np.inf) >= _SPACING_SECONDS:
            last[group] = moment
            won.append(at)
    return np.array(won, dtype=np.int64)


def _cheapest(requests: Requests, share: float, generator: np.random.Generator) -> IntArray:
    """Every request below a price."""
    return np.flatnonzero(requests.price <= np.quantile(requests.price, share))


PATTERNS: Mapping[str, Pattern] = {
    "random": _random,
    "first": _first_of_group,
    "burst": _burst,
    "night": _night,
    "office": _office,
    "spaced": _spaced,
    "price": _cheapest,
}


def select(
    pattern: str, requests: Requests, share: float, generator: np.random.Generator
) -> IntArray:
    """The requests that the pattern wins, by index, in order of time."""
    return PATTERNS[pattern](requests, share, generator)


def utc_hours(starts_us: int, at: FloatArray) -> IntArray:
    """The UTC hour of day of seconds since the start of a flight."""
    return hour_of_day(starts_us + np.round(at * 1e6).astype(np.int64))
