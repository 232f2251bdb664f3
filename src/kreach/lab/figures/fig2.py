"""Figure 2 (Section 5.2): what anonymity costs, as relative return on ad spend by group size."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import kreach as kr
from kreach.lab.auctions import paper_stream, run_auctions
from kreach.lab.exhibits import COLOURS, MUTED, PAPER_MARK, Exhibit, new_figure
from kreach.lab.figures.bidders import PLANS, ahead_bidder, paper_bidder, relative_roas, spans
from kreach.lab.scenarios import Run
from kreach.lab.trials import generator_for, run_trials
from kreach.numeric.types import FloatArray

__all__ = ["make"]

PEOPLE, REQUESTS = 120, 2000
SETTINGS = ((3, 430.0), (1, 90.0))  # (cap, budget) that give the paper's two numbers
TIGHT = ((1, 20.0), (1, 50.0), (3, 90.0))  # where money is short and bidding well matters
GROUP_SIZES = tuple(k for k in range(1, PEOPLE + 1) if PEOPLE % k == 0)
SOME_SIZES = (1, 2, 3, 6, 12, 20, 60, 120)  # when in a hurry
FEW_SIZES = (1, 2, 6, 20, 120)
PAPER = {"roas_at_k_2": 0.67, "roas_in_one_group": 0.62}


@dataclass(frozen=True)
class _Task:
    seed: int
    bidder: str  # "paper" or "ahead"
    cap: int
    budget: float
    group_size: int
    span: tuple[int, int]


Key = tuple[str, int, float, int]  # bidder, cap, budget, group size


def make(run: Run) -> Exhibit:
    """Relative ROAS of the paper's bidder by group size, and what planning ahead adds."""
    repetitions, fewer = run.either((400, 60), (40, 8))
    sizes = run.either(GROUP_SIZES, SOME_SIZES)
    wanted: dict[Key, int] = {
        ("paper", cap, budget, k): repetitions for cap, budget in SETTINGS for k in sizes
    }
    for cap, budget in TIGHT:
        for k in FEW_SIZES:
            wanted["paper", cap, budget, k] = wanted["ahead", cap, budget, k] = fewer
    results = _results(run, wanted)
    curves = [_curve(results, cap, budget, sizes) for cap, budget in SETTINGS]
    gains = [_gains(results, cap, budget) for cap, budget in TIGHT]
    rows = [row for part in (*curves, *gains) for row in part]
    numbers = _numbers(curves, gains)
    return Exhibit(
        "fig2",
        "Figure 2: what anonymity costs",
        "Relative ROAS falls monotonically with k: to 0.67 at k = 2 and to 0.62 when all users "
        "form one group.",
        _finding(numbers, gains),
        "The paper states neither cap nor budget; two plausible pairs give its numbers and are "
        "both shown. Those budgets are ample. On tighter ones planning ahead reaches more people "
        "for the same money at every k.",
        {
            "people": PEOPLE,
            "requests": REQUESTS,
            "prices": "log-normal (μ 0, σ² 0.5), second price",
            "cap and budget": "3 and 430; 1 and 90",
            "repetitions": repetitions,
            "repetitions planned ahead": fewer,
            "plans in a flight": PLANS,
        },
        numbers,
        rows,
        paper=PAPER,
        figure=_figure(curves, gains),
    )


def _results(run: Run, wanted: dict[Key, int]) -> dict[Key, FloatArray]:
    """Rows (reach, spend), one per repetition, for every wanted combination."""
    tasks = [_Task(run.seed, *key, span) for key, count in wanted.items() for span in spans(count)]
    parts = run_trials(
        _auctions, tasks, processes=run.processes, progress=run.progress, what="fig2: auctions"
    )
    parts_by_key: dict[Key, list[FloatArray]] = {key: [] for key in wanted}
    for task, part in zip(tasks, parts, strict=True):
        parts_by_key[task.bidder, task.cap, task.budget, task.group_size].append(part)
    return {key: np.concatenate(value) for key, value in parts_by_key.items()}


def _auctions(task: _Task) -> FloatArray:
    """One repetition is the same people and prices for every bidder, budget and group size."""
    audience = kr.Audience.disjoint(np.full(PEOPLE // task.group_size, task.group_size))
    rows = []
    for repetition in range(*task.span):
        stream = paper_stream(task.group_size, generator_for(task.seed, 2, repetition))
        if task.bidder == "paper":
            bidder = paper_bidder(kr.CapValuation(audience, task.cap), task.budget, REQUESTS)
        else:
            bidder = ahead_bidder(audience, task.cap, task.budget, REQUESTS)
        outcome = run_auctions(bidder, stream, task.cap)
        rows.append((float(outcome.reach), outcome.spend))
    return np.array(rows)


def _curve(
    results: dict[Key, FloatArray], cap: int, budget: float, sizes: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Relative ROAS of the paper's bidder by group size."""
    alone = results["paper", cap, budget, 1]
    rows = []
    for k in sizes:
        mine = results["paper", cap, budget, k]
        ratio, error = relative_roas(mine, alone)
        reach, spend = mine.mean(axis=0).tolist()
        row = {"bidder": "paper", "cap": cap, "budget": budget, "group_size": k}
        rows.append({**row, "reach": reach, "spend": spend, "relative_roas": ratio, "error": error})
    return rows


def _gains(results: dict[Key, FloatArray], cap: int, budget: float) -> list[dict[str, Any]]:
    """Reach of planning ahead over that of the paper's bidder, same budget and group size."""
    rows = []
    for k in FEW_SIZES:
        paper, ahead = (results[name, cap, budget, k] for name in ("paper", "ahead"))
        reach, spend = ahead.mean(axis=0).tolist()
        ratio = reach / float(paper[:, 0].mean())
        away = ahead[:, 0] / reach - paper[:, 0] / paper[:, 0].mean()
        error = ratio * float(away.std(ddof=1)) / len(away) ** 0.5
        row = {"bidder": "ahead", "cap": cap, "budget": budget, "group_size": k}
        rows.append({**row, "reach": reach, "spend": spend, "over_paper": ratio, "error": error})
    return rows


def _numbers(
    curves: list[list[dict[str, Any]]], gains: list[list[dict[str, Any]]]
) -> dict[str, Any]:
    by_setting = {
        f"cap {curve[0]['cap']}, budget {curve[0]['budget']:g}": {
            str(row["group_size"]): row["relative_roas"] for row in curve
        }
        for curve in curves
    }
    first = next(iter(by_setting.values()))
    return {
        "roas_at_k_2": first["2"],
        "roas_in_one_group": first[str(PEOPLE)],
        "relative_roas": by_setting,
        "reach_ahead_over_paper": {
            f"cap {part[0]['cap']}, budget {part[0]['budget']:g}": {
                str(row["group_size"]): row["over_paper"] for row in part
            }
            for part in gains
        },
    }


def _finding(numbers: dict[str, Any], gains: list[list[dict[str, Any]]]) -> str:
    phrases = [
        f"{setting}: {curve['2']:.3f} at k = 2 and {curve[str(PEOPLE)]:.3f} in one group"
        for setting, curve in numbers["relative_roas"].items()
    ]
    more = [
        f"{min(r['over_paper'] for r in part):.2f} to {max(r['over_paper'] for r in part):.2f} "
        f"(cap {part[0]['cap']}, budget {part[0]['budget']:g})"
        for part in gains
    ]
    return f"{'; '.join(phrases)}. Planning ahead reaches {', '.join(more)} times as many."


def _figure(curves: list[list[dict[str, Any]]], gains: list[list[dict[str, Any]]]) -> Any:
    figure, (left, right) = new_figure(12.0, 5.0, columns=2)
    for colour, curve in zip(COLOURS, curves, strict=False):
        label = f"paper's bidder, cap {curve[0]['cap']}, budget {curve[0]['budget']:g}"
        _line(left, curve, "relative_roas", colour, label)
    marks = list(PAPER.values())
    left.plot([2, PEOPLE], marks, "D", color=PAPER_MARK, markersize=8, zorder=5)
    left.plot([], [], "D", color=PAPER_MARK, label="the paper's numbers: 0.67 and 0.62")
    left.set(title="ROAS relative to no anonymity (k = 1)", ylim=(0.5, 1.03))
    left.set_ylabel("relative reach per spend (bars: 2 std. errors)")
    for place, part in enumerate(gains):
        label = f"planned ahead (ours), cap {part[0]['cap']}, budget {part[0]['budget']:g}"
        _line(right, part, "over_paper", COLOURS[2 + place], label, 0.96 + 0.04 * place)
    right.axhline(1.0, color=MUTED, linestyle="--", label="paper's bidder")
    right.set(title="Reach relative to the paper's bidder, same budget and k")
    right.set_ylabel("relative reach (bars: 2 std. errors)")
    for axes in (left, right):
        axes.set(xscale="log", xlabel="group size k (people, log scale)")
        axes.set_xticks(FEW_SIZES, labels=[str(k) for k in FEW_SIZES])
        axes.minorticks_off()
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False)
    return figure


def _line(
    axes: Any, rows: list[dict[str, Any]], what: str, colour: str, label: str, shift: float = 1.0
) -> None:
    """One curve with bars of two standard errors, shifted so that bars do not cover each other."""
    axes.errorbar(
        [row["group_size"] * shift for row in rows],
        [row[what] for row in rows],
        yerr=[2.0 * row["error"] for row in rows],
        fmt="o-",
        color=colour,
        markersize=4,
        capsize=2,
        label=label,
    )
