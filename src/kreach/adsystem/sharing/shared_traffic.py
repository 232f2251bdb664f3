"""Requests by group of all bidders: plans extrapolate the traffic that the fleet will have."""

import time
from collections.abc import Mapping

import numpy as np

from kreach.adsystem.bidding.arrivals import Traffic
from kreach.numeric.types import IntArray

__all__ = ["Requests", "SharedTraffic"]

_SECONDS_PER_GROUP = 2e-6  # between two readings of the counts, which take time on the loop

Requests = tuple[str, IntArray, IntArray]
"""A catalogue's version, groups, and how many requests of each."""


class SharedTraffic:
    """Collects the own requests to publish, adds those of others. Used by the event loop.

    Rates are estimates: what was published just before Redis was lost is not published again.
    """

    def __init__(self) -> None:
        self._published: dict[str, IntArray] = {}
        self._collected_at = 0.0

    def collect(self, traffic: Mapping[str, Traffic]) -> list[Requests]:
        """Own requests since the last call, by catalogue version; none at the first call."""
        now = time.monotonic()
        group_count = sum(len(one.by_group) for one in traffic.values())
        if now - self._collected_at < group_count * _SECONDS_PER_GROUP:
            return []
        self._collected_at = now
        new = []
        for version, own in traffic.items():
            counts = np.frombuffer(own.by_group, dtype=np.uint32).astype(np.int64)
            before = self._published.get(version)
            self._published[version] = counts
            if before is not None and len(before) == len(counts):
                groups = np.flatnonzero(counts - before)
                if len(groups):
                    new.append((version, groups, (counts - before)[groups]))
        return new

    def restore(self, unpublished: list[Requests]) -> None:
        """Publishing failed: collect these again."""
        for version, groups, requests in unpublished:
            np.subtract.at(self._published[version], groups, requests)

    def add(self, traffic: Mapping[str, Traffic], others: list[Requests]) -> None:
        """Add requests of other bidders; they are not published again as own ones."""
        for version, groups, requests in others:
            own = traffic.get(version)
            if own is None or not len(groups) or groups.max() >= len(own.by_group):
                continue
            by_group = np.frombuffer(own.by_group, dtype=np.uint32)
            np.add.at(by_group, groups, requests.astype(np.uint32))
            own.total += int(requests.sum())
            if version in self._published:
                np.add.at(self._published[version], groups, requests)
