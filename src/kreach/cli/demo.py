"""`kreach demo`: the whole system on this machine, with simulated people."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kreach.extras import require_extra

if TYPE_CHECKING:
    from kreach.lab.demo import CampaignResult, Demo

__all__ = ["demo"]

_BAR_WIDTH = 30


def demo(
    folder: Annotated[
        Path, typer.Option(help="Data folder; a demo that is already there continues.")
    ] = Path("kreach-demo"),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete an earlier demo in the folder first.")
    ] = False,
    people: Annotated[int, typer.Option(min=400, max=1_000_000, help="Number of people.")] = 10_000,
    group_size: Annotated[int, typer.Option(min=2, max=1_000, help="People per group (k).")] = 20,
    days: Annotated[float, typer.Option(help="Flight length, in simulated days.")] = 7.0,
    minutes: Annotated[float, typer.Option(help="Flight length, in real minutes.")] = 4.0,
    visits: Annotated[float, typer.Option(help="Visits per person during the flight.")] = 6.0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the people.")] = 1,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the console.")] = 8400,
    host: Annotated[
        str, typer.Option(help="Address of the console; 0.0.0.0 in a container.")
    ] = "127.0.0.1",
    headless: Annotated[
        bool, typer.Option("--headless", help="No console: print the final report and exit.")
    ] = False,
    tour: Annotated[
        bool, typer.Option("--tour", help="Tell step by step what happens, with the numbers.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document; implies --headless.")
    ] = False,
) -> None:
    """Run publisher, market, gateway, bidder, reporting and console on this machine.

    Simulated people visit a simulated site; the services are the real ones. The reach that they
    report is shown next to the truth, which only the simulation knows. Three campaigns run for a
    week; then visitors keep coming, so campaigns that you create in the console are delivered.
    Ctrl-C stops the demo; the next start continues it.

    Examples:

    kreach demo --minutes 2 --group-size 50

    kreach demo --tour
    """
    headless = headless or as_json
    require_extra("kreach demo", "serve" if headless else "console")
    from kreach.lab.demo import Demo, DemoOptions

    options = DemoOptions(
        folder.absolute(),
        people,
        group_size,
        days,
        minutes,
        visits,
        seed=seed,
        console_port=None if headless else port,
        console_host=host,
    )

    def say(text: str) -> None:
        if not as_json:
            typer.echo(text, err=headless)

    running = Demo(options, say)
    running.check_port()
    try:
        if running.prepare(fresh=fresh):
            say("continuing the earlier demo (--fresh starts over)")
        addresses = running.start()
        _say_addresses(running, addresses, say)
        results, attack = _run(running, addresses, say if tour else None, quiet=headless)
    finally:
        running.close()
    if as_json:
        typer.echo(json.dumps({**_document(running, results), "attack": attack}))
    elif headless:
        _print_final(running, results)
    else:
        say("The demo has stopped. The next start continues it; --fresh starts over.")


def _say_addresses(demo: "Demo", addresses: dict[str, str], say: "Callable[[str], None]") -> None:
    """Where to look, at once: also where nobody watches a terminal."""
    if "console" in addresses:
        say(f"console: {addresses['console']}")
        say(f"the advertiser's: {addresses['advertiser_console']}; sign in with the key of acme")
    say(f"reporting: {addresses['reporting']}; key of the advertiser acme: {demo.keys.advertiser}")


def _run(
    demo: "Demo",
    addresses: dict[str, str],
    tell: "Callable[[str], None] | None",
    *,
    quiet: bool,
) -> "tuple[list[CampaignResult], dict[str, Any] | None]":
    """Run until the flights end (with a console: until Ctrl-C).

    The last results, and what an attack found.
    """
    import asyncio

    from kreach.lab.demo_tour import Tour

    latest: list[CampaignResult] = []
    attack: list[dict[str, Any]] = []

    async def drive() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await demo.create_campaigns()
        with _live_table(demo, addresses, quiet=quiet or tell is not None) as show:

            def update(results: "list[CampaignResult]") -> None:
                latest[:] = results
                show(results)

            telling = None if tell is None else asyncio.create_task(Tour(demo, tell).run(stop))
            await demo.run(stop, update)
            if telling is not None:
                await telling
            if quiet and not stop.is_set():
                attack.append((await demo.attack()).to_dict())

    asyncio.run(drive())
    return latest, attack[0] if attack else None


@contextmanager
def _live_table(
    demo: "Demo", addresses: dict[str, str], *, quiet: bool
) -> "Iterator[Callable[[list[CampaignResult]], None]]":
    """A table on the terminal that the yielded function updates; with `quiet`, none."""
    if quiet:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    if not console.is_terminal:
        yield _at_the_end(demo, addresses)
        return
    with Live(console=console, refresh_per_second=4) as live:
        yield lambda results: live.update(_table(demo, results, addresses))


def _at_the_end(
    demo: "Demo", addresses: dict[str, str]
) -> "Callable[[list[CampaignResult]], None]":
    """Without a terminal: one table, when the flights are over."""
    printed: list[bool] = []

    def show(results: "list[CampaignResult]") -> None:
        if demo.progress()[0] >= 1.0 and not printed:
            printed.append(True)
            _console().print(_table(demo, results, addresses))

    return show


def _table(demo: "Demo", results: list["CampaignResult"], addresses: dict[str, str]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table

    options = demo.options
    share, now = demo.progress()
    bar = "█" * round(_BAR_WIDTH * share) + "░" * (_BAR_WIDTH - round(_BAR_WIDTH * share))
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("campaign", no_wrap=True)
    for name in ("spend", "budget", "cap", "reach", "95 %", "truth", "over", "truth"):
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        low, high = result.interval
        table.add_row(
            result.campaign,
            f"{result.spend:,.2f}",
            f"{result.budget:,.2f}",
            str(result.cap),
            f"{result.reach:,.0f}",
            f"{low:,.0f}-{high:,.0f}",
            f"[dim]{result.true_reach:,}[/dim]",
            f"{result.over_exposed:,.0f}",
            f"[dim]{result.true_over_exposed:,}[/dim]",
        )
    header = [
        f"[bold]{options.people:,} people in groups of {options.group_size}[/bold]; "
        "the ad system sees only groups",
        f"{bar} {now:%a %d %b %H:%M} UTC, {options.speed:,.0f}x real time",
    ]
    footer = [
        "[dim]reach: impressions within the cap; over: people with more impressions.[/dim]",
        "[dim]truth: known to the simulation, not to the ad system.[/dim]",
        addresses.get("console") or addresses.get("reporting", "") + "/v1/campaigns",
    ]
    if "console" in addresses and addresses["console"].startswith("http"):
        footer.append(f"{addresses['advertiser_console']}: sign in with the key of acme")
        if share >= 1.0:
            footer.append(
                "The flights are over. Visitors keep coming: new campaigns are delivered."
            )
        footer.append("Ctrl-C stops the demo; the next start continues it.")
    return Group(*header, table, *footer)


def _print_final(demo: "Demo", results: list["CampaignResult"]) -> None:
    _console().print(_table(demo, results, {"console": f"Data: {demo.options.folder}"}))


def _console() -> Any:
    from kreach.cli.common import table_console

    return table_console(120)  # a file has room for the whole table


def _document(demo: "Demo", results: list["CampaignResult"]) -> dict[str, Any]:
    from dataclasses import asdict

    from kreach.boundary.times import iso_text

    share, now = demo.progress()
    return {
        "people": demo.options.people,
        "group_size": demo.options.group_size,
        "share_of_flight": share,
        "now": iso_text(now),
        "campaigns": [asdict(result) for result in results],
    }
