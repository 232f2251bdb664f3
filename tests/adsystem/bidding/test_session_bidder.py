"""A planning bidder on visitors who come in sessions: what the visit model is worth to it."""

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.bidding.arrivals import Arrivals
from kreach.adsystem.bidding.outlook import OutlookMaker
from kreach.lab.auctions import Outcome, Stream, run_auctions
from tests.visit_sessions import Visits, fit_plainly, simulate_visits

DAYS = 6.0
END = DAYS * 86_400.0 + 3_600.0  # the last session ends within the hour
SPREAD = 0.7


@pytest.fixture(scope="module")
def model() -> kr.VisitModel:
    """Of other people than those who are bought."""
    return fit_plainly(simulate_visits(np.random.default_rng(1), groups=80, days=DAYS))


@pytest.fixture(scope="module")
def visits() -> Visits:
    return simulate_visits(np.random.default_rng(2), groups=80, days=DAYS)


def fly(visits: Visits, budget: float, cap: int, model: kr.VisitModel | None) -> Outcome:
    audience = kr.Audience.disjoint([visits.group_size] * visits.groups)
    hours = (visits.seconds // 3_600.0).astype(np.int64) % 24
    bidder = kr.PlanningBidder(
        audience,
        cap,
        kr.Purse(budget, 0.0, END),
        kr.LogNormalMarket(0.5, 1.0),
        model=model,
        plans=40,
        arrivals=Arrivals(
            visits.groups, 0.0, END, hourly=(np.bincount(hours, minlength=24) + 1.0).tolist()
        ),
    )
    price = np.random.default_rng(3).lognormal(0.0, SPREAD, len(visits.person))
    people = visits.groups * visits.group_size
    stream = Stream(visits.person, visits.group, visits.seconds, price, people)
    return run_auctions(bidder, stream, cap)


@pytest.mark.parametrize(("budget", "gain"), [(150.0, 1.03), (400.0, 1.03)])
def test_it_reaches_more_with_the_model(
    budget: float, gain: float, visits: Visits, model: kr.VisitModel
) -> None:
    """1,600 people, 3.3 requests a session: the same budget, auctions and prior."""
    plain, knowing = fly(visits, budget, 1, None), fly(visits, budget, 1, model)
    assert knowing.reach > gain * plain.reach
    for outcome in (plain, knowing):
        assert 0.93 * budget < outcome.spend <= budget


def test_it_reports_what_it_reached(visits: Visits, model: kr.VisitModel) -> None:
    """Without the model a buyer believes that it reached two fifths more than it did."""
    plain, knowing = fly(visits, 400.0, 1, None), fly(visits, 400.0, 1, model)
    assert knowing.expected_reach == pytest.approx(knowing.reach, rel=0.06)
    assert plain.expected_reach > 1.3 * plain.reach


def test_above_a_cap_of_one(visits: Visits, model: kr.VisitModel) -> None:
    """A session that was won is worth its next request, so plans count requests there."""
    plain, knowing = fly(visits, 400.0, 3, None), fly(visits, 400.0, 3, model)
    assert knowing.reach > 1.005 * plain.reach
    assert 0.93 * 400.0 < knowing.spend <= 400.0


@pytest.mark.parametrize("budget", [150.0, 400.0])
def test_a_forecast_before_the_flight(budget: float, visits: Visits, model: kr.VisitModel) -> None:
    """Within 10 % of what the bidder then reaches, and a fifth or more too high without the model.

    The forecast knows the market; the bidder has to learn it, and the traffic of each group.
    """
    reached = fly(visits, budget, 1, model).reach
    audience = kr.Audience.disjoint([visits.group_size] * visits.groups)
    market, requests = kr.LogNormalMarket(0.0, SPREAD), len(visits.person)
    drawn = OutlookMaker(audience, market, requests, 1, model=model).for_budget(budget)
    plain = OutlookMaker(audience, market, requests, 1).for_budget(budget)
    assert drawn.reach == pytest.approx(reached, rel=0.1)
    assert plain.reach > 1.2 * reached
