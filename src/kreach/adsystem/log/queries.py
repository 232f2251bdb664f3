"""Queries on a log, as Ibis expressions for any engine.

    rows of a campaign → counts: group, n0, n1, ...   (impressions of each group per window)
                       → histogram: kind of group, code, groups   (all that a report needs)

A `code` is impressions·slots + slot. Counting every window of a series by its own conditional
count keeps one row per group: a series costs little more than one window.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

import ibis
import ibis.expr.types as ir

from kreach.adsystem.log.copies import ranked_copies, same_impression
from kreach.adsystem.log.instants import micros
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.tables import GroupTable, LogTable
from kreach.boundary.times import MONDAY_SECONDS, Window

__all__ = [
    "KNOWN",
    "NO_GROUP",
    "UNKNOWN",
    "campaign_group_counts",
    "campaign_rows",
    "count_where",
    "counted_rows",
    "counts",
    "edges",
    "grid_cells",
    "group_counts",
    "histogram",
    "inside",
    "instant_literal",
    "missing",
    "oddities",
    "place_group_counts",
    "place_rows",
    "place_totals",
    "rows_before",
    "slot_columns",
    "slot_counts",
    "with_running",
]

KNOWN, NO_GROUP, UNKNOWN = 0, 1, 2
_SLOTS_TOGETHER = 10


def place_rows(log: LogTable, place: Place) -> ir.Table:
    """The rows of a campaign on a catalogue; a row that names no catalogue is of any."""
    rows = log.rows
    if place.campaign is not None:
        rows = rows.filter(rows["campaign"] == place.campaign)
    if place.catalogue is not None and "catalogue" in rows.columns:
        version = rows["catalogue"]
        rows = rows.filter(version.isnull() | (version == place.catalogue))
    return rows


def instant_literal(column: ir.Value, moment: datetime) -> ir.Value:
    """An instant as a constant of the column's own type, so that engines can skip files."""
    zone = column.type().timezone
    if zone is None:
        return ibis.literal(moment.replace(tzinfo=None), type="timestamp")
    return ibis.literal(moment, type="timestamp('UTC')")


def inside(column: ir.Value, window: Window) -> list[ir.Value]:
    """Conditions for an instant to lie in a window."""
    conditions = []
    if window.start is not None:
        conditions.append(column >= instant_literal(column, window.start))
    if window.end is not None:
        conditions.append(column < instant_literal(column, window.end))
    return conditions or [column.notnull()]


def counts(log: LogTable, place: Place, slots: Sequence[Window]) -> ir.Table:
    """group, n0, n1, ..., copies: impressions of each group in each slot.

    Slots follow each other without gaps. Of the rows that share an id the earliest counts (the
    least group among equals), wherever in the log it lies: a retry after midnight is no impression
    of the next day. Only rows before the end matter for that.
    """
    if log.counted_seconds is not None:
        return _counted(place_rows(log, place), slots)
    whole = Window(slots[0].start, slots[-1].end)
    counted = slot_columns(place_rows(log, place), slots, slot_counts)
    if not log.may_repeat:
        return counted
    ranked, _ = ranked_copies(log, rows_before(log, place, whole.end))
    later = ranked.filter(ranked["rank"] > 0, *inside(ranked["ts"], whole))
    surplus = later.group_by(copied="group").aggregate(**slot_counts(later, slots, 0, "m"))
    both = counted.left_join(surplus, counted["group"] == surplus["copied"])
    copies = [both[f"m{at}"].fill_null(0) for at in range(len(slots))]
    real = {f"n{at}": both[f"n{at}"] - copy for at, copy in enumerate(copies)}
    return both.select("group", **real, copies=sum(copies[1:], copies[0]))


def _counted(rows: ir.Table, slots: Sequence[Window]) -> ir.Table:
    """The same from rows that are counts."""

    def sums(rows: ir.Table, slots: Sequence[Window], first: int) -> dict[str, ir.Value]:
        result = {}
        for at, slot in enumerate(slots, first):
            here = ibis.and_(*inside(rows["ts"], slot))
            result[f"n{at}"] = _sum(here.ifelse(rows["impressions"], 0))
            result[f"m{at}"] = _sum(here.ifelse(rows["duplicates"], 0))
        return result

    counted = slot_columns(rows, slots, sums)
    copies = [counted[f"m{at}"] for at in range(len(slots))]
    return counted.mutate(copies=sum(copies[1:], copies[0]))


def slot_columns(
    rows: ir.Table,
    slots: Sequence[Window],
    columns: Callable[[ir.Table, Sequence[Window], int], dict[str, ir.Value]],
) -> ir.Table:
    """group, n0, n1, ...: by conditional counts, a few slots at a time.

    `columns` gives those of some slots, from the number of the first.

    Every row is tested against every slot of its part, so parts are short; a part reads only its
    own stretch of time, and the parts are then joined by group.
    """
    parts = []
    for low in range(0, len(slots), _SLOTS_TOGETHER):
        here = slots[low : low + _SLOTS_TOGETHER]
        stretch = rows.filter(inside(rows["ts"], Window(here[0].start, here[-1].end)))
        parts.append(stretch.group_by("group").aggregate(**columns(stretch, here, low)))
    joined = parts[0]
    for part in parts[1:]:
        more = part.rename(other="group")
        both = joined.outer_join(more, [("group", "other")])
        numbers = [name for name in (*joined.columns, *part.columns) if name != "group"]
        joined = both.select(
            group=ibis.coalesce(both["group"], both["other"]),
            **{name: both[name].fill_null(0) for name in numbers},
        ).view()  # a table again, to be joined to the next part
    return joined


def slot_counts(
    rows: ir.Table, slots: Sequence[Window], first: int, name: str = "n"
) -> dict[str, ir.Value]:
    """The rows in each slot."""
    if len(slots) == 1:
        return {f"{name}{first}": rows.count()}
    return {
        f"{name}{first + at}": count_where(rows, ibis.and_(*inside(rows["ts"], slot)))
        for at, slot in enumerate(slots)
    }


def count_where(rows: ir.Table, condition: ir.Value) -> ir.Value:
    """Rows that meet a condition; 0 where an engine would return NULL."""
    return rows.count(where=condition).fill_null(0)


def rows_before(log: LogTable, place: Place, end: datetime | None) -> ir.Table:
    """The rows of a place among which copies of those before `end` are searched for."""
    rows = place_rows(log, place)
    return rows.filter(inside(rows["ts"], Window(None, end)))


def counted_rows(log: LogTable, place: Place, window: Window) -> ir.Table:
    """group, ts: the rows that `counts` counts, one by one."""
    rows = place_rows(log, place)
    if log.may_repeat:
        rows = rows_before(log, place, window.end)
        ranked, ids = ranked_copies(log, rows)
        once = rows.anti_join(ids, same_impression(rows, ids))
        first = ranked.filter(ranked["rank"] == 0)
        rows = once.select("group", "ts").union(first.select("group", "ts"))
    return rows.filter(inside(rows["ts"], window)).select("group", "ts")


def group_counts(
    log: LogTable,
    place: Place,
    window: Window,
    *,
    by_seconds: int | None = None,
    created: datetime | None = None,
    max_price_micros: int | None = None,
) -> ir.Table:
    """slot, ours, group, n, early, spend: rows of a campaign in a window, by group.

    `slot` is the number of the period of `by_seconds` that holds the row, counted from 1970, or 0;
    such periods begin at whole hours. `ours` marks rows of the place's catalogue, counted by group;
    rows of other catalogues have group −1. `early` counts rows from before the catalogue was
    `created`; `spend` sums prices, each up to `max_price_micros`.
    """
    rows = place_rows(log, Place(place.campaign))
    rows = rows.filter(inside(rows["ts"], window))
    ts, price = rows["ts"], rows["price_micros"]
    slot = ibis.literal(0)
    if by_seconds is not None:  # truncated first: engines round a fraction of a second
        seconds = ts.truncate("h").epoch_seconds().cast("int64")
        slot = (seconds + MONDAY_SECONDS) // by_seconds
    ours = rows["catalogue"] == place.catalogue
    if max_price_micros is not None:
        price = ibis.least(price, ibis.literal(max_price_micros))
    flat = rows.select(
        slot=slot,
        ours=ours,
        group=ours.ifelse(rows["group"], -1),
        price=price,
        early=ibis.literal(False) if created is None else ts < instant_literal(ts, created),
    )
    return flat.group_by("slot", "ours", "group").aggregate(
        n=flat.count(), early=count_where(flat, flat["early"]), spend=_sum(flat["price"])
    )


def campaign_group_counts(log: LogTable, places: Sequence[Place]) -> ir.Table:
    """campaign, group, n: all rows of several campaigns on one catalogue."""
    rows = campaign_rows(log, places)
    return rows.group_by("campaign", "group").aggregate(n=rows.count())


def campaign_rows(log: LogTable, places: Sequence[Place]) -> ir.Table:
    """All rows of several campaigns on one catalogue."""
    rows = place_rows(log, Place(None, places[0].catalogue))
    return rows.filter(rows["campaign"].isin([place.campaign for place in places]))


def grid_cells(
    log: LogTable,
    stretches: ir.Table,
    grid_seconds: int,
    *,
    by_group: bool,
    timed: str | None = None,
) -> ir.Table:
    """campaign, catalogue, end, n, spend (and group): rows of stretches by cell of a grid.

    `stretches` has campaign, catalogue, since, low, until: rows in [since, ...) count, those from
    before `low` as if they were of that time. `end` is the end of the cell in seconds since 1970;
    0 for cells that end after `until`, which are left out by group. With `timed`, the dialect of
    the engine, also the times of the rows, in microseconds since 1970.
    """
    rows = log.rows
    wanted = stretches.select(c="campaign", v="catalogue", since="since", low="low", until="until")
    same = [rows["campaign"] == wanted["c"], rows["catalogue"] == wanted["v"]]
    both = rows.inner_join(wanted, same)
    both = both.filter(both["ts"] >= both["since"].cast(rows["ts"].type()))
    seconds = both["ts"].truncate("s").epoch_seconds().cast("int64")
    low = both["low"].cast("int64")
    end = (ibis.greatest(seconds, low) // grid_seconds + 1) * grid_seconds
    flat = both.select(
        "campaign",
        "catalogue",
        "group",
        "price_micros",
        end=(end > both["until"]).ifelse(0, end),
        **({} if timed is None else {"us": micros(both["ts"], timed)}),
    )
    keys = ["campaign", "catalogue", "end"]
    if by_group:
        flat, keys = flat.filter(flat["end"] > 0), [*keys, "group"]
    cells = flat.group_by(*keys).aggregate(
        n=flat.count(),
        spend=_sum(flat["price_micros"]),
        **({} if timed is None else {"times": flat["us"].collect()}),
    )
    return cells.order_by("campaign", "catalogue", "end")


def place_group_counts(log: LogTable) -> ir.Table:
    """campaign, catalogue, group, n, spend, first: every place and group of a few rows."""
    rows = log.rows
    return rows.group_by("campaign", "catalogue", "group").aggregate(**_totals(rows))


def place_totals(log: LogTable, window: Window, starts: ir.Table | None = None) -> ir.Table:
    """campaign, catalogue, n, spend, first: of every place; `first` is in seconds since 1970.

    With `starts` (flight, begins), of those campaigns only, each from its own time on.
    """
    rows = log.rows
    rows = rows.filter(inside(rows["ts"], window))
    if starts is not None:
        rows = rows.inner_join(starts, rows["campaign"] == starts["flight"])
        rows = rows.filter(rows["ts"] >= rows["begins"].cast(rows["ts"].type()))
    return rows.group_by("campaign", "catalogue").aggregate(**_totals(rows))


def _totals(rows: ir.Table) -> dict[str, ir.Value]:
    return {
        "n": rows.count(),
        "spend": _sum(rows["price_micros"]),
        "first": rows["ts"].min().truncate("s").epoch_seconds().cast("int64"),
    }


def _sum(column: ir.Value) -> ir.Value:
    """An exact sum as a 64-bit number. DuckDB widens sums to 128 bits, which Ibis does not know:
    without a cast that it cannot drop, NumPy would get them as floats."""
    return column.sum().fill_null(0).cast("decimal(38, 0)").cast("int64")


def with_running(counted: ir.Table, slots: int) -> ir.Table:
    """Counts with the running totals behind them: column n{slots + i} is n0 + ... + n{i}."""
    running: list[ir.Value] = []
    for at in range(slots):
        number = counted[f"n{at}"]
        running.append(running[-1] + number if running else number)
    return counted.mutate(**{f"n{slots + at}": total for at, total in enumerate(running)})


def histogram(counted: ir.Table, groups: GroupTable, slots: int) -> ir.Table:
    """status, kind of group, code, groups, copies: how many groups have how many impressions."""
    served = counted.mutate(served=counted["group"].cast("string")).drop("group")
    both = served.outer_join(groups.rows, served["served"] == groups.rows["group"])
    not_known = both["served"].isnull().ifelse(NO_GROUP, UNKNOWN)
    numbers = [both[f"n{at}"].fill_null(0).cast("int64") for at in range(slots)]
    codes = [number * slots + at for at, number in enumerate(numbers)]
    copies = both["copies"].fill_null(0) if "copies" in counted.columns else ibis.literal(0)
    flat = both.select(
        status=both["group"].notnull().ifelse(KNOWN, not_known).cast("int64"),
        **{name: both[name] for name in groups.kind},
        copies=copies.cast("int64"),
        code=codes[0] if slots == 1 else ibis.array(codes).unnest(),
    )
    return flat.group_by("status", *groups.kind, "code").aggregate(
        groups=flat.count(), copies=flat["copies"].sum()
    )


def missing(log: LogTable, place: Place) -> ir.Table:
    """One row: how many rows of the log have no time, and how many no campaign."""
    rows = log.rows
    lost = rows.filter(rows["ts"].isnull() | rows["campaign"].isnull())
    ours = ibis.literal(True) if place.campaign is None else lost["campaign"] == place.campaign
    if log.counted_seconds is not None:
        n = lost["impressions"]
        return lost.aggregate(
            no_time=_sum((lost["ts"].isnull() & ours).ifelse(n, 0)),
            no_campaign=_sum(lost["campaign"].isnull().ifelse(n, 0)),
        )
    return lost.aggregate(
        no_time=count_where(lost, lost["ts"].isnull() & ours),
        no_campaign=count_where(lost, lost["campaign"].isnull()),
    )


def edges(log: LogTable, place: Place, window: Window) -> ir.Table:
    """One row: the hours of the first and last impression (in seconds since 1970), and the least
    and greatest campaign."""
    rows = place_rows(log, place)
    rows = rows.filter(inside(rows["ts"], window))
    return rows.aggregate(
        first=rows["ts"].min().truncate("h").epoch_seconds(),
        last=rows["ts"].max().truncate("h").epoch_seconds(),
        least=rows["campaign"].min(),
        greatest=rows["campaign"].max(),
    )


def oddities(
    log: LogTable, place: Place, window: Window, created: datetime | None
) -> ir.Table | None:
    """One row: rows of the window that belong to another catalogue, or that deserve a warning:
    late, filed under another day, with a time zone, older than the catalogue."""
    if log.counted_seconds is not None:
        return None
    rows = place_rows(log, Place(place.campaign))
    rows = rows.filter(inside(rows["ts"], window))
    conditions: dict[str, ir.Value] = {}
    if place.catalogue is not None and "catalogue" in rows.columns:
        conditions["other_catalogue"] = rows["catalogue"] != place.catalogue
    if "received" in rows.columns and window.end is not None:
        conditions["late"] = rows["received"] >= instant_literal(rows["received"], window.end)
    if "filed" in rows.columns:
        conditions["filed_under_another_day"] = rows["filed"] != rows["ts"].date()
    if "zoned" in rows.columns:
        conditions["converted_to_utc"] = rows["zoned"]
    if created is not None and (window.start is None or window.start < created):
        conditions["before_catalogue"] = rows["ts"] < instant_literal(rows["ts"], created)
    if not conditions:
        return None
    return rows.aggregate(
        **{name: count_where(rows, condition) for name, condition in conditions.items()}
    )
