"""The next version of a build from new visits: people leave and join, groups stay.

The policy is what held in a year of weekly visits (docs/renewal.md):

* renew every four weeks;
* newcomers stay in the group that the gateway named for them while they were unknown;
* whoever was not seen for 26 weeks leaves; until then they keep their group, should they return;
* only people seen in the last four weeks count, and every group has at least 1.25 k of them, so
  that k are left when the next version comes. Form groups with 1.5 k, or most are merged at once.

Floors are those of the old build. Groups that break a diversity floor are merged with others, or
the renewal is refused. Ids are new: the key and the version are, so audiences must be declared
again. What a person who is followed over all versions gives
away is counted (`lineage.py`) and stated.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from kreach.boundary.checks import as_whole_number
from kreach.boundary.files import read_catalogue
from kreach.boundary.times import from_micros
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.audience_file import declared_audiences
from kreach.publisher.build_facts import formation_facts, group_facts, seed_or_drawn
from kreach.publisher.columns import pooling_warnings
from kreach.publisher.directory import Directory, Visits
from kreach.publisher.diverse_merging import DiverseMerging
from kreach.publisher.grouping import Assignment, AtRandom
from kreach.publisher.grouping.base import FORMED_BY_VISITS
from kreach.publisher.grouping.named import NamedStrategy
from kreach.publisher.lineage import SMALL_CROWD, Crowds
from kreach.publisher.people import Attribute, People
from kreach.publisher.regrouping import RENEW_WEEKS, Regrouping, regroup
from kreach.publisher.release import Floors, Release, new_key, release
from kreach.publisher.renewed_people import (
    LAST_SEEN,
    PAST,
    Population,
    RenewalPolicy,
    named_groups,
    past_groups,
    people_of,
    population_of,
)
from kreach.publisher.seeds import fitting_seed
from kreach.publisher.site_model import SiteModel, fit_site_model
from kreach.publisher.store import (
    Build,
    check_folder,
    read_build,
    write_build,
)

__all__ = ["RenewOptions", "renew_groups"]

_MANY_MOVED = 0.1  # of all people
_FEW_SEEN = 0.4  # of all people
_MAX_PAST = 52  # versions whose groups are remembered


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
    effective_anonymity: float | None = None  # floors, as in `Floors`
    min_visible: int | None = None
    policy: RenewalPolicy = field(default_factory=RenewalPolicy)
    seed: int | None = None  # drawn unless given


@dataclass(frozen=True, eq=False)
class _Next:
    """The next version, people in the order of their ids, which does not tell who is new."""

    user_ids: list[str]
    people: People
    assignment: Assignment
    past: IntArray  # groups in earlier versions
    last_seen_us: IntArray
    new_row: IntArray  # in the directory; −1 for none


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
    floors, formed_by = _floors(options, old), NamedStrategy.of_facts(old.facts)
    seed, origin = seed_or_drawn(options.seed)
    progress("reading visits")
    directory = Directory(options.visits, options.users)
    population = population_of(options.policy, old, directory, options.history_end)
    renewed = people_of(old, directory, population, formed_by, options.history_end)
    people = renewed.people
    progress(f"renewing the groups of {people.count:,} people")
    named = named_groups(old, population)
    regrouping, without_floors = _regrouped(
        options.policy, old, population, people, named, formed_by, seed
    )
    past = past_groups(old, population, named)
    renewal = _renewal_facts(options, old, population, regrouping, renewed.changed, past)
    following = _in_id_order(population, people, regrouping, past)
    knowledge = options.knowledge or str(old.facts.get("knowledge", "model"))
    site = SiteModel(None, None, ())
    if knowledge == "model":
        site = _site_model(options.history_end, directory, following, fitting_seed(seed), progress)
    progress("checking and releasing")
    key, buyer = new_key(), options.buyer or str(old.facts.get("buyer", "default"))
    released = release(
        following.people,
        following.assignment,
        key=key,
        buyer=buyer,
        version=version,
        now=now,
        knowledge=knowledge,
        model=site.model,
        floors=floors,
        memory_hours=_memory_hours(options),
    )
    facts = group_facts(following.people, following.assignment, released, formed_by, site)
    facts |= formation_facts(
        people, regrouping.assignment, formed_by, without_floors.assignment, directory
    )
    facts |= {"seed": seed, "seed_origin": origin, "pooled": renewed.pooled}
    facts |= {"buyer": buyer, "knowledge": knowledge, "renewal": renewal}
    facts["warnings"] += pooling_warnings(renewed.pooled, old.assignment.group_size)
    facts["warnings"] += _warnings(renewal, people.count)
    progress("writing")
    _write(options.out, following, released, key, facts)
    return facts


def _floors(options: RenewOptions, old: Build) -> Floors:
    """The floors of the old build, unless others are named."""
    floors = Floors.of_facts(old.facts)
    if options.effective_anonymity is not None:
        floors = replace(floors, effective_anonymity=options.effective_anonymity)
    return (
        floors if options.min_visible is None else replace(floors, min_visible=options.min_visible)
    )


def _regrouped(
    policy: RenewalPolicy,
    old: Build,
    population: Population,
    people: People,
    named: IntArray,
    formed_by: NamedStrategy,
    seed: int,
) -> tuple[Regrouping, Regrouping]:
    """The next groups, and what they would be without diversity floors."""

    def regrouped(diverse: DiverseMerging | None) -> Regrouping:
        return regroup(
            old.assignment,
            population.stays,
            len(named),
            seed,
            counted=population.counted,
            named=named if policy.newcomers == "named" else None,
            cells=_cells(old, people, formed_by),
            repair_below=int(np.ceil(policy.room * old.assignment.group_size)),
            diverse=diverse,
        )

    plain = regrouped(None)
    if not formed_by.sensitive:
        return plain, plain
    return regrouped(DiverseMerging(people, formed_by.sensitive, formed_by.diversity)), plain


def _in_id_order(
    population: Population, people: People, renewed: Regrouping, past: IntArray
) -> _Next:
    order = np.argsort(np.array(population.user_ids, dtype=object))
    assignment = renewed.assignment
    attributes = {
        name: Attribute(attribute.codes[order], attribute.labels)
        for name, attribute in people.attributes.items()
    }
    return _Next(
        [population.user_ids[row] for row in order.tolist()],
        People(people.visits[order], attributes),
        Assignment(assignment.groups[order], assignment.group_size, assignment.strategy),
        past[order],
        population.last_seen_us[order],
        population.new_row[order],
    )


def _write(
    out: Path, following: _Next, released: Release, key: bytes, facts: dict[str, Any]
) -> None:
    kept = following.past[:, -_MAX_PAST:]
    columns = {LAST_SEEN: following.last_seen_us}
    columns |= {f"{PAST}{at:03}": np.ascontiguousarray(kept[:, at]) for at in range(kept.shape[1])}
    people, assignment = following.people, following.assignment
    write_build(out, following.user_ids, people, assignment, released, key, facts, columns)


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


def _cells(old: Build, people: People, formed_by: NamedStrategy) -> IntArray | None:
    """The targeting segments that the old groups were formed along."""
    if not old.assignment.strategy.startswith("segments") or not formed_by.segments:
        return None
    _, cells = np.unique(people.codes(formed_by.segments), axis=0, return_inverse=True)
    return cells.reshape(-1).astype(np.int64)


def _site_model(
    end: datetime | None,
    directory: Directory,
    following: _Next,
    seed: int,
    progress: Callable[[str], None],
) -> SiteModel:
    """The visit model in the renewed groups. New visits did not form them, so no cross-fitting.

    Where the first groups were formed by visits, the file may hold those too: only its later half
    is used.
    """
    visits = directory.visits(end=end)
    index = np.full(directory.user_count, -1, dtype=np.int64)
    in_new = following.new_row >= 0
    index[following.new_row[in_new]] = np.flatnonzero(in_new)
    user = index[visits.user]
    mine = user >= 0
    if following.assignment.strategy in FORMED_BY_VISITS:
        mine &= visits.at_us >= np.median(visits.at_us)
    used = Visits(user[mine], visits.at_us[mine])
    return fit_site_model(used, following.people, following.assignment, AtRandom(), seed, progress)


def _memory_hours(options: RenewOptions) -> float | None:
    if options.memory_hours is not None:
        return options.memory_hours
    return read_catalogue(options.old / "release").memory_hours


def _renewal_facts(
    options: RenewOptions,
    old: Build,
    population: Population,
    renewed: Regrouping,
    changed: dict[str, int],
    past: IntArray,
) -> dict[str, Any]:
    counted = int(np.count_nonzero(population.counted))
    groups = np.concatenate([past, renewed.assignment.groups], axis=1)
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
        "diversity_merges": renewed.diversity_merges,
        "counted_people": counted,
        "min_counted_in_group": int(sizes.min()),
        "seen_up_to": from_micros(int(population.last_seen_us.max())).isoformat(),
        "attributes_changed": changed,
        "declare_again": [str(one["audience"]) for one in declared_audiences(old.folder)],
        "first": _first_version(old),
        "pair": Crowds.of(groups[:, -2:]).document(),
        "series": Crowds.of(groups).document(),
    }


def _first_version(old: Build) -> dict[str, Any]:
    """The build that all renewals go back to, and how safe its seed was.

    The groups of this version are largely its groups, and whoever has its seed can form those.
    """
    first: dict[str, Any] | None = old.facts.get("renewal", {}).get("first")
    if "renewal" in old.facts:
        return first or {"version": None, "seed_origin": "unknown", "seed_bits": 0}
    seed = old.facts.get("seed")
    return {
        "version": old.facts["version"],
        "seed_origin": old.facts.get("seed_origin", "unknown" if seed is None else "given"),
        "seed_bits": seed.bit_length() if isinstance(seed, int) else 0,
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
