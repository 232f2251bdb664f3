"""Which audiences advertisers may use: large ones that differ enough from all others.

Two reports on audiences that differ by one person disclose that person. All figures are functions
of the head-counts of targeted people by group, so audiences can be told apart by

    distance = Σ over groups |targeted in the one − targeted in the other|

and by nothing else: people exchanged within a group leave every number as it is. Distance is at
most the number of people who are in one audience and not in the other.

Audiences are looked at in the order of the settings, everyone first. One that is closer than the
floor to one that may be used may not be used: by no advertiser, so that two who pool their reports
learn no more than one. That holds for audiences that are the same, too: if they could be used, and
those that differ by one person could not, a refusal would disclose whether that person is in both.
Campaigns on the same people name the same audience.

The same holds for sums of several audiences (combinations.py): everyone less two lists that leave
out one person is that person. So an audience must also differ from all sums and differences of
usable ones, up to a number of audiences (`audiences_together`).

A known floor would disclose as much: an audience built to be just large enough if somebody is in
it. So each audience, and each such sum, has its own secret margin above the floor. Verdicts depend
on the settings alone, so they disclose nothing about what others run, and a new audience at the end
changes none before it.

An audience must also hide its people inside each group: it targets nobody there, or at least
`min_visible` people. A campaign that is sent only their requests sees nobody else.

An audience that was once usable is stored (chapters/store.py), since
reports on it may have been seen: removed from the settings or changed under its name, it still
rules out others close to it.
"""

import hashlib
import hmac
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from kreach.adsystem.catalogues import headcounts
from kreach.adsystem.disclosure.combinations import Combinations, Signed
from kreach.boundary.audience import Audience, OverlappingAudience
from kreach.boundary.catalogue import Catalogue
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = [
    "CHANGED",
    "NOT_HERE",
    "TOO_CLOSE",
    "TOO_FEW_VISIBLE",
    "TOO_SMALL",
    "Verdict",
    "distance",
    "margins",
    "pack_counts",
    "served_people",
    "unpack_counts",
    "verdicts",
    "visible_floor",
]

TOO_SMALL = "audience too small"
TOO_CLOSE = "audience too close"
TOO_FEW_VISIBLE = "too few visible in a group"
NOT_HERE = "audience not on this catalogue"
CHANGED = "audience changed"
_NEW_NAME = "have a new name when its people change"


@dataclass(frozen=True)
class Verdict:
    """Whether advertisers may use an audience: `reason` is None, or says why not.

    `rule` completes "audience must ..."; neither discloses a size, a distance or another audience.
    `near` is what it is too close to, for operators: another audience, or a sum of others.
    """

    reason: str | None = None
    rule: str = ""
    near: str | None = None


def served_people(audience: Audience, groups: IntArray) -> int:
    """Targeted people whom impressions on these groups may have reached."""
    if isinstance(audience, OverlappingAudience):
        served = np.zeros(audience.group_count + 1, dtype=bool)
        served[groups] = True
        served[-1] = False  # where the −1 of shorter classes points to
        return int(audience.headcounts[served[audience.classes].any(axis=1)].sum())
    return int(headcounts(audience)[groups].sum())


def distance(one: IntArray, other: IntArray) -> int:
    """Σ over groups |targeted − targeted|, of head-counts on the same catalogue.

    >>> distance(np.array([20, 5, 25]), np.array([18, 6, 25]))
    3
    """
    if len(one) != len(other):
        rule = f"be on the same catalogue ({len(one)} groups)"
        raise KreachError.rule("audience", rule, f"{len(other)} groups")
    return int(np.abs(one - other).sum())


def pack_counts(counts: IntArray) -> bytes:
    """Head-counts, compressed for the store."""
    return zlib.compress(counts.astype("<u4").tobytes(), 1)


def unpack_counts(packed: bytes) -> IntArray:
    """The inverse of `pack_counts`."""
    return np.frombuffer(zlib.decompress(packed), dtype="<u4").astype(np.int64)


def visible_floor(catalogue: Catalogue, min_visible: int) -> int:
    """The fewest targeted people of a group, if any; no count could reach a floor above k.

    Overlapping groups are targeted as a whole, and their classes have a floor of their own.
    """
    return 1 if catalogue.classes is not None else min(min_visible, catalogue.group_size)


def margins(key: bytes, limit: int) -> Callable[[str], int]:
    """Secret margins on a floor: a keyed hash of a text, below `limit`.

    >>> margin = margins(b"secret", 200)
    >>> margin("sports") == margin("sports"), 0 <= margin("sports") < 200
    (True, True)
    """

    def margin(text: str) -> int:
        digest = hmac.digest(key, text.encode(), hashlib.sha256)
        return int.from_bytes(digest[:8]) % max(limit, 1)

    return margin


def verdicts(
    names: Iterable[str],
    read: Callable[[str], Audience],
    min_audience: int,
    min_difference: int,
    margin: Callable[[str], int] = lambda _: 0,
    together: int = 4,
    stored: Mapping[str, bytes] | None = None,
    min_visible: int = 1,
) -> dict[str, Verdict]:
    """Whether advertisers may use each audience, in the order given.

    `together` is how many audiences are compared at once: 2 is one and another, 3 is one and the
    sum of two others. `read` is called once for each, and again for those that may be close.

    `stored` audiences were usable before, and reports on them may have been seen. They come first,
    as they were then, whether or not they are still named; one that has changed may not be used.
    """
    before = {} if stored is None else stored
    decided: dict[str, Verdict] = {}
    usable = Combinations(together - 1)

    def counts_of(name: str) -> IntArray:
        return unpack_counts(before[name]) if name in before else headcounts(read(name))

    def judge(name: str, mine: IntArray) -> Verdict:
        if mine.sum() < min_audience + margin(name):
            return Verdict(TOO_SMALL, f"have clearly more than {min_audience} people")
        for others in usable.near(mine, 2 * min_difference):  # margins are below the floor
            text = _text(others)
            floor = min_difference + margin(f"{name}\n{text}")
            added = np.sum([sign * counts_of(other) for other, sign in others], axis=0)
            if distance(mine, added) < floor:
                rule = (
                    "differ from every other, and from what others add up to, by clearly more than"
                    f" {min_difference} people"
                )
                return Verdict(TOO_CLOSE, rule, text)
        if ((mine > 0) & (mine < min_visible)).any():
            rule = (
                f"target nobody or at least {min_visible} people of each group (fewer could be "
                "told apart there)"
            )
            return Verdict(TOO_FEW_VISIBLE, rule)
        return Verdict()

    named = list(names)
    for name in [*before, *(name for name in named if name not in before)]:
        try:
            now = headcounts(read(name)) if name in named else None
        except KreachError:
            now, decided[name] = None, Verdict(NOT_HERE, "be readable on this catalogue")
        mine = unpack_counts(before[name]) if name in before else now
        if mine is None:
            continue
        verdict = judge(name, mine)
        if name in before or verdict.reason is None:
            usable.add(name, mine)
        if now is not None:
            same = np.array_equal(now, mine)
            decided[name] = verdict if same else Verdict(CHANGED, _NEW_NAME)
    return {name: decided[name] for name in named}


def _text(others: Signed) -> str:
    """For operators: added audiences first."""
    first, *rest = sorted(others, key=lambda one: -one[1])
    return first[0] + "".join(f" {'+' if sign > 0 else '−'} {name}" for name, sign in rest)
