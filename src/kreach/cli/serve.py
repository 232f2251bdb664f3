"""`kreach serve`: run one service, for deployment."""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kreach.cli.common import ConfigFile
from kreach.cli.released import ReleaseConfig, checked_adsystem, reload_of
from kreach.extras import require_extra

if TYPE_CHECKING:
    from kreach.service.connections import ServerSettings
    from kreach.service.tracing import Tracer

__all__ = ["serve"]

serve = typer.Typer(help="Run one service until Ctrl-C or SIGTERM.")

Config = Annotated[
    Path | None,
    typer.Option("--config", help="Settings (TOML); KREACH_SECTION_FIELD variables override it."),
]
CheckOnly = Annotated[bool, typer.Option("--check-config", help="Validate configuration and exit.")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")]
Json = Annotated[bool, typer.Option("--json", help="With --check-config: print one JSON document.")]


def _tracer(file: ConfigFile, service: str) -> "Tracer | None":
    """What traces requests, or None: it is off unless settings or OTEL_ variables turn it on."""
    from kreach.service.tracing import TracingSettings, start_tracing

    return start_tracing(service, file.load(TracingSettings, "tracing"))


def _check_edges(file: ConfigFile, limits: "ServerSettings") -> dict[str, str]:
    """What connections and traces use."""
    from kreach.service.tls import ServerCertificate
    from kreach.service.tracing import TracingSettings

    ServerCertificate.of(limits)  # which reads its files
    tracing = file.load(TracingSettings, "tracing")
    share = tracing.share(os.environ) if tracing.enabled(os.environ) else 0.0
    return {"scheme": limits.scheme, "traced_share": f"{share:g}"}


def _show_check(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"ok": True, **facts}))
        return
    for name, value in facts.items():
        typer.echo(f"{name}: {value}")
    typer.echo("configuration is valid")


@serve.command()
def bidder(
    config: Config = None,
    check_config: CheckOnly = False,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Answer OpenRTB bid requests and auction notices.

    Example: kreach serve bidder --config kreach.toml
    """
    require_extra("kreach serve", "serve")
    import msgspec

    from kreach.adsystem.bidserver.app import bidder_app_with_fast_path
    from kreach.adsystem.bidserver.profiles import profiles_by_exchange
    from kreach.adsystem.bidserver.service import BidderState
    from kreach.adsystem.check import check_adsystem
    from kreach.adsystem.settings import BidderSettings, RedisSettings
    from kreach.adsystem.shipping.check import check_shipping
    from kreach.adsystem.shipping.settings import ShippingSettings
    from kreach.adsystem.store_layout import bidder_store
    from kreach.service.clock import ClockSettings
    from kreach.service.connections import ServerSettings
    from kreach.service.logs import Log
    from kreach.service.metrics import Metrics
    from kreach.service.run import bind
    from kreach.service.run import serve as run

    file = ConfigFile(config)
    settings = file.load(BidderSettings, "bidder")
    limits = file.load(ServerSettings, "server")
    redis = file.load(RedisSettings, "redis")
    redis.check_name(settings.name)
    shipping = file.load(ShippingSettings, "shipping")
    shipping.check_bidder(settings.name, settings.token_key)
    if port is not None:
        settings = msgspec.structs.replace(settings, port=port)
    if check_config:
        profiles = {"profiles": sorted(profiles_by_exchange(settings))[1:]}  # "" has no name
        with checked_adsystem(file) as shared:
            facts = check_adsystem(bidder_store(shared, settings.name)) | profiles
        facts |= _check_edges(file, limits) | check_shipping(shipping)
        _show_check(facts, as_json)
        return
    released = ReleaseConfig.read(file)
    shared = bidder_store(released.fetch(), settings.name)
    tracer = _tracer(file, "bidder")
    listener = bind(settings.host, settings.port)
    if settings.public_url is None:
        settings = msgspec.structs.replace(settings, port=listener.getsockname()[1])
    if settings.public_url is None and limits.scheme == "https":
        own = settings.notices.replace("http://", "https://", 1)
        settings = msgspec.structs.replace(settings, public_url=own)
    log = Log("bidder")

    times = file.load(ClockSettings, "clock")
    times.check_host(settings.host)
    clock = times.steady
    state = BidderState(
        shared,
        settings,
        log,
        redis=redis,
        shipping=shipping,
        clock=clock,
    )
    reload = reload_of(config, released, log)
    sys.setswitchinterval(0.0002)  # planning threads must not hold up bid requests
    site, hot = bidder_app_with_fast_path(state, Metrics("bidder"), reload)
    run(site, log, listener, reload, hot, limits, tracer=tracer)


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
    require_extra("kreach serve", "serve")
    import msgspec

    from kreach.adsystem.access.keys import count_keys
    from kreach.adsystem.api.app import reporting_app
    from kreach.adsystem.check import check_adsystem, check_closing
    from kreach.adsystem.disclosure.noise.policy import check_noise
    from kreach.adsystem.settings import (
        BidderSettings,
        GuardSettings,
        NoiseSettings,
        RedisSettings,
        ReportingSettings,
    )
    from kreach.adsystem.sharing.campaign_feed import CampaignFeed
    from kreach.adsystem.shipping.check import check_shipping
    from kreach.adsystem.shipping.mirrors import LogMirrors
    from kreach.adsystem.shipping.settings import ShippingSettings
    from kreach.service.clock import ClockSettings
    from kreach.service.connections import ServerSettings
    from kreach.service.logs import Log
    from kreach.service.run import bind
    from kreach.service.run import serve as run

    file = ConfigFile(config)
    settings = file.load(ReportingSettings, "reporting")
    limits = file.load(ServerSettings, "server")
    guard = file.load(GuardSettings, "guard")
    noise = file.load(NoiseSettings, "noise")
    if settings.keys and "bidder" in file.document:  # there are advertisers
        check_closing(file.load(BidderSettings, "bidder"), guard, noise)
    shipping = file.load(ShippingSettings, "shipping")
    if port is not None:
        settings = msgspec.structs.replace(settings, port=port)
    if check_config:
        with checked_adsystem(file) as shared:
            facts = check_adsystem(shared, guard) | check_noise(noise, shared.store)
            keys = count_keys(shared.store) if settings.keys else "not required"
        facts |= {"keys": keys} | _check_edges(file, limits) | check_shipping(shipping)
        _show_check(facts, as_json)
        return
    released = ReleaseConfig.read(file)
    shared = released.fetch()
    log = Log("reporting")
    tracer = _tracer(file, "reporting")
    redis = file.load(RedisSettings, "redis")
    if redis.url is not None:
        CampaignFeed(shared.store, redis, log).start()

    reload = reload_of(config, released, log, partial(check_adsystem, guard=guard))
    times = file.load(ClockSettings, "clock")
    times.check_host(settings.host)
    mirrors = None
    if shipping.enabled:
        names = shipping.bidders or redis.bidders
        mirrors = LogMirrors(shared.store, names, shipping, log)
    app = reporting_app(
        shared, settings, log, times.steady(), guard, noise, redis.bidders, mirrors, reload
    )
    listener = bind(settings.host, settings.port)
    run(app, log, listener, reload, limits=limits, tracer=tracer)


@serve.command(short_help="Look up the group of a visitor (publisher side).")
def gateway(
    config: Config = None,
    check_config: CheckOnly = False,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Look up the group of a visitor. Publisher side: advertisers must not reach this service.

    Example: kreach serve gateway --config publisher.toml
    """
    require_extra("kreach serve", "serve")
    import msgspec

    from kreach.publisher.gateway import GatewaySettings, check, gateway_apps
    from kreach.service.clock import ClockSettings
    from kreach.service.connections import ServerSettings
    from kreach.service.logs import Log
    from kreach.service.run import bind
    from kreach.service.run import serve as run

    file = ConfigFile(config)
    settings = file.load(GatewaySettings, "gateway")
    limits = file.load(ServerSettings, "server")
    if port is not None:
        settings = msgspec.structs.replace(settings, port=port)
    if check_config:
        _show_check(check(settings) | _check_edges(file, limits), as_json)
        return
    log = Log("gateway")
    tracer = _tracer(file, "gateway")
    simulated = file.load(ClockSettings, "clock")
    clock = None if simulated.start_file is None else simulated.steady()
    app, browser = gateway_apps(settings, log, clock=clock)
    listener, also = bind(settings.host, settings.port), None
    if browser is not None and settings.browser is not None:
        also = (bind(settings.browser.host, settings.browser.port), browser)
    run(app, log, listener, limits=limits, also=also, tracer=tracer)


@serve.command(short_help="Serve the web console.")
def console(
    config: Config = None,
    check_config: CheckOnly = False,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Serve the web console: campaigns, plans and privacy. It reads only the reporting API.

    Example: kreach serve console --config kreach.toml
    """
    require_extra("kreach serve console", "console")
    import msgspec

    from kreach.adsystem.console.app import check_console, console_app
    from kreach.adsystem.settings import ConsoleSettings
    from kreach.service.clock import ClockSettings
    from kreach.service.connections import ServerSettings
    from kreach.service.logs import Log
    from kreach.service.run import bind
    from kreach.service.run import serve as run

    file = ConfigFile(config)
    settings = file.load(ConsoleSettings, "console")
    limits = file.load(ServerSettings, "server")
    clock = file.load(ClockSettings, "clock")
    clock.check_host(settings.host)
    if port is not None:
        settings = msgspec.structs.replace(settings, port=port)
    if check_config:
        _show_check(check_console(settings) | _check_edges(file, limits), as_json)
        return
    log = Log("console")
    tracer = _tracer(file, "console")
    listener = bind(settings.host, settings.port)
    app = console_app(settings, log, clock.steady(), clock.speed)
    run(app, log, listener, limits=limits, tracer=tracer)
