"""Groups at random: the paper's study."""

import numpy as np

from kreach.numeric.types import IntArray
from kreach.publisher.grouping.base import cut_evenly
from kreach.publisher.people import People

__all__ = ["AtRandom"]


class AtRandom:
    """Shuffle all people and cut."""

    name = "random"

    def __call__(self, people: People, group_size: int, generator: np.random.Generator) -> IntArray:
        groups = np.empty(people.count, dtype=np.int64)
        groups[generator.permutation(people.count)] = cut_evenly(
            np.array([people.count]), group_size
        )
        return groups
