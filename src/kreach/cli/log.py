"""`kreach log`: prepare an impression log for reports."""

import json
from pathlib import Path
from typing import Annotated

import typer

from kreach.cli.common import Json, progress_spinner

__all__ = ["log"]

log = typer.Typer(help="Prepare an impression log for reports.")


@log.callback()
def _commands() -> None:
    pass


@log.command()
def prepare(
    groups: Annotated[str, typer.Option(help="Release folder, or groups file with its model.")],
    impressions: Annotated[
        str, typer.Option(help="Impressions: Parquet, CSV, folder or file.duckdb#table.")
    ],
    out: Annotated[Path, typer.Option(help="New folder for the copy.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="Visit model: its file or a release folder [default: that of the groups' release]."
        ),
    ] = None,
    traffic: Annotated[
        float, typer.Option(help="Traffic of the site, relative to the model's history.")
    ] = 1.0,
    engine: Annotated[str, typer.Option(help="duckdb or spark.")] = "duckdb",
    master: Annotated[str, typer.Option(help="Spark master URL.")] = "local[*]",
    memory: Annotated[str, typer.Option(help="Memory limit of DuckDB.")] = "1500MB",
    unique_ids: Annotated[
        bool, typer.Option(help="Assume unique ids; skip de-duplication.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a copy of a log whose rows hold their shares of draws.

    Reports with the same groups, visit model and traffic then add them up instead of sorting the
    log, with the same results. Anything else is computed as from the log itself. Example:

    kreach log prepare --groups release/ --impressions log/ --out prepared/
    """
    from kreach.adsystem.log.group_table import open_groups
    from kreach.adsystem.log.prepare import prepare_log
    from kreach.cli.measure import open_engine
    from kreach.cli.measure_request import with_model

    opening = open_engine(engine, master, memory, "kreach log prepare")
    with progress_spinner() as progress, opening as opened:
        progress("reading the groups")
        table = with_model(open_groups(opened, groups), model, traffic)
        with progress.scanning(opened, "computing shares of draws"):
            copy = prepare_log(opened, impressions, table, out, unique_ids=unique_ids)
    if as_json:
        facts = {"folder": str(copy.folder), "rows": copy.rows, "copies": copy.copies}
        typer.echo(json.dumps(facts | {"files": copy.files}))
        return
    typer.echo(f"{copy.rows:,} rows, files: {copy.files:,}, in {copy.folder}")
    if copy.copies:
        typer.echo(f"of these without a share, as duplicates of an impression id: {copy.copies:,}")


@log.command()
def sql(
    dialect: Annotated[
        str,
        typer.Option(
            help="bigquery, clickhouse, databricks, duckdb, postgres, snowflake or trino."
        ),
    ],
    table: Annotated[str, typer.Option(help="Table of impressions, with its schema if any.")],
    campaigns: Annotated[
        list[str] | None, typer.Option("--campaign", help="Count only this campaign.")
    ] = None,
    start: Annotated[str | None, typer.Option(help="Start of the window (UTC).")] = None,
    end: Annotated[str | None, typer.Option(help="End of the window (UTC), exclusive.")] = None,
    by: Annotated[str, typer.Option(help="Periods of the counts: hour, day or week.")] = "day",
    ids: Annotated[
        bool, typer.Option(help="The table has impression_id; of duplicates count the earliest.")
    ] = True,
) -> None:
    """Print the query that counts impressions by campaign, period and group in a warehouse.

    Save its result as CSV or Parquet, and give that to kreach measure --counts. Example:

    kreach log sql --dialect bigquery --table ads.impressions --campaign spring > counts.sql
    """
    from kreach.adsystem.log.count_tables import count_sql

    typer.echo(
        count_sql(dialect, table, by=by, campaigns=campaigns or (), start=start, end=end, ids=ids)
    )
