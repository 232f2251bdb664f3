"""A small world: people who visit, a publisher who hides them in groups, a campaign that wins.

The truth (who saw what) and what the ad system sees (counts by group) are separate values, so an
experiment hands over the second and keeps the first to score against.
"""

from dataclasses import dataclass

import numpy as np

from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["SimulatedFlight", "World", "simulate_flight"]


@dataclass(frozen=True)
class World:
    """Groups of equal size whose members' visit shares are drawn from Dirichlet(dispersion)."""

    group_count: int
    group_size: int
    dispersion: float  # infinity: everybody visits equally often

    def __post_init__(self) -> None:
        for name in ("group_count", "group_size"):
            if getattr(self, name) < 1:
                raise KreachError.rule(name, "be at least 1", getattr(self, name))
        if not self.dispersion > 0.0:
            raise KreachError.rule("dispersion", "be a number > 0", self.dispersion)


@dataclass(frozen=True)
class SimulatedFlight:
    """What happened. `impressions_by_group` crosses to the ad system, the rest is the truth."""

    impressions_by_group: IntArray
    impressions_by_person: IntArray  # (groups, members)

    def true_reach(self, cap: int) -> int:
        """Σ min(X_i, cap) of what really happened."""
        return int(np.minimum(self.impressions_by_person, cap).sum())

    def true_over_exposed(self, cap: int) -> int:
        """People who really saw it more than cap times."""
        return int((self.impressions_by_person > cap).sum())

    def true_frequency(self, top: int) -> IntArray:
        """People who really saw it 0, 1, ..., top − 1 times, and top times or more."""
        return np.bincount(np.minimum(self.impressions_by_person, top).ravel(), minlength=top + 1)


def simulate_flight(
    world: World, impressions: int, generator: np.random.Generator
) -> SimulatedFlight:
    """Spread impressions evenly over groups at random; members see them by their visit shares."""
    if impressions < 0:
        raise KreachError.rule("impressions", "be at least 0", impressions)
    even = np.full(world.group_count, 1.0 / world.group_count)
    by_group = generator.multinomial(impressions, even)
    shares: FloatArray
    if np.isinf(world.dispersion):
        shares = np.full((world.group_count, world.group_size), 1.0 / world.group_size)
    else:
        shares = generator.dirichlet(
            np.full(world.group_size, world.dispersion), size=world.group_count
        )
    by_person = generator.multinomial(by_group, shares)
    return SimulatedFlight(by_group, by_person)
