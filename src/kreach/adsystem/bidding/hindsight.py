"""The most that any bidder could have reached, had it known every group and price in advance.

Without identities, the reach of a group depends only on how many of its requests are won, so who
knows all prices wins the cheapest. In each group marginal reach p(0) ≥ p(1) ≥ … falls and marginal
price rises; taking purchases in the order of reach per price is therefore a fractional knapsack
with its constraints met by themselves, and its value bounds every policy at every budget.

`hindsight_limit` takes requests as independent draws from the audience. On a recorded log they are
not: who knows the sessions never buys two requests of one, and of a flight's sessions n are drawn
*without* replacement. `session_hindsight_limit` bounds a bidder who knows that too.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kreach.adsystem.measurement.meter import ReachMeter
from kreach.boundary.audience import Audience, OverlappingAudience
from kreach.boundary.checks import as_counts, as_whole_number
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray

__all__ = ["hindsight_limit", "session_hindsight_limit"]


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
    group, price = _requests(groups, prices, audience.group_count)
    gain, cost = _purchases(audience, group, price, cap)
    return _best(gain, cost, budgets)


def session_hindsight_limit(
    session_counts: Sequence[npt.ArrayLike],
    groups: npt.ArrayLike,
    sessions: npt.ArrayLike,
    prices: npt.ArrayLike,
    budgets: npt.ArrayLike,
) -> FloatArray:
    """Largest expected unique reach of a stream whose sessions are known, for each budget.

    The bidder knows every group, price and session, and how many sessions each member of a group
    has in the flight (`session_counts[group]`), but not which are whose. It buys the cheapest
    request of a session. n of the N sessions of a group reach

        Σ_i 1 − C(N − v_i, n) / C(N, n)

    people, v_i the sessions of member i: draws without replacement, because no session comes twice.

    It bounds bidders to whom the sessions of a group are alike. A bidder who also knows whose hours
    a session falls in, or that long sessions are busy people's, may do a little better.

    >>> counts = [[2, 1]]  # one member has two sessions of the flight, the other one
    >>> prices = [3.0, 1.0, 2.0, 4.0]
    >>> session_hindsight_limit(counts, [0, 0, 0, 0], [7, 7, 8, 9], prices, [1.0, 3.0]).round(3)
    array([1.   , 1.667])
    """
    counts = [as_counts("session_counts", own) for own in session_counts]
    group, price = _requests(groups, prices, len(counts))
    session = as_counts("sessions", sessions)
    if session.shape != group.shape:
        rule = f"have one entry per request ({len(group)})"
        raise KreachError.rule("sessions", rule, session.shape)
    order = np.lexsort((price, session))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.diff(session[order]) != 0
    if (np.diff(group[order])[~new[1:]] != 0).any():
        raise KreachError.rule("sessions", "each be of one group", "a session of two")
    cheapest = order[new]
    group, price, rank = _cheapest_first(group[cheapest], price[cheapest])
    of_group = np.bincount(group, minlength=len(counts))
    for number, own in enumerate(counts):
        if int(own.sum()) != of_group[number]:
            rule = f"sum to the {of_group[number]} sessions of group {number}"
            raise KreachError.rule("session_counts", rule, int(own.sum()))
    gains = [_gains_of_sessions(own) for own in counts]
    first = np.cumsum(of_group) - of_group
    gain = np.concatenate([*gains, np.zeros(0)])[first[group] + rank]
    return _best(gain, price, budgets)


def _gains_of_sessions(counts: npt.NDArray[np.int64]) -> FloatArray:
    """What the first, second, … session of a group adds to its expected reach.

    A member with v of the N sessions is missed by the first n with C(N − v, n) / C(N, n), and then
    met by the next with v / (N − n).
    """
    visits, members = np.unique(counts[counts > 0], return_counts=True)
    total = int(counts.sum())
    gain = np.zeros(total)
    missed = np.ones(len(visits))
    for n in range(total):
        met = visits / (total - n)
        gain[n] = float(members @ (missed * met))
        missed = np.maximum(missed * (1.0 - met), 0.0)
    return gain


def _requests(
    groups: npt.ArrayLike, prices: npt.ArrayLike, group_count: int
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    group = as_counts("groups", groups)
    price = np.asarray(prices, dtype=np.float64)
    if price.shape != group.shape:
        raise KreachError.rule("prices", f"have one entry per request ({len(group)})", price.shape)
    if not (price >= 0.0).all():
        raise KreachError.rule("prices", "be numbers ≥ 0", float(price[~(price >= 0.0)][0]))
    if group.size and group.max() >= group_count:
        raise KreachError.rule("groups", f"be below {group_count}", int(group.max()))
    return group, price


def _best(gain: FloatArray, cost: FloatArray, budgets: npt.ArrayLike) -> FloatArray:
    """Reach of the purchases in the order of reach per price, up to each budget."""
    order = np.argsort(cost / np.maximum(gain, 1e-300), kind="stable")
    spent = np.concatenate([[0.0], np.cumsum(cost[order])])
    reached = np.concatenate([[0.0], np.cumsum(gain[order])])
    wanted = np.asarray(budgets, dtype=np.float64)
    if not (wanted >= 0.0).all():
        raise KreachError.rule("budgets", "be numbers ≥ 0", wanted)
    result: FloatArray = np.interp(wanted, spent, reached)
    return result


def _cheapest_first(
    group: npt.NDArray[np.int64], price: FloatArray
) -> tuple[npt.NDArray[np.int64], FloatArray, npt.NDArray[np.int64]]:
    """Groups and prices in order of both, and the rank of each within its group."""
    order = np.lexsort((price, group))
    group, price = group[order], price[order]
    first = np.concatenate([[True], group[1:] != group[:-1]]) if len(group) else np.zeros(0, bool)
    start = np.maximum.accumulate(np.where(first, np.arange(len(group)), 0))
    return group, price, np.arange(len(group)) - start


def _purchases(
    audience: Audience, group: npt.NDArray[np.int64], price: FloatArray, cap: int
) -> tuple[FloatArray, FloatArray]:
    """Every request as a purchase: what it adds to reach and what it costs, cheapest first."""
    group, price, rank = _cheapest_first(group, price)
    meter = ReachMeter(audience, [cap])
    gain = np.empty(len(group))
    for turn in range(int(rank.max(initial=-1)) + 1):
        here = rank == turn
        gain[here] = [meter.reach_probability(g, cap) for g in group[here].tolist()]
        meter.record_many(group[here])
    return gain, price
