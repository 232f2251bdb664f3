"""People that a plan forecasts, over those whom the planning buyer then reached.

python -m benchmarks.study_forecast --visits F --prices F [--split T] [--campaigns 2]
    [--campaign-size 5000]

Real visits and prices. Prices and the number of requests are known to the plan; how they fall on
groups is not. Columns: no visit model; the model with requests by group size; the model with
requests by the law of visits, as every plan has it; the model with the flight's own requests by
group. k = 1 is groups of one person, against our buyer that knows every person.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import kreach as kr
from benchmarks.timing import print_table
from kreach.adsystem.bidding.outlook import OutlookMaker
from kreach.boundary.times import as_instant
from kreach.lab.approaches import GroupedCampaign
from kreach.lab.buyers import buy, buy_at_k1, full_reach_cost
from kreach.lab.evaluate import BUDGET_SHARES, StudyOptions, site_of, tasks_of
from kreach.numeric.types import FloatArray, IntArray

_COLUMNS = ("no model", "by size", "by visits", "flight's own")


def _forecasts(
    grouped: GroupedCampaign, sizes: IntArray, groups: IntArray, budgets: list[float]
) -> FloatArray:
    """People by budget (row) and column; `groups` has the group of each request of the flight."""
    study, model = grouped.campaign, grouped.model
    audience = kr.Audience.disjoint(sizes)
    flight = np.bincount(groups, minlength=len(sizes))
    market = kr.EmpiricalMarket(study.price)
    settings: list[dict[str, Any]] = [
        {"traffic": sizes},
        {"traffic": sizes, "model": model},
        {"model": model},
        {"traffic": flight, "model": model},
    ]
    people = []
    for setting in settings:
        maker = OutlookMaker(audience, market, len(study.person), 1, **setting)
        people.append([maker.for_budget(budget).people for budget in budgets])
    return np.array(people).T


def main(arguments: list[str] | None = None) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=Path, required=True)
    parser.add_argument("--prices", type=Path, required=True)
    parser.add_argument("--split", default=None)
    parser.add_argument("--campaigns", type=int, default=2)
    parser.add_argument("--campaign-size", type=int, default=5_000)
    given = parser.parse_args(arguments)
    options = StudyOptions(
        visits=given.visits,
        prices=given.prices,
        split=None if given.split is None else as_instant("split", given.split),
        campaigns=given.campaigns,
        campaign_size=given.campaign_size,
        seed=1,
    )
    found: dict[str, list[FloatArray]] = {}
    for task in tasks_of(options, site_of(options), replays=False):
        study = task.campaign
        budgets = [round(share * full_reach_cost(study), 2) for share in BUDGET_SHARES]
        for strategy in task.strategies:
            grouped = task.grouped(strategy)
            bought = [buy("planning_visitors", grouped, budget, 1).reach for budget in budgets]
            people = _forecasts(grouped, grouped.sizes, grouped.groups, budgets)
            found.setdefault(strategy, []).append(people / np.array(bought)[:, None])
        grouped = task.grouped(next(iter(task.strategies)))  # for its model
        alone = np.ones(study.people.count, dtype=np.int64)
        known = [
            buy_at_k1(study, budget, 1, planning=True, model=grouped.model).reach
            for budget in budgets
        ]
        people = _forecasts(grouped, alone, study.person, budgets)
        found.setdefault("k = 1", []).append(people / np.array(known)[:, None])
    rows = [
        [name, f"{100.0 * share:.0f} %", *map(_range, np.stack(ratios)[:, at].T)]
        for name, ratios in found.items()
        for at, share in enumerate(BUDGET_SHARES)
    ]
    print_table("Forecast people over people reached", ["groups", "budget", *_COLUMNS], rows)


def _range(ratios: FloatArray) -> str:
    low, high = float(ratios.min()), float(ratios.max())
    return f"{low:.2f} to {high:.2f}" if len(ratios) > 1 else f"{low:.2f}"


if __name__ == "__main__":
    main()
