"""The outcome of every check of an audit."""

from collections.abc import Iterator

from kreach.publisher.audit.attacks import STICKY
from kreach.publisher.audit.columns import COMMON_SHARE
from kreach.publisher.audit.report import (
    Audit,
    ColumnView,
    Finding,
    FirstSeed,
    ModelView,
    SeedView,
)
from kreach.publisher.audit.visible import visible_findings
from kreach.publisher.grouping.base import FORMED_BY_VISITS
from kreach.publisher.grouping.diversity import DiversityFloors
from kreach.publisher.lineage import SMALL_CROWD, Crowds
from kreach.publisher.release import Floors
from kreach.publisher.seeds import GUESSABLE_BITS
from kreach.publisher.visit_history import MIN_PEOPLE

__all__ = ["findings_of"]

_MAX_UNIQUE_SHARE = 0.01  # of people whom sticky versions single out, without a warning
_BY_CHANCE = ("random", "segments")  # strategies whose groups no one can form without the seed


def findings_of(report: Audit, floors: Floors) -> Iterator[Finding]:
    """The outcomes, check by check."""
    yield _size_finding(report)
    yield from _effective_findings(report, floors)
    yield from _column_findings(report)
    yield from _segment_findings(report)
    yield from visible_findings(report.visible, floors, report.group_size)
    if report.visit_model is not None:
        yield from _model_findings(report.visit_model)
    yield from _linkage_findings(report)
    if report.past is not None:
        yield _past_finding(report.past, report.people)
    yield from _intersection_findings(report, floors)
    if report.seed is not None:
        if report.seed.first is not None:
            yield _first_seed_finding(report.seed, report.seed.first, report.strategy)
        yield from _seed_findings(report.seed)


def _size_finding(report: Audit) -> Finding:
    check, smallest = "group size", int(report.sizes.least)
    number, floor = f"{smallest} people", f"at least {report.group_size}"
    if report.group_size == 1:
        return Finding("danger", "group_size is 1: this is no anonymity", check, number, floor)
    text = f"every group has at least {smallest} members (promised: {report.group_size})"
    return Finding("ok", text, check, number, floor)


def _effective_findings(report: Audit, floors: Floors) -> Iterator[Finding]:
    check, floor = "effective anonymity", f"at least {floors.effective_anonymity:g}"
    if report.strategy in FORMED_BY_VISITS:
        text = "groups were formed by these visits, so effective anonymity is overstated"
        if report.past is not None:
            text = "if these visits formed the first groups too, effective anonymity is overstated"
        yield Finding("warning", text, check)
    if report.effective is None:
        return
    number = f"{report.effective.least:.2f} people"
    if report.groups_below_effective_floor:
        yield Finding(
            "danger",
            f"{report.groups_below_effective_floor:,} groups are worth fewer than "
            f"{floors.effective_anonymity:g} equally active people: their id is nearly a name",
            check,
            number,
            floor,
        )
    else:
        text = "no group is nearly one active person"
        yield Finding("ok", text, check, number, floor)


def _column_findings(report: Audit) -> Iterator[Finding]:
    if not report.columns:
        yield Finding(
            "warning",
            "no column was kept, so nothing is known of what groups reveal about their members: "
            "build again with --sensitive, --segments or --keep",
            "homogeneity",
            "not examined",
        )
    for view in report.columns:
        if view.identifying:
            yield Finding(
                "danger",
                f"{view.name} identifies people: {view.nearly_alone:,} share its value with at "
                "most one other person; leave the column out or use coarser values",
                f"identifying values: {view.name}",
                f"{view.nearly_alone / report.people:.0%} of people",
                "at most 50%",
            )
        yield from _homogeneity(view, report.diversity_floors)


def _homogeneity(view: ColumnView, floors: DiversityFloors | None) -> Iterator[Finding]:
    """Groups in which everybody has one value, and groups below the floors of the build."""
    check = f"homogeneity: {view.name}"
    number = f"l = {view.min_distinct}, entropy l = {view.min_entropy_l:.2f}, t = {view.max_t:.2f}"
    floor = "l ≥ 2"
    if floors is not None and view.role == "sensitive":
        floor = f"l ≥ {floors.min_l}, entropy l ≥ {floors.min_entropy_l:g}, t ≤ {floors.max_t:g}"
    revealed = (
        f"{view.name}: {view.revealed_people:,} people are in groups where all share one value, so "
        "the group reveals it"
    )
    if view.groups_below_floors:
        text = f"{view.name}: {view.groups_below_floors:,} groups break the diversity floors"
        yield Finding("danger", text, check, number, floor)
    elif view.revealed_people and view.role == "formed along":
        text = f"{revealed}. Groups were formed along it, and it is not declared sensitive"
        yield Finding("warning", text, check, number)
    elif view.revealed_people and view.role == "targeting":
        text = f"{revealed}. Campaigns may target it, and it is not declared sensitive"
        yield Finding("warning", text, check, number)
    elif view.revealed_people:
        yield Finding("danger", revealed, check, number, floor)
    elif view.homogeneous_people and view.values > 1:
        yield Finding(
            "warning",
            f"{view.name}: {view.homogeneous_people:,} people are in groups where all share one "
            f"value; at least {COMMON_SHARE:.0%} of all people have it, so it is hardly news. "
            "Build with --sensitive if it must not be known",
            check,
            number,
        )
    else:
        text = f"{view.name}: no group reveals the value of its members"
        yield Finding("ok", text, check, number, "" if view.values == 1 else floor)


def _segment_findings(report: Audit) -> Iterator[Finding]:
    for view in report.columns:
        if view.targeted and view.small_values:
            yield Finding(
                "danger",
                f"{view.name}: {view.small_values:,} segments have fewer than "
                f"{report.group_size} people ({view.people_in_small_values:,} people), so an "
                "audience could be a few known people; build with --segments to pool them",
                f"small segments: {view.name}",
                f"{view.small_values:,} segments",
                f"{report.group_size} people each",
            )


def _model_findings(model: ModelView) -> Iterator[Finding]:
    check, floor = "visit model", f"{MIN_PEOPLE} people"
    if model.unknown_fields:
        names = ", ".join(model.unknown_fields)
        text = f"the released visit model has fields that no model has: {names}"
        yield Finding("danger", text, check)
    behind = [n for n in (model.min_people_behind_odds, model.min_people_behind_meetings) if n]
    number = f"{min(behind, default=MIN_PEOPLE):,} people"
    if any(people < MIN_PEOPLE for people in behind):
        text = f"fewer than {MIN_PEOPLE} people are behind a number of the visit model"
        yield Finding("danger", text, check, number, floor)
    else:
        rarest = f"at least {min(behind)}" if behind else f"pools of at least {MIN_PEOPLE}"
        yield Finding(
            "ok",
            f"the visit model is {model.numbers:,} numbers about all {model.people:,} people and "
            f"none about a group; {rarest} people are behind the rarest",
            check,
            number,
            floor,
        )


def _linkage_findings(report: Audit) -> Iterator[Finding]:
    for link in report.linkage:
        if link.method == STICKY:
            share, anew = link.unique_share[-1], report.linkage[0].unique_share[-1]
            yield Finding(
                "ok" if share < _MAX_UNIQUE_SHARE else "warning",
                f"after {link.versions[-1]} sticky versions, renewed as `kreach groups renew` "
                f"does, {share:.2%} of people are singled out and {link.small_share[-1]:.2%} are "
                f"in crowds of fewer than {SMALL_CROWD}; formed anew each time, {anew:.1%} would "
                "be singled out",
                "linkage over time",
                f"{share:.2%} of people",
                f"below {_MAX_UNIQUE_SHARE:.0%}",
            )


def _past_finding(past: Crowds, people: int) -> Finding:
    """Linkage over the versions that were released: counted, not simulated."""
    share = past.singled_out / max(people, 1)
    small = past.in_small_crowds / max(people, 1)
    level = "warning" if past.singled_out or small >= _MAX_UNIQUE_SHARE else "ok"
    return Finding(
        "danger" if share >= _MAX_UNIQUE_SHARE else level,
        f"whoever saw everybody's group in {past.versions} versions, this one included, singles "
        f"out {past.singled_out:,} people and leaves {past.in_small_crowds:,} in crowds of fewer "
        f"than {SMALL_CROWD} (the smallest: {past.smallest:,})",
        "linkage over past versions",
        f"{share:.2%} of people",
        f"below {_MAX_UNIQUE_SHARE:.0%}",
    )


def _intersection_findings(report: Audit, floors: Floors) -> Iterator[Finding]:
    intersection = report.intersection
    if intersection.classes is not None:
        small = intersection.people_in_small_classes
        yield Finding(
            "danger" if small else "ok",
            f"{small:,} people are in combinations of groups held by fewer than "
            f"{floors.membership_class}",
            "intersection of groups",
            f"{intersection.classes.least:,.0f} people",
            f"at least {floors.membership_class}",
        )
    if intersection.people_in_small_differences:
        yield Finding(
            "warning",
            "people isolated by subtracting an audience from its complement: "
            f"{intersection.people_in_small_differences:,} ({intersection.small_differences} of "
            f"{intersection.compared_pairs} segments); do not sell both to one buyer",
            "intersection of audiences",
            f"{intersection.people_in_small_differences:,} people",
            "none",
        )
    elif intersection.compared_pairs:
        text = f"no segment of {intersection.compared_pairs} isolates people by subtraction"
        yield Finding("ok", text, "intersection of audiences", "0 people", "none")


def _first_seed_finding(seed: SeedView, first: FirstSeed, strategy: str) -> Finding:
    """Whether somebody else can form the groups that a renewed build goes back to."""
    check, floor = "seed of the first version", f"secret, {GUESSABLE_BITS} bits or more"
    number = f"{first.bits} bits, {first.origin}"
    basis = "renewed groups follow from those of the first version, so no seed was tried; "
    again = "whoever has its visits can form the groups of everybody who stayed"
    if first.origin == "given" and first.bits < GUESSABLE_BITS:
        text = f"{basis}its seed was given and has {first.bits} bits: {again}"
        return Finding("danger", text, check, number, floor)
    if first.origin == "given":
        text = f"{basis}its seed was given, so somebody knows it: {again} with it"
        return Finding("warning", text, check, number, floor)
    if first.origin != "drawn":
        text = f"{basis}its seed is not recorded: audit the first version"
        return Finding("warning", text, check, "unknown", floor)
    if strategy not in _BY_CHANCE:
        text = f"{basis}its groups may follow from visits and columns alone: audit it"
        return Finding("warning", text, check, "any seed", floor)
    return Finding("ok", f"{basis}its seed was drawn at random", check, number, floor)


def _seed_findings(seed: SeedView) -> Iterator[Finding]:
    """Whether the groups can be formed again by somebody else."""
    check, floor = "seed", f"secret, {GUESSABLE_BITS} bits or more"
    again = "whoever has the visits can form these groups again; build without --seed"
    number = f"{seed.bits} bits, {seed.origin}"
    if seed.released:
        text = "the seed of the groups stands in the release"
        yield Finding("danger", f"{text}: {again}", check, "in the release", floor)
    if seed.first is not None:
        pass  # nothing was tried: the seed of the first version counts
    elif not seed.by_chance:
        text = "these groups follow from visits and columns alone: whoever has both can form them"
        yield Finding("warning", text, check, "any seed", floor)
    elif seed.guessed:
        text = f"of {seed.tried} obvious seeds one gives exactly these groups"
        yield Finding("danger", f"{text}: {again}", check, "guessed", floor)
    elif seed.reproduced and seed.bits < GUESSABLE_BITS:
        text = f"the seed has {seed.bits} bits and can be found by trying"
        yield Finding("danger", f"{text}: {again}", check, number, floor)
    elif seed.origin == "given":
        text = "the seed was given to the build, so somebody knows it"
        yield Finding("warning", f"{text}: {again}", check, number, floor)
    elif seed.origin == "unknown":
        text = f"the build does not record its seed; none of {seed.tried} obvious ones fits"
        yield Finding("warning", text, check, "unknown", floor)
    elif not seed.released:
        text = f"the seed was drawn at random; none of {seed.tried} obvious ones gives these groups"
        yield Finding("ok", text, check, number, floor)
    if seed.readable:
        text = "other accounts of this machine may read the publisher's half: chmod 700 it"
        yield Finding("warning", text, "publisher's half")
