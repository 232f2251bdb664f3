"""`kreach evaluate` and `kreach tradeoff`: the paper's studies on the user's own logs."""

import json
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from kreach.boundary.times import as_instant
from kreach.cli.common import Json, Seed, progress_spinner, split_names
from kreach.cli.groups import Visits
from kreach.errors import KreachError
from kreach.extras import require_extra

__all__ = ["evaluate", "tradeoff"]

Prices = Annotated[Path, typer.Option(help="Prices: market_price, count, campaign.")]
Out = Annotated[
    Path, typer.Option(help="Output folder for summary, rows, figures and report.html.")
]
Split = Annotated[
    str | None,
    typer.Option(help="Time that splits history from flight; default: the median visit."),
]
Campaigns = Annotated[int, typer.Option(help="Number of campaigns to draw.")]
CampaignSize = Annotated[int, typer.Option(help="People per campaign.")]
Strategies = Annotated[
    str, typer.Option(help="Grouping strategies, comma-separated, main one first.")
]
Segments = Annotated[str, typer.Option(help="Targeting columns of the segments strategies.")]
Target = Annotated[
    str | None, typer.Option(help="Column whose largest values become the campaigns.")
]
Processes = Annotated[int | None, typer.Option(help="Worker processes; default: one per core.")]


def _options(
    visits: Path,
    prices: Path,
    group_size: int,
    strategies: str,
    segments: str,
    split: str | None,
    campaigns: int,
    campaign_size: int,
    target: str | None,
    seed: int,
    processes: int | None,
) -> Any:
    from kreach.lab.evaluate import StudyOptions

    names = split_names(strategies)
    if not names:
        raise KreachError.rule("strategies", "name at least one strategy", strategies)
    return StudyOptions(
        visits,
        prices,
        group_size,
        names[0],
        names[1:],
        split_names(segments),
        split_names(segments),
        as_instant("split", split),
        campaigns,
        campaign_size,
        target,
        seed,
        processes,
    )


def evaluate(
    visits: Visits,
    prices: Prices,
    out: Out,
    group_size: Annotated[int, typer.Option(help="Minimum people per group (k).")] = 20,
    strategies: Strategies = "random,rates",
    segments: Segments = "",
    split: Split = None,
    campaigns: Campaigns = 10,
    campaign_size: CampaignSize = 5_000,
    target: Target = None,
    seed: Seed = 0,
    processes: Processes = None,
    as_json: Json = False,
) -> None:
    """Run the paper's real-world study on your own visits and prices.

    Reports the error of each way to measure reach, and the reach of each way to bid at equal
    budget. Example:

    kreach evaluate --visits visits.parquet --prices prices.csv --group-size 20 --out study/
    """
    require_extra("kreach evaluate", "lab")
    from kreach.lab import evaluate as study
    from kreach.lab import evaluate_report
    from kreach.lab.exhibits import check_folder, write_study

    options = _options(
        visits,
        prices,
        group_size,
        strategies,
        segments,
        split,
        campaigns,
        campaign_size,
        target,
        seed,
        processes,
    )
    check_folder(out)
    with progress_spinner() as progress:
        site, rows = study.evaluate(options, progress)
        progress("drawing")
        summary = evaluate_report.summary_of(options, site, rows)
        advice = evaluate_report.advice_of(options, summary)
        exhibits = evaluate_report.exhibits_of(options, summary, rows)
        title = f"What groups of {group_size} mean for these logs"
        write_study(out, title, exhibits, summary | {"advice": advice}, advice)
    _show(summary | {"advice": advice}, advice, out, as_json)


def tradeoff(
    visits: Visits,
    prices: Prices,
    out: Out,
    group_sizes: Annotated[str, typer.Option(help="Values of k, comma-separated.")] = (
        "1,2,5,20,50"
    ),
    strategies: Strategies = "random,rates",
    segments: Segments = "",
    split: Split = None,
    campaigns: Campaigns = 5,
    campaign_size: CampaignSize = 5_000,
    target: Target = None,
    memory_hours: Annotated[
        str,
        typer.Option(
            help="Hours that the gateway remembers whom it showed an ad, comma-separated; "
            "'flight': all of it."
        ),
    ] = "",
    seed: Seed = 0,
    processes: Processes = None,
    as_json: Json = False,
) -> None:
    """Measure what anonymity costs on your own logs: reach, reach per spend and error by k.

    Example: kreach tradeoff --visits visits.parquet --prices prices.csv --group-sizes 1,5,20,50
    --out cost/
    """
    require_extra("kreach tradeoff", "lab")
    from kreach.lab import tradeoff as study
    from kreach.lab.exhibits import check_folder, write_study

    try:
        sizes = sorted({int(size) for size in split_names(group_sizes)})
    except ValueError:
        sizes = []
    if not sizes or sizes[0] < 1:
        raise KreachError.rule("group-sizes", "be whole numbers ≥ 1, like 1,5,20", group_sizes)
    hours = _hours(memory_hours)
    options = _options(
        visits,
        prices,
        sizes[-1],
        strategies,
        segments,
        split,
        campaigns,
        campaign_size,
        target,
        seed,
        processes,
    )
    check_folder(out)
    with progress_spinner() as progress:
        site, rows = study.tradeoff(options, sizes, progress, memory_hours=hours)
        progress("drawing")
        summary = study.summary_of(options, site, rows)
        advice = study.advice_of(summary, sizes)
        exhibits = study.exhibits_of(options, summary, rows)
        write_study(out, "What anonymity costs", exhibits, summary | {"advice": advice}, advice)
    _show(summary | {"advice": advice}, advice, out, as_json)


def _hours(text: str) -> list[float]:
    """Hours > 0, in order; `flight` is all of it."""
    try:
        hours = sorted({inf if name == "flight" else float(name) for name in split_names(text)})
    except ValueError:
        hours = [0.0]
    if any(not hour > 0.0 for hour in hours):
        raise KreachError.rule("memory-hours", "be numbers > 0 or flight, like 4,24,flight", text)
    return hours


def _show(summary: dict[str, Any], advice: list[str], out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(summary))
        return
    for line in advice:
        typer.echo(line)
    typer.echo(f"\nreport: {out / 'report.html'}")
