"""The live bidder's code beside the lab's buyer, on the same stream, budget and prior.

python -m benchmarks.study_served --visits F --prices F [--split T] [--campaigns 2]
    [--memory-hours 24]

Real visits and prices; both buy with the visitor filter. What the lab proves is what runs: reach
of the live bidder's code over that of the lab's buyer, by grouping and budget. With
`--memory-hours` the publisher's gateway drops repeats within its memory, and both buyers know it;
beside them is a live bidder that does not.
"""

import argparse
from pathlib import Path

from simulations.replay import serve_campaign, study_campaign

from kreach.boundary.times import MICROS, as_instant
from kreach.lab.approaches import GroupedCampaign
from kreach.lab.auctions import Stream
from kreach.lab.buyers import buy, buy_with_memory, full_reach_cost
from kreach.lab.evaluate import BUDGET_SHARES, StudyOptions, site_of, tasks_of
from kreach.lab.served import Delivery


def run(
    grouped: GroupedCampaign,
    budget: float,
    memory_hours: float | None = None,
    *,
    told: bool = True,
) -> Delivery:
    """The whole flight. `told`: whether the bidder knows the memory of the gateway."""
    study = grouped.campaign
    times = study.at + study.starts_us / MICROS
    stream = Stream(study.person, grouped.groups, times, study.price, study.people.count)
    return serve_campaign(grouped, study_campaign(grouped, budget), stream, memory_hours, told=told)


def main(arguments: list[str] | None = None) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=Path, required=True)
    parser.add_argument("--prices", type=Path, required=True)
    parser.add_argument("--split", default=None)
    parser.add_argument("--campaigns", type=int, default=2)
    parser.add_argument("--campaign-size", type=int, default=5_000)
    parser.add_argument("--memory-hours", type=float, default=None)
    given = parser.parse_args(arguments)
    options = StudyOptions(
        visits=given.visits,
        prices=given.prices,
        split=None if given.split is None else as_instant("split", given.split),
        campaigns=given.campaigns,
        campaign_size=given.campaign_size,
        seed=1,
    )
    hours = given.memory_hours
    ratios, gains = [], []
    for task in tasks_of(options, site_of(options), replays=False):
        everybody = full_reach_cost(task.campaign)
        for strategy in task.strategies:
            grouped = task.grouped(strategy)
            for share in BUDGET_SHARES:
                budget = round(share * everybody, 2)
                if hours is None:
                    lab = buy("planning_visitors", grouped, budget, 1)
                else:
                    lab = buy_with_memory(grouped, budget, 1, hours)
                live = run(grouped, budget, hours)
                reach = live.reach(task.campaign.person, 1)
                ratios.append(reach / lab.reach)
                untold = ""
                if hours is not None:
                    other = run(grouped, budget, hours, told=False)
                    gains.append(reach / other.reach(task.campaign.person, 1))
                    untold = f"; over live that is not told {gains[-1]:.4f}"
                print(
                    f"{task.campaign.name}, {strategy} groups, budget {share:4.0%}: lab reaches "
                    f"{lab.reach}, live {reach}, ratio {ratios[-1]:.4f}; "
                    f"spent {lab.spend / budget:.3f} and {live.spend / budget:.3f}{untold}",
                    flush=True,
                )
    print(f"live over lab: {min(ratios):.4f} to {max(ratios):.4f}")
    if gains:
        print(f"live over live that is not told: {min(gains):.4f} to {max(gains):.4f}")


if __name__ == "__main__":
    main()
