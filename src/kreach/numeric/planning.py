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

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kreach.numeric.plan_tables import PlanTable
from kreach.numeric.types import FloatArray

__all__ = ["PlannedClass", "Response", "solve_plan", "solve_plans"]

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
class PlannedClass:
    """Groups that share a table: p(n) for n = 0..N−1, the requests expected, and steps to take.

    `passing` is the probability a(n) that a bid is not dropped by a publisher who has just shown
    the ad to that person.
    """

    probability: FloatArray
    tau: float
    steps: int
    passing: FloatArray | None = None


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
    """`solve_plans` for one class."""
    one = PlannedClass(probability, tau, steps, passing)
    return solve_plans([one], multiplier, response, ahead=ahead)[0]


def solve_plans(
    classes: Sequence[PlannedClass], multiplier: float, response: Response, *, ahead: bool = True
) -> list[PlanTable]:
    """Value and spend to come for n = 0..N−1 given p(n), class by class.

    With `ahead` off, requests are valued at p(n), as in the paper, and the tables tell what that
    policy will reach and spend. Steps should be short enough that a group wins less than once in
    each; after the last column a group is taken to be worth nothing.

    All classes are stepped at once, side by side in one array: those with most steps first, so that
    the others end at its right. A column of zeros ends each.
    """
    order = sorted(range(len(classes)), key=lambda at: -classes[at].steps)
    ordered = [classes[at] for at in order]
    widths = [len(one.probability) + 1 for one in ordered]
    bounds = np.concatenate([[0], np.cumsum(widths)])
    total, rows = int(bounds[-1]), ordered[0].steps + 1
    probability, step, paid = np.zeros(total), np.zeros(total), np.ones(total)
    cells = [slice(low, high - 1) for low, high in pairwise(bounds.tolist())]
    for one, mine in zip(ordered, cells, strict=True):
        probability[mine] = one.probability
        step[mine] = one.tau / one.steps  # and 0 after the last column, which stays as it is
        if one.passing is not None:
            paid[mine] = np.maximum(one.passing, _MIN_PASSING)
    ends = bounds[np.searchsorted([-one.steps for one in ordered], -np.arange(rows), side="right")]
    worth, both = np.empty((rows, total)), np.zeros((rows + 1, 2, total + 1))
    # one search for both curves
    curves = response.win + 1j * response.cost
    money = multiplier * paid
    for row, end in enumerate(ends.tolist()):
        now = both[row]
        later = now[:, 1 : end + 1] - now[:, :end]
        p, own = probability[:end], worth[row, :end]
        if ahead:
            np.maximum(p + later[0], 0.0, out=own)
        else:
            own[:] = p
        answer = np.interp(own / money[:end], response.values, curves)
        win, cost = answer.real, paid[:end] * answer.imag
        later *= win
        later[0] += p * win - multiplier * cost
        later[1] += cost
        later *= step[:end]
        np.add(now[:, :end], later, out=both[row + 1, :, :end])
    tables: list[PlanTable] = [PlanTable(*np.zeros((4, 0)))] * len(classes)
    for at, one, mine in zip(order, ordered, cells, strict=True):
        tau = np.linspace(0.0, one.tau, one.steps + 1)
        value, spend = both[: one.steps + 1, 0, mine], both[: one.steps + 1, 1, mine]
        tables[at] = PlanTable(tau, worth[: one.steps + 1, mine], value, spend)
    return tables
