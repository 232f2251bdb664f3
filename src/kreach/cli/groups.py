"""`kreach groups`: build groups, and audit them before release."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from kreach.boundary.times import as_instant
from kreach.cli.audience import audience, visible_lines
from kreach.cli.common import Json, Seed, progress_spinner, split_names

__all__ = ["groups"]

groups = typer.Typer(help="Build groups of people and audit them before release.")
groups.command()(audience)

Visits = Annotated[Path, typer.Option(help="Visits: user_id, ts, attributes (Parquet, CSV).")]


@groups.command()
def build(
    visits: Visits,
    group_size: Annotated[int, typer.Option(help="Minimum people per group (k).")],
    out: Annotated[Path, typer.Option(help="New folder for the build.")],
    strategy: Annotated[
        str,
        typer.Option(help="random, attributes, segments, rates, segments+rates or overlapping."),
    ] = "random",
    users: Annotated[Path | None, typer.Option(help="Users: user_id, attributes.")] = None,
    attributes: Annotated[str, typer.Option(help="Attribute columns, comma-separated.")] = "",
    segments: Annotated[str, typer.Option(help="Targeting columns, most important first.")] = "",
    keep: Annotated[str, typer.Option(help="More columns to keep for the audit.")] = "",
    partitions: Annotated[int, typer.Option(help="Partitions of overlapping groups.")] = 2,
    history_end: Annotated[
        str | None, typer.Option(help="Use only visits before this time.")
    ] = None,
    buyer: Annotated[str, typer.Option(help="Buyer that the group ids are for.")] = "default",
    knowledge: Annotated[
        str, typer.Option(help="Visit statistics to release: none, dispersion, model or shares.")
    ] = "model",
    class_floor: Annotated[int, typer.Option(help="Minimum people per membership class.")] = 10,
    effective_floor: Annotated[
        float, typer.Option(help="Minimum effective (equally active) people per group.")
    ] = 2.0,
    min_visible: Annotated[
        int, typer.Option(help="Minimum people of an audience whom a campaign sees in a group.")
    ] = 5,
    memory_hours: Annotated[
        float | None, typer.Option(help="Tell the buyer how long the gateway's cap remembers.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Build groups of at least k people from a visits file.

    OUT/release is for the buyer; OUT/publisher stays with the publisher. Example:

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
        split_names(attributes),
        split_names(segments),
        split_names(keep),
        partitions,
        as_instant("history-end", history_end),
        buyer,
        knowledge,
        Floors(class_floor, min_visible, effective_floor),
        seed,
        memory_hours,
    )
    with progress_spinner() as progress:
        facts = build_groups(options, datetime.now(UTC), progress)
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show_build(facts, out)


@groups.command()
def audit(
    folder: Annotated[Path, typer.Argument(help="Folder from `kreach groups build`.")],
    sensitive: Annotated[str, typer.Option(help="Sensitive columns, to check l-diversity.")] = "",
    segments: Annotated[str, typer.Option(help="Targeting columns, to check coverage.")] = "",
    churn: Annotated[float, typer.Option(help="Share of people who leave per version.")] = 0.05,
    html: Annotated[Path | None, typer.Option(help="Also write an HTML report here.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Report what an attacker could learn from a release of these groups.

    Name only columns that were named at the build. Exit code 1 if the audit fails. Example:

    kreach groups audit groups/ --segments country,device --sensitive region --html audit.html
    """
    from kreach.publisher.audience_file import declared_audiences
    from kreach.publisher.audit import audit as run_audit
    from kreach.publisher.audit.page import audit_page
    from kreach.publisher.audit.visit_model import model_view
    from kreach.publisher.store import read_build

    with progress_spinner() as progress:
        progress("reading the build")
        stored = read_build(folder)
        progress("running attacks")
        report = run_audit(
            stored.people,
            stored.assignment,
            sensitive=split_names(sensitive),
            segments=split_names(segments),
            churn=churn,
            seed=seed,
            visit_model=model_view(folder, stored.facts),
            declared=declared_audiences(folder),
        )
    if html is not None:
        html.write_text(audit_page(report, f"Audit of catalogue {stored.facts['version']}"))
    if as_json:
        typer.echo(json.dumps(report.document()))
    else:
        _show_audit(report)
    if not report.safe:
        raise typer.Exit(1)


def _show_build(facts: dict[str, Any], out: Path) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(
        f"[bold]{facts['groups']:,} groups[/bold] of {facts['smallest_group']} to "
        f"{facts['largest_group']} people ({facts['people']:,} in all, {facts['strategy']})"
    )
    dispersion = facts["dispersion"]
    text = f"{dispersion:.3f}" if dispersion is not None else "uniform, or not released"
    console.print(f"dispersion of visits: {text}")
    if facts["visit_model"] is not None:
        _show_model(console, facts["visit_model"])
    for title, key in (("information kept", "information_kept"), ("coverage", "coverage")):
        for name, value in facts[key].items():
            console.print(f"{title} ({name}): {value:.1%}")
    for line in visible_lines(facts["visible"]):
        console.print(line, soft_wrap=True)
    for warning in facts["warnings"]:
        console.print(f"[bold red]warning:[/bold red] {warning}")
    console.print(
        f"release: {out / 'release'}    keep private: {out / 'publisher'}", soft_wrap=True
    )


def _show_model(console: Any, model: dict[str, Any]) -> None:
    """One line on the fit, one on its errors in replays."""
    console.print(
        f"visit model: {model['people']:,} people over {model['history_days']:g} days, "
        f"{model['regulars']:.0%} regulars, {model['lags']} lags"
    )
    errors = (
        ("longer" if error["max_hours"] is None else f"{error['max_hours']:g} h", error)
        for error in model["errors"]
    )
    listed = ", ".join(f"{name} ±{error['spread']:.1%}" for name, error in errors)
    console.print(f"its error by window in replays of history: {listed}", soft_wrap=True)


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
    sizes = Table(title="\nGroup sizes", title_justify="left")
    for head in ("per group", "minimum", "lowest 5 %", "median", "mean"):
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
        table = Table(title="\nPeople singled out by linking versions", title_justify="left")
        table.add_column("groups")
        for version in report.linkage[0].versions:
            table.add_column(f"{version} versions", justify="right")
        table.add_column("moved per version", justify="right")
        for link in report.linkage:
            shares = (f"{share:.2%}" for share in link.unique_share)
            table.add_row(link.method, *shares, f"{link.moved_share:.1%}")
        console.print(table)
    if report.visit_model is not None:
        model = report.visit_model
        table = Table(title="\nVisit model: about the site, not a group", title_justify="left")
        for head in ("table", "says", "numbers"):
            table.add_column(head, justify="right" if head == "numbers" else "left")
        for entry in model.tables:
            table.add_row(entry.name, entry.meaning, f"{entry.numbers:,}")
        console.print(table)
    for line in visible_lines([asdict(view) for view in report.visible]):
        console.print(line, soft_wrap=True)
    _show_columns(console, report)


def _show_columns(console: Any, report: Any) -> None:
    from rich.table import Table

    if report.diversity:
        table = Table(title="\nSensitive attributes", title_justify="left")
        for head in ("attribute", "min values", "min effective", "in uniform groups"):
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


@groups.command()
def segments(
    folder: Annotated[Path, typer.Argument(help="Folder made by `kreach groups build`.")],
    attribute: Annotated[str, typer.Option(help="Attribute that groups were formed along.")],
    out: Annotated[Path, typer.Option(help="Parquet file, or CSV by its name.")],
    as_json: Json = False,
) -> None:
    """Write the segment of each group, for `kreach measure --by segment`.

    Groups that mix segments get none. Example:

    kreach groups segments groups/ --attribute country --out segments.parquet
    """
    from kreach.publisher.segment_file import write_segments

    facts = write_segments(folder, attribute, out)
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        typer.echo(f"{facts['groups']:,} groups, {facts['mixed']:,} of them mix segments: {out}")
