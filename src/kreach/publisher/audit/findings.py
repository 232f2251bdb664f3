"""The verdicts of an audit."""

from collections.abc import Iterator

from kreach.publisher.audit.report import Audit, Finding, ModelView
from kreach.publisher.audit.visible import visible_findings
from kreach.publisher.grouping.base import FORMED_BY_VISITS
from kreach.publisher.release import Floors
from kreach.publisher.visit_history import MIN_PEOPLE

__all__ = ["findings_of"]

_MAX_UNIQUE_SHARE = 0.01  # of people whom sticky versions single out, without a warning


def findings_of(report: Audit, floors: Floors) -> Iterator[Finding]:
    """The verdicts on a report."""
    yield _size_finding(report)
    if report.strategy in FORMED_BY_VISITS:
        text = "groups were formed by these visits, so effective anonymity is overstated"
        yield Finding("warning", text)
    if report.groups_below_effective_floor:
        yield Finding(
            "danger",
            f"{report.groups_below_effective_floor:,} groups are worth fewer than "
            f"{floors.effective_anonymity:g} equally active people: their id is nearly a name",
        )
    for view in report.diversity:
        if view.homogeneous_people:
            yield Finding(
                "warning",
                f"{view.attribute}: {view.homogeneous_people:,} people are in groups where all "
                "share one value, so the group reveals it",
            )
    exposed = sum(view.exposed_people for view in report.segments)
    if exposed:
        yield Finding(
            "warning",
            f"targeted people below the floor of {floors.min_visible} in their group, over all "
            f"segments: {exposed:,}; such audiences are refused unless they are dropped",
        )
    if report.visit_model is not None:
        yield from _model_findings(report.visit_model)
    yield from _attack_findings(report, floors)
    yield from visible_findings(report.visible, floors, report.group_size)


def _model_findings(model: ModelView) -> Iterator[Finding]:
    if model.unknown_fields:
        names = ", ".join(model.unknown_fields)
        yield Finding("danger", f"the released visit model has fields that no model has: {names}")
    behind = [n for n in (model.min_people_behind_odds, model.min_people_behind_meetings) if n]
    if any(people < MIN_PEOPLE for people in behind):
        text = f"fewer than {MIN_PEOPLE} people are behind a number of the visit model"
        yield Finding("danger", text)
    else:
        rarest = f"at least {min(behind)}" if behind else f"pools of at least {MIN_PEOPLE}"
        yield Finding(
            "ok",
            f"the visit model is {model.numbers:,} numbers about all {model.people:,} people and "
            f"none about a group; {rarest} people are behind the rarest",
        )


def _size_finding(report: Audit) -> Finding:
    if report.group_size == 1:
        return Finding("danger", "group_size is 1: this is no anonymity")
    smallest = int(report.sizes.least)
    return Finding(
        "ok", f"every group has at least {smallest} members (promised: {report.group_size})"
    )


def _attack_findings(report: Audit, floors: Floors) -> Iterator[Finding]:
    for link in report.linkage:
        if link.method == "sticky":
            share, anew = link.unique_share[-1], report.linkage[0].unique_share[-1]
            yield Finding(
                "ok" if share < _MAX_UNIQUE_SHARE else "warning",
                f"after {link.versions[-1]} sticky versions {share:.2%} of people are singled "
                f"out; formed anew each time, {anew:.1%} would be",
            )
    intersection = report.intersection
    if intersection.people_in_small_classes:
        yield Finding(
            "danger",
            f"{intersection.people_in_small_classes:,} people are in combinations of groups "
            f"held by fewer than {floors.membership_class}",
        )
    if intersection.people_in_small_differences:
        yield Finding(
            "warning",
            "people isolated by subtracting an audience from its complement: "
            f"{intersection.people_in_small_differences:,} ({intersection.small_differences} of "
            f"{intersection.compared_pairs} segments); do not sell both to one buyer",
        )
