"""p(n) of classes of group, tabulated once for all campaigns that count alike."""

import pickle
from hashlib import sha256

import numpy as np

from kreach.adsystem.bidding.group_kinds import KindProbability, Passing
from kreach.numeric.types import FloatArray, IntArray
from kreach.service.lru_cache import LruCache

__all__ = ["ClassProbability"]

_TABULATED = 4_096  # impressions; few plans reach beyond, with few points each
_FIRST = 64
_TABLES = LruCache[bytes, FloatArray](max_weight=64)
"""p(0), p(1), ... by class, a row each. Plans are solved in a process of their own, which gets a
copy of each planner: tables are found by what they are made of."""


class ClassProbability:
    """p(n) of each class, and what a publisher lets through."""

    def __init__(
        self, probability: KindProbability, members: IntArray, passing: Passing | None
    ) -> None:
        """`members`: a kind of each class."""
        self._members = members
        self._probability, self._passing = probability, passing
        self._key: bytes | None = None

    def at(self, number: IntArray, impressions: FloatArray) -> FloatArray:
        """p after so many impressions, rounded; given is the class of each."""
        n = np.rint(np.maximum(impressions, 0.0)).astype(np.int64)
        most = int(n.max(initial=0))
        table = self._up_to(min(most, _TABULATED - 1))
        if most < _TABULATED:
            result: FloatArray = table[number, n]
            return result
        near = n < _TABULATED
        result = np.empty(len(n))
        result[near] = table[number[near], n[near]]
        far = n[~near].astype(np.float64)
        result[~near] = self._probability(self._members[number[~near]], far)
        return result

    def _up_to(self, most: int) -> FloatArray:
        """The table, with at least p(most)."""
        if self._key is None:
            made_of = pickle.dumps((self._probability, self._members), pickle.HIGHEST_PROTOCOL)
            self._key = sha256(made_of).digest()
        classes = len(self._members)
        table = _TABLES.get(self._key)
        if table is None:
            table = np.zeros((classes, 0))
        length = table.shape[1]
        if most >= length:
            more = np.arange(length, max(most + 1, 2 * length, _FIRST), dtype=np.float64)
            added = self._probability(np.repeat(self._members, len(more)), np.tile(more, classes))
            table = np.concatenate([table, added.reshape(classes, -1)], axis=1)
            _TABLES.put(self._key, table)
        return table

    def passing(self, number: IntArray, impressions: FloatArray) -> FloatArray | None:
        """The probability that a bid is not dropped, likewise; None if none are."""
        if self._passing is None:
            return None
        result = np.empty(len(number))
        for one in np.unique(number).tolist():
            mine = number == one
            result[mine] = self._passing(int(self._members[one]), impressions[mine])
        return result
