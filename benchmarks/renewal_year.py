"""A year of a site, resampled from the visits of a real one.

Everybody in it has a *donor*: a real person whose visits of a week, drawn anew each week from the
whole weeks of the log, are theirs. Each week a share of people leaves for good and others join, a
share takes the habits of another donor, and a share takes another donor's value of an attribute
(a new phone, another country). So visit counts, their unevenness, the weeks without a visit and the
attributes are real; churn and change are parameters.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kreach.boundary.times import DAY_SECONDS, MICROS
from kreach.numeric.types import IntArray
from kreach.publisher.directory import Directory
from kreach.publisher.people import People

__all__ = ["HISTORY_WEEKS", "Change", "Year", "resample_year"]

HISTORY_WEEKS = 8  # before the first groups are formed
_YEAR_DAYS = 364


@dataclass(frozen=True)
class Change:
    """What changes from week to week, as shares of people."""

    churn: float = 0.02  # leave, and as many join
    habits: float = 0.02
    moves: float = 0.002  # another value of an attribute, each
    season: float = 0.3  # of all visits, that are missing in the middle of the year


@dataclass(frozen=True)
class Year:
    """Visits of everybody who was ever there, by week, and attributes as codes, by week.

    Week `HISTORY_WEEKS` is the first that groups serve. `first` and `last` are the weeks of the
    first and the last visit, `last` −1 where there is none.
    """

    visits: IntArray  # (people, weeks)
    attributes: dict[str, IntArray]  # name -> (people, weeks)
    first: IntArray
    last: IntArray

    @property
    def weeks(self) -> int:
        """Weeks in all, with history."""
        return int(self.visits.shape[1])

    def recent(self, week: int, weeks: int) -> IntArray:
        """Visits of everybody in so many weeks before `week`."""
        total: IntArray = self.visits[:, max(week - weeks, 0) : week].sum(axis=1)
        return total

    def cells(self, names: tuple[str, ...], week: int) -> IntArray:
        """The combination of attribute values of everybody, as a number."""
        cell = np.zeros(len(self.visits), dtype=np.int64)
        for name in names:
            column = self.attributes[name]
            cell = cell * (int(column.max()) + 1) + column[:, week]
        return cell


def resample_year(
    path: Path,
    attributes: tuple[str, ...],
    people: int,
    weeks: int,
    change: Change,
    generator: np.random.Generator,
    days: int = 7,
) -> Year:
    """A year (or so many weeks) of so many people at a time.

    With other `days` than 7 every "week" of the study has so many: a site where people come seldom.
    """
    habits, donors = _donors(path, attributes, days)
    total_weeks = HISTORY_WEEKS + weeks
    born, dies = _lives(people, total_weeks, change.churn, generator)
    count = len(born)
    donor = generator.integers(0, len(habits), count)
    value_of = {name: donor.copy() for name in attributes}  # the donor of each attribute
    visits = np.zeros((count, total_weeks), dtype=np.int64)
    columns = {name: np.zeros((count, total_weeks), dtype=np.int64) for name in attributes}
    for week in range(total_weeks):
        _redraw(donor, change.habits, len(habits), generator)
        here = (born <= week) & (week < dies)
        copied = habits[donor, generator.integers(0, habits.shape[1], count)]
        missing = change.season * (1.0 - np.cos(2.0 * np.pi * week * days / _YEAR_DAYS)) / 2.0
        visits[:, week] = generator.binomial(np.where(here, copied, 0), 1.0 - missing)
        for name in attributes:
            _redraw(value_of[name], change.moves, len(habits), generator)
            columns[name][:, week] = donors.attribute(name).codes[value_of[name]]
    seen = visits > 0
    came = seen.any(axis=1)
    visits, seen = visits[came], seen[came]
    return Year(
        visits,
        {name: column[came] for name, column in columns.items()},
        seen.argmax(axis=1),
        total_weeks - 1 - seen[:, ::-1].argmax(axis=1),
    )


def _donors(path: Path, attributes: tuple[str, ...], days: int) -> tuple[IntArray, People]:
    """Visits per whole week of the log of everybody who came in one, and their attributes."""
    directory = Directory(path)
    people = directory.people(attributes)
    log = directory.visits()
    start = int(log.at_us[0])
    week = (log.at_us - start) // (days * DAY_SECONDS * MICROS)
    counts_by_week = np.bincount(week)
    whole = max(int(np.count_nonzero(counts_by_week > 0.2 * counts_by_week.max())) - 1, 1)
    inside = week < whole
    table = np.zeros((people.count, whole), dtype=np.int64)
    np.add.at(table, (log.user[inside], week[inside]), 1)
    some = np.flatnonzero(table.any(axis=1))
    chosen = {
        name: type(column)(column.codes[some], column.labels)
        for name, column in people.attributes.items()
    }
    return table[some], People(table[some].sum(axis=1), chosen)


def _lives(
    people: int, weeks: int, churn: float, generator: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """The first week and the week after the last of everybody; as many join as leave."""
    joining = round(people * churn)
    born = np.concatenate(
        [np.zeros(people, dtype=np.int64), np.repeat(np.arange(1, weeks), joining)]
    )
    lives = generator.geometric(churn, len(born)) if churn else np.full(len(born), weeks + 1)
    return born, born + lives


def _redraw(donor: IntArray, share: float, donors: int, generator: np.random.Generator) -> None:
    changed = np.flatnonzero(generator.random(len(donor)) < share)
    donor[changed] = generator.integers(0, donors, len(changed))
