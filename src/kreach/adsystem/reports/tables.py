"""Rows and plots of report documents, for notebooks and data frames.

Documents are read by their fields, so that the module of the report types can import this one.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from kreach.display.plots import (
    COLORS,
    MUTED,
    line_with_band,
    new_axes,
    points_with_bars,
    stacked_bars,
    with_thousands,
)
from kreach.display.table import Table, cell_text, columns_of, with_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "combined_plot",
    "combined_rows",
    "combined_table",
    "curve_plot",
    "curve_rows",
    "plan_plot",
    "plan_table",
    "reach_plot",
    "reach_rows",
    "reach_table",
    "segment_plot",
    "segment_rows",
    "segment_table",
    "series_plot",
    "series_rows",
    "series_table",
    "struct_row",
    "subject",
    "text_list",
]


def struct_row(struct: msgspec.Struct, **first: Any) -> dict[str, Any]:
    """The numbers of a struct as a row of a frame, after the given cells."""
    return {**first, **with_pairs(msgspec.structs.asdict(struct))}


def subject(document: Any) -> str:
    """What a document is about: campaign and window."""
    campaign = document.campaign or "all campaigns"
    if not document.start and not document.end:
        return f"{campaign}, all time"
    return f"{campaign}, {_day(document.start) or 'the start'} to {_day(document.end) or 'now'}"


def text_list(values: Sequence[float]) -> str:
    """Numbers in short, for one line: [1,234, 5.6]."""
    return f"[{', '.join(f'{value:,.1f}' for value in values)}]"


def _day(text: str | None) -> str | None:
    return None if text is None else text.replace("T00:00:00Z", "")


def _notes(document: Any) -> tuple[str, ...]:
    notes = [
        f"{rows:,} rows rejected: {reason.replace('_', ' ')}"
        for reason, rows in document.rejected.items()
        if rows
    ]
    correction = getattr(document, "correction", None)
    if correction:
        notes.append(f"corrected by a panel of {correction.panel_share:.0%} of the groups")
    hidden = getattr(document, "suppressed", None) or ()
    notes += [f"{withheld.what} withheld: {withheld.why}" for withheld in hidden]
    return (*notes, *([document.basis] if document.basis else []))


def _cap_row(report: Any) -> dict[str, Any]:
    row = {
        "cap": report.cap,
        "people reached": report.unique_reach,
        "within the cap": report.reach,
        f"{report.level:.0%} interval": report.interval,
        "possible": report.bounds,
        "over-exposed": report.over_exposed,
        "frequency": report.average_frequency,
    }
    return row if report.bounds is not None else {k: v for k, v in row.items() if k != "possible"}


# -- one window -------------------------------------------------------------------------------


def reach_rows(document: Any) -> list[dict[str, Any]]:
    """A row per cap."""
    about = {"campaign": document.campaign, "start": document.start, "end": document.end}
    return [struct_row(report, **about) for report in document.reports]


def reach_table(document: Any) -> Table:
    """A row per cap, for people."""
    shown = "" if document.impressions is None else f"{document.impressions:,} impressions on "
    title = f"{subject(document)}: {shown}{document.people:,} people"
    return Table(title, columns_of([_cap_row(r) for r in document.reports]), _notes(document))


def reach_plot(document: Any, ax: "Axes | None" = None) -> "Axes":
    """Reach by cap, with intervals."""
    reports = sorted(document.reports, key=lambda report: report.cap)
    ax = new_axes(ax, subject(document), "frequency cap", "reach within the cap")
    caps = [report.cap for report in reports]
    points_with_bars(ax, caps, [r.reach for r in reports], [r.interval for r in reports])
    ax.set_xticks(caps)
    ax.margins(x=0.2)
    return ax


# -- series and curves ------------------------------------------------------------------------


def _whole_periods(document: Any) -> list[Any]:
    return [p for p in document.series if p.period is not None and p.cumulative is not None]


def series_rows(document: Any) -> list[dict[str, Any]]:
    """A row per period and cap: the period alone, and `cumulative_…` from the start."""
    rows = []
    for period in _whole_periods(document):
        about = {
            "campaign": document.campaign,
            "start": _instant(period.start),
            "end": _instant(period.end),
        }
        for alone, so_far in zip(period.period, period.cumulative, strict=True):
            row = struct_row(alone, **about)
            cumulative = struct_row(so_far)
            for name in ("impressions", "reach", "std", "interval_low", "interval_high"):
                row[f"cumulative_{name}"] = cumulative[name]
            for name in ("unique_reach", "over_exposed", "average_frequency"):
                row[f"cumulative_{name}"] = cumulative[name]
            rows.append(row)
    return rows


def series_table(document: Any) -> Table:
    """A row per period at the first cap, for people."""
    rows = [
        {
            document.by: _day(period.start),
            "impressions": period.impressions,
            "reach": period.period[0].reach,
            "reach to date": period.cumulative[0].reach,
            f"{period.cumulative[0].level:.0%} interval": period.cumulative[0].interval,
            "frequency": period.cumulative[0].average_frequency,
        }
        for period in _whole_periods(document)
    ]
    title = f"{subject(document)}, by {document.by}, cap {document.reports[0].cap}"
    notes = ("reach does not add up over periods: somebody may be in several", *_notes(document))
    return Table(title, columns_of(rows), notes)


def series_plot(document: Any, ax: "Axes | None" = None) -> "Axes":
    """Reach to date with its interval, and each period's own reach as bars."""
    periods = _whole_periods(document)
    cap = document.reports[0].cap
    ax = new_axes(ax, subject(document), "", "people" if cap == 1 else f"reach within cap {cap}")
    ends = [_instant(period.end) for period in periods]
    starts = [_instant(period.start) for period in periods]
    widths = [0.8 * (end - start) for start, end in zip(starts, ends, strict=True)]
    middles = [start + (end - start) / 2 for start, end in zip(starts, ends, strict=True)]
    alone = [period.period[0].reach for period in periods]
    label = f"this {document.by}"
    ax.bar(middles, alone, width=widths, color=MUTED, alpha=0.5, label=label)  # type: ignore[arg-type]
    to_date = [period.cumulative[0] for period in periods]
    intervals = [report.interval for report in to_date]
    reach = [report.reach for report in to_date]
    marker = "o" if len(ends) < 40 else ""
    line_with_band(ax, ends, reach, intervals, label="to date", marker=marker)
    ax.legend(frameon=False, fontsize=9)
    _date_axis(ax)
    return ax


def curve_rows(document: Any) -> list[dict[str, Any]]:
    """A row per point and cap."""
    return [
        struct_row(
            report,
            campaign=document.campaign,
            ts=_instant(point.ts),
            impressions=point.impressions,
        )
        for point in document.points
        for report in point.reports
    ]


def curve_plot(document: Any, ax: "Axes | None" = None) -> "Axes":
    """Reach so far over time, a line per cap."""
    ax = new_axes(ax, document.campaign, "", "reach to date")
    times = [_instant(point.ts) for point in document.points]
    for at, color in zip(range(len(document.points[0].reports)), COLORS, strict=False):
        reports = [point.reports[at] for point in document.points]
        intervals = [report.interval for report in reports]
        reach = [report.reach for report in reports]
        line_with_band(ax, times, reach, intervals, color=color, label=f"cap {reports[0].cap}")
    ax.legend(frameon=False, fontsize=9)
    _date_axis(ax)
    return ax


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _date_axis(ax: "Axes") -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415 - an extra

    locator = AutoDateLocator(maxticks=8)  # type: ignore[no-untyped-call]
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


# -- campaigns together -----------------------------------------------------------------------


def _combined(document: Any) -> list[Any]:
    return [each for each in (document.combined, *document.more_caps) if each is not None]


def combined_rows(document: Any) -> list[dict[str, Any]]:
    """A row per cap and set of people: union, overlap, only each part, what each part adds."""
    rows = []
    for each in _combined(document):
        rows += [
            struct_row(each.union, set="union", part=None),
            struct_row(each.overlap, set="overlap", part=None),
        ]
        rows += [struct_row(report, set="only", part=name) for name, report in each.only.items()]
        rows += [struct_row(step.adds, set="adds", part=step.part) for step in each.incremental]
    return rows


def combined_table(document: Any) -> Table:
    """A row per set at the first cap, for people."""
    rows: list[dict[str, Any]] = []
    for each in _combined(document):
        at = 0 if each is document.combined else 1 + document.more_caps.index(each)
        alone = {part.name: part.reports[at].reach for part in document.parts}
        adds = {step.part: step.adds.reach for step in each.incremental}
        named = [("together", None, each.union)]
        named += [(f"only {name}", name, report) for name, report in each.only.items()]
        named.append(("two or more", None, each.overlap))
        rows += [
            {
                "cap": each.cap,
                "": text,
                "reach": report.reach,
                f"{report.level:.0%} interval": report.interval,
                "alone": alone.get(part),
                "adds": adds.get(part),
                "frequency": report.average_frequency,
            }
            for text, part, report in named
        ]
    title = f"{len(document.parts)} together, on {document.people:,} people"
    return Table(title, columns_of(rows), (*document.notes, *_notes(document)))


def combined_plot(document: Any, ax: "Axes | None" = None) -> "Axes":
    """For each part: whom only it reached, and whom another part reached as well."""
    each = document.combined
    ax = new_axes(ax, f"{each.union.reach:,.0f} reached together", "", f"reach at cap {each.cap}")
    names = [part.name for part in document.parts]
    only = [each.only[name].reach for name in names]
    shared = [
        max(part.reports[0].reach - mine, 0.0)
        for part, mine in zip(document.parts, only, strict=True)
    ]
    stacked_bars(ax, names, [("only this one", only), ("others as well", shared)])
    return ax


def segment_rows(document: Any) -> list[dict[str, Any]]:
    """A row per segment and cap."""
    return [
        struct_row(report, segment=each.segment, people=each.people, impressions=each.impressions)
        for each in document.segments
        for report in each.reports
    ]


def segment_table(document: Any) -> Table:
    """A row per segment and cap, for people; the last row of a cap is the whole."""
    rows = []
    for at, whole in enumerate(document.reports):
        parts = [(s.segment, s.people, s.impressions, s.reports[at]) for s in document.segments]
        for name, people, shown, report in (
            *parts,
            ("all", document.people, document.impressions, whole),
        ):
            rows.append(
                {
                    "segment": name,
                    "cap": report.cap,
                    "people": people,
                    "impressions": shown,
                    "reach": report.reach,
                    f"{report.level:.0%} interval": report.interval,
                    "frequency": report.average_frequency,
                }
            )
    return Table(f"{subject(document)}, by segment", columns_of(rows), _notes(document))


def segment_plot(document: Any, ax: "Axes | None" = None) -> "Axes":
    """Reach of each segment at the first cap, with intervals."""
    cap = document.reports[0].cap
    ax = new_axes(ax, subject(document), "", f"reach at cap {cap}")
    names = [each.segment for each in document.segments]
    reports = [each.reports[0] for each in document.segments]
    points_with_bars(ax, names, [r.reach for r in reports], [r.interval for r in reports])
    ax.margins(x=0.15)
    return ax


# -- plans ------------------------------------------------------------------------------------


def plan_table(title: str, outlooks: Sequence[Any]) -> Table:
    """A row per budget."""
    rows = [
        {
            "budget": one.budget,
            "spend": one.spend,
            "reach": one.reach,
            f"{one.level:.0%} band": one.band,
            "impressions": one.impressions,
            "frequency": one.average_frequency,
        }
        for one in outlooks
    ]
    unspent = tuple(
        f"{cell_text(one.unspent)} of {cell_text(one.budget)} stay unspent: {one.unspent_reason}"
        for one in outlooks
        if one.unspent_reason
    )
    return Table(title, columns_of(rows), unspent)


def plan_plot(title: str, cap: int, outlooks: Sequence[Any], ax: "Axes | None" = None) -> "Axes":
    """Reach by spend, with its band."""
    ordered = sorted(outlooks, key=lambda one: one.spend)
    ylabel = "people reached" if cap == 1 else f"reach within cap {cap}"
    ax = new_axes(ax, title, "spend", ylabel)
    spend, reach = [one.spend for one in ordered], [one.reach for one in ordered]
    bands = [one.band for one in ordered]
    if len(ordered) > 1:
        line_with_band(ax, spend, reach, bands, marker="o")
    else:
        points_with_bars(ax, spend, reach, bands)
    ax.set_xlim(left=0.0)
    with_thousands(ax.xaxis)
    return ax
