"""`kreach groups`: form groups, and check what is about to be released."""

import json
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from kreach.boundary.times import as_instant

__all__ = ["Json", "groups", "progress_shown"]

groups = typer.Typer(help="Form groups of people, and audit what is about to be released.")

Names = Annotated[str, typer.Option(help="Attribute columns, separated by commas.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


@groups.command()
def build(
    visits: Annotated[Path, typer.Option(help="Visits: user_id, ts, attributes (Parquet, CSV).")],
    group_size: Annotated[int, typer.Option(help="k, the least number of people in a group.")],
    out: Annotated[Path, typer.Option(help="A new folder for the build.")],
    strategy: Annotated[
        str,
        typer.Option(help="random, attributes, segments, rates, segments+rates or overlapping."),
    ] = "random",
    users: Annotated[Path | None, typer.Option(help="Users: user_id, attributes.")] = None,
    attributes: Names = "",
    segments: Annotated[str, typer.Option(help="Targeting columns, most important first.")] = "",
    keep: Annotated[str, typer.Option(help="Further columns to keep for the audit.")] = "",
    partitions: Annotated[int, typer.Option(help="Partitions, for overlapping groups.")] = 2,
    history_end: Annotated[str | None, typer.Option(help="Use visits before this time.")] = None,
    buyer: Annotated[str, typer.Option(help="Whom the group ids are for.")] = "default",
    knowledge: Annotated[
        str, typer.Option(help="What crosses about visits: none, dispersion or shares.")
    ] = "dispersion",
    class_floor: Annotated[int, typer.Option(help="Least people in a membership class.")] = 10,
    effective_floor: Annotated[
        float, typer.Option(help="Least equally active people a group must be worth.")
    ] = 2.0,
    seed: Annotated[int, typer.Option(help="The same seed forms the same groups.")] = 0,
    as_json: Json = False,
) -> None:
    """Put the users of a visits file into groups of at least k, and release them.

    DIR/release is what a buyer may have; DIR/publisher stays. Example:

    kreach groups build --visits visits.parquet --group-size 20 --strategy segments
    --segments country,device --out groups/
    """
    from kreach.publisher.build import BuildOptions, build_groups
    from kreach.publisher.release import Floors

    options = BuildOptions(
        visits,
        group_size,
        strategy,
        out,
        users,
        _names(attributes),
        _names(segments),
        _names(keep),
        partitions,
        as_instant("history-end", history_end),
        buyer,
        knowledge,
        Floors(membership_class=class_floor, effective_anonymity=effective_floor),
        seed,
    )
    with progress_shown() as progress:
        facts = build_groups(options, datetime.now(UTC), progress)
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show_build(facts, out)


@groups.command()
def audit(
    folder: Annotated[Path, typer.Argument(help="A folder made by `kreach groups build`.")],
    sensitive: Annotated[str, typer.Option(help="Sensitive columns, for l-diversity.")] = "",
    segments: Annotated[str, typer.Option(help="Targeting columns, for coverage.")] = "",
    churn: Annotated[float, typer.Option(help="Share of people who leave per version.")] = 0.05,
    html: Annotated[Path | None, typer.Option(help="Also write the report as a page.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulated versions.")] = 0,
    as_json: Json = False,
) -> None:
    """Tell what an attacker could learn from releasing these groups.

    Columns must have been named when the groups were built. Example:

    kreach groups audit groups/ --segments country,device --sensitive region --html audit.html
    """
    from kreach.publisher.audit import audit as examine
    from kreach.publisher.audit.page import audit_page
    from kreach.publisher.store import read_build

    with progress_shown() as progress:
        progress("reading the build")
        made = read_build(folder)
        progress("attacking it")
        report = examine(
            made.people,
            made.assignment,
            sensitive=_names(sensitive),
            segments=_names(segments),
            churn=churn,
            seed=seed,
        )
    if html is not None:
        html.write_text(audit_page(report, f"Audit of catalogue {made.facts['version']}"))
    if as_json:
        typer.echo(json.dumps(report.document()))
    else:
        _show_audit(report)
    if not report.safe:
        raise typer.Exit(1)


def progress_shown() -> Any:
    """A spinner that says what is being done, on a terminal only."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        return nullcontext(lambda _: None)
    return _Spinner(console)


class _Spinner:
    def __init__(self, console: Any) -> None:
        self._status = console.status("starting")

    def __enter__(self) -> Any:
        self._status.start()
        return self._status.update

    def __exit__(self, *_: object) -> None:
        self._status.stop()


def _show_build(facts: dict[str, Any], out: Path) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(
        f"[bold]{facts['groups']:,} groups[/bold] of {facts['smallest_group']} to "
        f"{facts['largest_group']} people ({facts['people']:,} in all, {facts['strategy']})"
    )
    dispersion = facts["dispersion"]
    shown = f"{dispersion:.3f}" if dispersion is not None else "uniform, or not released"
    console.print(f"dispersion of visits: {shown}")
    for title, key in (("information kept", "information_kept"), ("coverage", "coverage")):
        for name, value in facts[key].items():
            console.print(f"{title} ({name}): {value:.1%}")
    for warning in facts["warnings"]:
        console.print(f"[bold red]warning:[/bold red] {warning}")
    console.print(
        f"to hand over: {out / 'release'}    to keep: {out / 'publisher'}", soft_wrap=True
    )


def _show_audit(report: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    colours = {"ok": "green", "warning": "yellow", "danger": "bold red"}
    console.print(
        f"\n[bold]{report.people:,} people in {report.groups:,} groups[/bold] of at least "
        f"{report.group_size} ({report.strategy})\n"
    )
    for finding in report.findings:
        console.print(f"[{colours[finding.level]}]{finding.level:>8}[/]  {finding.text}")
    sizes = Table(title="\nHow large the crowds are", title_justify="left")
    for head in ("per group", "least", "lowest 5 %", "median", "mean"):
        sizes.add_column(head, justify="left" if head == "per group" else "right")
    spreads = (
        ("members", report.sizes),
        ("equally active people", report.effective),
        ("people per combination", report.intersection.classes),
    )
    for name, spread in spreads:
        if spread is not None:
            values = (spread.least, spread.p05, spread.median, spread.mean)
            sizes.add_row(name, *(f"{v:,.1f}" for v in values))
    console.print(sizes)
    if report.linkage:
        table = Table(title="\nSingled out by linking versions", title_justify="left")
        table.add_column("groups")
        for version in report.linkage[0].versions:
            table.add_column(f"{version} seen", justify="right")
        table.add_column("moved each time", justify="right")
        for link in report.linkage:
            shares = (f"{share:.2%}" for share in link.unique_share)
            table.add_row(link.method, *shares, f"{link.moved_share:.1%}")
        console.print(table)
    _show_columns(console, report)


def _show_columns(console: Any, report: Any) -> None:
    from rich.table import Table

    if report.diversity:
        table = Table(title="\nSensitive attributes", title_justify="left")
        for head in ("attribute", "fewest values", "fewest effective", "in uniform groups"):
            table.add_column(head, justify="left" if head == "attribute" else "right")
        for d in report.diversity:
            effective, uniform = f"{d.min_effective:.2f}", f"{d.homogeneous_people:,}"
            table.add_row(d.attribute, str(d.min_distinct), effective, uniform)
        console.print(table)
    if report.segments:
        table = Table(title="\nTargeting segments", title_justify="left")
        for head in ("segment", "people", "coverage", "below the floor"):
            table.add_column(head, justify="left" if head == "segment" else "right")
        for s in report.segments:
            table.add_row(s.segment, f"{s.people:,}", f"{s.coverage:.1%}", f"{s.exposed_people:,}")
        console.print(table)
    console.print()
