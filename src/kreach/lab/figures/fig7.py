"""Figure 7 (appendix): what it costs when groups hold people who are not targeted."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import kreach as kr
from kreach.lab.auctions import Stream, run_auctions
from kreach.lab.exhibits import COLOURS, MUTED, Exhibit, new_figure
from kreach.lab.figures.bidders import paper_bidder, spans
from kreach.lab.scenarios import PAPER_PRICES, Run
from kreach.lab.trials import generator_for, run_trials
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["make"]

PEOPLE, GROUPS, TARGETED = 144, 12, 12
GROUP_SIZE = PEOPLE // GROUPS
REQUESTS = 2400  # per person as many as in Figure 2
SETTINGS = ((3, 43.0), (1, 9.0))  # cap and budget: per targeted person as much as in Figure 2
HOLDING = (1, 2, 3, 4, 6, 12)  # groups that hold targeted people


@dataclass(frozen=True)
class _Task:
    seed: int
    cap: int
    budget: float
    holding: int
    span: tuple[int, int]


class _Witness(kr.CapValuation):
    """Remembers which requests were won, so that the truth can be counted afterwards."""

    def __init__(self, audience: kr.Audience, cap: int) -> None:
        super().__init__(audience, cap)
        self.won_requests: list[int] = []

    def record(self, group: int, now: float) -> None:
        super().record(group, now)
        self.won_requests.append(int(now))


def make(run: Run) -> Exhibit:
    """ROAS of the paper's bidder by the share of targeted people in groups that hold any."""
    repetitions = run.either(400, 40)
    tasks = [
        _Task(run.seed, cap, budget, holding, span)
        for cap, budget in SETTINGS
        for holding in HOLDING
        for span in spans(repetitions)
    ]
    parts = run_trials(
        _auctions, tasks, processes=run.processes, progress=run.progress, what="fig7: auctions"
    )
    parts_by_key: dict[tuple[int, int], list[FloatArray]] = {}
    for task, part in zip(tasks, parts, strict=True):
        parts_by_key.setdefault((task.cap, task.holding), []).append(part)
    rows = [
        _row(cap, budget, holding, np.concatenate(parts_by_key[cap, holding]))
        for cap, budget in SETTINGS
        for holding in HOLDING
    ]
    numbers = _numbers(rows)
    return Exhibit(
        "fig7",
        "Figure 7: coverage of the targeted people by groups",
        "ROAS grows almost linearly with coverage, the share of targeted people in the groups "
        "that hold any.",
        _finding(numbers),
        _difference(rows),
        {
            "people": PEOPLE,
            "groups": GROUPS,
            "targeted": TARGETED,
            "requests of all people": REQUESTS,
            "prices": "log-normal (μ 0, σ² 0.5), second price",
            "cap and budget": "3 and 43; 1 and 9",
            "repetitions": repetitions,
        },
        numbers,
        rows,
        paper={"shape": "almost linear increase"},
        figure=_figure(rows),
    )


def _targeted_counts(holding: int) -> IntArray:
    counts = np.zeros(GROUPS, dtype=np.int64)
    counts[:holding] = TARGETED // holding
    return counts


def _auctions(task: _Task) -> FloatArray:
    """Rows (reach, spend, impressions): untargeted members cost money and count nothing."""
    counts = _targeted_counts(task.holding)
    audience = kr.Audience.disjoint(np.full(GROUPS, GROUP_SIZE), targeted_counts=counts)
    group_of = np.arange(PEOPLE) // GROUP_SIZE
    is_targeted = np.arange(PEOPLE) % GROUP_SIZE < counts[group_of]
    rows = []
    for repetition in range(*task.span):
        generator = generator_for(task.seed, 7, repetition)
        person = generator.integers(PEOPLE, size=REQUESTS)
        price = generator.lognormal(*PAPER_PRICES, size=REQUESTS)
        stream = Stream(person, group_of[person], np.arange(REQUESTS, dtype=float), price, PEOPLE)
        witness = _Witness(audience, task.cap)
        outcome = run_auctions(paper_bidder(witness, task.budget, REQUESTS), stream, task.cap)
        seen = np.bincount(person[witness.won_requests], minlength=PEOPLE)
        reach = np.minimum(seen, task.cap)[is_targeted].sum()
        rows.append((float(reach), outcome.spend, float(outcome.impressions)))
    return np.array(rows)


def _row(cap: int, budget: float, holding: int, results: FloatArray) -> dict[str, Any]:
    reach, spend, impressions = results.mean(axis=0).tolist()
    away = results[:, 0] / reach - results[:, 1] / spend
    return {
        "cap": cap,
        "budget": budget,
        "groups": holding,
        "coverage": TARGETED / holding / GROUP_SIZE,
        "reach": reach,
        "spend": spend,
        "price_paid": spend / impressions,
        "roas": reach / spend,
        "error": reach / spend * float(away.std(ddof=1)) / len(away) ** 0.5,
    }


def _numbers(rows: list[dict[str, Any]]) -> dict[str, Any]:
    by_setting: dict[str, Any] = {}
    for cap, budget in SETTINGS:
        mine = [row for row in rows if row["cap"] == cap]
        coverage, roas = ([row[name] for row in mine] for name in ("coverage", "roas"))
        by_setting[f"cap {cap}, budget {budget:g}"] = {
            "roas_by_coverage": {f"{c:.3f}": r for c, r in zip(coverage, roas, strict=True)},
            "price_paid_by_coverage": {f"{row['coverage']:.3f}": row["price_paid"] for row in mine},
            "correlation": float(np.corrcoef(coverage, roas)[0, 1]),
        }
    least = min(part["correlation"] for part in by_setting.values())
    shape = "almost linear increase" if least > 0.95 else "no linear increase"
    return {"shape": shape, "min_correlation": least, "settings": by_setting}


def _finding(numbers: dict[str, Any]) -> str:
    phrases = []
    for setting, part in numbers["settings"].items():
        roas = list(part["roas_by_coverage"].values())
        phrases.append(
            f"{setting}: {roas[0]:.2f} at full coverage, {roas[1]:.2f} at a half and "
            f"{roas[-1]:.2f} at a twelfth (correlation with coverage {part['correlation']:.3f})"
        )
    return "; ".join(phrases) + "."


def _difference(rows: list[dict[str, Any]]) -> str:
    first = [row for row in rows if row["cap"] == SETTINGS[0][0]]
    return (
        "The paper states neither cap, budget nor requests. A straight line would not pass "
        "through 0: at low coverage more groups hold targeted people, there are more requests to "
        f"choose from, and an impression costs {first[-1]['price_paid']:.2f} instead of "
        f"{first[0]['price_paid']:.2f} (cap {SETTINGS[0][0]})."
    )


def _figure(rows: list[dict[str, Any]]) -> Any:
    figure, axes = new_figure(7.5, 5.0)
    for colour, (cap, budget) in zip(COLOURS, SETTINGS, strict=False):
        mine = [row for row in rows if row["cap"] == cap]
        coverage = np.array([row["coverage"] for row in mine])
        roas = np.array([row["roas"] for row in mine])
        errors = [2.0 * row["error"] for row in mine]
        label = f"paper's bidder, cap {cap}, budget {budget:g}"
        axes.errorbar(coverage, roas, errors, fmt="o", color=colour, capsize=2, label=label)
        slope, level = np.polyfit(coverage, roas, 1)
        ends = np.array([0.0, 1.0])
        axes.plot(ends, level + slope * ends, color=colour, linestyle="--", linewidth=1.0)
    axes.plot([], [], color=MUTED, linestyle="--", label="straight line through our points")
    axes.set(xlim=(0.0, 1.05), title="Return on ad spend by coverage")
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("coverage: targeted share of members, in groups that hold any")
    axes.set_ylabel("reach per unit of money (bars: 2 std. errors)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False)
    return figure
