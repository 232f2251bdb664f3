"""A brand's campaigns with separate caps beside the same ones as a family, at equal budget.

python -m benchmarks.study_family [--visits F --prices F] [--split T] [--members 4] [--cap 1]
    [--family-cap 2] [--budget 0.6]

The live bidder's own code on simulated time (`kreach.lab.served`). Without files the site is the
lab's: people who come in sessions, at their hours, as readers of a news portal do. Both arms have
the same members, flights and money; in the second they are a family with a cap of its own and the
sum of their budgets. Truth is known here: how often each person saw any of them.

Beside them: the same with own caps as high as the family's, where only the family's can bind, and
one campaign with all the money at the family's cap, which is what a family could be at best.
"""

import argparse
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from kreach.adsystem.campaigns.campaign import Campaign, Cap, Creative
from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.settings import BidderSettings
from kreach.boundary.times import DAY_SECONDS, MICROS, as_instant
from kreach.lab.approaches import GroupedCampaign
from kreach.lab.auctions import Stream
from kreach.lab.buyers import full_reach_cost
from kreach.lab.evaluate import StudyOptions, site_of, tasks_of
from kreach.lab.served import ServedBidder, serve
from kreach.lab.visitors import SiteVisitors, write_visits

_MAX_CPM = 10_000.0  # prices have a median of 1 an impression
_BEGIN = datetime(2026, 11, 2, tzinfo=UTC).timestamp()


@dataclass(frozen=True)
class Result:
    """What people saw of all campaigns together."""

    spent: float
    impressions: int
    reached: int
    within: int  # impressions up to the family's cap
    over: int  # people who saw more than that
    beyond: int  # impressions beyond it


def write_site(folder: Path, people: int, days: int, seed: int) -> tuple[Path, Path]:
    """Visits and prices of the lab's site: as many days of history as of flight."""
    visitors = SiteVisitors.draw(people, None, seed)
    schedule = visitors.schedule(_BEGIN, _BEGIN + 2 * days * DAY_SECONDS)
    visits = write_visits(folder / "visits.csv", visitors.user_ids, schedule)
    prices = folder / "prices.csv"
    drawn = np.random.default_rng(seed).lognormal(0.0, 0.8, size=20_000)
    prices.write_text("market_price\n" + "\n".join(f"{price:.6f}" for price in drawn) + "\n")
    return visits, prices


def make_members(grouped: GroupedCampaign, members: int, cap: int, share: float) -> list[Campaign]:
    """Campaigns of the whole flight; budgets of 1, 2, ... parts."""
    study = grouped.campaign
    begins = study.starts_us / MICROS
    total = share * full_reach_cost(study)
    parts = np.arange(1, members + 1) / (members * (members + 1) / 2)
    return [
        Campaign(
            id=f"c{at}",
            budget=round(float(part) * total, 2),
            start=datetime.fromtimestamp(begins, UTC),
            end=datetime.fromtimestamp(begins + study.seconds, UTC),
            caps=(Cap(limit=cap),),
            max_cpm=_MAX_CPM,
            creative=Creative(id="x", markup="<a></a>", width=300, height=250),
        )
        for at, part in enumerate(parts.tolist())
    ]


def run(grouped: GroupedCampaign, campaigns: list[Campaign], cap: int, family: bool) -> Result:
    """Deliver the campaigns side by side, as a family or not; `cap` is the family's."""
    study = grouped.campaign
    begins = study.starts_us / MICROS
    settings = BidderSettings(market_mu=float(np.log(1_000.0)) + 0.5)
    bidder = ServedBidder(grouped.sizes, grouped.model, begins - 1.0, settings)
    if family:
        budget = round(sum(campaign.budget for campaign in campaigns), 2)
        bidder.add_family(Family(id="brand", caps=(Cap(limit=cap),), budget=budget))
    for campaign in campaigns:
        bidder.add(msgspec.structs.replace(campaign, family="brand" if family else None))
    stream = Stream(
        study.person, grouped.groups, study.at + begins, study.price, study.people.count
    )
    found = serve(bidder, stream, tick_seconds=120.0).values()
    wins = np.array([at for one in found for at in one.wins], dtype=np.int64)
    seen = np.bincount(study.person[wins], minlength=study.people.count)
    return Result(
        sum(one.spend for one in found),
        len(wins),
        int((seen > 0).sum()),
        int(np.minimum(seen, cap).sum()),
        int((seen > cap).sum()),
        int(np.maximum(seen - cap, 0).sum()),
    )


def study(grouped: GroupedCampaign, members: int, cap: int, family_cap: int, share: float) -> None:
    """Print the table."""
    campaigns = make_members(grouped, members, cap, share)
    budget = sum(campaign.budget for campaign in campaigns)
    print(
        f"{members} campaigns, own cap {cap}, family cap {family_cap}, budget {share:.0%} of what "
        f"everybody costs, {grouped.campaign.people.count} people"
    )
    print(
        f"{'':34} {'spent':>6} {'shown':>7} {'people':>7} {'within cap':>10} "
        f"{'over cap':>8} {'share':>6} {'beyond':>7}"
    )
    arms: list[tuple[str, list[Campaign], bool]] = [
        ("separate caps", campaigns, False),
        ("a family", campaigns, True),
    ]
    caps = (Cap(limit=family_cap),)
    if family_cap > cap:
        loose = [msgspec.structs.replace(one, caps=caps) for one in campaigns]
        arms.append((f"separate caps of {family_cap}", loose, False))
        arms.append((f"a family, own caps of {family_cap}", loose, True))
    whole = msgspec.structs.replace(campaigns[0], budget=round(budget, 2), caps=caps)
    arms.append(("one campaign with all the money", [whole], False))
    for name, chosen, together in arms:
        one = run(grouped, chosen, family_cap, together)
        print(
            f"{name:34} {one.spent / budget:6.3f} {one.impressions:7} {one.reached:7} "
            f"{one.within:10} {one.over:8} {one.over / max(one.reached, 1):6.1%} "
            f"{one.beyond / max(one.impressions, 1):7.1%}",
            flush=True,
        )


def main(arguments: list[str] | None = None) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=Path, default=None, help="without, the lab's site")
    parser.add_argument("--prices", type=Path, default=None)
    parser.add_argument("--split", default=None)
    parser.add_argument("--people", type=int, default=3_000, help="of the lab's site")
    parser.add_argument("--days", type=int, default=10, help="of its history, and of its flight")
    parser.add_argument("--campaign-size", type=int, default=3_000)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--cap", type=int, default=1)
    parser.add_argument("--family-cap", type=int, default=2)
    parser.add_argument("--budget", type=float, default=0.6, help="of what everybody costs")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    if (given.visits is None) != (given.prices is None):
        parser.error("--visits and --prices come together")
    with TemporaryDirectory() as folder:
        visits, prices = given.visits, given.prices
        if visits is None:
            visits, prices = write_site(Path(folder), given.people, given.days, given.seed)
        options = StudyOptions(
            visits=visits,
            prices=prices,
            others=(),
            split=None if given.split is None else as_instant("split", given.split),
            campaigns=1,
            campaign_size=given.campaign_size,
            seed=given.seed,
        )
        grouped = tasks_of(options, site_of(options), replays=False)[0].grouped("random")
        study(grouped, given.members, given.cap, given.family_cap, given.budget)


if __name__ == "__main__":
    main()
