"""`kreach reproduce`: the paper's figures and table."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from kreach.cli.common import Json, Seed, progress_spinner
from kreach.extras import require_extra

__all__ = ["reproduce"]


def reproduce(
    out: Annotated[Path, typer.Option(help="Output folder for report, figures and numbers.")],
    figures: Annotated[
        list[str] | None,
        typer.Argument(help="fig1 fig2 fig5 fig6 table1 fig7; default: all."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions.")] = False,
    seed: Seed = 0,
    processes: Annotated[
        int | None, typer.Option(help="Worker processes; default: one per core.")
    ] = None,
    visits: Annotated[
        Path | None, typer.Option(help="Visits for fig5, fig6 and table1: user_id, ts.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(help="Prices for table1: market_price, count.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Reproduce the paper's figures and table, next to the numbers that the paper states.

    Example: kreach reproduce fig2 fig7 --out reproduced/ --quick
    """
    require_extra("kreach reproduce", "lab")
    from kreach.lab.reproduce import reproduce as run_figures
    from kreach.lab.scenarios import Run

    with progress_spinner() as progress:
        run = Run(seed, quick, processes, visits, prices, progress)
        exhibits = run_figures(figures or [], out, run)
    if as_json:
        typer.echo(json.dumps({exhibit.name: exhibit.summary() for exhibit in exhibits}))
    else:
        _show(exhibits, out)


def _show(exhibits: list[Any], out: Path) -> None:
    from kreach.lab.reproduce import comparison

    for exhibit in exhibits:
        typer.echo(f"{exhibit.name:<7} {comparison(exhibit)}")
    typer.echo(f"report: {out / 'report.html'}")
