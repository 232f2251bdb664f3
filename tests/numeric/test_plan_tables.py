"""All classes at once, against the solver of one class at a time that was there before."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kreach.numeric.gamma_factors import gamma_factors, quick_gamma_factors
from kreach.numeric.plan_tables import PlanTable, TablePlaces
from kreach.numeric.planning import PlannedClass, Response, solve_plans
from tests.numeric.test_planning import log_normal_market, uniform_group

FloatArray = npt.NDArray[np.float64]


def solve_alone(
    one: PlannedClass, multiplier: float, response: Response, *, ahead: bool
) -> PlanTable:
    """The reference: one class, two look-ups in the market for each step."""
    count, steps = len(one.probability), one.steps
    worth, value, spend = np.zeros((3, steps + 1, count))
    step = one.tau / steps
    v, s = np.zeros(count + 1), np.zeros(count + 1)
    paid = np.ones(count) if one.passing is None else np.maximum(one.passing, 1e-6)
    for row in range(steps + 1):
        later = one.probability - (v[:-1] - v[1:])
        worth[row] = np.maximum(later, 0.0) if ahead else one.probability
        value[row], spend[row] = v[:-1], s[:-1]
        win, cost = response.win_and_cost(worth[row] / (multiplier * paid))
        cost = paid * cost
        gain = one.probability * win - multiplier * cost
        v[:-1] += step * (gain + win * (v[1:] - v[:-1]))
        s[:-1] += step * (cost + win * (s[1:] - s[:-1]))
    return PlanTable(np.linspace(0.0, one.tau, steps + 1), worth, value, spend)


@settings(max_examples=40)
@given(
    classes=st.lists(
        st.tuples(
            st.integers(1, 40),  # size
            st.integers(1, 30),  # columns
            st.floats(0.1, 60.0),  # requests
            st.integers(1, 50),  # steps
            st.sampled_from([None, 0.3, 0.0]),  # passing
        ),
        min_size=1,
        max_size=6,
    ),
    multiplier=st.sampled_from([1e-3, 0.3, 1.0, 50.0]),
    ahead=st.booleans(),
)
def test_classes_side_by_side_are_as_each_alone(
    classes: list[tuple[int, int, float, int, float | None]], multiplier: float, ahead: bool
) -> None:
    """To 12 digits, whatever their lengths and steps."""
    planned = [
        PlannedClass(
            uniform_group(size, columns),
            min(requests, steps / 2.0),  # a group wins less than once in a step
            steps,
            None if passing is None else np.linspace(1.0, passing, columns),
        )
        for size, columns, requests, steps, passing in classes
    ]
    response = log_normal_market()
    tables = solve_plans(planned, multiplier, response, ahead=ahead)
    for one, table in zip(planned, tables, strict=True):
        alone = solve_alone(one, multiplier, response, ahead=ahead)
        assert table.tau.tolist() == alone.tau.tolist()
        for name in ("worth", "value", "spend"):
            expected = getattr(alone, name)
            assert getattr(table, name) == pytest.approx(expected, rel=1e-12, abs=1e-13)


def test_a_market_that_wins_for_nothing_does_not_leak_between_classes() -> None:
    """Where even a bid of 0 wins, what lies behind a class's last column is still worth nothing."""
    free = Response(*(np.array(x) for x in ([0.0, 1.0], [0.0, 1.0], [0.5, 1.0], [0.0, 0.5])))
    classes = [PlannedClass(uniform_group(6, n), 4.0, steps) for n, steps in ((3, 9), (7, 5))]
    tables = solve_plans(classes, 0.7, free)
    for one, table in zip(classes, tables, strict=True):
        alone = solve_alone(one, 0.7, free, ahead=True)
        assert table.value == pytest.approx(alone.value, rel=1e-12)
        assert table.spend == pytest.approx(alone.spend, rel=1e-12)


def test_places_in_several_tables() -> None:
    """Inside, on the edges and beyond, as each table says by itself."""
    generator = np.random.default_rng(4)
    shapes = [(5, 3), (1, 4), (7, 1), (2, 9)]
    tables = [generator.random(shape) for shape in shapes]
    number = np.sort(generator.integers(0, len(shapes), 500))
    row, column = generator.uniform(-1.0, 9.0, (2, 500))
    row[::7], column[::5] = np.rint(row[::7]), np.rint(column[::5])
    found = TablePlaces(shapes, number, row, column).of(tables)
    for at, table in enumerate(tables):
        mine = number == at
        alone = PlanTable(np.arange(len(table), dtype=np.float64), table, table, table)
        expected = alone.at(table, column[mine], row[mine])
        assert found[mine] == pytest.approx(expected, rel=1e-12)


def test_quick_factors_are_the_exact_ones() -> None:
    """Also below the smallest and above the largest shape that is told apart."""
    shapes = np.concatenate([[0.0, 0.3, 1e6, 1e9, np.inf], np.geomspace(0.2, 2e6, 5_003)])
    assert quick_gamma_factors(shapes) == pytest.approx(gamma_factors(shapes), rel=1e-12)
