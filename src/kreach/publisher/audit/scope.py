"""The scope of an audit: the role of each column, what is not looked at, what is assumed."""

from kreach.publisher.audit.report import SeedView
from kreach.publisher.grouping.base import Assignment
from kreach.publisher.grouping.named import NamedStrategy
from kreach.publisher.lineage import Crowds
from kreach.publisher.people import People

__all__ = ["ASSUMPTIONS", "column_roles", "not_examined"]

ASSUMPTIONS = (
    "The buyer gets the folder `release` and nothing else.",
    "The key and the seed stay with the publisher.",
    "The buyer does not know who visits when. Times of visits can tell members of a group apart.",
    "People leave and join at random. Those who leave together leave smaller crowds.",
    "The linkage attacker knows who was in which group, and nothing else.",
)


def column_roles(
    people: People,
    assignment: Assignment,
    sensitive: tuple[str, ...],
    segments: tuple[str, ...],
    formed_by: NamedStrategy | None,
) -> dict[str, str]:
    """The role of every column that was kept. What is declared sensitive stays so."""
    named = formed_by or NamedStrategy(
        assignment.strategy, tuple(sorted(people.attributes)), segments
    )
    targeting = (*segments, *named.segments, *(named.attributes if formed_by else ()))
    roles = dict.fromkeys(people.attributes, "kept")
    roles |= {name: "targeting" for name in targeting if name in roles}
    roles |= {name: "formed along" for name in named.formed_along if name in roles}
    for name in (*sensitive, *segments):
        people.attribute(name)  # refuses what is not there
    return roles | dict.fromkeys(sensitive, "sensitive")


def not_examined(
    people: People,
    assignment: Assignment,
    seed_view: SeedView | None,
    columns_not_kept: tuple[str, ...],
    past: Crowds | None,
) -> tuple[str, ...]:
    """What this audit says nothing about."""
    missing = []
    if columns_not_kept:
        missing.append(f"Columns that were not kept: {', '.join(columns_not_kept)}.")
    if len(people.attributes) > 1:
        missing.append("Combinations of columns, which may identify where one alone does not.")
    if assignment.overlapping:
        missing.append("Linkage over versions, which is run on disjoint groups only.")
        missing.append("Effective anonymity, which is defined for disjoint groups only.")
    elif people.visits.sum() == 0:
        missing.append("Effective anonymity: there were no visits before the groups were formed.")
    if seed_view is None:
        missing.append("Whether others could form the same groups again: the seed is not known.")
    elif seed_view.first is not None:
        first = seed_view.first.version or "which is not recorded"
        missing.append(
            f"Whether others could form the groups of the first version again ({first}): audit it."
        )
    linked = past is not None or assignment.overlapping
    missing.append(f"Releases to other buyers{'' if linked else ' and earlier versions'}.")
    missing.append("What observers know from elsewhere.")
    return tuple(missing)
