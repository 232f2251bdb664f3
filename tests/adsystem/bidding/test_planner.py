"""Plans for a campaign: the money is planned to the percent, and blocks change little."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.bidding.conditions import GroupState
from kreach.adsystem.bidding.group_kinds import kind_probabilities
from kreach.adsystem.bidding.planning import Planner
from kreach.adsystem.bidding.responses import market_response
from kreach.boundary.money import AUCTIONS
from kreach.numeric.planning import solve_plan
from tests.adsystem.visit_models import sample_model

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MARKET = kr.LogNormalMarket(0.0, 0.7)


def planner_of(audience: kr.Audience, cap: int, *, ahead: bool = True) -> tuple[Planner, IntArray]:
    probability, kinds = kind_probabilities(audience, cap)
    return Planner(int(kinds.max(initial=0)) + 1, probability, ahead=ahead), kinds


def fresh(kinds: IntArray, requests: float) -> GroupState:
    """Nothing shown yet; requests spread evenly."""
    count = len(kinds)
    return GroupState(kinds, np.zeros(count, dtype=np.int64), np.full(count, requests / count))


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("auction", AUCTIONS)
@pytest.mark.parametrize("budget", [1.0, 20.0, 90.0, 430.0])
@pytest.mark.parametrize("size", [1, 6, 120])
def test_a_plan_spends_the_budget_to_the_percent(
    size: int, budget: float, auction: str, ahead: bool
) -> None:
    """Or, where that is impossible, says so by a price of money next to nothing."""
    planner, kinds = planner_of(kr.Audience.disjoint([size] * (120 // size)), 3, ahead=ahead)
    market = kr.LogNormalMarket(0.0, 0.7, auction)
    plan = planner.solve(fresh(kinds, 2_000.0), budget, market)
    if plan.expected_spend < 0.99 * budget:
        assert plan.multiplier < 1e-6
    else:
        assert plan.expected_spend == pytest.approx(budget, rel=0.0101)
    assert 0.0 < plan.expected_reach <= 360.0


@settings(max_examples=25)
@given(
    kinds=st.lists(
        st.tuples(st.integers(1, 30), st.floats(0.1, 1.0), st.sampled_from([0.5, 5.0, np.inf])),
        min_size=1,
        max_size=3,
    ),
    shown=st.lists(st.integers(0, 20), min_size=6, max_size=6),
    left=st.lists(st.floats(0.0, 200.0), min_size=6, max_size=6),
    share=st.floats(0.01, 0.6),
    guess=st.sampled_from([None, 1e-6, 1.0, 1e6]),
)
def test_any_state_can_be_planned(
    kinds: list[tuple[int, float, float]],
    shown: list[int],
    left: list[float],
    share: float,
    guess: float | None,
) -> None:
    """Mixed kinds, groups that are far on and groups without requests, good and bad guesses."""
    groups = (kinds * 6)[:6]
    audience = kr.Audience.disjoint(
        [size for size, _, _ in groups],
        [max(1, int(size * part)) for size, part, _ in groups],
        [a for _, _, a in groups],
    )
    planner, codes = planner_of(audience, 2)
    state = GroupState(codes, np.array(shown), np.array(left))
    everything = sum(left) * float(MARKET.expected_cost(np.inf))
    budget = share * everything + 1e-3
    plan = planner.solve(state, budget, MARKET, guess)
    assert plan.expected_spend <= budget * 1.0101
    if everything > 0.0 and plan.multiplier > 1e-6 and plan.multiplier < 1e8:
        assert plan.expected_spend == pytest.approx(budget, rel=0.0101)
    assert (
        0.0
        <= plan.expected_reach
        <= kr.measure(audience, np.array(shown) + np.ceil(left).astype(int) + 100, 2).reach
    )


def test_money_is_worth_less_the_more_there_is() -> None:
    planner, kinds = planner_of(kr.Audience.disjoint([20] * 6), 1)
    plans = [planner.solve(fresh(kinds, 2_000.0), b, MARKET) for b in (2.0, 20.0, 50.0, 90.0)]
    multipliers = [plan.multiplier for plan in plans]
    reaches = [plan.expected_reach for plan in plans]
    assert multipliers == sorted(multipliers, reverse=True)
    assert reaches == sorted(reaches)


def test_planning_ahead_promises_more_for_the_same_money() -> None:
    """Against the same pacing, so that only the value of a request differs."""
    audience = kr.Audience.disjoint([20] * 6)
    reach = {}
    for ahead in (True, False):
        planner, kinds = planner_of(audience, 1, ahead=ahead)
        reach[ahead] = planner.solve(fresh(kinds, 2_000.0), 20.0, MARKET).expected_reach
    assert reach[True] > 1.03 * reach[False]


def test_nothing_to_spend_or_nothing_to_come() -> None:
    planner, kinds = planner_of(kr.Audience.disjoint([20] * 6), 1)
    for state, budget in ((fresh(kinds, 100.0), 0.0), (fresh(kinds, 0.0), 5.0)):
        plan = planner.solve(state, budget, MARKET)
        assert (plan.expected_spend, plan.expected_reach) == (0.0, 0.0)
        assert plan.discount(0, 3, 10.0) == 1.0


def test_at_a_given_multiplier() -> None:
    planner, kinds = planner_of(kr.Audience.disjoint([20] * 6), 1)
    state = fresh(kinds, 2_000.0)
    plan = planner.solve(state, 30.0, MARKET)
    again = planner.at_multiplier(state, MARKET, plan.multiplier)
    assert again.expected_spend == pytest.approx(plan.expected_spend, rel=1e-12)
    assert again.expected_reach == pytest.approx(plan.expected_reach, rel=1e-12)


@pytest.mark.parametrize(("size", "requests"), [(50, 400.0), (500, 2_000.0)])
@pytest.mark.parametrize("multiplier", [0.4, 1.0])
def test_blocks_against_no_blocks(size: int, requests: float, multiplier: float) -> None:
    """One group. Beside the plan in at most 65 columns and 96 steps, a table with a column for
    each impression and short steps: reach and spend within 2.5 %."""
    planner, kinds = planner_of(kr.Audience.disjoint([size]), 1)
    plan = planner.at_multiplier(fresh(kinds, requests), MARKET, multiplier)
    columns = int(0.7 * requests)
    p = (1.0 - 1.0 / size) ** np.arange(columns, dtype=np.float64)
    table = solve_plan(p, requests, 2 * columns, multiplier, market_response(MARKET))
    spend, value = table.spend[-1, 0], table.value[-1, 0]
    assert plan.expected_spend == pytest.approx(spend, rel=0.025)
    assert plan.expected_reach == pytest.approx(value + multiplier * spend, rel=0.025)
    # what a request is worth in the middle of the flight
    half, won = requests / 2.0, int(0.2 * size)
    fine = table.at(table.worth, np.array([float(won)]), np.array([half]))[0] / p[won]
    assert plan.discount(0, won, half) == pytest.approx(float(fine), abs=0.04)


@pytest.mark.parametrize("cap", [1, 3])
def test_a_discount_is_a_share(cap: int) -> None:
    """Between 0 and 1; 1 when nothing is to come; lower the more is to come."""
    planner, kinds = planner_of(kr.Audience.disjoint([6] * 20), cap)
    plan = planner.solve(fresh(kinds, 2_000.0), 50.0, MARKET)
    for n in (0, 1, 5, 20, 10_000):
        row = [plan.discount(0, n, left) for left in (0.0, 5.0, 25.0, 50.0, 100.0, 1e6)]
        assert row[0] == 1.0
        assert row == sorted(row, reverse=True)
        assert min(row) >= 0.0
    many = plan.discounts(0, np.array([0, 1, 5]), np.array([100.0, 5.0, 0.0]))
    assert many.tolist() == [plan.discount(0, *row) for row in ((0, 100.0), (1, 5.0), (5, 0.0))]


def test_without_planning_ahead_nothing_is_discounted() -> None:
    planner, kinds = planner_of(kr.Audience.disjoint([6] * 20), 1, ahead=False)
    plan = planner.solve(fresh(kinds, 2_000.0), 50.0, MARKET)
    assert [plan.discount(0, n, left) for n in (0, 3) for left in (0.0, 50.0)] == [1.0] * 4


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_the_unit_of_money_does_not_matter(scale: float) -> None:
    """Prices and budget in micros, cents or millions: the same reach, and λ in proportion."""
    planner, kinds = planner_of(kr.Audience.disjoint([20] * 6), 1)
    state = fresh(kinds, 2_000.0)
    plain = planner.solve(state, 20.0, MARKET)
    scaled = planner.solve(state, 20.0 * scale, kr.LogNormalMarket(float(np.log(scale)), 0.7))
    assert scaled.expected_reach == pytest.approx(plain.expected_reach, rel=0.02)
    assert scaled.expected_spend == pytest.approx(20.0 * scale, rel=0.0101)
    assert scaled.multiplier * scale == pytest.approx(plain.multiplier, rel=0.03)


@pytest.mark.parametrize("auction", AUCTIONS)
def test_the_response_of_a_market(auction: str) -> None:
    market = kr.LogNormalMarket(0.3, 0.6, auction)
    response = market_response(market)
    values = np.array([0.0, 0.2, 1.0, 3.0, 50.0])
    win, cost = response.win_and_cost(values)
    bids = market.optimal_bid(values[1:])
    assert win[1:] == pytest.approx(market.win_probability(bids), abs=1e-3)
    assert cost[1:] == pytest.approx(market.expected_cost(bids), rel=5e-3)
    assert (win[0], cost[0]) == (0.0, 0.0)
    assert (np.diff(response.values) > 0.0).all()


def test_kinds_of_a_disjoint_audience_are_its_own() -> None:
    audience = kr.Audience.disjoint([5, 9, 5], [5, 4, 5], dispersion=[0.5, np.inf, 0.5])
    probability, kinds = kind_probabilities(audience, 2)
    assert kinds[0] == kinds[2] != kinds[1]
    for group in range(3):
        for n in (0, 3, 17):
            counts = [0, 0, 0]
            counts[group] = n
            expected = kr.reach_probability(audience, counts, 2)[group]
            found = probability(int(kinds[group]), np.array([float(n)]))
            assert found.tolist() == pytest.approx([expected], rel=1e-12)


def test_profiled_groups_are_planned_as_their_average() -> None:
    audience = kr.Audience.profiled([[0.5, 0.5], [0.1, 0.9], [1.0]])
    probability, kinds = kind_probabilities(audience, 1)
    assert kinds.tolist() == [0, 0, 0]
    for n in (0, 2, 7):
        expected = kr.reach_probability(audience, [n] * 3, 1).mean()
        assert probability(0, np.array([float(n)])).tolist() == pytest.approx([expected])


def test_a_group_that_reaches_nobody_is_planned_at_nothing() -> None:
    planner, kinds = planner_of(kr.Audience.disjoint([5, 5], [0, 5]), 1)
    plan = planner.solve(fresh(kinds, 200.0), 5.0, MARKET)
    only, some = planner_of(kr.Audience.disjoint([5]), 1)
    alone = only.solve(
        GroupState(some, np.zeros(1, dtype=np.int64), np.full(1, 100.0)), 5.0, MARKET
    )
    assert plan.expected_reach == pytest.approx(alone.expected_reach, rel=0.02)


# -- requests in sessions ---------------------------------------------------------------------


def session_planner(audience: kr.Audience, more: float) -> tuple[Planner, IntArray]:
    probability, kinds = kind_probabilities(audience, 1)
    return Planner(int(kinds.max(initial=0)) + 1, probability, more=more), kinds


@pytest.mark.parametrize("auction", AUCTIONS)
@pytest.mark.parametrize("budget", [60.0, 400.0])
@pytest.mark.parametrize("more", [0.5, 0.8])
def test_flights_of_sessions_spend_and_reach_what_was_planned(
    more: float, budget: float, auction: str
) -> None:
    """200 groups of 20 with 60 requests each, in geometric sessions; 10 flights.

    The buyer knows the sessions and leaves one that it has won alone. Plans are solved to 1 % in
    steps of a flight; spend and reach of the flights are within 4 % of them.
    """
    groups, requests, flights, steps = 200, 60.0, 10, 120
    planner, kinds = session_planner(kr.Audience.disjoint([20] * groups), more)
    market = kr.LogNormalMarket(0.0, 0.7, auction)
    plan = planner.solve(fresh(kinds, groups * requests), budget, market)
    assert plan.expected_spend == pytest.approx(budget, rel=0.0101)
    generator = np.random.default_rng(17)
    won = np.zeros(groups * flights, dtype=np.int64)
    spend = reach = 0.0
    for step in range(steps):
        left = np.full(len(won), requests * (steps - step - 0.5) / steps)
        p = (1.0 - 1.0 / 20.0) ** won
        worth = p * plan.discounts(0, won, left)
        value = plan.response.request_value(worth / plan.multiplier)
        bid = market.optimal_bid(np.maximum(value, 1e-12))
        going = generator.random(len(won)) < requests * (1.0 - more) / steps
        while going.any():
            price = generator.lognormal(0.0, 0.7, len(won))
            win = going & (price <= bid)
            spend += float(np.where(win, price if auction == "second_price" else bid, 0.0).sum())
            reach += float(p[win].sum())
            won += win
            going = going & ~win & (generator.random(len(won)) < more)
    assert spend / flights == pytest.approx(plan.expected_spend, rel=0.04)
    assert reach / flights == pytest.approx(plan.expected_reach, rel=0.04)


@pytest.mark.parametrize("evidence", [float("inf"), 0.5])
def test_discounts_of_sessions_are_shares(evidence: float) -> None:
    """1 when nothing is to come, and lower the more is."""
    audience = kr.Audience.disjoint([6] * 20)
    plans = []
    for more in (0.0, 0.6):
        planner, kinds = session_planner(audience, more)
        state = fresh(kinds, 2_000.0)
        state = GroupState(state.kind, state.impressions, state.requests_left, evidence)
        plans.append(planner.at_multiplier(state, MARKET, 1.0))
    for n in (0, 1, 5, 10_000):
        for plan in plans:
            row = [plan.discount(0, n, left) for left in (0.0, 5.0, 25.0, 100.0, 1e6)]
            assert row[0] == pytest.approx(1.0)
            assert row == sorted(row, reverse=True)
            assert min(row) >= 0.0
    # a request of a session is worth less than the session
    assert 0.0 < plans[1].request_value(1.0) < 1.0 / plans[1].multiplier
    assert plans[0].request_value(1.0) == 1.0 / plans[0].multiplier


def test_uncertain_traffic_is_waited_for_less() -> None:
    """The less is known, the higher the discounted value; the budget is planned as before."""
    planner, kinds = session_planner(kr.Audience.disjoint([20] * 50), 0.5)
    known = fresh(kinds, 2_000.0)
    discounts = []
    for evidence in (float("inf"), 2.0, 0.3, 0.05):
        state = GroupState(known.kind, known.impressions, known.requests_left, evidence)
        assert planner.solve(state, 40.0, MARKET).expected_spend == pytest.approx(40.0, rel=0.0101)
        discounts.append(planner.at_multiplier(state, MARKET, 1.0).discount(0, 0, 40.0))
    assert discounts == sorted(discounts)
    assert discounts[-1] > 1.03 * discounts[0]


def test_without_its_tables_a_plan_keeps_the_rest() -> None:
    planner, kinds = session_planner(kr.Audience.disjoint([6] * 20), 0.6)
    plan = planner.solve(fresh(kinds, 2_000.0), 50.0, MARKET)
    bare = plan.without_tables()
    assert bare.discount(0, 0, 50.0) == 1.0
    assert bare.request_value(0.3) == plan.request_value(0.3)
    assert (bare.multiplier, bare.expected_spend) == (plan.multiplier, plan.expected_spend)


@pytest.mark.parametrize("dispersion", [None, 0.6])
@pytest.mark.parametrize("cap", [1, 3])
def test_kinds_with_a_flat_model_are_those_without(dispersion: float | None, cap: int) -> None:
    sizes = [20, 20, 20]
    audience = kr.Audience.disjoint(sizes, [20, 8, 20])
    plain, _ = kind_probabilities(
        kr.Audience.disjoint(sizes, [20, 8, 20], dispersion=dispersion or np.inf), cap
    )
    drawn, kinds = kind_probabilities(audience, cap, kr.VisitModel.flat(20, dispersion))
    draws = np.arange(40.0)
    for kind in np.unique(kinds).tolist():
        assert drawn(kind, draws) == pytest.approx(plain(kind, draws), rel=1e-9)


def test_kinds_with_a_model() -> None:
    """From the targeted share down, between draws rounded; a group of one is known."""
    audience = kr.Audience.disjoint([6, 6, 1], [6, 3, 1])
    probability, kinds = kind_probabilities(audience, 2, sample_model())
    for group, share in ((0, 1.0), (1, 0.5)):
        values = probability(int(kinds[group]), np.arange(60.0))
        assert values[:2] == pytest.approx([share, share])
        assert (np.diff(values) <= 1e-12).all()
        assert 0.0 < values[-1] < 0.3 * share
    alone = probability(int(kinds[2]), np.array([0.0, 1.0, 2.0, 7.0]))
    assert alone.tolist() == [1.0, 1.0, 0.0, 0.0]
