"""The value of requests to come: what winning now takes away from later.

A group with n impressions and τ requests still expected has a value to come V(n, τ). Winning now
is worth p(n) at once and turns V(n, τ) into V(n+1, τ), so the request is worth

    worth(n, τ) = p(n) − (V(n, τ) − V(n+1, τ))

and not p(n), as the paper has it. With requests arriving at random at a known rate, and money
valued at λ (reach per unit of money), V solves

    ∂V/∂τ = max_b [ worth·W(b) − λ·H(b) ],   V(n, 0) = 0,

and what will be spent solves ∂S/∂τ = H(b) + W(b)·(S(n+1, τ) − S(n, τ)). Both are stepped forward
in τ together, all n at once. Expected reach to come is V + λS.
"""

from dataclasses import dataclass

import numpy as np

from kreach.numeric.types import FloatArray

__all__ = ["PlanTable", "Response", "solve_plan"]


@dataclass(frozen=True)
class Response:
    """How the market answers a value in money: the best bid, its chance to win and its cost."""

    values: FloatArray  # rising
    bids: FloatArray
    win: FloatArray
    cost: FloatArray

    def win_and_cost(self, value: FloatArray) -> tuple[FloatArray, FloatArray]:
        """W and H at the best bid for each value."""
        return np.interp(value, self.values, self.win), np.interp(value, self.values, self.cost)


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


def solve_plan(
    probability: FloatArray,
    tau: float,
    steps: int,
    multiplier: float,
    response: Response,
    *,
    ahead: bool = True,
) -> PlanTable:
    """Value and spend to come for n = 0..N−1 given p(n), with `tau` requests expected.

    With `ahead` off, requests are valued at p(n), as in the paper, and the tables tell what that
    policy will reach and spend. Steps should be short enough that a group wins less than once in
    each; after the last column a group is taken to be worth nothing.
    """
    count = len(probability)
    worth = np.empty((steps + 1, count))
    value = np.zeros((steps + 1, count))
    spend = np.zeros((steps + 1, count))
    step = tau / steps
    v, s = np.zeros(count + 1), np.zeros(count + 1)
    for row in range(steps + 1):
        worth[row] = np.maximum(probability - (v[:-1] - v[1:]), 0.0) if ahead else probability
        value[row], spend[row] = v[:-1], s[:-1]
        win, cost = response.win_and_cost(worth[row] / multiplier)
        gain = probability * win - multiplier * cost
        v[:-1] += step * (gain + win * (v[1:] - v[:-1]))
        s[:-1] += step * (cost + win * (s[1:] - s[:-1]))
    return PlanTable(np.linspace(0.0, tau, steps + 1), worth, value, spend)
