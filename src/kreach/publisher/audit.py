"""What an attacker could learn from a release, measured on the publisher's own data.

Some of it is counted (sizes, effective anonymity, classes, diversity, coverage, small audiences),
some is attacked for real: *linkage over time*, an observer who sees a person's group in every
version, and *intersection*, one who compares overlapping groups or the audiences of campaigns.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kreach.boundary.checks import as_whole_number
from kreach.errors import KreachError
from kreach.numeric.types import BoolArray, FloatArray, IntArray
from kreach.publisher.grouping.base import Assignment, form_groups
from kreach.publisher.grouping.random import AtRandom
from kreach.publisher.people import People
from kreach.publisher.regrouping import regroup
from kreach.publisher.release import Floors
from kreach.publisher.visit_knowledge import (
    effective_anonymity,
    match_pseudo_visits,
    shrunk_shares,
)

__all__ = ["FORMED_BY_VISITS", "Audit", "Finding", "audit", "coverage", "linkage"]

VERSIONS = (1, 2, 4, 8)
FORMED_BY_VISITS = ("rates", "segments+rates")  # strategies that look at visits
_REPLACED = 0.8  # of those who leave; a shrinking population breaks groups and forces moves


@dataclass(frozen=True)
class Finding:
    """One verdict: `level` is "ok", "warning" or "danger", `text` says what and why."""

    level: str
    text: str


@dataclass(frozen=True)
class Spread:
    """The least, the lowest twentieth, the median and the mean of some numbers."""

    least: float
    p05: float
    median: float
    mean: float

    @staticmethod
    def of(values: FloatArray | IntArray) -> "Spread":
        if len(values) == 0:
            return Spread(0.0, 0.0, 0.0, 0.0)
        low, p05, median = np.quantile(values, [0.0, 0.05, 0.5]).tolist()
        return Spread(low, p05, median, float(np.mean(values)))


@dataclass(frozen=True)
class Diversity:
    """l-diversity of a sensitive attribute: distinct values, and equally likely ones (exp entropy).

    `betrayed` people are in a group where everybody has the same value: the group gives it away.
    """

    attribute: str
    min_distinct: int
    min_effective: float
    betrayed_people: int


@dataclass(frozen=True)
class SegmentView:
    """How a targeting segment lies in the groups.

    `coverage`: targeted members / members of groups that hold any. `exposed_people`: targeted
    people who are fewer than the floor in their group, so that an audience would point at them.
    """

    segment: str
    people: int
    coverage: float
    exposed_people: int


@dataclass(frozen=True)
class Linkage:
    """Share of people whose sequence of group ids is theirs alone after so many versions."""

    method: str
    versions: tuple[int, ...]
    unique_share: tuple[float, ...]
    min_crowd: tuple[int, ...]  # people with the same sequence, for the least lucky person
    median_crowd: tuple[float, ...]  # and for the median person
    moved_share: float  # of people, per version


@dataclass(frozen=True)
class Intersection:
    """What comparing groups or audiences isolates.

    `classes`: people by combination of groups, for overlapping groups. `small_differences`: pairs
    of segments whose head-counts in some group differ by fewer than the floor, and the people in
    such differences.
    """

    classes: Spread | None
    people_in_small_classes: int
    compared_pairs: int
    small_differences: int
    people_in_small_differences: int


@dataclass(frozen=True)
class Audit:
    """A full report; `document()` is its JSON form."""

    people: int
    groups: int
    group_size: int
    strategy: str
    sizes: Spread
    effective: Spread | None
    groups_below_effective_floor: int
    diversity: tuple[Diversity, ...]
    segments: tuple[SegmentView, ...]
    linkage: tuple[Linkage, ...]
    intersection: Intersection
    findings: tuple[Finding, ...]

    def document(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @property
    def safe(self) -> bool:
        """No finding is a danger."""
        return all(finding.level != "danger" for finding in self.findings)


def audit(
    people: People,
    assignment: Assignment,
    *,
    sensitive: tuple[str, ...] = (),
    segments: tuple[str, ...] = (),
    floors: Floors | None = None,
    churn: float = 0.05,
    seed: int = 0,
) -> Audit:
    """Examine an assignment. `churn` is the share of people who leave from version to version."""
    floors = floors or Floors()
    if not 0.0 <= churn < 1.0:
        raise KreachError.rule("churn", "lie between 0 and 1", churn)
    seed = as_whole_number("seed", seed, minimum=0)
    effective, low = _effective(people, assignment, floors)
    layer = assignment.groups[:, 0]
    views = tuple(_segment_views(people, assignment, segments, floors))
    diversity = tuple(_diversity(people, layer, name) for name in sensitive)
    linked = _linkage(assignment, churn, seed)
    crossing = _intersection(people, assignment, segments, floors)
    result = Audit(
        people.count,
        assignment.group_count,
        assignment.group_size,
        assignment.strategy,
        Spread.of(assignment.group_sizes),
        effective,
        low,
        diversity,
        views,
        linked,
        crossing,
        (),
    )
    return Audit(**{**result.__dict__, "findings": tuple(_findings(result, floors))})


def _effective(people: People, assignment: Assignment, floors: Floors) -> tuple[Spread | None, int]:
    if assignment.overlapping or people.visits.sum() == 0:
        return None, 0
    group_of = assignment.group_of()
    pseudo = match_pseudo_visits(people.visits, group_of)
    worth = effective_anonymity(shrunk_shares(people.visits, group_of, pseudo), group_of)
    low = int(np.count_nonzero(worth < floors.effective_anonymity))
    return Spread.of(worth), low


def _diversity(people: People, group_of: IntArray, name: str) -> Diversity:
    attribute = people.attribute(name)
    values = len(attribute.labels)
    cell, count = np.unique(group_of * values + attribute.codes, return_counts=True)
    group = cell // values
    distinct = np.bincount(group)
    sizes = np.bincount(group, weights=count)
    share = count / sizes[group]
    entropy = np.bincount(group, weights=-share * np.log(share))
    betrayed = int(sizes[distinct == 1].sum())
    return Diversity(name, int(distinct.min()), float(np.exp(entropy.min())), betrayed)


def coverage(group_of: IntArray, targeted: IntArray) -> float:
    """Targeted members / members of groups that hold any; 1 where nobody is targeted."""
    sizes = np.bincount(group_of)
    counts = np.bincount(group_of, weights=targeted, minlength=len(sizes))
    held = sizes[counts > 0].sum()
    return float(counts.sum() / held) if held else 1.0


def _segment_views(
    people: People, assignment: Assignment, segments: tuple[str, ...], floors: Floors
) -> list[SegmentView]:
    """One view per value of each targeting attribute that at least k people have."""
    views = []
    group_of = assignment.groups[:, 0]
    floor = min(floors.targeted, assignment.group_size)
    for name in segments:
        attribute = people.attribute(name)
        for code, label in enumerate(attribute.labels):
            targeted = (attribute.codes == code).astype(np.int64)
            if targeted.sum() < assignment.group_size:
                continue
            counts = np.bincount(group_of, weights=targeted)
            exposed = int(counts[(counts > 0) & (counts < floor)].sum())
            views.append(
                SegmentView(
                    f"{name}={label}", int(targeted.sum()), coverage(group_of, targeted), exposed
                )
            )
    return views


def linkage(sequences: IntArray) -> list[tuple[float, int, float]]:
    """For each number of versions seen: share of unique sequences, least and median crowd.

    `sequences` holds the group of each person (row) in each version (column).
    """
    result = []
    crowd_of = np.zeros(len(sequences), dtype=np.int64)
    for column in sequences.T:
        _, crowd_of = np.unique(
            crowd_of * (int(column.max(initial=0)) + 1) + column, return_inverse=True
        )
        crowd = np.bincount(crowd_of)[crowd_of]
        least = int(crowd.min(initial=len(sequences)))
        unique = np.count_nonzero(crowd == 1) / max(len(crowd), 1)
        result.append((float(unique), least, float(np.median(crowd)) if len(crowd) else 0.0))
    return result


def _linkage(assignment: Assignment, churn: float, seed: int) -> tuple[Linkage, ...]:
    """Eight versions with people leaving and joining: groups formed anew each time, and kept."""
    if assignment.overlapping:
        return ()
    last = VERSIONS[-1]
    generator = np.random.default_rng(seed)
    count = len(assignment.groups)
    anew, kept = [assignment.group_of()], [assignment.group_of()]
    person = np.arange(count)  # who stands at each row of the sticky assignment, −1 if joined
    current, moved = assignment, 0
    k = assignment.group_size
    for _ in range(1, last):
        stays = generator.random(len(current.groups)) >= churn
        joining = round(_REPLACED * np.count_nonzero(~stays))
        if np.count_nonzero(stays) + joining < k:
            break  # too few people are left to go on
        renewed = regroup(current, stays, joining, seed=int(generator.integers(2**31)))
        person = np.concatenate([person[stays], np.full(renewed.joined, -1)])
        current, moved = renewed.assignment, moved + renewed.moved
        groups = np.full(count, -1)
        groups[person[person >= 0]] = current.group_of()[person >= 0]
        kept.append(groups)
        # formed anew: the same people, shuffled afresh (the paper's random groups)
        fresh = People(np.zeros(count, dtype=np.int64))
        anew.append(form_groups(fresh, k, AtRandom(), int(generator.integers(2**31))).group_of())
    moved_share = moved / max(count * (len(kept) - 1), 1)
    present = np.cumprod(np.stack(kept, axis=1) >= 0, axis=1).astype(np.bool_)
    return tuple(
        _linked(method, np.stack(columns, axis=1), present, share)
        for method, columns, share in (
            ("formed anew each version", anew, 1.0),
            ("sticky", kept, moved_share),
        )
    )


def _linked(method: str, sequences: IntArray, present: BoolArray, moved_share: float) -> Linkage:
    """The attack after each number of versions, among people who were there in all of them."""
    versions = tuple(v for v in VERSIONS if v <= sequences.shape[1])
    seen = [linkage(sequences[present[:, v - 1], :v])[-1] for v in versions]
    unique, least, median = zip(*seen, strict=True)
    return Linkage(method, versions, unique, least, median, moved_share)


def _intersection(
    people: People, assignment: Assignment, segments: tuple[str, ...], floors: Floors
) -> Intersection:
    classes, in_small = None, 0
    if assignment.overlapping:
        _, headcount = np.unique(assignment.groups, axis=0, return_counts=True)
        classes = Spread.of(headcount)
        in_small = int(headcount[headcount < floors.membership_class].sum())
    pairs = small_pairs = people_in = 0
    floor = min(floors.targeted, assignment.group_size)
    group_of = assignment.groups[:, 0]
    sizes = np.bincount(group_of)
    for name in segments:
        attribute = people.attribute(name)
        for code in range(len(attribute.labels)):
            # a buyer of "everybody" and of "all but this segment" can subtract the two
            counts = np.bincount(group_of, weights=attribute.codes == code, minlength=len(sizes))
            shown = counts >= floor
            rest = sizes - counts
            hidden = shown & (rest > 0) & (rest < floor)
            pairs += 1
            small_pairs += bool(hidden.any())
            people_in += int(rest[hidden].sum())
    return Intersection(classes, in_small, pairs, small_pairs, people_in)


def _findings(report: Audit, floors: Floors) -> list[Finding]:
    found = [_size_finding(report)]
    if report.strategy in FORMED_BY_VISITS:
        text = "groups were formed by these visits, so the equally active people are overstated"
        found.append(Finding("warning", text))
    if report.groups_below_effective_floor:
        found.append(
            Finding(
                "danger",
                f"{report.groups_below_effective_floor:,} groups are worth fewer than "
                f"{floors.effective_anonymity:g} equally active people: their id is nearly a name",
            )
        )
    found.extend(
        Finding(
            "warning",
            f"{view.attribute}: {view.betrayed_people:,} people are in groups where all share one "
            "value, so the group gives it away",
        )
        for view in report.diversity
        if view.betrayed_people
    )
    exposed = sum(view.exposed_people for view in report.segments)
    if exposed:
        found.append(
            Finding(
                "warning",
                f"targeted people below the floor of {floors.targeted} in their group, over all "
                f"segments: {exposed:,}; such audiences are refused, or leave them out if so asked",
            )
        )
    found.extend(_attack_findings(report, floors))
    return found


def _size_finding(report: Audit) -> Finding:
    if report.group_size == 1:
        return Finding("danger", "group_size is 1: this is no anonymity")
    least = int(report.sizes.least)
    return Finding(
        "ok", f"every group has at least {least} members (promised: {report.group_size})"
    )


def _attack_findings(report: Audit, floors: Floors) -> list[Finding]:
    found = []
    for link in report.linkage:
        if link.method == "sticky":
            share, anew = link.unique_share[-1], report.linkage[0].unique_share[-1]
            level = "ok" if share < 0.01 else "warning"
            found.append(
                Finding(
                    level,
                    f"after {link.versions[-1]} sticky versions {share:.2%} of people are singled "
                    f"out; formed anew each time, {anew:.1%} would be",
                )
            )
    crossing = report.intersection
    if crossing.people_in_small_classes:
        found.append(
            Finding(
                "danger",
                f"{crossing.people_in_small_classes:,} people are in combinations of groups "
                f"held by fewer than {floors.membership_class}",
            )
        )
    if crossing.people_in_small_differences:
        found.append(
            Finding(
                "warning",
                "people isolated by subtracting an audience from its complement: "
                f"{crossing.people_in_small_differences:,} ({crossing.small_differences} of "
                f"{crossing.compared_pairs} segments); do not sell both to one buyer",
            )
        )
    return found
