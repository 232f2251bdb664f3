"""Errors of a model in replays of history: on sites that it fits, and on sites that change."""

import numpy as np
import pytest

from kreach.publisher.replay import WINDOW_HOURS, ReplayErrors, replay_errors, summary
from kreach.publisher.visit_history import VisitHistory
from tests.publisher.visit_worlds import START_US, visit_world


@pytest.fixture(scope="module")
def steady() -> ReplayErrors:
    return replay_errors(visit_world(people=1_600, days=8.0, seed=31).history())


def test_a_steady_site_has_small_errors(steady: ReplayErrors) -> None:
    assert steady.measured
    assert [e.max_hours for e in steady.by_window] == [*WINDOW_HOURS, np.inf]
    for error in steady.by_window[1:4]:
        assert abs(error.bias) < 0.03
        assert 0.005 <= error.spread < 0.08
        assert abs(error.higher_bias) < 0.03


def test_the_same_seed_gives_the_same_errors() -> None:
    history = visit_world(people=800, days=5.0, requests=1.5, seed=32).history()
    assert replay_errors(history).by_window == replay_errors(history).by_window


def test_a_site_that_changes_has_larger_errors(steady: ReplayErrors) -> None:
    """Half of the people stop coming half-way: the first half misleads."""
    world = visit_world(people=1_600, days=8.0, seed=31)
    gone = (world.person % 2 > 0) & (world.at_us > START_US + 4 * 86_400e6)
    history = VisitHistory.of(world.person[~gone], world.group_of, world.at_us[~gone])
    changed = replay_errors(history).by_window
    assert changed[3].bias > steady.by_window[3].bias + 0.02
    assert changed[3].spread > 1.5 * steady.by_window[3].spread


def test_counted_requests_explain_part_of_a_change() -> None:
    """Half of the people stop coming half-way. Who counts requests sees that there are fewer."""
    world = visit_world(people=1_600, days=24.0, requests=1.5, seed=31)
    gone = (world.person % 2 > 0) & (world.at_us > START_US + 12 * 86_400e6)
    errors = replay_errors(VisitHistory.of(world.person[~gone], world.group_of, world.at_us[~gone]))
    longest, counted = errors.by_window[4], errors.by_window_counted[4]
    assert longest.max_hours == counted.max_hours == 168.0
    assert counted.bias < longest.bias
    assert counted.spread < 0.9 * longest.spread
    assert errors.by_window_counted[0].spread <= errors.by_window[0].spread + 0.005


def test_too_little_history_has_a_stated_error() -> None:
    history = visit_world(people=300, days=2.0).history()
    errors = replay_errors(history)
    assert not errors.measured
    assert errors.by_window[0].max_hours == np.inf
    assert errors.by_window[0].spread == 0.15


def cases_of(**errors: list[float]) -> dict[str, list[tuple[float, ...]]]:
    return {pattern: [(e, e, 0.0, 0.0, 0.0, 0.0) for e in each] for pattern, each in errors.items()}


def test_bias_is_halved_and_the_worst_pattern_is_covered() -> None:
    """One pattern of three is off by 9 %: 90 of 100 of its intervals hold all the same."""
    cases = {24.0: cases_of(random=[0.0] * 10, burst=[0.0] * 10, night=[0.09] * 10)}
    error = summary(cases, 1000.0)[2]
    assert error.bias == pytest.approx(0.015)
    assert error.spread == pytest.approx((0.09 - 0.015) / 1.96, abs=1e-3)


def test_patterns_count_alike() -> None:
    few = {np.inf: cases_of(random=[0.04] * 20, burst=[-0.04] * 5)}
    many = {np.inf: cases_of(random=[0.04] * 20, burst=[-0.04] * 200)}
    assert summary(few, 1000.0) == summary(many, 1000.0)
    assert summary(few, 1000.0)[-1].bias == 0.0


def test_what_chance_explains_is_no_error() -> None:
    errors = np.random.default_rng(1).normal(0.0, 0.1, 500)
    rows: list[tuple[float, ...]] = [(e, e, 0.01, 0.0, 0.0, 0.0) for e in errors.tolist()]
    error = summary({24.0: {"random": rows}}, 1000.0)[2]
    assert error.spread < 0.04
    assert error.higher_spread > 0.06


def test_unknown_traffic_widens() -> None:
    cases = cases_of(random=[0.04, -0.04] * 10)
    rows = [(*case[:4], 0.03, 0.0) for case in cases["random"]]
    plain, wider = (summary({24.0: dict(each)}, 100.0)[2] for each in (cases, {"random": rows}))
    assert wider.spread == pytest.approx(np.hypot(plain.spread, 0.03), abs=1e-3)
    assert wider.higher_spread == plain.higher_spread


def test_lengths_without_a_replay_take_over_a_neighbour() -> None:
    """72 h from 24 h, wider by √3; an hour from 24 h as it is."""
    cases = {24.0: cases_of(random=[0.04, -0.04] * 10)}
    errors = {e.max_hours: e for e in summary(cases, 24.0)}
    assert errors[1.0].spread == errors[24.0].spread > 0.0
    assert errors[72.0].spread == pytest.approx(errors[24.0].spread * np.sqrt(3.0), abs=1e-3)
    assert errors[np.inf].spread >= errors[72.0].spread
