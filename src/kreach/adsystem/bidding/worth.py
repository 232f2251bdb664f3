"""What a request is worth to a campaign, as a table: a plan as the board looks it up."""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from kreach.adsystem.bidding.group_kinds import KindProbability
from kreach.adsystem.bidding.plan import Plan
from kreach.numeric.planning import Response
from kreach.numeric.types import FloatArray

__all__ = ["SessionValues", "Worth", "worth_table"]

_ROWS = 32
_FEWEST_COLUMNS = 64
_MAX_CELLS = 1 << 21
_MAX_POINTS = 1 << 15  # of p that are computed at once


@dataclass(frozen=True)
class Worth:
    """Worth by (kind, requests to come, impressions): of one request, in units of reach.

    Row r is for r² times `row_requests` requests to come, or what is nearer to that than to another
    row's: few groups have many requests to come, so rows are close where most groups are.
    """

    table: FloatArray  # kinds × rows × columns
    row_requests: float
    bound: FloatArray  # kinds × rows: the most that any request is worth


def worth_table(
    kinds: int,
    probability: KindProbability,
    max_impressions: int,
    max_left: float,
    plan: Plan | None,
    *,
    passing: bool = False,
) -> Worth:
    """p(n) times the plan's discount; columns reach beyond `max_impressions`.

    `passing`: repeats are dropped by the publisher. Requests that pass are then worth more than
    p(n), up to p(0).
    """
    columns = _FEWEST_COLUMNS
    while columns < 1.5 * max_impressions + 16:
        columns *= 2
    rows = 1 if plan is None else max(2, min(_ROWS, _MAX_CELLS // (kinds * columns)))
    step = max(max_left, 1e-9) / max(rows - 1, 1) ** 2
    impressions = np.arange(columns)
    table = np.empty((kinds, rows, columns))
    bound = np.empty((kinds, rows))
    left = np.repeat(np.arange(rows) ** 2 * step, columns)
    tiled = np.tile(impressions, rows)
    at_once = max(1, _MAX_POINTS // columns)
    for low in range(0, kinds, at_once):
        some = np.arange(low, min(low + at_once, kinds))
        fresh = probability(
            np.repeat(some, columns), np.tile(impressions.astype(np.float64), len(some))
        ).reshape(-1, 1, columns)
        discounts: FloatArray = np.ones((len(some), rows, columns))
        if plan is not None:
            for at, kind in enumerate(some.tolist()):
                discounts[at] = plan.discounts(kind, tiled, left).reshape(rows, columns)
        own = table[some] = fresh * discounts
        bound[some] = (fresh[:, :, :1] * discounts if passing else own).max(axis=2)
    if plan is not None and plan.more > 0.0:  # of one request of a session
        table = plan.multiplier * plan.response.request_value(table / plan.multiplier)
        bound = plan.multiplier * plan.response.request_value(bound / plan.multiplier)
    return Worth(table, step, bound)


class SessionValues:
    """The value of a session for that of one of its requests, and back; quick for one value."""

    def __init__(self, response: Response) -> None:
        assert response.request_values is not None
        self._sessions: list[float] = response.values.tolist()
        self._requests: list[float] = response.request_values.tolist()

    def part(self, value: float, share: float) -> float:
        """What a request is worth whose session is so worth with this probability only.

        `value` is that of a request of a session that nobody has won.
        """
        session = _between(value, self._requests, self._sessions)
        return _between(share * session, self._sessions, self._requests)


def _between(x: float, xs: list[float], ys: list[float]) -> float:
    at = bisect_right(xs, x)
    if at >= len(xs):
        return x * ys[-1] / xs[-1]
    if at == 0:
        return ys[0]
    low, high = xs[at - 1], xs[at]
    return ys[at - 1] + (x - low) / (high - low) * (ys[at] - ys[at - 1])
