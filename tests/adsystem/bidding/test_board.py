"""The board's tables say what the library's bidder says."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kreach.adsystem.bidding.arrivals import Arrivals, Traffic
from kreach.adsystem.bidding.bidder import PlanningBidder
from kreach.adsystem.bidding.board import Board, BoardValuation
from kreach.adsystem.bidding.budget import Purse
from kreach.adsystem.bidding.group_kinds import kind_probabilities
from kreach.adsystem.bidding.market import EmpiricalMarket, LogNormalMarket, Market
from kreach.adsystem.bidding.plan import Plan
from kreach.adsystem.bidding.shading import Shading
from kreach.adsystem.bidding.worth import worth_table
from kreach.boundary.audience import Audience
from kreach.numeric.types import IntArray

START, END = 0.0, 1_000.0
CLOSE = 1e-6  # relative: cells have 24 bits


def made_audience(generator: np.random.Generator, groups: int) -> Audience:
    """Groups of a few sizes, partly targeted, with visits even or not."""
    sizes = generator.choice([1, 2, 5, 20, 300], groups)
    targeted = None
    if generator.random() < 0.5:
        targeted = generator.binomial(sizes, 0.6)
        targeted[0] = sizes[0]
    dispersion = None
    if generator.random() < 0.5:
        dispersion = generator.choice([0.3, 1.0, 8.0], groups)
    return Audience.disjoint(sizes, targeted, dispersion)


def made_market(generator: np.random.Generator, auction: str) -> Market:
    mu = float(generator.normal(-7.0, 1.0))  # of single impressions, as the service has it
    if generator.random() < 0.5:
        return LogNormalMarket(mu, 0.8, auction)
    return EmpiricalMarket(np.exp(generator.normal(mu, 0.8, 40)), auction=auction)


@dataclass
class Seat:
    """One campaign, twice: as the library's bidder and as a slot of a board."""

    bidder: PlanningBidder
    slot: int
    shading: Shading
    row_requests: float = 0.0
    limit: float = float("inf")


@dataclass
class World:
    """A board with a few campaigns, halfway through their flights."""

    board: Board
    traffic: Traffic
    now: float
    seats: list[Seat]

    def share(self, group: int) -> float:
        groups = self.board.group_count
        return (self.traffic.by_group[group] + 5.0) / (self.traffic.total + 5.0 * groups)

    def left(self, seat: Seat, group: int) -> float:
        """Requests of a group to come."""
        return seat.bidder.left_per_time * (END - self.now) * self.share(group)

    def busiest(self) -> float:
        return max(self.share(group) for group in range(self.board.group_count))


def made_world(
    seed: int, *, auction: str = "second_price", planned: bool = False, campaigns: int = 3
) -> World:
    generator = np.random.default_rng(seed)
    groups = int(generator.integers(1, 9))
    traffic = Traffic(groups, START)
    for group in generator.integers(0, groups, int(generator.integers(20, 400))):
        traffic.record(int(group))
    board = Board(groups)
    board.add_slots(campaigns + 1)  # one stays empty
    world = World(board, traffic, float(generator.uniform(0.1, 0.9)) * END, [])
    audiences = [made_audience(generator, groups) for _ in range(2)]
    for slot in range(campaigns):
        audience = audiences[slot % 2]
        cap = int(generator.integers(1, 5))
        impressions = generator.integers(0, 30, groups)
        world.seats.append(_seated(generator, world, slot, audience, cap, impressions, auction))
        if planned:
            _plan(world, world.seats[-1])
    board.turn_to(world.now)
    return world


def _seated(
    generator: np.random.Generator,
    world: World,
    slot: int,
    audience: Audience,
    cap: int,
    impressions: IntArray,
    auction: str,
) -> Seat:
    market = made_market(generator, auction)
    bidder = PlanningBidder(
        audience,
        cap,
        Purse(float(generator.uniform(0.05, 2.0)), START, END),
        market,
        learn=False,
        first_multiplier=float(generator.uniform(100.0, 5_000.0)),
        arrivals=Arrivals(audience.group_count, START, END, traffic=world.traffic),
        plans_itself=False,
    )
    board = world.board
    valuation = BoardValuation(board, slot)
    for group, count in enumerate(impressions.tolist()):
        for _ in range(count):
            bidder.valuation.record(group, START)
            valuation.record(group, START)
    seat = Seat(bidder, slot, Shading(market))
    board.ends[slot], board.most[slot] = END, seat.limit
    board.multipliers[slot] = bidder.multiplier
    kinds = kind_probabilities(audience, cap)[1]
    _set_worth(board, seat, board.add_audience(kinds), 0.0, None)
    return seat


def _set_worth(board: Board, seat: Seat, audience: int, max_left: float, plan: Plan | None) -> None:
    bidder = seat.bidder
    kinds = int(bidder.kind_of_group.max(initial=0)) + 1
    most = int(bidder.valuation.counts().max())
    worth = worth_table(kinds, bidder.kind_probability, most, max_left, plan)
    seat.row_requests = worth.row_requests
    board.set_worth(seat.slot, audience, worth, bidder.left_per_time)


def _plan(world: World, seat: Seat) -> None:
    plan = seat.bidder.plan_job(world.now)()
    seat.bidder.adopt(plan)
    max_left = seat.bidder.left_per_time * (END - world.now) * world.busiest()
    _set_worth(world.board, seat, seat.slot, max_left, plan)
    world.board.multipliers[seat.slot] = seat.bidder.multiplier


seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=60)
def test_without_a_plan_the_board_says_what_the_bidder_says(seed: int) -> None:
    world = made_world(seed)
    for group in range(world.board.group_count):
        values = world.board.value(group, world.share(group))
        assert values[-1] == 0.0  # the slot that nobody has
        for seat in world.seats:
            wanted = seat.bidder.wanted(group, world.now)
            assert values[seat.slot] == pytest.approx(wanted, rel=CLOSE, abs=1e-300)


@given(seeds)
@settings(max_examples=60)
def test_first_prices_are_shaded_as_the_bidder_does(seed: int) -> None:
    """Smooth markets are read off 1,024 points: within 0.2 %. Steps are exact, to their edges."""
    world = made_world(seed, auction="first_price")
    for group in range(world.board.group_count):
        values = world.board.value(group, world.share(group)).tolist()
        for seat in world.seats:
            wanted = seat.bidder.wanted(group, world.now)
            told = seat.shading(values[seat.slot])
            if isinstance(seat.bidder.market, EmpiricalMarket):
                near = [values[seat.slot] * (1.0 + sign * CLOSE) for sign in (-1, 0, 1)]
                assert wanted in {float(seat.bidder.market.optimal_bid(v)) for v in near}
                assert told == float(seat.bidder.market.optimal_bid(values[seat.slot]))
            elif seat.bidder.market.win_probability(wanted) > 1e-6:
                assert told == pytest.approx(wanted, rel=2e-3)


def between(world: World, seat: Seat, group: int) -> tuple[float, float]:
    """What the bidder would say for requests to come within a row of what they are."""
    bidder, plan = seat.bidder, seat.bidder.plan
    assert plan is not None
    kind, count = int(bidder.kind_of_group[group]), bidder.valuation.count(group)
    worth = bidder.valuation.probability(group, world.now) / bidder.multiplier
    left = world.left(seat, group)
    row = np.sqrt(left / seat.row_requests)  # row r is for r² times so many requests
    near = np.linspace(max(row - 0.51, 0.0), row + 0.51, 65) ** 2 * seat.row_requests
    told = [worth * plan.discount(kind, count, float(at)) for at in near]
    return min(told), max(told)


@given(seeds)
@settings(max_examples=40)
def test_with_a_plan_the_board_is_a_row_off_at_most(seed: int) -> None:
    """The plan's discount is sampled at 32 numbers of requests to come."""
    world = made_world(seed, planned=True)
    for group in range(world.board.group_count):
        values = world.board.value(group, world.share(group))
        for seat in world.seats:
            least, most = between(world, seat, group)
            assert least * (1.0 - CLOSE) <= values[seat.slot] <= most * (1.0 + CLOSE)


def test_with_plans_the_board_is_right_on_average() -> None:
    """Mostly exact; where the discount is steep, half a row off is some per cent."""
    errors = []
    for seed in range(20):
        world = made_world(seed, planned=True)
        for group in range(world.board.group_count):
            values = world.board.value(group, world.share(group)).tolist()
            for seat in world.seats:
                wanted = seat.bidder.wanted(group, world.now)
                if wanted > 0.0:
                    errors.append(values[seat.slot] / wanted - 1.0)
    assert len(errors) > 150
    assert abs(np.median(errors)) < 0.01
    assert abs(np.mean(errors)) < 0.02
    assert np.mean(np.abs(errors) > 0.2) < 0.05


@given(seeds)
@settings(max_examples=25)
def test_exact_values_of_a_fresh_ranking_are_the_boards(seed: int) -> None:
    world = made_world(seed, planned=seed % 2 == 0, campaigns=5)
    board = world.board
    for group in range(board.group_count):
        board.forget_rankings()
        share = world.share(group)
        ranks, all_of_them = board.ranks(group, world.traffic.by_group[group], share)
        assert all_of_them
        values = board.value(group, share).tolist()
        told = {rank.slot: board.exact(rank, group) for rank in ranks}
        for slot, value in enumerate(values):
            assert told.get(slot, 0.0) == pytest.approx(value, rel=1e-12, abs=0.0)
        assert [r.score for r in ranks] == sorted((r.score for r in ranks), reverse=True)
        for rank in ranks:
            assert board.exact(rank, group) * rank.luck <= rank.score * (1.0 + CLOSE)


@given(seeds)
@settings(max_examples=10)
def test_values_of_several_requests_are_those_of_each(seed: int) -> None:
    world = made_world(seed, planned=seed % 2 == 0, campaigns=5)
    board = world.board
    groups = np.random.default_rng(seed).integers(board.group_count, size=20)
    shares = np.array([world.share(group) for group in groups.tolist()])
    found = board.values_at(groups, shares, board.counts[groups])
    for row, group, share in zip(found, groups.tolist(), shares.tolist(), strict=True):
        assert row.tobytes() == board.value(group, share).tobytes()


def without_luck(board: Board) -> None:
    """Let the campaign that values a request most come first."""
    vars(board)["_luck"] = lambda weights: np.ones(len(weights))
    board.forget_rankings()


def best_by_stopping_early(world: World, group: int) -> float:
    """The best value as a bidder finds it: down the ranking, to where nobody can be better."""
    without_luck(world.board)
    board, share = world.board, world.share(group)
    ranks, all_of_them = board.ranks(group, world.traffic.by_group[group], share)
    best = 0.0
    while True:
        for rank in ranks:
            if rank.score <= best:
                return best
            best = max(best, board.exact(rank, group))
        if all_of_them:
            return best
        ranks, all_of_them = board.all_ranks(group, share), True


def rounds(seed: int, campaigns: int, planned: bool) -> Iterator[tuple[World, int]]:
    """A world in motion: impressions come, campaigns fall asleep; each time, a group to ask for."""
    world = made_world(seed, planned=planned, campaigns=campaigns)
    generator = np.random.default_rng(seed + 1)
    for _ in range(30):
        what = generator.random()
        slot, group = (
            int(generator.integers(campaigns)),
            int(generator.integers(world.board.group_count)),
        )
        if what < 0.5:
            world.board.record(group, slot)
        elif what < 0.6:
            world.board.multipliers[slot] = np.inf
            world.board.forget_rankings()
        yield world, group


@given(seeds, st.sampled_from([1, 2, 7, 16, 17, 40]))
@settings(max_examples=25)
def test_stopping_early_never_misses_the_best(seed: int, campaigns: int) -> None:
    """Without plans a ranking shared by like groups is as good as one's own."""
    for world, group in rounds(seed, campaigns, planned=False):
        brute = float(world.board.value(group, world.share(group)).max())
        assert best_by_stopping_early(world, group) == pytest.approx(brute, rel=CLOSE)


@given(seeds, st.sampled_from([2, 17]))
@settings(max_examples=15)
def test_with_plans_stopping_early_is_as_good_up_to_a_row(seed: int, campaigns: int) -> None:
    """Groups with about as many requests share a row, hence the best of a neighbouring one."""
    for world, group in rounds(seed, campaigns, planned=True):
        awake = [s for s in world.seats if np.isfinite(world.board.multipliers[s.slot])]
        ours = best_by_stopping_early(world, group)
        if not awake:
            assert ours == 0.0
            continue
        share = world.share(group)
        near = [world.board.value(group, share * part).max() for part in (0.75, 1.0, 1.34)]
        assert min(near) * (1.0 - CLOSE) <= ours <= max(near) * (1.0 + CLOSE)


def test_counts_beyond_16_bits() -> None:
    board = Board(2)
    board.add_slots(1)
    board.load(0, np.array([0]), np.array([59_999]))
    for _ in range(10_000):
        board.record(0, 0)
    assert int(board.counts[0, 0]) == 69_999
    board.revert(1, 0)
    assert int(board.counts[1, 0]) == 0


@pytest.mark.parametrize("sigma", [0.05, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("mu", [-12.0, -6.9, 0.0, 5.0])
def test_shading_is_the_best_bid_of_a_smooth_market(mu: float, sigma: float) -> None:
    market = LogNormalMarket(mu, sigma, "first_price")
    shading = Shading(market)
    for value in np.exp(mu + np.linspace(-3.0, 5.0, 301) * sigma):
        exact = float(market.optimal_bid(value))
        assert shading(float(value)) == pytest.approx(exact, rel=2e-3)
        assert 0.0 <= shading(float(value)) <= value
    assert shading(0.0) == 0.0


@given(seeds)
@settings(max_examples=50)
def test_shading_is_the_best_bid_of_seen_prices(seed: int) -> None:
    generator = np.random.default_rng(seed)
    prices: Any = np.round(np.exp(generator.normal(0.0, 1.0, 30)), 2)
    market = EmpiricalMarket(prices, auction="first_price")
    shading = Shading(market)
    for value in [0.0, *generator.uniform(0.0, 20.0, 200).tolist(), *prices.tolist()]:
        assert shading(value) == float(market.optimal_bid(value))


def test_a_second_price_asks_for_the_value() -> None:
    for market in (LogNormalMarket(0.0, 1.0), EmpiricalMarket([1.0, 2.0])):
        shading = Shading(market)
        assert [shading(v) for v in (0.0, 1e-9, 0.3, 1e9)] == [0.0, 1e-9, 0.3, 1e9]


def test_equal_values_share_requests_by_weight() -> None:
    """Twice the value counts 2⁴ as much as twice the weight. 20,000 rankings, z-tolerance 4.5."""
    world = made_world(1, campaigns=3)
    board, share = world.board, world.share(0)
    board.weights[:3] = [1.0, 3.0, 2.0]
    values = board.value(0, share)[:3].copy()
    chance = board.weights[:3] * values**4
    chance /= chance.sum()
    first = np.zeros(3)
    for _ in range(20_000):
        ranks = board.all_ranks(0, share)
        first[ranks[0].slot] += 1
    error = np.sqrt(chance * (1.0 - chance) / 20_000)
    assert np.abs(first / 20_000 - chance) == pytest.approx(np.zeros(3), abs=4.5 * error.max())
