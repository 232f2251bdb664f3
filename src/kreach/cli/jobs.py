"""`kreach jobs`: hourly and nightly jobs over the whole log, for a scheduler."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kreach.boundary.times import from_seconds
from kreach.cli.common import ConfigFile, Json, progress_spinner
from kreach.cli.released import load_adsystem
from kreach.errors import KreachError
from kreach.extras import require_extra

if TYPE_CHECKING:
    from kreach.adsystem.jobs.runs import Summary
    from kreach.adsystem.settings import AdSystemSettings

__all__ = ["jobs"]

jobs = typer.Typer(help="Hourly and nightly jobs over the logs of all bidders.")

Out = Annotated[Path, typer.Option(help="Output folder, outside the store.")]
Config = Annotated[
    Path | None, typer.Option(help="Settings (TOML): store, catalogues and audiences.")
]
Store = Annotated[Path | None, typer.Option(help="Store folder, instead of --config.")]
Groups = Annotated[
    list[Path] | None,
    typer.Option(help="With --store: release folder; may be repeated, newest last."),
]
From = Annotated[str | None, typer.Option("--from", help="First period to run (backfill).")]
To = Annotated[str | None, typer.Option("--to", help="Run periods before this one.")]
Last = Annotated[int | None, typer.Option(help="Run this many, up to the last complete period.")]
Engine = Annotated[str, typer.Option(help="duckdb or spark.")]
Master = Annotated[str, typer.Option(help="Spark master URL.")]
Memory = Annotated[str, typer.Option(help="Memory limit of DuckDB.")]
Level = Annotated[float, typer.Option(help="Confidence level of the intervals.")]
Force = Annotated[bool, typer.Option("--force", help="Recompute periods that exist already.")]


@jobs.command()
def hourly(
    out: Out,
    config: Config = None,
    store: Store = None,
    groups: Groups = None,
    hour: Annotated[str | None, typer.Option(help="Hour that starts at this time (UTC).")] = None,
    start: From = None,
    end: To = None,
    last: Last = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Also run an incomplete hour, marked as partial.")
    ] = False,
    force: Force = False,
    level: Level = 0.95,
    engine: Engine = "duckdb",
    master: Master = "local[*]",
    memory: Memory = "1500MB",
    as_json: Json = False,
) -> None:
    """Report every campaign's reach, per hour and cumulative.

    Default: the last complete hour. Example:

    kreach jobs hourly --config kreach.toml --out out/ --last 48
    """
    from kreach.adsystem.jobs.hourly import run_hourly
    from kreach.adsystem.jobs.options import JobOptions
    from kreach.adsystem.jobs.periods import chosen_periods

    settings, bidders, now = _source(config, store, groups, engine)
    periods = chosen_periods("hour", now, at=hour, start=start, end=end, last=last)
    options = JobOptions(
        settings=settings,
        out=out,
        bidders=bidders,
        engine=engine,
        master=master,
        memory=memory,
        level=level,
        partial=partial,
        force=force,
    )
    with progress_spinner() as progress:
        summary = run_hourly(options, periods, now, progress)
    _show(summary, as_json)


@jobs.command()
def nightly(
    out: Out,
    config: Config = None,
    store: Store = None,
    groups: Groups = None,
    day: Annotated[str | None, typer.Option(help="Day, such as 2026-11-01 (UTC).")] = None,
    start: From = None,
    end: To = None,
    last: Last = None,
    force: Force = False,
    level: Level = 0.95,
    rows_per_file: Annotated[int, typer.Option(help="Maximum rows per log file.")] = 20_000_000,
    engine: Engine = "duckdb",
    master: Master = "local[*]",
    memory: Memory = "1500MB",
    as_json: Json = False,
) -> None:
    """Merge a day of all bidders' logs into large files and report its reach.

    Default: yesterday (UTC). Example:

    kreach jobs nightly --config kreach.toml --out out/ --last 7
    """
    from kreach.adsystem.jobs.nightly import run_nightly
    from kreach.adsystem.jobs.options import JobOptions
    from kreach.adsystem.jobs.periods import chosen_periods

    settings, bidders, now = _source(config, store, groups, engine)
    periods = chosen_periods("day", now, at=day, start=start, end=end, last=last)
    options = JobOptions(
        settings=settings,
        out=out,
        bidders=bidders,
        engine=engine,
        master=master,
        memory=memory,
        level=level,
        force=force,
        rows_per_file=rows_per_file,
    )
    with progress_spinner() as progress:
        summary = run_nightly(options, periods, now, progress)
    _show(summary, as_json)


def _source(
    config: Path | None, store: Path | None, groups: list[Path] | None, engine: str
) -> "tuple[AdSystemSettings, tuple[str, ...], datetime]":
    """Settings, the bidders whose logs are required, and the time before anything is read."""
    from kreach.adsystem.settings import AdSystemSettings, RedisSettings
    from kreach.service.clock import ClockSettings

    if engine == "spark":
        require_extra("kreach jobs --engine spark", "spark")
    if config is not None:
        if store is not None or groups:
            raise KreachError.rule("config", "be given alone", "config with store or groups")
        file = ConfigFile(config)
        settings = load_adsystem(file)
        bidders = file.load(RedisSettings, "redis").bidders
        clock = file.load(ClockSettings, "clock").steady()
        return settings, bidders, from_seconds(clock())
    if store is None or not groups:
        raise KreachError.rule("config", "be given, or store and groups", "neither")
    return AdSystemSettings(store=store, catalogues=tuple(groups)), (), datetime.now(UTC)


def _show(summary: "Summary", as_json: bool) -> None:
    """Print the finished periods; raise the reason why later ones were not run."""
    if as_json:
        typer.echo(json.dumps(summary.document()))
    else:
        for period in summary.document()["done"]:
            typer.echo(
                f"{period['start']} {period['state']}: {period['impressions']:,} impressions of "
                f"{period['campaigns']:,} campaigns, {', '.join(period['folders'])}"
            )
            if period["not_measured"]:
                typer.echo(f"  {period['not_measured']:,} not measured (see the note column)")
    if summary.refused is not None:
        raise summary.refused
