"""Groups at random: the paper's study."""

import numpy as np

from kreach.numeric.types import IntArray
from kreach.publisher.grouping.base import cut_in_order
from kreach.publisher.people import People

__all__ = ["AtRandom"]


class AtRandom:
    """Shuffle all people and cut."""

    name = "random"

    def __call__(self, people: People, group_size: int, generator: np.random.Generator) -> IntArray:
        return cut_in_order(generator.permutation(people.count), group_size)
