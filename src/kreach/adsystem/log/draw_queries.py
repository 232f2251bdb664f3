"""Effective draws of a log as Ibis expressions for any engine (`numeric/draws.py` has the formula).

    timed_rows   key, us                    rows of a place; the key stands for the group
    near_rows    key, us, before0           rows soon after another one of their group
    losses       key, us, slot, part, ...   how much of a draw each of these lacks

Most rows have no other one of their group shortly before them and are whole draws. So the rows are
sorted once, for the one row before, and only what is near another row is looked at further: draws
are impressions less what the near rows lack. `lost` counts the first row of a group inside its
slot whole, `running_lost` the first since the slots begin, so sums of it over slots are those of
everything so far. Times are whole microseconds since 1970, shares whole units: engines agree.
"""

from collections.abc import Sequence

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir

from kreach.adsystem.log.hashes import hash_of
from kreach.adsystem.log.instants import micros
from kreach.adsystem.log.tables import GroupTable
from kreach.boundary.times import Window, to_micros
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.draws import HOUR_US
from kreach.numeric.meetings import PART_US

__all__ = [
    "UNITS",
    "doubt_of",
    "draw_cells",
    "draws_by_group",
    "group_counts",
    "group_key",
    "group_losses",
    "is_group_key",
    "losses",
    "lost_of_rows",
    "near_rows",
    "part_counts",
    "part_losses",
    "part_of",
    "running_draws",
    "slot_of",
    "timed_rows",
]

_BEFORE_ALL = -(2**62)
_UNIT_BITS = 36
UNITS = 1 << _UNIT_BITS
"""Shares of a draw are summed in whole units of 1.5e-11, so that sums have no order: engines
and repeated runs agree to the last digit."""


def is_group_key(group: ir.Value) -> bool:
    """Whether a group is a number already that can be its own key."""
    return isinstance(group.type(), dt.SignedInteger)


def group_key(group: ir.Value, dialect: str) -> ir.Value:
    """What rows of a group are sorted by: on DuckDB a hash of 63 bits, which is far quicker.

    Two of a million groups share one with a probability of 5 in 10⁸. A number stays itself.
    """
    if is_group_key(group):
        return group.cast("int64")
    name = group.cast("string")
    return hash_of(name) if dialect == "duckdb" else name


def timed_rows(rows: ir.Table, dialect: str) -> ir.Table:
    """key, us: rows of a log in files."""
    return rows.select(key=group_key(rows["group"], dialect), us=micros(rows["ts"], dialect))


def near_rows(rows: ir.Table, keys: Sequence[str], model: VisitModel) -> ir.Table:
    """keys, us, before0: rows that may continue the one before them in their group."""
    order = ibis.window(group_by=list(keys), order_by="us")
    lagged = rows.mutate(before0=rows["us"].lag(1).over(order)).view()
    return lagged.filter(lagged["us"] - lagged["before0"] < int(model.gap_edges_us[-1]))


def losses(
    near: ir.Table, keys: Sequence[str], model: VisitModel, slots: Sequence[Window]
) -> ir.Table:
    """keys, slot, part, lost, doubt of near rows; running_lost, running_doubt with several slots.

    `lost` is 1 − w and `doubt` w(1 − w) for a share w, in units of 1/UNITS. `near` rows lie in the
    slots, which follow each other without gaps.
    """
    edges = _slot_edges(slots)
    factors, lags = _with_factors(near, keys, model), range(model.lags)
    us = factors["us"]
    running = _product([factors[f"factor{lag}"] for lag in lags])
    alone, more = running, {}
    if edges:
        more = {"running_lost": _lost(running)}
        begins = _step(us, edges, [_BEFORE_ALL, *edges])
        alone = _product(
            [
                (factors[f"before{lag}"] >= begins).ifelse(factors[f"factor{lag}"], _number(1.0))
                for lag in lags
            ]
        )
    lost = factors.select(
        *keys, slot=slot_of(us, slots), part=part_of(us), lost=_lost(alone), **more
    ).view()
    doubts = {name.replace("lost", "doubt"): doubt_of(lost[name]) for name in ("lost", *more)}
    return lost.mutate(**doubts)


def _lost(share: ir.Value) -> ir.Value:
    return ((_number(1.0) - share) * _number(UNITS)).round().cast("int64")


def doubt_of(lost: ir.Value) -> ir.Value:
    """w(1 − w) of a share in units, from what it lacks: nothing else has to be stored for it."""
    share = (ibis.literal(UNITS, type="int64") - lost).cast("float64")
    return (share * lost.cast("float64") / _number(UNITS)).round().cast("int64")


def lost_of_rows(rows: ir.Table, keys: Sequence[str], model: VisitModel) -> ir.Table:
    """The rows with `lost`, what each lacks of a draw, after all rows before it with its keys.

    Rows have keys and us. All previous times come from one sort, so that rows at one time have one
    order among them.
    """
    order = ibis.window(group_by=list(keys), order_by="us")
    before = {f"before{lag}": rows["us"].lag(lag + 1).over(order) for lag in range(model.lags)}
    factors = _factors(rows.mutate(**before), model)
    share = _product([factors[f"factor{lag}"] for lag in range(model.lags)])
    return factors.select(*rows.columns, lost=_lost(share)).view()


def _with_factors(near: ir.Table, keys: Sequence[str], model: VisitModel) -> ir.Table:
    """The previous times of each row's group, before0, ..., and τ/(o + τ) for each, factor0, ...

    The row before the one before is the one before the last *near* row; where that is of an earlier
    stretch of near rows, it is too far away to matter, as is what comes before it. In stages, each
    a query around the one before: no expression is written out twice.
    """
    # of rows at one time, the first is the one that comes after an earlier time
    order = ibis.window(group_by=list(keys), order_by=["us", "before0"])
    before = {f"before{lag}": near["before0"].lag(lag).over(order) for lag in range(1, model.lags)}
    return _factors(near.mutate(**before), model)


def _factors(rows: ir.Table, model: VisitModel) -> ir.Table:
    """τ/(o + τ) for each previous time, factor0, ..., of rows with us, before0, ..."""
    edges, last = model.gap_edges_us.tolist(), int(model.gap_edges_us[-1])
    hour = (rows["us"] // HOUR_US) % 24
    traffic = _step(hour, list(range(1, 24)), model.hourly_traffic.tolist())
    lagged = rows.mutate(traffic=traffic).view()
    factors = {}
    for lag in range(model.lags):
        gap = lagged["us"] - lagged[f"before{lag}"]
        odds = _step(gap, edges, [*model.continuation_odds[lag].tolist(), 0.0])
        here = lagged["traffic"]
        factors[f"factor{lag}"] = (gap < last).ifelse(here / (odds + here), _number(1.0))
    return lagged.mutate(**factors).view()


def _slot_edges(slots: Sequence[Window]) -> list[int]:
    return [to_micros(slot.start) for slot in slots[1:] if slot.start is not None]


def slot_of(us: ir.Value, slots: Sequence[Window]) -> ir.Value:
    """The number of the slot that holds a time."""
    return _step(us, _slot_edges(slots), list(range(len(slots))))


def part_of(us: ir.Value) -> ir.Value:
    """The part of a day since 1970 that holds a time."""
    return (us // PART_US).cast("int64")


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


def group_losses(lost: ir.Table, keys: Sequence[str]) -> ir.Table:
    """slot, keys, lost, doubt, running_lost, running_doubt: sums over rows."""
    return lost.group_by("slot", *keys).aggregate(
        **{name: lost[column].sum().cast("int64") for name, column in _columns(lost).items()}
    )


def part_losses(lost: ir.Table, keys: Sequence[str] = ()) -> ir.Table:
    """keys, slot, part of a day since 1970, lost, running_lost."""
    columns = {name: at for name, at in _columns(lost).items() if name.endswith("lost")}
    wide = {name: lost[at].cast("decimal(38, 0)").sum() for name, at in columns.items()}
    return lost.group_by(*keys, "slot", "part").aggregate(
        **{name: total.cast("float64") for name, total in wide.items()}
    )


def _columns(lost: ir.Table) -> dict[str, str]:
    """Sums by name, and the columns that they are of: with one slot, running is alone."""
    names = ("lost", "doubt", "running_lost", "running_doubt")
    return {name: name if name in lost.columns else name.removeprefix("running_") for name in names}


def part_counts(rows: ir.Table, slots: Sequence[Window], keys: Sequence[str] = ()) -> ir.Table:
    """keys, slot, part, n, and the first and last time, of rows with keys and us."""
    flat = rows.mutate(slot=slot_of(rows["us"], slots), part=part_of(rows["us"]))
    return flat.group_by(*keys, "slot", "part").aggregate(
        n=flat.count(), first=flat["us"].min(), last=flat["us"].max()
    )


def group_counts(rows: ir.Table, slots: Sequence[Window], keys: Sequence[str]) -> ir.Table:
    """slot, keys, n, of rows with keys and us."""
    flat = rows.mutate(slot=slot_of(rows["us"], slots))
    return flat.group_by("slot", *keys).aggregate(n=flat.count())


def draws_by_group(counted: ir.Table, lost: ir.Table, slots: int, dialect: str) -> ir.Table:
    """slot, group, n, draws, doubt, running_draws, running_doubt, where there are impressions.

    Draws and doubt are in units of 1/UNITS. `counted` has a column n0, n1, ... for each slot, as
    `queries.counts` has; `lost` are `group_losses`.
    """
    numbers = [counted[f"n{at}"].fill_null(0).cast("int64") for at in range(slots)]
    codes = [number * slots + at for at, number in enumerate(numbers)]
    flat = counted.select("group", code=codes[0] if slots == 1 else ibis.array(codes).unnest())
    flat = flat.view()
    slot = ibis.literal(0, type="int64") if slots == 1 else flat["code"] % slots
    served = flat.select(
        group=flat["group"].cast("string"),
        key=group_key(flat["group"], dialect),
        n=(flat["code"] // slots).cast("int64"),
        slot=slot.cast("int64"),
    )
    served = served.filter(served["n"] > 0).view()
    less = lost.rename(lost_key="key", lost_slot="slot")
    same = [served["key"] == less["lost_key"], served["slot"] == less["lost_slot"]]
    both = served.left_join(less, same)

    def left(name: str) -> ir.Value:
        return both[name].fill_null(0)

    n = both["n"] * UNITS
    return both.select(
        "slot",
        "group",
        "n",
        draws=n - left("lost"),
        doubt=left("doubt"),
        running_draws=n - left("running_lost"),
        running_doubt=left("running_doubt"),
    )


def draw_cells(drawn: ir.Table, groups: GroupTable) -> ir.Table:
    """size, targeted, n, whole, slot, until, groups, fraction, doubt: a histogram of groups.

    `drawn` has group, n, draws, doubt, slot and until: a group counts in the slots from `slot` up
    to, not including, `until`. Groups that the table does not have are left out. `fraction` and
    `doubt` are in units of 1/UNITS.
    """
    known = groups.rows.select("size", "targeted", known="group")
    both = drawn.inner_join(known, drawn["group"] == known["known"])
    # a sum, which Postgres has as a decimal: a cast that Ibis cannot drop
    draws = both["draws"].cast("decimal(38, 0)").cast("int64")
    whole = (draws >> _UNIT_BITS).cast("int64")
    flat = both.select("size", "targeted", "n", "slot", "until", "doubt", "draws", whole=whole)
    rest = flat["draws"] - flat["whole"] * UNITS
    return flat.group_by("size", "targeted", "n", "whole", "slot", "until").aggregate(
        groups=flat.count(),
        fraction=rest.sum().cast("int64"),
        doubt=flat["doubt"].sum().cast("int64"),
    )


def running_draws(by_group: ir.Table, slots: int) -> ir.Table:
    """Everything so far of each group: from a slot with rows of it up to the next such slot."""
    so_far = ibis.cumulative_window(group_by="group", order_by="slot")
    ordered = ibis.window(group_by="group", order_by="slot")
    return by_group.select(
        "group",
        "slot",
        n=by_group["n"].sum().over(so_far).cast("int64"),
        draws=by_group["running_draws"].sum().over(so_far).cast("int64"),
        doubt=by_group["running_doubt"].sum().over(so_far).cast("int64"),
        until=by_group["slot"].lead(1).over(ordered).fill_null(slots),
    )
