"""Which audiences advertisers may use: those of many people, and no two that nearly agree.

Two reports on audiences that differ by one person tell about that person. All that reporting tells
is a function of the head-counts of targeted people by group, so audiences can be told apart by

    distance = Σ over groups |targeted in the one − targeted in the other|

and by nothing else: people exchanged within a group leave every number as it is. Distance is at
most the number of people who are in one audience and not in the other. Audiences at distance 0 are
the same audience to anybody who sees numbers, and may both be used.

Audiences are looked at in the order of the settings, everyone first. One that is closer than the
floor to one that may be used, and not the same, may not be used: by no advertiser, so that two who
pool their reports learn no more than one. The answer depends on the settings alone, so it tells
nothing about what others run, and new audiences at the end leave those before them as they are.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from kreach.boundary.audience import (
    Audience,
    DisjointAudience,
    OverlappingAudience,
    ProfiledAudience,
)
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = [
    "NOT_HERE",
    "TOO_CLOSE",
    "TOO_SMALL",
    "Verdict",
    "distance",
    "headcounts",
    "served_people",
    "verdicts",
]

TOO_SMALL = "audience too small"
TOO_CLOSE = "audience too close"
NOT_HERE = "audience not on this catalogue"


@dataclass(frozen=True)
class Verdict:
    """Whether advertisers may use an audience: `reason` is None, or says why not.

    `rule` completes "audience must ..."; neither tells a size or a distance.
    """

    reason: str | None = None
    rule: str = ""


def headcounts(audience: Audience) -> IntArray:
    """Targeted people by group; with overlapping groups, by membership class."""
    if isinstance(audience, DisjointAudience):
        return audience.targeted_counts
    if isinstance(audience, OverlappingAudience):
        return audience.headcounts
    if isinstance(audience, ProfiledAudience):
        return audience.group_sizes
    raise KreachError.rule("audience", "be of a known kind", type(audience).__name__)


def served_people(audience: Audience, groups: IntArray) -> int:
    """Targeted people whom impressions on these groups may have reached."""
    if isinstance(audience, OverlappingAudience):
        served = np.zeros(audience.group_count + 1, dtype=bool)
        served[groups] = True
        served[-1] = False  # where the −1 of shorter classes points to
        return int(audience.headcounts[served[audience.classes].any(axis=1)].sum())
    return int(headcounts(audience)[groups].sum())


def distance(one: Audience, other: Audience) -> int:
    """Σ over groups |targeted − targeted|, for two audiences on the same catalogue.

    >>> a = Audience.disjoint([20, 20, 25], targeted_counts=[20, 5, 25])
    >>> b = Audience.disjoint([20, 20, 25], targeted_counts=[18, 6, 25])
    >>> distance(a, b)
    3
    """
    mine, theirs = headcounts(one), headcounts(other)
    if len(mine) != len(theirs):
        rule = f"be on the same catalogue ({len(mine)} groups)"
        raise KreachError.rule("audience", rule, f"{len(theirs)} groups")
    return int(np.abs(mine - theirs).sum())


def verdicts(
    names: Iterable[str],
    read: Callable[[str], Audience],
    least_audience: int,
    least_difference: int,
) -> dict[str, Verdict]:
    """What advertisers may do with each audience, in the order given.

    `read` is asked once for each, and again for pairs whose totals are closer than the floor:
    |total − total| ≤ distance, so others are far enough apart.
    """
    found: dict[str, Verdict] = {}
    usable: dict[str, int] = {}
    for name in names:
        try:
            audience = read(name)
        except KreachError:
            found[name] = Verdict(NOT_HERE, "be readable on this catalogue")
            continue
        total = audience.targeted_user_count
        if total < least_audience:
            found[name] = Verdict(TOO_SMALL, f"have at least {least_audience} people")
            continue
        found[name] = Verdict()
        for other, people in usable.items():
            near = abs(people - total) < least_difference
            if near and 0 < distance(audience, read(other)) < least_difference:
                rule = f"be the same as {other}, or differ from it by at least {least_difference}"
                found[name] = Verdict(TOO_CLOSE, f"{rule} people")
                break
        if found[name].reason is None:
            usable[name] = total
    return found
