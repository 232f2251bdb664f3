"""The next version of a build from new visits: people leave and join, groups stay.

The policy is what held in a year of weekly visits (docs/renewal.md):

* renew every four weeks;
* newcomers stay in the group that the gateway named for them while they were unknown;
* whoever was not seen for 26 weeks leaves; until then they keep their group, should they return;
* only people seen in the last four weeks count, and every group has at least 1.25 k of them, so
  that k are left when the next version comes. Form groups with 1.5 k, or most are merged at once.

Ids are new: the key and the version are. What a person who is followed over all versions gives
away is counted (`lineage.py`) and stated.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.checks import as_whole_number
from kreach.boundary.files import read_catalogue
from kreach.boundary.times import from_micros, to_micros
from kreach.errors import KreachError
from kreach.numeric.types import BoolArray, IntArray
from kreach.publisher.directory import Directory, Visits
from kreach.publisher.group_lookup import substitute_row
from kreach.publisher.grouping import Assignment, AtRandom
from kreach.publisher.grouping.base import FORMED_BY_VISITS
from kreach.publisher.lineage import SMALL_CROWD, Crowds
from kreach.publisher.people import Attribute, People
from kreach.publisher.regrouping import RENEW_WEEKS, Regrouping, regroup
from kreach.publisher.release import Floors, Release, new_key, release
from kreach.publisher.site_model import SiteModel, fit_site_model
from kreach.publisher.store import (
    Build,
    check_folder,
    read_build,
    read_private_columns,
    write_build,
)

__all__ = ["RenewOptions", "RenewalPolicy", "renew_groups"]

NEWCOMERS = ("named", "gaps")
_MANY_MOVED = 0.1  # of all people
_FEW_SEEN = 0.4  # of all people
_MAX_PAST = 52  # versions whose groups are remembered
_PAST = "past_"
_LAST_SEEN = "last_seen"


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


@dataclass(frozen=True)
class RenewOptions:
    """The options of a renewal. What is None is as in the old build."""

    old: Path
    visits: Path
    out: Path
    users: Path | None = None
    history_end: datetime | None = None
    buyer: str | None = None
    knowledge: str | None = None
    memory_hours: float | None = None
    group_size: int | None = None  # k from now on, at most that of the old build
    floors: Floors = field(default_factory=Floors)
    policy: RenewalPolicy = field(default_factory=RenewalPolicy)
    seed: int | None = None  # random unless given


@dataclass(frozen=True, eq=False)
class _Population:
    """Who is in the new version: first who stays, in the old order, then who joins.

    `old_row` and `new_row` are rows of the old build and of the directory, −1 for none.
    """

    stays: BoolArray  # of the old build's people
    user_ids: list[str]
    old_row: IntArray
    new_row: IntArray
    last_seen_us: IntArray
    counted: BoolArray


def renew_groups(
    options: RenewOptions, now: datetime, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Write the next version of a build, and return its facts for JSON."""
    check_folder(options.out)
    old = _old_build(options)
    version = now.strftime("%Y%m%dT%H%M%SZ")
    if version == old.facts["version"]:
        rule = f"be older than the new version ({version})"
        raise KreachError.rule("old", rule, old.facts["version"])
    seed = secrets.randbelow(2**53) if options.seed is None else options.seed
    seed = as_whole_number("seed", seed, minimum=0)
    progress("reading visits")
    directory = Directory(options.visits, options.users)
    population = _population(options, old, directory)
    people, changed = _people(options, old, directory, population)
    progress(f"renewing the groups of {people.count:,} people")
    named = _named(old, population) if options.policy.newcomers == "named" else None
    renewed = regroup(
        old.assignment,
        population.stays,
        int(np.count_nonzero(population.old_row < 0)),
        seed,
        counted=population.counted,
        named=named,
        cells=_cells(old, people),
        repair_below=int(np.ceil(options.policy.room * old.assignment.group_size)),
    )
    past = _past(old, population, _named(old, population))
    order = np.argsort(np.array(population.user_ids, dtype=object))  # as a build lists people
    assignment = Assignment(
        renewed.assignment.groups[order], old.assignment.group_size, old.assignment.strategy
    )
    people = _in_order(people, order)
    past, last_seen_us = past[order], population.last_seen_us[order]
    new_row = population.new_row[order]
    knowledge = options.knowledge or str(old.facts.get("knowledge", "model"))
    site = _site_model(options, directory, new_row, people, assignment, knowledge, seed, progress)
    progress("checking and releasing")
    key = new_key()
    buyer = options.buyer or str(old.facts.get("buyer", "default"))
    released = release(
        people,
        assignment,
        key=key,
        buyer=buyer,
        version=version,
        now=now,
        knowledge=knowledge,
        model=site.model,
        floors=options.floors,
        memory_hours=_memory_hours(options),
    )
    groups = np.concatenate([past, assignment.groups], axis=1)
    facts = _facts(old, people, assignment, released, site, knowledge, buyer, seed)
    facts["renewal"] = _renewal_facts(options, old, population, renewed, changed, groups)
    facts["warnings"] = [*facts["warnings"], *_warnings(facts["renewal"], people.count)]
    progress("writing")
    columns = {_LAST_SEEN: last_seen_us}
    kept = past[:, -_MAX_PAST:]
    columns |= {f"{_PAST}{at:03}": np.ascontiguousarray(kept[:, at]) for at in range(kept.shape[1])}
    user_ids = [population.user_ids[row] for row in order.tolist()]
    write_build(options.out, user_ids, people, assignment, released, key, facts, columns)
    return facts


def _old_build(options: RenewOptions) -> Build:
    """The old build, with the k of the new one."""
    old = read_build(options.old)
    if old.assignment.overlapping:
        raise KreachError.rule("old", "have disjoint groups", "overlapping ones")
    if options.group_size is None:
        return old
    k = as_whole_number("group_size", options.group_size, minimum=1)
    if k > old.assignment.group_size:
        rule = f"be at most that of the old build ({old.assignment.group_size})"
        raise KreachError.rule("group_size", rule, k)
    return replace(old, assignment=Assignment(old.assignment.groups, k, old.assignment.strategy))


def _population(options: RenewOptions, old: Build, directory: Directory) -> _Population:
    """Who stays, who joins, and when everybody was seen last."""
    end_us = None if options.history_end is None else to_micros(options.history_end)
    ids = directory.user_ids()
    row_of = {user: row for row, user in enumerate(ids)}
    seen_us = directory.last_seen(options.history_end)
    if seen_us.size == 0 or seen_us.max() < 0:
        raise KreachError.rule("visits", "hold at least one visit", "none")
    clock = int(seen_us.max()) if end_us is None else end_us
    policy = options.policy
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
    return _Population(
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
    stored = read_private_columns(old.folder, _LAST_SEEN)
    if _LAST_SEEN in stored:
        return stored[_LAST_SEEN]
    made = to_micros(read_catalogue(old.folder / "release").created)
    return np.full(len(old.user_ids), min(made, since_us - 1), dtype=np.int64)


def _people(
    options: RenewOptions, old: Build, directory: Directory, population: _Population
) -> tuple[People, dict[str, int]]:
    """Visits and attributes of the new version; of how many who stay an attribute changed."""
    present = [name for name in old.people.attributes if name in directory.attribute_names]
    fresh = directory.people(present, end=options.history_end)
    in_new, in_old = population.new_row >= 0, population.old_row >= 0
    visits = np.where(in_new, fresh.visits[population.new_row], 0)
    attributes, changed = {}, {}
    for name, before in old.people.attributes.items():
        values = np.full(len(visits), None, dtype=object)
        values[in_old] = _labels(before)[population.old_row[in_old]]
        if name in present:
            was = values.copy()
            values[in_new] = _labels(fresh.attribute(name))[population.new_row[in_new]]
            changed[name] = int(np.count_nonzero(in_old & (values != was)))
        attributes[name] = Attribute.of(values)
    return People(visits, attributes), changed


def _labels(attribute: Attribute) -> Any:
    labels = [None if label is None else str(label) for label in attribute.labels]
    return np.array(labels, dtype=object)[attribute.codes]


def _named(old: Build, population: _Population) -> IntArray:
    """The group that the gateway of the old build names for each newcomer."""
    group, people = old.assignment.group_of(), len(old.user_ids)
    newcomers = population.user_ids[int(np.count_nonzero(population.stays)) :]
    rows = [substitute_row(old.key, user, people) for user in newcomers]
    return group[np.array(rows, dtype=np.int64)]


def _cells(old: Build, people: People) -> IntArray | None:
    """The targeting segments that the old groups were formed along."""
    if not old.assignment.strategy.startswith("segments"):
        return None
    names = [name for name in old.facts.get("coverage", {}) if name in people.attributes]
    if not names:
        return None
    _, cells = np.unique(people.codes(tuple(names)), axis=0, return_inverse=True)
    return cells.reshape(-1).astype(np.int64)


def _past(old: Build, population: _Population, named: IntArray) -> IntArray:
    """The groups of everybody in all versions before this one, oldest first."""
    stored = read_private_columns(old.folder, _PAST)
    columns = [stored[name] for name in sorted(stored)]
    before = np.stack([*columns, old.assignment.group_of()], axis=1)
    newcomers = np.full((len(named), before.shape[1]), -1)
    newcomers[:, -1] = named
    return np.concatenate([before[population.stays], newcomers])


def _in_order(people: People, order: IntArray) -> People:
    attributes = {
        name: Attribute(attribute.codes[order], attribute.labels)
        for name, attribute in people.attributes.items()
    }
    return People(people.visits[order], attributes)


def _site_model(
    options: RenewOptions,
    directory: Directory,
    new_row: IntArray,
    people: People,
    assignment: Assignment,
    knowledge: str,
    seed: int,
    progress: Callable[[str], None],
) -> SiteModel:
    """The visit model in the renewed groups. New visits did not form them, so no cross-fitting.

    Where the first groups were formed by visits, the file may hold those too: only its later half
    is used.
    """
    if knowledge != "model":
        return SiteModel(None, None, ())
    visits = directory.visits(end=options.history_end)
    index = np.full(directory.user_count, -1, dtype=np.int64)
    index[new_row[new_row >= 0]] = np.flatnonzero(new_row >= 0)
    user = index[visits.user]
    mine = user >= 0
    if assignment.strategy in FORMED_BY_VISITS:
        mine &= visits.at_us >= np.median(visits.at_us)
    used = Visits(user[mine], visits.at_us[mine])
    return fit_site_model(used, people, assignment, AtRandom(), seed, progress)


def _facts(
    old: Build,
    people: People,
    assignment: Assignment,
    released: Release,
    site: SiteModel,
    knowledge: str,
    buyer: str,
    seed: int,
) -> dict[str, Any]:
    """The facts of a build, with those of the old one that still hold."""
    return old.facts | {
        "version": released.catalogue.version,
        "strategy": assignment.strategy,
        "group_size": assignment.group_size,
        "people": people.count,
        "visits": int(people.visits.sum()),
        "groups": assignment.group_count,
        "smallest_group": int(assignment.group_sizes.min()),
        "largest_group": int(assignment.group_sizes.max()),
        "seed": seed,
        "buyer": buyer,
        "knowledge": knowledge,
        "dispersion": released.catalogue.dispersion,
        "likelihood_dispersion": None,
        "visit_model": site.facts(),
        "renew_weeks": RENEW_WEEKS,
        "warnings": [*released.warnings, *site.warnings],
    }


def _memory_hours(options: RenewOptions) -> float | None:
    if options.memory_hours is not None:
        return options.memory_hours
    return read_catalogue(options.old / "release").memory_hours


def _renewal_facts(
    options: RenewOptions,
    old: Build,
    population: _Population,
    renewed: Regrouping,
    changed: dict[str, int],
    groups: IntArray,
) -> dict[str, Any]:
    counted = int(np.count_nonzero(population.counted))
    sizes = np.bincount(renewed.assignment.group_of()[population.counted])
    return {
        "renews": old.facts["version"],
        "policy": options.policy.__dict__ | {"renew_weeks": RENEW_WEEKS},
        "joined": renewed.joined,
        "left": renewed.left,
        "moved": renewed.moved,
        "merged_groups": renewed.merged_groups,
        "split_groups": renewed.split_groups,
        "new_groups": renewed.new_groups,
        "counted_people": counted,
        "min_counted_in_group": int(sizes.min()),
        "seen_up_to": from_micros(int(population.last_seen_us.max())).isoformat(),
        "attributes_changed": changed,
        "pair": Crowds.of(groups[:, -2:]).document(),
        "series": Crowds.of(groups).document(),
    }


def _warnings(renewal: dict[str, Any], people: int) -> list[str]:
    series, warnings = renewal["series"], []
    if series["in_small_crowds"]:
        warnings.append(
            f"whoever followed people over {series['versions']} versions singles out "
            f"{series['singled_out']:,} of them and leaves {series['in_small_crowds']:,} in "
            f"crowds of fewer than {SMALL_CROWD}"
        )
    if renewal["counted_people"] < _FEW_SEEN * people:
        warnings.append(
            f"only {renewal['counted_people'] / people:.0%} of people were seen lately: who comes "
            "so seldom is forgotten, and singled out on return; renew less often, with more "
            "--seen-weeks and --forget-weeks"
        )
    if renewal["moved"] > _MANY_MOVED * people:
        warnings.append(
            f"{renewal['moved']:,} people moved, because most groups had too few people seen "
            "lately and were merged; form groups of 1.5 k from the visits of the last weeks, and "
            "name k at the first renewal (--group-size)"
        )
    return warnings
