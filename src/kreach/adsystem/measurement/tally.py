"""Impressions of one window by group and, with a visit model, their effective draws."""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from kreach.adsystem.measurement.drawn import GroupDraws
from kreach.adsystem.measurement.exposure import Exposure, expose
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.numeric.types import IntArray

__all__ = ["GroupTally"]


@dataclass(frozen=True, eq=False)
class GroupTally:
    """All that a report on an audience needs to know of a log."""

    by_group: IntArray
    draws: GroupDraws | None = None  # without a visit model, or for other than disjoint groups

    @property
    def impressions(self) -> int:
        """Impressions of all groups."""
        return int(self.by_group.sum())

    def exposure(self, audience: Audience) -> Exposure:
        """The exposure of an audience to these impressions."""
        if self.draws is not None and isinstance(audience, DisjointAudience):
            return self.draws.exposure(audience, self.by_group)
        return expose(audience, self.by_group)

    def digest(self) -> bytes:
        """Equal for equal figures: of counts, draws, calendar, span of time and model."""
        digest = blake2b(self.by_group.tobytes())
        if self.draws is not None:
            for values in (self.draws.draws, self.draws.doubt, self.draws.days):
                digest.update(np.ascontiguousarray(values).tobytes())
            digest.update(f"{self.draws.hours!r} {id(self.draws.model)}".encode())
        return digest.digest()
