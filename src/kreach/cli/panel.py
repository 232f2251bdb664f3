"""`kreach panel`: count the truth in a secret sample of groups, release the correction."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kreach.boundary.times import as_instant, as_period
from kreach.cli.common import Json, progress_spinner, split_names, table_console
from kreach.errors import KreachError

if TYPE_CHECKING:
    from kreach.publisher.panel.offline import PanelRun

__all__ = ["panel"]


def panel(
    groups: Annotated[Path, typer.Option(help="Folder from `kreach groups build`.")],
    showings: Annotated[
        Path, typer.Option(help="Who saw what: user_id, campaign, ts (Parquet, CSV).")
    ],
    share: Annotated[float, typer.Option(help="Share of the groups in the panel, up to 1.")],
    out: Annotated[Path, typer.Option(help="Corrections file to write, for the ad system.")],
    campaign: Annotated[str | None, typer.Option(help="Only this campaign.")] = None,
    together: Annotated[
        list[str] | None,
        typer.Option(help="Campaigns, comma-separated, to count as one too; may be repeated."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="A release at the end of every hour, day or week.")
    ] = None,
    start: Annotated[str | None, typer.Option(help="Count from here on (UTC).")] = None,
    end: Annotated[str | None, typer.Option(help="Count up to here (UTC), exclusive.")] = None,
    max_cap: Annotated[int, typer.Option(help="Largest frequency cap to correct.")] = 3,
    max_releases: Annotated[
        int | None, typer.Option(help="Releases of a campaign, ever [default: 1, with --by 31].")
    ] = None,
    rho: Annotated[
        float, typer.Option(help="Privacy cost of all releases of a campaign (ρ-zCDP).")
    ] = 0.05,
    without_noise: Annotated[
        bool, typer.Option("--without-noise", help="No noise: for tests, never for release.")
    ] = False,
    min_people: Annotated[int, typer.Option(help="Minimum people in a panel.")] = 400,
    min_reach: Annotated[int, typer.Option(help="Minimum people reached in a panel.")] = 50,
    as_json: Json = False,
) -> None:
    """Correct an ad system's reach by the truth in a secret sample of groups.

    Which groups are in the panel stays with the publisher; the file holds truth − model of all
    groups, estimated, with noise. Repeating the command repeats what was released. Example:

    kreach panel --groups groups/ --showings shown.parquet --share 0.05 --out corrections.json
    """
    from kreach.boundary.correction import write_corrections
    from kreach.publisher.panel.ledger import Terms
    from kreach.publisher.panel.offline import PanelQuestion, panel_corrections
    from kreach.publisher.panel.release import Floors

    if by is not None:
        as_period(by)
    if max_cap < 1:
        raise KreachError.rule("max-cap", "be at least 1", max_cap)
    terms = Terms(
        share,
        max_cap + 1,  # over-exposed at the largest cap are those with one more
        (1 if by is None else 31) if max_releases is None else max_releases,
        None if without_noise else rho,
    )
    moments = as_instant("start", start), as_instant("end", end)
    sets = tuple(_members(names) for names in together or ())
    question = PanelQuestion(groups, showings, terms, campaign, by, *moments, sets)
    with progress_spinner() as progress:
        run = panel_corrections(question, Floors(min_people, min_reach), progress)
    if not run.corrections:
        raise KreachError("; ".join(run.too_small), field="share")
    write_corrections(run.corrections, out)
    if as_json:
        document = {
            "out": str(out),
            "corrections": [each.to_json() for each in run.corrections],
            "too_small": list(run.too_small),
        }
        typer.echo(json.dumps(document))
    else:
        _show(run, out, without_noise)


def _members(names: str) -> tuple[str, ...]:
    members = tuple(dict.fromkeys(split_names(names)))
    if len(members) < 2:
        raise KreachError.rule("together", "name two campaigns or more", names)
    return members


def _show(run: "PanelRun", out: Path, without_noise: bool) -> None:
    from rich.markup import escape

    from kreach.boundary.discrete_noise import privacy_epsilon

    console = table_console()
    for each in run.corrections:
        last = each.releases[-1]
        times = "release" if len(each.releases) == 1 else "releases"
        console.print(
            f"[bold]{escape(each.campaign)}[/bold]: {each.panel_groups:,} of {each.groups:,} "
            f"groups, {len(each.releases)} {times}; people reached by the {each.model} are off by "
            f"{-last.differences[0]:+,.0f} (noise ±{last.noise_std:,.0f})"
        )
    for reason in run.too_small:
        console.print(f"[yellow]nothing released:[/] {escape(reason)}")
    cost = run.corrections[0].rho
    if cost is not None:
        epsilon = privacy_epsilon(cost, 1e-6)
        console.print(f"privacy: ρ = {cost:g} a campaign (ε = {epsilon:.2f} at δ = 10⁻⁶)")
    if without_noise:
        console.print("[bold red]without noise: do not release this file[/bold red]")
    console.print(f"corrections: {out}", soft_wrap=True)
