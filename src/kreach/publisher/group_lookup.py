"""Which group is this visitor? The table that turns a user id into a group id, and nothing else."""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from kreach.boundary.catalogue import Catalogue
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = ["Gateway", "Identified"]

CHOICES = ("sticky", "each_visit")
_STEP = 10_000  # people between two chances for other threads: a service answers meanwhile


@dataclass(frozen=True, slots=True)
class Identified:
    """All that leaves the gateway for a visit: an opaque group id and the catalogue's version."""

    group: str
    catalogue: str


class Gateway:
    """User id → one group of the current version; O(1) and in memory.

    **Unknown users** are treated like a member, picked by a keyed hash of their id: always the same
    one while the catalogue lasts, so each group gets strangers in proportion to its size. A group
    gains a visitor and loses nobody, so nobody's anonymity shrinks; the catalogue's sizes then
    understate it, and nothing marks a stranger as one.

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
        placed: IntArray,
        *,
        key: bytes,
        choice: str = "sticky",
    ) -> None:
        if choice not in CHOICES:
            raise KreachError.rule("choice", f"be one of {', '.join(CHOICES)}", choice)
        if len(key) < 16:
            raise KreachError.rule("key", "have at least 16 bytes", f"{len(key)} bytes")
        if len(placed) == 0:
            raise KreachError.rule("placed", "hold at least one person", "nobody")
        if placed.min() < 0 or placed.max() >= len(catalogue):
            rule = f"name groups of the catalogue (0 to {len(catalogue) - 1})"
            raise KreachError.rule("placed", rule, f"{placed.min()} to {placed.max()}")
        self._key = key[:64]
        self._choice = choice
        self.version, self.groups = catalogue.version, catalogue.groups
        self._answers = [Identified(group, catalogue.version) for group in catalogue.groups]
        self._layers = placed.shape[1]
        ids = list(user_ids)
        if len(ids) != len(placed):
            raise KreachError.rule("user_ids", f"match the {len(placed)} people", len(ids))
        self._table: dict[str, int] = {}
        for start in range(0, len(ids), _STEP):
            part = ids[start : start + _STEP]
            self._table.update(zip(part, range(start, start + len(part)), strict=True))
        self._first: list[int] = placed[:, 0].tolist()
        self._placed = placed
        if len(self._table) != len(ids):
            raise KreachError.rule(
                "user_ids", "be unique", f"{len(ids) - len(self._table)} repeats"
            )

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, user_id: object) -> bool:
        return user_id in self._table

    def identify(self, user_id: str) -> Identified:
        """The group to name for a visit of this user."""
        row = self._table.get(user_id) if isinstance(user_id, str) else None
        if row is None:
            row = self._stand_in(user_id)
        if self._layers == 1:
            return self._answers[self._first[row]]
        if self._choice == "sticky":
            layer = self._hash(user_id, b"layer") % self._layers
        else:
            layer = secrets.randbelow(self._layers)
        return self._answers[int(self._placed[row, layer])]

    def _stand_in(self, user_id: object) -> int:
        """The member that a stranger is treated like."""
        if not isinstance(user_id, str) or not user_id:
            raise KreachError("user_id must be a text that is not empty")  # never echo an id
        return self._hash(user_id, b"group") % len(self._first)

    def _hash(self, user_id: str, purpose: bytes) -> int:
        digest = hashlib.blake2b(
            user_id.encode("utf-8", "surrogatepass"), key=self._key, person=purpose, digest_size=8
        )
        return int.from_bytes(digest.digest(), "big")
