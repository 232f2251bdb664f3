"""Exposures known by how many people have which frequency; several parts pooled into one."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from kreach.adsystem.measurement.exposure import CertifiedBounds, Exposure
from kreach.adsystem.measurement.set_exposures import SetExposure, table_law
from kreach.numeric.exposure import ExposureLaw
from kreach.numeric.types import FloatArray

__all__ = ["PooledExposure", "TableExposure"]


class TableExposure(SetExposure):
    """An exposure known by its people in all and how many have which frequency."""

    visits = "visit model"

    @abstractmethod
    def table(self, top: int) -> FloatArray:
        """Expected people with 0, 1, ..., top impressions, and with more."""

    def law(self, rows: slice, top: int) -> ExposureLaw:
        return table_law(self.table(top), float(self.people[0]))


class PooledExposure(TableExposure):
    """Several parts together, consistent with each of them alone."""

    def __init__(self, inner: Exposure, each: Sequence[Exposure]) -> None:
        self.inner, self._each = inner, each
        self.basis, self.model_error = inner.basis, inner.model_error

    @property
    def people(self) -> FloatArray:
        return np.array([float(self.inner.people.sum())])

    @property
    def max_trials(self) -> int:
        return self.inner.max_trials

    @property
    def targeted_impressions(self) -> float:
        return self.inner.targeted_impressions

    def table(self, top: int) -> FloatArray:
        above = _at_least(self.inner, top)
        alone = [_at_least(each, top) for each in self._each]
        above = np.maximum(above, np.max(alone, axis=0))
        within_cap = np.minimum(np.cumsum(above), np.cumsum(np.sum(alone, axis=0)))
        above = np.diff(within_cap, prepend=0.0)
        exactly = above - np.append(above[1:], 0.0)
        return np.concatenate([[max(float(self.people[0]) - above[0], 0.0)], exactly])

    def reach(self, cap: int) -> float:
        least, most = self.certified_bounds(cap).bounds
        return min(max(super().reach(cap), float(least)), float(most))

    def variance(self, cap: int) -> float:
        return self.inner.variance(cap)

    def at_least_variance(self, count: int) -> float:
        return self.inner.at_least_variance(count)

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        return self.inner.certified_bounds(cap)


def _at_least(exposure: Exposure, top: int) -> FloatArray:
    """Expected people with at least 1, 2, ..., top + 1 impressions."""
    exactly = exposure.frequency(top + 1)
    result: FloatArray = np.cumsum(exactly[::-1])[::-1][1:]
    return result
