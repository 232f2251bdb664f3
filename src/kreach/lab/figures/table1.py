"""Table 1 (Section 5.3): what each approach keeps of the ROAS without anonymity."""

from typing import Any

import numpy as np

import kreach as kr
from kreach.adsystem.bidding.bidder import Bidder
from kreach.errors import KreachError
from kreach.lab.auctions import Outcome, Stream, run_auctions
from kreach.lab.exhibits import COLOURS, INK, MUTED, PAPER_MARK, Exhibit, new_figure
from kreach.lab.figures.bidders import PLANS, ahead_bidder, paper_bidder
from kreach.lab.scenarios import APPROACHES, CAMPAIGNS, PaperCampaign, Run
from kreach.lab.trials import run_trials

__all__ = ["make"]

CAP = 1
BUDGETS = np.geomspace(0.03, 0.3, CAMPAIGNS)  # per person, one for each campaign
PAPER_MEANS = {"impressions": 0.8599, "groups": 0.8842, "uniform": 0.8695, "profiled": 0.9412}
PAPER_VARIANCES = {"impressions": 0.023, "groups": 0.018, "uniform": 0.023, "profiled": 0.005}
AHEAD = {
    "uniform_ahead": "C, planned ahead",
    "profiled_ahead": "D, planned ahead",
    "dispersed_ahead": "one dispersion, planned ahead",
}
TITLES = {**APPROACHES, **AHEAD}


def make(run: Run) -> Exhibit:
    """ROAS of ten campaigns relative to the same bidder when everybody is known (k = 1)."""
    tasks = [(i, c, float(BUDGETS[i])) for i, c in enumerate(run.campaigns)]
    parts = run_trials(
        _campaign, tasks, processes=run.processes, progress=run.progress, what="table1: campaigns"
    )
    rows = [row for part in parts for row in part]
    numbers = _numbers(rows)
    paper = {f"{a}_mean": mean for a, mean in PAPER_MEANS.items()}
    paper.update({f"{a}_variance": variance for a, variance in PAPER_VARIANCES.items()})
    return Exhibit(
        "table1",
        "Table 1: ROAS relative to no anonymity, over ten campaigns",
        "A 85.99 %, B 88.42 %, C 86.95 %, D 94.12 % on average, with variances 0.023, 0.018, "
        "0.023 and 0.005: D keeps the most.",
        _finding(numbers),
        _difference(numbers),
        {
            **run.campaign_setting(),
            "cap": CAP,
            "budget per person": f"{BUDGETS[0]:.2f} to {BUDGETS[-1]:.2f} median prices",
            "plans in a flight": PLANS,
            "reference": "the paper's bidder at k = 1, same campaign and budget",
        },
        numbers,
        rows,
        paper=paper,
        figure=_figure(rows),
    )


def _campaign(task: tuple[int, PaperCampaign, float]) -> list[dict[str, Any]]:
    """Every approach on one campaign, with one budget."""
    place, campaign, per_person = task
    people, requests = len(campaign.group_of), len(campaign.person)
    budget = per_person * people
    groups = campaign.group_of[campaign.person]
    alone = kr.Audience.disjoint(np.ones(people, dtype=np.int64))

    def outcome(bidder: Bidder, group: Any) -> Outcome:
        at = np.arange(requests, dtype=float)
        return run_auctions(bidder, Stream(campaign.person, group, at, campaign.price, people), CAP)

    def paper(audience: kr.Audience, group: Any) -> Outcome:
        return outcome(paper_bidder(kr.CapValuation(audience, CAP), budget, requests), group)

    def ahead(audience: kr.Audience, group: Any) -> Outcome:
        return outcome(ahead_bidder(audience, CAP, budget, requests), group)

    reference = paper(alone, campaign.person)
    if reference.spend == 0.0:
        raise KreachError.rule("prices", f"let a budget of {budget:.3g} medians buy", "no win")
    outcomes = {name: paper(audience, groups) for name, audience in campaign.audiences.items()}
    for name in AHEAD:
        outcomes[name] = ahead(campaign.audiences[name.removesuffix("_ahead")], groups)
    outcomes["alone_ahead"] = ahead(alone, campaign.person)
    return [
        {
            "campaign": place,
            "budget": budget,
            "approach": name,
            "reach": own.reach,
            "spend": own.spend,
            "impressions": own.impressions,
            "relative_roas": _roas(own) / _roas(reference),
            "relative_reach": own.reach / reference.reach,
            "spent_share": own.spend / budget,
        }
        for name, own in {"alone": reference, **outcomes}.items()
    ]


def _roas(outcome: Outcome) -> float:
    return outcome.reach / outcome.spend if outcome.spend > 0.0 else 0.0


def _numbers(rows: list[dict[str, Any]]) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for approach in (*TITLES, "alone_ahead"):
        mine = [row for row in rows if row["approach"] == approach]
        roas = np.array([row["relative_roas"] for row in mine])
        numbers[f"{approach}_mean"] = float(roas.mean())
        numbers[f"{approach}_variance"] = float(roas.var(ddof=1))
        for what in ("relative_reach", "spent_share"):
            numbers[f"{approach}_{what}"] = float(np.mean([row[what] for row in mine]))
        reach, spend, impressions = (
            sum(row[what] for row in mine) for what in ("reach", "spend", "impressions")
        )
        numbers[f"{approach}_price_paid"] = spend / max(impressions, 1)
        numbers[f"{approach}_reach_per_impression"] = reach / max(impressions, 1)
    for suffix in ("", "_ahead"):
        better, error = _lead(rows, f"profiled{suffix}", f"uniform{suffix}")
        numbers[f"profiled{suffix}_over_uniform"] = better
        numbers[f"profiled{suffix}_over_uniform_error"] = error
    return numbers


def _lead(rows: list[dict[str, Any]], one: str, other: str) -> tuple[float, float]:
    """How much more relative ROAS one approach has on the same campaigns, and the error."""
    mine, theirs = (
        np.array([row["relative_roas"] for row in rows if row["approach"] == name])
        for name in (one, other)
    )
    away = mine - theirs
    return float(away.mean()), float(away.std(ddof=1) / np.sqrt(len(away)))


def _finding(numbers: dict[str, Any]) -> str:
    phrases = [
        f"{title} {numbers[f'{approach}_mean']:.1%} "
        f"(variance {numbers[f'{approach}_variance']:.3f})"
        for approach, title in TITLES.items()
    ]
    return (
        "; ".join(phrases)
        + f". B spends {numbers['groups_spent_share']:.0%} of its budgets on average. "
        f"Without anonymity planning ahead gets {numbers['alone_ahead_mean']:.1%}."
    )


def _difference(numbers: dict[str, Any]) -> str:
    leads = [
        f"{100.0 * numbers[f'{name}_over_uniform']:+.1f} ± "
        f"{100.0 * numbers[f'{name}_over_uniform_error']:.1f}"
        for name in ("profiled", "profiled_ahead")
    ]
    (paid, new), (paid_c, new_c) = (
        (numbers[f"{name}_price_paid"], numbers[f"{name}_reach_per_impression"])
        for name in ("profiled", "uniform")
    )
    return (
        "The paper's data, budgets and reference are not public, and its lead of D over C (7.2 "
        f"points) depends on them: here it is {leads[0]} points with the paper's bidder. That "
        f"bidder pays {paid:.2f} an impression with D and {paid_c:.2f} with C, and {new:.0%} "
        f"rather than {new_c:.0%} of them reach somebody new. Planned ahead the lead is "
        f"{leads[1]} points. B buys each group once, so it leaves most of its budget unspent "
        "and its ROAS is not comparable."
    )


def _figure(rows: list[dict[str, Any]]) -> Any:
    figure, axes = new_figure(11.0, 5.6)
    for at, approach in enumerate(TITLES):
        mine = [row for row in rows if row["approach"] == approach]
        roas = 100.0 * np.array([row["relative_roas"] for row in mine])
        colour = COLOURS[at] if at < len(APPROACHES) else COLOURS[(at - 3) % len(APPROACHES)]
        axes.plot(at + np.linspace(-0.2, 0.2, len(roas)), roas, "o", color=colour, alpha=0.55)
        mean, std = float(roas.mean()), float(roas.std(ddof=1))
        axes.errorbar(at + 0.32, mean, std, fmt="_", color=INK, capsize=4)
        axes.annotate(
            f"{mean:.1f}", (at + 0.32, mean), (6, 0), textcoords="offset points", va="center"
        )
        if approach in PAPER_MEANS:
            stated = 100.0 * PAPER_MEANS[approach]
            axes.plot([at - 0.35, at + 0.25], [stated, stated], color=PAPER_MARK, linewidth=2.0)
    axes.plot([], [], "o", color=MUTED, label="our campaigns, budgets rise from left to right")
    axes.errorbar([], [], [], fmt="_", color=INK, capsize=4, label="our mean ± std. deviation")
    axes.plot([], [], color=PAPER_MARK, linewidth=2.0, label="the paper's mean")
    axes.axhline(100.0, color=MUTED, linestyle="--", label="no anonymity, paper's bidder")
    names = [title.replace(",", "").replace(" ", "\n") for title in TITLES.values()]
    axes.set_xticks(range(len(names)), labels=names)
    axes.set(title="Reach per spend relative to no anonymity", xlim=(-0.5, len(names) - 0.2))
    axes.set_ylabel("relative ROAS (%)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), ncols=2, frameon=False)
    return figure
