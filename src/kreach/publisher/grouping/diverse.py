"""Any strategy, with diversity floors on sensitive attributes."""

from dataclasses import dataclass, field, replace

import numpy as np

from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.publisher.grouping.base import FORMED_BY_VISITS, Strategy
from kreach.publisher.grouping.diversity import DiversityFloors, SensitiveValues
from kreach.publisher.grouping.overlapping import Overlapping
from kreach.publisher.grouping.segments import BySegments
from kreach.publisher.grouping.spreading import Line, spread_values
from kreach.publisher.people import People

__all__ = ["Diverse"]


@dataclass(frozen=True)
class Diverse:
    """Groups of a strategy in which every group holds the floors (see spreading.py).

    Of overlapping groups the bundles hold them, and so does everything made of bundles: groups and
    combinations of groups. Without `best_effort` floors that cannot be held are refused; with it,
    they are held as far as possible (to fit a model on a part of the people).
    """

    strategy: Strategy
    sensitive: tuple[str, ...]
    floors: DiversityFloors = field(default_factory=DiversityFloors)
    best_effort: bool = False

    def __post_init__(self) -> None:
        if not self.sensitive:
            raise KreachError.rule("sensitive", "name at least one column", "none")

    @property
    def name(self) -> str:
        """That of the strategy."""
        return self.strategy.name

    def lenient(self) -> "Diverse":
        """The same with best effort."""
        return replace(self, best_effort=True)

    def __call__(self, people: People, group_size: int, generator: np.random.Generator) -> IntArray:
        if isinstance(self.strategy, Overlapping):
            bundle = self._spread(people, self.strategy.bundles(people, generator), generator)
            return self.strategy.cross(bundle, group_size, generator)
        groups = self.strategy(people, group_size, generator)
        return self._spread(people, groups, generator)

    def _spread(self, people: People, groups: IntArray, generator: np.random.Generator) -> IntArray:
        columns = [SensitiveValues(people.attribute(name)) for name in self.sensitive]
        line = self._line(people, groups, generator)
        return spread_values(
            line, self.sensitive, columns, self.floors, best_effort=self.best_effort
        )

    def _line(self, people: People, groups: IntArray, generator: np.random.Generator) -> Line:
        """Groups in the order of the strategy: by cell, then by visits or as they were formed."""
        sizes = np.bincount(groups)
        cells = np.zeros((len(sizes), 0), dtype=np.int64)
        if isinstance(self.strategy, BySegments):
            cells = _common_values(people.codes(self.strategy.attributes), groups, sizes)
        chance = generator.random(people.count)
        rate = np.arange(len(sizes), dtype=np.float64)
        inside = chance
        if self.name in FORMED_BY_VISITS:
            rate = np.bincount(groups, weights=people.visits) / sizes
            inside = people.visits.astype(np.float64)
        order = np.lexsort((rate, *cells.T[::-1]))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return Line(np.lexsort((chance, inside, place[groups])), sizes[order], cells[order])


def _common_values(codes: IntArray, groups: IntArray, sizes: IntArray) -> IntArray:
    """For each group the codes that all its members share, −1 from the first that they do not."""
    order = np.argsort(groups, kind="stable")
    starts = np.cumsum(sizes) - sizes
    low = np.minimum.reduceat(codes[order], starts, axis=0)
    high = np.maximum.reduceat(codes[order], starts, axis=0)
    shared = np.cumprod(low == high, axis=1).astype(np.bool_)
    return np.where(shared, low, -1)
