"""The audit of groups on a terminal: the verdict, every check, what was not examined, tables."""

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from kreach.cli.common import table_console

if TYPE_CHECKING:
    from kreach.publisher.audit import Audit

__all__ = ["show_audit"]

_COLORS = {"danger": "bold red", "warning": "yellow", "ok": "green"}
_MAX_SEGMENTS = 30


def show_audit(report: "Audit") -> None:
    """Print the audit."""
    console = table_console()
    if report.subject is not None:
        subject = report.subject
        console.print(
            f"\nCatalogue {subject.catalogue} for buyer {subject.buyer}, audited "
            f"{subject.audited}, kreach {subject.kreach}",
            markup=False,
        )
    worst = next((level for level in _COLORS if report.count(level)), "ok")
    console.print(f"\n[{_COLORS[worst]}]{report.verdict}[/]")
    console.print(
        f"{report.people:,} people in {report.groups:,} groups of at least "
        f"{report.group_size} ({report.strategy})\n"
    )
    for level, color in _COLORS.items():
        for finding in report.findings:
            if finding.level == level:
                _show_finding(console, finding, color)
    for title, lines in (
        ("Not examined", report.not_examined),
        ("Assumed", report.assumptions),
    ):
        if lines:
            console.print(f"\n[bold]{title}[/bold]")
            for line in lines:
                _indented(console, line, 2)
    _show_tables(console, report)


def _show_finding(console: Any, finding: Any, color: str) -> None:
    """The check with its number and what is required, then what it means."""
    numbers = finding.number
    if finding.floor:
        numbers += f" (required: {finding.floor})"
    console.print(f"[{color}]{finding.level:>8}[/]  [bold]{_safe(finding.check)}[/bold]", end="")
    if numbers and len(finding.check) + len(numbers) <= 66:
        console.print(f"  {_safe(numbers)}")
    else:
        console.print()
        if numbers:
            _indented(console, numbers, 10)
    _indented(console, finding.text, 10)


def _safe(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _indented(console: Any, text: str, columns: int) -> None:
    margin = " " * columns
    lines = wrap(text, console.width, initial_indent=margin, subsequent_indent=margin)
    console.print("\n".join(lines), markup=False)


def _table(title: str, heads: tuple[str, ...]) -> Any:
    """A table whose first column is text and whose others are numbers."""
    from rich import box
    from rich.table import Table

    table = Table(title=f"\n{title}", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for at, head in enumerate(heads):
        table.add_column(head, justify="right" if at else "left", overflow="fold")
    return table


def _show_tables(console: Any, report: "Audit") -> None:
    sizes = _table("Group sizes", ("per group", "minimum", "lowest 5 %", "median", "mean"))
    spreads = (
        ("members", report.sizes),
        ("equally active people", report.effective),
        ("people per combination", report.intersection.classes),
    )
    for name, spread in spreads:
        if spread is not None:
            numbers = (spread.least, spread.p05, spread.median, spread.mean)
            sizes.add_row(name, *(f"{v:,.1f}" for v in numbers))
    console.print(sizes)
    if report.columns:
        heads = ("column", "role", "values", "l", "entropy l", "t", "in uniform groups")
        table = _table("Columns inside groups", heads)
        for c in report.columns:
            entropy, t, uniform = f"{c.min_entropy_l:.2f}", f"{c.max_t:.2f}", c.homogeneous_people
            values = (f"{c.values:,}", str(c.min_distinct), entropy, t, f"{uniform:,}")
            table.add_row(_safe(c.name), c.role, *values)
        console.print(table)
    if report.linkage:
        versions = report.linkage[0].versions
        after = tuple(f"{v} version{'s' if v > 1 else ''}" for v in versions)
        table = _table("People singled out by linking versions", ("groups", *after, "moved"))
        for link in report.linkage:
            shares = (f"{share:.2%}" for share in link.unique_share)
            table.add_row(link.method, *shares, f"{link.moved_share:.1%}")
        console.print(table)
    _show_segments(console, report)
    _show_visible(console, report)
    if report.visit_model is not None:
        table = _table("Visit model: about the site, not a group", ("table", "numbers"))
        for entry in report.visit_model.tables:
            table.add_row(entry.meaning, f"{entry.numbers:,}")
        console.print(table)


def _show_visible(console: Any, report: "Audit") -> None:
    from kreach.publisher.audit.visible import visible_rows

    if not report.visible:
        return
    heads = ("audience", "people", "min", "median", "guess", "worst", "below floor")
    table = _table("People whom a campaign sees in a group, and a guess who visits", heads)
    for name, people, fewest, _, median, _, *guesses in visible_rows(
        report.visible[:_MAX_SEGMENTS]
    ):
        table.add_row(_safe(name), *map(str, (people, fewest, median, *guesses)))
    console.print(table)


def _show_segments(console: Any, report: "Audit") -> None:
    if not report.segments:
        return
    table = _table("Targeting segments", ("segment", "people", "coverage", "below the floor"))
    for s in report.segments[:_MAX_SEGMENTS]:
        numbers = (f"{s.people:,}", f"{s.coverage:.1%}", f"{s.exposed_people:,}")
        table.add_row(_safe(s.segment), *numbers)
    console.print(table)
    if len(report.segments) > _MAX_SEGMENTS:
        left = len(report.segments) - _MAX_SEGMENTS
        console.print(f"{left:,} further segments: see --json")
