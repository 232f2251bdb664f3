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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document; implies --headless.")
    ] = False,
) -> None:
    """Run publisher, market, gateway, bidder, reporting and console on this machine.

    Simulated people visit a simulated site; the services are the real ones. The reach that they
    report is shown next to the truth, which only the simulation knows. Ctrl-C stops the demo; the
    next start continues it.

    Example: kreach demo --minutes 2 --group-size 50
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
        results = _run(running, running.start(), quiet=headless)
    finally:
        running.close()
    if as_json:
        typer.echo(json.dumps(_document(running, results)))
    elif headless:
        _print_final(running, results)


def _run(demo: "Demo", addresses: dict[str, str], *, quiet: bool) -> list["CampaignResult"]:
    """Run until the flights end (with a console: until Ctrl-C). The last results."""
    import asyncio

    latest: list[CampaignResult] = []

    async def drive() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await demo.create_campaigns()
        with _live_table(demo, addresses, quiet=quiet) as show:

            def update(results: "list[CampaignResult]") -> None:
                latest[:] = results
                show(results)

            await demo.run(stop, update)
            if not quiet and not stop.is_set():
                await stop.wait()  # the flights are over; keep the console up

    asyncio.run(drive())
    return latest


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

    with Live(console=Console(highlight=False), refresh_per_second=4) as live:
        yield lambda results: live.update(_table(demo, results, addresses))


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
        footer.append("Ctrl-C stops the demo; the next start continues it.")
    return Group(*header, table, *footer)


def _print_final(demo: "Demo", results: list["CampaignResult"]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:  # a file has room for the whole table
        console = Console(highlight=False, width=max(console.width, 120))
    console.print(_table(demo, results, {"console": f"Data: {demo.options.folder}"}))


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
