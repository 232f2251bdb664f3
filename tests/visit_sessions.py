"""People who visit in sessions at their own hours, simulated, and a plain fit of the model."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import kreach as kr
from kreach.numeric.meetings import DAY_EDGES, PART_US, PARTS, calendar, day_range, mean_meeting

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

DAY_SECONDS = 86_400.0
GAP_EDGES_SECONDS = (30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 1800.0, 3600.0, 7200.0)


@dataclass(frozen=True)
class Visits:
    """Requests in order of time: whose, of which group, of which session."""

    group: IntArray
    person: IntArray
    session: IntArray
    seconds: FloatArray
    group_size: int
    groups: int

    def reach(self, won: BoolArray, cap: int) -> int:
        """The truth: Σ min(impressions, cap) over people."""
        return int(np.minimum(np.bincount(self.person[won]), cap).sum())


def simulate_visits(
    generator: np.random.Generator,
    groups: int = 150,
    group_size: int = 20,
    days: float = 6.0,
    sessions_a_day: float = 0.4,
    spread: float = 0.8,
    requests: float = 4.0,
    pause_seconds: float = 150.0,
) -> Visits:
    """Gamma(spread) rates, each person at home in two parts of the day, geometric sessions."""
    people = groups * group_size
    rate = generator.gamma(spread, 1.0 / spread, people) * sessions_a_day
    count = generator.poisson(rate * days)
    person = np.repeat(np.arange(people), count)
    home = generator.uniform(6.0, 22.0, people)
    hour = (home[person] + generator.normal(0.0, 2.5, len(person))) % 24.0
    day = generator.integers(int(days), size=len(person))
    start = day * DAY_SECONDS + hour * 3600.0
    length = generator.geometric(1.0 / requests, len(person))
    session = np.repeat(np.arange(len(person)), length)
    pause = generator.exponential(pause_seconds, len(session))
    first = np.concatenate([[0], np.cumsum(length)[:-1]])
    offset = np.cumsum(pause)
    seconds = start[session] + offset - offset[first][session]
    order = np.argsort(seconds, kind="stable")
    whose = person[session][order]
    return Visits(whose // group_size, whose, session[order], seconds[order], group_size, groups)


def fit_plainly(visits: Visits, lags: int = 3) -> kr.VisitModel:
    """Count what the model holds, one number per cell, without smoothing."""
    order = np.lexsort((visits.seconds, visits.group))
    group, session = visits.group[order], visits.session[order]
    seconds = visits.seconds[order]
    hour = (seconds // 3600.0).astype(np.int64) % 24
    traffic = np.maximum(np.bincount(hour, minlength=24) * 24.0 / len(hour), 0.02)
    columns = len(GAP_EDGES_SECONDS)
    odds = np.zeros((lags, columns))
    fresh = np.ones(len(group), dtype=bool)
    for lag in range(1, lags + 1):
        at = np.flatnonzero(fresh[lag:] & (group[lag:] == group[:-lag])) + lag
        gap = np.searchsorted(GAP_EDGES_SECONDS, seconds[at] - seconds[at - lag], side="right")
        same = session[at] == session[at - lag]
        for column in range(columns):
            here = gap == column
            hits, tau = same[here].sum(), traffic[hour[at[here]]]
            if here.sum() >= 30 and hits > 0:
                odds[lag - 1, column] = _solve(float(min(hits, here.sum() - 0.5)), tau)
        fresh[at[same]] = False
    meetings, overall, part = _meetings(visits)
    return kr.VisitModel(
        group_size=float(visits.group_size),
        gap_edges_seconds=GAP_EDGES_SECONDS,
        continuation_odds=odds,
        hourly_traffic=traffic,
        requests_per_session=_session_lengths(session),
        meetings=meetings,
        regulars=0.2,
        lasting=0.0,
        meeting_scale=overall / mean_meeting(meetings, calendar(part, np.ones(len(part)))),
    )


def _solve(hits: float, tau: FloatArray) -> float:
    low, high = -15.0, 15.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        odds = np.exp(middle)
        low, high = (middle, high) if (odds / (odds + tau)).sum() < hits else (low, middle)
    return float(np.exp(low))


def _session_lengths(session: IntArray) -> FloatArray:
    pmf = np.bincount(np.bincount(session)[np.unique(session)])[1:].astype(np.float64)
    result: FloatArray = pmf / pmf.sum()
    return result


def _meetings(visits: Visits) -> tuple[FloatArray, float, IntArray]:
    """Share of pairs of sessions of a group that are one person's, by parts and days apart.

    Also of all pairs, and the part of each session. A group's sessions cluster at the hours of its
    busy members, so the mean over a campaign's calendar is below that over its pairs.
    """
    _, first = np.unique(visits.session, return_index=True)
    group, person = visits.group[first], visits.person[first]
    part = (visits.seconds[first] * 1e6).astype(np.int64) // PART_US
    same = np.zeros((PARTS, PARTS, len(DAY_EDGES) + 1))
    pairs = np.zeros_like(same)
    for j in range(visits.groups):
        here = np.flatnonzero(group == j)
        here = here[np.argsort(part[here], kind="stable")]
        a, b = np.triu_indices(len(here), 1)
        early, late = part[here[a]], part[here[b]]
        cell = (early % PARTS, late % PARTS, day_range(late // PARTS - early // PARTS))
        np.add.at(pairs, cell, 1.0)
        np.add.at(same, cell, person[here[a]] == person[here[b]])
    overall = float(same.sum() / pairs.sum())
    return (same + 20.0 * overall) / (pairs + 20.0), overall, part
