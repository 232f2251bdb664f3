"""The value of requests to come: what winning now takes away from later.

A group with n impressions and τ requests still expected has a value to come V(n, τ). Winning now
is worth p(n) at once and turns V(n, τ) into V(n+1, τ), so the request is worth

    worth(n, τ) = p(n) − (V(n, τ) − V(n+1, τ))

and not p(n), as the paper has it. With requests arriving at random at a known rate, and money
valued at λ (reach per unit of money), V solves

    ∂V/∂τ = max_b [ worth·W(b) − λ·H(b) ],   V(n, 0) = 0,

and what will be spent solves ∂S/∂τ = H(b) + W(b)·(S(n+1, τ) − S(n, τ)). Both are stepped forward
in τ together, all n at once. Expected reach to come is V + λS.

**Sessions.** People make several requests in a row, and who is lost at one can be won at the next.
Then τ counts sessions, and `Response.of_sessions` is the market for a whole session. With e the
chance that a request is followed by another of its session and v what the session is worth in
money, the surplus U of a session that is not won yet, and the value y of one request in it, are

    U = S(y) + e·U,     y = v − e·U,     S(y) = max_b [ y·W(b) − H(b) ],

so v = y + e/(1 − e)·S(y): a request is worth less than its session. The session is won with
probability W/(1 − e(1 − W)) and costs H/(1 − e(1 − W)).

**A publisher that drops bids** for people whom it has just shown the ad lets a bid through with
probability a(n), and what is dropped costs nothing. Count what would have been won, dropped or not:
the people reached are the same, and a group's next request is new with probability p(n) as before.
Only money changes: ∂V/∂τ = max_b [ worth·W(b) − λ·a·H(b) ], so the bid is for worth/(λa). A bid
that gets through is new with probability p/a, and worth/p is still the part of it that later ones
cannot make up.

**Uncertain traffic.** How many sessions will come is an estimate. With a Gamma law of mean τ and
shape r the tables are averaged over it (`PlanTable.averaged`): waiting is worth less where
perhaps nobody comes.
"""

from dataclasses import dataclass

import numpy as np

from kreach.numeric.types import FloatArray

__all__ = ["PlanTable", "Response", "gamma_factors", "solve_plan"]

_MIN_SHAPE = 0.3
_POINTS = 5
_MIN_PASSING = 1e-6


@dataclass(frozen=True)
class Response:
    """How the market answers a value in money: the best bid, its chance to win and its cost.

    `request_values` are the values of one request behind the `values` of a session; the same where
    every request is a session.
    """

    values: FloatArray  # rising
    bids: FloatArray
    win: FloatArray
    cost: FloatArray
    request_values: FloatArray | None = None

    def win_and_cost(self, value: FloatArray) -> tuple[FloatArray, FloatArray]:
        """W and H at the best bid for each value."""
        return np.interp(value, self.values, self.win), np.interp(value, self.values, self.cost)

    def limited(self, most: float) -> "Response":
        """The market for bids of at most so much: higher values win and cost what that bid does."""
        if self.bids[-1] <= most:
            return self
        win, cost = (np.interp(most, self.bids, curve) for curve in (self.win, self.cost))
        over = self.bids > most
        return Response(
            self.values,
            np.where(over, most, self.bids),
            np.where(over, win, self.win),
            np.where(over, cost, self.cost),
        )

    def contested(self, available: float) -> "Response":
        """The market where only a share of the requests can be had."""
        return Response(self.values, self.bids, self.win * available, self.cost * available)

    def of_sessions(self, more: float) -> "Response":
        """The market for sessions whose requests are followed by one more with this chance."""
        if more <= 0.0:
            return self
        surplus = np.maximum(self.values * self.win - self.cost, 0.0)
        tries = 1.0 / (1.0 - more * (1.0 - self.win))  # expected requests until won or gone
        values = self.values + more / (1.0 - more) * surplus
        return Response(values, self.bids, self.win * tries, self.cost * tries, self.values)

    def request_value(self, value: FloatArray) -> FloatArray:
        """y: what one request is worth where its session is worth v."""
        if self.request_values is None:
            return value
        beyond = np.maximum(value - self.values[-1], 0.0)  # every bid wins there: y is linear in v
        inside = np.interp(value, self.values, self.request_values)
        rise = self.request_values[-1] - self.request_values[-2]
        slope = rise / (self.values[-1] - self.values[-2])
        result: FloatArray = inside + slope * beyond
        return result


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
        places = rows[:, None] * gamma_factors(evidence * rows)
        y = np.clip(places / self.tau[1], 0.0, len(self.tau) - 1)
        low = y.astype(np.int64)
        high, share = np.minimum(low + 1, len(self.tau) - 1), (y - low)[:, :, None]
        tables = [
            (table[low] * (1.0 - share) + table[high] * share).mean(axis=1)
            for table in (self.worth, self.value, self.spend)
        ]
        return PlanTable(rows, *tables)


def gamma_factors(shape: FloatArray) -> FloatArray:
    """Equally likely factors of mean 1 that stand for Gamma laws of these shapes, a row each."""
    from scipy.special import gammaincinv  # noqa: PLC0415 - slow to import

    shape = np.maximum(np.atleast_1d(shape), _MIN_SHAPE)[:, None]
    middles = (np.arange(_POINTS) + 0.5) / _POINTS
    factors = gammaincinv(np.minimum(shape, 1e6), middles[None, :])
    result: FloatArray = factors / factors.mean(axis=1, keepdims=True)
    return result


def solve_plan(
    probability: FloatArray,
    tau: float,
    steps: int,
    multiplier: float,
    response: Response,
    *,
    ahead: bool = True,
    passing: FloatArray | None = None,
) -> PlanTable:
    """Value and spend to come for n = 0..N−1 given p(n), with `tau` requests expected.

    With `ahead` off, requests are valued at p(n), as in the paper, and the tables tell what that
    policy will reach and spend. Steps should be short enough that a group wins less than once in
    each; after the last column a group is taken to be worth nothing. `passing` is the probability
    a(n) that a bid is not dropped by a publisher who has just shown the ad to that person.
    """
    count = len(probability)
    worth = np.empty((steps + 1, count))
    value = np.zeros((steps + 1, count))
    spend = np.zeros((steps + 1, count))
    step = tau / steps
    v, s = np.zeros(count + 1), np.zeros(count + 1)
    paid = 1.0 if passing is None else np.maximum(passing, _MIN_PASSING)
    for row in range(steps + 1):
        worth[row] = np.maximum(probability - (v[:-1] - v[1:]), 0.0) if ahead else probability
        value[row], spend[row] = v[:-1], s[:-1]
        win, cost = response.win_and_cost(worth[row] / (multiplier * paid))
        cost = paid * cost
        gain = probability * win - multiplier * cost
        v[:-1] += step * (gain + win * (v[1:] - v[:-1]))
        s[:-1] += step * (cost + win * (s[1:] - s[:-1]))
    return PlanTable(np.linspace(0.0, tau, steps + 1), worth, value, spend)
