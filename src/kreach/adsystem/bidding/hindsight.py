"""The most that any bidder could have reached, had it known every group and price in advance.

Without identities, the reach of a group depends only on how many of its requests are won, so who
knows all prices wins the cheapest. In each group marginal reach p(0) ≥ p(1) ≥ … falls and marginal
price rises; taking purchases in the order of reach per price is therefore a fractional knapsack
with its constraints met by themselves, and its value bounds every policy at every budget.
"""

import numpy as np
import numpy.typing as npt

from kreach.adsystem.measurement.meter import ReachMeter
from kreach.boundary.audience import Audience, OverlappingAudience
from kreach.boundary.checks import as_counts, as_whole_number
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray

__all__ = ["hindsight_limit"]


def hindsight_limit(
    audience: Audience,
    groups: npt.ArrayLike,
    prices: npt.ArrayLike,
    cap: int,
    budgets: npt.ArrayLike,
) -> FloatArray:
    """Largest expected reach of a recorded stream of requests, for each budget.

    `groups[t]` made request t, which the highest competing bid `prices[t]` would have lost to.

    >>> import kreach as kr
    >>> kr.hindsight_limit(kr.Audience.disjoint([2]), [0, 0], [1.0, 2.0], cap=1, budgets=[1.0, 3.0])
    array([1. , 1.5])
    """
    if isinstance(audience, OverlappingAudience):
        raise KreachError.rule("audience", "have disjoint groups", type(audience).__name__)
    cap = as_whole_number("cap", cap, minimum=1)
    group = as_counts("groups", groups)
    price = np.asarray(prices, dtype=np.float64)
    if price.shape != group.shape:
        raise KreachError.rule("prices", f"have one entry per request ({len(group)})", price.shape)
    if not (price >= 0.0).all():
        raise KreachError.rule("prices", "be numbers ≥ 0", float(price[~(price >= 0.0)][0]))
    if group.size and group.max() >= audience.group_count:
        raise KreachError.rule("groups", f"be below {audience.group_count}", int(group.max()))
    gain, cost = _purchases(audience, group, price, cap)
    order = np.argsort(cost / np.maximum(gain, 1e-300), kind="stable")
    spent = np.concatenate([[0.0], np.cumsum(cost[order])])
    reached = np.concatenate([[0.0], np.cumsum(gain[order])])
    wanted = np.asarray(budgets, dtype=np.float64)
    if not (wanted >= 0.0).all():
        raise KreachError.rule("budgets", "be numbers ≥ 0", wanted)
    result: FloatArray = np.interp(wanted, spent, reached)
    return result


def _purchases(
    audience: Audience, group: npt.NDArray[np.int64], price: FloatArray, cap: int
) -> tuple[FloatArray, FloatArray]:
    """Every request as a purchase: what it adds to reach and what it costs, cheapest first."""
    order = np.lexsort((price, group))
    group, price = group[order], price[order]
    first = np.concatenate([[True], group[1:] != group[:-1]]) if len(group) else np.zeros(0, bool)
    start = np.maximum.accumulate(np.where(first, np.arange(len(group)), 0))
    rank = np.arange(len(group)) - start
    meter = ReachMeter(audience, [cap])
    gain = np.empty(len(group))
    for turn in range(int(rank.max(initial=-1)) + 1):
        here = rank == turn
        gain[here] = [meter.reach_probability(g, cap) for g in group[here].tolist()]
        meter.record_many(group[here])
    return gain, price
