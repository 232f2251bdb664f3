"""Groups of people who visit about equally often, so that the uniform formula holds inside."""

import numpy as np

from kreach.numeric.types import IntArray
from kreach.publisher.grouping.base import cut_in_order
from kreach.publisher.people import People

__all__ = ["ByRates"]


class ByRates:
    """Sort by past visits, ties at random, and cut."""

    name = "rates"

    def __call__(self, people: People, group_size: int, generator: np.random.Generator) -> IntArray:
        order = np.lexsort((generator.random(people.count), people.visits))
        return cut_in_order(order, group_size)
