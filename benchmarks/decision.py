"""One decision of a bidder (value a request, bid for it), from Python, as the groups grow."""

from collections.abc import Callable
from functools import partial

import numpy as np

import kreach as kr
from benchmarks.timing import DisagreementError, Timing, duration, print_table, race_prepared
from kreach.adsystem.bidding.bidder import Bidder

__all__ = ["run"]

_GROUP_COUNTS = (100, 10_000, 1_000_000)
_GROUP_SIZE = 20
_CAP = 3
_FLIGHT_SECONDS = 1e6
_PLANS = 20
_WARM_REQUESTS = 4_000
_DECISIONS = 20_000
_REPEATS = 3
_KIND_COUNTS = (1, 20, 200)
_GROUPS_OF_KINDS = 10_000
_MARKET = (0.0, float(np.sqrt(0.5)))
_BUDGET_PER_REQUEST = 0.05

Make = Callable[[kr.Audience], Bidder]


def run() -> None:
    """Print the cost of a decision, of its outcome, and of a plan, for each number of groups."""
    generator = np.random.default_rng(6)
    decisions: dict[str, list[str]] = {name: [] for name in _MAKERS}
    outcomes: dict[str, list[str]] = {name: [] for name in _MAKERS}
    plans: dict[str, list[str]] = {name: [] for name in _MAKERS if "planning" in name}
    for count in _GROUP_COUNTS:
        audience = kr.Audience.disjoint(np.full(count, _GROUP_SIZE))
        groups = generator.integers(count, size=_WARM_REQUESTS + _DECISIONS).tolist()
        prices = generator.lognormal(*_MARKET, size=_WARM_REQUESTS).tolist()
        warm = {name: _warmed(make(audience), groups, prices) for name, make in _MAKERS.items()}
        asked = groups[_WARM_REQUESTS:]
        timings = race_prepared(
            {name: partial(_asking, bidder, asked) for name, bidder in warm.items()}, _REPEATS
        )
        for name, timing in timings.items():
            _check(name, audience, warm[name], asked, timing)
            decisions[name].append(duration(timing.seconds / _DECISIONS))
        told = race_prepared(
            {name: partial(_telling, bidder, asked) for name, bidder in warm.items()}, 1
        )
        for name, lost in told.items():
            outcomes[name].append(duration(lost.seconds / _DECISIONS))
        for name, seconds in _replanning(warm).items():
            plans[name].append(duration(seconds))
    header = ("bidder", *(f"{count:,} groups" for count in _GROUP_COUNTS))
    _show(
        "A decision, taken back: `bid` and `withdraw`, no plan made in between", header, decisions
    )
    _show("An outcome: `lost`", header, outcomes)
    title = f"A plan for the rest of the flight, made {_PLANS} times in all, inside a `bid`"
    _show(title, header, plans)
    print(f"  Groups of {_GROUP_SIZE}, cap {_CAP}, {_DECISIONS:,} requests of random groups.")
    print(f"  A plan looks at every group, so it grows with them; over a flight it is {_PLANS} of")
    print("  its times, whatever the number of requests.")
    _plans_by_kind(generator)


def _purse(requests: int) -> kr.Purse:
    return kr.Purse(_BUDGET_PER_REQUEST * requests, 0.0, _FLIGHT_SECONDS)


def _paper(audience: kr.Audience) -> Bidder:
    market = kr.LogNormalMarket(*_MARKET)
    requests = 4 * _WARM_REQUESTS
    return kr.PaperBidder(kr.CapValuation(audience, _CAP), _purse(requests), market, requests)


def _planning(audience: kr.Audience, auction: str = "second_price") -> Bidder:
    market = kr.LogNormalMarket(0.5, 1.0, auction)
    return kr.PlanningBidder(audience, _CAP, _purse(4 * _WARM_REQUESTS), market, plans=_PLANS)


_MAKERS: dict[str, Make] = {
    "kr.PaperBidder": _paper,
    "planning, second price": _planning,
    "planning, first price": partial(_planning, auction="first_price"),
}


def _warmed(bidder: Bidder, groups: list[int], prices: list[float]) -> Bidder:
    """The first quarter of a flight: counts, arrivals and market are learned, a plan is made."""
    quarter = _FLIGHT_SECONDS / 4.0
    for turn, price in enumerate(prices):
        now = quarter * turn / len(prices)
        bid = bidder.bid(groups[turn], now)
        if bid >= price:
            bidder.won(groups[turn], bid, price, now)
        elif bid > 0.0:
            bidder.lost(groups[turn], bid)
    bid = bidder.bid(groups[0], quarter + _FLIGHT_SECONDS / _PLANS)  # plans, if it ever does
    bidder.withdraw(groups[0], bid)
    return bidder


def _asking(bidder: Bidder, groups: list[int]) -> Callable[[], list[float]]:
    """`bid` and `withdraw` for each request, all within one interval between plans."""
    start = _FLIGHT_SECONDS / 4.0 + _FLIGHT_SECONDS / _PLANS
    step = 0.1 * _FLIGHT_SECONDS / _PLANS / len(groups)

    def ask() -> list[float]:
        bids = []
        for turn, group in enumerate(groups):
            bid = bidder.bid(group, start + step * turn)
            bidder.withdraw(group, bid)
            bids.append(bid)
        return bids

    return ask


def _telling(bidder: Bidder, groups: list[int]) -> Callable[[], None]:
    def tell() -> None:
        lost = bidder.lost
        for group in groups:
            lost(group, 0.5)

    return tell


def _check(
    name: str,
    audience: kr.Audience,
    bidder: Bidder,
    groups: list[int],
    timing: Timing[list[float]],
) -> None:
    """Bids rest on p_t: the paper's is p_t/λ, a plan's at most that, and there is a plan."""
    worth = kr.reach_probability(audience, bidder.valuation.counts(), _CAP)[groups]
    bids = np.array(timing.result)
    if isinstance(bidder, kr.PlanningBidder):
        if bidder.plan is None:
            raise DisagreementError(f"{name} was timed without a plan")
        most = worth / bidder.multiplier * (1.0 + 1e-9)
        if not ((bids > 0.0).any() and (bids <= most).all()):
            raise DisagreementError(f"{name} bids more than a request is worth")
        return
    # λ moves with every request; whatever it is, it stays within its bounds
    if not ((bids >= 0.1 * worth - 1e-12) & (bids <= 10.0 * worth + 1e-12)).all():
        raise DisagreementError(f"{name} bids outside of what λ allows")


def _replanning(warm: dict[str, Bidder]) -> dict[str, float]:
    """Best time of three plans, through the request that makes them."""
    interval = _FLIGHT_SECONDS / _PLANS

    def due(bidder: Bidder, moments: list[float]) -> Callable[[], float]:
        now = moments.pop(0)

        def plan() -> float:
            bid = bidder.bid(0, now)
            bidder.withdraw(0, bid)
            return bid

        return plan

    later = {
        name: [_FLIGHT_SECONDS / 4.0 + (2.1 + 1.01 * turn) * interval for turn in range(_REPEATS)]
        for name in warm
    }
    planning = {name: bidder for name, bidder in warm.items() if "planning" in name}
    timings = race_prepared(
        {name: partial(due, bidder, later[name]) for name, bidder in planning.items()}, _REPEATS
    )
    return {name: timing.seconds for name, timing in timings.items()}


def _plans_by_kind(generator: np.random.Generator) -> None:
    """A plan solves a table for each kind of group: the same groups, in more and more kinds."""
    name = "planning, second price"
    cells = []
    for kinds in _KIND_COUNTS:
        sizes = _GROUP_SIZE + np.arange(_GROUPS_OF_KINDS) % kinds
        groups = generator.integers(_GROUPS_OF_KINDS, size=_WARM_REQUESTS).tolist()
        prices = generator.lognormal(*_MARKET, size=_WARM_REQUESTS).tolist()
        bidder = _warmed(_planning(kr.Audience.disjoint(sizes)), groups, prices)
        cells.append(duration(_replanning({name: bidder})[name]))
    header = ("bidder", *(f"kinds: {kinds}" for kinds in _KIND_COUNTS))
    _show(f"A plan for {_GROUPS_OF_KINDS:,} groups of several kinds", header, {name: cells})


def _show(title: str, header: tuple[str, ...], rows: dict[str, list[str]]) -> None:
    print_table(title, header, [(name, *cells) for name, cells in rows.items()])
