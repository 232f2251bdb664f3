"""`kreach jobs`: hourly and nightly work over the whole log, for a scheduler."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kreach.cli.groups import Json, progress_shown
from kreach.errors import KreachError

if TYPE_CHECKING:
    from kreach.adsystem.jobs.runs import Summary
    from kreach.adsystem.settings import AdSystemSettings

__all__ = ["jobs"]

jobs = typer.Typer(help="Hourly and nightly work over the logs of all bidders.")

Out = Annotated[Path, typer.Option(help="Where the output goes; not in the store.")]
Config = Annotated[
    Path | None, typer.Option(help="Settings (TOML): store, catalogues and audiences.")
]
Store = Annotated[Path | None, typer.Option(help="The store, if there is no config.")]
Groups = Annotated[
    list[Path] | None,
    typer.Option(help="A released folder, the newest last; may be repeated. With --store."),
]
From = Annotated[str | None, typer.Option("--from", help="The first to do, to catch up.")]
To = Annotated[str | None, typer.Option("--to", help="Do those before this one.")]
Last = Annotated[int | None, typer.Option(help="Do so many, up to the last full one.")]
Engine = Annotated[str, typer.Option(help="duckdb or spark.")]
Master = Annotated[str, typer.Option(help="Where Spark runs.")]
Memory = Annotated[str, typer.Option(help="Most memory of the embedded engine.")]
Level = Annotated[float, typer.Option(help="Probability that an interval holds.")]
Force = Annotated[bool, typer.Option("--force", help="Make again what is there already.")]


@jobs.command()
def hourly(
    out: Out,
    config: Config = None,
    store: Store = None,
    groups: Groups = None,
    hour: Annotated[
        str | None, typer.Option(help="The hour that begins at this time (UTC).")
    ] = None,
    start: From = None,
    end: To = None,
    last: Last = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Take an hour that is not complete, marked as such.")
    ] = False,
    force: Force = False,
    level: Level = 0.95,
    engine: Engine = "duckdb",
    master: Master = "local[*]",
    memory: Memory = "1500MB",
    as_json: Json = False,
) -> None:
    """Write what every campaign reached in an hour, alone and since its flight began.

    Without --hour, --from or --last: the last full hour. Example:

    kreach jobs hourly --config kreach.toml --out out/ --last 48
    """
    from kreach.adsystem.jobs.hourly import run_hourly
    from kreach.adsystem.jobs.options import JobOptions
    from kreach.adsystem.jobs.periods import chosen_periods

    settings, bidders, now = _source(config, store, groups)
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
    with progress_shown() as progress:
        summary = run_hourly(options, periods, now, progress)
    _show(summary, as_json)


@jobs.command()
def nightly(
    out: Out,
    config: Config = None,
    store: Store = None,
    groups: Groups = None,
    day: Annotated[str | None, typer.Option(help="The day, such as 2026-11-01 (UTC).")] = None,
    start: From = None,
    end: To = None,
    last: Last = None,
    force: Force = False,
    level: Level = 0.95,
    rows_per_file: Annotated[
        int, typer.Option(help="Rows of a file of the log, at most.")
    ] = 20_000_000,
    engine: Engine = "duckdb",
    master: Master = "local[*]",
    memory: Memory = "1500MB",
    as_json: Json = False,
) -> None:
    """Gather a day of all bidders into a few large files, and write what it reached.

    Without --day, --from or --last: yesterday (UTC). Example:

    kreach jobs nightly --config kreach.toml --out out/ --last 7
    """
    from kreach.adsystem.jobs.nightly import run_nightly
    from kreach.adsystem.jobs.options import JobOptions
    from kreach.adsystem.jobs.periods import chosen_periods

    settings, bidders, now = _source(config, store, groups)
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
    with progress_shown() as progress:
        summary = run_nightly(options, periods, now, progress)
    _show(summary, as_json)


def _source(
    config: Path | None, store: Path | None, groups: list[Path] | None
) -> "tuple[AdSystemSettings, tuple[str, ...], datetime]":
    """What to read, whose logs must be there, and the time before anything is read."""
    from kreach.adsystem.settings import AdSystemSettings, RedisSettings
    from kreach.service.clock import ClockSettings
    from kreach.service.config import load_settings, read_file

    if config is not None:
        if store is not None or groups:
            raise KreachError.rule("config", "be given alone", "config with store or groups")
        document, base = read_file(config), config.absolute().parent
        settings = load_settings(AdSystemSettings, "adsystem", document, base=base)
        bidders = load_settings(RedisSettings, "redis", document, base=base).bidders
        clock = load_settings(ClockSettings, "clock", document, base=base).steady()
        return settings, bidders, datetime.fromtimestamp(clock(), UTC)
    if store is None or not groups:
        raise KreachError.rule("config", "be given, or store and groups", "neither")
    return AdSystemSettings(store=store, catalogues=tuple(groups)), (), datetime.now(UTC)


def _show(summary: "Summary", as_json: bool) -> None:
    """What was done, then why no more was: that one goes to standard error and ends with 1."""
    if as_json:
        typer.echo(json.dumps(summary.document()))
    else:
        for one in summary.document()["done"]:
            typer.echo(
                f"{one['start']} {one['state']}: {one['impressions']:,} impressions of "
                f"{one['campaigns']:,} campaigns, {', '.join(one['folders'])}"
            )
            if one["not_measured"]:
                typer.echo(f"  {one['not_measured']:,} could not be measured: column note says why")
    if summary.refused is not None:
        raise summary.refused
