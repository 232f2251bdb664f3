"""Dispersion of groups that were themselves formed by visits.

Groups of people who visited equally often look perfectly even on the visits that formed them, but
not on later ones. So the same strategy is run on the earlier half of history and its dispersion is
measured on the later half. Visits even out over a longer time; random groups show how much: their
dispersion over all of history, divided by that over the later half, scales the result.
"""

from datetime import datetime

import numpy as np

from kreach.boundary.times import from_micros
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.directory import Directory
from kreach.publisher.grouping.base import Strategy, form_groups
from kreach.publisher.grouping.random import AtRandom
from kreach.publisher.people import People
from kreach.publisher.visit_knowledge import match_dispersion

__all__ = ["cross_fitted_dispersion", "cross_fitted_on_halves"]


def cross_fitted_dispersion(
    directory: Directory,
    people: People,
    strategy: Strategy,
    group_size: int,
    seed: int,
    end: datetime | None = None,
) -> float:
    """Group by the earlier half of the visits before `end`, match dispersion on the later half."""
    times = directory.visits(end=end).at_us
    if len(times) < 2 or times[0] == times[-1]:
        raise KreachError.rule("visits", "span some time to be split", f"{len(times)} visits")
    middle = from_micros(int(times[len(times) // 2]))
    earlier = directory.people(end=middle).visits
    later = directory.people(start=middle, end=end).visits
    return cross_fitted_on_halves(people, earlier, later, strategy, group_size, seed)


def cross_fitted_on_halves(
    people: People,
    earlier: IntArray,
    later: IntArray,
    strategy: Strategy,
    group_size: int,
    seed: int,
) -> float:
    """The same from visits per person in the two halves; `people` has them together."""
    earlier_people = People(earlier, people.attributes)
    groups = form_groups(earlier_people, group_size, strategy, seed).group_of()
    at_random = form_groups(earlier_people, group_size, AtRandom(), seed).group_of()
    longer = match_dispersion(people.visits, at_random)
    shorter = match_dispersion(later, at_random)
    evening_out = longer / shorter if np.isfinite(longer) and np.isfinite(shorter) else 1.0
    return match_dispersion(later, groups) * evening_out
