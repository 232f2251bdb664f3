"""Which group is this visitor? The table that turns a user id into a group id, and nothing else."""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kreach.boundary.catalogue import Catalogue
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = ["Gateway", "Identified"]

CHOICES = ("sticky", "each_visit")


@dataclass(frozen=True, slots=True)
class Identified:
    """All that leaves the gateway for a visit: an opaque group id and the catalogue's version."""

    group: str
    catalogue: str


class Gateway:
    """User id → one group of the current version; O(1) and in memory.

    **Unknown users** get an existing group, chosen by a keyed hash of their id: always the same one
    while the catalogue lasts, and each group in proportion to its size. The group gains a visitor
    and loses nobody, so nobody's anonymity shrinks; the catalogue's sizes then understate it.

    **Overlapping groups.** Which of a user's groups is named matters to an observer who can tell
    that several visits are one person's (by time or place). "sticky": always the same one, by keyed
    hash; such an observer learns that one group and no more. "each_visit": a random one; the
    observer in time learns all of them, that is the membership class, which the floor keeps large.
    The formulas for overlapping audiences hold for both, because every member of a group is as
    likely as any other to be named under it.
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
        self._key = key[:64]
        self._choice = choice
        self._answers = [Identified(group, catalogue.version) for group in catalogue.groups]
        self._layers = placed.shape[1]
        self._size_edges = np.cumsum(catalogue.sizes)
        ids = list(user_ids)
        if len(ids) != len(placed):
            raise KreachError.rule("user_ids", f"match the {len(placed)} people", len(ids))
        if self._layers == 1:
            self._table: dict[str, int] = dict(zip(ids, placed[:, 0].tolist(), strict=True))
        else:  # row numbers; the groups of a row are looked up in `placed`
            self._table = dict(zip(ids, range(len(ids)), strict=True))
        self._placed = placed
        if len(self._table) != len(ids):
            raise KreachError.rule(
                "user_ids", "be unique", f"{len(ids) - len(self._table)} repeats"
            )

    def __len__(self) -> int:
        return len(self._table)

    def identify(self, user_id: str) -> Identified:
        """The group to name for a visit of this user."""
        at = self._table.get(user_id) if isinstance(user_id, str) else None
        if at is None:
            return self._answers[self._group_of_stranger(user_id)]
        if self._layers == 1:
            return self._answers[at]
        if self._choice == "sticky":
            layer = self._hash(user_id, b"layer") % self._layers
        else:
            layer = secrets.randbelow(self._layers)
        return self._answers[int(self._placed[at, layer])]

    def _group_of_stranger(self, user_id: str) -> int:
        if not isinstance(user_id, str) or not user_id:
            raise KreachError("user_id must be a text that is not empty")  # never echo an id
        point = self._hash(user_id, b"group") % int(self._size_edges[-1])
        return int(np.searchsorted(self._size_edges, point, side="right"))

    def _hash(self, user_id: str, purpose: bytes) -> int:
        digest = hashlib.blake2b(
            user_id.encode("utf-8", "surrogatepass"), key=self._key, person=purpose, digest_size=8
        )
        return int.from_bytes(digest.digest(), "big")
