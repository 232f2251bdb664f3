"""Which audiences advertisers may use: those of many people, and no two that nearly agree.

Two reports on audiences that differ by one person tell about that person. All that reporting tells
is a function of the head-counts of targeted people by group, so audiences can be told apart by

    distance = Σ over groups |targeted in the one − targeted in the other|

and by nothing else: people exchanged within a group leave every number as it is. Distance is at
most the number of people who are in one audience and not in the other.

Audiences are looked at in the order of the settings, everyone first. One that is closer than the
floor to one that may be used may not be used: by no advertiser, so that two who pool their reports
learn no more than one. That holds for audiences that are the same, too: if they could be used, and
those that differ by one person could not, being refused would tell whether that person is in both.
Campaigns on the same people name the same audience.

A floor that is known to the person would tell as much: an audience made to be just large enough if
somebody is in it. So each audience, and each pair, has its own margin above the floor, which nobody
outside knows. The answer depends on the settings alone, so it tells nothing about what others run,
and new audiences at the end leave those before them as they are.
"""

import hashlib
import hmac
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
    "margins",
    "served_people",
    "verdicts",
]

TOO_SMALL = "audience too small"
TOO_CLOSE = "audience too close"
NOT_HERE = "audience not on this catalogue"


@dataclass(frozen=True)
class Verdict:
    """Whether advertisers may use an audience: `reason` is None, or says why not.

    `rule` completes "audience must ..."; neither tells a size, a distance or another audience.
    `near` is the one that it is too close to, for operators.
    """

    reason: str | None = None
    rule: str = ""
    near: str | None = None


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


def margins(key: bytes, most: int) -> Callable[[str], int]:
    """What is added to a floor: for each text another number below `most`, known to the key only.

    >>> margin = margins(b"secret", 200)
    >>> margin("sports") == margin("sports"), 0 <= margin("sports") < 200
    (True, True)
    """

    def margin(text: str) -> int:
        digest = hmac.digest(key, text.encode(), hashlib.sha256)
        return int.from_bytes(digest[:8]) % max(most, 1)

    return margin


def verdicts(
    names: Iterable[str],
    read: Callable[[str], Audience],
    least_audience: int,
    least_difference: int,
    margin: Callable[[str], int] = lambda _: 0,
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
        if total < least_audience + margin(name):
            found[name] = Verdict(TOO_SMALL, f"have clearly more than {least_audience} people")
            continue
        found[name] = Verdict()
        for other, people in usable.items():
            floor = least_difference + (margin(f"{name}\n{other}") if least_difference else 0)
            if abs(people - total) < floor and distance(audience, read(other)) < floor:
                rule = f"differ from every other by clearly more than {least_difference} people"
                found[name] = Verdict(TOO_CLOSE, rule, other)
                break
        if found[name].reason is None:
            usable[name] = total
    return found
