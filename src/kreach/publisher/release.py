"""Release: turn people in groups into a catalogue and audiences, or refuse with reasons.

This is the only way out of the publisher's side.
"""

import hashlib
import secrets
from base64 import b32encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.checks import as_whole_number
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.types import BoolArray, FloatArray, IntArray
from kreach.publisher.grouping.base import Assignment
from kreach.publisher.people import People
from kreach.publisher.visible import VisibleMembers, VisibleSummary
from kreach.publisher.visit_knowledge import (
    anonymity_from_visits,
    match_dispersion,
    match_pseudo_visits,
    visit_profiles,
)

__all__ = ["BELOW", "Floors", "Release", "ReleaseRefused", "new_key", "release"]

KNOWLEDGE = ("none", "dispersion", "model", "shares")
BELOW = ("refuse", "drop", "widen")
_KEY_BYTES = 32


class ReleaseRefused(KreachError):
    """The release would be unsafe; `reasons` lists every broken rule."""

    def __init__(self, reasons: list[str]) -> None:
        self.reasons = reasons
        super().__init__("release refused: " + "; ".join(reasons))


@dataclass(frozen=True)
class Floors:
    """The minimum numbers of people in whatever a release describes.

    `membership_class`: people with one combination of overlapping groups. `min_visible`: people of
    an audience whom a campaign can see in a group that holds any (visible.py). Both are at most k.
    `effective_anonymity`: equally active people that every group, and what an audience shows of
    one, must be worth (perplexity of their expected visit shares). `profile_anonymity`: the same
    for a group to release a visit profile of its own; other groups get an average profile.
    """

    membership_class: int = 10
    min_visible: int = 5
    effective_anonymity: float = 2.0
    profile_anonymity: float = 4.0

    def __post_init__(self) -> None:
        as_whole_number("membership_class", self.membership_class, minimum=1)
        as_whole_number("min_visible", self.min_visible, minimum=1)
        for name in ("effective_anonymity", "profile_anonymity"):
            if not getattr(self, name) >= 1.0:
                raise KreachError.rule(name, "be a number ≥ 1", getattr(self, name))

    @staticmethod
    def of_facts(facts: Mapping[str, Any]) -> "Floors":
        """Those of a build.json; builds of earlier versions say nothing."""
        recorded = facts.get("floors") or {}
        try:
            return Floors(**recorded)
        except TypeError:
            raise KreachError.rule("folder", "record floors of a release", recorded) from None

    def or_stricter(self, other: "Floors") -> "Floors":
        """The higher of each floor."""
        mine, others = asdict(self), asdict(other)
        return Floors(**{name: max(mine[name], others[name]) for name in mine})

    def visible(self, group_size: int) -> tuple[int, float]:
        """The floors of visible and of effective visible people in groups of k.

        No count could reach a floor above k; a group of one is never worth two.
        """
        effective = self.effective_anonymity if group_size > 1 else 1.0
        return min(self.min_visible, group_size), effective


def new_key() -> bytes:
    """A secret key for opaque ids. It stays with the publisher."""
    return secrets.token_bytes(_KEY_BYTES)


def release(
    people: People,
    assignment: Assignment,
    *,
    key: bytes,
    buyer: str,
    version: str,
    now: datetime,
    knowledge: str = "model",
    dispersion: float | None = None,
    model: VisitModel | None = None,
    floors: Floors | None = None,
    memory_hours: float | None = None,
) -> "Release":
    """Turn people in groups into a catalogue for one buyer, or refuse with every reason.

    Group ids are keyed by version and buyer: two buyers, or one buyer in two versions, cannot
    match ids. Groups are listed in the order of their ids, so their position says nothing either.
    `knowledge` is what the catalogue says about visits: "none", one "dispersion", the visit "model"
    of the site beside it (`model`, where one could be fitted), or "shares" of every group.
    `dispersion` is matched to the history in `people` unless given: where the groups themselves
    were formed by visits, give one that was fitted on other visits (`cross_fitted_dispersion`).
    `memory_hours` tells the buyer how long the gateway remembers showings of capped campaigns.
    """
    floors = floors or Floors()
    if len(key) < 16:
        raise KreachError.rule("key", "have at least 16 bytes", f"{len(key)} bytes")
    if knowledge not in KNOWLEDGE:
        raise KreachError.rule("knowledge", f"be one of {', '.join(KNOWLEDGE)}", knowledge)
    if len(assignment.groups) != people.count:
        rule = f"place all {people.count} people"
        raise KreachError.rule("assignment", rule, len(assignment.groups))
    if assignment.overlapping and knowledge == "shares":
        raise KreachError.rule("knowledge", "not be shares for overlapping groups", knowledge)
    reasons = _refusal_reasons(people, assignment, floors)
    if reasons:
        raise ReleaseRefused(reasons)
    order, position, ids = _order_by_opaque_id(assignment, key, buyer, version)
    group_indices = position[assignment.groups]
    profiles, masked = None, 0
    if knowledge == "none" or assignment.overlapping or people.visits.sum() == 0:
        dispersion = None
    else:
        if dispersion is None:
            dispersion = match_dispersion(people.visits, assignment.group_of())
        dispersion = None if np.isinf(dispersion) else dispersion
        if knowledge == "shares":
            profiles, masked = _visit_profiles(people, assignment, floors, order)
    classes, class_floor = None, 1
    if assignment.overlapping:
        classes = _classes(group_indices, np.ones(people.count, dtype=np.bool_))
        class_floor = floors.membership_class
    catalogue = Catalogue(
        version,
        now,
        assignment.group_size,
        ids,
        assignment.group_sizes[order],
        dispersion,
        profiles,
        classes,
        class_floor,
        model if knowledge == "model" and not assignment.overlapping else None,
        memory_hours,
        floors.visible(assignment.group_size)[0],
    )
    warnings = _warnings(assignment, masked)
    return Release(catalogue, group_indices, floors, warnings, people.visits)


def _visit_profiles(
    people: People, assignment: Assignment, floors: Floors, order: IntArray
) -> tuple[tuple[FloatArray, ...], int]:
    """The visit shares of each group in catalogue order, and how many groups are masked."""
    group_of = assignment.group_of()
    pseudo = match_pseudo_visits(people.visits, group_of)
    steps = max(1000, 10 * int(assignment.group_sizes.max()))
    vectors, masked = visit_profiles(
        people.visits, group_of, pseudo, floors.profile_anonymity, steps
    )
    return tuple(vectors[group] for group in order.tolist()), masked


def _warnings(assignment: Assignment, masked: int) -> tuple[str, ...]:
    warnings = []
    if assignment.group_size == 1:
        warnings.append("group_size is 1: every group is one person. THIS IS NO ANONYMITY.")
    if masked:
        warnings.append(
            f"{masked:,} groups with too few active people got an average visit profile"
        )
    return tuple(warnings)


@dataclass(frozen=True, eq=False)
class Release:
    """A catalogue, which may leave, and the table of people, which may not.

    `group_indices` holds each person's groups as indices of the catalogue, for the gateway, and
    `visits` how often each visited.
    """

    catalogue: Catalogue
    group_indices: IntArray
    floors: Floors
    warnings: tuple[str, ...]
    visits: IntArray

    def targeted_counts(self, targeted: BoolArray, *, below: str = "refuse") -> IntArray:
        """How many targeted people each group holds, where none can be told apart.

        `below` says what happens where a campaign could see fewer people of a group than the
        floors: the audience is refused with the reasons; or it drops these people; or it is
        widened to everybody in these groups, of whom the catalogue speaks anyway.
        """
        return self.settle(targeted, below)[1]

    def audience(self, targeted: BoolArray | None = None, *, below: str = "refuse") -> Audience:
        """The audience of a campaign: everybody, or the targeted people as far as floors allow."""
        if targeted is None:
            return self.catalogue.audience()
        if self.catalogue.classes is None:
            return self.catalogue.audience(self.targeted_counts(targeted, below=below))
        self._check_length(targeted)
        if below not in ("refuse", "drop"):
            raise KreachError.rule("below", "be refuse or drop for overlapping groups", below)
        classes = _classes(self.group_indices, targeted)
        floor = self.floors.membership_class
        small = [headcount for _, headcount in classes if headcount < floor]
        if small and below == "refuse":
            raise ReleaseRefused(
                [f"{len(small):,} classes hold fewer than {floor} targeted people ({sum(small):,})"]
            )
        large = [entry for entry in classes if entry[1] >= floor]
        return Audience.overlapping(self.catalogue.sizes, large)

    def settle(
        self, targeted: BoolArray, below: str, along: str = ""
    ) -> tuple[BoolArray, IntArray]:
        """The people who are targeted in the end, and how many of each group.

        `along` are the columns that a refusal advises to form groups along, comma-separated.
        """
        self._check_length(targeted)
        if self.catalogue.classes is not None:
            raise KreachError.rule("catalogue", "have disjoint groups", "overlapping groups")
        if below not in BELOW:
            raise KreachError.rule("below", f"be one of {', '.join(BELOW)}", below)
        floors = self.floors.visible(self.catalogue.group_size)
        seen = self.members.of(targeted)
        small = np.zeros(len(self.catalogue), dtype=np.bool_)
        small[seen.groups] = seen.small(*floors)
        if small.any() and below == "refuse":
            raise ReleaseRefused([too_few_visible(seen.summary(*floors), floors, along)])
        group_of = self.group_indices[:, 0]
        final = targeted & ~small[group_of] if below == "drop" else targeted | small[group_of]
        return final, np.bincount(group_of[final], minlength=len(self.catalogue))

    def visible(self, targeted: BoolArray) -> VisibleSummary:
        """Whom a campaign on these people could see."""
        floors = self.floors.visible(self.catalogue.group_size)
        return self.members.of(targeted).summary(*floors)

    @cached_property
    def members(self) -> VisibleMembers:
        """The people whom campaigns can see, by group."""
        return VisibleMembers(self.visits, self.group_indices[:, 0])

    def _check_length(self, targeted: BoolArray) -> None:
        if targeted.shape != (len(self.group_indices),) or targeted.dtype != np.bool_:
            rule = f"be a bool for each of the {len(self.group_indices)} people"
            raise KreachError.rule("targeted", rule, f"shape {targeted.shape} of {targeted.dtype}")


def too_few_visible(seen: VisibleSummary, floors: tuple[int, float], along: str) -> str:
    """Why an audience is refused, with the numbers, and what to do."""
    guess = ""
    if seen.worst_guess is not None:
        guess = f", the best guess who visits: right with {seen.worst_guess:.0%}"
    return (
        f"in {seen.small_groups:,} of {seen.groups:,} groups a campaign could see fewer than "
        f"{floors[0]} people of the audience, or fewer than {floors[1]:g} equally active ones "
        f"({seen.people_in_small_groups:,} of {seen.people:,} people; the fewest visible: "
        f"{seen.min_visible}{guess}); drop these people, widen the audience to whole groups, or "
        f"form groups along it (--strategy segments{f' --segments {along}' if along else ''})"
    )


def _refusal_reasons(people: People, assignment: Assignment, floors: Floors) -> list[str]:
    """Every reason why these groups must not be released."""
    reasons = []
    smallest = int(assignment.group_sizes.min(initial=assignment.group_size))
    if smallest < assignment.group_size:
        reasons.append(f"a group has {smallest} members, fewer than {assignment.group_size}")
    if assignment.overlapping:
        _, headcounts = np.unique(assignment.groups, axis=0, return_counts=True)
        small = headcounts[headcounts < floors.membership_class]
        if small.size:
            reasons.append(
                f"{small.size:,} combinations of groups are held by fewer than "
                f"{floors.membership_class} people ({int(small.sum()):,} people)"
            )
    elif assignment.group_size > 1 and people.visits.sum() > 0:
        anonymity = anonymity_from_visits(people.visits, assignment.group_of())
        low = anonymity < floors.effective_anonymity
        if low.any():
            reasons.append(
                f"{int(low.sum()):,} groups are worth fewer than {floors.effective_anonymity:g} "
                f"equally active people (the least: {float(anonymity.min()):.2f})"
            )
    return reasons


def _order_by_opaque_id(
    assignment: Assignment, key: bytes, buyer: str, version: str
) -> tuple[IntArray, IntArray, tuple[str, ...]]:
    """The group at each position, the position of each group, and the opaque ids in order."""
    prefix = f"{len(buyer)}:{buyer}{len(version)}:{version}:".encode()
    ids = np.array(
        [_opaque_id(key, prefix + str(group).encode()) for group in range(assignment.group_count)]
    )
    order = np.argsort(ids)
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    return order, position, tuple(ids[order].tolist())


def _opaque_id(key: bytes, message: bytes) -> str:
    digest = hashlib.blake2b(message, key=key[:64], digest_size=10).digest()
    return b32encode(digest).decode().lower()


def _classes(
    group_indices: IntArray, targeted: BoolArray
) -> tuple[tuple[tuple[int, ...], int], ...]:
    rows, headcounts = np.unique(
        np.sort(group_indices[targeted], axis=1), axis=0, return_counts=True
    )
    pairs = zip(rows.tolist(), headcounts.tolist(), strict=True)
    return tuple((tuple(groups), headcount) for groups, headcount in pairs)
