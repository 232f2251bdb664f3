"""Everybody whom several parts reached, by one part alone or by several: tables that add up."""

from collections.abc import Sequence

import numpy as np

from kreach.adsystem.measurement.combination import Chosen
from kreach.adsystem.measurement.exposure import CertifiedBounds, Exposure
from kreach.adsystem.measurement.part_draws import PartDraws
from kreach.adsystem.measurement.pooled_exposure import TableExposure
from kreach.adsystem.measurement.several import several_bounds
from kreach.adsystem.measurement.timed_only import TimedOnly, error_of_difference
from kreach.numeric.types import FloatArray

__all__ = ["Partition", "balanced"]

_ROUNDS = 200
_CLOSE = 1e-12


class Partition:
    """Everybody whom the chosen parts reached: by one part alone, or by several."""

    def __init__(self, parts: PartDraws, chosen: Chosen) -> None:
        self.parts, self.chosen = parts, chosen
        self.union = parts.together(chosen)
        self._onlys = {
            at: TimedOnly(parts, at, tuple(b for b in chosen if b != at)) for at in chosen
        }
        reached = parts.reached(chosen)
        alone = sum(only.reached for only in self._onlys.values())
        if alone > reached > 0.0:
            for only in self._onlys.values():
                only.reached *= reached / alone
        self.reached = max(reached - min(alone, reached), 0.0)
        self._tables: dict[int, FloatArray] = {}

    def table(self, top: int) -> FloatArray:
        """A row per part (only it reached them), one for several; columns 1, ..., top, more."""
        if top not in self._tables:
            shapes = [only.shape(top)[1:] for only in self._onlys.values()]
            lawful = self.parts.law_of(self.chosen).frequency(top + 1)[1:]
            shapes.append(np.maximum(lawful - np.sum(shapes, axis=0), 0.0))
            rows = [only.reached for only in self._onlys.values()] + [self.reached]
            columns = self.union.frequency(top + 1)[1:]
            self._tables[top] = balanced(np.stack(shapes), np.array(rows), columns)
        return self._tables[top]

    def only(self, part: int) -> Exposure:
        """Those whom one part alone reached."""
        return PartOnly(self, self.chosen.index(part), self._onlys[part])

    @property
    def several(self) -> Exposure:
        """Those whom two or more parts reached."""
        return TimedSeveral(self, list(self._onlys.values()))


def balanced(table: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """The table scaled by rows and columns in turns until it sums to both, as near as it can.

    Columns are met exactly, where anything in them can be scaled.
    """
    result = table.astype(np.float64)
    empty = (result.sum(axis=0) <= 0.0) & (columns > 0.0)
    result[:, empty] = rows[:, None] * columns[empty]  # no shape: in proportion
    for _ in range(_ROUNDS):
        sums = result.sum(axis=1)
        result *= np.divide(rows, sums, out=np.zeros_like(rows), where=sums > 0.0)[:, None]
        sums = result.sum(axis=0)
        result *= np.divide(columns, sums, out=np.zeros_like(columns), where=sums > 0.0)
        if np.abs(result.sum(axis=1) - rows).max(initial=0.0) <= _CLOSE * (1.0 + rows.sum()):
            break
    return result


class PartOnly(TableExposure):
    """One row of a partition."""

    def __init__(self, partition: Partition, row: int, inner: TimedOnly) -> None:
        self._partition, self._row, self._inner = partition, row, inner
        self.basis, self.model_error = inner.basis, inner.model_error

    @property
    def people(self) -> FloatArray:
        return self._inner.people

    @property
    def max_trials(self) -> int:
        return self._inner.max_trials

    @property
    def targeted_impressions(self) -> float:
        return self._inner.targeted_impressions

    def table(self, top: int) -> FloatArray:
        seen = self._partition.table(top)[self._row]
        return np.concatenate([[max(float(self.people[0]) - float(seen.sum()), 0.0)], seen])

    def reach(self, cap: int) -> float:
        return float(self.law(slice(None), cap).capped_mean(cap)[0] * self.people[0])

    def variance(self, cap: int) -> float:
        return self._inner.variance(cap)

    def at_least_variance(self, count: int) -> float:
        return self._inner.at_least_variance(count)

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        return self._inner.certified_bounds(cap)


class TimedSeveral(TableExposure):
    """The last row of a partition: variances are upper bounds."""

    def __init__(self, partition: Partition, onlys: Sequence[TimedOnly]) -> None:
        self._partition, self._onlys = partition, onlys
        self.basis = f"everybody less those whom one part alone reached; {partition.union.basis}"
        parts, chosen = partition.parts, partition.chosen
        apart = sum(parts.reached((at,)) for at in chosen)
        self.model_error = error_of_difference(
            parts.law_of(chosen), apart, parts.reached(chosen), partition.reached
        )

    @property
    def people(self) -> FloatArray:
        return np.array([float(self._partition.parts.people)])

    @property
    def max_trials(self) -> int:
        return self._partition.union.max_trials

    @property
    def targeted_impressions(self) -> float:
        alone = sum(only.targeted_impressions for only in self._onlys)
        return max(self._partition.union.targeted_impressions - alone, self._partition.reached)

    def table(self, top: int) -> FloatArray:
        seen = self._partition.table(top)[-1]
        return np.concatenate([[max(float(self.people[0]) - float(seen.sum()), 0.0)], seen])

    def reach(self, cap: int) -> float:
        return float(self.law(slice(None), cap).capped_mean(cap)[0] * self.people[0])

    def variance(self, cap: int) -> float:
        return self.variance_bound(min(cap, max(self.max_trials, 1)), at_least=False)

    def at_least_variance(self, count: int) -> float:
        return self.variance_bound(count, at_least=True)

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        parts, chosen = self._partition.parts, self._partition.chosen
        counts = [parts.drawn((at,)).impressions for at in chosen]
        return several_bounds(parts.audience, counts, cap)
