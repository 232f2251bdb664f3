"""What diversity floors cost: the quality of groups with them and without."""

from typing import Any

import numpy as np

from kreach.numeric.types import IntArray
from kreach.publisher.audit import coverage
from kreach.publisher.grouping.attributes import information_kept
from kreach.publisher.grouping.base import Assignment
from kreach.publisher.grouping.diversity import SensitiveValues
from kreach.publisher.grouping.named import NamedStrategy
from kreach.publisher.people import People
from kreach.publisher.visit_knowledge import anonymity_from_visits

__all__ = ["diversity_facts", "grouping_quality", "rate_spread"]


def diversity_facts(
    people: People, assignment: Assignment, formed_by: NamedStrategy, without_floors: Assignment
) -> dict[str, Any] | None:
    """The diversity of the groups, and their quality beside groups without floors; None if none."""
    if not formed_by.sensitive:
        return None
    first = assignment.groups[:, 0]
    columns = {}
    for name in formed_by.sensitive:
        seen = SensitiveValues(people.attribute(name)).in_groups(first)
        columns[name] = {
            "min_l": int(seen.distinct.min()),
            "min_entropy_l": float(seen.entropy_l.min()),
            "max_t": float(seen.t.max()),
        }
    return {
        "columns": columns,
        "without_floors": grouping_quality(people, without_floors, formed_by),
        "with_floors": grouping_quality(people, assignment, formed_by),
    }


def grouping_quality(
    people: People, assignment: Assignment, formed_by: NamedStrategy
) -> dict[str, Any]:
    """Sizes, how alike the visit rates in a group are, coverage and information kept."""
    groups = assignment.groups[:, 0]
    anonymity = None
    if people.visits.sum() > 0:
        anonymity = anonymity_from_visits(people.visits, groups)
    return {
        "groups": assignment.group_count,
        "largest_group": int(assignment.group_sizes.max()),
        "rate_spread": rate_spread(people.visits, groups),
        "median_effective": None if anonymity is None else float(np.median(anonymity)),
        "min_effective": None if anonymity is None else float(anonymity.min()),
        "coverage": _coverages(people, groups, formed_by.segments),
        "information_kept": information_kept(people, groups, formed_by.attributes),
    }


def rate_spread(visits: IntArray, groups: IntArray) -> float | None:
    """Mean distance of people's visits from the mean of their group, over the mean of all."""
    if visits.sum() == 0:
        return None
    mean = np.bincount(groups, weights=visits) / np.bincount(groups)
    return float(np.abs(visits - mean[groups]).mean() / visits.mean())


def _coverages(people: People, groups: IntArray, segments: tuple[str, ...]) -> dict[str, float]:
    """For each targeting attribute the mean coverage of its values, weighted by people."""
    result = {}
    for name in segments:
        codes = people.attribute(name).codes
        total = 0.0
        for code in np.unique(codes).tolist():
            targeted = codes == code
            total += coverage(groups, targeted.astype(np.int64)) * np.count_nonzero(targeted)
        result[name] = total / people.count
    return result
