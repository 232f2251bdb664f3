"""Reach of every campaign in one period, alone and since its flight began.

The engine counts, `fold` makes of that the exposure that every other report is made from, and
`ReachReport` does the rest: the numbers are those of `kr.measure`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.jobs.audiences import Subjects
from kreach.adsystem.jobs.table import ReachRow
from kreach.adsystem.log.engine import Engine
from kreach.adsystem.log.exposures import Fold, fold
from kreach.adsystem.log.queries import Scope
from kreach.adsystem.log.tables import GroupTable, LogTable, log_table
from kreach.adsystem.measurement.report import ReachReport
from kreach.adsystem.reports.window import interval_method
from kreach.boundary.times import Window
from kreach.errors import KreachError

__all__ = [
    "FLIGHT",
    "Pair",
    "Period",
    "Tally",
    "flights_of",
    "period_tallies",
    "reach_rows",
    "refuse_copies",
]

FLIGHT = "flight"

Pair = tuple[str, str]
"""A campaign and the version of a catalogue."""


@dataclass(frozen=True)
class Period:
    """A closed window, and what to call it: hour or day."""

    start: datetime
    end: datetime
    by: str

    @property
    def window(self) -> Window:
        """The same as a window."""
        return Window(self.start, self.end)


@dataclass(frozen=True)
class Tally:
    """Rows of the log, and what they cost."""

    impressions: int = 0
    spend_micros: int = 0


def _literal(column: ir.Value, moment: datetime) -> ir.Value:
    """The time in the column's own type, so that engines can skip what they store."""
    if column.type().timezone is None:
        return ibis.literal(moment.replace(tzinfo=None), type="timestamp")
    return ibis.literal(moment, type="timestamp('UTC')")


def _tallied(engine: Engine, rows: ir.Table) -> dict[Pair, Tally]:
    found = engine.columns(
        rows.group_by("campaign", "catalogue").aggregate(
            rows=rows.count(), micros=rows["price_micros"].sum().cast("int64")
        )
    )
    columns = (found[name] for name in ("campaign", "catalogue", "rows", "micros"))
    return {
        (str(campaign), str(catalogue)): Tally(int(count), int(micros))
        for campaign, catalogue, count, micros in zip(*columns, strict=True)
    }


def period_tallies(engine: Engine, files: list[Path], period: Period) -> dict[Pair, Tally]:
    """Impressions and spend of one period."""
    return _tallied(engine, _inside(engine, files, period)) if files else {}


def refuse_copies(engine: Engine, files: list[Path], period: Period) -> None:
    """Refuse a log in which an impression of the period comes twice.

    It was paid for once and would be counted twice, and nothing tells which of them is right.
    """
    if not files:
        return
    rows = _inside(engine, files, period)
    found = engine.one(rows.aggregate(rows=rows.count(), ids=rows["impression_id"].nunique()))
    twice = int(found["rows"]) - int(found["ids"])
    if twice:
        rule = "hold each impression once, over all bidders"
        raise KreachError.rule("log", rule, f"{twice} rows whose impression_id is another's")


def _inside(engine: Engine, files: list[Path], period: Period) -> ir.Table:
    rows = engine.read("log", files)
    ts = rows["ts"]
    return rows.filter(ts >= _literal(ts, period.start), ts < _literal(ts, period.end))


def flights_of(
    campaigns: Mapping[str, Campaign], tallies: Mapping[Pair, Tally], period: Period
) -> dict[str, datetime]:
    """From when on to count each campaign that plays in the period, or has impressions in it.

    That is the start of its flight, or of the period if that comes first.
    """
    shown = {campaign for campaign, _ in tallies}
    return {
        name: min(campaign.start, period.start)
        for name, campaign in campaigns.items()
        if name in shown or (campaign.start < period.end and campaign.end > period.start)
    }


def flight_tallies(
    engine: Engine, rows: ir.Table, flights: Mapping[str, datetime], period: Period
) -> dict[Pair, Tally]:
    """Impressions and spend from the start of each flight to the end of the period."""
    begins = [moment.isoformat() for moment in flights.values()]
    starts = engine.read("flights", {"flight": list(flights), "begins": begins})
    starts = starts.select("flight", begins=starts["begins"].cast("timestamp('UTC')"))
    both = rows.inner_join(starts, rows["campaign"] == starts["flight"])
    both = both.select("campaign", "catalogue", "price_micros", "ts", "begins")
    ts = both["ts"]
    return _tallied(
        engine, both.filter(ts < _literal(ts, period.end), ts >= both["begins"].cast(ts.type()))
    )


@dataclass(frozen=True)
class _Span:
    """One window of a campaign on a catalogue, before it is measured."""

    name: str
    start: datetime
    tally: Tally


def reach_rows(
    engine: Engine,
    files: list[Path],
    subjects: Subjects,
    campaigns: Mapping[str, Campaign],
    tallies: Mapping[Pair, Tally],
    period: Period,
    level: float,
) -> Iterator[ReachRow]:
    """A row for each campaign and catalogue with impressions, cap, and window.

    `tallies` are those of the period; `files` hold all rows of the flights.
    """
    flights = flights_of(campaigns, tallies, period)
    rows = engine.read("log", files) if files else None
    so_far: dict[Pair, Tally] = {}
    if rows is not None and flights:
        so_far = flight_tallies(engine, rows, flights, period)
    log = None if rows is None else log_table(rows, "the files of the log", unique_ids=True)
    for pair in sorted({*tallies, *so_far}):
        name, version = pair
        spans = [_Span(period.by, period.start, tallies.get(pair, Tally()))]
        if name in flights:
            spans.append(_Span(FLIGHT, flights[name], so_far.get(pair, Tally())))
        campaign = campaigns.get(name)
        try:
            if campaign is None or log is None:
                raise KreachError.rule("campaign", "be in the store", name)
            groups = subjects.groups(version, campaign.audience)
        except KreachError as error:
            yield from _unmeasured(pair, spans, period, _caps(campaign), str(error))
            continue
        folds = _folds(engine, log, groups, pair, flights[name], period)
        for span, folded in zip(spans, folds, strict=True):
            yield from _measured(pair, span, period, _caps(campaign), folded, groups.people, level)


def _caps(campaign: Campaign | None) -> list[int]:
    """Unique reach, and reach at each of the campaign's own caps."""
    return sorted({1, *(cap.limit for cap in campaign.caps)}) if campaign else [1]


def _folds(
    engine: Engine, log: LogTable, groups: GroupTable, pair: Pair, begins: datetime, period: Period
) -> tuple[Fold, Fold]:
    """The period alone, and all from the start of the flight, in one question."""
    scope = Scope(*pair)
    if begins == period.start:
        only = fold(engine, log, groups, scope, [period.window])[0]
        return only, only
    slots = [Window(begins, period.start), period.window]
    folds = fold(engine, log, groups, scope, slots, running=True)
    return folds[1], folds[3]


def _facts(pair: Pair, span: _Span, period: Period) -> dict[str, Any]:
    return {
        "campaign": pair[0],
        "catalogue": pair[1],
        "span": span.name,
        "window_start": span.start,
        "window_end": period.end,
        "impressions": span.tally.impressions,
        "spend_micros": span.tally.spend_micros,
    }


def _unmeasured(
    pair: Pair, spans: list[_Span], period: Period, caps: list[int], why: str
) -> Iterator[ReachRow]:
    for span in spans:
        for cap in caps:
            yield ReachRow(**_facts(pair, span, period), cap=cap, note=why)


def _measured(
    pair: Pair,
    span: _Span,
    period: Period,
    caps: list[int],
    folded: Fold,
    people: int,
    level: float,
) -> Iterator[ReachRow]:
    for cap in caps:
        report = ReachReport(cap, folded.impressions, people, folded.exposure)
        method = interval_method(report)
        low, high = report.interval(level, method)
        least, most = report.bounds
        yield ReachRow(
            **_facts(pair, span, period),
            cap=cap,
            rejected=span.tally.impressions - folded.impressions,
            people=people,
            reach=report.reach,
            std=report.std,
            low=low,
            high=high,
            level=level,
            interval_method=report.distribution().method if method == "exact" else method,
            least=float(least),
            most=float(most),
            over_exposed=report.over_exposed,
            average_frequency=report.average_frequency,
        )
