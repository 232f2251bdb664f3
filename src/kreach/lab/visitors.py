"""People who visit a site: in sessions and at their hours, or independently of each other.

`SiteVisitors` visit like the readers of a public news portal; the demo uses them, so that it shows
what a site would get. `IndependentVisitors` obey the paper's assumptions; tests of bookkeeping and
of the paper's formulas use them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from kreach.boundary.times import DAY_SECONDS, HOUR_SECONDS, iso_seconds
from kreach.errors import KreachError
from kreach.lab.trials import generator_for
from kreach.numeric.types import FloatArray, IntArray

__all__ = [
    "IndependentVisitors",
    "Schedule",
    "SiteVisitors",
    "Visitors",
    "site_days",
    "visitor_columns",
    "write_users",
    "write_visits",
]

# Fitted to 16 days of a public news portal. Rates are sessions per day.
_HOURLY = np.array(  # sessions by hour of the day, in the portal's own time zone
    [
        [3.1, 1.9, 1.0, 0.6, 0.5, 0.5, 1.1, 2.5, 4.4, 6.2, 5.4, 5.7],
        [6.2, 6.3, 6.8, 6.5, 6.3, 6.4, 5.9, 5.1, 4.7, 4.5, 4.3, 4.0],
    ]
).ravel()
_DAY_CURVE = np.cumsum([0.0, *_HOURLY]) / _HOURLY.sum()
_WEEKDAYS = np.array([1.2, 1.2, 1.2, 1.2, 1.1, 0.55, 0.55])  # from Monday; mean 1
_FIRST_WEEKDAY = 3  # 1 January 1970 was a Thursday
_LASTING_LOG_RATE = (-2.55, 1.28)  # mean and deviation of the log
_MAX_NORMAL = 2.8  # nobody comes more often than about three times a day
_PASSING = 0.4  # share of people who come only for some days
_PASSING_LOG_RATE = (-1.9, 0.45)  # while they come
_SPELL_DAYS = 3.5  # mean, beyond the first day
_CYCLE_DAYS = 18  # between the starts of two spells of a person
_KNOWN_DAYS = 16.0  # a person is known who came in so many days
_SHARP_HABIT = (0.18, 0.012)  # share of sessions, and their deviation from the favourite time
_BROAD_DEVIATION = 0.185  # of all other sessions; in days of equal traffic per hour
_FURTHER_REQUESTS = (5.0, 3.0)  # beta-geometric, beyond the first two of a session
_REQUESTS_PER_SESSION = 2.0 + _FURTHER_REQUESTS[1] / (_FURTHER_REQUESTS[0] - 1.0)
_QUICK_GAPS = 0.54  # share of the gaps within a session
_QUICK_LOG_SECONDS = (3.4, 0.15)  # half a minute
_SLOW_LOG_SECONDS = (4.8, 1.4)
_COLUMNS = {  # values and their shares
    "age": (("18-24", "25-34", "35-49", "50-64", "65+"), (0.12, 0.2, 0.27, 0.25, 0.16)),
    "device": (("phone", "desktop", "tablet"), (0.55, 0.37, 0.08)),
}


class Schedule(NamedTuple):
    """Visits in the order of time."""

    person: IntArray
    at_seconds: FloatArray  # since 1970


class Visitors(Protocol):
    """People with ids; visits name them by their index."""

    @property
    def user_ids(self) -> tuple[str, ...]:
        """The ids."""
        ...


@dataclass(frozen=True, eq=False)
class IndependentVisitors:
    """People whose visits are independent draws, as the paper assumes."""

    user_ids: tuple[str, ...]
    shares: FloatArray  # of all visits

    @classmethod
    def draw(cls, people: int, dispersion: float, seed: int) -> "IndependentVisitors":
        """Draw Gamma visit rates: shares within random groups are Dirichlet(dispersion)."""
        if people < 1 or not dispersion > 0.0:
            rule = "have people and a dispersion > 0"
            raise KreachError.rule("population", rule, (people, dispersion))
        generator = generator_for(seed, 0)
        rates = np.ones(people)
        if np.isfinite(dispersion):
            rates = generator.standard_gamma(dispersion, people)
        return cls(_user_ids(people, seed), rates / rates.sum())

    def visitors(self, visits: int, generator: np.random.Generator) -> IntArray:
        """Draw the person behind each visit."""
        return generator.choice(len(self.shares), visits, p=self.shares)

    def history(self, visits: int, end_seconds: float, seed: int) -> Schedule:
        """Draw visits of the 30 days before an instant, at any time of the day."""
        generator = generator_for(seed, 1)
        days = 30.0 * np.sort(generator.random(visits))
        return Schedule(self.visitors(visits, generator), end_seconds + (days - 30.0) * DAY_SECONDS)


@dataclass(frozen=True, eq=False)
class SiteVisitors:
    """People who visit like the readers of a public news portal.

    A session has two requests or more, mostly minutes apart. Sessions follow the portal's hours and
    days of the week, and each person has a favourite time of the day. Most people keep their rate;
    others come only for some days, and again after some weeks. Requests per session, gaps, hours
    and weekdays are the portal's; the rest was fitted to these figures of 16 days (people who came,
    in random groups of 20):

                                                          portal           here
        visits a person: mean, median, Gini             9.3, 4, 0.56     9.5, 5, 0.55
        people with one session                         0.41             0.41
        sessions that the busiest 5 % make              0.26             0.28
        effective members of a group (1/Σq²)            8.9              9.1
        correlation of people's visits, both halves     0.71             0.68
        requests per session (30 minutes end one)       2.7              2.8
        seconds between requests: median, 90 %          30, 335          34, 370
        same person as the group's previous request, so many minutes after it:
          0-½, ½-1, 3-5, 5-10, 10-20, 20-40, 50-72  portal .87 .99 .90 .80 .54 .33 .17
                                                    here   .98 .99 .90 .82 .64 .38 .22
        two sessions of a group are one person's, so many hours apart:
          1, 6, 12, 18, 24, 48, 168                 portal .17 .12 .08 .11 .21 .19 .20
                                                    here   .22 .09 .08 .09 .21 .21 .20

    The fit and the comparison use the same days; nothing was held out.
    Left out: news that doubles the traffic of a day, weekdays of a person, and newcomers.

    Everything is drawn by the seed and the calendar day, so two stretches of time that overlap have
    the same visits in common.
    """

    user_ids: tuple[str, ...]
    rates: FloatArray  # sessions per day on which the person comes at all
    favourite: FloatArray  # time of the day, as the share of a day's traffic before it
    spell_days: IntArray  # of a cycle; a person who keeps a rate comes on all
    offset_days: IntArray
    seed: int

    @classmethod
    def draw(
        cls, people: int, visits_per_day: float | None, seed: int, *, known: bool = True
    ) -> "SiteVisitors":
        """Draw people and their habits.

        A site knows whom it has seen. With `known`, people have the rates of those who came to the
        portal within 16 days; without, they also stand for those who hardly ever come. Rates are
        scaled to `visits_per_day` a person on average; with None they are the portal's.
        """
        if people < 1 or not (visits_per_day is None or 0.0 < visits_per_day < np.inf):
            rule = "have people and visits_per_day > 0"
            raise KreachError.rule("population", rule, (people, visits_per_day))
        generator = generator_for(seed, 0)
        count = 3 * people + 100 if known else people  # two in three are known
        passing = generator.random(count) < _PASSING
        normal = np.minimum(generator.standard_normal(count), _MAX_NORMAL)
        lasting_rate, passing_rate = (
            np.exp(mean + deviation * normal)
            for mean, deviation in (_LASTING_LOG_RATE, _PASSING_LOG_RATE)
        )
        rates = np.where(passing, passing_rate, lasting_rate)
        spell = 1 + np.floor(generator.exponential(_SPELL_DAYS, count)).astype(np.int64)
        spell = np.where(passing, np.minimum(spell, _CYCLE_DAYS), _CYCLE_DAYS)
        chosen = np.arange(people)
        if known:
            sessions = rates * spell * _KNOWN_DAYS / _CYCLE_DAYS
            chosen = np.flatnonzero(generator.random(count) < -np.expm1(-sessions))[:people]
        rates, spell = rates[chosen], spell[chosen]
        if visits_per_day is not None:
            sessions_per_day = float((rates * spell).mean()) / _CYCLE_DAYS
            rates *= visits_per_day / (_REQUESTS_PER_SESSION * sessions_per_day)
        offset = generator.integers(_CYCLE_DAYS, size=people)
        favourite = generator.random(people)
        return cls(_user_ids(people, seed), rates, favourite, spell, offset, seed)

    def schedule(self, begin_seconds: float, end_seconds: float) -> Schedule:
        """The visits from one time until before another, both in seconds since 1970."""
        first = int(begin_seconds // DAY_SECONDS) - 1  # sessions may run past midnight
        last = int(-(-end_seconds // DAY_SECONDS))
        days = [self._day(day) for day in range(first, last)]
        person = np.concatenate([day.person for day in days])
        at_seconds = np.concatenate([day.at_seconds for day in days])
        inside = np.flatnonzero((at_seconds >= begin_seconds) & (at_seconds < end_seconds))
        order = inside[np.argsort(at_seconds[inside], kind="stable")]
        return Schedule(person[order], at_seconds[order])

    def _day(self, day: int) -> Schedule:
        """All visits of the sessions that start on a day, session by session."""
        generator = generator_for(self.seed, 3, day + 1)  # from the eve of 1970
        comes = (day + self.offset_days) % _CYCLE_DAYS < self.spell_days
        weights = np.cumsum(np.where(comes, self.rates, 0.0))
        weights *= _WEEKDAYS[(day + _FIRST_WEEKDAY) % 7]
        sessions = int(generator.poisson(weights[-1]))
        owner = np.searchsorted(weights, generator.random(sessions) * weights[-1], side="right")
        sharp = generator.random(sessions) < _SHARP_HABIT[0]
        deviation = np.where(sharp, _SHARP_HABIT[1], _BROAD_DEVIATION)
        # Habits in days of equal traffic per hour keep the site's hours whatever people prefer.
        share = (self.favourite[owner] + deviation * generator.standard_normal(sessions)) % 1.0
        hour = np.interp(share, _DAY_CURVE, np.arange(25.0))
        requests = 1 + generator.geometric(generator.beta(*_FURTHER_REQUESTS, sessions))
        session = np.repeat(np.arange(sessions), requests)
        since_start = _since_start(requests, session, generator)
        at_seconds = day * DAY_SECONDS + hour[session] * HOUR_SECONDS + since_start
        within = since_start < DAY_SECONDS
        return Schedule(owner[session[within]], at_seconds[within])


def _since_start(
    requests: IntArray, session: IntArray, generator: np.random.Generator
) -> FloatArray:
    """Seconds from the start of its session to each request."""
    count = len(session)
    quick = generator.random(count) < _QUICK_GAPS
    mean = np.where(quick, _QUICK_LOG_SECONDS[0], _SLOW_LOG_SECONDS[0])
    deviation = np.where(quick, _QUICK_LOG_SECONDS[1], _SLOW_LOG_SECONDS[1])
    gaps = np.exp(mean + deviation * generator.standard_normal(count))
    first = np.cumsum(requests) - requests
    gaps[first] = 0.0
    passed = np.cumsum(gaps)
    result: FloatArray = passed - passed[first][session]
    return result


def site_days(begin_seconds: float, end_seconds: float) -> float:
    """The traffic between two times, in that of an average day."""
    return _traffic_until(end_seconds) - _traffic_until(begin_seconds)


def _traffic_until(seconds: float) -> float:
    """Since Monday, 29 December 1969, in average days."""
    day, rest = divmod(seconds + _FIRST_WEEKDAY * DAY_SECONDS, DAY_SECONDS)
    weeks, weekday = divmod(int(day), 7)
    today = _WEEKDAYS[weekday] * np.interp(rest / HOUR_SECONDS, np.arange(25.0), _DAY_CURVE)
    return float(7.0 * weeks + _WEEKDAYS[:weekday].sum() + today)


def visitor_columns(people: int, seed: int) -> dict[str, list[str]]:
    """What a publisher may know of its people beside their visits, drawn at random."""
    generator = generator_for(seed, 4)
    return {
        name: generator.choice(values, people, p=shares).tolist()
        for name, (values, shares) in _COLUMNS.items()
    }


def write_users(
    path: Path, user_ids: Sequence[str], columns: Mapping[str, Sequence[str]] | None = None
) -> Path:
    """Write a users file (CSV), with more columns if there are any."""
    columns = columns or {}
    rows = zip(user_ids, *columns.values(), strict=True)
    lines = [("user_id", *columns), *rows]
    path.write_text("".join(f"{','.join(line)}\n" for line in lines))
    return path


def write_visits(path: Path, user_ids: Sequence[str], visits: Schedule) -> Path:
    """Write a visits file (CSV)."""
    with path.open("w") as file:
        file.write("user_id,ts\n")
        file.writelines(
            f"{user_ids[person]},{iso_seconds(at)}\n"
            for person, at in zip(visits.person.tolist(), visits.at_seconds.tolist(), strict=True)
        )
    return path


def _user_ids(people: int, seed: int) -> tuple[str, ...]:
    return tuple(f"reader-{seed:03}-{person:07}" for person in range(people))
