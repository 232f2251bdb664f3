"""`kreach repair`: put a store right after a fault."""

import json
import time
from typing import Annotated

import typer

from kreach.cli.common import ConfigFile, Json
from kreach.cli.serve import Config

__all__ = ["repair"]

repair = typer.Typer(help="Repair a store after a fault.")


@repair.callback()
def _group() -> None:
    """Have a command name although there is one command only."""


@repair.command()
def clock(
    config: Config = None,
    write: Annotated[
        bool, typer.Option("--write", help="Believe the machine's clock and repair the log by it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the times in a bidder's log beside the machine's clock; with --write, repair them.

    Correct the machine's clock first, and stop the bidder before --write. What the log holds in
    the future moves to now; no row is lost. Bids that are out are no longer honoured. Example:

    kreach repair clock --config kreach.toml --write
    """
    from kreach.adsystem.ledger.clock_repair import clock_facts, repair_clock
    from kreach.adsystem.settings import AdSystemSettings, BidderSettings
    from kreach.adsystem.store_layout import bidder_store
    from kreach.service.logs import Log

    file = ConfigFile(config)
    settings = file.load(BidderSettings, "bidder")
    folder = bidder_store(file.load(AdSystemSettings, "adsystem"), settings.name).store
    now = time.time()
    facts = repair_clock(folder, now, Log("repair")) if write else clock_facts(folder, now)
    if as_json:
        typer.echo(json.dumps({**facts.document(), "repaired": write}))
        return
    for name, value in facts.document().items():
        typer.echo(f"{name.replace('_', ' ')}: {'-' if value is None else value}")
    if write:
        typer.echo("repaired: the bidder continues from the machine's clock when it is started")
    elif facts.doubt is not None or facts.rows_in_future or facts.files_in_future:
        typer.echo("if the machine's clock is right, stop the bidder and add --write")
