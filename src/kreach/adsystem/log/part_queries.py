"""Rows of several parts of a log, each with the number of its part, as Ibis expressions.

    part_rows       part, group, ts          the rows that count: of a repeated id the earliest
    numbered        number, group            groups of a table in the order of their ids
    part_counts     part, number, n          impressions by part and group; −1: not in the table
    part_times      part, number, us         the same rows one by one

A part is a campaign, or any, in a window of time. Parts of one campaign share no instant.
"""

from collections.abc import Sequence
from typing import NamedTuple

import ibis
import ibis.expr.types as ir

from kreach.adsystem.log.copies import ranked_copies, same_impression
from kreach.adsystem.log.instants import micros
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.queries import inside, place_rows
from kreach.adsystem.log.tables import GroupTable, LogTable
from kreach.boundary.times import Window

__all__ = [
    "LogPart",
    "candidate_rows",
    "identifying_columns",
    "numbered_groups",
    "part_counts",
    "part_rows",
    "part_times",
    "repeated_rows",
]

_NO_PART = -1


class LogPart(NamedTuple):
    """Rows of a campaign (None: of any) in a window, under a name."""

    name: str
    campaign: str | int | None
    window: Window


def part_rows(log: LogTable, parts: Sequence[LogPart], catalogue: str | int | None) -> ir.Table:
    """part, group, ts: of rows of one campaign that share an id the earliest counts."""
    rows = candidate_rows(log, parts, catalogue)
    if log.may_repeat:
        columns = [name for name in ("campaign", "group", "ts") if name in rows.columns]
        ranked, ids = ranked_copies(log, rows, identifying_columns(parts))
        once = rows.anti_join(ids, same_impression(rows, ids)).select(*columns)
        rows = once.union(ranked.filter(ranked["rank"] == 0).select(*columns))
    labelled = rows.select(part=_part_of(rows, parts), group="group", ts="ts").view()
    return labelled.filter(labelled["part"] != _NO_PART)


def repeated_rows(log: LogTable, parts: Sequence[LogPart], catalogue: str | int | None) -> ir.Table:
    """One row: how many rows of the parts repeat the id of an earlier one."""
    ranked, _ = ranked_copies(
        log, candidate_rows(log, parts, catalogue), identifying_columns(parts)
    )
    later = ranked.filter(ranked["rank"] > 0)
    labelled = later.select(part=_part_of(later, parts)).view()
    return labelled.aggregate(copies=labelled.count(where=labelled["part"] != _NO_PART))


def candidate_rows(
    log: LogTable, parts: Sequence[LogPart], catalogue: str | int | None
) -> ir.Table:
    """Rows that may be of a part; with those before, if ids may repeat."""
    rows = place_rows(log, Place(None, catalogue))
    campaigns = {part.campaign for part in parts}
    if None not in campaigns:
        rows = rows.filter(rows["campaign"].isin(sorted(campaigns, key=str)))
    ends = [part.window.end for part in parts]
    starts = [part.window.start for part in parts]
    last = None if None in ends else max(end for end in ends if end is not None)
    first = None if None in starts else min(start for start in starts if start is not None)
    # a repeat of a row from before the first part is no impression of a part
    stretch = Window(None if log.may_repeat else first, last)
    return rows.filter(inside(rows["ts"], stretch))


def identifying_columns(parts: Sequence[LogPart]) -> list[str]:
    """What identifies an impression beside its id: its campaign, unless the log is one part."""
    every = any(part.campaign is None for part in parts)
    return [] if every else ["campaign"]


def _part_of(rows: ir.Table, parts: Sequence[LogPart]) -> ir.Value:
    number: ir.Value = ibis.literal(_NO_PART, type="int64")
    for at, part in reversed(list(enumerate(parts))):
        here = ibis.and_(*inside(rows["ts"], part.window))
        if part.campaign is not None:
            here = here & (rows["campaign"] == part.campaign)
        number = here.ifelse(ibis.literal(at, type="int64"), number)
    return number


def numbered_groups(groups: GroupTable) -> ir.Table:
    """number, and the columns of the groups: numbers follow the ids."""
    rows = groups.rows
    number = ibis.row_number().over(order_by=rows["group"])
    return rows.mutate(number=number.cast("int64"))


def part_counts(rows: ir.Table, groups: ir.Table) -> ir.Table:
    """part, number, n: impressions by part and group; number −1 where the table has no such group.

    Rows without a group have the number −2.
    """
    by_group = rows.group_by("part", "group").aggregate(n=rows.count())
    named = by_group.mutate(served=by_group["group"].cast("string"))
    known = groups.select(known="group", number="number")
    both = named.left_join(known, named["served"] == known["known"])
    number = both["group"].isnull().ifelse(-2, both["number"].fill_null(-1))
    flat = both.select(part="part", number=number.cast("int64"), n="n").view()
    return flat.group_by("part", "number").aggregate(n=flat["n"].sum().cast("int64"))


def part_times(rows: ir.Table, groups: ir.Table, dialect: str) -> ir.Table:
    """part, number, us: the rows whose group the table has."""
    named = rows.select("part", served=rows["group"].cast("string"), us=micros(rows["ts"], dialect))
    known = groups.select(known="group", number="number")
    return named.inner_join(known, named["served"] == known["known"]).select("part", "number", "us")
