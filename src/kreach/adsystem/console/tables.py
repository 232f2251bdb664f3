"""Tables that leave the pages as CSV: plain numbers, times in UTC, empty where nothing is told."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["Row", "csv_of", "curve_rows", "frequency_rows", "plan_rows", "report_rows"]

Row = dict[str, Any]


def csv_of(rows: Iterable[Row]) -> bytes:
    """CSV with a line of names; a spreadsheet must not take text for a formula."""
    listed = list(rows)
    names = list(dict.fromkeys(name for row in listed for name in row))
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(names)
    for row in listed:
        writer.writerow([_cell(row.get(name)) for name in names])
    return made.getvalue().encode()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value


def _ends(name: str, ends: Sequence[float] | None) -> Row:
    low, high = ends or (None, None)
    return {f"{name}_low": low, f"{name}_high": high}


def report_rows(document: Row) -> list[Row]:
    """A row for each cap of a reach document."""
    head = {name: document.get(name) for name in ("campaign", "start", "end", "catalogue")}
    return [
        head
        | {
            "people": document.get("people"),
            "impressions": report["impressions"],
            "cap": report["cap"],
            "reach": report["reach"],
            **_ends("reach", report["interval"]),
            "level": report["level"],
            "unique_reach": report["unique_reach"],
            **_ends("unique_reach", report["unique_reach_interval"]),
            "average_frequency": report["average_frequency"],
            "over_exposed": report["over_exposed"],
        }
        for report in document.get("reports", [])
    ]


def frequency_rows(document: Row) -> list[Row]:
    """People by how often they saw it: exactly so often, and at least so often."""
    reports = document.get("reports") or []
    if not reports:
        return []
    report, rows = reports[0], []
    top = len(report["frequency"]) - 1
    for times, people in enumerate(report["frequency"]):
        at_least = report["at_least"][times - 1] if times else document.get("people")
        ends = report["at_least_intervals"][times - 1] if times else None
        rows.append(
            {
                "times": f"{times}+" if times == top else times,
                "people": people,
                "people_at_least": at_least,
                **_ends("people_at_least", ends),
            }
        )
    return rows


def curve_rows(document: Row) -> list[Row]:
    """A row for each point and cap of a curve."""
    return [
        {
            "until": point["ts"],
            "impressions": point["impressions"],
            "cap": report["cap"],
            "reach_so_far": report["reach"],
            **_ends("reach_so_far", report["interval"]),
            "level": report["level"],
        }
        for point in document.get("points", [])
        for report in point["reports"]
    ]


def plan_rows(plans: Iterable[Row]) -> list[Row]:
    """A row for each budget and size of groups."""
    names = (
        "group_size",
        "budget",
        "spend",
        "reach",
        "level",
        "impressions",
        "average_frequency",
        "multiplier",
    )
    return [{name: one[name] for name in names} | _ends("reach", one["band"]) for one in plans]
