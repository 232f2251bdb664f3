"""Least and most reach that any assignment of the impressions to members allows, with overlap.

**Most** is a maximum flow: impressions of a group flow to the classes in it, a class takes up to
cap × head-count. What does not fit must still fall on somebody, over the cap or untargeted, so the
flow value is attained.

**Least.** A group with an untargeted member may have spent everything on that member. In every
other group concentration is best, because min(X, c) is concave: all impressions of a group on one
person, and within a class on the same person. A class then either takes any number of groups for
a price of c, or single groups for their n_j:

    minimise  Σ_C c·y_C + Σ_j min(n_j, c)·s_j   subject to   s_j + Σ_{C∋j} y_C ≥ 1,  y, s ∈ {0, 1}.

With cap 1 this is minimum hitting set, NP-hard. Small problems are solved by branch and bound;
larger ones keep the value of a feasible dual solution, which certifies a bound from below:
Σ_j z_j with z_j ≤ min(n_j, c) and Σ_{j∈C} z_j ≤ c.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kreach.numeric.types import FloatArray, IntArray

__all__ = ["max_overlap_reach", "min_overlap_reach"]

_EXACT_EDGES = 2_000
_RELAXED_EDGES = 10_000
_BRANCHES = 500
_INT32_MAX = 2**31 - 1
_EXACT_BELOW = 1e9  # above, the solver cannot resolve a single person


def max_overlap_reach(
    classes: IntArray, headcount: IntArray, impressions: IntArray, cap: int
) -> int:
    """The largest Σ min(X_i, cap) that can occur: a maximum flow, attained."""
    rows, columns = np.nonzero(classes >= 0)
    group = classes[rows, columns]
    served = impressions[group] > 0
    rows, group = rows[served], group[served]
    if rows.size == 0:
        return 0
    total = np.bincount(rows, weights=impressions[group].astype(float), minlength=len(classes))
    room = np.minimum(total, cap * headcount.astype(float))
    group_ids, group_node = np.unique(group, return_inverse=True)
    supply = impressions[group_ids].astype(float)
    if min(supply.sum(), room.sum()) > _INT32_MAX:
        return _max_by_linear_program(rows, group_node, supply, room)
    from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import, needed here only
    from scipy.sparse.csgraph import maximum_flow  # noqa: PLC0415

    source, sink = 0, 1 + len(group_ids) + len(classes)
    class_node = 1 + len(group_ids) + np.arange(len(classes))
    edge_room = np.minimum(supply[group_node], room[rows])
    tails = np.concatenate([np.zeros(len(group_ids)), 1 + group_node, class_node])
    heads = np.concatenate(
        [1 + np.arange(len(group_ids)), class_node[rows], np.full(len(room), sink)]
    )
    capacity = np.minimum(np.concatenate([supply, edge_room, room]), _INT32_MAX)
    graph = csr_array(
        (capacity.astype(np.int32), (tails.astype(np.int32), heads.astype(np.int32))),
        shape=(sink + 1, sink + 1),
    )
    return int(maximum_flow(graph, source, sink).flow_value)


def _max_by_linear_program(
    rows: IntArray, group_node: IntArray, supply: FloatArray, room: FloatArray
) -> int:
    """The same flow as a linear program, for counts beyond 32 bits; its vertices are whole."""
    from scipy.sparse import csr_array, vstack  # noqa: PLC0415

    edges = np.arange(len(rows))
    ones = np.ones(len(rows))
    out_of_group = csr_array((ones, (group_node, edges)), shape=(len(supply), len(rows)))
    into_class = csr_array((ones, (rows, edges)), shape=(len(room), len(rows)))
    limits = np.concatenate([supply, room])
    value, _ = _minimise(-ones, vstack([out_of_group, into_class]), -np.inf, limits, whole=False)
    return round(-value)


def min_overlap_reach(
    classes: IntArray,
    headcount: IntArray,
    group_size: IntArray,
    impressions: IntArray,
    cap: int,
) -> tuple[int, bool]:
    """A certified lower bound of Σ min(X_i, cap), and whether it is known to be attained."""
    members = np.zeros(len(group_size))
    rows, columns = np.nonzero(classes >= 0)
    group = classes[rows, columns]
    np.add.at(members, group, headcount[rows].astype(float))
    full = (impressions > 0) & (members >= group_size)
    if not full.any():
        return 0, True
    rows, group = rows[full[group]], group[full[group]]
    group_ids, item = np.unique(group, return_inverse=True)
    price = np.minimum(impressions[group_ids], cap).astype(float)
    rows, item = _without_repeats(rows, item)
    _, rows = np.unique(rows, return_inverse=True)
    if len(price) == 1 and len(rows) <= _EXACT_EDGES:
        return int(price[0]), True  # one group: everything on one person
    bound, attained = _feasible_dual(rows, item, price, cap), False
    if len(rows) <= _RELAXED_EDGES:
        whole = len(rows) <= _EXACT_EDGES
        value, solved = _min_cover(rows, item, price, cap, whole=whole)
        bound, attained = max(bound, value), solved and whole
    if attained and bound < _EXACT_BELOW:
        return round(bound), True
    return int(np.ceil(bound - 1e-6 - 1e-9 * abs(bound))), False  # reach is a whole number


def _without_repeats(rows: IntArray, item: IntArray) -> tuple[IntArray, IntArray]:
    """Keep one class for each distinct set of full groups."""
    order = np.lexsort((item, rows))
    rows, item = rows[order], item[order]
    starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    sets: dict[bytes, None] = {}
    keep = np.zeros(len(rows), dtype=np.bool_)
    for low, high in zip(starts, [*starts[1:], len(rows)], strict=True):
        content = item[low:high].tobytes()
        if content not in sets:
            sets[content] = None
            keep[low:high] = True
    return rows[keep], item[keep]


def _min_cover(
    rows: IntArray, item: IntArray, price: FloatArray, cap: int, *, whole: bool
) -> tuple[float, bool]:
    """The programme of the module's docstring, or its linear relaxation; see `_minimise`."""
    from scipy.sparse import csr_array, eye_array, hstack  # noqa: PLC0415

    sets, items = int(rows.max()) + 1, len(price)
    cover = csr_array((np.ones(len(rows)), (item, rows)), shape=(items, sets))
    cost = np.concatenate([np.full(sets, float(cap)), price])
    matrix = hstack([cover, eye_array(items)], format="csr")
    return _minimise(cost, matrix, 1.0, np.inf, whole=whole)


def _minimise(
    cost: FloatArray, matrix: Any, low: Any, high: Any, *, whole: bool
) -> tuple[float, bool]:
    """min cost·x over x ≥ 0 with low ≤ matrix·x ≤ high: a value never above it, and if attained.

    Branch and bound is limited in nodes, not seconds, so that every machine gives one answer.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415

    with _silenced_output():
        solved = milp(
            cost,
            constraints=LinearConstraint(matrix, lb=low, ub=high),
            integrality=np.full(len(cost), int(whole)),
            bounds=Bounds(0.0, np.inf),
            options={"node_limit": _BRANCHES},
        )
    proved = solved.mip_dual_bound if whole else solved.fun
    if proved is None:
        return -np.inf, False
    return float(proved), solved.status == 0 and solved.fun - proved < 0.5


@contextmanager
def _silenced_output() -> Iterator[None]:
    """Discard standard output: the solver prints to it, and a report in JSON must not hold that."""
    sys.stdout.flush()
    saved, devnull = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(devnull)


def _feasible_dual(rows: IntArray, item: IntArray, price: FloatArray, cap: int) -> float:
    """z_j = min(price_j, c / size of the largest set that holds j): feasible, hence a bound."""
    set_size = np.bincount(rows).astype(float)
    share = price.copy()
    np.minimum.at(share, item, cap / set_size[rows])
    return float(share.sum())
