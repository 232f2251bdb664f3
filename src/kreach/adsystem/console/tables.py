"""Tables for CSV downloads: plain numbers, times in UTC, empty cells for what is withheld."""

import csv
import io
from collections.abc import Iterable, Sequence

from msgspec.structs import asdict

from kreach.adsystem.console.status import CampaignView
from kreach.adsystem.reports.combined_report import CombinedDocument, SetReport
from kreach.adsystem.reports.report import (
    CampaignStatus,
    CapReport,
    CurveDocument,
    Outlook,
    ReachDocument,
)

__all__ = [
    "Row",
    "campaign_row",
    "comparison_rows",
    "csv_bytes",
    "curve_rows",
    "frequency_rows",
    "overlap_rows",
    "plan_rows",
    "report_rows",
]

Row = dict[str, object]


def csv_bytes(rows: Iterable[Row]) -> bytes:
    """CSV with a header; text cannot become a formula in a spreadsheet."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in names])
    return text.getvalue().encode()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value


def _interval(name: str, ends: Sequence[float] | None) -> Row:
    low, high = ends or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def _cap_columns(cap: int, report: CapReport | SetReport | None) -> Row:
    names = ("reach", "level", "unique_reach", "average_frequency", "over_exposed")
    return {
        "cap": cap,
        **{name: getattr(report, name, None) for name in names},
        **_interval("reach", getattr(report, "interval", None)),
        **_interval("unique_reach", getattr(report, "unique_reach_interval", None)),
    }


def campaign_row(campaign: CampaignStatus, view: CampaignView, currency: str) -> Row:
    """A campaign with its delivery and its reach at the largest cap."""
    status, cost = campaign.status, view.cost_per_person
    return {
        "campaign": campaign.id,
        "name": campaign.name,
        "state": status.delivery,
        "state_reason": status.delivery_reason,
        "start": campaign.start,
        "end": campaign.end,
        "budget": campaign.budget,
        "spend": status.spend,
        "currency": currency,
        "impressions": status.impressions,
        "people": view.people,
        **_cap_columns(view.cap, view.report),
        "cost_per_person": None if cost is None else cost[0],
    }


def report_rows(document: ReachDocument | None) -> list[Row]:
    """A row for each cap of a reach report."""
    if document is None:
        return []
    names = ("campaign", "start", "end", "catalogue", "people")
    head = {name: getattr(document, name) for name in names}
    return [
        {**head, "impressions": report.impressions, **_cap_columns(report.cap, report)}
        for report in document.reports
    ]


def frequency_rows(document: ReachDocument | None) -> list[Row]:
    """People who saw the ad exactly and at least so many times."""
    if document is None or not document.reports:
        return []
    report = document.reports[0]
    top = len(report.frequency) - 1
    at_least = (document.people, *report.at_least)
    intervals = (None, *report.at_least_intervals)
    return [
        {
            "times": f"{times}+" if times == top else times,
            "people": people,
            "people_at_least": at_least[times],
            **_interval("people_at_least", intervals[times]),
        }
        for times, people in enumerate(report.frequency)
    ]


def curve_rows(document: CurveDocument | None) -> list[Row]:
    """A row for each point and cap of a curve."""
    return [
        {
            "until": point.ts,
            "impressions": point.impressions,
            "cap": report.cap,
            "reach_to_date": report.reach,
            **_interval("reach_to_date", report.interval),
            "level": report.level,
        }
        for point in (document.points if document is not None else ())
        for report in point.reports
    ]


def plan_rows(plans: Iterable[tuple[int, Outlook]]) -> list[Row]:
    """A row for each group size and budget."""
    rows = []
    for group_size, outlook in plans:
        row: Row = {"group_size": group_size, **asdict(outlook)}
        del row["band"], row["people_band"]
        people = _interval("people", outlook.people_band)
        rows.append(row | _interval("reach", outlook.band) | people)
    return rows


def comparison_rows(document: CombinedDocument | None) -> list[Row]:
    """A row for each campaign alone, one for all together and one for those in the overlap."""
    combined = None if document is None else document.combined
    if document is None or combined is None:
        return []
    rows = []
    for part, step in zip(document.parts, combined.incremental, strict=True):
        only, report = combined.only[part.name], part.reports[0]
        rows.append(
            {
                "campaign": part.name,
                "impressions": part.impressions,
                **_cap_columns(report.cap, report),
                "only_this": only.unique_reach,
                **_interval("only_this", only.unique_reach_interval),
                "adds": step.adds.unique_reach,
                **_interval("adds", step.adds.unique_reach_interval),
                "people_so_far": step.unique_reach_so_far,
            }
        )
    sets = {"(together)": combined.union, "(two or more)": combined.overlap}
    for name, one in sets.items():
        impressions = document.impressions if one is combined.union else None
        head: Row = {"campaign": name, "impressions": impressions}
        rows.append({**head, **_cap_columns(one.cap, one)})
    return rows


def overlap_rows(document: CombinedDocument | None) -> list[Row]:
    """A row for each two campaigns, both ways round."""
    if document is None or not document.overlap_matrix:
        return []
    names = [part.name for part in document.parts]
    return [
        {
            "campaign": first,
            "also": second,
            "people_of_both": people,
            "share_of_campaign": people / row[at] if row[at] else None,
        }
        for at, (first, row) in enumerate(zip(names, document.overlap_matrix, strict=True))
        for second, people in zip(names, row, strict=True)
        if first != second
    ]
