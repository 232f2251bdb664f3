"""The catalogue: a released set of groups with opaque ids, sizes and visit knowledge."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from math import inf

import numpy as np
import numpy.typing as npt

from kreach.boundary.audience import Audience
from kreach.boundary.checks import as_counts, as_whole_number, read_only
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["Catalogue"]

MembershipClass = tuple[tuple[int, ...], int]


@dataclass(frozen=True, eq=False)
class Catalogue:
    """One version of the groups, for one buyer.

    It is checked when it is created, so both when it leaves the publisher and when the ad system
    reads it: every group has at least `group_size` members, every membership class at least
    `class_floor`, and ids are unique. `min_visible` is the publisher's promise for audiences:
    a campaign targets nobody in a group, or at least so many people (at most `group_size`).
    """

    version: str
    created: datetime
    group_size: int  # k
    groups: tuple[str, ...]  # opaque ids; position = group index
    sizes: IntArray
    dispersion: float | None = None
    visit_shares: tuple[FloatArray, ...] | None = None
    classes: tuple[MembershipClass, ...] | None = None  # overlapping groups only
    class_floor: int = 1
    model: VisitModel | None = None  # how the site's people visit; disjoint groups only
    memory_hours: float | None = None  # how long the gateway remembers showings; None: not stated
    min_visible: int = 1

    def __post_init__(self) -> None:
        for name in ("group_size", "class_floor", "min_visible"):
            as_whole_number(name, getattr(self, name), minimum=1)
        object.__setattr__(self, "sizes", read_only(as_counts("sizes", self.sizes, minimum=1)))
        if not self.version:
            raise KreachError.rule("version", "not be empty", self.version)
        if self.created.tzinfo is None:
            raise KreachError.rule("created", "have a time zone", self.created.isoformat())
        if len(self.groups) != len(self.sizes):
            rule = f"have one entry per group ({len(self.groups)})"
            raise KreachError.rule("sizes", rule, len(self.sizes))
        if len(set(self.groups)) != len(self.groups):
            raise KreachError.rule("groups", "name each group once", "a duplicate id")
        small = np.flatnonzero(self.sizes < self.group_size)
        if small.size:
            rule = f"be at least group_size ({self.group_size})"
            raise KreachError.rule(f"sizes[{small[0]}]", rule, int(self.sizes[small[0]]))
        if self.visit_shares is not None:
            lengths = np.array([len(shares) for shares in self.visit_shares])
            if not np.array_equal(lengths, self.sizes):
                raise KreachError.rule("visit_shares", "hold one share per member", "other lengths")
        if self.memory_hours is not None and not 0.0 < self.memory_hours < inf:
            raise KreachError.rule("memory_hours", "be a number > 0, or None", self.memory_hours)
        self._check_classes()

    def _check_classes(self) -> None:
        for at, (_, headcount) in enumerate(self.classes or ()):
            if headcount < self.class_floor:
                rule = f"have at least class_floor ({self.class_floor}) people"
                raise KreachError.rule(f"classes[{at}]", rule, headcount)
        for name in ("visit_shares", "model"):
            if self.classes is not None and getattr(self, name) is not None:
                raise KreachError.rule(name, "not come with overlapping groups", "both")

    @cached_property
    def _index(self) -> dict[str | None, int]:
        return {group: index for index, group in enumerate(self.groups)}

    def __len__(self) -> int:
        return len(self.groups)

    def __contains__(self, group: object) -> bool:
        return group in self._index

    def index(self, group: str) -> int:
        """The index 0..M−1 of a group id."""
        if group not in self._index:
            raise KreachError.rule("group", f"be in catalogue {self.version}", group)
        return self._index[group]

    def find(self, group: str | None) -> int | None:
        """The index of a group id, or None if there is no such group."""
        return self._index.get(group)

    def finder(self) -> Callable[[str | None], int | None]:
        """A quick `find`: the index is made now, and not by the first who looks for a group."""
        return self._index.get

    def audience(
        self, targeted_counts: npt.ArrayLike | None = None, requests: str = "everyone"
    ) -> Audience:
        """An audience on these groups: everybody, or the given head-count of each group.

        Head-counts above 0 and below `min_visible` are refused, both when an audience leaves the
        publisher and when the ad system reads it. Visit shares are used only when everybody is
        targeted: it is unknown which shares are those of the targeted members.
        """
        if self.classes is not None:
            if targeted_counts is not None:
                rule = "be None for overlapping groups (target by classes)"
                raise KreachError.rule("targeted_counts", rule, "head-counts by group")
            return Audience.overlapping(self.sizes, self.classes)
        if targeted_counts is None and self.visit_shares is not None:
            return Audience.profiled(self.visit_shares)
        audience = Audience.disjoint(self.sizes, targeted_counts, self.dispersion, requests)
        self._check_visible(audience.targeted_counts)
        return audience

    def _check_visible(self, targeted: IntArray) -> None:
        floor = min(self.min_visible, self.group_size)
        small = targeted[(targeted > 0) & (targeted < floor)]
        if small.size:
            rule = (
                f"target nobody or at least {floor} people of each group (min_visible "
                f"of catalogue {self.version})"
            )
            value = f"{small.size} groups with fewer ({int(small.min())} the fewest)"
            raise KreachError.rule("audience", rule, value)
