"""One person more or less: what an observer of the released visit model could tell."""

from dataclasses import replace

import numpy as np
import pytest

from kreach.boundary.visit_model import VisitModel
from kreach.publisher.visit_fit import fit_visit_model
from kreach.publisher.visit_history import VisitHistory
from tests.publisher.visit_worlds import START_US, World, visit_world

# How far one person moves any released number, on a site of 4,000 people over two weeks. Numbers
# are rounded to steps of 6 %: a number moves by a step or not at all.
MAX_ODDS_CHANGE = 0.07  # relative
MAX_MEETING_CHANGE = 0.01
MAX_TRAFFIC_CHANGE = 0.07
MAX_SHARE_CHANGE = 0.002
MAX_VISITOR_CHANGE = 0.1


@pytest.fixture(scope="module")
def world() -> World:
    return visit_world(seed=21)


@pytest.fixture(scope="module")
def model(world: World) -> VisitModel:
    return fit_visit_model(world.history())[0]


def changes(before: VisitModel, after: VisitModel) -> dict[str, float]:
    """The largest change of any number, by table."""
    told = (before.continuation_odds > 0.0) & (after.continuation_odds > 0.0)
    odds = after.continuation_odds[told] / before.continuation_odds[told]
    length = max(len(m.requests_per_session) for m in (before, after))
    shares = [
        np.resize(np.append(m.requests_per_session, np.zeros(length)), length)
        for m in (before, after)
    ]
    return {
        "odds": float(np.abs(odds - 1.0).max()),
        "meetings": float(np.abs(after.meetings - before.meetings).max()),
        "traffic": float(np.abs(after.hourly_traffic - before.hourly_traffic).max()),
        "shares": float(np.abs(shares[0] - shares[1]).max()),
        "visitors": max(
            abs(after.regulars - before.regulars),
            abs(after.lasting - before.lasting),
            abs(after.meeting_scale - before.meeting_scale),
        ),
    }


def within_limits(found: dict[str, float]) -> bool:
    return (
        found["odds"] <= MAX_ODDS_CHANGE
        and found["meetings"] <= MAX_MEETING_CHANGE
        and found["traffic"] <= MAX_TRAFFIC_CHANGE
        and found["shares"] <= MAX_SHARE_CHANGE
        and found["visitors"] <= MAX_VISITOR_CHANGE
    )


def fitted(world: World, rows: np.ndarray) -> VisitModel:
    history = VisitHistory.of(world.person[rows], world.group_of, world.at_us[rows])
    return fit_visit_model(history)[0]


@pytest.mark.parametrize("who", ["the busiest", "the median", "another"])
def test_one_person_less_hardly_moves_a_number(world: World, model: VisitModel, who: str) -> None:
    visits = np.bincount(world.person)
    order = np.argsort(visits)
    person = {"the busiest": order[-1], "the median": order[2_000], "another": 17}[who]
    less = fitted(world, world.person != person)
    found = changes(model, less)
    assert within_limits(found), found


def test_one_person_more_at_hours_of_her_own_is_not_seen(world: World) -> None:
    """A person who alone comes between 2 and 4, every night, leaves the night as it was."""
    hour = world.at_us // 3_600_000_000 % 24
    day = (hour < 2) | (hour >= 4)
    days = np.arange(14)
    nights = START_US + days * 86_400_000_000 + 3 * 3_600_000_000
    without = fitted(world, day)
    person = np.concatenate([world.person[day], np.full(14, 17)])
    at_us = np.concatenate([world.at_us[day], nights])
    history = VisitHistory.of(person, world.group_of, at_us)
    within, _ = fit_visit_model(history)
    assert np.abs(within.meetings[1] - without.meetings[1]).max() < MAX_MEETING_CHANGE
    assert np.abs(within.meetings[:, 1] - without.meetings[:, 1]).max() < MAX_MEETING_CHANGE
    assert within.hourly_traffic[2:4] == pytest.approx(without.hourly_traffic[2:4], abs=0.02)


def test_the_attack_can_succeed(world: World, model: VisitModel) -> None:
    """A tenth of the people is seen: the limits are not so wide that anything passes."""
    less = fitted(world, world.person % 10 != 0)
    assert not within_limits(changes(model, replace(less, people=model.people)))
