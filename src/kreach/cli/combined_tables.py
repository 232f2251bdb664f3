"""Tables of `kreach measure` for campaigns, or windows, together."""

from typing import TYPE_CHECKING, Any

from kreach.cli.common import table_console
from kreach.errors import KreachError

if TYPE_CHECKING:
    from kreach.adsystem.reports.combined_report import CombinedDocument, SegmentDocument, SetReport

__all__ = ["parse_windows", "show_combined", "show_segments"]


def parse_windows(listed: list[str]) -> dict[str, tuple[str | None, str | None]]:
    """NAME=START/END; either end may be left out."""
    result: dict[str, tuple[str | None, str | None]] = {}
    for text in listed:
        name, equals, span = text.partition("=")
        start, slash, end = span.partition("/")
        if not (name and equals and slash):
            raise KreachError.rule("window", "be NAME=START/END", text)
        if name in result:
            raise KreachError.rule("window", "have a name of its own", name)
        result[name] = (start or None, end or None)
    return result


def show_combined(document: "CombinedDocument", model_line: str) -> None:
    """Each part, all together, who overlaps whom, what each adds."""

    console = table_console()
    span = "all time"
    if document.start or document.end:
        span = f"{document.start or 'the start'} to {document.end or 'now'}"
    console.print(f"\n[bold]{len(document.parts)} together[/bold], {span}")
    console.print(
        f"{document.impressions:,} impressions on an audience of {document.people:,} people\n"
    )
    for report in (document.combined, *document.more_caps):
        if report is not None:
            _show_sets(console, document, report)
    _show_matrix(console, document)
    for reason, rows in document.rejected.items():
        if rows:
            console.print(f"[red]rejected:[/] {rows:,} rows: {reason.replace('_', ' ')}")
    if document.correction is not None:
        share = document.correction.panel_share
        console.print(f"corrected by a panel of {share:.0%} of the groups")
    console.print(f"[dim]{document.basis}[/dim]")
    console.print(f"[dim]{model_line}[/dim]\n")


def _show_sets(console: Any, document: "CombinedDocument", report: Any) -> None:
    from rich.markup import escape
    from rich.table import Table

    level = report.union.level
    people = "people" if report.cap == 1 else f"within cap {report.cap}"
    title = f"Reach, cap {report.cap}"
    table = Table(title=title, title_justify="left", pad_edge=False)
    table.add_column("")
    for head in (people, f"{level:.0%} interval", "alone", "adds", "frequency"):
        table.add_column(head, justify="right")
    at = 0 if report is document.combined else 1 + document.more_caps.index(report)
    adds = {step.part: step.adds.unique_reach for step in report.incremental}
    table.add_row("[bold]together[/bold]", *_cells(report.union), "", "", _often(report.union))
    for part in document.parts:
        only = report.only[part.name]
        alone = f"{part.reports[at].reach:,.1f}"
        row = (*_cells(only), alone, f"{adds[part.name]:,.1f}", _often(only))
        table.add_row(f"only {escape(part.name)}", *row)
    table.add_row("two or more", *_cells(report.overlap), "", "", _often(report.overlap))
    console.print(table)
    console.print("adds: people whom none of those above reached\n")


def _cells(report: "SetReport") -> tuple[str, str]:
    low, high = report.interval
    return f"{report.reach:,.1f}", f"{low:,.0f} to {high:,.0f}"


def _often(report: "SetReport") -> str:
    return f"{report.average_frequency:.2f}"


def _show_matrix(console: Any, document: "CombinedDocument") -> None:
    from rich.markup import escape
    from rich.table import Table

    if len(document.parts) < 3 or not document.overlap_matrix:
        return
    table = Table(title="People reached by both", title_justify="left", pad_edge=False)
    table.add_column("")
    names = [escape(part.name) for part in document.parts]
    for name in names:
        table.add_column(name, justify="right")
    for name, row in zip(names, document.overlap_matrix, strict=True):
        table.add_row(name, *(f"{value:,.0f}" for value in row))
    console.print(table)
    console.print()


def show_segments(document: "SegmentDocument", model_line: str) -> None:
    """A row per segment, and the whole: rows add up to it."""
    from rich.markup import escape
    from rich.table import Table

    console = table_console()
    for at, whole in enumerate(document.reports):
        title = f"Reach by segment, cap {whole.cap}"
        table = Table(title=title, title_justify="left", pad_edge=False)
        table.add_column("segment")
        for head in ("people", "impressions", "reach", "interval", "of people", "frequency"):
            table.add_column(head, justify="right")
        rows = [
            (escape(each.segment), each.people, each.impressions, each.reports[at])
            for each in document.segments
        ]
        rows.append(("[bold]all[/bold]", document.people, document.impressions, whole))
        for name, people, impressions, report in rows:
            reach, interval = _cells(report)
            share = report.unique_reach / people if people else 0.0
            table.add_row(
                name,
                f"{people:,}",
                f"{impressions:,}",
                reach,
                interval,
                f"{share:.1%}",
                _often(report),
            )
        console.print(table)
        console.print()
    console.print(f"[dim]{document.basis}[/dim]")
    console.print(f"[dim]{model_line}[/dim]\n")
