"""`kreach plan`: budget to reach and back."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kreach.cli.common import Json, Seed, progress_spinner
from kreach.errors import KreachError

if TYPE_CHECKING:
    from kreach.boundary.audience import Audience
    from kreach.boundary.visit_model import VisitModel

__all__ = ["plan"]

_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
_BAR_WIDTH = 32


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
    from kreach.adsystem.bidding.outlook import OutlookMaker
    from kreach.adsystem.campaigns.campaign import MAX_COST_MULTIPLE
    from kreach.adsystem.catalogues import visible_per_group

    with progress_spinner() as progress:
        progress("reading")
        audience, chosen = _read(groups, model)
        market = read_prices(prices, campaign, auction)
        limits = {"max_cost_per_reach": max_cost_per_reach, "max_cost_multiple": MAX_COST_MULTIPLE}
        maker = OutlookMaker(audience, market, requests, cap, model=chosen, **limits)
        budgets = budget or []
        if not budgets and reach is None:
            everything = requests * float(market.expected_cost(float("inf")))
            if auction == "first_price":
                everything = requests * float(market.optimal_bid(1e300))
            budgets = [float(f"{share * everything:.3g}") for share in _SHARES]
        outlooks = []
        for amount in budgets:
            progress(f"planning {amount:,g}")
            outlooks.append(maker.for_budget(amount, level=level, seed=seed))
        if reach is not None:
            progress(f"finding the budget for a reach of {reach:,g}")
            outlooks.append(maker.for_reach(reach, level=level, seed=seed))
    rows = [asdict(outlook) for outlook in outlooks]
    people = audience.targeted_user_count
    if as_json:
        low, median = visible_per_group(audience)
        visible = {"min": low, "median": median}
        setting = {"people": people, "groups": audience.group_count, "visible": visible, "cap": cap}
        known = None if chosen is None else {"people": chosen.people, "days": chosen.history_days}
        typer.echo(json.dumps({**setting, "requests": requests, "model": known, "plans": rows}))
    else:
        _show(rows, audience, cap, level, with_model=chosen is not None)


def _read(groups: Path, model: str | None) -> "tuple[Audience, VisitModel | None]":
    """The groups of a file or release, and the visit model that was asked for."""
    from kreach.boundary.audience import DisjointAudience
    from kreach.boundary.files import read_groups
    from kreach.boundary.visit_model import FILE, VisitModel

    for folder in (groups, groups / "release"):
        if (folder / "catalogue.json").is_file():
            groups = folder / "groups.parquet"
            if (folder / "classes.parquet").is_file():
                raise KreachError.rule("groups", "be disjoint", f"{folder}, whose groups overlap")
            break
    _, audience = read_groups(groups)
    if model == "none":
        return audience, None
    if model is not None:
        return audience, VisitModel.load(model)
    beside = groups.parent / FILE
    if not beside.is_file() or not isinstance(audience, DisjointAudience):
        return audience, None
    return audience, VisitModel.load(beside)


def _show(
    rows: list[dict[str, Any]], audience: "Audience", cap: int, level: float, *, with_model: bool
) -> None:
    from rich.console import Console
    from rich.table import Table

    from kreach.adsystem.catalogues import visible_per_group

    console = Console(highlight=False)
    people = audience.targeted_user_count
    low, median = visible_per_group(audience)
    console.print(
        f"\n[bold]{people:,} targeted people[/bold], reach counts up to {cap} per person, "
        f"{'visit model of the site' if with_model else 'independent visits'}\n"
        f"visible people per group: min {low:,}, median {median:,g}\n"
    )
    table = Table(pad_edge=False)
    for head in ("budget", "spend", "reach", f"{level:.0%} band", "frequency"):
        table.add_column(head, justify="right")
    table.add_column("share of maximum reach", min_width=_BAR_WIDTH)
    for row in rows:
        bar = "█" * round(_BAR_WIDTH * min(row["reach"] / max(cap * people, 1), 1.0))
        low, high = row["band"]
        table.add_row(
            f"{row['budget']:,.5g}",
            f"{row['spend']:,.5g}",
            f"{row['reach']:,.1f}",
            f"{low:,.0f} to {high:,.0f}",
            f"{row['average_frequency']:.2f}",
            bar,
        )
    console.print(table)
    for row in rows:
        if row["unspent_reason"] is not None:
            left = f"{row['unspent']:,.5g} of {row['budget']:,.5g} stay unspent"
            console.print(f"{left}: {row['unspent_reason']}")
    console.print()
