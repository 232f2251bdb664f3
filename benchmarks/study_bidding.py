"""The paper's Figure 2 setting: reach of four bidders, and what hindsight could have reached.

    python -m benchmarks.study_bidding [--repetitions 200] [--caps 1 3] [--budgets 20 50 90 430]
                                       [--group-sizes 1 2 6 20 120] [--processes 2] [--csv FILE]

120 people, 2,000 requests, second prices log-normal (μ 0, σ² 0.5). "Learned" starts from a wrong
prior (μ 0.5, σ 1, worth ten auctions).
"""

import argparse
import csv
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np

import kreach as kr
from kreach.adsystem.bidding.bidder import Bidder
from kreach.lab.auctions import Stream, paper_stream, run_auctions

PEOPLE, REQUESTS = 120, 2000
TRUE_MARKET = (0.0, float(np.sqrt(0.5)))
PRIOR_MARKET = (0.5, 1.0)
LIMITS = (0.0, 10.0)

Row = tuple[int, float, int, str, float, float, float, float, float, float]
Make = Callable[[kr.Audience, int, float], Bidder]


def _purse(budget: float) -> kr.Purse:
    return kr.Purse(budget, 0.0, float(REQUESTS))


def _planning(*, learn: bool, ahead: bool) -> Make:
    def make(audience: kr.Audience, cap: int, budget: float) -> Bidder:
        market = kr.LogNormalMarket(*(PRIOR_MARKET if learn else TRUE_MARKET))
        return kr.PlanningBidder(
            audience,
            cap,
            _purse(budget),
            market,
            learn=learn,
            ahead=ahead,
            limits=kr.BidLimits(*LIMITS),
        )

    return make


def _paper(audience: kr.Audience, cap: int, budget: float) -> Bidder:
    market = kr.LogNormalMarket(*TRUE_MARKET)
    return kr.PaperBidder(kr.CapValuation(audience, cap), _purse(budget), market, REQUESTS)


BIDDERS: dict[str, Make] = {
    "paper": _paper,
    "paced, myopic": _planning(learn=False, ahead=False),
    "ahead, known": _planning(learn=False, ahead=True),
    "ahead, learned": _planning(learn=True, ahead=True),
}


def _setting(task: tuple[int, float, int, int]) -> list[Row]:
    cap, budget, group_size, repetitions = task
    audience = kr.Audience.disjoint(np.full(PEOPLE // group_size, group_size))
    streams: list[Stream] = [
        paper_stream(group_size, np.random.default_rng([7, seed])) for seed in range(repetitions)
    ]
    limit = np.mean(
        [kr.hindsight_limit(audience, s.group, s.price, cap, [budget])[0] for s in streams]
    )
    rows = []
    paper_reach = 0.0
    for name, make in BIDDERS.items():
        outcomes = [run_auctions(make(audience, cap, budget), s, cap) for s in streams]
        reach = np.array([o.reach for o in outcomes], dtype=float)
        spend = float(np.mean([o.spend for o in outcomes]))
        most = max(o.spend for o in outcomes)
        if most > budget:
            raise SystemExit(f"{name} spent {most} of {budget}")
        paper_reach = paper_reach or float(reach.mean())
        error = float(reach.std(ddof=1) / np.sqrt(len(reach)))
        mean = float(reach.mean())
        rows.append(
            (
                cap,
                budget,
                group_size,
                name,
                mean,
                error,
                spend,
                mean / spend,
                mean / paper_reach,
                mean / float(limit),
            )
        )
    return rows


HEAD = ("cap", "budget", "k", "bidder", "reach", "se", "spend", "reach/spend", "÷ paper", "÷ limit")


def main() -> None:
    """Run the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--caps", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--budgets", type=float, nargs="+", default=[20.0, 50.0, 90.0, 430.0])
    parser.add_argument("--group-sizes", type=int, nargs="+", default=[1, 2, 6, 20, 120])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--csv")
    options = parser.parse_args()
    tasks = [
        (cap, budget, size, options.repetitions)
        for cap, budget, size in product(options.caps, options.budgets, options.group_sizes)
    ]
    everything = []
    print("{:>3} {:>6} {:>4} {:<15} {:>7} {:>5} {:>7} {:>11} {:>7} {:>7}".format(*HEAD))
    with ProcessPoolExecutor(options.processes) as pool:
        for rows in pool.map(_setting, tasks):
            for row in rows:
                everything.append(row)
                print(
                    "{:>3} {:>6g} {:>4} {:<15} {:>7.2f} {:>5.2f} {:>7.2f} {:>11.3f} {:>7.3f} "
                    "{:>7.3f}".format(*row),
                    flush=True,
                )
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            csv.writer(file).writerows([HEAD, *everything])


if __name__ == "__main__":
    main()
