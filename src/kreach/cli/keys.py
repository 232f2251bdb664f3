"""`kreach keys`: API keys of the reporting service."""

import json
import time
from contextlib import AbstractContextManager, closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kreach.cli.common import ConfigFile, Json
from kreach.cli.serve import Config

if TYPE_CHECKING:
    from kreach.adsystem.access.keys import KeyStore, NewKey

__all__ = ["keys"]

keys = typer.Typer(help="Create, list, rotate, revoke and limit keys of the reporting API.")

Store = Annotated[
    Path | None,
    typer.Option("--store", help="Store folder of the ad system; default: from the settings."),
]
KeyId = Annotated[
    str, typer.Argument(metavar="ID", help="Public id of the key, not the key itself.")
]


@keys.command()
def add(
    role: Annotated[str, typer.Option(help="operator, advertiser or publisher.")],
    advertiser: Annotated[
        str | None, typer.Option(help="Advertiser name: lowercase letters, digits, -.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="Expiry, such as 2027-01-01; default: never.")
    ] = None,
    rate: Annotated[int, typer.Option(help="Requests per minute.")] = 600,
    store: Store = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Create a key and show it once.

    The key goes to standard output, everything else to standard error. Example:

    kreach keys add --config kreach.toml --role advertiser --advertiser acme > acme.key
    """
    from kreach.boundary.times import as_instant

    expiry = as_instant("expires", expires)
    with _open_keys(store, config, create=True) as key_store:
        new = key_store.add(role, advertiser, expiry.timestamp() if expiry else None, rate)
    _show_new(new, as_json, "created")


@keys.command("list")
def show(store: Store = None, config: Config = None, as_json: Json = False) -> None:
    """List all keys, expired and revoked ones too. Secrets are not stored and not shown.

    Example: kreach keys list --config kreach.toml
    """
    with _open_keys(store, config, create=False) as key_store:
        rows = [stored.key.document(time.time()) for stored in key_store.all()]
        limits = [asdict(own) for own in key_store.limits()]
    if as_json:
        typer.echo(json.dumps({"keys": rows, "limits": limits}))
        return
    _show_all(rows)


@keys.command()
def rotate(
    key_id: KeyId,
    grace_seconds: Annotated[
        float, typer.Option(help="How long the old secret stays valid.")
    ] = 0.0,
    store: Store = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Give a key a new secret and show it once. Id, role and rate stay the same.

    Example: kreach keys rotate 4k7p0m2x9c3a --grace-seconds 3600 --config kreach.toml
    """
    with _open_keys(store, config, create=False) as key_store:
        new = key_store.rotate(key_id, grace_seconds)
    _show_new(new, as_json, "rotated")


@keys.command()
def revoke(
    key_id: KeyId, store: Store = None, config: Config = None, as_json: Json = False
) -> None:
    """Revoke a key for good. A running service rejects it within a second.

    Example: kreach keys revoke 4k7p0m2x9c3a --config kreach.toml
    """
    with _open_keys(store, config, create=False) as key_store:
        row = key_store.revoke(key_id).document(time.time())
    typer.echo(json.dumps(row) if as_json else f"key {row['id']} is revoked")


@keys.command()
def limit(
    advertiser: Annotated[str, typer.Argument(help="Advertiser name.")],
    max_campaigns: Annotated[
        int | None, typer.Option(help="Campaigns that may run or be planned at a time.")
    ] = None,
    credit_limit: Annotated[
        float | None, typer.Option(help="Sum of the budgets of these campaigns.")
    ] = None,
    store: Store = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Limit the campaigns and budgets of an advertiser. An omitted limit is that of [reporting].

    A running service applies it within a second. Campaigns beyond a lowered limit go on.

    Example: kreach keys limit acme --credit-limit 50000 --config kreach.toml
    """
    with _open_keys(store, config, create=False) as key_store:
        row = asdict(key_store.set_limits(advertiser, max_campaigns, credit_limit))
    if as_json:
        typer.echo(json.dumps(row))
        return
    for name in ("max_campaigns", "credit_limit"):
        value = row[name]
        typer.echo(f"{name}: {'as in [reporting]' if value is None else value}")


def _open_keys(
    store: Path | None, config: Path | None, *, create: bool
) -> AbstractContextManager["KeyStore"]:
    """The keys of the given store, or of the one in the settings. Closes on exit."""
    from kreach.adsystem.access.keys import KeyStore
    from kreach.adsystem.settings import AdSystemSettings

    if store is not None and config is not None:
        raise typer.BadParameter("give --store or --config, not both")
    if store is None:
        store = ConfigFile(config).load(AdSystemSettings, "adsystem").store
    return closing(KeyStore(store, create=create))


def _show_new(new: "NewKey", as_json: bool, action: str) -> None:
    row = new.key.document(time.time())
    if as_json:
        typer.echo(json.dumps({**row, "key": new.text}))
        return
    owner = row["role"] + (f" {row['advertiser']}" if row["advertiser"] else "")
    typer.echo(f"key {row['id']} ({owner}) is {action}; it will not be shown again", err=True)
    if row["former_until"]:
        typer.echo(f"the old secret is valid until {row['former_until']}", err=True)
    typer.echo(new.text)


def _show_all(keys: list[dict[str, Any]]) -> None:
    columns = ("id", "state", "role", "advertiser", "rate_per_minute", "created", "expires")
    rows = [tuple(name.replace("_per_minute", "/min") for name in columns)]
    rows += [
        tuple("-" if key[name] is None else str(key[name]) for name in columns) for key in keys
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(columns))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
