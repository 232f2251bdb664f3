"""How far off the reach is that our buyer reports of its own wins, on several splits of a log.

python -m benchmarks.study_own_report --visits F --prices F --splits T [T ...] [--campaigns 2]
    [--campaign-size 5000] [--seed 3] [--memory-hours 24]

History before a split, flight after it, people split in two, as in `kreach evaluate`; only our
buyer (planning ahead with the visitor filter) buys. For each split and grouping: the error of the
filter's own reach at each budget, and that of reports on the log of the same wins, at the traffic
of history and with requests counted. People seen: the share of the campaign's people who came
before the split. With `--memory-hours` (inf: the flight) the publisher's gateway drops repeats
within its memory; the filter knows the hours, reports on the log do not. A last column is the log
counted by a filter that knows them and sees nothing but the wins.
"""

import argparse
from pathlib import Path

import numpy as np

import kreach as kr
from kreach.boundary.times import HOUR_SECONDS, MICROS, as_instant
from kreach.lab.approaches import GroupedCampaign
from kreach.lab.auctions import Outcome
from kreach.lab.buyers import buy, buy_with_memory, full_reach_cost
from kreach.lab.evaluate import BUDGET_SHARES, StudyOptions, Task, site_of, tasks_of


def errors_of(task: Task, strategy: str, memory_hours: float | None) -> list[list[float]]:
    """By budget: the filter's error, that of a report on the log, and with requests counted."""
    grouped = task.grouped(strategy)
    everybody = full_reach_cost(task.campaign)
    rows = []
    for share in BUDGET_SHARES:
        if memory_hours is None:
            outcome = buy("planning_visitors", grouped, share * everybody, 1)
        else:
            outcome = buy_with_memory(grouped, share * everybody, 1, memory_hours)
        measured = [outcome.expected_reach]
        measured += [grouped.measure_reach(way, outcome.won) for way in ("model", "model_counted")]
        if memory_hours is not None:
            measured.append(_counted_by_filter(grouped, outcome, memory_hours))
        rows.append([reach / outcome.reach - 1.0 for reach in measured])
    return rows


def _counted_by_filter(grouped: GroupedCampaign, outcome: Outcome, memory_hours: float) -> float:
    """The reach of a log beside a gateway: its impressions in order of time, and the memory."""
    assert grouped.model is not None
    audience, seconds = kr.Audience.disjoint(grouped.sizes), memory_hours * HOUR_SECONDS
    visitors = kr.VisitorFilter(audience, grouped.model, caps=[1], memory_seconds=seconds)
    times = grouped.campaign.starts_us / MICROS + grouped.campaign.at[outcome.won]
    for group, now in zip(grouped.groups[outcome.won].tolist(), times.tolist(), strict=True):
        visitors.won(group, now)
    return visitors.reach[1]


def main(arguments: list[str] | None = None) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=Path, required=True)
    parser.add_argument("--prices", type=Path, required=True)
    parser.add_argument("--splits", nargs="+", required=True)
    parser.add_argument("--strategies", nargs="+", default=["random", "rates"])
    parser.add_argument("--campaigns", type=int, default=2)
    parser.add_argument("--campaign-size", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--memory-hours", type=float, default=None)
    given = parser.parse_args(arguments)
    budgets = " ".join(f"{share:>5.0%}" for share in BUDGET_SHARES)
    more = "" if given.memory_hours is None else " | log, by a filter"
    print(f"errors in percent at budgets of {budgets}: filter | log | log, requests counted{more}")
    for split in given.splits:
        options = StudyOptions(
            visits=given.visits,
            prices=given.prices,
            strategy=given.strategies[0],
            others=tuple(given.strategies[1:]),
            split=as_instant("split", split),
            campaigns=given.campaigns,
            campaign_size=given.campaign_size,
            seed=given.seed,
        )
        tasks = tasks_of(options, site_of(options), replays=False)
        seen = np.mean([(task.campaign.people.visits > 0).mean() for task in tasks])
        for strategy in given.strategies:
            if tasks[0].models[strategy] is None:
                print(f"{split}, {strategy} groups: too little history for a model", flush=True)
                continue
            rows = [errors_of(task, strategy, given.memory_hours) for task in tasks]
            table = np.mean(rows, axis=0)
            text = " | ".join(" ".join(f"{100 * e:+5.1f}" for e in way) for way in table.T)
            print(f"{split}, {strategy} groups, people seen {seen:.0%}: {text}", flush=True)


if __name__ == "__main__":
    main()
