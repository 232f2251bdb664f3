"""A sample of an audience's groups that a plan is simulated on, and what it stands for."""

from dataclasses import dataclass, replace

import numpy as np

from kreach.adsystem.bidding.group_visits import visits_by_group
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.types import FloatArray

__all__ = ["GroupSample"]

_DRAWN = 20  # groups whose visits are drawn for each that is chosen: drawing takes time


@dataclass(frozen=True, eq=False)
class GroupSample:
    """Groups with their weights of traffic; the audience has `scale` times as many people.

    Disjoint groups of one kind and traffic behave alike, so a sample that has every kind in
    proportion loses nothing but the luck of simulated flights.
    """

    audience: Audience
    weights: FloatArray
    scale: float = 1.0

    @classmethod
    def by_visits(
        cls, audience: Audience, model: VisitModel | None, max_groups: int
    ) -> "GroupSample":
        """A sample of groups that people visit by their law (`visits_by_group`)."""
        sizes = audience.group_sizes.astype(np.float64)
        drawn = cls.of(audience, sizes, _DRAWN * max_groups)
        found = cls.of(drawn.audience, visits_by_group(drawn.audience, model), max_groups)
        return replace(found, scale=drawn.scale * found.scale)

    @classmethod
    def of(cls, audience: Audience, weights: FloatArray, max_groups: int) -> "GroupSample":
        """Every so manyth group in the order of kind and traffic; all, if they are at most so many.

        >>> sample = GroupSample.of(Audience.disjoint([20, 30] * 500), np.ones(1000), 10)
        >>> sample.audience, sample.scale
        (DisjointAudience(groups=10, targeted=250, visits=uniform), 100.0)
        """
        groups = audience.group_count
        if groups <= max_groups or not isinstance(audience, DisjointAudience):
            return cls(audience, weights)
        kinds = audience.kinds.of_group
        order = np.lexsort((weights,) if kinds is None else (weights, kinds))
        chosen = order[((np.arange(max_groups) + 0.5) * (groups / max_groups)).astype(np.int64)]
        spread = audience.dispersion
        sampled = DisjointAudience(
            audience.group_sizes[chosen],
            audience.targeted_counts[chosen],
            None if spread is None else spread[chosen],
            audience.requests,
        )
        held = sampled.targeted_user_count
        if held == 0 or not weights[chosen].any():  # the few that matter are between two
            return cls(audience, weights)
        return cls(sampled, weights[chosen], audience.targeted_user_count / held)
