"""`kreach plan`: budget to reach and back."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kreach.cli.common import Json, Seed, progress_spinner, table_console

if TYPE_CHECKING:
    from kreach.adsystem.reports.forecast import ReachPlan
    from kreach.boundary.audience import Audience
    from kreach.boundary.visit_model import VisitModel

__all__ = ["plan"]

_BAR_WIDTH = 16


def plan(
    groups: Annotated[
        Path, typer.Option(help="Groups file (group, size, targeted, ...) or release folder.")
    ],
    prices: Annotated[Path, typer.Option(help="Prices file: market_price, count, campaign.")],
    requests: Annotated[int, typer.Option(help="Expected bid requests in the flight.")],
    cap: Annotated[int, typer.Option(help="Frequency cap.")],
    budget: Annotated[
        list[float] | None, typer.Option(help="Budget to forecast; may be repeated.")
    ] = None,
    reach: Annotated[float | None, typer.Option(help="Reach to find the budget for.")] = None,
    campaign: Annotated[
        str | None, typer.Option(help="Use the prices of this campaign only.")
    ] = None,
    auction: Annotated[str, typer.Option(help="second_price or first_price.")] = "second_price",
    model: Annotated[
        str | None,
        typer.Option(
            help="Visit model: its file, a release folder, or none for the formulas of the paper "
            "[default: that of the groups' release, if any]."
        ),
    ] = None,
    max_cost_per_reach: Annotated[
        float | None,
        typer.Option(help="Most that a further reach may cost; default: ten times the first."),
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of the bands.")] = 0.95,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Forecast the reach of budgets, or the budget for a reach, with bands.

    Example: kreach plan --groups groups.parquet --prices prices.csv --requests 100000 --cap 2
    --budget 500 --budget 1000
    """
    from kreach.adsystem.bidding.history import read_prices
    from kreach.adsystem.reports.forecast import plan as forecast

    with progress_spinner() as progress:
        progress("reading")
        audience, chosen = _read(groups, model)
        found = forecast(
            audience,
            read_prices(prices, campaign, auction),
            requests,
            cap,
            budgets=budget or None,
            reach=reach,
            model=chosen,
            max_cost_per_reach=max_cost_per_reach,
            level=level,
            seed=seed,
            progress=progress,
        )
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
    else:
        _show(found, level)


def _read(groups: Path, model: str | None) -> "tuple[Audience, VisitModel | None]":
    """The groups of a file or release, and the visit model that was asked for."""
    from kreach.boundary.audience import DisjointAudience
    from kreach.boundary.files import groups_file, read_groups
    from kreach.boundary.visit_model import FILE, VisitModel

    _, audience = read_groups(groups)
    if model == "none":
        return audience, None
    if model is not None:
        return audience, VisitModel.load(model)
    beside = groups_file(groups).parent / FILE
    if not beside.is_file() or not isinstance(audience, DisjointAudience):
        return audience, None
    return audience, VisitModel.load(beside)


def _show(found: "ReachPlan", level: float) -> None:
    from rich.table import Table

    from kreach.adsystem.catalogues import visible_per_group
    from kreach.display.table import cell_text

    console = table_console()
    people, cap = found.people, found.cap
    least, median = visible_per_group(found.audience)
    visits = "independent visits" if found.model is None else "visit model of the site"
    console.print(
        f"\n[bold]{people:,} targeted people[/bold], reach counts up to {cap} per person\n"
        f"{visits}; visible people per group: min {least:,}, median {median:,g}\n"
    )
    table = Table(pad_edge=False)
    for head in ("budget", "spend", "reach", f"{level:.0%} band", "frequency"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("of max. reach", no_wrap=True, min_width=_BAR_WIDTH)
    for one in found.outlooks:
        share = min(one.reach / max(cap * people, 1), 1.0)
        low, high = one.band
        table.add_row(
            cell_text(one.budget),
            cell_text(one.spend),
            f"{one.reach:,.1f}",
            f"{low:,.0f} to {high:,.0f}",
            f"{one.average_frequency:.2f}",
            "█" * round(_BAR_WIDTH * share),
        )
    console.print(table)
    for one in found.outlooks:
        if one.unspent_reason is not None:
            left = f"{cell_text(one.unspent)} of {cell_text(one.budget)} stay unspent"
            console.print(f"{left}: {one.unspent_reason}")
    console.print()
