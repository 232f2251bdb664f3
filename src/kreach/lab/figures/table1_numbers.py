"""The numbers of Table 1: the table at one share of people targeted, and the sweep over shares."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kreach.lab.scenarios import APPROACHES
from kreach.lab.targeted import VISIBLE_APPROACHES
from kreach.numeric.types import FloatArray

__all__ = [
    "BY_PAPER",
    "PAPER_MEANS",
    "PAPER_VARIANCES",
    "TITLES",
    "by_campaign",
    "order_of",
    "sweep_table",
    "table_numbers",
]

Row = dict[str, Any]

PAPER_MEANS = {"impressions": 0.8599, "groups": 0.8842, "uniform": 0.8695, "profiled": 0.9412}
PAPER_VARIANCES = {"impressions": 0.023, "groups": 0.018, "uniform": 0.023, "profiled": 0.005}
BY_PAPER = (
    "A 85.99 %, B 88.42 %, C 86.95 %, D 94.12 % on average, with variances 0.023, 0.018, 0.023 "
    "and 0.005: D keeps the most."
)
TITLES = {**APPROACHES, **VISIBLE_APPROACHES}
_LETTERS = {approach: APPROACHES[approach][0] for approach in PAPER_MEANS}
_LEADS = (
    ("profiled", "uniform"),
    ("visible", "uniform"),
    ("visible_dispersed_ahead", "uniform_ahead"),
)
_MEMBERS = ("visible_members", "active_members", "effective_members")


def order_of(means: Mapping[str, float]) -> str:
    """The paper's four approaches, best first.

    >>> order_of({"impressions": 0.86, "groups": 0.88, "uniform": 0.87, "profiled": 0.94})
    'D > B > C > A'
    """
    best_first = sorted(PAPER_MEANS, key=lambda approach: -means[approach])
    return " > ".join(_LETTERS[approach] for approach in best_first)


def table_numbers(rows: Sequence[Row], shares: Sequence[float], share: float) -> Row:
    """The table at `share`, and the sweep over `shares` (`by_share`)."""
    by_share = {f"{one:g}": _at(rows, one) for one in shares}
    here = [row for row in rows if row.get("share", share) == share]  # with "alone"
    numbers: Row = {"order": by_share[f"{share:g}"]["order"]}
    for approach in dict.fromkeys(row["approach"] for row in here if row["approach"] != "alone"):
        roas = by_campaign(here, approach, "relative_roas")
        numbers[f"{approach}_mean"] = float(roas.mean())
        numbers[f"{approach}_variance"] = float(roas.var(ddof=1))
        for what in ("relative_reach", "spent_share"):
            numbers[f"{approach}_{what}"] = float(by_campaign(here, approach, what).mean())
    for one, other in _LEADS:
        lead, error = _lead(here, one, other)
        numbers[f"{one}_over_{other}"], numbers[f"{one}_over_{other}_error"] = lead, error
    paper_order = order_of(PAPER_MEANS)
    return {
        **numbers,
        **{name: by_share[f"{share:g}"][name] for name in _MEMBERS},
        "share_targeted": share,
        "closest_share": min(shares, key=lambda s: by_share[f"{s:g}"]["distance"]),
        "shares_in_order": [s for s in shares if by_share[f"{s:g}"]["order"] == paper_order],
        "by_share": by_share,
    }


def by_campaign(rows: Sequence[Row], approach: str, what: str) -> FloatArray:
    """A column of one approach: for each campaign the mean over its draws of groups."""
    values: dict[int, list[float]] = {}
    for row in rows:
        if row["approach"] == approach:
            values.setdefault(row["campaign"], []).append(row[what])
    return np.array([np.mean(of_one) for of_one in values.values()])


def _at(rows: Sequence[Row], share: float) -> Row:
    """All approaches at one share. `distance` is the root mean square to the paper's four means."""
    here = [row for row in rows if row.get("share") == share]
    means, errors = {}, {}
    for approach in TITLES:
        means[approach] = float(by_campaign(here, approach, "relative_roas").mean())
        error = by_campaign(here, approach, "measured_error")
        errors[approach] = {
            "mean_error": float(error.mean()),
            "mean_absolute_error": float(np.abs(error).mean()),
        }
    away = [means[approach] - stated for approach, stated in PAPER_MEANS.items()]
    gain, gain_error = _lead(here, "visible", "uniform")
    papers = np.array([by_campaign(here, approach, "relative_roas") for approach in PAPER_MEANS])
    best = list(PAPER_MEANS).index("profiled")
    return {
        **{name: float(np.mean([row[name] for row in here])) for name in _MEMBERS},
        "order": order_of(means),
        "campaigns_led_by_profiled": int((papers.argmax(axis=0) == best).sum()),
        "distance": float(np.sqrt(np.mean(np.square(away)))),
        "relative_roas": means,
        "measurement": errors,
        "visible_over_uniform": gain,
        "visible_over_uniform_error": gain_error,
    }


def _lead(rows: Sequence[Row], one: str, other: str) -> tuple[float, float]:
    """How much more relative ROAS one approach has on the same campaigns, and the error."""
    mine, theirs = (by_campaign(rows, name, "relative_roas") for name in (one, other))
    away = mine - theirs
    return float(away.mean()), float(away.std(ddof=1) / np.sqrt(len(away)))


def sweep_table(numbers: Row) -> list[Row]:
    """The sweep as a table for people: ROAS in per cent, then mean errors of unique reach."""
    table = []
    for share, part in numbers["by_share"].items():
        roas, errors = part["relative_roas"], part["measurement"]
        table.append(
            {
                "targeted": f"{float(share):.0%}",
                "visible of 20": f"{part['visible_members']:.2f}",
                "effective": f"{part['effective_members']:.2f}",
                "order": part["order"],
                **{_LETTERS[a]: f"{roas[a]:.1%}" for a in PAPER_MEANS},
                "visible": f"{roas['visible']:.1%}",
                "visible, one dispersion": f"{roas['visible_dispersed']:.1%}",
                **{
                    f"error {name}": f"{errors[approach]['mean_error']:+.0%}"
                    for name, approach in _ERRORS.items()
                },
            }
        )
    return table


_ERRORS = {
    "C": "uniform",
    "D": "profiled",
    "visible": "visible",
    "visible, one dispersion": "visible_dispersed",
}
