"""What groups tell about each column that was kept: the homogeneity attack."""

from collections.abc import Iterator

import numpy as np

from kreach.numeric.types import IntArray
from kreach.publisher.audit.report import ColumnView
from kreach.publisher.columns import value_crowds
from kreach.publisher.grouping.base import Assignment
from kreach.publisher.grouping.diversity import DiversityFloors, SensitiveValues
from kreach.publisher.people import Attribute, People

__all__ = ["COMMON_SHARE", "column_views"]

COMMON_SHARE = 0.95  # a value that so many people have is hardly news about anybody


def column_views(
    people: People,
    assignment: Assignment,
    roles: dict[str, str],
    segments: tuple[str, ...],
    floors: DiversityFloors,
) -> tuple[ColumnView, ...]:
    """The view of each column with a role, the declared sensitive ones first.

    Of overlapping groups an observer sees one group or all groups of a person: every partition and
    every combination is looked at, and the worst counts.
    """
    groupings = list(_groupings(assignment))
    order = {"sensitive": 0, "kept": 1, "targeting": 2, "formed along": 3}
    names = sorted(roles, key=lambda name: (order[roles[name]], name))
    return tuple(
        _view(
            people.attribute(name),
            name,
            roles[name],
            name in segments,
            groupings,
            assignment.group_size,
            floors,
        )
        for name in names
    )


def _groupings(assignment: Assignment) -> Iterator[IntArray]:
    for layer in assignment.groups.T:
        yield np.unique(layer, return_inverse=True)[1]
    if assignment.overlapping:
        yield np.unique(assignment.groups, axis=0, return_inverse=True)[1].reshape(-1)


def _view(
    attribute: Attribute,
    name: str,
    role: str,
    targeted: bool,
    groupings: list[IntArray],
    group_size: int,
    floors: DiversityFloors,
) -> ColumnView:
    values = SensitiveValues(attribute)
    crowds = value_crowds(attribute, group_size)
    homogeneous = np.zeros(len(attribute.codes), dtype=np.bool_)
    below = 0
    lowest, lowest_entropy, farthest, top = np.inf, np.inf, 0.0, 0.0
    for group_of in groupings:
        seen = values.in_groups(group_of)
        homogeneous |= (seen.distinct == 1)[group_of]
        below += int(np.count_nonzero(~floors.hold(seen)))
        lowest = min(lowest, int(seen.distinct.min()))
        lowest_entropy = min(lowest_entropy, float(seen.entropy_l.min()))
        farthest, top = max(farthest, float(seen.t.max())), max(top, float(seen.top_share.max()))
    news = values.shares[values.codes] < COMMON_SHARE
    return ColumnView(
        name,
        role,
        targeted,
        values.ordered,
        crowds.values,
        int(lowest),
        lowest_entropy,
        farthest,
        top,
        int(np.count_nonzero(homogeneous)),
        int(np.count_nonzero(homogeneous & news)),
        below if role == "sensitive" else 0,
        crowds.small_values,
        crowds.people_in_small_values,
        crowds.nearly_alone,
        crowds.identifying,
    )
