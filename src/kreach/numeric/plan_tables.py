"""Tables of value and spend to come: look-ups, and averages over how many requests will come."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kreach.numeric.gamma_factors import gamma_factors
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["PlanTable", "TablePlaces", "TrafficAverage"]


@dataclass(frozen=True)
class PlanTable:
    """Rows: requests to come, `tau`; columns: impressions so far, 0..N−1 (in units of `block`)."""

    tau: FloatArray
    worth: FloatArray
    value: FloatArray
    spend: FloatArray

    def at(self, table: FloatArray, column: FloatArray, tau: FloatArray) -> FloatArray:
        """Bilinear look-up of one of the tables."""
        last_row, last_column = len(self.tau) - 1, table.shape[1] - 1
        step = self.tau[1] if last_row else 1.0
        y = np.clip(tau / step, 0.0, last_row)
        x = np.clip(column, 0.0, last_column)
        row, col = y.astype(np.int64), x.astype(np.int64)
        row2, col2 = np.minimum(row + 1, last_row), np.minimum(col + 1, last_column)
        fy, fx = y - row, x - col
        low = table[row, col] * (1.0 - fx) + table[row, col2] * fx
        high = table[row2, col] * (1.0 - fx) + table[row2, col2] * fx
        result: FloatArray = low * (1.0 - fy) + high * fy
        return result

    def averaged(self, tau: float, steps: int, evidence: float) -> "PlanTable":
        """The tables up to `tau`, averaged over how many requests (or sessions) will really come.

        So many as τ independent ones of evidence each make a Gamma law of shape evidence·τ.
        """
        rows = np.linspace(0.0, tau, steps + 1)
        average = TrafficAverage(self.tau, rows, gamma_factors(evidence * rows))
        return PlanTable(rows, *map(average.of, (self.worth, self.value, self.spend)))


class TrafficAverage:
    """Tables on one grid of τ, averaged over equally likely multiples of each τ of another."""

    def __init__(self, tau: FloatArray, rows: FloatArray, factors: FloatArray) -> None:
        """`tau` is even, from 0; `factors`: of each of `rows`, a row of them."""
        last = len(tau) - 1
        y = np.clip(rows[:, None] * factors / tau[1], 0.0, last)
        low = y.astype(np.int64)
        share = y - low
        self._at = np.concatenate([low, np.minimum(low + 1, last)], axis=1)
        weights = np.concatenate([1.0 - share, share], axis=1) / factors.shape[1]
        self._weights = weights[:, None, :]

    def of(self, table: FloatArray) -> FloatArray:
        """A table averaged: a row for each of `rows`."""
        result: FloatArray = (self._weights @ table[self._at])[:, 0, :]
        return result


class TablePlaces:
    """Places in tables of several shapes: a bilinear look-up in all of them at once."""

    def __init__(
        self,
        shapes: Sequence[tuple[int, ...]],
        table: IntArray,
        row: FloatArray,
        column: FloatArray,
    ) -> None:
        """Of each place: the number of its table, and row and column in that."""
        rows, columns = np.array(shapes, dtype=np.int64).T
        first = np.concatenate([[0], np.cumsum(rows * columns)[:-1]])[table]
        last_row, last_column, width = (rows - 1)[table], (columns - 1)[table], columns[table]
        y, x = np.clip(row, 0.0, last_row), np.clip(column, 0.0, last_column)
        y0, x0 = y.astype(np.int64), x.astype(np.int64)
        self._fy, self._fx = y - y0, x - x0
        low = first + y0 * width
        high = low + np.where(y0 < last_row, width, 0)
        x1 = np.minimum(x0 + 1, last_column)
        self._corners = low + x0, low + x1, high + x0, high + x1

    def of(self, tables: Sequence[FloatArray]) -> FloatArray:
        """What the tables say at the places."""
        flat = np.concatenate([table.ravel() for table in tables])
        a, b, c, d = (flat[corner] for corner in self._corners)
        low, high = a + self._fx * (b - a), c + self._fx * (d - c)
        result: FloatArray = low + self._fy * (high - low)
        return result
