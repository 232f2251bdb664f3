"""The lookup table of the gateway: user id → group id."""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from kreach.boundary.catalogue import Catalogue
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = ["CHOICES", "GroupLookup", "VisitorGroup", "sticky_partition", "substitute_row"]

CHOICES = ("sticky", "each_visit")
_STEP = 10_000  # users added at a time, so that other threads can run in between


@dataclass(frozen=True, slots=True)
class VisitorGroup:
    """All that leaves the gateway for a visit: an opaque group id and the catalogue's version."""

    group: str
    catalogue: str


def substitute_row(key: bytes, user_id: str, people: int) -> int:
    """The row of the member that an unknown user is treated like, by a keyed hash of the id."""
    return _keyed_hash(key, user_id, b"group") % people


def sticky_partition(key: bytes, user_id: str, partitions: int) -> int:
    """Which of a user's overlapping groups is always named, by a keyed hash of the id."""
    return _keyed_hash(key, user_id, b"layer") % partitions


def _keyed_hash(key: bytes, user_id: str, purpose: bytes) -> int:
    digest = hashlib.blake2b(
        user_id.encode("utf-8", "surrogatepass"), key=key[:64], person=purpose, digest_size=8
    )
    return int.from_bytes(digest.digest(), "big")


class GroupLookup:
    """User id → one group of the catalogue, in memory and in O(1).

    **Unknown users** are treated like a member that a keyed hash of their id picks: the same one
    while the catalogue is served, so each group gets unknown users in proportion to its size. A
    group gains a visitor and loses nobody, so nobody's anonymity shrinks; the catalogue's sizes
    understate it, and nothing marks an unknown user.

    **Overlapping groups.** Which of a user's groups is named matters to an observer who can tell
    that several visits are one person's (by time or place). "sticky": always the same one, by keyed
    hash; such an observer learns that one group and no more. "each_visit": a random one; the
    observer in time learns all of them, that is the membership class, which the floor keeps large.
    The formulas for overlapping audiences assume that a request of a group may be from any of its
    members. That is so with "each_visit"; with "sticky" only those whose hash chose the group ever
    show up under it, and reach is overstated when the groups are won unevenly.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        user_ids: Iterable[str],
        group_indices: IntArray,
        *,
        key: bytes,
        choice: str = "sticky",
    ) -> None:
        if choice not in CHOICES:
            raise KreachError.rule("choice", f"be one of {', '.join(CHOICES)}", choice)
        if len(key) < 16:
            raise KreachError.rule("key", "have at least 16 bytes", f"{len(key)} bytes")
        if len(group_indices) == 0:
            raise KreachError.rule("group_indices", "hold at least one person", "nobody")
        if group_indices.min() < 0 or group_indices.max() >= len(catalogue):
            rule = f"name groups of the catalogue (0 to {len(catalogue) - 1})"
            value = f"{group_indices.min()} to {group_indices.max()}"
            raise KreachError.rule("group_indices", rule, value)
        ids = list(user_ids)
        if len(ids) != len(group_indices):
            raise KreachError.rule("user_ids", f"match the {len(group_indices)} people", len(ids))
        self._rows: dict[str, int] = {}
        for start in range(0, len(ids), _STEP):
            batch = ids[start : start + _STEP]
            self._rows.update(zip(batch, range(start, start + len(batch)), strict=True))
        if len(self._rows) != len(ids):
            duplicates = f"{len(ids) - len(self._rows)} duplicates"
            raise KreachError.rule("user_ids", "be unique", duplicates)
        self.version, self.groups = catalogue.version, catalogue.groups
        self.memory_hours = catalogue.memory_hours  # as the buyer was told
        self._key = key
        self._choice = choice
        self._answers = [VisitorGroup(group, catalogue.version) for group in catalogue.groups]
        self._first: list[int] = group_indices[:, 0].tolist()
        self._group_indices = group_indices
        self._partitions = group_indices.shape[1]

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, user_id: object) -> bool:
        return user_id in self._rows

    def identify(self, user_id: str) -> VisitorGroup:
        """The group to name for a visit of this user."""
        row = self._rows.get(user_id) if isinstance(user_id, str) else None
        if row is None:
            row = self._substitute_row(user_id)
        if self._partitions == 1:
            return self._answers[self._first[row]]
        if self._choice == "sticky":
            partition = sticky_partition(self._key, user_id, self._partitions)
        else:
            partition = secrets.randbelow(self._partitions)
        return self._answers[int(self._group_indices[row, partition])]

    def _substitute_row(self, user_id: object) -> int:
        """The member that an unknown user is treated like."""
        if not isinstance(user_id, str) or not user_id:  # never quote an id
            raise KreachError("user_id must be a non-empty text", field="user_id")
        return substitute_row(self._key, user_id, len(self._first))
