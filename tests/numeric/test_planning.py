"""The value of requests to come, against dynamic programs that know nothing of `solve_plan`."""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.special import ndtr

from kreach.numeric.gamma_factors import gamma_factors
from kreach.numeric.plan_tables import PlanTable
from kreach.numeric.planning import Response, solve_plan

FloatArray = npt.NDArray[np.float64]
Curve = Callable[[FloatArray], FloatArray]

SIGMA = 0.7
GRID = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 40_000)])


def even_market(points: int = 40_001) -> Response:
    """Second prices spread evenly over [0, 1]: W(b) = b, H(b) = b²/2."""
    values = np.append(np.linspace(0.0, 1.0, points), 1e6)
    bids = np.minimum(values, 1.0)
    return Response(values, bids, bids, bids * bids / 2.0)


def log_normal_win(bid: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        result: FloatArray = ndtr(np.log(bid) / SIGMA)
    return result


def log_normal_cost(bid: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        result: FloatArray = np.exp(SIGMA**2 / 2) * ndtr(np.log(bid) / SIGMA - SIGMA)
    return result


def log_normal_market() -> Response:
    return Response(GRID, GRID, log_normal_win(GRID), log_normal_cost(GRID))


def uniform_group(size: int, count: int) -> FloatArray:
    """p(n) = (1 − 1/k)ⁿ: cap 1, everybody targeted."""
    result: FloatArray = (1.0 - 1.0 / size) ** np.arange(count, dtype=np.float64)
    return result


def worth_by_hand(requests: int) -> list[Fraction]:
    """One person, cap 1, prices even on [0, 1], λ = 1: V ← V + (1 − V)²/2, worth = 1 − V."""
    value = Fraction(0)
    result = []
    for _ in range(requests + 1):
        result.append(1 - value)
        value += (1 - value) ** 2 / 2
    return result


def test_one_person_by_hand() -> None:
    """The last request is worth 1, the one before 1/2, the one before that 3/8."""
    assert worth_by_hand(3) == [1, Fraction(1, 2), Fraction(3, 8), Fraction(39, 128)]
    table = solve_plan(np.array([1.0, 0.0, 0.0]), 3.0, 3, 1.0, even_market())
    assert table.worth[:, 0] == pytest.approx([float(w) for w in worth_by_hand(3)], abs=1e-9)
    assert table.value[:, 0] == pytest.approx([0.0, 1 / 2, 5 / 8, 89 / 128], abs=1e-9)
    assert table.tau.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert not table.value[:, 1].any()


def brute_force(
    probability: Sequence[float], requests: int, multiplier: float, win: Curve, cost: Curve
) -> tuple[dict[tuple[int, int], float], dict[tuple[int, int], float]]:
    """V(n, s) and the spend S(n, s), request by request; the best bid by trying a great many."""
    bids = np.concatenate([[0.0], np.geomspace(1e-3, 50.0, 30_000)])
    chance, price = win(bids), cost(bids)
    value: dict[tuple[int, int], float] = {}
    spend: dict[tuple[int, int], float] = {}
    columns = len(probability)
    for s in range(requests + 1):
        for n in range(columns + 1):
            if s == 0 or n == columns:
                value[n, s] = spend[n, s] = 0.0
                continue
            stay, go = value[n, s - 1], value[n + 1, s - 1]
            options = chance * (probability[n] + go) + (1.0 - chance) * stay - multiplier * price
            best = int(options.argmax())
            value[n, s] = float(options[best])
            spend[n, s] = float(
                price[best]
                + chance[best] * spend[n + 1, s - 1]
                + (1.0 - chance[best]) * spend[n, s - 1]
            )
    return value, spend


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("size", [1, 3, 20])
def test_against_the_recursion_request_by_request(size: int, multiplier: float) -> None:
    """A step a request is the recursion itself; the brute-force bids are 0.04 % apart."""
    requests, columns = 12, 13
    p = uniform_group(size, columns)
    table = solve_plan(p, float(requests), requests, multiplier, log_normal_market())
    value, spend = brute_force(p.tolist(), requests, multiplier, log_normal_win, log_normal_cost)
    for s in range(requests + 1):
        for n in range(columns):
            assert table.value[s, n] == pytest.approx(value[n, s], abs=2e-6)
            assert table.spend[s, n] == pytest.approx(spend[n, s], rel=2e-3, abs=2e-4)
            worth = p[n] - (value[n, s] - value[n + 1, s])
            assert table.worth[s, n] == pytest.approx(max(worth, 0.0), abs=2e-6)


def random_arrivals(p: FloatArray, tau: float, multiplier: float) -> FloatArray:
    """V(n, τ) by a general solver of differential equations, to 1e-9."""

    def slope(_: float, v: FloatArray) -> FloatArray:
        after = np.append(v[1:], 0.0)
        bid = np.maximum(p - v + after, 0.0) / multiplier
        result: FloatArray = (p - v + after) * log_normal_win(bid) - multiplier * log_normal_cost(
            bid
        )
        return result

    solved = solve_ivp(slope, (0.0, tau), np.zeros(len(p)), rtol=1e-9, atol=1e-11)
    result: FloatArray = solved.y[:, -1]
    return result


def test_many_short_steps_are_requests_at_random_moments() -> None:
    """The error of steps of length δ is of order δ: a quarter of the step, a quarter of it."""
    p, tau, multiplier = uniform_group(6, 40), 60.0, 0.8
    exact = random_arrivals(p, tau, multiplier)[0]
    errors = [
        abs(solve_plan(p, tau, steps, multiplier, log_normal_market()).value[-1, 0] - exact)
        for steps in (60, 240, 960)
    ]
    assert errors[0] < 0.02 * exact
    assert errors[1] == pytest.approx(errors[0] / 4.0, rel=0.25)
    assert errors[2] == pytest.approx(errors[0] / 16.0, rel=0.35)


falling = st.lists(st.floats(0.05, 1.0), min_size=2, max_size=12).map(
    lambda ratios: np.cumprod(np.array(ratios))
)


@settings(max_examples=60)
@given(p=falling, requests=st.integers(1, 60), multiplier=st.floats(0.05, 20.0))
def test_laws_of_a_plan(p: FloatArray, requests: int, multiplier: float) -> None:
    response = log_normal_market()
    table = solve_plan(p, float(requests), requests, multiplier, response)
    slack = 1e-9
    assert (table.worth[0] == p).all()  # nothing comes later
    assert (table.worth >= 0.0).all()
    assert (table.worth <= p + slack).all()
    assert (np.diff(table.worth, axis=0) <= slack).all()  # the more to come, the less is lost
    assert (np.diff(table.value, axis=0) >= -slack).all()
    assert (np.diff(table.value, axis=1) <= slack).all()
    blind = solve_plan(p, float(requests), requests, multiplier, response, ahead=False)
    assert (blind.worth == p).all()
    # interpolated win and cost differ from the true ones by less than 1e-7
    assert (table.value >= blind.value - 1e-6).all()


def test_planning_ahead_is_worth_something() -> None:
    p = np.array([1.0, 0.0])
    ahead = solve_plan(p, 20.0, 200, 0.3, log_normal_market())
    blind = solve_plan(p, 20.0, 200, 0.3, log_normal_market(), ahead=False)
    assert ahead.value[-1, 0] > 1.05 * blind.value[-1, 0]
    assert ahead.spend[-1, 0] < 0.7 * blind.spend[-1, 0]


@pytest.mark.parametrize("ahead", [True, False])
def test_value_is_reach_less_the_price_of_money(ahead: bool) -> None:
    """R(n) follows ∂R/∂τ = W·(p + R(n+1) − R(n)) under the same bids."""
    p, tau, steps, multiplier = uniform_group(4, 30), 25.0, 120, 0.6
    response = log_normal_market()
    table = solve_plan(p, tau, steps, multiplier, response, ahead=ahead)
    reach = np.zeros(len(p) + 1)
    for row in range(steps):
        win, _ = response.win_and_cost(table.worth[row] / multiplier)
        reach[:-1] += tau / steps * win * (p + reach[1:] - reach[:-1])
    assert table.value[-1] + multiplier * table.spend[-1] == pytest.approx(reach[:-1], abs=1e-12)


@pytest.mark.parametrize("ahead", [True, False])
def test_flights_under_a_plan_reach_and_spend_what_it_says(ahead: bool) -> None:
    """40,000 simulated groups; z-tolerance 4.5. A step holds a request with probability 1/4."""
    size, tau, steps, multiplier, flights = 3, 15.0, 60, 0.7, 40_000
    p = uniform_group(size, 40)
    table = solve_plan(p, tau, steps, multiplier, even_market(), ahead=ahead)
    generator = np.random.default_rng(41)
    won = np.zeros(flights, dtype=np.int64)
    spend, reach = np.zeros(flights), np.zeros(flights)
    for left in range(steps - 1, -1, -1):  # `left` steps come after this one
        bid = np.minimum(table.worth[left, won] / multiplier, 1.0)
        price = generator.uniform(size=flights)
        win = (generator.uniform(size=flights) < tau / steps) & (price <= bid)
        reach += np.where(win, p[won], 0.0)
        spend += np.where(win, price, 0.0)
        won += win
    for actual, expected in (
        (spend, table.spend[-1, 0]),
        (reach, table.value[-1, 0] + multiplier * table.spend[-1, 0]),
    ):
        error = actual.std() / np.sqrt(flights)
        assert actual.mean() == pytest.approx(expected, abs=4.5 * error)


def test_dear_money_buys_nothing_and_free_money_everything() -> None:
    p = uniform_group(5, 60)
    dear = solve_plan(p, 20.0, 100, 1e9, log_normal_market())
    assert dear.spend[-1, 0] < 1e-6
    free = solve_plan(p, 20.0, 400, 1e-9, log_normal_market())
    assert free.spend[-1, 0] == pytest.approx(20.0 * np.exp(SIGMA**2 / 2), rel=1e-6)


def table_of(worth: npt.ArrayLike) -> PlanTable:
    array = np.array(worth, dtype=np.float64)
    return PlanTable(2.0 * np.arange(len(array), dtype=np.float64), array, array, array)


def test_look_up_between_rows_and_columns() -> None:
    table = table_of([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]])
    actual = table.at(table.worth, np.array([0.0, 1.5, 1.0, 0.25]), np.array([0.0, 0.0, 1.0, 2.0]))
    assert actual.tolist() == [0.0, 1.5, 6.0, 10.25]


def test_look_up_outside_takes_the_edge() -> None:
    table = table_of([[0.0, 1.0], [10.0, 11.0]])
    actual = table.at(table.value, np.array([-1.0, 9.0, 9.0]), np.array([-1.0, 0.0, 99.0]))
    assert actual.tolist() == [0.0, 1.0, 11.0]
    single = table_of([[3.0, 5.0]])
    assert single.at(single.spend, np.array([0.5]), np.array([7.0])).tolist() == [4.0]


def test_response_between_points() -> None:
    response = Response(*(np.array(row) for row in ([0.0, 2.0], [0.0, 1.0], [0.0, 1.0], [0.0, 4])))
    win, cost = response.win_and_cost(np.array([-1.0, 0.5, 2.0, 50.0]))
    assert win.tolist() == [0.0, 0.25, 1.0, 1.0]
    assert cost.tolist() == [0.0, 1.0, 4.0, 4.0]


# -- sessions ---------------------------------------------------------------------------------

Bid = tuple[Fraction, Fraction]  # the chance to win, and the expected cost

PRICES = (Fraction(1), Fraction(2), Fraction(4))  # equally likely


def bids_of(auction: str) -> list[Bid]:
    """Not to bid, or to beat the lowest one, two or three prices."""
    bids = [(Fraction(0), Fraction(0))]
    for number in (1, 2, 3):
        win = Fraction(number, 3)
        paid = sum(PRICES[:number]) / 3 if auction == "second" else win * PRICES[number - 1]
        bids.append((win, Fraction(paid)))
    return bids


def best(value: Fraction, bids: list[Bid]) -> Bid:
    return max(bids, key=lambda bid: bid[0] * value - bid[1])


def session_by_hand(worth: Fraction, more: Fraction, bids: list[Bid]) -> tuple[Fraction, ...]:
    """Surplus, chance to win and cost of a session of up to 150 requests, from the last one back.

    A request that is lost is followed by another with probability `more`. Also the value of its
    first request: what winning it brings beyond what the rest of the session still would.
    """
    surplus = win = cost = Fraction(0)
    for _ in range(150):
        request = worth - more * surplus
        won, paid = best(request, bids)
        lost = (1 - won) * more
        surplus = won * worth - paid + lost * surplus
        win, cost = won + lost * win, paid + lost * cost
        # rounded, or the fractions would grow without end
        surplus, win, cost = (x.limit_denominator(10**15) for x in (surplus, win, cost))
    return surplus, win, cost, worth - more * surplus


@pytest.mark.parametrize("auction", ["second", "first"])
@pytest.mark.parametrize("more", [Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)])
def test_a_session_by_hand(auction: str, more: Fraction) -> None:
    """Values of a request from below the lowest price to far above the highest, none on a tie."""
    bids = bids_of(auction)
    requests = [Fraction(n, 8) for n in (3, 9, 11, 17, 25, 30, 35, 50, 99, 200)]
    chosen = [best(request, bids) for request in requests]
    single = Response(
        np.array([float(y) for y in requests]),
        np.zeros(len(requests)),
        np.array([float(win) for win, _ in chosen]),
        np.array([float(cost) for _, cost in chosen]),
    )
    whole = single.of_sessions(float(more))
    for at, request in enumerate(requests):
        worth = Fraction(float(whole.values[at]))
        _, win, cost, found = session_by_hand(worth, more, bids)
        assert float(found) == pytest.approx(float(request), abs=1e-9)
        assert whole.win[at] == pytest.approx(float(win), abs=1e-9)
        assert whole.cost[at] == pytest.approx(float(cost), abs=1e-9)
        assert whole.request_value(np.array(float(worth))) == pytest.approx(float(request))


def test_without_a_next_request_a_session_is_its_request() -> None:
    response = log_normal_market()
    assert response.of_sessions(0.0) is response
    values = np.array([0.0, 0.3, 50.0, 1e7])
    assert response.request_value(values).tolist() == values.tolist()


@settings(max_examples=40)
@given(more=st.floats(0.01, 0.95), longer=st.floats(0.01, 0.04))
def test_laws_of_sessions(more: float, longer: float) -> None:
    single = log_normal_market()
    whole, further = single.of_sessions(more), single.of_sessions(more + longer)
    value = np.geomspace(1e-3, 1e5, 300)
    win, cost = whole.win_and_cost(value)
    for rising in (win, cost, whole.request_value(value), whole.values):
        assert (np.diff(rising) >= -1e-9).all()
    assert (win <= 1.0 + 1e-12).all()
    # a request is worth less than its session, and the less the longer the session
    assert (whole.request_value(value) <= value * (1.0 + 1e-9)).all()
    assert (further.request_value(value) <= whole.request_value(value) * (1.0 + 1e-6)).all()
    # but a session is won more often, and for less a win, than its first request at full value
    alone = single.win_and_cost(whole.request_value(value))[0]
    assert (win >= alone - 1e-6).all()
    per_win = cost[win > 1e-3] / win[win > 1e-3]
    blind_win, blind_cost = single.win_and_cost(value[win > 1e-3])
    assert (per_win <= blind_cost / blind_win + 1e-6).all()


def test_a_session_beyond_every_price_is_won_by_its_first_request() -> None:
    """Above the grid every bid wins: U = v − E[price], so y = v − e(v − E[price])."""
    whole = even_market().of_sessions(0.6)
    value = np.array([3e6, 1e7])  # the grid of the even market ends at a request of 1e6
    assert whole.request_value(value) == pytest.approx(0.4 * value + 0.6 * 0.5)


# -- uncertain traffic ------------------------------------------------------------------------


def test_factors_of_a_gamma_law() -> None:
    shapes = np.array([1e-6, 0.3, 1.0, 4.0, 50.0, 1e9])
    factors = gamma_factors(shapes)
    assert factors.mean(axis=1) == pytest.approx(np.ones(len(shapes)), abs=1e-12)
    assert (factors > 0.0).all()
    assert (np.diff(factors, axis=1) > 0.0).all()
    assert factors[0].tolist() == factors[1].tolist()  # no shape below 0.3 is told apart
    spread = factors.std(axis=1)
    assert (np.diff(spread[1:]) < 0.0).all()
    assert factors[-1] == pytest.approx(np.ones(factors.shape[1]), abs=2e-3)
    # five points have most of the spread, 1/√shape, of the law
    assert spread[3] == pytest.approx(0.5, rel=0.2)


def tables_along(tau: FloatArray, *curves: FloatArray) -> PlanTable:
    """A table whose columns are these curves, as worth, value and spend alike."""
    table = np.stack(curves, axis=1)
    return PlanTable(tau, table, 2.0 * table, 3.0 * table)


def test_averaging_keeps_what_is_linear() -> None:
    tau = np.linspace(0.0, 60.0, 241)
    table = tables_along(tau, 5.0 - 0.01 * tau, 2.0 * tau)
    averaged = table.averaged(10.0, 20, 0.8)
    assert averaged.tau == pytest.approx(np.linspace(0.0, 10.0, 21))
    assert averaged.worth[:, 0] == pytest.approx(5.0 - 0.01 * averaged.tau)
    assert averaged.value[:, 1] == pytest.approx(4.0 * averaged.tau)
    assert averaged.spend[:, 1] == pytest.approx(6.0 * averaged.tau)


def test_much_evidence_changes_nothing() -> None:
    table = solve_plan(uniform_group(6, 30), 40.0, 400, 0.7, log_normal_market())
    averaged = table.averaged(40.0, 400, 1e9)
    assert averaged.worth[50:] == pytest.approx(table.worth[50:], abs=1e-4)
    assert averaged.value[50:] == pytest.approx(table.value[50:], abs=1e-3)
    assert averaged.spend[50:] == pytest.approx(table.spend[50:], abs=1e-3)


def test_the_less_is_known_the_less_waiting_is_worth() -> None:
    """Worth is convex and value concave in τ: doubt raises the one and lowers the other."""
    table = solve_plan(uniform_group(6, 40), 200.0, 800, 0.7, log_normal_market())
    rows = [table.averaged(30.0, 30, evidence) for evidence in (1e6, 1.0, 0.2, 0.05)]
    worth = [float(row.worth[-1, 0]) for row in rows]
    value = [float(row.value[-1, 0]) for row in rows]
    assert worth == sorted(worth)
    assert value == sorted(value, reverse=True)
    assert worth[-1] > 1.05 * worth[0]
    for row in rows:
        assert row.worth[0] == pytest.approx(table.worth[0])  # nothing to come is certain


@pytest.mark.parametrize("evidence", [0.1, 0.5, 2.0])
def test_averages_against_drawn_traffic(evidence: float) -> None:
    """400,000 drawn amounts of traffic; five points are within 2 %."""
    table = solve_plan(uniform_group(6, 40), 300.0, 1_200, 0.7, log_normal_market())
    tau = 20.0
    shape = evidence * tau
    drawn = np.random.default_rng(7).gamma(shape, tau / shape, 400_000)
    columns = np.zeros(len(drawn))
    averaged = table.averaged(tau, 20, evidence)
    for name in ("worth", "value", "spend"):
        exact = float(table.at(getattr(table, name), columns, drawn).mean())
        assert getattr(averaged, name)[-1, 0] == pytest.approx(exact, rel=0.02)
