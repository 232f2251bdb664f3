"""Reports over a grid: every campaign in one period, alone and since its flight began.

Counting is the log's (`log.counts`), the numbers are the reports' (`reports.measure`); a row of the
output is a `CapReport` beside the place and the window that it is about.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.jobs.audiences import JobAudiences
from kreach.adsystem.jobs.table import ReachRow
from kreach.adsystem.log.counts import PlaceTotal, WindowCounts, count_files, count_places
from kreach.adsystem.log.engine import Engine
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.queries import inside
from kreach.adsystem.log.tables import GroupTable, LogTable, log_rows, log_table
from kreach.adsystem.reports.measure import cap_reports, measure_exposure, model_info
from kreach.adsystem.reports.report import CapReport, ModelInfo
from kreach.boundary.times import Window
from kreach.errors import KreachError

__all__ = [
    "FLIGHT",
    "Period",
    "flight_starts",
    "period_totals",
    "reach_rows",
    "refuse_duplicates",
]

FLIGHT = "flight"


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


def _log(engine: Engine, files: list[Path]) -> LogTable:
    rows = log_rows(engine.read("log", files), "the files of the log")
    return log_table(rows, unique_ids=True)


def period_totals(engine: Engine, files: list[Path], period: Period) -> dict[Place, PlaceTotal]:
    """Rows and spend of one period."""
    return count_places(engine, _log(engine, files), period.window) if files else {}


def refuse_duplicates(engine: Engine, files: list[Path], period: Period) -> None:
    """Refuse a log in which an impression of the period comes twice.

    It was paid for once and would be counted twice, and nothing shows which of them is right.
    """
    if not files:
        return
    rows = engine.read("log", files)
    rows = rows.filter(inside(rows["ts"], period.window))
    total = engine.row(rows.aggregate(rows=rows.count(), ids=rows["impression_id"].nunique()))
    duplicates = int(total["rows"]) - int(total["ids"])
    if duplicates:
        rule = "hold each impression once, over all bidders"
        raise KreachError.rule("log", rule, f"{duplicates} duplicate impression ids")


def flight_starts(
    campaigns: Mapping[str, Campaign], totals: Mapping[Place, PlaceTotal], period: Period
) -> dict[str, datetime]:
    """From when on to count each campaign that runs in the period, or has impressions in it.

    That is the start of its flight, or of the period if that comes first.
    """
    delivered = {place.campaign for place in totals}
    return {
        name: min(campaign.start, period.start)
        for name, campaign in campaigns.items()
        if name in delivered or (campaign.start < period.end and campaign.end > period.start)
    }


@dataclass(frozen=True)
class _Span:
    """One window of a campaign on a catalogue, before it is measured."""

    name: str
    place: Place
    window: Window
    total: PlaceTotal

    def row(
        self,
        cap: int,
        *,
        report: CapReport | None = None,
        model: ModelInfo | None = None,
        people: int | None = None,
        note: str | None = None,
    ) -> ReachRow:
        assert self.window.start is not None
        assert self.window.end is not None
        return ReachRow.of(
            report,
            model=model,
            campaign=str(self.place.campaign),
            catalogue=str(self.place.catalogue),
            span=self.name,
            window_start=self.window.start,
            window_end=self.window.end,
            cap=cap,
            impressions=self.total.rows,
            spend_micros=self.total.spend_micros,
            people=people,
            note=note,
        )


def reach_rows(
    engine: Engine,
    files: list[Path],
    audiences: JobAudiences,
    campaigns: Mapping[str, Campaign],
    totals: Mapping[Place, PlaceTotal],
    period: Period,
    level: float,
) -> Iterator[ReachRow]:
    """A row for each campaign and catalogue with impressions, cap, and window.

    `totals` are those of the period; `files` hold all rows of the flights.
    """
    flights = flight_starts(campaigns, totals, period)
    log = _log(engine, files) if files else None
    so_far: dict[Place, PlaceTotal] = {}
    if log is not None and flights:
        so_far = count_places(engine, log, Window(None, period.end), flights)
    for place in sorted({*totals, *so_far}, key=str):
        name = str(place.campaign)
        spans = [_Span(period.by, place, period.window, totals.get(place, PlaceTotal()))]
        if name in flights:
            window = Window(flights[name], period.end)
            spans.append(_Span(FLIGHT, place, window, so_far.get(place, PlaceTotal())))
        campaign = campaigns.get(name)
        try:
            if campaign is None or log is None:
                raise KreachError.rule("campaign", "be in the store", name)
            groups = audiences.groups(str(place.catalogue), campaign.audience)
        except KreachError as error:
            for span in spans:
                yield from (
                    span.row(cap, note=str(error))
                    for cap in (campaign.report_caps if campaign else (1,))
                )
            continue
        counts = _count(engine, log, groups, place, flights[name], period)
        for span, counted in zip(spans, counts, strict=True):
            caps, people = campaign.report_caps, groups.people
            reports = measure_exposure(counted.exposure, counted.impressions, people, caps)
            model = model_info(counted.exposure)
            for report in cap_reports(reports, level):
                yield span.row(report.cap, report=report, model=model, people=people)


def _count(
    engine: Engine,
    log: LogTable,
    groups: GroupTable,
    place: Place,
    begins: datetime,
    period: Period,
) -> tuple[WindowCounts, WindowCounts]:
    """The period alone, and all from the start of the flight, in one query."""
    if begins == period.start:
        only = count_files(engine, log, groups, place, [period.window])[0]
        return only, only
    windows = [Window(begins, period.start), period.window]
    counts = count_files(engine, log, groups, place, windows, running=True)
    return counts[1], counts[3]
