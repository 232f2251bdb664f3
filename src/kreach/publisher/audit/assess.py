"""Assess what an attacker could learn from a release, on the publisher's own data.

Sizes, effective anonymity, diversity, coverage and small audiences are counted; linkage and
intersection are attacks that are run (see attacks.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kreach.boundary.checks import as_whole_number
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.audit.attacks import intersection_attack, linkage_attack
from kreach.publisher.audit.columns import column_views
from kreach.publisher.audit.findings import findings_of
from kreach.publisher.audit.report import (
    Audit,
    ModelView,
    SeedView,
    SegmentView,
    Spread,
    Subject,
)
from kreach.publisher.audit.scope import ASSUMPTIONS, column_roles, not_examined
from kreach.publisher.audit.visible import visible_views
from kreach.publisher.grouping.base import Assignment
from kreach.publisher.grouping.diversity import DiversityFloors
from kreach.publisher.grouping.named import NamedStrategy
from kreach.publisher.lineage import Crowds
from kreach.publisher.people import People, label_text
from kreach.publisher.release import Floors
from kreach.publisher.visit_knowledge import anonymity_from_visits

__all__ = ["audit", "coverage"]


def audit(
    people: People,
    assignment: Assignment,
    *,
    sensitive: tuple[str, ...] = (),
    segments: tuple[str, ...] = (),
    floors: Floors | None = None,
    churn: float = 0.05,
    seed: int = 0,
    visit_model: ModelView | None = None,
    formed_by: NamedStrategy | None = None,
    diversity: DiversityFloors | None = None,
    seed_view: SeedView | None = None,
    subject: Subject | None = None,
    columns_not_kept: tuple[str, ...] = (),
    declared: Sequence[Mapping[str, Any]] = (),
    past: Crowds | None = None,
) -> Audit:
    """Audit an assignment. `churn` is the share of people who leave from version to version.

    All columns of `people` are looked at; `sensitive` ones must hold the `diversity` floors.
    `formed_by` says which columns groups were formed along, `visit_model` and `seed_view` come from
    a build (`audit.visit_model.model_view`, `audit.seed.seed_view`), `subject` names it,
    `declared` are the audiences declared on it (`audience_file.declared_audiences`), `past` the
    crowds over its earlier versions (`build_audit.past_crowds`).
    """
    floors, promised = floors or Floors(), diversity or DiversityFloors(1)
    if not 0.0 <= churn < 1.0:
        raise KreachError.rule("churn", "lie between 0 and 1", churn)
    seed = as_whole_number("seed", seed, minimum=0)
    effective, below = _effective_anonymity(people, assignment, floors)
    roles = column_roles(people, assignment, sensitive, segments, formed_by)
    report = Audit(
        people.count,
        assignment.group_count,
        assignment.group_size,
        assignment.strategy,
        Spread.of(assignment.group_sizes),
        effective,
        below,
        column_views(people, assignment, roles, segments, promised),
        tuple(_segment_views(people, assignment, segments, floors)),
        linkage_attack(assignment, churn, seed),
        intersection_attack(people, assignment, segments, floors),
        (),
        visit_model,
        seed_view,
        subject,
        diversity,
        not_examined(people, assignment, seed_view, columns_not_kept, past),
        ASSUMPTIONS,
        visible_views(people, assignment, segments, floors, declared),
        past,
    )
    return replace(report, findings=tuple(findings_of(report, floors)))


def _effective_anonymity(
    people: People, assignment: Assignment, floors: Floors
) -> tuple[Spread | None, int]:
    """The effective anonymity of groups, and how many groups are below the floor."""
    if assignment.overlapping or people.visits.sum() == 0:
        return None, 0
    anonymity = anonymity_from_visits(people.visits, assignment.group_of())
    below = int(np.count_nonzero(anonymity < floors.effective_anonymity))
    return Spread.of(anonymity), below


def coverage(group_of: IntArray, targeted: IntArray) -> float:
    """Targeted members / members of groups that hold any; 1 where nobody is targeted."""
    sizes = np.bincount(group_of)
    counts = np.bincount(group_of, weights=targeted, minlength=len(sizes))
    members = sizes[counts > 0].sum()
    return float(counts.sum() / members) if members else 1.0


def _segment_views(
    people: People, assignment: Assignment, segments: tuple[str, ...], floors: Floors
) -> list[SegmentView]:
    """One view per value of each targeting attribute that at least k people have."""
    views = []
    group_of = assignment.groups[:, 0]
    floor = floors.visible(assignment.group_size)[0]
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
                    f"{name}={label_text(label)}",
                    int(targeted.sum()),
                    coverage(group_of, targeted),
                    exposed,
                )
            )
    return views
