"""`kreach groups renew`: the next version of a build."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from kreach.boundary.times import as_instant
from kreach.cli.audience import visible_lines
from kreach.cli.common import Json, progress_spinner

__all__ = ["renew"]


def renew(
    old: Annotated[Path, typer.Argument(help="Folder of the build that is served now.")],
    visits: Annotated[Path, typer.Option(help="Visits since then, or all: user_id, ts, columns.")],
    out: Annotated[Path, typer.Option(help="New folder for the next version.")],
    users: Annotated[Path | None, typer.Option(help="Users: user_id, attributes.")] = None,
    history_end: Annotated[
        str | None, typer.Option(help="Use only visits before this time [default: the last].")
    ] = None,
    group_size: Annotated[
        int | None, typer.Option(help="k from now on, at most the build's [default: the same].")
    ] = None,
    forget_weeks: Annotated[
        float, typer.Option(help="People not seen for so many weeks leave.")
    ] = 26.0,
    seen_weeks: Annotated[
        float, typer.Option(help="People seen in so many weeks count for k.")
    ] = 4.0,
    room: Annotated[
        float, typer.Option(help="Counted people per group, at least so many times k.")
    ] = 1.25,
    newcomers: Annotated[
        str, typer.Option(help="named: stay where the gateway put them. gaps: fill small groups.")
    ] = "named",
    buyer: Annotated[str | None, typer.Option(help="Buyer [default: that of the build].")] = None,
    knowledge: Annotated[
        str | None, typer.Option(help="Visit statistics to release [default: as the build].")
    ] = None,
    effective_floor: Annotated[
        float | None,
        typer.Option(help="Minimum effective people per group [default: as the build]."),
    ] = None,
    min_visible: Annotated[
        int | None,
        typer.Option(help="Minimum people of an audience in a group [default: as the build]."),
    ] = None,
    memory_hours: Annotated[
        float | None, typer.Option(help="Tell the buyer how long the gateway's cap remembers.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Repeatable groups, for studies. By default a secret seed is drawn."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the next version of a build: leavers out, newcomers in, groups as they were.

    Renew every four weeks. Floors are those of the build. Group ids are new in every version, so
    declare audiences again. The result says who moved and what somebody learns who follows people
    over the versions. Example:

    kreach groups renew groups/ --visits visits.parquet --out groups-next/
    """
    from kreach.publisher.renewal import RenewOptions, renew_groups
    from kreach.publisher.renewed_people import RenewalPolicy

    options = RenewOptions(
        old,
        visits,
        out,
        users,
        as_instant("history-end", history_end),
        buyer,
        knowledge,
        memory_hours,
        group_size,
        effective_floor,
        min_visible,
        RenewalPolicy(forget_weeks, seen_weeks, room, newcomers),
        seed,
    )
    with progress_spinner() as progress:
        facts = renew_groups(options, datetime.now(UTC), progress)
    if seed is None:
        facts["seed"] = None  # it stays in publisher/build.json
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show(facts, out)


def _show(facts: dict[str, Any], out: Path) -> None:
    renewal = facts["renewal"]
    pair, series = renewal["pair"], renewal["series"]
    typer.echo(
        f"{facts['groups']:,} groups of {facts['smallest_group']} to {facts['largest_group']} "
        f"people ({facts['people']:,} in all, {renewal['counted_people']:,} seen lately, at least "
        f"{renewal['min_counted_in_group']} of them in a group)"
    )
    typer.echo(
        f"since {renewal['renews']}: joined {renewal['joined']:,}, left {renewal['left']:,}, "
        f"moved {renewal['moved']:,} (merged groups: {renewal['merged_groups']:,}, split: "
        f"{renewal['split_groups']:,})"
    )
    for name, people in renewal["attributes_changed"].items():
        typer.echo(f"changed {name}: {people:,} people")
    if renewal["diversity_merges"]:
        typer.echo(f"merged to hold diversity floors: {renewal['diversity_merges']:,} times")
    for line in visible_lines(facts["visible"]):
        typer.echo(line)
    for what, crowds in (("the last two versions", pair), (f"all {series['versions']}", series)):
        typer.echo(
            f"linking {what}: {crowds['singled_out']:,} people singled out, smallest crowd "
            f"{crowds['smallest']:,}, median {crowds['median']:,.0f}"
        )
    if renewal["declare_again"]:
        names = ", ".join(renewal["declare_again"])
        typer.echo(f"audiences to declare again, with `kreach groups audience`: {names}")
    for warning in facts["warnings"]:
        typer.echo(f"warning: {warning}")
    typer.echo(f"release: {out / 'release'}    keep private: {out / 'publisher'}")
