"""The fit as a whole, on simulated sites whose law is known."""

from dataclasses import fields, replace

import numpy as np
import pytest

from kreach.adsystem.measurement.times import measure_times
from kreach.boundary.draw_cells import draws_in_order
from kreach.boundary.draw_law import DrawLaw
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.publisher.visit_fit import fit_visit_model, too_little_history
from kreach.publisher.visit_history import VisitHistory
from kreach.publisher.visitor_fit import _replays, audience_of, true_reach
from tests.publisher.visit_worlds import START_US, World, visit_world


@pytest.fixture(scope="module")
def world() -> World:
    return visit_world(seed=11)


@pytest.fixture(scope="module")
def model(world: World) -> VisitModel:
    return fit_visit_model(world.history())[0]


def test_what_was_simulated_is_found(model: VisitModel) -> None:
    """Geometric sessions of 3 requests, rates gamma(1), no hours."""
    lengths = np.arange(1, len(model.requests_per_session) + 1)
    assert model.requests_per_session @ lengths == pytest.approx(
        3.0, rel=0.06
    )  # some meet by chance
    assert model.requests_per_session[:3] == pytest.approx([1 / 3, 2 / 9, 4 / 27], abs=0.02)
    # the busiest twenty of 4,000 count for less than they visit, which takes 5 % off
    assert model.meetings.mean() == pytest.approx(2.0 / 21.0, rel=0.07)
    assert model.hourly_traffic == pytest.approx(np.ones(24), abs=0.15)  # rounded
    assert model.requests_per_person_day == pytest.approx(1.2, rel=0.1)
    assert (model.group_size, model.people, model.lags) == (20.0, 4_000, 3)
    assert model.history_days == pytest.approx(14.0, abs=0.1)


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("days", [0.25, 1.0, 4.0, 14.0])
def test_another_site_of_the_same_law_is_measured_right(
    model: VisitModel, share: float, days: float
) -> None:
    """Other people, other chance: cap 1 and 3 within 4 % or 4 standard deviations."""
    other = visit_world(seed=12).history()
    won = other.between(START_US, START_US + days * 86_400e6)
    won = won.where(won.chances(np.random.default_rng(1)) < share)
    law = DrawLaw(draws_in_order(audience_of(won), won.group, won.at_us, model), model)
    for cap, truth in zip((1, 3), true_reach(won.person), strict=True):
        tolerance = max(0.04 * truth, 4.0 * np.sqrt(law.variance(cap)))
        assert law.reach(cap) == pytest.approx(truth, abs=tolerance)


def test_visits_without_sessions_are_draws() -> None:
    """Poisson visits: an impression is a draw, two meet as Dirichlet shares do."""
    world = visit_world(requests=1.0001, sessions_per_day=0.3, dispersion=0.7, seed=13)
    history = world.history()
    model, _ = fit_visit_model(history)
    draws = model.draw_shares(history.group, history.at_us).sum()
    assert draws == pytest.approx(len(history), rel=0.03)
    assert model.meetings.mean() == pytest.approx(1.7 / 15.0, rel=0.06)
    assert model.requests_per_session[0] > 0.95


def test_the_formula_of_the_fit_is_that_of_reports(world: World, model: VisitModel) -> None:
    history = world.history()
    replays = _replays(history, model, np.random.default_rng(4))
    assert replays is not None
    generator = np.random.default_rng(4)
    first, last = int(history.at_us.min()), int(history.at_us.max()) + 1
    start = first + generator.random() * 7 / 8 * (last - first)
    inside = history.between(start, start + (last - first) / 8)
    won = inside.where(inside.chances(generator) < 0.05)
    reports = measure_times(
        audience_of(won), won.group, won.at_us / 1e6, [1, 3], model=replace(model, errors=())
    )
    expected = [
        reports[cap].reach / truth - 1.0
        for cap, truth in zip((1, 3), true_reach(won.person), strict=True)
    ]
    assert replays.errors(model)[0] == pytest.approx(expected, abs=1e-9)


def test_the_same_seed_gives_the_same_model(world: World, model: VisitModel) -> None:
    again = fit_visit_model(world.history())[0]
    assert again.to_json() == model.to_json()
    other = fit_visit_model(world.history(), seed=1)[0]
    assert other.meetings == pytest.approx(model.meetings, abs=1e-12)
    assert other.continuation_odds != pytest.approx(model.continuation_odds)


def test_order_of_rows_does_not_matter(world: World, model: VisitModel) -> None:
    mixed = np.random.default_rng(2).permutation(len(world.person))
    history = VisitHistory.of(world.person[mixed], world.group_of, world.at_us[mixed])
    assert fit_visit_model(history)[0].to_json() == model.to_json()


def test_large_groups_look_further_back() -> None:
    world = visit_world(people=3_000, group_size=100, days=6.0)
    assert fit_visit_model(world.history())[0].lags == 6
    assert fit_visit_model(world.history(), lags=2)[0].lags == 2


def test_recent_traffic_sets_the_level() -> None:
    """Half of the people stop half-way: meetings are twice as likely, odds twice as high."""
    world = visit_world(days=56.0, dispersion=1e3, seed=14)
    gone = (world.person % 2 == 0) & (world.at_us > START_US + 28 * 86_400e6)
    full = fit_visit_model(world.history())[0]
    history = VisitHistory.of(world.person[~gone], world.group_of, world.at_us[~gone])
    half, quality = fit_visit_model(history)
    assert quality.recent_traffic == pytest.approx(0.5 / 0.75, rel=0.05)
    assert half.meetings[:, :, :5].mean() == pytest.approx(0.1, rel=0.08)
    assert half.requests_per_person_day == pytest.approx(
        full.requests_per_person_day / 2.0, rel=0.05
    )


def test_people_who_stop_coming_count_once() -> None:
    """Four of five stop in history, the others stay in the flight.

    Recent meetings have it already. Replays of early windows, which had more requests a day than
    recent ones, must not raise the scale of meetings for it.
    """
    world = visit_world(people=6_000, days=84.0, sessions_per_day=0.06, requests=1.0001, seed=15)
    generator = np.random.default_rng(15)
    stops = np.where(generator.random(6_000) < 0.8, generator.uniform(5.0, 42.0, 6_000), 84.0)
    days = (world.at_us - START_US) / 86_400e6
    comes = days < stops[world.person]
    before, after = comes & (days < 56.0), comes & (days >= 56.0)
    history = VisitHistory.of(world.person[before], world.group_of, world.at_us[before])
    model, quality = fit_visit_model(history)
    assert quality.recent_traffic < 0.6
    assert 0.9 < model.meeting_scale < 1.3  # 1.8 if recent requests a day judge early windows
    flight = VisitHistory.of(world.person[after], world.group_of, world.at_us[after])
    for share in (0.1, 0.3):
        won = flight.where(flight.chances(np.random.default_rng(2)) < share)
        law = DrawLaw(draws_in_order(audience_of(won), won.group, won.at_us, model), model)
        assert law.reach(1) == pytest.approx(true_reach(won.person)[0], rel=0.05), share


@pytest.mark.parametrize(
    ("world", "reason"),
    [
        (visit_world(people=2_000, days=1.5), "a visit model needs 2"),
        (visit_world(people=100), "people made two requests or more"),
        (visit_world(people=2_000, group_size=1), "groups of one person need no visit model"),
    ],
)
def test_too_little_history_is_refused(world: World, reason: str) -> None:
    found = too_little_history(world.history())
    assert found is not None
    assert reason in found
    with pytest.raises(KreachError, match="history must be enough for a visit model"):
        fit_visit_model(world.history())


def test_what_is_enough_is_said_of_what_is_fitted() -> None:
    """A fit leaves out what only a few people did: history must be enough without that."""
    whole = visit_world(people=600, days=12.0, sessions_per_day=0.12, requests=1.2).history()
    parts = [whole.where(whole.person < people) for people in range(100, 600, 2)]
    refused = [part for part in parts if too_little_history(part) is not None]
    assert refused[-1].returning_people > 200
    fit_visit_model(next(part for part in parts if too_little_history(part) is None))


def test_no_number_is_about_a_group() -> None:
    """Twice as many groups, as many numbers."""
    counts = []
    for people in (2_000, 4_000):
        model, _ = fit_visit_model(visit_world(people=people, requests=1.5).history())
        numbers = {f.name: np.size(getattr(model, f.name)) for f in fields(model)}
        numbers.pop("requests_per_session")  # as many as sessions are long
        counts.append(numbers)
    assert counts[0] == counts[1]
