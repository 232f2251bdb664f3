"""The live bidder's code beside the lab's buyer, on the same stream, budget and prior.

python -m benchmarks.study_served --visits F --prices F [--split T] [--campaigns 2]

Real visits and prices; both buy with the visitor filter. What the lab proves is what runs: reach
of the live bidder's code over that of the lab's buyer, by grouping and budget.
"""

import argparse
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from kreach.adsystem.campaigns.campaign import Campaign, Cap, Creative
from kreach.adsystem.settings import BidderSettings
from kreach.boundary.times import HOUR_SECONDS, MICROS, as_instant
from kreach.lab.approaches import GroupedCampaign
from kreach.lab.auctions import Stream
from kreach.lab.buyers import buy, full_reach_cost
from kreach.lab.evaluate import BUDGET_SHARES, StudyOptions, site_of, tasks_of
from kreach.lab.served import Delivery, ServedBidder, serve


def run(grouped: GroupedCampaign, budget: float) -> Delivery:
    """One campaign in the live bidder's code, with the lab's prior, hours and limit."""
    study = grouped.campaign
    begins = study.starts_us / MICROS
    hours = study.before.at_us // (HOUR_SECONDS * MICROS) % 24
    hourly = tuple((np.bincount(hours, minlength=24) + 1.0).tolist())
    mu = 0.5 + float(np.log(1_000.0))
    settings = BidderSettings(hourly=hourly, market_mu=mu, market_sigma=1.0)
    bidder = ServedBidder(grouped.sizes, grouped.model, begins, settings)
    number = bidder.add(
        Campaign(
            id="c",
            budget=budget,
            start=datetime.fromtimestamp(begins, UTC),
            end=datetime.fromtimestamp(begins + study.seconds + 1.0, UTC),
            caps=(Cap(limit=1),),
            max_cpm=10_000.0,
            creative=Creative(id="x", markup="<a></a>", width=300, height=250),
        )
    )
    times = study.at + begins
    stream = Stream(study.person, grouped.groups, times, study.price, study.people.count)
    return serve(bidder, stream)[number]


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
    ratios = []
    for task in tasks_of(options, site_of(options), replays=False):
        everybody = full_reach_cost(task.campaign)
        for strategy in task.strategies:
            grouped = task.grouped(strategy)
            for share in BUDGET_SHARES:
                budget = round(share * everybody, 2)
                lab, live = buy("planning_visitors", grouped, budget, 1), run(grouped, budget)
                reach = live.reach(task.campaign.person, 1)
                ratios.append(reach / lab.reach)
                print(
                    f"{task.campaign.name}, {strategy} groups, budget {share:4.0%}: lab reaches "
                    f"{lab.reach}, live {reach}, ratio {ratios[-1]:.4f}; "
                    f"spent {lab.spend / budget:.3f} and {live.spend / budget:.3f}",
                    flush=True,
                )
    print(f"live over lab: {min(ratios):.4f} to {max(ratios):.4f}")


if __name__ == "__main__":
    main()
