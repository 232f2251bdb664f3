"""`kreach groups apply`: a user-level log made group-level."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kreach.cli.common import Json, progress_spinner, split_names

if TYPE_CHECKING:
    from kreach.publisher.apply import Applied

__all__ = ["apply"]


def apply(
    folder: Annotated[Path, typer.Argument(help="Folder from `kreach groups build`.")],
    log: Annotated[
        Path, typer.Option(help="User-level log: user_id, further columns (Parquet, CSV, folder).")
    ],
    out: Annotated[Path, typer.Option(help="New .parquet or .csv file, or a folder of Parquet.")],
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Pass this column although it identifies people; may be repeated."),
    ] = None,
    refuse_unknown: Annotated[
        bool, typer.Option("--refuse-unknown", help="Refuse users that the build does not know.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a log with `group` in place of `user_id`: same rows and columns, same order.

    Unknown users get the group that the gateway would name. Columns that identify people are
    refused. Example:

    kreach groups apply groups/ --log shown.parquet --out impressions.parquet
    """
    from kreach.publisher.apply import apply_groups

    names = tuple(name for text in allow or () for name in split_names(text))
    with progress_spinner() as progress:
        applied = apply_groups(
            folder, log, out, allow=names, refuse_unknown=refuse_unknown, progress=progress
        )
    if as_json:
        typer.echo(json.dumps(applied.document()))
    else:
        _show(applied)


def _show(applied: "Applied") -> None:
    typer.echo(
        f"{applied.rows:,} rows of {applied.users:,} users, catalogue {applied.version}: "
        f"{applied.out}"
    )
    if applied.unknown_users:
        typer.echo(
            f"unknown users: {applied.unknown_users:,} ({applied.unknown_rows:,} rows), named as "
            "the gateway names them"
        )
    for warning in applied.warnings:
        typer.echo(f"warning: {warning}")
