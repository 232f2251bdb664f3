"""`kreach repair`: put a store right after a fault."""

import json
import time
from typing import Annotated

import typer

from kreach.cli.common import ConfigFile, Json
from kreach.cli.serve import Config
from kreach.errors import KreachError

__all__ = ["repair"]

repair = typer.Typer(help="Repair a store after a fault.")


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


@repair.command()
def bidder(
    config: Config = None,
    name: Annotated[str | None, typer.Option(help="The bidder; default: name of [bidder].")] = None,
    as_json: Json = False,
) -> None:
    """Rebuild the folder of a bidder whose disk is lost, from the stream and shipped files.

    The bidder must not run anywhere. What it spent is counted from stream and files, and what Redis
    has set aside for it stays set aside until its last bids have expired. Example:

    kreach repair bidder --config kreach.toml --name b1
    """
    from kreach.adsystem.ledger.journal import FILE
    from kreach.adsystem.settings import AdSystemSettings, BidderSettings, RedisSettings
    from kreach.adsystem.sharing.recovery import adopt_shared_state
    from kreach.adsystem.sharing.redis_client import RedisUnavailable
    from kreach.adsystem.sharing.redis_pool import RedisRestarted
    from kreach.adsystem.shipping.rebuild import rebuild_bidder
    from kreach.adsystem.shipping.settings import ShippingSettings
    from kreach.adsystem.store_layout import bidder_store
    from kreach.service.logs import Log

    file = ConfigFile(config)
    settings = file.load(BidderSettings, "bidder")
    shipping, redis = file.load(ShippingSettings, "shipping"), file.load(RedisSettings, "redis")
    name = name or settings.name
    redis.check_name(name)
    if name is None or not shipping.enabled:
        raise KreachError("[shipping] and the name of a bidder are required: nothing was shipped")
    folder = bidder_store(file.load(AdSystemSettings, "adsystem"), name).store
    facts = rebuild_bidder(folder, name, shipping)
    try:
        adopted = adopt_shared_state(name, folder, redis, Log("repair"))
    except (RedisUnavailable, RedisRestarted, KreachError) as error:
        (folder / FILE).rename(folder / f"{FILE}.incomplete")  # no bidder must start from it
        raise KreachError(f"bidder {name} is not rebuilt: {error}") from None
    document = {**facts.document(), "adopted_micros": adopted}
    if as_json:
        typer.echo(json.dumps(document))
        return
    for field, value in document.items():
        typer.echo(f"{field.replace('_', ' ')}: {value if value or value == 0 else '-'}")
    typer.echo(f"rebuilt: start bidder {name} with this store")
