"""Summary, figures and advice from the rows of `kreach evaluate`."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kreach.boundary.times import iso_text
from kreach.lab.approaches import APPROACHES
from kreach.lab.evaluate import BUDGET_SHARES, WIN_SHARES, Row, StudyOptions
from kreach.lab.exhibits import COLOURS, INK, MUTED, Exhibit, new_figure
from kreach.lab.site import Site

__all__ = ["advice_of", "exhibits_of", "summary_of"]

_PAPER_TABLE = {"impressions": 0.8599, "groups": 0.8842, "uniform": 0.8695, "profiled": 0.9412}
_FAR = {"impressions", "groups"}  # errors of these would flatten the others
_OFF_SCALE = 0.6  # of reach at k = 1; below, a buyer would flatten the others
_NAMES = {
    "impressions": "paper's bidder, A",
    "groups": "paper's bidder, B",
    "uniform": "paper's bidder, C",
    "profiled": "paper's bidder, D of the flight",
    "profiled_history": "paper's bidder, D of history",
    "dispersed": "paper's bidder, one dispersion",
    "uniform_recency": "paper's bidder, C + recency",
    "dispersed_recency": "paper's bidder, dispersion + recency",
    "planning": "planning ahead",
    "planning_recency": "planning ahead + recency",
    "planning_k1": "planning ahead, everybody known",
    "gateway_cap": "cap enforced at the gateway",
}


def _key(row: Row, main: str) -> str:
    """The name of a row in the summary: the approach, with its grouping if not the main one."""
    approach = str(row["approach"])
    return approach if row["strategy"] == main else f"{approach}@{row['strategy']}"


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def summary_of(options: StudyOptions, site: Site, rows: Sequence[Row]) -> dict[str, Any]:
    """`measurement` and `optimisation` by approach, as the public surface promises."""
    keyed = [row | {"key": _key(row, options.strategy)} for row in rows]
    measured = [row for row in keyed if row["kind"] == "measurement"]
    bought = [row for row in keyed if row["kind"] == "optimisation"]
    return {
        "setting": _setting(options, site),
        "measurement": {key: _measurement(_of(measured, key)) for key in _keys(measured)},
        "optimisation": {key: _optimisation(_of(bought, key)) for key in _keys(bought)},
        "ingredients": _ingredients(bought, options),
    }


def _keys(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["key"] for row in rows))


def _of(rows: Sequence[Row], key: str) -> list[Row]:
    return [row for row in rows if row["key"] == key]


def _setting(options: StudyOptions, site: Site) -> dict[str, Any]:
    return {
        "people": site.people.count,
        "history_visits": len(site.before.user),
        "flight_requests": len(site.after.user),
        "split": iso_text(site.split),
        "group_size": options.group_size,
        "strategy": options.strategy,
        "campaigns": options.campaigns,
        "campaign_size": options.campaign_size,
        "cap": 1,
        "seed": options.seed,
        "pairing": "visits and prices come from different logs; each request draws a price",
        "budgets": "shares of what reaching everybody costs in hindsight at k = 1",
    }


def _measurement(rows: Sequence[Row]) -> dict[str, Any]:
    campaigns = list(dict.fromkeys(row["campaign"] for row in rows))
    return {
        "mean_error": _mean(row["error"] for row in rows),
        "mean_absolute_error": _mean(abs(row["error"]) for row in rows),
        "by_win_share": {
            f"{share:g}": _mean(row["error"] for row in rows if row["win_share"] == share)
            for share in dict.fromkeys(row["win_share"] for row in rows)
        },
        "by_campaign": {
            name: _mean(row["error"] for row in rows if row["campaign"] == name)
            for name in campaigns
        },
    }


def _optimisation(rows: Sequence[Row]) -> dict[str, Any]:
    campaigns = list(dict.fromkeys(row["campaign"] for row in rows))
    return {
        "relative_roas_mean": _mean(row["relative_roas"] for row in rows),
        "relative_roas_variance": float(
            np.var(
                [
                    _mean(row["relative_roas"] for row in rows if row["campaign"] == name)
                    for name in campaigns
                ]
            )
        ),
        "relative_reach_mean": _mean(row["relative_reach"] for row in rows),
        "relative_hindsight_mean": _mean(row["relative_hindsight"] for row in rows),
        "by_budget": {
            f"{share:g}": _mean(
                row["relative_reach"] for row in rows if row["budget_share"] == share
            )
            for share in BUDGET_SHARES
        },
        "by_campaign": {
            name: _mean(row["relative_reach"] for row in rows if row["campaign"] == name)
            for name in campaigns
        },
    }


def _ingredients(rows: Sequence[Row], options: StudyOptions) -> dict[str, float]:
    """What each ingredient adds to reach at equal budget, in points of the reach at k = 1."""

    def reach(key: str) -> float:
        matching = _of(rows, key)
        return _mean(row["relative_reach"] for row in matching) if matching else float("nan")

    steps = {
        "paper_bidder_uniform": reach("uniform"),
        "dispersion": reach("dispersed") - reach("uniform"),
        "planning_ahead": reach("planning") - reach("dispersed"),
        "recency": reach("planning_recency") - reach("planning"),
    }
    for name in options.others:
        if name != options.strategy:
            better = reach(f"planning_recency@{name}")
            steps[f"grouping_{name}"] = better - reach("planning_recency")
    return {key: value for key, value in steps.items() if np.isfinite(value)}


def advice_of(options: StudyOptions, summary: dict[str, Any]) -> list[str]:
    """Recommendations that the results support."""
    lines = []
    measured = summary["measurement"]
    worst = {
        key: max(abs(error) for error in errors["by_win_share"].values())
        for key, errors in measured.items()
        if "@" not in key
    }
    simple = {k: v for k, v in worst.items() if k in {"uniform", "dispersed", "counted"}}
    best = min(simple, key=lambda key: simple[key])
    lines.append(
        f"Measure with “{best}” ({APPROACHES[best]}): unique reach is off by {worst[best]:.1%} at "
        f"worst over win shares of {WIN_SHARES[0]:.0%} to 100%; the uniform formula by "
        f"{worst['uniform']:.0%}."
    )
    bought = summary["optimisation"]
    paper, ours = bought["uniform"], bought["planning_recency"]
    gain = ours["relative_reach_mean"] - paper["relative_reach_mean"]
    verdict = "reaches more" if gain > 0.005 else "does not reach more"
    lines.append(
        f"With {options.strategy} groups of {options.group_size} the paper's bidder keeps "
        f"{paper['relative_reach_mean']:.0%} of the reach at k = 1; planning ahead with recency "
        f"{verdict}: {ours['relative_reach_mean']:.0%}."
    )
    others = {k: v for k, v in bought.items() if k.startswith("planning_recency@")}
    if others:
        name, best_other = max(
            others.items(), key=lambda item: float(item[1]["relative_reach_mean"])
        )
        strategy = name.partition("@")[2]
        lost = {
            strategy: 1.0 - best_other["relative_reach_mean"],
            options.strategy: 1.0 - ours["relative_reach_mean"],
        }
        first, second = sorted(lost, key=lambda key: lost[key])
        phrases = [
            f"{key} groups {'lose' if lost[key] >= 0.0 else 'gain'} {abs(lost[key]):.0%}"
            for key in (first, second)
        ]
        lines.append(f"With these logs at k = {options.group_size}: {', '.join(phrases)} of reach.")
    return lines


def exhibits_of(
    options: StudyOptions, summary: dict[str, Any], rows: Sequence[Row]
) -> list[Exhibit]:
    """The two figures of the study with their rows."""
    measured = [row for row in rows if row["kind"] == "measurement"]
    bought = [row for row in rows if row["kind"] == "optimisation"]
    setting = {"groups of": options.group_size, "campaigns": options.campaigns}
    return [
        Exhibit(
            "measurement",
            "How far off measured unique reach is",
            "C overestimates, D is the most accurate of A to D (Figure 6).",
            _measurement_text(summary),
            "The paper shows one win rate; here a share from 1 % to all of the requests is won.",
            setting,
            {k: v["mean_absolute_error"] for k, v in summary["measurement"].items()},
            measured,
            figure=_error_figure(summary),
        ),
        Exhibit(
            "optimisation",
            "Reach at equal budget, relative to knowing everybody",
            "Relative ROAS of A, B, C, D: 86.0, 88.4, 87.0, 94.1 % (Table 1).",
            _optimisation_text(summary),
            "The paper's table is one budget on data that is not public; D uses shares of the "
            "flight itself, which no ad system has before the flight.",
            setting | {"budgets": ", ".join(f"{share:g}" for share in BUDGET_SHARES)},
            {k: v["relative_roas_mean"] for k, v in summary["optimisation"].items()},
            bought,
            paper=_PAPER_TABLE,
            figure=_reach_figure(summary),
        ),
    ]


def _measurement_text(summary: dict[str, Any]) -> str:
    parts = []
    for key in ("uniform", "profiled", "dispersed", "counted"):
        results = summary["measurement"].get(key)
        if results:
            errors = list(results["by_win_share"].values())
            parts.append(f"{key} {min(errors):+.1%} to {max(errors):+.1%}")
    return "Mean error over campaigns, by win share: " + "; ".join(parts) + "."


def _optimisation_text(summary: dict[str, Any]) -> str:
    keys = ["uniform", "planning_recency"]
    keys += [key for key in summary["optimisation"] if key.startswith("planning_recency@")]
    parts = [f"{key} {summary['optimisation'][key]['relative_reach_mean']:.1%}" for key in keys]
    steps = [
        f"{name.replace('_', ' ')} {value:+.1%}"
        for name, value in summary["ingredients"].items()
        if name != "paper_bidder_uniform"
    ]
    return f"Mean over budgets: {'; '.join(parts)}. What each adds: {'; '.join(steps)}."


def _name(key: str) -> str:
    approach, _, strategy = key.partition("@")
    return _NAMES.get(approach, approach) + (f", {strategy} groups" if strategy else "")


def _error_figure(summary: dict[str, Any]) -> Any:
    figure, axes = new_figure(8.0, 4.4)
    axes.axhspan(-3.0, 3.0, color="#e8f1e9", zorder=0)
    axes.axhline(0.0, color=INK, linewidth=0.8)
    lines = [k for k in APPROACHES if k in summary["measurement"] and k not in _FAR]
    for colour, key in zip(COLOURS, lines, strict=False):
        errors = summary["measurement"][key]["by_win_share"]
        x = [100.0 * float(share) for share in errors]
        y = [100.0 * error for error in errors.values()]
        axes.plot(x, y, marker="o", markersize=4, color=colour, label=key.replace("_", " "))
    axes.set_xscale("log")
    axes.set_xticks([1, 2, 5, 10, 20, 40, 100], ["1", "2", "5", "10", "20", "40", "100"])
    axes.minorticks_off()
    axes.set_xlabel("requests won (%)")
    axes.set_ylabel("error of unique reach (%)")
    axes.set_title("Green: within 3 %. A and B are off the scale.", fontsize=10, color=MUTED)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def _reach_figure(summary: dict[str, Any]) -> Any:
    results = summary["optimisation"]
    order = sorted(results, key=lambda key: float(results[key]["relative_reach_mean"]))
    off_scale = [key for key in order if results[key]["relative_reach_mean"] < _OFF_SCALE]
    order = [key for key in order if key not in off_scale]
    figure, axes = new_figure(10.0, 0.34 * len(order) + 1.8)
    for place, key in enumerate(order):
        result = results[key]
        ours = key.startswith("planning")
        colour = COLOURS[0] if ours else (MUTED if key == "gateway_cap" else COLOURS[1])
        spread = [100.0 * value for value in result["by_budget"].values()]
        axes.plot([min(spread), max(spread)], [place, place], color=colour, linewidth=2.0)
        axes.plot(100.0 * result["relative_reach_mean"], place, "o", color=colour)
        if key not in {"planning_k1", "gateway_cap"}:
            axes.plot(
                100.0 * result["relative_hindsight_mean"], place, "|", color=INK, markersize=9
            )
    axes.axvline(100.0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(order)), [_name(key) for key in order])
    axes.set_ylim(-0.6, len(order) - 0.4)
    axes.set_xlabel("reach at equal budget (% of k = 1)")
    title = "Dot: mean; bar: over budgets; | : hindsight limit. Blue: ours."
    for key in off_scale:
        title += f"\nOff the scale: {_name(key)}, {results[key]['relative_reach_mean']:.0%}."
    axes.set_title(title, fontsize=10, color=MUTED)
    return figure
