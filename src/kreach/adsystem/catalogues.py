"""The catalogues that the settings name, and the audiences on them."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass

import numpy as np

from kreach.adsystem.settings import EVERYONE, AdSystemSettings
from kreach.boundary.audience import (
    Audience,
    DisjointAudience,
    OverlappingAudience,
    ProfiledAudience,
)
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import read_catalogue, read_groups
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = [
    "check_unchanged",
    "headcounts",
    "read_audience",
    "read_catalogues",
    "visible_per_group",
]


def read_audience(settings: AdSystemSettings, catalogue: Catalogue, name: str) -> Audience:
    """An audience on a catalogue: everyone, or the head-counts of a groups file.

    Counts that the publisher promised not to release (`min_visible`) are refused.
    """
    if name == EVERYONE:
        return catalogue.audience()
    if name not in settings.audiences:
        known = ", ".join([EVERYONE, *settings.audiences])
        raise KreachError.rule("audience", f"be one of {known}", name)
    ids, stated = read_groups(settings.audiences[name])
    by_group = [0] * len(catalogue)
    for group, count in zip(ids, headcounts(stated).tolist(), strict=True):
        by_group[catalogue.index(group)] = int(count)
    requests = stated.requests if isinstance(stated, DisjointAudience) else "everyone"
    return catalogue.audience(by_group, requests)


def read_catalogues(settings: AdSystemSettings) -> list[Catalogue]:
    """The released catalogues, the newest last."""
    if not settings.catalogues:
        raise KreachError.rule("catalogues", "name at least one released folder", "none")
    found = [
        read_catalogue(path / "release" if (path / "release").is_dir() else path)
        for path in settings.catalogues
    ]
    if len({catalogue.version for catalogue in found}) != len(found):
        raise KreachError.rule("catalogues", "be of different versions", "a repeated version")
    return found


def check_unchanged(known: Mapping[str, Catalogue], read: Iterable[Catalogue]) -> None:
    """Refuse other groups under a version that is in use: rows of the log would be of both."""
    for catalogue in read:
        before = known.get(catalogue.version)
        if before is not None and not _same(before, catalogue):
            rule = "have a new version if anything in it differs from the one in use"
            raise KreachError.rule("catalogues", rule, catalogue.version)


def _same(one: object, other: object) -> bool:
    """Whether two values of a release are the same, in all their fields."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, tuple) and one and isinstance(one[0], np.ndarray):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(_same, one, other))
    if is_dataclass(one) and type(one) is type(other):
        return all(_same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return one == other


def visible_per_group(audience: Audience) -> tuple[int, float]:
    """The fewest targeted people of a group that holds any, and the median; 0 if nobody is.

    A campaign sees no more than these people; how many of them visit is known to the publisher.
    """
    held = headcounts(audience)
    held = held[held > 0]
    return (int(held.min()), float(np.median(held))) if held.size else (0, 0.0)


def headcounts(audience: Audience) -> IntArray:
    """Targeted people by group; with overlapping groups, by membership class."""
    if isinstance(audience, DisjointAudience):
        return audience.targeted_counts
    if isinstance(audience, OverlappingAudience):
        return audience.headcounts
    if isinstance(audience, ProfiledAudience):
        return audience.group_sizes
    raise KreachError.rule("audience", "be of a known kind", type(audience).__name__)
