"""Summary, figures and advice from the rows of `kreach evaluate`."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kreach.boundary.times import iso_text
from kreach.lab.approaches import APPROACHES
from kreach.lab.evaluate import BUDGET_SHARES, Row, StudyOptions
from kreach.lab.exhibits import COLOURS, INK, MUTED, Exhibit, new_figure
from kreach.lab.judge import CAPS, WINDOWS, Cell, cells_of
from kreach.lab.site import Site

__all__ = ["advice_of", "exhibits_of", "summary_of"]

_PAPER_TABLE = {"impressions": 0.8599, "groups": 0.8842, "uniform": 0.8695, "profiled": 0.9412}
_CANDIDATES = ("uniform", "dispersed", "model", "model_counted")  # that one could use
_OFF_CHART = 40.0  # per cent
_OFF_SCALE = 0.6  # of reach at k = 1; below, a buyer would flatten the others
_KNOW_PEOPLE = ("planning_k1", "gateway_cap")  # the limit is one of those who do not
_NAMES = {
    "impressions": "paper's bidder, A",
    "groups": "paper's bidder, B",
    "uniform": "paper's bidder, C",
    "profiled": "paper's bidder, D of the flight",
    "profiled_history": "paper's bidder, D of history",
    "dispersed": "paper's bidder, one dispersion",
    "visitors": "paper's bidder, visitor filter",
    "planning": "planning ahead",
    "planning_visitors": "planning ahead + visitor filter",
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
    kinds = ("measurement", "optimisation")
    keyed = [row | {"key": _key(row, options.strategy)} for row in rows if row["kind"] in kinds]
    measured = [row for row in keyed if row["kind"] == "measurement"]
    bought = [row for row in keyed if row["kind"] == "optimisation"]
    return {
        "setting": _setting(options, site),
        "measurement": {key: _measurement(_of(measured, key)) for key in _keys(measured)},
        "optimisation": {key: _optimisation(_of(bought, key)) for key in _keys(bought)},
        "ingredients": _ingredients(bought, options),
        "gateway_memory": _gateway_memory([r for r in rows if r["kind"] == "gateway_memory"]),
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
    """Random wins over the whole flight at cap 1, as in the paper; then every pattern and window.

    `by_pattern` and `by_pattern_cap_3` hold for each pattern and window the mean error, the share
    of 95 % intervals that held the truth, and their mean width beside it.
    """
    paper = [
        row
        for row in rows
        if (row["pattern"], row["window"], row["cap"]) == ("random", "flight", 1)
    ]
    campaigns = list(dict.fromkeys(row["campaign"] for row in paper))
    result = {
        "mean_error": _mean(row["error"] for row in paper),
        "mean_absolute_error": _mean(abs(row["error"]) for row in paper),
        "by_win_share": {
            f"{share:g}": _mean(row["error"] for row in paper if row["win_share"] == share)
            for share in dict.fromkeys(row["win_share"] for row in paper)
        },
        "by_campaign": {
            name: _mean(row["error"] for row in paper if row["campaign"] == name)
            for name in campaigns
        },
    }
    for cap in CAPS:
        name = "by_pattern" if cap == 1 else f"by_pattern_cap_{cap}"
        result[name] = _nested(cells_of(row for row in rows if row["cap"] == cap))
    return result


def _nested(cells: dict[tuple[str, str], Cell]) -> dict[str, dict[str, dict[str, float]]]:
    nested: dict[str, dict[str, dict[str, float]]] = {}
    for (pattern, window), cell in cells.items():
        nested.setdefault(pattern, {})[window] = {
            "error": cell.error,
            "coverage": cell.coverage,
            "width": cell.width,
            "reports": cell.reports,
        }
    return nested


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
        "relative_own_k1_mean": _mean(row["relative_own_k1"] for row in rows),
        "relative_hindsight_mean": _mean(row["relative_hindsight"] for row in rows),
        "by_budget": _by_budget(rows, "relative_reach"),
        "by_budget_own_k1": _by_budget(rows, "relative_own_k1"),
        "by_budget_hindsight": _by_budget(rows, "relative_hindsight"),
        "by_budget_of_hindsight": _by_budget(rows, "share_of_hindsight"),
        "reported_reach_error": _by_budget(
            [row | {"error": row["reported_reach"] / max(row["reach"], 1) - 1.0} for row in rows],
            "error",
        ),
        "by_campaign": {
            name: _mean(row["relative_reach"] for row in rows if row["campaign"] == name)
            for name in campaigns
        },
    }


def _by_budget(rows: Sequence[Row], value: str) -> dict[str, float]:
    return {
        f"{share:g}": _mean(row[value] for row in rows if row["budget_share"] == share)
        for share in BUDGET_SHARES
    }


def _gateway_memory(rows: Sequence[Row]) -> dict[str, Any]:
    """By grouping and by how long the gateway remembers: reach relative to k = 1."""
    result: dict[str, Any] = {}
    for strategy in dict.fromkeys(row["strategy"] for row in rows):
        for memory in dict.fromkeys(row["memory"] for row in rows):
            mine = [r for r in rows if (r["strategy"], r["memory"]) == (strategy, memory)]
            result.setdefault(strategy, {})[memory] = {
                "relative_reach_mean": _mean(row["relative_reach"] for row in mine),
                "measured_error_mean": _mean(
                    row["measured_reach"] / max(row["reach"], 1) - 1.0 for row in mine
                ),
                "by_budget": {
                    f"{share:g}": _mean(
                        row["relative_reach"] for row in mine if row["budget_share"] == share
                    )
                    for share in BUDGET_SHARES
                },
            }
    return result


def _ingredients(rows: Sequence[Row], options: StudyOptions) -> dict[str, float]:
    """What each ingredient adds to reach at equal budget, in points of the reach at k = 1."""

    def reach(key: str) -> float:
        matching = _of(rows, key)
        return _mean(row["relative_reach"] for row in matching) if matching else float("nan")

    steps = {
        "paper_bidder_uniform": reach("uniform"),
        "dispersion": reach("dispersed") - reach("uniform"),
        "planning_ahead": reach("planning") - reach("dispersed"),
        "visitor_filter": reach("planning_visitors") - reach("planning"),
    }
    for name in options.others:
        if name != options.strategy:
            better = reach(f"planning_visitors@{name}")
            steps[f"grouping_{name}"] = better - reach("planning_visitors")
    return {key: value for key, value in steps.items() if np.isfinite(value)}


def advice_of(options: StudyOptions, summary: dict[str, Any]) -> list[str]:
    """Recommendations that the results support."""
    lines = [_measurement_advice(summary["measurement"])]
    bought = summary["optimisation"]
    paper, ours = bought["uniform"], bought["planning_visitors"]
    gain = ours["relative_reach_mean"] - paper["relative_reach_mean"]
    verdict = "reaches more" if gain > 0.005 else "does not reach more"
    lines.append(
        f"With {options.strategy} groups of {options.group_size} the paper's bidder keeps "
        f"{paper['relative_reach_mean']:.0%} of the reach at k = 1; "
        f"planning ahead with the visitor filter {verdict}: {ours['relative_reach_mean']:.0%}."
    )
    others = {k: v for k, v in bought.items() if k.startswith("planning_visitors@")}
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
    lines.append(_own_advice(options, bought))
    lines.append(_limit_advice(options, bought))
    return lines


def _limit_advice(options: StudyOptions, bought: dict[str, Any]) -> str:
    """How close our buyer gets to what nobody without identities gets past, budget by budget."""
    ours = {k: v for k, v in bought.items() if k.partition("@")[0] == "planning_visitors"}
    name, best = max(ours.items(), key=lambda item: float(item[1]["relative_reach_mean"]))
    strategy = name.partition("@")[2] or options.strategy
    parts = [
        f"{best['by_budget'][share]:.3f} of the paper's bidder at k = 1 where the limit is "
        f"{best['by_budget_hindsight'][share]:.3f}, {value:.0%} of it, at a budget of "
        f"{float(share):.0%}"
        for share, value in best["by_budget_of_hindsight"].items()
    ]
    return f"How much is left to gain without identities, {strategy} groups: {'; '.join(parts)}."


def _own_advice(options: StudyOptions, bought: dict[str, Any]) -> str:
    """What anonymity costs whoever uses our bidder anyway, in the grouping that loses least."""
    ours = {k: v for k, v in bought.items() if k.partition("@")[0] == "planning_visitors"}
    name, best = max(ours.items(), key=lambda item: float(item[1]["relative_own_k1_mean"]))
    by_budget = ", ".join(
        f"{value:.0%} at a budget of {float(share):.0%}"
        for share, value in best["by_budget_own_k1"].items()
    )
    strategy = name.partition("@")[2] or options.strategy
    return (
        f"What anonymity costs: {strategy} groups of {options.group_size} keep "
        f"{best['relative_own_k1_mean']:.0%} of what the same bidder reaches with everybody known "
        f"({by_budget})."
    )


def _measurement_advice(measured: dict[str, Any]) -> str:
    """The estimator with the smallest error over all patterns and windows, and where it fails."""
    candidates = {key: _flat(measured[key]) for key in _CANDIDATES if key in measured}
    typical = {
        key: _mean(abs(error) for error in cells.values()) for key, cells in candidates.items()
    }
    best = min(typical, key=lambda key: typical[key])
    (pattern, window), worst = max(candidates[best].items(), key=lambda item: abs(item[1]))
    held = [
        cell["coverage"]
        for windows in measured[best]["by_pattern"].values()
        for cell in windows.values()
    ]
    rest = ", ".join(f"{key} {value:.1%}" for key, value in typical.items() if key != best)
    return (
        f"Measure with “{best}” ({APPROACHES[best]}): over all buying patterns and windows unique "
        f"reach is off by {typical[best]:.1%} on average ({rest}), by {worst:+.1%} at worst "
        f"({pattern}, {window}); {_mean(held):.0%} of its 95% intervals held."
    )


def _flat(measurement: dict[str, Any]) -> dict[tuple[str, str], float]:
    return {
        (pattern, window): cell["error"]
        for pattern, windows in measurement["by_pattern"].items()
        for window, cell in windows.items()
    }


def exhibits_of(
    options: StudyOptions, summary: dict[str, Any], rows: Sequence[Row]
) -> list[Exhibit]:
    """The figures of the study with their rows."""
    measured = [row for row in rows if row["kind"] == "measurement"]
    bought = [row for row in rows if row["kind"] == "optimisation"]
    setting = {"groups of": options.group_size, "campaigns": options.campaigns}
    exhibits = [
        Exhibit(
            "measurement",
            "How far off measured unique reach is",
            "C overestimates, D is the most accurate of A to D (Figure 6).",
            _measurement_text(summary),
            "The paper shows one win rate and one window; here requests are won by many patterns "
            "and by the buyers themselves, and measured in windows from an hour to the flight.",
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
            table=_reach_table(summary, options),
        ),
    ]
    if summary["gateway_memory"]:
        exhibits.append(_memory_exhibit(summary, rows, setting))
    return exhibits


def _memory_exhibit(
    summary: dict[str, Any], rows: Sequence[Row], setting: dict[str, Any]
) -> Exhibit:
    found = summary["gateway_memory"]
    parts = [
        f"{strategy} groups "
        + ", ".join(f"{name} {cell['relative_reach_mean']:.1%}" for name, cell in cells.items())
        for strategy, cells in found.items()
    ]
    return Exhibit(
        "gateway_memory",
        "Reach against how long the publisher remembers whom it showed the ad",
        "",
        f"Mean over budgets, by memory: {'; '.join(parts)}.",
        "The publisher drops bids for people who saw the ad within its memory, and forgets them "
        "after it. The ad system knows the hours only.",
        setting | {"budgets": ", ".join(f"{share:g}" for share in BUDGET_SHARES)},
        {
            f"{strategy}, {name}": cell["relative_reach_mean"]
            for strategy, cells in found.items()
            for name, cell in cells.items()
        },
        [row for row in rows if row["kind"] == "gateway_memory"],
        figure=_memory_figure(found),
    )


def _memory_figure(found: dict[str, Any]) -> Any:
    """A panel per budget, a line per grouping."""
    figure, panels = new_figure(10.0, 3.6, len(BUDGET_SHARES))
    for axes, share in zip(panels, BUDGET_SHARES, strict=True):
        for colour, (strategy, cells) in zip(COLOURS, found.items(), strict=False):
            reach = [100.0 * cell["by_budget"][f"{share:g}"] for cell in cells.values()]
            axes.plot(range(len(reach)), reach, "o-", color=colour, label=f"{strategy} groups")
        names = list(next(iter(found.values())))
        axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
        axes.axhline(100.0, color=INK, linewidth=0.8)
        axes.set_title(f"budget {share:.0%}", fontsize=10, color=MUTED)
    panels[0].set_ylabel("reach (% of k = 1)")
    panels[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    return figure


def _measurement_text(summary: dict[str, Any]) -> str:
    parts = []
    for key in _CANDIDATES:
        if key in summary["measurement"]:
            errors = list(_flat(summary["measurement"][key]).values())
            typical = _mean(abs(error) for error in errors)
            parts.append(
                f"{key} {min(errors):+.0%} to {max(errors):+.0%}, {typical:.1%} on average"
            )
    return "Mean error by buying pattern and window: " + "; ".join(parts) + "."


def _optimisation_text(summary: dict[str, Any]) -> str:
    keys = ["uniform", "planning_visitors"]
    keys += [key for key in summary["optimisation"] if key.startswith("planning_visitors@")]
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
    """A panel per window, a line per buying pattern, a dot per estimator; green is within 3 %."""
    measured = {
        key: _flat(summary["measurement"][key])
        for key in _CANDIDATES
        if key in summary["measurement"]
    }
    shown = next(iter(measured.values()))
    patterns = list(dict.fromkeys(pattern for pattern, _ in shown))[::-1]
    windows = [name for name in WINDOWS if any(window == name for _, window in shown)]
    width, height = 3.2 + 1.9 * len(windows), 0.3 * len(patterns) + 1.8
    figure, panels = new_figure(width, height, len(windows))
    panels = [panels] if len(windows) == 1 else panels
    for axes, window in zip(panels, windows, strict=True):
        axes.axvspan(-3.0, 3.0, color="#e8f1e9", zorder=0)
        axes.axvline(0.0, color=INK, linewidth=0.8)
        for colour, (key, errors) in zip(COLOURS, measured.items(), strict=False):
            places = [at for at, pattern in enumerate(patterns) if (pattern, window) in errors]
            values = [100.0 * errors[patterns[at], window] for at in places]
            inside = [min(max(value, -_OFF_CHART), _OFF_CHART) for value in values]
            axes.plot(inside, places, "o", markersize=5, color=colour, label=key, clip_on=False)
        axes.set_xlim(-_OFF_CHART, _OFF_CHART)
        axes.set_xticks([-30, 0, 30])
        axes.set_title(window, fontsize=10, color=MUTED)
        axes.set_yticks(range(len(patterns)), patterns if axes is panels[0] else [])
        axes.set_ylim(-0.6, len(patterns) - 0.4)
    panels[len(windows) // 2].set_xlabel(
        f"error of unique reach (%); green within 3 %, dots at the edge beyond {_OFF_CHART:.0f} %"
    )
    panels[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    return figure


def _reach_table(summary: dict[str, Any], options: StudyOptions) -> list[Row]:
    """A row for each grouping, buyer and budget."""
    return [
        {
            "grouping": key.partition("@")[2] or options.strategy,
            "buyer": _NAMES.get(key.partition("@")[0], key),
            "budget": f"{float(share):.0%}",
            "of the paper's bidder at k = 1": f"{result['by_budget'][share]:.3f}",
            "of our bidder at k = 1": f"{result['by_budget_own_k1'][share]:.3f}",
            "hindsight limit (of the paper's)": f"{result['by_budget_hindsight'][share]:.3f}",
            "of the hindsight limit": ""
            if key in _KNOW_PEOPLE
            else f"{result['by_budget_of_hindsight'][share]:.3f}",
            "error of the reach it reports": f"{result['reported_reach_error'][share]:+.1%}",
        }
        for key, result in summary["optimisation"].items()
        for share in result["by_budget"]
    ]


def _reach_figure(summary: dict[str, Any]) -> Any:
    """Left: relative to the paper's bidder at k = 1; right: to ours."""
    results = summary["optimisation"]
    order = sorted(results, key=lambda key: float(results[key]["relative_reach_mean"]))
    off_scale = [key for key in order if results[key]["relative_reach_mean"] < _OFF_SCALE]
    order = [key for key in order if key not in off_scale]
    figure, panels = new_figure(13.0, 0.34 * len(order) + 1.8, 2)
    kinds = (
        ("relative_reach_mean", "by_budget", "% of the paper's bidder at k = 1"),
        ("relative_own_k1_mean", "by_budget_own_k1", "% of our bidder at k = 1"),
    )
    for axes, (mean, by_budget, label) in zip(panels, kinds, strict=True):
        for place, key in enumerate(order):
            result = results[key]
            ours = key.startswith("planning")
            colour = COLOURS[0] if ours else (MUTED if key == "gateway_cap" else COLOURS[1])
            spread = [100.0 * value for value in result[by_budget].values()]
            axes.plot([min(spread), max(spread)], [place, place], color=colour, linewidth=2.0)
            axes.plot(100.0 * result[mean], place, "o", color=colour)
            if axes is panels[0] and key not in _KNOW_PEOPLE:
                limit = 100.0 * result["relative_hindsight_mean"]
                axes.plot(limit, place, "|", color=INK, markersize=9)
        axes.axvline(100.0, color=INK, linewidth=0.8)
        axes.set_yticks(
            range(len(order)), [_name(key) if axes is panels[0] else "" for key in order]
        )
        axes.set_ylim(-0.6, len(order) - 0.4)
        axes.set_xlabel(f"reach at equal budget ({label})")
    title = "Dot: mean; bar: over budgets; | : hindsight limit. Blue: ours."
    for key in off_scale:
        title += f"\nOff the scale: {_name(key)}, {results[key]['relative_reach_mean']:.0%}."
    panels[0].set_title(title, fontsize=10, color=MUTED)
    return figure
