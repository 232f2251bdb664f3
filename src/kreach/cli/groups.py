"""`kreach groups`: build groups, and audit them before release."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from kreach.boundary.times import as_instant
from kreach.cli.audience import audience, visible_lines
from kreach.cli.audit_view import show_audit
from kreach.cli.common import Json, Seed, progress_spinner, split_names, table_console

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
    sensitive: Annotated[
        str, typer.Option(help="Columns whose values no group may reveal, comma-separated.")
    ] = "",
    min_l: Annotated[
        int, typer.Option(help="Minimum different values of a sensitive column per group (l).")
    ] = 2,
    min_entropy_l: Annotated[
        float, typer.Option(help="Minimum equally likely values per group (entropy l-diversity).")
    ] = 1.0,
    max_t: Annotated[
        float, typer.Option(help="Maximum distance of a group from all people (t-closeness).")
    ] = 1.0,
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
    seed: Annotated[
        int | None,
        typer.Option(help="Repeatable groups, for studies. By default a secret seed is drawn."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Build groups of at least k people from a visits file.

    OUT/release is for the buyer; OUT/publisher stays with the publisher. Example:

    kreach groups build --visits visits.parquet --group-size 20 --strategy segments
    --segments country,device --out groups/
    """
    from kreach.publisher.build import BuildOptions, build_groups
    from kreach.publisher.grouping import DiversityFloors
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
        split_names(sensitive),
        DiversityFloors(min_l, min_entropy_l, max_t),
    )
    with progress_spinner() as progress:
        facts = build_groups(options, datetime.now(UTC), progress)
    if seed is None:
        facts["seed"] = None  # it stays in publisher/build.json
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show_build(facts, out)


@groups.command()
def audit(
    folder: Annotated[Path, typer.Argument(help="Folder from `kreach groups build`.")],
    sensitive: Annotated[
        str, typer.Option(help="More sensitive columns, beside those of the build.")
    ] = "",
    segments: Annotated[
        str, typer.Option(help="More targeting columns, beside those of the build.")
    ] = "",
    churn: Annotated[float, typer.Option(help="Share of people who leave per version.")] = 0.05,
    html: Annotated[Path | None, typer.Option(help="Also write an HTML report here.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Report what an attacker could learn from a release of these groups.

    All columns that were named at the build are looked at. Exit code 1 if the audit fails. Example:

    kreach groups audit groups/ --html audit.html
    """
    from kreach.publisher.audit.build_audit import audit_build
    from kreach.publisher.audit.page import audit_page

    with progress_spinner() as progress:
        report = audit_build(
            folder,
            datetime.now(UTC),
            progress,
            sensitive=split_names(sensitive),
            segments=split_names(segments),
            churn=churn,
            seed=seed,
        )
    if html is not None:
        version = "" if report.subject is None else report.subject.catalogue
        html.write_text(audit_page(report, f"Audit of catalogue {version}"))
    if as_json:
        typer.echo(json.dumps(report.document()))
    else:
        show_audit(report)
    if not report.safe:
        raise typer.Exit(1)


def _show_build(facts: dict[str, Any], out: Path) -> None:

    console = table_console()
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
    if facts["diversity"] is not None:
        _show_diversity(console, facts["diversity"])
    if facts["seed_origin"] == "given":
        text = "groups can be formed again with this --seed by whoever has the visits"
        console.print(f"[bold red]warning:[/bold red] {text}")
    for line in visible_lines(facts["visible"]):
        console.print(line, soft_wrap=True)
    for warning in facts["warnings"]:
        console.print(f"[bold red]warning:[/bold red] {warning}")
    console.print(
        f"release: {out / 'release'}    keep private: {out / 'publisher'}", soft_wrap=True
    )


def _show_diversity(console: Any, diversity: dict[str, Any]) -> None:
    """The diversity of each sensitive column, and what it cost."""
    for name, seen in diversity["columns"].items():
        console.print(
            f"diversity ({name}): l {seen['min_l']}, entropy l {seen['min_entropy_l']:.2f}, "
            f"t {seen['max_t']:.2f} in the worst group"
        )
    before, after = diversity["without_floors"], diversity["with_floors"]
    costs = [f"{before['groups']:,} groups became {after['groups']:,}"]
    for title, key in (("spread of rates", "rate_spread"), ("effective k", "median_effective")):
        if before[key] is not None:
            costs.append(f"{title} {before[key]:.3g} became {after[key]:.3g}")
    for name, value in before["coverage"].items():
        costs.append(f"coverage ({name}) {value:.1%} became {after['coverage'][name]:.1%}")
    console.print(f"cost of diversity: {', '.join(costs)}")


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
    console.print(f"its error by window in replays of history:\n  {listed}")


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
