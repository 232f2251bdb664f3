"""What can be asked of a log, one expression per question, whatever engine answers it.

    rows of a campaign → counts: group, n0, n1, ...   (impressions of each group per window)
                       → histogram: kind of group, code, groups   (all that a report needs)

A `code` is impressions·slots + slot. Counting every window of a series by its own conditional
count keeps one row per group: a series costs little more than one window.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import ibis
import ibis.expr.types as ir

from kreach.adsystem.log.tables import GroupTable, LogTable
from kreach.boundary.times import Window
from kreach.errors import KreachError

__all__ = [
    "KNOWN",
    "NO_GROUP",
    "UNKNOWN",
    "Scope",
    "counts",
    "edges",
    "histogram",
    "missing",
    "oddities",
    "with_running",
]

KNOWN, NO_GROUP, UNKNOWN = 0, 1, 2
_SLOTS_TOGETHER = 10


@dataclass(frozen=True)
class Scope:
    """Which rows a question is about: those of a campaign, told under a version of the groups."""

    campaign: str | None = None
    version: str | None = None

    def __post_init__(self) -> None:
        if self.campaign is not None and not isinstance(self.campaign, str):
            raise KreachError.rule("campaign", "be text", self.campaign)


def _chosen(log: LogTable, scope: Scope) -> ir.Table:
    rows = log.rows
    if scope.campaign is not None:
        rows = rows.filter(rows["campaign"] == scope.campaign)
    if scope.version is not None and "catalogue" in rows.columns:
        told = rows["catalogue"]
        rows = rows.filter(told.isnull() | (told == scope.version))
    return rows


def _moment(column: ir.Value, moment: datetime) -> ir.Value:
    """The time as a constant of the column's own type, so that engines can skip what they store."""
    zone = column.type().timezone
    if zone is None:
        return ibis.literal(moment.replace(tzinfo=None), type="timestamp")
    return ibis.literal(moment, type="timestamp('UTC')")


def _inside(column: ir.Value, window: Window) -> list[ir.Value]:
    conditions = []
    if window.start is not None:
        conditions.append(column >= _moment(column, window.start))
    if window.end is not None:
        conditions.append(column < _moment(column, window.end))
    return conditions or [column.notnull()]


def counts(log: LogTable, scope: Scope, slots: Sequence[Window]) -> ir.Table:
    """group, n0, n1, ..., copies: impressions of each group in each slot.

    Slots follow each other without gaps. Of the rows that share an id the earliest counts (the
    least group among equals), wherever in the log it lies: a retry after midnight is no impression
    of the next day. Only rows before the end matter for that.
    """
    whole = Window(slots[0].start, slots[-1].end)
    counted = _counts(_chosen(log, scope), slots)
    if not log.may_repeat:
        return counted
    later = _later_copies(_chosen(log, scope), whole.end)
    later = later.filter(_inside(later["ts"], whole))
    surplus = later.group_by(copied="group").aggregate(**_tallies(later, slots, "m"))
    both = counted.left_join(surplus, counted["group"] == surplus["copied"])
    copies = [both[f"m{at}"].fill_null(0) for at in range(len(slots))]
    real = {f"n{at}": both[f"n{at}"] - copy for at, copy in enumerate(copies)}
    return both.select("group", **real, copies=sum(copies[1:], copies[0]))


def _counts(rows: ir.Table, slots: Sequence[Window]) -> ir.Table:
    """group, n0, n1, ...: by conditional counts, a few slots at a time.

    Every row is tested against every slot of its part, so parts are short; a part reads only its
    own stretch of time, and the parts are then joined by group.
    """
    parts = []
    for low in range(0, len(slots), _SLOTS_TOGETHER):
        here = slots[low : low + _SLOTS_TOGETHER]
        stretch = rows.filter(_inside(rows["ts"], Window(here[0].start, here[-1].end)))
        parts.append(stretch.group_by("group").aggregate(**_tallies(stretch, here, "n", low)))
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


def _tallies(
    rows: ir.Table, slots: Sequence[Window], name: str, first: int = 0
) -> dict[str, ir.Value]:
    if len(slots) == 1:
        return {f"{name}{first}": rows.count()}
    return {
        f"{name}{first + at}": _how_many(rows, ibis.and_(*_inside(rows["ts"], slot)))
        for at, slot in enumerate(slots)
    }


def _how_many(rows: ir.Table, condition: ir.Value) -> ir.Value:
    """Rows that meet a condition; none is 0, also where an engine adds up nothing to NULL."""
    return rows.count(where=condition).fill_null(0)


def _later_copies(rows: ir.Table, end: datetime | None) -> ir.Table:
    """Rows whose id another, earlier row has. Only ids that come twice are put in order."""
    rows = rows.filter(_inside(rows["ts"], Window(None, end)))
    whole = rows.filter(rows["impression_id"].notnull(), rows["group"].notnull())
    tally = whole.group_by("impression_id").aggregate(times=whole.count())
    suspects = tally.filter(tally["times"] > 1).select(suspect="impression_id")
    doubtful = whole.semi_join(suspects, whole["impression_id"] == suspects["suspect"])
    place = ibis.row_number().over(
        group_by=doubtful["impression_id"], order_by=[doubtful["ts"], doubtful["group"]]
    )
    ranked = doubtful.mutate(place=place)
    return ranked.filter(ranked["place"] > 0)


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
    told = both["served"].isnull().ifelse(NO_GROUP, UNKNOWN)
    numbers = [both[f"n{at}"].fill_null(0).cast("int64") for at in range(slots)]
    codes = [number * slots + at for at, number in enumerate(numbers)]
    copies = both["copies"].fill_null(0) if "copies" in counted.columns else ibis.literal(0)
    flat = both.select(
        status=both["group"].notnull().ifelse(KNOWN, told).cast("int64"),
        **{name: both[name] for name in groups.kind},
        copies=copies.cast("int64"),
        code=codes[0] if slots == 1 else ibis.array(codes).unnest(),
    )
    return flat.group_by("status", *groups.kind, "code").aggregate(
        groups=flat.count(), copies=flat["copies"].sum()
    )


def missing(log: LogTable, scope: Scope) -> ir.Table:
    """One row: how many rows of the log name no time, and how many no campaign."""
    rows = log.rows
    lost = rows.filter(rows["ts"].isnull() | rows["campaign"].isnull())
    ours = ibis.literal(True) if scope.campaign is None else lost["campaign"] == scope.campaign
    return lost.aggregate(
        no_time=_how_many(lost, lost["ts"].isnull() & ours),
        no_campaign=_how_many(lost, lost["campaign"].isnull()),
    )


def edges(log: LogTable, scope: Scope, window: Window) -> ir.Table:
    """One row: the hours of the first and last impression (in seconds since 1970), and the least
    and greatest campaign."""
    rows = _chosen(log, scope)
    rows = rows.filter(_inside(rows["ts"], window))
    return rows.aggregate(
        first=rows["ts"].min().truncate("h").epoch_seconds(),
        last=rows["ts"].max().truncate("h").epoch_seconds(),
        least=rows["campaign"].min(),
        greatest=rows["campaign"].max(),
    )


def oddities(
    log: LogTable, scope: Scope, window: Window, created: datetime | None
) -> ir.Table | None:
    """One row: rows of the window that are not told under this catalogue, or that one should know
    of: late, filed under another day, with a zone, from before the groups were formed."""
    rows = _chosen(log, Scope(scope.campaign))
    rows = rows.filter(_inside(rows["ts"], window))
    asked: dict[str, ir.Value] = {}
    if scope.version is not None and "catalogue" in rows.columns:
        asked["other_catalogue"] = rows["catalogue"] != scope.version
    if "received" in rows.columns and window.end is not None:
        asked["late"] = rows["received"] >= _moment(rows["received"], window.end)
    if "filed" in rows.columns:
        asked["filed_under_another_day"] = rows["filed"] != rows["ts"].date()
    if "zoned" in rows.columns:
        asked["converted_to_utc"] = rows["zoned"]
    if created is not None and (window.start is None or window.start < created):
        asked["before_catalogue"] = rows["ts"] < _moment(rows["ts"], created)
    if not asked:
        return None
    return rows.aggregate(**{name: _how_many(rows, odd) for name, odd in asked.items()})
