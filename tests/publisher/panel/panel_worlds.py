"""Small catalogues, and a site whose visits no simple model gets right."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from kreach.boundary.catalogue import Catalogue
from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.visit_history import VisitHistory
from tests.publisher.visit_worlds import visit_world

__all__ = ["FixedReach", "Shown", "catalogue_of", "shown_campaign"]


def catalogue_of(sizes: Sequence[int] | IntArray, version: str = "v") -> Catalogue:
    """Groups of these sizes, with uniform visits for a model."""
    names = tuple(f"g{at}" for at in range(len(sizes)))
    whole = np.array(sizes, dtype=np.int64)
    created = datetime(2026, 1, 1, tzinfo=UTC)
    return Catalogue(version, created, int(whole.min()), names, whole)


@dataclass(frozen=True, eq=False)
class FixedReach:
    """A model with any numbers at all; a row per group."""

    people: FloatArray
    variance: float = 1.0

    def at_least(self, top: int) -> FloatArray:
        return self.people[:, :top]

    def variances(self, cap: int) -> FloatArray:
        return np.full(len(self.people), self.variance * cap)


@dataclass(frozen=True, eq=False)
class Shown:
    """Who saw a campaign, and visits of each group before."""

    catalogue: Catalogue
    past_visits: IntArray
    won: VisitHistory


def shown_campaign(
    groups: int = 400, size: int = 10, *, bought: float = 0.3, uniform: bool = False, seed: int = 1
) -> Shown:
    """A site with sessions, heavy users and habits, of which a share of the requests is bought.

    With `uniform` every impression goes to any member of its group alike, as the paper has it.
    """
    world = visit_world(
        groups * size, size, 8.0, sessions_per_day=0.5, dispersion=0.6, hours=4.0, seed=seed
    )
    history = world.history()
    generator = np.random.default_rng([seed, 1])
    won = history.where(generator.random(len(history)) < bought)
    sizes = np.bincount(world.group_of)
    past = np.bincount(history.group, minlength=len(sizes))
    if uniform:
        member = generator.integers(0, sizes[won.group])
        won = replace(won, person=won.group * int(sizes.max()) + member)
    return Shown(catalogue_of(sizes), past, won)
