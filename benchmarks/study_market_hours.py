"""Prices with a daily rhythm: reach with a market by hour over reach with one market.

Prices are log-normal with a sine of the hour added to their logarithm, dearest at 20:00 UTC, and
traffic is densest then, too. Both bidders get the same requests and the same budget. "Remembered":
both start with what a bidder of their kind learned in a flight of seven days before. No data set at
hand has real prices with times, so the rhythm is synthetic.

    python -m benchmarks.study_market_hours

"New campaign" is another table: one campaign flies two days, then a second one flies one day, with
and without what the first has learned about hours (`MarketHours`).

    python -m benchmarks.study_market_hours --new-campaign
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import numpy as np

import kreach as kr
from kreach.adsystem.bidding.arrivals import Arrivals
from kreach.adsystem.bidding.auction_markets import AuctionMarkets
from kreach.adsystem.bidding.market_hours import CampaignHours, MarketHours
from kreach.lab.auctions import Outcome, Stream, run_auctions

DAY = 86_400.0
START = 1_700_006_400.0  # midnight, UTC
GROUP_SIZE, GROUPS = 20, 100
SIGMA = 0.7
HALF_LIFE_AUCTIONS = 2_000.0  # as a planning bidder has by default
HOURS = np.arange(24)
WAVE = np.cos(2.0 * np.pi * (HOURS + 0.5 - 20.0) / 24.0)
TRAFFIC = 1.0 + 0.6 * WAVE

Task = tuple[float, str, int, float, int, int]


def _stream(seed: int, amplitude: float, days: int, requests: int) -> Stream:
    generator = np.random.default_rng([19, seed, days])
    people = GROUP_SIZE * GROUPS
    person = generator.integers(people, size=requests)
    hour = generator.choice(24, size=requests, p=TRAFFIC / TRAFFIC.sum())
    day = generator.integers(days, size=requests)
    at = np.sort(day * 24.0 + hour + generator.random(requests))
    wave = WAVE[at.astype(np.int64) % 24]
    price = np.exp(amplitude * wave + generator.normal(0.0, SIGMA, size=requests))
    return Stream(person, person // GROUP_SIZE, START + 3_600.0 * at, price, people)


def _fly(
    stream: Stream,
    budget: float,
    days: int,
    auction: str,
    by_hour: bool,
    memory: Any,
    hours: CampaignHours | None = None,
) -> tuple[Outcome, dict[str, Any]]:
    audience = kr.Audience.disjoint(np.full(GROUPS, GROUP_SIZE))
    end = START + DAY * days
    prior = kr.LogNormalMarket(0.5, 1.0, auction)
    bidder = kr.PlanningBidder(
        audience,
        1,
        kr.Purse(budget, START, end),
        prior,
        arrivals=Arrivals(GROUPS, START, end, TRAFFIC.tolist()),
    )
    bidder.markets = AuctionMarkets(prior, half_life_auctions=HALF_LIFE_AUCTIONS, by_hour=by_hour)
    bidder.markets.market_hours = hours
    if memory is not None:
        bidder.markets.remember(memory)
    outcome = run_auctions(bidder, stream, 1, auction=auction)
    return outcome, bidder.markets.memory()


def _pair(task: Task) -> tuple[list[float], list[float]]:
    """Ratios of reach: by hour over one market, new and remembered, and what the memory alone does
    to one market; then shares of the budget spent, each arm."""
    amplitude, auction, days, share, requests, seed = task
    budget = share * GROUP_SIZE * GROUPS
    stream = _stream(seed, amplitude, days, requests)
    earlier = _stream(seed + 1_000_000, amplitude, 7, requests)
    ratios, spent, first = [], [], []
    memories: list[Any] = [None, None]
    for remembered in (False, True):
        reach = []
        for at, by_hour in enumerate((False, True)):
            if remembered:
                memories[at] = _fly(earlier, budget, 7, auction, by_hour, None)[1]
            outcome, _ = _fly(stream, budget, days, auction, by_hour, memories[at])
            if outcome.spend > budget:
                raise SystemExit(f"spent {outcome.spend} of {budget}")
            reach.append(outcome.expected_reach)
            spent.append(outcome.spend / budget)
        ratios.append(reach[1] / reach[0])
        first.append(reach[0])
    return [*ratios, first[1] / first[0]], spent


def _new_campaign(task: Task) -> tuple[float, float, float]:
    """Reach of a campaign that is told the hours over one that is not; both spends."""
    amplitude, auction, _, share, requests, seed = task
    budget = share * GROUP_SIZE * GROUPS
    shared = MarketHours()
    earlier = _stream(seed + 1_000_000, amplitude, 2, requests)
    _fly(earlier, budget, 2, auction, True, None, shared.of("first"))
    later = _stream(seed, amplitude, 1, requests // 2)
    told, alone = (
        _fly(later, budget / 2.0, 1, auction, True, None, hours)[0]
        for hours in (shared.of("second"), None)
    )
    spends = told.spend / (budget / 2.0), alone.spend / (budget / 2.0)
    return told.expected_reach / alone.expected_reach, *spends


def known_gain(amplitude: float, auction: str, cost: float) -> float:
    """Wins of who knows the prices of each hour, over those of the best single bid.

    All requests are worth the same, each costs so much on average, and nothing has to be learned.
    """
    if auction == "second_price":
        return 1.0  # the best bid is the value at any hour
    share, factor = TRAFFIC / TRAFFIC.sum(), np.exp(amplitude * WAVE)
    market = kr.LogNormalMarket(0.0, SIGMA, auction)
    bids = np.exp(np.linspace(-6.0, 4.0, 4_001))
    single = share @ market.win_probability(bids / factor[:, None])
    values = np.exp(np.linspace(-5.0, 8.0, 2_001))
    own = market.optimal_bid(values / factor[:, None])
    win = share @ market.win_probability(own)
    costs = (share * factor) @ market.expected_cost(own)
    return float(np.interp(cost, costs, win) / np.interp(cost, bids * single, single))


def _print_new_campaigns(options: argparse.Namespace) -> None:
    print("auction        budget amplitude   told the hours/not (range)   spent: told, not")
    settings = product(options.auctions, options.budgets, options.amplitudes)
    with ProcessPoolExecutor(options.processes) as pool:
        for auction, share, amplitude in settings:
            tasks = [
                (amplitude, auction, 1, share, options.requests, seed)
                for seed in range(options.seeds)
            ]
            ratio, told, alone = np.array(list(pool.map(_new_campaign, tasks))).T
            print(
                f"{auction:<13} {share:>7g} {amplitude:>9g}   {ratio.mean():.4f} "
                f"({ratio.min():.3f} to {ratio.max():.3f})   {told.mean():.3f}, {alone.mean():.3f}",
                flush=True,
            )


def main() -> None:
    """Run the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--amplitudes", type=float, nargs="+", default=[0.0, 0.3, 0.8])
    parser.add_argument("--days", type=int, nargs="+", default=[1, 7])
    parser.add_argument("--auctions", nargs="+", default=["second_price", "first_price"])
    parser.add_argument("--budgets", type=float, nargs="+", default=[0.1, 0.4], help="per person")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--new-campaign", action="store_true")
    options = parser.parse_args()
    if options.new_campaign:
        _print_new_campaigns(options)
        return
    names = "auction", "days", "budget", "amplitude"
    print("{:<13} {:>4} {:>6} {:>9}".format(*names), end="")
    print(f"   {'by hour/one (range)':<25}{'remembered (range)':<25}", end="")
    print(f"{'one, remembered/new':<25}spent: one, by hour, remembered; known")
    settings = product(options.auctions, options.days, options.budgets, options.amplitudes)
    with ProcessPoolExecutor(options.processes) as pool:
        for auction, days, share, amplitude in settings:
            tasks = [
                (amplitude, auction, days, share, options.requests, seed)
                for seed in range(options.seeds)
            ]
            pairs = list(pool.map(_pair, tasks))
            ratios = np.array([ratio for ratio, _ in pairs])
            spent = np.array([part for _, part in pairs]).mean(axis=0)
            cells = [
                f"{column.mean():.4f} ({column.min():.3f} to {column.max():.3f})"
                for column in ratios.T
            ]
            cost = share * GROUP_SIZE * GROUPS / options.requests
            bound = known_gain(amplitude, auction, cost)
            shares = ", ".join(f"{part:.3f}" for part in spent)
            print(
                f"{auction:<13} {days:>4} {share:>6g} {amplitude:>9g}   {'  '.join(cells)}"
                f"  {shares}  {bound:.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
