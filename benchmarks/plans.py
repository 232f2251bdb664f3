"""CPU time of a plan for 20,000 groups with a visit model: a first one, and one from the last."""

import time
from collections.abc import Callable

import numpy as np

import kreach as kr
from benchmarks.bidder import sessions_model
from benchmarks.timing import duration, print_table
from kreach.adsystem.bidding.conditions import GroupState
from kreach.adsystem.bidding.group_kinds import kind_probabilities, session_continuation
from kreach.adsystem.bidding.hourly_market import MarketByHour
from kreach.adsystem.bidding.plan import Plan
from kreach.adsystem.bidding.planning import Planner

__all__ = ["run"]

_GROUPS = 20_000  # that a plan for more is made with
_REPEATS = 5
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


def run() -> None:
    """Print both times for some numbers of kinds."""
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
