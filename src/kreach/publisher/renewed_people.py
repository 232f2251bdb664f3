"""Who is in the next version of a build, and what is known of them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from kreach.boundary.checks import LARGEST_COUNT
from kreach.boundary.files import read_catalogue
from kreach.boundary.times import to_micros
from kreach.errors import KreachError
from kreach.numeric.types import BoolArray, IntArray
from kreach.publisher.columns import publishable_columns
from kreach.publisher.directory import Directory
from kreach.publisher.group_lookup import substitute_row
from kreach.publisher.grouping.named import NamedStrategy
from kreach.publisher.people import Attribute, People
from kreach.publisher.store import Build, read_private_columns

__all__ = [
    "LAST_SEEN",
    "PAST",
    "Population",
    "RenewalPolicy",
    "RenewedPeople",
    "named_groups",
    "past_groups",
    "people_of",
    "population_of",
]

NEWCOMERS = ("named", "gaps")
PAST = "past_"  # columns of a renewed build: groups of earlier versions,
LAST_SEEN = "last_seen"  # and when people were seen last (microseconds since 1970)


@dataclass(frozen=True)
class RenewalPolicy:
    """Who leaves, who counts, where newcomers go.

    `newcomers`: "named", to the group that the gateway named; "gaps", to the groups that lack
    people, which singles out many of them over the versions.
    """

    forget_weeks: float = 26.0
    seen_weeks: float = 4.0
    room: float = 1.25  # counted people per group, in units of k
    newcomers: str = "named"

    def __post_init__(self) -> None:
        if not 0.0 < self.seen_weeks <= self.forget_weeks:
            rule = f"be above 0 and at most forget_weeks ({self.forget_weeks:g})"
            raise KreachError.rule("seen_weeks", rule, self.seen_weeks)
        if not self.forget_weeks < 1e4:
            raise KreachError.rule("forget_weeks", "be below 10,000", self.forget_weeks)
        if not 1.0 <= self.room <= 10.0:
            raise KreachError.rule("room", "lie between 1 and 10", self.room)
        if self.newcomers not in NEWCOMERS:
            raise KreachError.rule("newcomers", f"be one of {', '.join(NEWCOMERS)}", self.newcomers)


@dataclass(frozen=True, eq=False)
class Population:
    """Who is in the new version: first who stays, in the old order, then who joins.

    `old_row` and `new_row` are rows of the old build and of the directory, −1 for none.
    """

    stays: BoolArray  # of the old build's people
    user_ids: list[str]
    old_row: IntArray
    new_row: IntArray
    last_seen_us: IntArray
    counted: BoolArray


def population_of(
    policy: RenewalPolicy, old: Build, directory: Directory, end: datetime | None
) -> Population:
    """Who stays, who joins, and when everybody was seen last."""
    end_us = None if end is None else to_micros(end)
    ids = directory.user_ids()
    row_of = {user: row for row, user in enumerate(ids)}
    seen_us = directory.last_seen(end)
    if seen_us.size == 0 or seen_us.max() < 0:
        raise KreachError.rule("visits", "hold at least one visit", "none")
    clock = int(seen_us.max()) if end_us is None else end_us
    forgotten = clock - _micros(policy.forget_weeks)
    in_new = np.array([row_of.get(user, -1) for user in old.user_ids], dtype=np.int64)
    since_us = int(directory.visits().at_us.min())
    before = _last_seen_before(old, min(since_us, clock))
    last = np.maximum(before, np.where(in_new >= 0, seen_us[in_new], -1))
    stays = last >= forgotten
    joins = (seen_us >= forgotten) & (seen_us >= 0)
    joins[in_new[in_new >= 0]] = False
    joiners = np.flatnonzero(joins)
    staying = np.flatnonzero(stays)
    last_seen_us = np.concatenate([last[staying], seen_us[joiners]])
    return Population(
        stays,
        [*(old.user_ids[row] for row in staying.tolist()), *(ids[row] for row in joiners.tolist())],
        np.concatenate([staying, np.full(len(joiners), -1)]),
        np.concatenate([in_new[staying], joiners]),
        last_seen_us,
        last_seen_us >= clock - _micros(policy.seen_weeks),
    )


def _micros(weeks: float) -> int:
    return timedelta(weeks=weeks) // timedelta(microseconds=1)


def _last_seen_before(old: Build, since_us: int) -> IntArray:
    """When the old build's people were seen last, before the visits that begin at `since_us`.

    A build that was not renewed does not know: when it was made, or just before these visits.
    """
    stored = read_private_columns(old.folder, LAST_SEEN)
    if LAST_SEEN in stored:
        return stored[LAST_SEEN]
    made = to_micros(read_catalogue(old.folder / "release").created)
    return np.full(len(old.user_ids), min(made, since_us - 1), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class RenewedPeople:
    """Visits and columns of the new version.

    `changed` counts who stays with another value than before, `pooled` who has a value that too few
    share, by column.
    """

    people: People
    changed: dict[str, int]
    pooled: dict[str, int]


def people_of(
    old: Build,
    directory: Directory,
    population: Population,
    formed_by: NamedStrategy,
    end: datetime | None,
) -> RenewedPeople:
    """Everybody with the columns of the old build; where new visits lack one, as it was."""
    present = [name for name in old.people.attributes if name in directory.attribute_names]
    fresh = directory.people(present, end=end)
    in_new, in_old = population.new_row >= 0, population.old_row >= 0
    _refuse_unknown_values(formed_by.sensitive, present, bool((~in_old).any()))
    visits = np.where(in_new, fresh.visits[population.new_row], 0)
    attributes = {}
    for name, before in old.people.attributes.items():
        after = fresh.attribute(name) if name in present else before
        numeric = before.numeric and after.numeric
        values = np.full(len(visits), np.nan if numeric else None, float if numeric else object)
        values[in_old] = _values(before, numeric)[population.old_row[in_old]]
        if name in present:
            values[in_new] = _values(after, numeric)[population.new_row[in_new]]
        attributes[name] = Attribute.of(_whole(values) if numeric else values)
    people, pooled = publishable_columns(
        People(visits, attributes), formed_by.segments, old.assignment.group_size
    )
    changed = {}
    for name in present:
        was = _values(old.people.attribute(name), numeric=False)[population.old_row[in_old]]
        now = _values(people.attribute(name), numeric=False)[in_old]
        changed[name] = int(np.count_nonzero(now != was))
    return RenewedPeople(people, changed, pooled)


def _values(attribute: Attribute, numeric: bool) -> Any:
    """Everybody's value: numbers with nan, or texts with None, for what is missing."""
    if numeric:
        labels = np.array([np.nan if v is None else v for v in attribute.labels], dtype=float)
    else:
        labels = np.array([_text(label) for label in attribute.labels], dtype=object)
    return labels[attribute.codes]


def _text(label: object) -> str | None:
    """A label as text: 2 and 2.0, as files may have it, are the same."""
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return None if label is None else str(label)


def _whole(values: Any) -> Any:
    """Numbers as whole ones if all are; what is missing is masked."""
    known = values[~np.isnan(values)]
    if not (known == np.round(known)).all() or np.abs(known).max(initial=0.0) > LARGEST_COUNT:
        return values
    missing = np.isnan(values)
    return np.ma.masked_array(np.where(missing, 0, values).astype(np.int64), missing)


def _refuse_unknown_values(sensitive: tuple[str, ...], present: list[str], newcomers: bool) -> None:
    """A value that nobody knows would count as one more, and hide that a group has a single one."""
    missing = [name for name in sensitive if name not in present]
    if missing and newcomers:
        rule = "have the sensitive columns of the old build, for newcomers"
        raise KreachError.rule("visits", rule, f"no {', '.join(missing)}")


def named_groups(old: Build, population: Population) -> IntArray:
    """The group that the gateway of the old build names for each newcomer."""
    group, people = old.assignment.group_of(), len(old.user_ids)
    newcomers = population.user_ids[int(np.count_nonzero(population.stays)) :]
    rows = [substitute_row(old.key, user, people) for user in newcomers]
    return group[np.array(rows, dtype=np.int64)]


def past_groups(old: Build, population: Population, named: IntArray) -> IntArray:
    """The groups of everybody in all versions before this one, oldest first."""
    stored = read_private_columns(old.folder, PAST)
    columns = [stored[name] for name in sorted(stored)]
    before = np.stack([*columns, old.assignment.group_of()], axis=1)
    newcomers = np.full((len(named), before.shape[1]), -1)
    newcomers[:, -1] = named
    return np.concatenate([before[population.stays], newcomers])
