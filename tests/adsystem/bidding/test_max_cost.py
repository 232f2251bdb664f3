"""What a further reach may cost is limited: ample budgets are not spent on who is reached."""

from typing import Any

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.bidding.conditions import GroupState
from kreach.adsystem.bidding.group_kinds import kind_probabilities
from kreach.adsystem.bidding.outlook import Outlook, OutlookMaker
from kreach.adsystem.bidding.planning import Planner

AUDIENCE = kr.Audience.disjoint([20] * 50)
MARKET = kr.LogNormalMarket(0.0, 0.7)
PLENTY = 1e5


def planner() -> tuple[Planner, GroupState]:
    probability, kinds = kind_probabilities(AUDIENCE, 1)
    left = np.full(50, 400.0)
    return Planner(1, probability), GroupState(kinds, np.zeros(50, dtype=np.int64), left)


@pytest.mark.parametrize("most", [0.5, 2.0, 20.0])
def test_the_multiplier_never_falls_below_the_limit(most: float) -> None:
    solver, state = planner()
    plan = solver.solve(state, PLENTY, MARKET, max_cost_per_reach=most)
    assert plan.multiplier == pytest.approx(1.0 / most)
    assert plan.limited
    same = solver.at_multiplier(state, MARKET, 1.0 / most)
    assert plan.expected_spend == pytest.approx(same.expected_spend)
    # what the last of it bought cost no more than the limit, and a little more buys dearer
    less = solver.at_multiplier(state, MARKET, 1.1 / most)
    more = solver.at_multiplier(state, MARKET, 0.9 / most)
    for low, high in ((less, same), (same, more)):
        spend, reach = (
            high.expected_spend - low.expected_spend,
            high.expected_reach - low.expected_reach,
        )
        assert spend / reach == pytest.approx(most, rel=0.2)


def test_a_limit_that_does_not_bind_changes_nothing() -> None:
    solver, state = planner()
    free = solver.solve(state, 100.0, MARKET)
    both: list[dict[str, Any]] = [{"max_cost_per_reach": 50.0}, {"max_cost_multiple": 50.0}]
    for limits in both:
        plan = solver.solve(state, 100.0, MARKET, **limits)
        assert plan.multiplier == pytest.approx(free.multiplier, rel=0.02)
        assert not plan.limited
    assert free.max_cost_per_reach is None


def test_the_default_is_a_multiple_of_what_the_first_reach_costs() -> None:
    """Half of a group targeted: two impressions for a reach, at the price of most auctions."""
    for targeted, factor in ((20, 1.0), (10, 2.0)):
        audience = kr.Audience.disjoint([20] * 50, [targeted] * 50)
        probability, kinds = kind_probabilities(audience, 1)
        state = GroupState(kinds, np.zeros(50, dtype=np.int64), np.full(50, 400.0))
        bid = float(np.exp(0.7 * 1.2816))  # wins nine auctions of ten
        price = float(MARKET.expected_cost(bid)) / 0.9
        solver = Planner(1, probability)
        assert solver.first_reach_cost(state, MARKET) == pytest.approx(factor * price, rel=0.02)
        plan = solver.solve(state, PLENTY, MARKET, max_cost_multiple=10.0)
        assert plan.max_cost_per_reach == pytest.approx(10.0 * factor * price, rel=0.02)


def fly(bidder: kr.PlanningBidder, requests: int) -> int:
    """Second-price auctions, seeded; how many were won."""
    generator = np.random.default_rng(5)
    wins = 0
    for now in range(requests):
        group, price = int(generator.integers(50)), float(generator.lognormal(0.0, 0.7))
        bid = bidder.bid(group, float(now))
        if bid >= price:
            bidder.won(group, bid, price, float(now))
            wins += 1
        elif bid > 0.0:
            bidder.lost(group, bid)
    return wins


def test_a_bidder_with_ample_money_stops() -> None:
    """20,000 requests of 1,000 people: without a limit everything is bought, 20 for each."""
    wins, spent = {}, {}
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("none", {}),
        ("own", {"max_cost_per_reach": 5.0}),
        ("default", {"max_cost_multiple": 10.0}),
    )
    for name, limits in cases:
        purse = kr.Purse(PLENTY, 0.0, 20_000.0)
        bidder = kr.PlanningBidder(AUDIENCE, 1, purse, MARKET, plans=20, **limits)
        wins[name], spent[name] = fly(bidder, 20_000), purse.spent
        if limits:
            assert bidder.max_cost_per_reach is not None
            assert bidder.multiplier >= 1.0 / bidder.max_cost_per_reach * (1.0 - 1e-9)
    assert wins["none"] > 15_000
    assert wins["own"] < wins["default"] < 8_000
    assert spent["default"] < 0.2 * spent["none"]


def test_the_first_bids_and_a_memory_are_limited_too() -> None:
    def bidder(most: float | None) -> kr.PlanningBidder:
        purse = kr.Purse(50.0, 0.0, 1_000.0)
        return kr.PlanningBidder(
            AUDIENCE, 1, purse, MARKET, first_multiplier=0.1, max_cost_per_reach=most
        )

    assert bidder(None).bid(3, 1.0) == pytest.approx(10.0)
    assert bidder(2.0).bid(3, 1.0) == pytest.approx(2.0)
    again = bidder(2.0)
    again.remember(bidder(None).memory())
    assert again.multiplier == 0.5
    for wrong in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(
            kr.KreachError, match=r"^max_cost_per_reach must be a finite number > 0"
        ):
            bidder(wrong)


@pytest.mark.parametrize("limits", [{}, {"max_cost_multiple": 10.0}, {"max_cost_per_reach": 3.0}])
@pytest.mark.parametrize("budget", [50.0, 1_000.0, PLENTY])
def test_a_plan_never_buys_more_impressions_than_requests(
    limits: dict[str, Any], budget: float
) -> None:
    outlook = OutlookMaker(AUDIENCE, MARKET, 2_000, 1, **limits).for_budget(budget)
    assert outlook.impressions <= 2_000
    assert outlook.spend <= budget
    assert outlook.unspent == pytest.approx(budget - outlook.spend)


def test_an_outlook_says_what_is_left_and_why() -> None:
    def outlook(budget: float, requests: int = 2_000, **limits: Any) -> Outlook:
        return OutlookMaker(AUDIENCE, MARKET, requests, 1, **limits).for_budget(budget)

    tight = outlook(50.0, max_cost_multiple=10.0)
    assert tight.unspent_reason is None
    assert tight.unspent < 1.0
    ample = outlook(PLENTY, 40_000, max_cost_per_reach=4.0)
    assert ample.unspent_reason == "a further reach would cost more than 4"
    assert ample.max_cost_per_reach == 4.0
    assert ample.average_frequency < 6.0
    assert outlook(PLENTY).unspent_reason == "every request is bought"


def test_a_reach_that_would_cost_too_much_is_refused() -> None:
    maker = OutlookMaker(AUDIENCE, MARKET, 40_000, 1, max_cost_per_reach=2.0)
    with pytest.raises(kr.KreachError, match=r"^reach must lie between 0 and what 2 per further"):
        maker.for_reach(999.0)
    with pytest.raises(kr.KreachError, match=r"^max_cost_per_reach must be a finite number > 0"):
        OutlookMaker(AUDIENCE, MARKET, 100, 1, max_cost_per_reach=0.0)
