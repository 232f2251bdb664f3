"""Requests by group that came to all bidders: plans need to know what there will be to buy."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kreach.numeric.types import IntArray

if TYPE_CHECKING:
    from kreach.adsystem.bidserver.catalogue_bidder import Desk

__all__ = ["Requests", "SharedTraffic"]

_SECONDS_PER_GROUP = 2e-6  # between two looks at the counts, which take time on the loop

Requests = tuple[str, IntArray, IntArray]
"""A catalogue's version, groups, and how many requests of each."""


class SharedTraffic:
    """What is told of one's own requests, and others' added to it. Used by the event loop.

    Rates are estimates: what Redis was told just before it was lost is not told again.
    """

    def __init__(self) -> None:
        self._told: dict[str, IntArray] = {}
        self._looked_at = 0.0

    def news(self, desks: Mapping[str, "Desk"]) -> list[Requests]:
        """Requests that came since the last look; the first look only remembers."""
        now = time.monotonic()
        groups_in_all = sum(len(desk.catalogue) for desk in desks.values())
        if now - self._looked_at < groups_in_all * _SECONDS_PER_GROUP:
            return []
        self._looked_at = now
        found = []
        for version, desk in desks.items():
            counts = np.frombuffer(desk.traffic.by_group, dtype=np.uint32).astype(np.int64)
            before = self._told.get(version)
            self._told[version] = counts
            if before is not None and len(before) == len(counts):
                groups = np.flatnonzero(counts - before)
                if len(groups):
                    found.append((version, groups, (counts - before)[groups]))
        return found

    def take_back(self, news: list[Requests]) -> None:
        """Nobody was told: it will be among the next news."""
        for version, groups, requests in news:
            np.subtract.at(self._told[version], groups, requests)

    def add(self, desks: Mapping[str, "Desk"], heard: list[Requests]) -> None:
        """Add what came to others, which is not to be told again as one's own."""
        for version, groups, requests in heard:
            desk = desks.get(version)
            if desk is None or not len(groups) or groups.max() >= len(desk.catalogue):
                continue
            by_group = np.frombuffer(desk.traffic.by_group, dtype=np.uint32)
            np.add.at(by_group, groups, requests.astype(np.uint32))
            desk.traffic.total += int(requests.sum())
            if version in self._told:
                np.add.at(self._told[version], groups, requests)
