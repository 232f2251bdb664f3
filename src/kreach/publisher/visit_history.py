"""Requests of people in groups, as a visit model is fitted on them.

A *session* is a run of requests of one person, each less than `SESSION_GAP_US` after the one
before. What the model says about sessions is counted here: how often a request continues the
session of one of its group's nearest requests, traffic by hour, and requests per session.

Every number that leaves has at least `MIN_PEOPLE` people behind it, or is pooled with others until
it has.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kreach.errors import KreachError
from kreach.numeric.draws import hour_of_day
from kreach.numeric.types import BoolArray, FloatArray, IntArray

__all__ = [
    "GAP_EDGES_SECONDS",
    "MIN_PEOPLE",
    "VisitHistory",
    "continuation_odds",
    "hourly_traffic",
    "requests_per_session",
    "round_steps",
    "sessions",
]

SESSION_GAP_US = 3_600_000_000
GAP_EDGES_SECONDS = (30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0)
MIN_PEOPLE = 20  # behind every released number
_THINNED = (1.0, 0.3, 0.3, 0.1, 0.1)  # shares of requests that copies of history keep
_MIN_TRAFFIC = 0.02
_MAX_REQUESTS = 100  # of a session that are told apart
_STEPS = 40  # of released numbers, to a factor of ten


@dataclass(frozen=True, eq=False)
class VisitHistory:
    """Requests ordered by group, then time; `sizes` are the members of every group.

    Requests of one group at one instant come in random order: a log of days says nothing about
    who of a day was first. All chance is a function of the person and the number of her request
    (`key`), so that one person more or less leaves that of everybody else as it was.
    """

    person: IntArray
    group: IntArray
    at_us: IntArray
    sizes: IntArray
    key: npt.NDArray[np.uint64]

    @classmethod
    def of(
        cls, person: IntArray, group_of: IntArray, at_us: IntArray, seed: int = 0
    ) -> "VisitHistory":
        """From requests in any order and the group of every person."""
        if len(person) != len(at_us):
            rule = f"have one entry per request ({len(person)})"
            raise KreachError.rule("at_us", rule, len(at_us))
        if len(person) and not 0 <= person.min() <= person.max() < len(group_of):
            rule = f"be people with a group (0 to {len(group_of) - 1})"
            raise KreachError.rule("person", rule, int(person.max()))
        group = group_of[person]
        in_time = np.lexsort((at_us, person))
        number = np.empty(len(person), dtype=np.int64)
        number[in_time] = np.arange(len(person)) - np.searchsorted(person[in_time], person[in_time])
        key = _mixed(_mixed(person.astype(np.uint64)) + number.astype(np.uint64))
        order = np.lexsort((_mixed(key + np.uint64(seed)), at_us, group))
        return cls(person[order], group[order], at_us[order], np.bincount(group_of), key[order])

    def __len__(self) -> int:
        return len(self.at_us)

    @property
    def days(self) -> float:
        """From the first request to the last."""
        span = int(self.at_us.max() - self.at_us.min()) if len(self) else 0
        return span / 86_400_000_000

    @property
    def people(self) -> int:
        """Members of all groups."""
        return int(self.sizes.sum())

    @property
    def returning_people(self) -> int:
        """People with two requests or more."""
        return int(np.count_nonzero(np.bincount(self.person) > 1)) if len(self) else 0

    def chances(self, generator: np.random.Generator) -> FloatArray:
        """A number in [0, 1) for each request, as good as random."""
        salt = generator.integers(2**63, dtype=np.uint64)
        whole: FloatArray = (_mixed(self.key ^ salt) >> np.uint64(11)).astype(np.float64)
        return whole * 2.0**-53

    def where(self, rows: BoolArray | IntArray) -> "VisitHistory":
        """Some of the requests."""
        return VisitHistory(
            self.person[rows], self.group[rows], self.at_us[rows], self.sizes, self.key[rows]
        )

    def between(self, start_us: float, end_us: float) -> "VisitHistory":
        """The requests in [start, end)."""
        return self.where((self.at_us >= start_us) & (self.at_us < end_us))

    def of_groups(self, chosen: BoolArray) -> "VisitHistory":
        """The requests of some groups, which are numbered anew."""
        rows = chosen[self.group]
        number = np.cumsum(chosen) - 1
        return VisitHistory(
            self.person[rows],
            number[self.group[rows]],
            self.at_us[rows],
            self.sizes[chosen],
            self.key[rows],
        )


def _mixed(key: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of splitmix64: every bit of the result depends on every bit of the key."""
    key = key + np.uint64(0x9E3779B97F4A7C15)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: npt.NDArray[np.uint64] = key ^ (key >> np.uint64(31))
    return result


def round_steps(values: FloatArray) -> FloatArray:
    """Rounded to powers of 10^(1/40), steps of 6 %, and to four digits.

    Errors of 3 % of single numbers cancel in a report, and one person seldom moves a number by a
    whole step.
    """
    logs = np.round(np.log10(np.where(values > 0.0, values, 1.0)) * _STEPS) / _STEPS
    digits = 10.0 ** (3.0 - np.floor(logs))
    result: FloatArray = np.where(values > 0.0, np.round(10.0**logs * digits) / digits, 0.0)
    return result


def sessions(person: IntArray, at_us: IntArray) -> tuple[IntArray, BoolArray]:
    """The session number of each request, and whether it starts its session; in any order."""
    order = np.lexsort((at_us, person))
    new = np.ones(len(person), dtype=np.bool_)
    new[1:] = (np.diff(person[order]) != 0) | (np.diff(at_us[order]) >= SESSION_GAP_US)
    session = np.empty(len(person), dtype=np.int64)
    session[order] = np.cumsum(new) - 1
    start = np.empty(len(person), dtype=np.bool_)
    start[order] = new
    return session, start


def hourly_traffic(history: VisitHistory) -> FloatArray:
    """Requests by UTC hour over the mean, at least 0.02.

    In each hour nobody counts for more requests than `MIN_PEOPLE` people made. Hours in which
    fewer people came are pooled, and each gets their mean; where not even the pool has as many
    people, its hours count as without visits.
    """
    hour = hour_of_day(history.at_us)
    stride = int(history.person.max(initial=0)) + 1
    seen, requests = np.unique(hour * stride + history.person, return_counts=True)
    came, who = seen // stride, seen % stride
    few = np.bincount(came, minlength=24) < MIN_PEOPLE
    total = np.zeros(24)
    for each in np.flatnonzero(~few):
        total[each] = _bounded_sum(requests[came == each])
    if few.any():
        pool = np.bincount(who[few[came]], weights=requests[few[came]])
        enough = np.count_nonzero(pool) >= MIN_PEOPLE
        total[few] = _bounded_sum(pool) / np.count_nonzero(few) if enough else 0.0
    return np.maximum(round_steps(total * (24.0 / max(total.sum(), 1.0))), _MIN_TRAFFIC)


def _bounded_sum(requests: IntArray | FloatArray) -> float:
    """The sum of people's requests, each at most as many as `MIN_PEOPLE` people made."""
    limit = np.partition(requests, -MIN_PEOPLE)[-MIN_PEOPLE]
    return float(np.minimum(requests, limit).sum())


def requests_per_session(person: IntArray, session: IntArray) -> FloatArray:
    """The share of sessions with 1, 2, ... requests.

    From the longest down, numbers of requests are pooled at their mean until `MIN_PEOPLE` people
    had such a session; what is left at the end joins the last pool.
    """
    length = np.minimum(np.bincount(session), _MAX_REQUESTS)
    who = np.zeros(len(length), dtype=np.int64)
    who[session] = person
    order = np.argsort(length)
    length, who = length[order], who[order]
    result = np.zeros(int(length.max(initial=1)) + 1)
    first = np.searchsorted(length, np.arange(len(result) + 1))
    end = len(length)
    pools: list[slice] = []
    for number in range(len(result) - 1, 0, -1):
        if len(np.unique(who[first[number] : end])) >= MIN_PEOPLE:
            pools.append(slice(int(first[number]), end))
            end = int(first[number])
    if end > 0:  # too few people for a pool of their own
        pools[-1:] = [slice(0, pools[-1].stop if pools else len(length))]
    for pool in pools:
        result[round(float(length[pool].mean()))] += pool.stop - pool.start
    last = int(np.flatnonzero(result).max(initial=1))
    pmf: FloatArray = round_steps(result[1 : last + 1] / max(result.sum(), 1.0))
    largest = int(pmf.argmax())
    pmf[largest] += 1.0 - pmf.sum()
    return pmf


def continuation_odds(
    history: VisitHistory,
    session: IntArray,
    traffic: FloatArray,
    lags: int,
    generator: np.random.Generator,
) -> tuple[FloatArray, int]:
    """The odds that a request continues the session of the l-th previous one, by gap; and support.

    Counted among requests that continue none nearer, on all requests and on copies of which a
    share is left, as a campaign wins them. With τ the traffic of the hour, the odds o of a cell
    solve Σ o/(o + τ) = hits over its requests. From the shortest gap on, cells are pooled until
    `MIN_PEOPLE` people continued a session in them; what is left at the end has odds 0. The
    support is the number of people behind the rarest pool.
    """
    edges = np.round(np.array(GAP_EDGES_SECONDS) * 1e6).astype(np.int64)
    columns = len(edges)
    rows_by_hour = np.zeros((lags, columns, 24))
    hits = np.zeros((lags, columns))
    people = int(history.person.max(initial=0)) + 1
    seen = np.zeros((lags, (columns + 1) * people), dtype=np.bool_)
    for share in _THINNED:
        here = slice(None) if share == 1.0 else history.chances(generator) < share
        group, at_us, whose = history.group[here], history.at_us[here], session[here]
        person, hour = history.person[here], hour_of_day(at_us)
        fresh = np.ones(len(group), dtype=np.bool_)  # continues no nearer request
        for lag in range(1, min(lags, len(group) - 1) + 1):
            at = np.flatnonzero(fresh[lag:] & (group[lag:] == group[:-lag])) + lag
            gap = np.searchsorted(edges, at_us[at] - at_us[at - lag], side="right")
            same = whose[at] == whose[at - lag]
            cell = np.bincount(gap * 24 + hour[at], minlength=(columns + 1) * 24)
            rows_by_hour[lag - 1] += cell.reshape(columns + 1, 24)[:columns]
            hits[lag - 1] += np.bincount(gap[same], minlength=columns + 1)[:columns]
            seen[lag - 1][gap[same] * people + person[at[same]]] = True
            fresh[at[same]] = False
    continued = seen.reshape(lags, columns + 1, people)[:, :columns]
    odds = np.zeros((lags, columns))
    support = []
    for lag in range(lags):
        for pool in _pools(continued[lag]):
            rows = rows_by_hour[lag, pool].sum(axis=0)
            odds[lag, pool] = _solve_odds(rows, hits[lag, pool].sum(), traffic)
            support.append(int(continued[lag, pool].any(axis=0).sum()))
    return round_steps(odds), min(support, default=0)


def _pools(continued: BoolArray) -> Iterator[slice]:
    """Runs of gaps in each of which enough people continued a session; (gap, person) → bool."""
    first = 0
    for end in range(1, len(continued) + 1):
        if np.count_nonzero(continued[first:end].any(axis=0)) >= MIN_PEOPLE:
            yield slice(first, end)
            first = end


def _solve_odds(rows_by_hour: FloatArray, hits: float, traffic: FloatArray) -> float:
    """o with Σ_h n_h o/(o + τ_h) = hits, by bisection of ln o."""
    wanted = min(hits, rows_by_hour.sum() - 0.5)  # odds stay finite where every request continued
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        odds = np.exp(middle)
        short = (rows_by_hour * (odds / (odds + traffic))).sum() < wanted
        low, high = (middle, high) if short else (low, middle)
    return float(np.exp(0.5 * (low + high)))
