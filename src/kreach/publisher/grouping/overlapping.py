"""Overlapping groups: several partitions at once, with a floor on every membership class.

In m independent random partitions almost everybody has a unique combination of groups, which
identifies the person. So people are first put into bundles of at least `floor` that stay together
in every partition; the partitions shuffle bundles. A class (a combination of
groups) is then one or more whole bundles.
"""

from dataclasses import dataclass

import numpy as np

from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.grouping.base import cut_in_order
from kreach.publisher.people import People

__all__ = ["Overlapping"]


@dataclass(frozen=True)
class Overlapping:
    """m partitions into groups of at least k, every class of at least `floor` people."""

    partitions: int = 2
    floor: int = 10
    name = "overlapping"

    def __post_init__(self) -> None:
        if self.partitions < 1:
            raise KreachError.rule("partitions", "be at least 1", self.partitions)
        if self.floor < 1:
            raise KreachError.rule("floor", "be at least 1", self.floor)

    def __call__(self, people: People, group_size: int, generator: np.random.Generator) -> IntArray:
        return self.cross(self.bundles(people, generator), group_size, generator)

    def bundles(self, people: People, generator: np.random.Generator) -> IntArray:
        """The bundle of each person; whoever shares one stays together in every partition."""
        return cut_in_order(generator.permutation(people.count), min(self.floor, people.count))

    def cross(self, bundle: IntArray, group_size: int, generator: np.random.Generator) -> IntArray:
        """Partitions that shuffle these bundles."""
        bundles = int(bundle.max()) + 1
        smallest = int(np.bincount(bundle).min())
        per_group = -(-group_size // smallest)  # bundles that make at least k
        layers, next_group = [], 0
        for _ in range(self.partitions):
            group_of_bundle = np.zeros(bundles, dtype=np.int64)
            if bundles >= per_group:
                group_of_bundle = cut_in_order(generator.permutation(bundles), per_group)
            layers.append(next_group + group_of_bundle[bundle])
            next_group += int(group_of_bundle.max()) + 1
        return np.stack(layers, axis=1)
