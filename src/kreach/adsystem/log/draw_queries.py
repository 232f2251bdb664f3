"""Effective draws of a log as Ibis expressions for any engine (`numeric/draws.py` has the formula).

    rows of a place → timed_rows: group, us                  (known groups only, each id once)
                    → drawn_rows: group, slot, part, us, share, running_share
                    → group_draws: slot, group, n, draws, doubt, ...
                    → part_draws: slot, part, draws, ..., first, last

`share` counts the first row of a group inside its slot whole, `running_share` the first since the
slots begin, so sums of `running_share` over slots are those of everything so far. Times are whole
microseconds since 1970: engines agree on them to the last digit.
"""

from collections.abc import Sequence

import ibis
import ibis.expr.types as ir
import numpy as np

from kreach.adsystem.log.instants import micros
from kreach.adsystem.log.tables import GroupTable
from kreach.boundary.times import Window, to_micros
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.draws import HOUR_US
from kreach.numeric.meetings import PART_US

__all__ = [
    "draw_cells",
    "drawn_rows",
    "group_draws",
    "part_draws",
    "running_draws",
    "timed_rows",
]

_BEFORE_ALL = -(2**62)
_ROUNDING = 1e-12  # as in measurement.drawn: sums that a last digit keeps below a whole number


def timed_rows(rows: ir.Table, groups: GroupTable, dialect: str) -> ir.Table:
    """group, us: rows of a log in files on known groups, which get their numbers."""
    known = groups.rows.select(known="group", number="number")
    named = rows.select(served=rows["group"].cast("string"), ts="ts")
    both = named.inner_join(known, named["served"] == known["known"])
    return both.select(group=both["number"], us=micros(both["ts"], dialect))


def drawn_rows(
    rows: ir.Table, keys: Sequence[str], model: VisitModel, slots: Sequence[Window]
) -> ir.Table:
    """Each row with its share of a draw, alone in its slot and with the slots before it.

    `rows` have the keys and `us`, and lie in the slots, which follow each other without gaps.
    """
    edges = [to_micros(slot.start) for slot in slots[1:] if slot.start is not None]
    factors, lags = _with_factors(rows, keys, model), range(_used_lags(model))
    us = factors["us"]
    running = _product([factors[f"factor{lag}"] for lag in lags])
    alone = running
    if edges:
        begins = _step(us, edges, [_BEFORE_ALL, *edges])
        alone = _product(
            [
                (factors[f"before{lag}"] >= begins).ifelse(factors[f"factor{lag}"], _number(1.0))
                for lag in lags
            ]
        )
    return factors.select(
        *keys,
        "us",
        slot=_step(us, edges, list(range(len(slots)))),
        part=(us // PART_US).cast("int64"),
        share=alone,
        running_share=running,
    )


def _used_lags(model: VisitModel) -> int:
    used = np.flatnonzero(np.any(model.continuation_odds > 0.0, axis=1))
    return int(used[-1]) + 1 if len(used) else 0


def _with_factors(rows: ir.Table, keys: Sequence[str], model: VisitModel) -> ir.Table:
    """The previous times of each row's group, before0, ..., and τ/(o + τ) for each, factor0, ...

    In stages, each a query around the one before: no expression is written out twice.
    """
    order = ibis.window(group_by=list(keys), order_by="us")
    us, edges, last = rows["us"], model.gap_edges_us.tolist(), int(model.gap_edges_us[-1])
    before = {f"before{lag}": us.lag(lag + 1).over(order) for lag in range(_used_lags(model))}
    hour = (us // HOUR_US) % 24
    traffic = _step(hour, list(range(1, 24)), model.hourly_traffic.tolist())
    lagged = rows.mutate(**before, traffic=traffic).view()
    factors = {}
    for lag in range(_used_lags(model)):
        gap = lagged["us"] - lagged[f"before{lag}"]
        odds = _step(gap, edges, [*model.continuation_odds[lag].tolist(), 0.0])
        here = lagged["traffic"]
        # most rows have no neighbour so near: that is decided first, and null gaps are far
        factors[f"factor{lag}"] = (gap < last).ifelse(here / (odds + here), _number(1.0))
    return lagged.mutate(**factors).view()


def _product(factors: Sequence[ir.Value]) -> ir.Value:
    result = _number(1.0)
    for at, factor in enumerate(factors):
        result = factor if at == 0 else result * factor
    return result


def _number(value: float) -> ir.Value:
    """A constant in double precision: some engines take a bare 0.5 for a decimal."""
    return ibis.literal(repr(float(value))).cast("float64")


def _step(column: ir.Value, edges: Sequence[int], values: Sequence[float]) -> ir.Value:
    """A step function: values[i] below edges[i], the last from the last edge on.

    A tree of comparisons, so that many edges cost few of them.
    """
    if len(set(values)) == 1:
        whole = isinstance(values[0], int)
        return ibis.literal(values[0], type="int64") if whole else _number(values[0])
    middle = len(edges) // 2
    low = _step(column, edges[:middle], values[: middle + 1])
    high = _step(column, edges[middle + 1 :], values[middle + 1 :])
    return (column < edges[middle]).ifelse(low, high)


def group_draws(drawn: ir.Table, keys: Sequence[str]) -> ir.Table:
    """slot, keys, n, draws, doubt, running_draws, running_doubt."""
    alone, running = drawn["share"], drawn["running_share"]
    return drawn.group_by("slot", *keys).aggregate(
        n=drawn.count().cast("int64"),
        draws=alone.sum(),
        doubt=(alone * (_number(1.0) - alone)).sum(),
        running_draws=running.sum(),
        running_doubt=(running * (_number(1.0) - running)).sum(),
    )


def part_draws(drawn: ir.Table, keys: Sequence[str] = ()) -> ir.Table:
    """slot, part of a day since 1970, draws, running_draws, and the first and last time."""
    return drawn.group_by(*keys, "slot", "part").aggregate(
        draws=drawn["share"].sum(),
        running_draws=drawn["running_share"].sum(),
        first=drawn["us"].min(),
        last=drawn["us"].max(),
    )


def draw_cells(drawn: ir.Table, groups: GroupTable) -> ir.Table:
    """size, targeted, n, whole, slot, until, groups, fraction, doubt: a histogram of groups.

    `drawn` has group, n, draws, doubt, slot and until: a group counts in the slots from `slot` up
    to, not including, `until`.
    """
    known = groups.rows.select("size", "targeted", number="number")
    both = drawn.inner_join(known, drawn["group"] == known["number"])
    draws = ibis.least(both["draws"], both["n"].cast("float64"))
    whole = (draws + _number(_ROUNDING)).floor().cast("int64")
    flat = both.select("size", "targeted", "n", "slot", "until", "doubt", draws=draws, whole=whole)
    rest = flat["draws"] - flat["whole"]
    return flat.group_by("size", "targeted", "n", "whole", "slot", "until").aggregate(
        groups=flat.count(),
        fraction=ibis.greatest(rest, _number(0.0)).sum(),
        doubt=flat["doubt"].sum(),
    )


def running_draws(by_group: ir.Table, slots: int) -> ir.Table:
    """Everything so far of each group: from a slot with rows of it up to the next such slot."""
    so_far = ibis.cumulative_window(group_by="group", order_by="slot")
    ordered = ibis.window(group_by="group", order_by="slot")
    return by_group.select(
        "group",
        "slot",
        n=by_group["n"].sum().over(so_far).cast("int64"),
        draws=by_group["running_draws"].sum().over(so_far),
        doubt=by_group["running_doubt"].sum().over(so_far),
        until=by_group["slot"].lead(1).over(ordered).fill_null(slots),
    )
