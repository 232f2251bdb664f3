"""The drawing of Table 1: above the paper's table and what explains it, below what we add."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kreach.lab.exhibits import COLOURS, INK, MUTED, PAPER_MARK, new_figure
from kreach.lab.figures.table1_numbers import PAPER_MEANS, TITLES, by_campaign

__all__ = ["draw_table1"]

Row = dict[str, Any]

_COLOURS = dict(
    zip(("impressions", "groups", "uniform", "profiled", "dispersed"), COLOURS, strict=False)
)
_COLOURS |= {"visible": COLOURS[6], "visible_dispersed": COLOURS[4]}
_SHOWN = {
    "impressions": "A every\nimpression",
    "groups": "B every\ngroup",
    "uniform": "C\nuniform",
    "profiled": "D visit\nshares",
    "visible": "C, visible\nmembers",
    "visible_dispersed": "visible, one\ndispersion",
}
_OURS = ("uniform", "profiled", "visible", "visible_dispersed")


def draw_table1(rows: Sequence[Row], numbers: Row, share: float) -> Any:
    """Four panels: the table, the sweep that explains it, and the gain of the visible members."""
    figure, (table, sweep, gain, error) = new_figure(13.0, 10.4, columns=2, rows=2)
    _table(table, [row for row in rows if row.get("share") == share], numbers)
    by_share = numbers["by_share"]
    _curves(sweep, by_share, tuple(PAPER_MEANS), share)
    for approach, stated in PAPER_MEANS.items():  # beside the curves, at the share of the table
        sweep.plot(
            *(share, 100.0 * stated),
            marker="D",
            markersize=8,
            color=_COLOURS[approach],
            markeredgecolor=PAPER_MARK,
            markeredgewidth=2.0,
            zorder=5,
        )
    sweep.plot(
        *([], [], "D"),
        color="white",
        markeredgecolor=PAPER_MARK,
        markeredgewidth=2.0,
        label="the paper's mean",
    )
    sweep.set_title("The paper's approaches, by visible members")
    sweep.set_ylabel("relative ROAS, mean of ten campaigns (%)")
    _curves(gain, by_share, _OURS, share)
    gain.set_title("Counting with visible members: ROAS")
    gain.set_ylabel("relative ROAS, mean of ten campaigns (%)")
    _errors(error, by_share, share)
    for axes, place in ((sweep, "lower left"), (gain, "center right"), (error, "upper right")):
        _members_axis(axes, by_share)
        axes.legend(frameon=False, fontsize=9, loc=place)
    return figure


def _table(axes: Any, rows: Sequence[Row], numbers: Row) -> None:
    for at, approach in enumerate(_SHOWN):
        roas = 100.0 * by_campaign(rows, approach, "relative_roas")
        spread = at + np.linspace(-0.25, 0.05, len(roas))
        axes.plot(spread, roas, "o", color=_COLOURS[approach], alpha=0.5, markersize=4.5)
        mean, std = float(roas.mean()), float(roas.std(ddof=1))
        axes.errorbar(at + 0.18, mean, std, fmt="o", color=INK, capsize=3, markersize=4)
        beside = {"textcoords": "offset points", "va": "center", "fontsize": 9}
        axes.annotate(f"{mean:.1f}", (at + 0.18, mean), (6, 7), color=INK, **beside)
        if approach in PAPER_MEANS:
            stated = 100.0 * PAPER_MEANS[approach]
            axes.plot([at - 0.35, at + 0.12], [stated, stated], color=PAPER_MARK, linewidth=2.0)
    axes.plot([], [], "o", color=MUTED, label="campaigns, budgets rise from left to right")
    axes.errorbar([], [], [], fmt="o", color=INK, capsize=3, label="our mean ± std. deviation")
    axes.plot([], [], color=PAPER_MARK, linewidth=2.0, label="the paper's mean")
    axes.axhline(100.0, color=MUTED, linestyle="--", linewidth=1.0)
    axes.set_xticks(range(len(_SHOWN)), labels=list(_SHOWN.values()))
    axes.set_xlim(-0.5, len(_SHOWN) - 0.3)
    axes.set_ylim(bottom=axes.get_ylim()[0] - 10.0)  # for the legend
    axes.set_title(
        f"Table 1: {numbers['share_targeted']:.0%} targeted, "
        f"{numbers['visible_members']:.1f} visible members of 20"
    )
    axes.set_ylabel("relative ROAS (%)")
    axes.legend(frameon=False, fontsize=9, loc="lower left")


def _curves(axes: Any, by_share: Row, approaches: Sequence[str], share: float) -> None:
    at = [float(one) for one in by_share]
    for approach in approaches:
        means = [100.0 * part["relative_roas"][approach] for part in by_share.values()]
        colour = _COLOURS[approach]
        axes.plot(at, means, "o-", color=colour, markersize=4.5, label=TITLES[approach])
    axes.axhline(100.0, color=MUTED, linestyle="--", linewidth=1.0)
    axes.axvline(share, color=MUTED, linestyle=":", linewidth=1.0)


def _errors(axes: Any, by_share: Row, share: float) -> None:
    at = [float(one) for one in by_share]
    for approach in _OURS:
        mean = [100.0 * p["measurement"][approach]["mean_error"] for p in by_share.values()]
        axes.plot(at, mean, "o-", color=_COLOURS[approach], markersize=4.5, label=TITLES[approach])
    axes.axhline(0.0, color=MUTED, linestyle="--", linewidth=1.0)
    axes.axvline(share, color=MUTED, linestyle=":", linewidth=1.0)
    axes.set_title("Counting with visible members: measurement")
    axes.set_ylabel("mean error of unique reach (%)")


def _members_axis(axes: Any, by_share: Row) -> None:
    """The share of people targeted, and under it how many members of 20 that lets one see."""
    labels = [
        f"{float(share):.0%}\n{part['visible_members']:.1f}\n{part['effective_members']:.1f}"
        for share, part in by_share.items()
    ]
    axes.set_xscale("log")
    axes.set_xticks([float(share) for share in by_share], labels=labels)
    axes.minorticks_off()
    axes.set_xlabel("people targeted / visible members of 20 / effective ones (log scale)")
