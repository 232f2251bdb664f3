"""The exposure of one audience to one set of impressions: the source of every reported figure.

An exposure is a table of *rows* of people who are alike, each with a head-count and an exposure
law, plus what depends on how people share groups (variance, bounds, distribution). One class per
kind of audience answers; `expose` picks it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import singledispatch
from typing import NamedTuple

import numpy as np

from kreach.boundary.audience import Audience
from kreach.boundary.visit_model import ModelError
from kreach.errors import KreachError
from kreach.numeric.exposure import ExposureLaw
from kreach.numeric.groupreach import GroupKind
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["Bounds", "CertifiedBounds", "Exposure", "ServedKind", "expose"]

_TABLE_CELLS = 1 << 21


class Bounds(NamedTuple):
    """Least and most reach that any assignment of the impressions to members allows."""

    least: int
    most: int


class CertifiedBounds(NamedTuple):
    """Bounds, and for each whether it is known to be attained by some assignment."""

    bounds: Bounds
    attained: tuple[bool, bool]


class ServedKind(NamedTuple):
    """So many groups of one kind, each with the same impressions."""

    kind: GroupKind
    impressions: int
    groups: int


class Exposure(ABC):
    """Impressions on an audience, folded to rows of people who are alike."""

    basis: str  # theorem and assumptions that the numbers rest on
    visits: str = "uniform"  # how people of a group share its impressions, in short
    model_error: ModelError | None = None  # of the visit model in replays of history
    bounds_are_cheap = False  # even where groups are not independent

    @property
    @abstractmethod
    def people(self) -> FloatArray:
        """Targeted head-count of each row."""

    @abstractmethod
    def law(self, rows: slice, top: int) -> ExposureLaw:
        """The exposure law of the given rows, with a column for each count up to top."""

    @property
    @abstractmethod
    def max_trials(self) -> int:
        """The largest number of impressions that one person can have seen."""

    @property
    @abstractmethod
    def targeted_impressions(self) -> float:
        """Expected impressions on targeted people."""

    @abstractmethod
    def variance(self, cap: int) -> float:
        """Exact variance of reach."""

    @abstractmethod
    def at_least_variance(self, count: int) -> float:
        """Exact variance of the number of targeted people with at least `count` impressions."""

    @abstractmethod
    def certified_bounds(self, cap: int) -> CertifiedBounds:
        """Least and most possible reach."""

    @abstractmethod
    def served_kinds(self) -> list[ServedKind] | None:
        """The independent groups that reach is a sum over; None where groups share people."""

    @abstractmethod
    def unfolded(self) -> tuple[Audience, IntArray] | None:
        """Groups and impressions that fold to the same rows, to simulate on; None if unknown."""

    def reach(self, cap: int) -> float:
        """Σ E[min(X_i, cap)] over targeted people (Theorem 1 and 5, alternative form)."""
        if cap >= self.max_trials:
            return self.targeted_impressions  # nobody can be over the cap
        return float(sum(people @ law.capped_mean(cap) for people, law in self._laws(cap - 1)))

    def over_exposed(self, cap: int) -> float:
        """Σ P(X_i > cap) over targeted people (Theorem 3)."""
        if cap >= self.max_trials:
            return 0.0
        return float(sum(people @ law.tail for people, law in self._laws(cap)))

    def frequency(self, top: int) -> FloatArray:
        """Expected targeted people who saw it 0, 1, ..., top − 1 times, and top times or more."""
        result = np.zeros(top + 1)
        largest = min(top - 1, self.max_trials)
        for people, law in self._laws(largest):
            result[: largest + 1] += people @ law.pmf
            result[largest + 1] += people @ law.tail
        return result

    def _laws(self, top: int) -> Iterator[tuple[FloatArray, ExposureLaw]]:
        people = self.people
        step = max(1, _TABLE_CELLS // (top + 2))
        for low in range(0, len(people), step):
            rows = slice(low, low + step)
            yield people[rows], self.law(rows, top)


@singledispatch
def expose(audience: Audience, impressions_by_group: IntArray) -> Exposure:
    """Fold validated impressions on an audience; each kind of audience registers its own fold."""
    raise KreachError.rule("audience", "be a kreach Audience", type(audience).__name__)
