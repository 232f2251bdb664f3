"""Counts by campaign, period and group: what a warehouse computes, and how it is read back.

    campaign, period, group, impressions, duplicates

`period` is the start of an hour, day or week in UTC, empty for rows without a time. Each impression
counts once in its campaign: of rows that share an id the earliest, among equal times that of the
least group. A file or table of these is a log for reports that need no times: `open_counts`.
"""

from collections.abc import Sequence
from functools import partial

import ibis
import ibis.expr.types as ir

from kreach.adsystem.log.dialects import DIALECTS, to_sql
from kreach.adsystem.log.engine import Engine, Source, source_name
from kreach.adsystem.log.impression_log import ImpressionLog
from kreach.adsystem.log.queries import count_where, inside, instant_literal
from kreach.adsystem.log.tables import LogTable, count_rows
from kreach.boundary.times import DAY_SECONDS, Window, as_period
from kreach.errors import KreachError

__all__ = ["count_query", "count_sql", "open_counts"]

_UNITS = {"hour": "h", "day": "D", "week": "W"}
_HOUR_SECONDS = 3600
_COLUMNS = ("campaign", "group", "ts")


def count_query(
    rows: ir.Table, by: str, *, campaigns: Sequence[str] = (), window: Window | None = None
) -> ir.Table:
    """The counts of a log, as an expression for any engine."""
    window = window or Window()
    if campaigns:
        rows = rows.filter(rows["campaign"].isin(list(campaigns)))
    ts = rows["ts"]
    if window.end is not None:  # only rows before the end can be earlier than those in the window
        rows = rows.filter(ts.isnull() | (ts < instant_literal(ts, window.end)))
    copy = ibis.literal(False)
    if "impression_id" in rows.columns:
        # rows without group or time are neither copies nor originals
        whole = rows["group"].notnull() & rows["ts"].notnull() & rows["impression_id"].notnull()
        rows = rows.mutate(whole=whole).view()
        keys = [rows["campaign"], rows["impression_id"], rows["whole"]]
        order = [rows["ts"], rows["group"]]
        rows = rows.mutate(rank=ibis.row_number().over(group_by=keys, order_by=order)).view()
        copy = rows["whole"] & (rows["rank"] > 0)
    flat = rows.select(
        "campaign", "group", period=rows["ts"].truncate(_UNITS[by]), copy=copy, ts="ts"
    ).view()
    if window.start is not None:
        inner = ibis.and_(*inside(flat["ts"], Window(window.start, None)))
        flat = flat.filter(flat["ts"].isnull() | inner)
    return flat.group_by("campaign", "period", "group").aggregate(
        impressions=count_where(flat, ~flat["copy"]), duplicates=count_where(flat, flat["copy"])
    )


def count_sql(
    dialect: str,
    table: str,
    *,
    by: str = "day",
    campaigns: Sequence[str] = (),
    start: object = None,
    end: object = None,
    ids: bool = True,
) -> str:
    """The query of `count_query` in the SQL of a warehouse.

    >>> import kreach as kr
    >>> print(kr.count_sql("duckdb", "impressions", ids=False).splitlines()[0])
    SELECT
    """
    if dialect not in DIALECTS:
        raise KreachError.rule("dialect", f"be one of {', '.join(DIALECTS)}", dialect)
    by, window = as_period(by), Window.between(start, end)
    names = (*_COLUMNS, "impression_id") if ids else _COLUMNS
    kinds = dict.fromkeys(names, "string") | {"ts": "timestamp('UTC')"}
    spell = str.upper if dialect == "snowflake" else str  # unquoted names are upper case there
    *schemas, name = spell(table).split(".")
    if not all((*schemas, name)) or len(schemas) > 2:
        raise KreachError.rule("table", "be a name, schema.name or catalog.schema.name", table)
    catalog, schema = (None, None, *schemas)[-2:]
    columns = {spell(n): kind for n, kind in kinds.items()}
    raw = ibis.table(columns, name=name, catalog=catalog, database=schema)
    rows = raw.select(**{n: raw[spell(n)] for n in names})
    query = count_query(rows, by, campaigns=campaigns, window=window)
    return to_sql(query, dialect, pretty=True)


def open_counts(engine: Engine, source: Source) -> ImpressionLog:
    """A file or table of counts as a log: for windows of whole periods, without a visit model.

    >>> import kreach as kr
    >>> counts = {"campaign": ["s"], "period": ["2026-11-01"], "group": ["a"], "impressions": [2]}
    >>> with kr.EmbeddedEngine() as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a"], "size": [2]})
    ...     kr.measure_window(kr.open_counts(engine, counts), groups, [1]).report(cap=1).reach
    1.5
    """
    name = source_name(source)
    rows = engine.materialize(engine.load("counts", source, partial(count_rows, source=name)))
    hours = rows["ts"].epoch_seconds() % DAY_SECONDS
    facts = engine.row(
        rows.aggregate(
            wrong=rows.count(where=rows["impressions"].isnull() | (rows["impressions"] < 0)),
            less=rows.count(where=rows["duplicates"].isnull() | (rows["duplicates"] < 0)),
            hours=rows.count(where=hours != 0),
            odd=rows.count(where=rows["ts"].epoch_seconds() % _HOUR_SECONDS != 0),
        )
    )
    for broken, rule in {
        "wrong": "have impressions that are whole numbers ≥ 0",
        "less": "have duplicates that are whole numbers ≥ 0",
        "odd": "have periods that begin at whole hours",
    }.items():
        if int(facts[broken]):
            raise KreachError.rule("counts", rule, f"{int(facts[broken])} rows that do not")
    unit = _HOUR_SECONDS if int(facts["hours"]) else DAY_SECONDS
    return ImpressionLog.of(engine, LogTable(rows, unique_ids=True, counted_seconds=unit))
