"""Attack: guess who a visitor is, among the people whom a campaign on an audience can see.

Looked at are everyone, each value of the targeting columns, and the audiences that were declared
on the build (`kreach groups audience`). The definitions are in `publisher/visible.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from kreach.publisher.audit.report import Finding, VisibleView
from kreach.publisher.columns import OTHER
from kreach.publisher.grouping.base import Assignment
from kreach.publisher.people import People, label_text
from kreach.publisher.release import Floors
from kreach.publisher.visible import VisibleMembers, VisibleSummary

__all__ = ["EVERYONE", "visible_findings", "visible_rows", "visible_views"]

EVERYONE = "everyone"
_MAX_VALUES = 100  # of a column, the most exposed ones
_MAX_SHARE = 0.5  # of an audience in groups below the floors, without a danger


def visible_views(
    people: People,
    assignment: Assignment,
    segments: Sequence[str],
    floors: Floors,
    declared: Sequence[Mapping[str, Any]] = (),
) -> tuple[VisibleView, ...]:
    """Everyone, the values of targeting columns, and declared audiences; not if groups overlap."""
    if assignment.overlapping:
        return ()
    at = floors.visible(assignment.group_size)
    members = VisibleMembers(people.visits, assignment.group_of())
    everyone = members.of(np.ones(people.count, dtype=np.bool_)).summary(*at)
    views = [VisibleView(EVERYONE, EVERYONE, 1, everyone)]
    for name in segments:
        known, rare = [], []
        for label, audience in members.by_value(people.attribute(name)):
            if label == OTHER:
                continue  # values that the build pooled: no audience
            seen = audience.summary(*at)
            if seen.people < assignment.group_size:
                rare.append(seen)
            else:
                known.append(VisibleView(f"{name}={label_text(label)}", "segment", 1, seen))
        known.sort(key=lambda view: -view.seen.people_in_small_groups)
        views += sorted(known[:_MAX_VALUES], key=lambda view: view.audience)
        if rare:
            views.append(VisibleView(f"{name}: rare values", "rare", len(rare), _together(rare)))
    return (*views, *map(_declared, declared))


def _declared(record: Mapping[str, Any]) -> VisibleView:
    names = [field.name for field in fields(VisibleSummary)]
    seen = VisibleSummary(**{name: record["visible"][name] for name in names})
    return VisibleView(str(record["audience"]), "declared", 1, seen)


def _together(rare: list[VisibleSummary]) -> VisibleSummary:
    """Sums of people, and the other numbers of the most exposed."""
    worst = max(rare, key=lambda seen: (seen.worst_guess or 0.0, -seen.min_visible))
    sums = ("people", "visible_people", "groups", "small_groups", "people_in_small_groups")
    numbers = {field.name: getattr(worst, field.name) for field in fields(VisibleSummary)}
    return VisibleSummary(**numbers | {name: sum(getattr(s, name) for s in rare) for name in sums})


def visible_findings(
    views: Sequence[VisibleView], floors: Floors, group_size: int
) -> Iterator[Finding]:
    """A danger for each audience that singles out most of its people."""
    few, effective = floors.visible(group_size)
    floor = f"{few} people, {effective:g} effective"
    for view in views:
        seen = view.seen
        guess = (
            ""
            if seen.worst_guess is None
            else f"; a guess who visits is right with up to {seen.worst_guess:.0%}"
        )
        if view.kind == "rare":
            continue  # a danger of the column
        if seen.small_groups:
            exposed = (
                view.kind == "declared" or seen.people_in_small_groups > _MAX_SHARE * seen.people
            )
            yield Finding(
                "danger" if exposed else "warning",
                f"audience {view.audience}: {seen.people_in_small_groups:,} of {seen.people:,} "
                f"people are in groups where a campaign sees fewer than {few} of them, or fewer "
                f"than {effective:g} equally active ones (the fewest: {seen.min_visible}{guess})",
                f"visible people: {view.audience}",
                f"{seen.min_visible} in a group",
                floor,
            )
    everyone = next((view.seen for view in views if view.kind == EVERYONE), None)
    if everyone is not None and everyone.min_visible < few:
        yield Finding(
            "warning",
            f"some groups have fewer than {few} members who ever visited (the fewest: "
            f"{everyone.min_visible}): members who never visit hide nobody",
            "visitors in a group",
            f"{everyone.min_visible} people",
            f"{few} people",
        )
    elif everyone is not None and everyone.mean_guess is not None:
        yield Finding(
            "ok",
            f"everyone: at least {everyone.min_visible} members of each group visit; a guess who "
            f"the visitor is would be right with {everyone.mean_guess:.1%} on average, "
            f"{everyone.worst_guess:.0%} in the worst group",
            "guess the visitor",
            f"right with {everyone.mean_guess:.1%}",
        )


def visible_rows(views: Sequence[VisibleView]) -> list[list[Any]]:
    """A table for people: audience, people, visible ones per group, guesses, people too few."""
    rows = []
    for view in views:
        seen = view.seen
        guesses = ("no history",) * 3
        if seen.mean_guess is not None and seen.worst_guess is not None:
            guesses = (
                f"{seen.min_effective:.1f}",
                f"{seen.mean_guess:.1%}",
                f"{seen.worst_guess:.0%}",
            )
        counts = (seen.people, seen.min_visible, seen.p05_visible, seen.median_visible)
        rows.append(
            [
                view.audience,
                *(f"{count:,.10g}" for count in counts),
                *guesses,
                f"{seen.people_in_small_groups:,}",
            ]
        )
    return rows
