"""`kreach evaluate` and `kreach tradeoff`: the paper's questions on one's own logs."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from kreach.boundary.times import as_instant
from kreach.cli.groups import Json, progress_shown
from kreach.errors import KreachError

__all__ = ["evaluate", "tradeoff"]

Visits = Annotated[Path, typer.Option(help="Visits: user_id, ts, attributes (Parquet, CSV).")]
Prices = Annotated[Path, typer.Option(help="Prices: market_price, count, campaign.")]
Out = Annotated[Path, typer.Option(help="Folder for summary, rows, figures and report.html.")]
Split = Annotated[
    str | None, typer.Option(help="History before, flight after; default: half of the visits.")
]
Campaigns = Annotated[int, typer.Option(help="Campaigns to draw.")]
CampaignSize = Annotated[int, typer.Option(help="People of a campaign.")]
Strategies = Annotated[
    str, typer.Option(help="Ways of grouping, the main one first, separated by commas.")
]
Segments = Annotated[str, typer.Option(help="Targeting columns, for segments strategies.")]
Target = Annotated[str | None, typer.Option(help="A column: its largest values are the campaigns.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same digits.")]
Processes = Annotated[int | None, typer.Option(help="Processes; default: one per core.")]


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


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

    named = _split(strategies)
    if not named:
        raise KreachError.rule("strategies", "name at least one way of grouping", strategies)
    return StudyOptions(
        visits,
        prices,
        group_size,
        named[0],
        named[1:],
        _split(segments),
        _split(segments),
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
    group_size: Annotated[int, typer.Option(help="k, the least people in a group.")] = 20,
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

    How far off each way of measuring is, and what each way of bidding reaches at equal budget.
    Example:

    kreach evaluate --visits visits.parquet --prices prices.csv --group-size 20 --out study/
    """
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
    with progress_shown() as progress:
        site, rows = study.evaluate(options, progress)
        progress("drawing")
        summary = evaluate_report.summary_of(options, site, rows)
        advice = evaluate_report.advice_of(options, summary)
        exhibits = evaluate_report.exhibits_of(options, summary, rows)
        title = f"What groups of {group_size} mean for these logs"
        write_study(out, title, exhibits, summary | {"advice": advice}, advice)
    _told(summary | {"advice": advice}, advice, out, as_json)


def tradeoff(
    visits: Visits,
    prices: Prices,
    out: Out,
    group_sizes: Annotated[str, typer.Option(help="Values of k, separated by commas.")] = (
        "1,2,5,20,50"
    ),
    strategies: Strategies = "random,rates",
    segments: Segments = "",
    split: Split = None,
    campaigns: Campaigns = 5,
    campaign_size: CampaignSize = 5_000,
    target: Target = None,
    seed: Seed = 0,
    processes: Processes = None,
    as_json: Json = False,
) -> None:
    """Tell what anonymity costs on your own logs: reach, reach per spend and error against k.

    Example: kreach tradeoff --visits visits.parquet --prices prices.csv --group-sizes 1,5,20,50
    --out cost/
    """
    from kreach.lab import tradeoff as study
    from kreach.lab.exhibits import check_folder, write_study

    try:
        sizes = sorted({int(size) for size in _split(group_sizes)})
    except ValueError:
        sizes = []
    if not sizes or sizes[0] < 1:
        raise KreachError.rule("group-sizes", "be whole numbers ≥ 1, like 1,5,20", group_sizes)
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
    with progress_shown() as progress:
        site, rows = study.tradeoff(options, sizes, progress)
        progress("drawing")
        summary = study.summary_of(options, site, rows)
        advice = study.advice_of(summary, sizes)
        exhibits = study.exhibits_of(options, summary, rows)
        write_study(out, "What anonymity costs", exhibits, summary | {"advice": advice}, advice)
    _told(summary | {"advice": advice}, advice, out, as_json)


def _told(summary: dict[str, Any], advice: list[str], out: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(summary))
        return
    for line in advice:
        typer.echo(line)
    typer.echo(f"\nAll of it: {out / 'report.html'}")
