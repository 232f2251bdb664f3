"""Figure 5 (Section 5.3): how unevenly the members of a group visit."""

from typing import Any

import numpy as np

from kreach.lab.exhibits import COLOURS, INK, PAPER_MARK, Exhibit, new_figure
from kreach.lab.scenarios import GROUP_SIZE, Run
from kreach.lab.trials import generator_for
from kreach.numeric.types import FloatArray

__all__ = ["make"]

SHOWN = 6


def make(run: Run) -> Exhibit:
    """Visit shares of the members of random groups of 20, ranked, for six groups."""
    shares = _ranked_shares(run)
    effective = 1.0 / (shares**2).sum(axis=1)
    numbers = {
        "visits_a_head": float(run.traffic.visits_by_person.mean()),
        "median_visits": float(np.median(run.traffic.visits_by_person)),
        "effective_members": float(effective.mean()),
        "heaviest_share": float(shares[:, 0].mean()),
        "heaviest_shares_shown": shares[:SHOWN, 0].tolist(),
    }
    rows = [
        {"group": group, "rank": rank + 1, "share": share}
        for group, mine in enumerate(shares[:SHOWN].tolist())
        for rank, share in enumerate(mine)
    ]
    return Exhibit(
        "fig5",
        "Figure 5: how unevenly the members of a group visit",
        "The number of visits varies a lot within groups of 20, and from group to group.",
        f"In {len(shares):,} random groups the most frequent visitor makes "
        f"{numbers['heaviest_share']:.0%} of the visits on average, "
        f"{shares[:SHOWN, 0].min():.0%} to {shares[:SHOWN, 0].max():.0%} in the six shown; "
        f"20 members are worth {effective.mean():.1f} equally frequent ones (1/Σq²).",
        "The paper's data is not public, and its figure states no number.",
        {"visits": run.traffic.source, "group size": GROUP_SIZE, "groups shown": SHOWN},
        numbers,
        rows,
        figure=_figure(shares),
    )


def _ranked_shares(run: Run) -> FloatArray:
    """One row per random group in which anybody visits, the most frequent visitor first."""
    visits = generator_for(run.seed, 5).permutation(run.traffic.visits_by_person)
    groups = len(visits) // GROUP_SIZE
    table = visits[: groups * GROUP_SIZE].reshape(groups, GROUP_SIZE)
    table = np.sort(table[table.sum(axis=1) > 0], axis=1)[:, ::-1]
    shares: FloatArray = table / table.sum(axis=1, keepdims=True)
    return shares


def _figure(shares: FloatArray) -> Any:
    figure, axes = new_figure(8.0, 5.0)
    rank = np.arange(1, GROUP_SIZE + 1)
    for colour, (group, mine) in zip(COLOURS, enumerate(shares[:SHOWN]), strict=False):
        axes.plot(
            rank, 100.0 * mine, "o-", color=colour, markersize=3.5, label=f"group {group + 1}"
        )
    axes.plot(rank, 100.0 * shares.mean(axis=0), color=INK, linewidth=2.5, label="all groups, mean")
    even = 100.0 / GROUP_SIZE
    axes.axhline(even, color=PAPER_MARK, linestyle="--", label="equal shares (Theorem 1)")
    axes.set(xticks=[1, 5, 10, 15, 20], title="Visits within groups of 20")
    axes.set_xlabel("member, by rank of visits")
    axes.set_ylabel("share of the group's visits (%)")
    axes.set_ylim(bottom=0.0)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4, frameon=False)
    return figure
