"""CPU time of plans with a visit model: a bidder's for 20,000 groups, and answers before a flight.

A bidder's plan is a first one, or one from the last. Before a flight, the coarse answer comes first
and the fine one refines it.
"""

import sys
import time
from collections.abc import Callable
from math import log

import numpy as np

import kreach as kr
from benchmarks.bidder import sessions_model
from benchmarks.timing import duration, print_table
from kreach.adsystem.bidding.conditions import GroupState
from kreach.adsystem.bidding.group_kinds import kind_probabilities, session_continuation
from kreach.adsystem.bidding.hourly_market import MarketByHour
from kreach.adsystem.bidding.outlook import OutlookMaker
from kreach.adsystem.bidding.plan import Plan
from kreach.adsystem.bidding.planning import Planner

__all__ = ["run"]

_GROUPS = 20_000  # that a plan for more is made with
_REPEATS = 5
_COARSE = 5_000  # simulated groups, as reporting has it
_SIZES, _REQUESTS, _CAP = 20, 100, 3  # sizes of groups, requests per group
_HOURS = np.exp(0.5 * np.cos(2.0 * np.pi * np.arange(24) / 24.0))


def _state(kinds: int, seed: int) -> tuple[Planner, GroupState]:
    generator = np.random.default_rng(seed)
    sizes = 20 + generator.integers(0, kinds, _GROUPS)
    model = sessions_model()
    probability, kind_of_group = kind_probabilities(kr.Audience.disjoint(sizes), 1, model)
    count = int(kind_of_group.max()) + 1
    planner = Planner(count, probability, more=session_continuation(model))
    shown = generator.poisson(2.0, _GROUPS).astype(np.float64)
    left = generator.gamma(4.0, 500.0, _GROUPS)
    return planner, GroupState(kind_of_group, shown, left, 0.01)


def _cpu(solve: Callable[[], Plan]) -> float:
    """The best of some."""
    seconds = []
    for _ in range(_REPEATS):
        start = time.process_time()
        solve()
        seconds.append(time.process_time() - start)
    return min(seconds)


def _answers(groups: int, simulated: int | None) -> tuple[float, float, float]:
    """CPU seconds for a budget and for people, with the start of each, and people reached."""
    generator = np.random.default_rng(1)
    audience = kr.Audience.disjoint(20 + generator.integers(0, _SIZES, groups))
    market = kr.LogNormalMarket(0.5 - log(1_000.0), 0.8)
    requests, seconds = _REQUESTS * groups, []

    def maker() -> OutlookMaker:
        return OutlookMaker(
            audience,
            market,
            requests,
            _CAP,
            model=sessions_model(),
            max_cost_multiple=10.0,
            simulated_groups=simulated,
        )

    start = time.process_time()
    people = maker().for_budget(0.0004 * requests).people
    seconds.append(time.process_time() - start)
    start = time.process_time()
    maker().for_people(0.8 * people)
    seconds.append(time.process_time() - start)
    return seconds[0], seconds[1], people


def run_before_flight() -> None:
    """Print how long answers take, and how far the coarse one is from the fine one."""
    rows = []
    for groups in (1_000, 20_000, 1_000_000):
        budget, people, coarse = _answers(groups, _COARSE)
        fine_budget, fine_people, fine = _answers(groups, None)
        times = [duration(one) for one in (budget, people, fine_budget, fine_people)]
        rows.append([f"{groups:,}", *times, f"{100.0 * (coarse / fine - 1.0):+.1f} %"])
    heads = ["groups", "coarse: budget", "people", "fine: budget", "people", "coarse / fine"]
    print_table("Before a flight, cap 3, CPU time", heads, rows)


def run() -> None:
    """Print all times."""
    run_before_flight()
    if "--before-flight" not in sys.argv:
        run_bidder()


def run_bidder() -> None:
    """Print both times of a bidder's plan for some numbers of kinds."""
    base = kr.LogNormalMarket(-7.0, 1.0)
    market = MarketByHour(base, tuple((float(factor), 1.0 / 24.0) for factor in _HOURS))
    budget = 0.2 * _GROUPS * 25.0 * float(np.exp(-7.0))
    rows = []
    for kinds in (1, 20, 200):
        planner, state = _state(kinds, 1)
        first = planner.solve(state, budget, market)
        guess = 1.1 * first.multiplier
        cold = _cpu(lambda: planner.solve(state, budget, market))  # noqa: B023 - called here
        warm = _cpu(lambda: planner.solve(state, budget, market, guess))  # noqa: B023
        rows.append([f"{kinds}", duration(cold), duration(warm)])
    print_table("A plan of 20,000 groups", ["kinds of group", "first", "warm"], rows)


if __name__ == "__main__":
    run()
