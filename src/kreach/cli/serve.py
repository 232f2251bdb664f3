"""`kreach serve`: one service, for deployment."""

import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["serve"]

serve = typer.Typer(help="Run one service until it is told to stop (Ctrl-C or SIGTERM).")

Config = Annotated[
    Path | None,
    typer.Option("--config", help="Settings (TOML); KREACH_SECTION_FIELD of the environment wins."),
]
CheckOnly = Annotated[
    bool, typer.Option("--check-config", help="Check settings and what they name, then leave.")
]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")]
Json = Annotated[bool, typer.Option("--json", help="With --check-config: one JSON document.")]


def _sections(config: Path | None) -> tuple[dict[str, Any], Path]:
    from kreach.service.config import read_file

    base = Path.cwd() if config is None else config.absolute().parent
    return read_file(config), base


def _checked(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"ok": True, **found}))
        return
    for name, value in found.items():
        typer.echo(f"{name}: {value}")
    typer.echo("settings are good")


@serve.command()
def bidder(
    config: Config = None,
    check_config: CheckOnly = False,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Answer OpenRTB bid requests and the notices that follow them.

    Example: kreach serve bidder --config kreach.toml
    """
    import msgspec

    from kreach.adsystem.bidserver.app import bidder_app_with_fast_path
    from kreach.adsystem.bidserver.service import BidderState
    from kreach.adsystem.check import check_adsystem
    from kreach.adsystem.settings import AdSystemSettings, BidderSettings, RedisSettings
    from kreach.adsystem.store_layout import bidder_store
    from kreach.service.clock import ClockSettings
    from kreach.service.config import load_settings
    from kreach.service.logs import Log
    from kreach.service.metrics import Metrics
    from kreach.service.run import bind
    from kreach.service.run import serve as run

    document, base = _sections(config)
    shared = load_settings(AdSystemSettings, "adsystem", document, base=base)
    settings = load_settings(BidderSettings, "bidder", document, base=base)
    redis = load_settings(RedisSettings, "redis", document, base=base)
    redis.check_name(settings.name)
    shared = bidder_store(shared, settings.name)
    if port is not None:
        settings = msgspec.structs.replace(settings, port=port)
    if check_config:
        _checked(check_adsystem(shared), as_json)
        return
    listening = bind(settings.host, settings.port)
    if settings.public_url is None:
        settings = msgspec.structs.replace(settings, port=listening.getsockname()[1])
    log = Log("bidder")

    def again() -> AdSystemSettings:
        return load_settings(AdSystemSettings, "adsystem", _sections(config)[0], base=base)

    clock = load_settings(ClockSettings, "clock", document, base=base)
    state = BidderState(shared, settings, log, redis=redis, clock=clock.steady, reload=again)
    sys.setswitchinterval(0.0002)  # plans are made beside requests, which must not wait for them
    site, hot = bidder_app_with_fast_path(state, Metrics("bidder"))
    run(site, log, listening, {signal.SIGHUP: state.reload}, hot)


@serve.command()
def reporting(
    config: Config = None,
    check_config: CheckOnly = False,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Manage campaigns and report their reach over HTTP.

    Example: kreach serve reporting --config kreach.toml
    """
    import msgspec

    from kreach.adsystem.access.keys import count_keys
    from kreach.adsystem.api.app import reporting_app
    from kreach.adsystem.check import check_adsystem, check_closing
    from kreach.adsystem.reports.noisy import check_noise
    from kreach.adsystem.settings import (
        AdSystemSettings,
        BidderSettings,
        GuardSettings,
        NoiseSettings,
        RedisSettings,
        ReportingSettings,
    )
    from kreach.adsystem.sharing.campaign_feed import CampaignFeed
    from kreach.service.clock import ClockSettings
    from kreach.service.config import load_settings
    from kreach.service.logs import Log
    from kreach.service.run import bind
    from kreach.service.run import serve as run

    document, base = _sections(config)
    shared = load_settings(AdSystemSettings, "adsystem", document, base=base)
    settings = load_settings(ReportingSettings, "reporting", document, base=base)
    guard = load_settings(GuardSettings, "guard", document, base=base)
    noise = load_settings(NoiseSettings, "noise", document, base=base)
    if settings.keys and "bidder" in document:  # there are advertisers
        check_closing(load_settings(BidderSettings, "bidder", document, base=base), guard, noise)
    if port is not None:
        settings = msgspec.structs.replace(settings, port=port)
    if check_config:
        keys = count_keys(shared.store) if settings.keys else "none asked for"
        found = check_adsystem(shared, guard) | check_noise(noise, shared.store) | {"keys": keys}
        _checked(found, as_json)
        return
    log = Log("reporting")
    redis = load_settings(RedisSettings, "redis", document, base=base)
    if redis.url is not None:
        CampaignFeed(shared.store, redis, log).start()

    async def told_to_reload() -> None:
        log.warning("restart to take up changed settings")

    clock = load_settings(ClockSettings, "clock", document, base=base)
    app = reporting_app(shared, settings, log, clock.steady(), guard, noise)
    run(app, log, bind(settings.host, settings.port), {signal.SIGHUP: told_to_reload})


@serve.command(short_help="Tell which group a visitor is of: the publisher's side.")
def gateway(
    config: Config = None,
    check_config: CheckOnly = False,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Tell which group a visitor is of: the publisher's side, never reachable by advertisers.

    Example: kreach serve gateway --config publisher.toml
    """
    import msgspec

    from kreach.publisher.gateway import GatewaySettings, check, gateway_site
    from kreach.service.config import load_settings
    from kreach.service.logs import Log
    from kreach.service.run import bind
    from kreach.service.run import serve as run

    document, base = _sections(config)
    settings = load_settings(GatewaySettings, "gateway", document, base=base)
    if port is not None:
        settings = msgspec.structs.replace(settings, port=port)
    if check_config:
        _checked(check(settings), as_json)
        return
    log = Log("gateway")
    run(gateway_site(settings, log), log, bind(settings.host, settings.port))


@serve.command(short_help="Show campaigns, plans and privacy in a browser.")
def console(
    config: Config = None,
    check_config: CheckOnly = False,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Show campaigns, plans and privacy as pages for a browser; talks to reporting only.

    Example: kreach serve console --config kreach.toml
    """
    import msgspec

    from kreach.adsystem.console.app import check_console, console_app
    from kreach.adsystem.settings import ConsoleSettings
    from kreach.service.clock import ClockSettings
    from kreach.service.config import load_settings
    from kreach.service.logs import Log
    from kreach.service.run import bind
    from kreach.service.run import serve as run

    document, base = _sections(config)
    settings = load_settings(ConsoleSettings, "console", document, base=base)
    clock = load_settings(ClockSettings, "clock", document, base=base)
    if port is not None:
        settings = msgspec.structs.replace(settings, port=port)
    if check_config:
        _checked(check_console(settings), as_json)
        return
    log = Log("console")
    listening = bind(settings.host, settings.port)
    run(console_app(settings, log, clock.steady(), clock.speed), log, listening)
