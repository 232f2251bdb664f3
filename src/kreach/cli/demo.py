"""`kreach demo`: measure a simulated campaign beside the truth that only the simulation knows."""

import json
from typing import Annotated, Any

import typer

__all__ = ["demo"]

_SHOWN_FREQUENCIES = 6
_BAR_WIDTH = 30


def demo(
    groups: Annotated[int, typer.Option(min=1, max=100_000, help="Groups of people.")] = 500,
    group_size: Annotated[int, typer.Option(min=1, max=1_000, help="People in a group (k).")] = 20,
    impressions: Annotated[int, typer.Option(min=0, max=5_000_000, help="Ads shown.")] = 15_000,
    cap: Annotated[int, typer.Option(min=1, max=1_000, help="Frequency cap.")] = 2,
    dispersion: Annotated[
        float, typer.Option(min=1e-3, help="How evenly people visit: small is uneven.")
    ] = 0.6,
    seed: Annotated[int, typer.Option(min=0, help="The same seed shows the same campaign.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Simulate a campaign on people hidden in groups, and measure its reach from groups alone.

    Example: kreach demo --group-size 50 --impressions 40000 --cap 3
    """
    import numpy as np  # noqa: PLC0415 - keeps `kreach --help` quick

    from kreach import Audience, measure  # noqa: PLC0415
    from kreach.lab.world import World, fly  # noqa: PLC0415

    flight = fly(World(groups, group_size, dispersion), impressions, np.random.default_rng(seed))
    sizes = np.full(groups, group_size)
    reports = {
        "uniform": measure(Audience.disjoint(sizes), flight.impressions_by_group, cap),
        "dispersed": measure(
            Audience.disjoint(sizes, dispersion=dispersion), flight.impressions_by_group, cap
        ),
    }
    document: dict[str, Any] = {
        "setting": {
            "groups": groups,
            "group_size": group_size,
            "people": groups * group_size,
            "impressions": impressions,
            "cap": cap,
            "dispersion": dispersion,
            "seed": seed,
        },
        "truth": {
            "reach": flight.true_reach(cap),
            "unique_reach": flight.true_reach(1),
            "over_exposed": flight.truly_over_exposed(cap),
            "frequency": flight.true_frequency(_SHOWN_FREQUENCIES).tolist(),
        },
        "measured": {
            name: {
                "reach": report.reach,
                "std": report.std,
                "interval": list(report.interval(0.95)),
                "bounds": list(report.bounds),
                "unique_reach": float(report.at_least(1)[0]),
                "over_exposed": report.over_exposed,
                "average_frequency": report.average_frequency,
                "frequency": report.frequency(_SHOWN_FREQUENCIES).tolist(),
                "basis": report.basis,
            }
            for name, report in reports.items()
        },
    }
    if as_json:
        typer.echo(json.dumps(document))
    else:
        _show(document)


def _show(document: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    setting, truth = document["setting"], document["truth"]
    console = Console(highlight=False)
    console.print(
        f"\n[bold]A campaign on {setting['people']:,} people nobody can identify[/bold]\n"
        f"{setting['groups']:,} groups of {setting['group_size']}, "
        f"{setting['impressions']:,} impressions, frequency cap {setting['cap']}. "
        f"People visit unevenly (dispersion {setting['dispersion']:g}).\n"
        "The ad system knows how many impressions each group had, and nothing else.\n"
    )
    table = Table(title_justify="left", pad_edge=False)
    table.add_column("what")
    names = {"dispersed": "kreach, one dispersion", "uniform": "the paper's uniform formula"}
    for title in (*names.values(), "truth (simulation only)"):
        table.add_column(title, justify="right")
    measured = [document["measured"][name] for name in names]

    def row(what: str, cells: list[str], true: int | str) -> None:
        table.add_row(what, *cells, f"{true:,}" if isinstance(true, int) else true)

    cap = setting["cap"]
    row(f"reach, counted up to {cap}", [f"{m['reach']:,.0f}" for m in measured], truth["reach"])
    row(
        "  95 % interval",
        [f"{m['interval'][0]:,.0f} to {m['interval'][1]:,.0f}" for m in measured],
        "",
    )
    row("  possible at all", [f"{m['bounds'][0]:,} to {m['bounds'][1]:,}" for m in measured], "")
    row("people reached", [f"{m['unique_reach']:,.0f}" for m in measured], truth["unique_reach"])
    row(
        f"saw it more than {cap} times",
        [f"{m['over_exposed']:,.0f}" for m in measured],
        truth["over_exposed"],
    )
    people = max(truth["unique_reach"], 1)
    row(
        "average frequency",
        [f"{m['average_frequency']:.2f}" for m in measured],
        f"{setting['impressions'] / people:.2f}",
    )
    console.print(table)
    _show_frequencies(console, document)


def _show_frequencies(console: Any, document: dict[str, Any]) -> None:
    truth = document["truth"]["frequency"]
    shown = document["measured"]["dispersed"]["frequency"]
    most = max(*truth, *shown, 1)
    console.print("\n[bold]How often people saw it[/bold] (measured, and the truth behind it)")
    for times, (people, true) in enumerate(zip(shown, truth, strict=True)):
        bar = "█" * round(_BAR_WIDTH * people / most)
        label = f"{times}+" if times == len(shown) - 1 else f"{times} "
        console.print(f"{label:>4} {bar:<{_BAR_WIDTH}} {people:>9,.0f}   truth {true:>9,}")
    console.print()
