"""`kreach keys`: who may use the reporting service."""

import json
import time
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kreach.cli.groups import Json
from kreach.cli.serve import Config

if TYPE_CHECKING:
    from kreach.adsystem.access.keys import KeyStore, NewKey

__all__ = ["keys"]

keys = typer.Typer(help="Make, list, rotate and revoke keys for the reporting service.")

Store = Annotated[
    Path | None, typer.Option("--store", help="The ad side's store; default: as in the settings.")
]
KeyId = Annotated[str, typer.Argument(metavar="ID", help="The public id, never the key itself.")]


@keys.command()
def add(
    role: Annotated[str, typer.Option(help="operator, advertiser or publisher.")],
    advertiser: Annotated[
        str | None, typer.Option(help="The advertiser's name: small letters, digits, -.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="When the key ends, such as 2027-01-01; default: never.")
    ] = None,
    rate: Annotated[int, typer.Option(help="Requests a minute.")] = 600,
    store: Store = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Make a key and show it, this once.

    The key goes to standard output, the rest to standard error. Example:

    kreach keys add --config kreach.toml --role advertiser --advertiser acme > acme.key
    """
    from kreach.boundary.times import as_instant

    ends = as_instant("expires", expires)
    with _opened(store, config, create=True) as kept:
        made = kept.add(role, advertiser, ends.timestamp() if ends else None, rate)
    _show_new(made, as_json, "made")


@keys.command("list")
def show(store: Store = None, config: Config = None, as_json: Json = False) -> None:
    """List all keys, those that are over too. No secret is shown: none is kept.

    Example: kreach keys list --config kreach.toml
    """
    with _opened(store, config, create=False) as kept:
        found = [one.key.document(time.time()) for one in kept.all()]
    if as_json:
        typer.echo(json.dumps({"keys": found}))
        return
    _show_all(found)


@keys.command()
def rotate(
    key_id: KeyId,
    grace_seconds: Annotated[
        float, typer.Option(help="How long the key from before is still good.")
    ] = 0.0,
    store: Store = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Give a key a new secret and show it, this once; id, role and rate stay.

    Example: kreach keys rotate 4k7p0m2x9c3a --grace-seconds 3600 --config kreach.toml
    """
    with _opened(store, config, create=False) as kept:
        made = kept.rotate(key_id, grace_seconds)
    _show_new(made, as_json, "rotated")


@keys.command()
def revoke(
    key_id: KeyId, store: Store = None, config: Config = None, as_json: Json = False
) -> None:
    """End a key for good. A running service turns it away within a second.

    Example: kreach keys revoke 4k7p0m2x9c3a --config kreach.toml
    """
    with _opened(store, config, create=False) as kept:
        found = kept.revoke(key_id).document(time.time())
    typer.echo(json.dumps(found) if as_json else f"key {found['id']} is revoked")


def _opened(
    store: Path | None, config: Path | None, *, create: bool
) -> AbstractContextManager["KeyStore"]:
    """The keys of the store that was named, or of the settings'; to be closed."""
    from kreach.adsystem.access.keys import KeyStore
    from kreach.adsystem.settings import AdSystemSettings
    from kreach.service.config import load_settings, read_file

    if store is not None and config is not None:
        raise typer.BadParameter("give --store or --config, not both")
    if store is None:
        base = Path.cwd() if config is None else config.absolute().parent
        store = load_settings(AdSystemSettings, "adsystem", read_file(config), base=base).store
    return closing(KeyStore(store, create=create))


def _show_new(made: "NewKey", as_json: bool, done: str) -> None:
    found = made.key.document(time.time())
    if as_json:
        typer.echo(json.dumps({**found, "key": made.text}))
        return
    whose = found["role"] + (f" {found['advertiser']}" if found["advertiser"] else "")
    typer.echo(f"key {found['id']} ({whose}) is {done}; it is shown now and never again", err=True)
    if found["former_until"]:
        typer.echo(f"the key from before is good until {found['former_until']}", err=True)
    typer.echo(made.text)


def _show_all(found: list[dict[str, Any]]) -> None:
    shown = ("id", "state", "role", "advertiser", "rate_per_minute", "created", "expires")
    rows = [tuple(name.replace("_per_minute", "/min") for name in shown)]
    rows += [tuple("-" if one[name] is None else str(one[name]) for name in shown) for one in found]
    widths = [max(len(row[at]) for row in rows) for at in range(len(shown))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
