"""What anonymity costs on the user's logs: reach, reach per spend and measurement error by k."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isinf
from typing import Any

import numpy as np

from kreach.lab.buyers import buy, buy_at_k1, buy_with_memory, full_reach_cost
from kreach.lab.evaluate import Row, StudyOptions, Task, site_of, tasks_of
from kreach.lab.exhibits import COLOURS, MUTED, Exhibit, new_figure
from kreach.lab.site import Site
from kreach.lab.trials import Progress, generator_for, run_trials, silent

__all__ = ["advice_of", "exhibits_of", "memory_name", "summary_of", "tradeoff"]

_BUDGET_SHARE, _WIN_SHARE, _CAP = 0.2, 0.1, 1
_BUYERS = ("uniform", "planning_visitors")
_ESTIMATORS = ("uniform", "dispersed", "model")


@dataclass(frozen=True, eq=False)
class _Cell:
    task: Task
    group_size: int
    memory_hours: tuple[float, ...]


def tradeoff(
    options: StudyOptions,
    group_sizes: Sequence[int],
    progress: Progress = silent,
    *,
    memory_hours: Sequence[float] = (),
) -> tuple[Site, list[Row]]:
    """A row for each campaign, k, way of grouping and buyer or estimator.

    For each of `memory_hours` our buyer also buys beside a gateway that drops repeats for as long
    (infinite: the flight), where there is a visit model: the buyer `memory_24h`.
    """
    progress("reading visits and prices")
    site = site_of(options)
    cells = []
    for size in group_sizes:
        tasks = tasks_of(replace(options, group_size=size), site, progress, replays=False)
        cells += [_Cell(task, size, tuple(memory_hours)) for task in tasks]
    results = run_trials(
        _study_cell, cells, processes=options.processes, progress=progress, what="settings"
    )
    return site, [row for rows in results for row in rows]


def _study_cell(cell: _Cell) -> list[Row]:
    task = replace(cell.task, group_size=cell.group_size)
    campaign = task.campaign
    budget = _BUDGET_SHARE * full_reach_cost(campaign)
    reference = buy_at_k1(campaign, budget, _CAP)
    generator = generator_for(task.seed, 3, task.at)
    won = np.flatnonzero(generator.random(len(campaign.person)) < _WIN_SHARE)
    reached = max(len(np.unique(campaign.person[won])), 1)
    rows: list[Row] = []
    for strategy in task.strategies:
        grouped = task.grouped(strategy)
        base = {"campaign": campaign.name, "group_size": cell.group_size, "strategy": strategy}
        outcomes = {name: buy(name, grouped, budget, _CAP) for name in _BUYERS}
        if grouped.model is not None:
            for hours in cell.memory_hours:
                outcomes[memory_name(hours)] = buy_with_memory(grouped, budget, _CAP, hours)
        for name, outcome in outcomes.items():
            base_roas = reference.reach / max(reference.spend, 1e-12)
            per_spend = outcome.reach / max(outcome.spend, 1e-12)
            rows.append(
                base
                | {
                    "kind": "reach",
                    "approach": name,
                    "relative_reach": outcome.reach / max(reference.reach, 1),
                    "relative_roas": per_spend / base_roas if base_roas > 0.0 else 0.0,
                }
            )
        for name in _ESTIMATORS:
            if name in grouped.applicable_approaches():
                error = grouped.measure_reach(name, won) / reached - 1.0
                rows.append(base | {"kind": "error", "approach": name, "error": error})
    return rows


def memory_name(hours: float) -> str:
    """The buyer beside a gateway that remembers for so many hours."""
    return "memory_flight" if isinf(hours) else f"memory_{hours:g}h"


def _cells(rows: Sequence[Row], kind: str, value: str) -> dict[tuple[str, str, int], list[float]]:
    cells: dict[tuple[str, str, int], list[float]] = {}
    for row in rows:
        if row["kind"] == kind:
            key = (str(row["strategy"]), str(row["approach"]), int(row["group_size"]))
            cells.setdefault(key, []).append(float(row[value]))
    return cells


def _band(values: Sequence[float]) -> dict[str, float]:
    return {
        "mean": float(np.mean(values)),
        "low": float(np.min(values)),
        "high": float(np.max(values)),
    }


def summary_of(options: StudyOptions, site: Site, rows: Sequence[Row]) -> dict[str, Any]:
    """For each way of grouping, approach and k: mean, lowest and highest over campaigns."""
    summary: dict[str, Any] = {
        "setting": {
            "people": site.people.count,
            "flight_requests": len(site.after.user),
            "campaigns": options.campaigns,
            "campaign_size": options.campaign_size,
            "budget": f"{_BUDGET_SHARE:.0%} of what reaching everybody costs at k = 1",
            "win_share_of_errors": _WIN_SHARE,
            "cap": _CAP,
            "seed": options.seed,
        }
    }
    wanted = (
        ("relative_reach", "reach", "relative_reach"),
        ("relative_roas", "reach", "relative_roas"),
        ("measurement_error", "error", "error"),
    )
    for title, kind, value in wanted:
        nested: dict[str, Any] = {}
        for (strategy, approach, size), values in _cells(rows, kind, value).items():
            place = nested.setdefault(strategy, {}).setdefault(approach, {})
            place[str(size)] = _band(values)
        summary[title] = nested
    return summary


def advice_of(summary: dict[str, Any], group_sizes: Sequence[int]) -> list[str]:
    """One sentence per k: what anonymity costs one and the same bidder, in the best grouping.

    Each bidder is compared with itself at k = 1. Where that was not studied, both are compared
    with the paper's bidder at k = 1, and the sentence says so.
    """
    return [_advice(summary["relative_reach"], size) for size in group_sizes]


def _advice(reach: dict[str, Any], size: int) -> str:
    kept = {
        name: _share_of_reach(buyers, "planning_visitors", size) for name, buyers in reach.items()
    }
    best = max(kept, key=lambda name: kept[name])
    others = ", ".join(f"{name} {value:.0%}" for name, value in kept.items() if name != best)
    buyers = reach[best]
    itself = "1" in buyers["planning_visitors"]
    remembered = [
        f"{name.removeprefix('memory_')} {_share_of_reach(buyers, name, size):.0%}"
        for name in buyers
        if name.startswith("memory_")
    ]
    whose = "the same bidder reaches" if itself else "the paper's bidder reaches"
    return (
        f"k = {size}: {best} groups keep {kept[best]:.0%} of what {whose} at k = 1 "
        "and equal budget"
        + (f" ({others})" if others else "")
        + f"; the paper's bidder keeps {_share_of_reach(buyers, 'uniform', size):.0%} of its own"
        + (f"; where the gateway remembers for {', '.join(remembered)}" if remembered else "")
        + "."
    )


def _share_of_reach(buyers: dict[str, Any], approach: str, size: int) -> float:
    """Reach at a k, relative to the same bidder at k = 1 if that was studied."""
    own = "planning_visitors" if approach.startswith("memory_") else approach
    at_one = buyers[own].get("1", {"mean": 1.0})["mean"]
    return float(buyers[approach][str(size)]["mean"] / max(at_one, 1e-300))


def exhibits_of(
    options: StudyOptions, summary: dict[str, Any], rows: Sequence[Row]
) -> list[Exhibit]:
    """Reach and error against k."""
    figures = (
        ("reach", "relative_reach", "Reach at equal budget against k", "% of reach at k = 1", 100),
        ("error", "measurement_error", "Error of unique reach against k", "error (%)", 100),
    )
    exhibits = []
    for kind, title, heading, label, factor in figures:
        mine = [row for row in rows if row["kind"] == kind]
        exhibits.append(
            Exhibit(
                f"tradeoff_{kind}",
                heading,
                "A drop at k = 2, little after (Figure 2)." if kind == "reach" else "",
                "; ".join(_ends(summary[title])) + ".",
                "",
                {"campaigns": options.campaigns, "budget": f"{_BUDGET_SHARE:.0%}"},
                {},
                mine,
                figure=_figure(summary[title], label, factor),
            )
        )
    return exhibits


def _ends(nested: dict[str, Any]) -> list[str]:
    parts = []
    for strategy, approaches in nested.items():
        for approach, by_size in approaches.items():
            sizes = list(by_size)
            first, last = by_size[sizes[0]]["mean"], by_size[sizes[-1]]["mean"]
            name = f"{approach.replace('_', ' ')}, {strategy}"
            parts.append(f"{name}: {first:.1%} at k = {sizes[0]}, {last:.1%} at k = {sizes[-1]}")
    return parts


def _figure(nested: dict[str, Any], label: str, factor: float) -> Any:
    figure, axes = new_figure(8.0, 4.4)
    at = 0
    styles = ("-", "--", ":", "-.")
    for style, (strategy, approaches) in zip(styles, nested.items(), strict=False):
        for approach, by_size in approaches.items():
            x = np.array([int(size) for size in by_size], dtype=float)
            mean, low, high = (
                factor * np.array([band[key] for band in by_size.values()])
                for key in ("mean", "low", "high")
            )
            colour = COLOURS[at % len(COLOURS)]
            name = f"{approach.replace('_', ' ')}, {strategy}"
            axes.plot(x, mean, style, marker="o", markersize=4, color=colour, label=name)
            axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
            at += 1
    sizes = sorted({int(s) for a in nested.values() for b in a.values() for s in b})
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("group size k")
    axes.set_ylabel(label)
    axes.set_title("Bands: lowest and highest campaign", fontsize=10, color=MUTED)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure
