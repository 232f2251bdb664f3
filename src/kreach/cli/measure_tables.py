"""Tables of `kreach measure` for one campaign."""

from typing import TYPE_CHECKING, Any

from kreach.cli.common import table_console

if TYPE_CHECKING:
    from kreach.adsystem.reports.report import (
        CapReport,
        CorrectionInfo,
        ModelInfo,
        ReachDocument,
        SeriesDocument,
    )

__all__ = ["model_line", "show_reach"]

_BAR_WIDTH = 40
_MAX_FREQUENCY = 10
_REASONS = {
    "no_time": "without a readable time",
    "no_group": "without a group",
    "no_campaign": "without a campaign",
    "unknown_group": "with a group that is not in the groups file",
    "duplicate": "with a duplicate impression id",
    "other_catalogue": "of another catalogue version",
    "late": "that arrived after the window closed",
    "filed_under_another_day": "in the folder of another day",
    "converted_to_utc": "with a time in another zone, converted to UTC",
    "before_catalogue": "from before the groups were formed",
}


def show_reach(document: "ReachDocument") -> None:
    from rich.markup import escape

    from kreach.adsystem.reports.report import SeriesDocument

    console = table_console()
    campaign = "all campaigns" if document.campaign is None else escape(document.campaign)
    span = "all time"
    if document.start or document.end:
        span = f"{document.start or 'the start'} to {document.end or 'now'}"
    console.print(f"\n[bold]{campaign}[/bold], {span}")
    console.print(
        f"{document.impressions:,} impressions on an audience of {document.people:,} people\n"
    )
    if isinstance(document, SeriesDocument):
        _show_series(console, document)
    _show_reports(console, document)
    _show_frequency(console, document.reports[0])
    _show_warnings(console, document)
    if document.correction is not None:
        _show_correction(console, document.correction)
    console.print(f"[dim]{document.basis}[/dim]")
    console.print(f"[dim]{model_line(document.model)}[/dim]\n")


def model_line(model: "ModelInfo | None") -> str:
    if model is None:
        return "model: none"
    if model.name != "visit model":
        return f"model: {model.name}, without times of visits (no visit model)"
    error = "unknown" if model.error is None else f"{model.error:.1%}"
    busy = "" if model.traffic in (None, 1.0) else f", traffic {model.traffic:g} of history's"
    return f"model: {model.name}, error in replays of history {error}{busy}"


def _show_reports(console: Any, document: "ReachDocument") -> None:
    from rich.table import Table

    level = document.reports[0].level
    table = Table(title="Reach", title_justify="left", pad_edge=False)
    heads = ("cap", "reach", f"{level:.0%} interval", "possible", "over-exposed", "frequency")
    for head in heads:
        table.add_column(head, justify="right")
    for row in document.reports:
        table.add_row(
            str(row.cap),
            _people(row.reach),
            _range(row.interval),
            _range(row.bounds),
            _people(row.over_exposed),
            f"{row.average_frequency:.2f}",
        )
    console.print(table)


def _show_correction(console: Any, correction: "CorrectionInfo") -> None:
    moved = "the panel" if correction.weight >= 0.5 else "the model"
    console.print(
        f"corrected by a panel of {correction.panel_share:.0%} of the groups: people reached by "
        f"the model {correction.model_unique_reach:,.0f}, by model and panel "
        f"{correction.panel_unique_reach:,.0f} ± {correction.panel_std:,.0f}; mostly {moved} "
        f"({correction.weight:.0%} panel)"
    )
    if correction.alarm:
        console.print(f"[bold red]alarm:[/bold red] {correction.alarm}")


def _range(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f"{ends[0]:,.0f} to {ends[1]:,.0f}"


def _show_series(console: Any, document: "SeriesDocument") -> None:
    level = document.reports[0].level
    columns: dict[str, list[str]] = {}
    for element in document.series:
        if element.period is None or element.cumulative is None:
            continue  # nothing is withheld from reports on files
        alone, so_far = element.period[0], element.cumulative[0]
        row = {
            document.by: element.start.replace("T00:00:00Z", "").replace(":00:00Z", "h"),
            "shown": f"{element.impressions:,}",
            "reach": _people(alone.reach),
            "to date": _people(so_far.reach),
            f"{level:.0%} interval": _range(so_far.interval),
            **({} if so_far.cap == 1 else {"1+": _people(so_far.at_least[0])}),
            "2+": _people(so_far.at_least[1]),
            "freq.": f"{so_far.average_frequency:.2f}",
        }
        for name, cell in row.items():
            columns.setdefault(name, []).append(cell)
    title = f"By {document.by}, cap {document.reports[0].cap} (reach does not add up over periods)"
    table = _series_table(title, columns)
    unlimited = console.options.update(max_width=10_000)  # else the console's own width is the most
    for optional_column in ("1+", "freq.", "2+"):
        if console.measure(table, options=unlimited).maximum > console.width:
            columns.pop(optional_column, None)
            table = _series_table(title, columns)
    console.print(table)
    console.print("shown: impressions; columns after reach: to date\n")


def _series_table(title: str, columns: dict[str, list[str]]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left", pad_edge=False)
    for at, name in enumerate(columns):
        table.add_column(name, justify="right" if at else "left", no_wrap=True)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table


def _people(number: float) -> str:
    return f"{number:,.1f}" if number < 10_000.0 else f"{number:,.0f}"


def _show_frequency(console: Any, report: "CapReport") -> None:
    """A bar chart of expected people by frequency."""
    people = report.frequency
    last = max((at for at, value in enumerate(people) if value >= 0.5), default=0)
    most = max(people[1:], default=0.0) or 1.0
    console.print("\nPeople by frequency")
    for at in range(1, last + 1):
        label = f"{at}+" if at == _MAX_FREQUENCY else f"{at} "
        bar = "█" * round(_BAR_WIDTH * people[at] / most) or "▏"
        console.print(f"{label:>4} {bar} {people[at]:,.1f}")
    console.print(f"  never: {people[0]:,.1f}\n")


def _show_warnings(console: Any, document: "ReachDocument") -> None:
    shown = (("rejected", document.rejected, "red"), ("note", document.warnings, "yellow"))
    for title, by_reason, colour in shown:
        for reason, rows in by_reason.items():
            if rows and reason == "several_campaigns":
                console.print(
                    f"[{colour}]{title}:[/] the log holds several campaigns, measured as one "
                    "(choose one with --campaign)"
                )
            elif rows:
                noun = "row" if rows == 1 else "rows"
                console.print(f"[{colour}]{title}:[/] {rows:,} {noun} {_REASONS[reason]}")
