"""`kreach groups audience`: the groups file of a campaign's audience."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from kreach.cli.common import Json, table_console
from kreach.errors import KreachError

__all__ = ["audience", "visible_lines"]


def audience(
    folder: Annotated[Path, typer.Argument(help="Folder from `kreach groups build`.")],
    out: Annotated[Path, typer.Option(help="Groups file to write: Parquet, or CSV by its name.")],
    where: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=VALUE; values of a column are alternatives, columns all match."),
    ] = None,
    users: Annotated[Path | None, typer.Option(help="File of user_id: only these people.")] = None,
    active_only: Annotated[
        bool, typer.Option("--active-only", help="Only people who visited in history.")
    ] = False,
    drop: Annotated[
        bool, typer.Option("--drop", help="Leave out the people of groups below the floors.")
    ] = False,
    widen: Annotated[
        bool, typer.Option("--widen", help="Target everybody in groups below the floors.")
    ] = False,
    requests: Annotated[
        str, typer.Option(help="Whose requests the exchange sends: everyone or targeted.")
    ] = "everyone",
    name: Annotated[str | None, typer.Option(help="Name in the record; default: OUT's.")] = None,
    as_json: Json = False,
) -> None:
    """Write the groups file of an audience, if a campaign cannot tell its people apart.

    An audience is refused where a campaign could see fewer people of a group than the floors of
    the build. Example:

    kreach groups audience groups/ --where country=US --where device=phone --out us-phones.parquet
    """
    from kreach.publisher.audience_file import AudienceChoice, write_audience

    if drop and widen:
        raise KreachError.rule("audience", "be dropped or widened, not both", "--drop --widen")
    below = "drop" if drop else "widen" if widen else "refuse"
    choice = AudienceChoice(tuple(where or ()), users, active_only)
    facts = write_audience(folder, name or out.stem, choice, out, below=below, requests=requests)
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show(facts, out)


def _show(facts: dict[str, Any], out: Path) -> None:

    console = table_console()
    seen = facts["visible"]
    console.print(
        f"[bold]{seen['people']:,} people[/bold] in {seen['groups']:,} groups, "
        f"{seen['visible_people']:,} of them visited ({facts['where']})"
    )
    if facts["dropped"] or facts["added"]:
        console.print(f"dropped: {facts['dropped']:,}    added: {facts['added']:,}")
    if facts["unknown_users"]:
        console.print(f"listed users that the build does not know: {facts['unknown_users']:,}")
    console.print(
        f"visible people per group: min {seen['min_visible']}, lowest 5 % "
        f"{seen['p05_visible']:g}, median {seen['median_visible']:g}"
    )
    if seen["worst_guess"] is not None:
        console.print(
            f"equally active ones: min {seen['min_effective']:.1f}, lowest 5 % "
            f"{seen['p05_effective']:.1f}, median {seen['median_effective']:.1f}"
        )
        console.print(
            f"a guess who the visitor is: right with {seen['mean_guess']:.1%}, in the worst group "
            f"{seen['worst_guess']:.1%}"
        )
    console.print(f"groups file: {out}", soft_wrap=True)


def visible_lines(views: list[dict[str, Any]]) -> list[str]:
    """For a build and its audit: how many people a campaign on each audience could see."""
    if not views:
        return []
    lines = ["visible people per group (min, median), and a guess who the visitor is:"]
    for view in views:
        seen = view["seen"]
        guess = "no history"
        if seen["mean_guess"] is not None:
            guess = f"{seen['mean_guess']:.1%}, worst {seen['worst_guess']:.0%}"
        few = seen["people_in_small_groups"]
        text = f", {few:,} of {seen['people']:,} people below the floor" if few else ""
        people = f"{seen['min_visible']}, {seen['median_visible']:g}"
        lines.append(f"  {view['audience']}: {people}; {guess}{text}")
    return lines
