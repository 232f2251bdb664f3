"""Tables of all classes at a multiplier, against each class planned by itself."""

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.bidding.class_probability import ClassProbability
from kreach.adsystem.bidding.class_tables import ClassGroups, solve_classes
from kreach.adsystem.bidding.conditions import GroupState
from kreach.adsystem.bidding.group_kinds import Passing, kind_classes, kind_probabilities
from kreach.adsystem.bidding.responses import market_response
from kreach.numeric.gamma_factors import gamma_factors
from kreach.numeric.planning import Response, solve_plan
from tests.adsystem.visit_models import sample_model

RESPONSE = market_response(kr.LogNormalMarket(0.0, 0.7))


def plan_alone(
    probability: ClassProbability,
    number: int,
    impressions: np.ndarray[tuple[int], np.dtype[np.float64]],
    left: np.ndarray[tuple[int], np.dtype[np.float64]],
    evidence: float,
    multiplier: float,
    response: Response,
    *,
    ahead: bool,
) -> tuple[float, float]:
    """Spend and value of the groups of one class: the reference, with tables of its own."""
    most, first = float(left.max()), float(impressions.min())
    sure = not np.isfinite(evidence)
    furthest = most if sure else most * float(gamma_factors(np.array([evidence * most])).max())
    one = np.array([number])
    start = probability.at(one, np.array([first]))
    passed = probability.passing(one, np.array([first]))
    if passed is not None:
        start = start / np.maximum(passed, 1e-6)
    max_wins = furthest * float(response.win_and_cost(start / multiplier)[0][0])
    span = float(impressions.max()) - first + max_wins + 4.0 * np.sqrt(max_wins) + 4.0
    block = max(1.0, np.ceil(span / 64))
    columns = int(np.ceil(span / block)) + 1
    samples = int(min(block, 8))
    inside = (np.arange(samples) + 0.5) * (block / samples) - 0.5
    points = first + (np.arange(columns)[:, None] * block + inside).ravel()
    numbers = np.full(len(points), number)
    p, a = probability.at(numbers, points), probability.passing(numbers, points)
    steps = int(np.clip(np.ceil(1.25 * max_wins / block), 12, 96))
    table = solve_plan(
        p.reshape(-1, samples).mean(axis=1),
        furthest / block,
        steps,
        multiplier,
        response,
        ahead=ahead,
        passing=None if a is None else a.reshape(-1, samples).mean(axis=1),
    )
    if not sure:
        table = table.averaged(most / block, steps, evidence * block)
    column, tau = (impressions - first) / block, left / block
    spend, value = (
        float(table.at(one_of, column, tau).sum()) * block for one_of in (table.spend, table.value)
    )
    return spend, value


@pytest.mark.parametrize("evidence", [float("inf"), 0.4, 0.003])
@pytest.mark.parametrize(("busy", "ahead"), [(30.0, True), (30.0, False), (4_000.0, True)])
@pytest.mark.parametrize("memory", [None, 0.2])
def test_all_classes_at_once_are_as_each_alone(
    evidence: float, busy: float, ahead: bool, memory: float | None
) -> None:
    """200 kinds of group in at most 16 classes; spend and value to 11 digits."""
    generator = np.random.default_rng(8)
    audience = kr.Audience.disjoint(generator.integers(1, 200, 600))
    probability, kinds = kind_probabilities(audience, 2, sample_model(20.0))
    class_of, members = kind_classes(probability, int(kinds.max()) + 1)
    assert len(members) <= 16
    passing = None if memory is None else Passing(probability, memory)
    by_class = ClassProbability(probability, members, passing)
    shown = generator.poisson(3.0, 600) * generator.integers(0, 2, 600)
    left = generator.gamma(2.0, busy, 600) * (class_of[kinds] != 3)  # one class has none to come
    left[::9] = 0.0
    groups = ClassGroups(GroupState(kinds, shown, left, evidence), class_of, 0.25)
    assert 3 not in groups.numbers.tolist()
    for multiplier in (0.2, 2.0):
        tables = solve_classes(by_class, groups, multiplier, RESPONSE, ahead=ahead)
        spend = value = 0.0
        for number in groups.numbers.tolist():
            mine = class_of[kinds] == number
            sums = plan_alone(
                by_class,
                number,
                shown[mine].astype(np.float64),
                0.75 * left[mine],
                evidence,
                multiplier,
                RESPONSE,
                ahead=ahead,
            )
            spend, value = spend + sums[0], value + sums[1]
        assert tables.spend == pytest.approx(spend, rel=1e-11)
        assert tables.value == pytest.approx(value, rel=1e-11)


def test_no_group_has_anything_to_come() -> None:
    probability, kinds = kind_probabilities(kr.Audience.disjoint([5, 9]), 1)
    class_of, members = kind_classes(probability, 2)
    groups = ClassGroups(GroupState(kinds, np.zeros(2), np.zeros(2), 0.5), class_of, 0.0)
    by_class = ClassProbability(probability, members, None)
    tables = solve_classes(by_class, groups, 1.0, RESPONSE, ahead=True)
    assert (tables.spend, tables.value, tables.discounts()) == (0.0, 0.0, [])


@pytest.mark.parametrize("cap", [1, 3])
def test_a_table_of_classes_is_what_each_kind_says(cap: int) -> None:
    """Near and far, in any order; one more class that counts alike finds the same table."""
    sizes = [1, 2, 20, 300]
    for model in (None, sample_model(20.0)):
        probability, _ = kind_probabilities(kr.Audience.disjoint(sizes), cap, model)
        for _ in range(2):
            by_class = ClassProbability(probability, np.arange(4), None)
            for n in ([0.0, 1.0, 3.4], [70.0, 2.0], [4_095.0, 4_096.0, 90_000.0, 5.0], [8.0]):
                for number in range(4):
                    found = by_class.at(np.full(len(n), number), np.array(n))
                    expected = probability(number, np.rint(n))
                    assert found == pytest.approx(expected, rel=1e-12, abs=1e-300)
