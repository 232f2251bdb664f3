"""Figure 7 (appendix): what it costs when groups hold people who are not targeted.

In the paper's setting every member of a group makes requests, and money goes to people who are not
targeted. Where the campaign's auctions come from its targeted people only, as we think they do in
Table 1, the same groups cost nothing of that kind, and few visible members are an advantage.
"""

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
TARGETED_ONLY = SETTINGS[1]  # unique reach, as in Table 1
VARIANTS = {
    "everybody": "all members make requests (the paper)",
    "targeted": "only targeted ones do, C counts all 12 members",
    "visible": "only targeted ones do, C counts visible members",
}


@dataclass(frozen=True)
class _Task:
    seed: int
    cap: int
    budget: float
    holding: int
    variant: str
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
    fewer = run.either(200, 10)  # twelve times as many people are reached in each
    wanted = [("everybody", *setting, repetitions) for setting in SETTINGS]
    wanted += [(variant, *TARGETED_ONLY, fewer) for variant in ("targeted", "visible")]
    tasks = [
        _Task(run.seed, cap, budget, holding, variant, span)
        for variant, cap, budget, count in wanted
        for holding in HOLDING
        for span in spans(count)
    ]
    parts = run_trials(
        _auctions, tasks, processes=run.processes, progress=run.progress, what="fig7: auctions"
    )
    parts_by_key: dict[tuple[str, int, float, int], list[FloatArray]] = {}
    for task, part in zip(tasks, parts, strict=True):
        key = (task.variant, task.cap, task.budget, task.holding)
        parts_by_key.setdefault(key, []).append(part)
    rows = [_row(*key, np.concatenate(results)) for key, results in parts_by_key.items()]
    numbers = _numbers(rows)
    return Exhibit(
        "fig7",
        "Figure 7: coverage of the targeted people by groups",
        "ROAS grows almost linearly with coverage, the share of targeted people in the groups "
        "that hold any.",
        _finding(numbers),
        _difference(rows, numbers),
        {
            "people": PEOPLE,
            "groups": GROUPS,
            "targeted": TARGETED,
            "requests of all people": REQUESTS,
            "prices": "log-normal (μ 0, σ² 0.5), second price",
            "cap and budget": "3 and 43; 1 and 9",
            "repetitions": repetitions,
            "requests of targeted people only": f"{PEOPLE} people, cap {TARGETED_ONLY[0]}, "
            f"budget {TARGETED_ONLY[1] * PEOPLE / TARGETED:g}, {fewer} repetitions",
        },
        numbers,
        rows,
        paper={"shape": "almost linear increase"},
        figure=_figure(rows, numbers),
    )


def _auctions(task: _Task) -> FloatArray:
    """Rows (reach, spend, impressions) of the repetitions."""
    auctions = _of_everybody if task.variant == "everybody" else _of_targeted
    return np.array(
        [
            auctions(task, generator_for(task.seed, 7, repetition))
            for repetition in range(*task.span)
        ]
    )


def _of_everybody(task: _Task, generator: np.random.Generator) -> tuple[float, float, float]:
    """The paper's setting: untargeted members cost money and count nothing."""
    counts = np.zeros(GROUPS, dtype=np.int64)
    counts[: task.holding] = TARGETED // task.holding
    audience = kr.Audience.disjoint(np.full(GROUPS, GROUP_SIZE), targeted_counts=counts)
    group_of = np.arange(PEOPLE) // GROUP_SIZE
    is_targeted = np.arange(PEOPLE) % GROUP_SIZE < counts[group_of]
    person, price = _requests(generator)
    stream = Stream(person, group_of[person], np.arange(REQUESTS, dtype=float), price, PEOPLE)
    witness = _Witness(audience, task.cap)
    outcome = run_auctions(paper_bidder(witness, task.budget, REQUESTS), stream, task.cap)
    seen = np.bincount(person[witness.won_requests], minlength=PEOPLE)
    reach = np.minimum(seen, task.cap)[is_targeted].sum()
    return float(reach), outcome.spend, float(outcome.impressions)


def _of_targeted(task: _Task, generator: np.random.Generator) -> tuple[float, float, float]:
    """The same requests when all are by targeted people, so many of them in each group.

    Then there are twelve times as many targeted people, with twelve times the budget.
    """
    visible = TARGETED // task.holding
    groups = PEOPLE // visible
    size = visible if task.variant == "visible" else GROUP_SIZE
    audience = kr.Audience.disjoint(np.full(groups, size))
    person, price = _requests(generator)
    stream = Stream(person, person // visible, np.arange(REQUESTS, dtype=float), price, PEOPLE)
    budget = task.budget * PEOPLE / TARGETED
    bidder = paper_bidder(kr.CapValuation(audience, task.cap), budget, REQUESTS)
    outcome = run_auctions(bidder, stream, task.cap)
    return float(outcome.reach), outcome.spend, float(outcome.impressions)


def _requests(generator: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Who makes each request, and its price."""
    person = generator.integers(PEOPLE, size=REQUESTS)
    return person, generator.lognormal(*PAPER_PRICES, size=REQUESTS)


def _row(
    variant: str, cap: int, budget: float, holding: int, results: FloatArray
) -> dict[str, Any]:
    reach, spend, impressions = results.mean(axis=0).tolist()
    away = results[:, 0] / reach - results[:, 1] / spend
    return {
        "requests_of": variant,
        "cap": cap,
        "budget": budget,
        "groups": holding,
        "visible_members": TARGETED // holding,
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
        mine = _rows_of(rows, "everybody", cap)
        coverage, roas = ([row[name] for row in mine] for name in ("coverage", "roas"))
        by_setting[f"cap {cap}, budget {budget:g}"] = {
            "roas_by_coverage": {f"{c:.3f}": r for c, r in zip(coverage, roas, strict=True)},
            "price_paid_by_coverage": {f"{row['coverage']:.3f}": row["price_paid"] for row in mine},
            "correlation": float(np.corrcoef(coverage, roas)[0, 1]),
        }
    least = min(part["correlation"] for part in by_setting.values())
    shape = "almost linear increase" if least > 0.95 else "no linear increase"
    by_visible = {variant: _over_full_coverage(rows, variant) for variant in VARIANTS}
    return {
        "shape": shape,
        "min_correlation": least,
        "settings": by_setting,
        "roas_by_visible_members": by_visible,
    }


def _rows_of(rows: list[dict[str, Any]], variant: str, cap: int) -> list[dict[str, Any]]:
    return [row for row in rows if row["requests_of"] == variant and row["cap"] == cap]


def _over_full_coverage(rows: list[dict[str, Any]], variant: str) -> dict[str, float]:
    """ROAS relative to groups that are targeted as a whole, by visible members of a group."""
    mine = {
        row["visible_members"]: row["roas"] for row in _rows_of(rows, variant, TARGETED_ONLY[0])
    }
    return {str(visible): roas / mine[GROUP_SIZE] for visible, roas in mine.items()}


def _finding(numbers: dict[str, Any]) -> str:
    phrases = []
    for setting, part in numbers["settings"].items():
        roas = list(part["roas_by_coverage"].values())
        phrases.append(
            f"{setting}: {roas[0]:.2f} at full coverage, {roas[1]:.2f} at a half and "
            f"{roas[-1]:.2f} at a twelfth (correlation with coverage {part['correlation']:.3f})"
        )
    alone = {variant: part["1"] for variant, part in numbers["roas_by_visible_members"].items()}
    return (
        "; ".join(phrases) + ". One targeted member in each group instead of twelve: "
        f"{alone['everybody']:.2f} times the ROAS where all members make requests; where only "
        f"targeted ones do, {alone['targeted']:.2f} times if C counts all members and "
        f"{alone['visible']:.2f} times if it counts visible ones (cap {TARGETED_ONLY[0]})."
    )


def _difference(rows: list[dict[str, Any]], numbers: dict[str, Any]) -> str:
    first = _rows_of(rows, "everybody", SETTINGS[0][0])
    by_visible = numbers["roas_by_visible_members"]
    few = [f"{by_visible[variant]['2']:.2f}" for variant in ("visible", "targeted")]
    return (
        "Stated by the paper: the groups, the targeted people, and that all members make requests, "
        "so that ads go to people who are not targeted. Not stated: cap, budget and requests. A "
        "straight line would not pass through 0: at low coverage more groups hold targeted people, "
        "there are more requests to choose from, and an impression costs "
        f"{first[-1]['price_paid']:.2f} instead of {first[0]['price_paid']:.2f} (cap "
        f"{SETTINGS[0][0]}). Inferred by us: in Table 1 auctions come from targeted people only. "
        "There low coverage wastes nothing, and one visible member in a group is no anonymity. "
        f"With two, C gets {few[0]} times its ROAS at full coverage if it counts visible members "
        f"and {few[1]} if it counts all: people visit evenly here, and the paper's bidder does not "
        "look ahead, so that the right discount need not be its best."
    )


def _figure(rows: list[dict[str, Any]], numbers: dict[str, Any]) -> Any:
    figure, (left, right) = new_figure(12.5, 5.4, columns=2)
    for colour, (cap, budget) in zip(COLOURS, SETTINGS, strict=False):
        mine = _rows_of(rows, "everybody", cap)
        coverage = np.array([row["coverage"] for row in mine])
        roas = np.array([row["roas"] for row in mine])
        errors = [2.0 * row["error"] for row in mine]
        label = f"paper's bidder, cap {cap}, budget {budget:g}"
        left.errorbar(coverage, roas, errors, fmt="o", color=colour, capsize=2, label=label)
        slope, level = np.polyfit(coverage, roas, 1)
        ends = np.array([0.0, 1.0])
        left.plot(ends, level + slope * ends, color=colour, linestyle="--", linewidth=1.0)
    left.plot([], [], color=MUTED, linestyle="--", label="straight line through our points")
    left.set(xlim=(0.0, 1.05), title="Figure 7: all members make requests")
    left.set_ylim(bottom=0.0)
    left.set_xlabel("coverage: targeted share of members, in groups that hold any")
    left.set_ylabel("reach per unit of money (bars: 2 std. errors)")
    colours = (COLOURS[1], COLOURS[2], COLOURS[6])
    for colour, (variant, label) in zip(colours, VARIANTS.items(), strict=True):
        curve = numbers["roas_by_visible_members"][variant]
        right.plot([int(v) for v in curve], list(curve.values()), "o-", color=colour, label=label)
    right.axhline(1.0, color=MUTED, linestyle="--", linewidth=1.0)
    right.set_xscale("log")
    shown = [GROUP_SIZE // holding for holding in HOLDING]
    right.set_xticks(shown, labels=[f"{v}\n{v / GROUP_SIZE:.0%}" for v in shown])
    right.minorticks_off()
    right.set_ylim(bottom=0.0)
    right.set(title=f"By who makes requests (cap {TARGETED_ONLY[0]})")
    right.set_xlabel("visible members of 12 / coverage (log scale)")
    right.set_ylabel("reach per unit of money over that at full coverage")
    for axes in (left, right):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), frameon=False)
    return figure
