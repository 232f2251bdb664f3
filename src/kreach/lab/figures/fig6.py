"""Figure 6 (Section 5.3): how far off each way to measure unique reach is on uneven traffic."""

from typing import Any

import numpy as np

import kreach as kr
from kreach.lab.exhibits import COLOURS, INK, MUTED, Exhibit, new_figure
from kreach.lab.scenarios import APPROACHES, CAMPAIGNS, PaperCampaign, Run
from kreach.lab.trials import generator_for, run_trials
from kreach.numeric.types import IntArray

__all__ = ["WON_SHARES", "make", "won_requests"]

WON_SHARES = np.geomspace(0.03, 0.4, CAMPAIGNS)  # of the requests, one for each campaign
PAPERS = ("impressions", "groups", "uniform", "profiled")


def make(run: Run) -> Exhibit:
    """Relative errors of unique reach over ten campaigns that won different shares."""
    tasks = [(i, campaign, run.seed) for i, campaign in enumerate(run.campaigns)]
    parts = run_trials(
        _errors, tasks, processes=1, progress=run.progress, what="fig6: campaigns"
    )  # a second or two: quicker than starting processes
    rows = [row for part in parts for row in part]
    numbers = _numbers(rows)
    return Exhibit(
        "fig6",
        "Figure 6: how far off each way to measure unique reach is",
        "D, with the visit shares of each group, is the most accurate of the four; A and C "
        "overestimate, B underestimates.",
        _finding(numbers),
        "The paper's data is not public, and its figure states no number. Its D takes the shares "
        "from the visits to be measured; one dispersion from history needs no look ahead, and "
        "tells nothing about any group.",
        {
            **run.campaign_setting(),
            "cap": 1,
            "won share of requests": f"{WON_SHARES[0]:.0%} to {WON_SHARES[-1]:.0%}, at random",
        },
        numbers,
        rows,
        paper={"most_accurate": "profiled", "too_high": "impressions, uniform"},
        figure=_figure(rows),
    )


def won_requests(campaign: PaperCampaign, place: int, seed: int) -> IntArray:
    """The requests that campaign number `place` wins at random, by index."""
    requests = len(campaign.person)
    count = max(1, round(float(WON_SHARES[place]) * requests))
    return generator_for(seed, 6, place).choice(requests, size=count, replace=False)


def _errors(task: tuple[int, PaperCampaign, int]) -> list[dict[str, Any]]:
    """One campaign wins a random share of the flight's requests; who saw it is the truth."""
    place, campaign, seed = task
    person = campaign.person[won_requests(campaign, place, seed)]
    truth = len(np.unique(person))
    impressions = np.bincount(campaign.group_of[person], minlength=campaign.group_count)
    rows = []
    for approach, audience in campaign.audiences.items():
        reach = kr.measure(audience, impressions, 1).reach
        won_share = float(WON_SHARES[place])
        row = {"campaign": place, "won_share": won_share, "impressions": len(person)}
        error = reach / truth - 1.0
        rows.append({**row, "approach": approach, "reach": reach, "truth": truth, "error": error})
    return rows


def _numbers(rows: list[dict[str, Any]]) -> dict[str, Any]:
    numbers: dict[str, Any] = {}
    for approach in APPROACHES:
        error = np.array([row["error"] for row in rows if row["approach"] == approach])
        numbers[approach] = {
            "mean_error": float(error.mean()),
            "mean_absolute_error": float(np.abs(error).mean()),
            "std_absolute_error": float(np.abs(error).std(ddof=1)),
            "by_campaign": error.tolist(),
        }
    best = min(PAPERS, key=lambda approach: numbers[approach]["mean_absolute_error"])
    high = [a for a in PAPERS if min(numbers[a]["by_campaign"]) > 0.0]
    return {"most_accurate": best, "too_high": ", ".join(high), **numbers}


def _finding(numbers: dict[str, Any]) -> str:
    phrases = [
        f"{title} {numbers[approach]['mean_absolute_error']:.1%} "
        f"(mean error {numbers[approach]['mean_error']:+.1%})"
        for approach, title in APPROACHES.items()
    ]
    return "Mean relative error: " + "; ".join(phrases) + "."


def _figure(rows: list[dict[str, Any]]) -> Any:
    figure, (left, right) = new_figure(12.0, 5.0, columns=2)
    for at, (approach, colour) in enumerate(zip(APPROACHES, COLOURS, strict=False)):
        mine = [row for row in rows if row["approach"] == approach]
        error = 100.0 * np.array([row["error"] for row in mine])
        far = np.abs(error)
        jitter = at + np.linspace(-0.18, 0.18, len(far))
        left.plot(jitter, far, "o", color=colour, alpha=0.55, markersize=5)
        left.errorbar(
            at + 0.3, far.mean(), far.std(ddof=1), fmt="_", color=INK, capsize=4, markersize=12
        )
        left.annotate(
            f"{far.mean():.1f}",
            (at + 0.3, far.mean()),
            (10, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
        if approach in ("uniform", "profiled", "dispersed"):
            won = 100.0 * np.array([row["won_share"] for row in mine])
            right.plot(won, error, "o-", color=colour, label=APPROACHES[approach])
    names = [title.replace(" ", "\n") for title in APPROACHES.values()]
    left.set_xticks(range(len(names)), labels=names)
    left.set(title="Ten campaigns (dots), mean ± standard deviation")
    left.set_ylabel("|measured − true| / true unique reach (%)")
    left.set(ylim=(0.0, None), xlim=(-0.5, len(names) - 0.2))
    right.axhline(0.0, color=MUTED, linestyle="--", label="the truth")
    right.set(xscale="log", title="Direction of the error, by campaign")
    right.set_xticks([3, 5, 10, 20, 40], labels=["3", "5", "10", "20", "40"])
    right.minorticks_off()
    right.set_xlabel("requests that the campaign won (%, log scale)")
    right.set_ylabel("measured over true unique reach − 1 (%)")
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)
    return figure
