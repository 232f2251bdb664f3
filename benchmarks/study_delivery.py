"""Thirty campaigns with mixed flights, budgets and caps on one bidder, beside each alone.

python -m benchmarks.study_delivery --visits F --prices F [--split T] [--campaigns 30] [--seed 0]
    [--together] [--bidders 2]

The live bidder's own code on simulated time (`kreach.lab.served`), real visits and prices. Each
campaign is added when its flight begins. For each: share of the budget spent together and alone,
reach together over reach alone, and the reason that the bidder shows where it cannot spend all.
The last lines compare what was bought with the cheapest requests that the same money could buy.

With `--bidders` campaigns run together on several bidders, which share budgets and counts through
a Redis of the study's own; each request goes to one of them at random.
"""

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from simulations.fleet import RedisServer

from kreach.adsystem.campaigns.campaign import Campaign, Cap, Creative
from kreach.adsystem.settings import BidderSettings, RedisSettings
from kreach.boundary.times import DAY_SECONDS, MICROS, as_instant
from kreach.lab.approaches import GroupedCampaign
from kreach.lab.auctions import Stream
from kreach.lab.buyers import full_reach_cost
from kreach.lab.evaluate import StudyOptions, site_of, tasks_of
from kreach.lab.served import Delivery, ServedBidder, serve
from kreach.lab.served_fleet import FleetBidder, serve_fleet

_MAX_CPM = 10_000.0  # prices have a median of 1 an impression


def make_campaigns(grouped: GroupedCampaign, count: int, seed: int) -> list[Campaign]:
    """Campaigns of two days to the whole flight; every seventh has a daily budget."""
    generator = np.random.default_rng(seed)
    study = grouped.campaign
    everybody, days = full_reach_cost(study), study.seconds / DAY_SECONDS
    begins = study.starts_us / MICROS
    campaigns = []
    for at in range(count):
        first = float(generator.choice([0.0, 0.0, 0.0, 0.1, 0.3, 0.5])) * days
        last = min(first + float(generator.choice([0.25, 0.4, 0.6, 1.0])) * days, days)
        share = float(generator.choice([0.003, 0.01, 0.02, 0.04])) * (last - first) / days
        budget = round(share * everybody, 2)
        daily = round(1.2 * budget / (last - first), 2) if at % 7 == 3 else None
        campaigns.append(
            Campaign(
                id=f"c{at}",
                budget=budget,
                daily_budget=None if daily is None else min(daily, budget),
                start=datetime.fromtimestamp(begins + first * DAY_SECONDS, UTC),
                end=datetime.fromtimestamp(begins + last * DAY_SECONDS, UTC),
                caps=(Cap(limit=int(generator.choice([1, 1, 2, 3]))),),
                max_cpm=_MAX_CPM,
                creative=Creative(id="x", markup="<a></a>", width=300, height=250),
            )
        )
    return campaigns


def run(
    grouped: GroupedCampaign, campaigns: list[Campaign], bidders: int = 1
) -> dict[str, Delivery]:
    """Deliver campaigns side by side."""
    study = grouped.campaign
    begins = study.starts_us / MICROS
    settings = BidderSettings(market_mu=float(np.log(1_000.0)) + 0.5)
    numbers: dict[str, int] = {}

    def add(to: Sequence[ServedBidder], campaign: Campaign) -> None:
        for bidder in to:
            numbers[campaign.id] = bidder.add(campaign)

    stream = Stream(
        study.person, grouped.groups, study.at + begins, study.price, study.people.count
    )

    def events(to: Sequence[ServedBidder]) -> list[tuple[float, Callable[[], object]]]:
        return [(one.start.timestamp(), partial(add, to, one)) for one in campaigns]

    if bidders == 1:
        alone = ServedBidder(grouped.sizes, grouped.model, begins - 1.0, settings)
        found = serve(alone, stream, events([alone]), tick_seconds=120.0)
    else:
        with TemporaryDirectory() as folder, RedisServer(Path(folder)) as redis:
            names = tuple(f"b{at + 1}" for at in range(bidders))
            shared = RedisSettings(url=redis.url, bidders=names)
            fleet = [
                FleetBidder(
                    Path(folder) / name,
                    name,
                    shared,
                    grouped.sizes,
                    grouped.model,
                    begins - 1.0,
                    settings,
                    seed,
                )
                for seed, name in enumerate(names)
            ]
            found = serve_fleet(fleet, stream, events(fleet))
    return {name: found[number] for name, number in numbers.items()}


def main(arguments: list[str] | None = None) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=Path, required=True)
    parser.add_argument("--prices", type=Path, required=True)
    parser.add_argument("--split", default=None)
    parser.add_argument("--campaigns", type=int, default=30)
    parser.add_argument("--campaign-size", type=int, default=5_000)
    parser.add_argument("--strategy", default="random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--together", action="store_true", help="leave each alone out")
    parser.add_argument("--bidders", type=int, default=1, help="that share; only together")
    given = parser.parse_args(arguments)
    given.together |= given.bidders > 1
    options = StudyOptions(
        visits=given.visits,
        prices=given.prices,
        strategy=given.strategy,
        others=(),
        split=None if given.split is None else as_instant("split", given.split),
        campaigns=1,
        campaign_size=given.campaign_size,
        seed=1,
    )
    grouped = tasks_of(options, site_of(options), replays=False)[0].grouped(given.strategy)
    campaigns = make_campaigns(grouped, given.campaigns, given.seed)
    together = run(grouped, campaigns, given.bidders)
    person, price = grouped.campaign.person, grouped.campaign.price
    spent, alone_spent, ratios = [], [], []
    print(f"{'':5} {'cap':>3} {'budget':>8} {'spent':>6} {'alone':>6} {'reach/alone':>11}  reason")
    for campaign in campaigns:
        here = together[campaign.id]
        alone = here if given.together else run(grouped, [campaign])[campaign.id]
        here, cap = together[campaign.id], campaign.largest_cap
        ratio = here.reach(person, cap) / max(alone.reach(person, cap), 1)
        spent.append(here.spend / campaign.budget)
        alone_spent.append(alone.spend / campaign.budget)
        ratios.append(ratio)
        print(
            f"{campaign.id:5} {cap:3} {campaign.budget:8.2f} {spent[-1]:6.3f} "
            f"{alone_spent[-1]:6.3f} {ratio:11.3f}  {here.shortfall or ''}",
            flush=True,
        )
    money = sum(delivery.spend for delivery in together.values())
    wins = sum(len(delivery.wins) for delivery in together.values())
    reach = sum(one.reach(person, one.campaign.largest_cap) for one in together.values())
    cheapest = int(np.searchsorted(np.cumsum(np.sort(price)), money))
    of_alone = np.array(spent) / np.maximum(alone_spent, 1e-9)
    most = int((np.array(spent) >= 0.95).sum())
    print(f"spent: {np.mean(spent):.3f} of the budgets, at least {min(spent):.3f}")
    print(f"95 % or more spent: {most} of {len(campaigns)}")
    if not given.together:
        print(f"of what is spent alone: {np.mean(of_alone):.3f}, at least {of_alone.min():.3f}")
        print(f"below 95 % of that: {int((of_alone < 0.95).sum())} of {len(campaigns)}")
        print(f"reach over reach alone: {np.mean(ratios):.3f} on average")
    print(f"reach of all campaigns: {reach}")
    print(f"{wins} requests bought; the same money buys the {cheapest} cheapest of the flight")


if __name__ == "__main__":
    main()
