"""`kreach catalogues`: releases of publishers on many machines."""

import json
from pathlib import Path
from typing import Annotated

import typer

from kreach.cli.common import ConfigFile, Json
from kreach.cli.serve import Config

__all__ = ["catalogues"]

catalogues = typer.Typer(help="Put releases where every machine fetches them.")


@catalogues.command()
def push(
    path: Annotated[Path, typer.Argument(help="Release folder, or groups file of an audience.")],
    to: Annotated[str, typer.Option(help="Object store or shared folder: s3://bucket/releases.")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Push a release to an object store and print its address for [releases].

    The address ends in a checksum: services refuse anything else. Pushing a release again changes
    nothing. Options of the store are those of [releases] or [shipping], if --config is given.
    Example:

    kreach catalogues push groups/release --to s3://ads-log/releases --config kreach.toml
    """
    from kreach.adsystem.shipping.releases import ReleaseSettings, push_release
    from kreach.adsystem.shipping.settings import ShippingSettings

    file = ConfigFile(config)
    releases = file.load(ReleaseSettings, "releases")
    options = releases.options or file.load(ShippingSettings, "shipping").files_options
    address = push_release(path, to, options, releases.timeout_seconds)
    typer.echo(json.dumps({"address": address}) if as_json else address)
