"""`kreach demo`: the whole system on this machine, on people that are made up."""

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from kreach.lab.demo import Demo, Standing

__all__ = ["demo"]

_BAR_WIDTH = 30


def demo(
    folder: Annotated[
        Path, typer.Option(help="Where everything is kept; a second start goes on from there.")
    ] = Path("kreach-demo"),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, and forget an earlier one.")
    ] = False,
    people: Annotated[int, typer.Option(min=400, max=1_000_000, help="People.")] = 10_000,
    group_size: Annotated[int, typer.Option(min=2, max=1_000, help="People in a group (k).")] = 20,
    days: Annotated[float, typer.Option(help="Length of the campaigns' flights.")] = 7.0,
    minutes: Annotated[float, typer.Option(help="How long that takes to watch.")] = 4.0,
    visits: Annotated[float, typer.Option(help="Visits per person in the flight.")] = 6.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same people.")] = 1,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the console.")] = 8400,
    headless: Annotated[
        bool, typer.Option("--headless", help="No console: print the final report and leave.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document; implies --headless.")
    ] = False,
) -> None:
    """Run a publisher, a market, gateway, bidder, reporting and console, all on this machine.

    Made-up people visit a made-up site; the services are the real ones. What they say about reach
    stands beside the truth, which only the simulation knows. Ctrl-C ends it; the next start goes on
    from there.

    Example: kreach demo --minutes 2 --group-size 50
    """
    from kreach.lab.demo import Demo, DemoOptions

    alone = headless or as_json
    options = DemoOptions(
        folder.absolute(),
        people,
        group_size,
        days,
        minutes,
        visits,
        seed=seed,
        console_port=None if alone else port,
    )

    def say(text: str) -> None:
        if not as_json:
            typer.echo(text, err=alone)

    made = Demo(options, say)
    made.check_port()
    try:
        if made.prepare(fresh=fresh):
            say("going on with the earlier demonstration (begin anew with --fresh)")
        addresses = made.start()
        standings = _run(made, addresses, quiet=alone)
    finally:
        made.close()
    if as_json:
        typer.echo(json.dumps(_document(made, standings)))
    elif alone:
        _show(made, standings)


def _run(made: "Demo", addresses: dict[str, str], *, quiet: bool) -> list["Standing"]:
    import asyncio

    last: list[list[Standing]] = [[]]

    async def drive() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        await made.campaigns()
        with _screen(made, addresses, quiet=quiet) as shown:

            def every(standings: "list[Standing]") -> None:
                last[0] = standings
                shown(standings)

            await made.run(stop, every)
            if not quiet and not stop.is_set():
                await stop.wait()  # the flights are over, there is still much to look at

    asyncio.run(drive())
    return last[0]


class _screen:  # noqa: N801 - used like a function
    """The live summary of the terminal; nothing if nobody looks."""

    def __init__(self, made: "Demo", addresses: dict[str, str], *, quiet: bool) -> None:
        self._made, self._addresses, self._quiet = made, addresses, quiet

    def __enter__(self) -> Any:
        if self._quiet:
            return lambda standings: None
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(highlight=False), refresh_per_second=4)
        self._live.__enter__()
        return lambda standings: self._live.update(_table(self._made, standings, self._addresses))

    def __exit__(self, *error: Any) -> None:
        if not self._quiet:
            self._live.__exit__(*error)


def _table(made: "Demo", standings: list["Standing"], addresses: dict[str, str]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table

    options = made.options
    share, now = made.progress()
    bar = "█" * round(_BAR_WIDTH * share) + "░" * (_BAR_WIDTH - round(_BAR_WIDTH * share))
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("campaign", no_wrap=True)
    for name in ("spent", "of", "cap", "reach", "95 %", "truth", "over", "truth"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in standings:
        low, high = one.interval
        table.add_row(
            one.campaign,
            f"{one.spend:,.2f}",
            f"{one.budget:,.2f}",
            str(one.cap),
            f"{one.reach:,.0f}",
            f"{low:,.0f}-{high:,.0f}",
            f"[dim]{one.true_reach:,}[/dim]",
            f"{one.over_exposed:,.0f}",
            f"[dim]{one.truly_over_exposed:,}[/dim]",
        )
    where = addresses.get("console") or addresses.get("reporting", "") + "/v1/campaigns"
    head = [
        f"[bold]{options.people:,} people in groups of {options.group_size}[/bold], "
        "whom the ad system cannot tell apart",
        f"{bar} {now:%a %d %b %H:%M} UTC, {options.speed:,.0f} times as fast",
    ]
    foot = [
        "[dim]reach: impressions that count, at most `cap` a person; over: people with more.[/dim]",
        "[dim]The truth is the simulation's: the ad system does not know it.[/dim]",
        where,
    ]
    if "console" in addresses and addresses["console"].startswith("http"):
        foot.append("Ctrl-C ends it; the next start goes on from there.")
    return Group(*head, table, *foot)


def _show(made: "Demo", standings: list["Standing"]) -> None:
    from rich.console import Console

    kept = {"console": f"Kept in {made.options.folder}."}
    shown = Console(highlight=False)
    if not shown.is_terminal:  # a file has room for every line
        shown = Console(highlight=False, width=max(shown.width, 120))
    shown.print(_table(made, standings, kept))


def _document(made: "Demo", standings: list["Standing"]) -> dict[str, Any]:
    from dataclasses import asdict

    from kreach.boundary.times import iso_text

    share, now = made.progress()
    return {
        "people": made.options.people,
        "group_size": made.options.group_size,
        "share_of_flight": share,
        "now": iso_text(now),
        "campaigns": [asdict(one) for one in standings],
    }
