"""What a study of the cost of anonymity says about groups of another size."""

from dataclasses import dataclass
from math import log
from typing import Any

__all__ = ["Study"]

_BUYER = "planning_recency"  # the bidder that plans, as the ad system's does


@dataclass(frozen=True)
class Study:
    """Reach at equal budget by the size of groups, of one way of grouping."""

    strategy: str
    by_size: dict[int, float]

    @classmethod
    def of(cls, tradeoff: dict[str, Any] | None) -> "Study | None":
        """The first way of grouping that was studied with the bidder that plans."""
        for strategy, approaches in (tradeoff or {}).get("relative_reach", {}).items():
            found = {size: band[0] for size, band in approaches.get(_BUYER, {}).items()}
            if found and min(found.values()) > 0.0:
                return cls(strategy, dict(sorted(found.items())))
        return None

    @property
    def sizes(self) -> list[int]:
        """The sizes that were studied, ascending."""
        return list(self.by_size)

    def nearest(self, size: float) -> int:
        """The studied size that is closest to another, by their ratio."""
        return min(self.by_size, key=lambda known: abs(log(known) - log(size)))

    def factor(self, size: float, other: float) -> float:
        """Reach in groups of `other` over reach in groups of `size`, at equal budget.

        Between studied sizes reach is taken to be linear in ln k, beyond them constant.
        """
        return self._at(other) / self._at(size)

    def _at(self, size: float) -> float:
        known = [(log(k), reach) for k, reach in self.by_size.items()]
        at = min(max(log(size), known[0][0]), known[-1][0])
        below = max(one for one in known if one[0] <= at)
        above = min(one for one in known if one[0] >= at)
        width = above[0] - below[0]
        return below[1] if not width else below[1] + (above[1] - below[1]) * (at - below[0]) / width
