"""Budget to reach and back, before a flight."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kreach as kr
from kreach.adsystem.bidding import outlook as outlook_module
from kreach.adsystem.bidding.outlook import OutlookMaker
from kreach.lab.auctions import Outcome, Stream, run_auctions
from tests.adsystem.visit_models import sample_model

FloatArray = npt.NDArray[np.float64]

SPREAD = 0.7
MARKET = kr.LogNormalMarket(0.0, SPREAD)
AUDIENCE = kr.Audience.disjoint([20] * 10)
REQUESTS = 1_000
FEW_PRICES = np.array([1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8])
FEW_COUNTS = np.arange(1, 9)


def streams(prices: FloatArray | None = None, trials: int = 6) -> Iterator[Stream]:
    """Requests of 200 people at the market's prices, or at a few listed ones."""
    for seed in range(trials):
        generator = np.random.default_rng([91, seed])
        person = generator.integers(200, size=REQUESTS)
        price = generator.lognormal(0.0, SPREAD, size=REQUESTS)
        if prices is not None:
            price = generator.choice(prices, p=FEW_COUNTS / FEW_COUNTS.sum(), size=REQUESTS)
        yield Stream(person, person // 20, np.arange(REQUESTS, dtype=np.float64), price, 200)


def flight(stream: Stream, budget: float) -> Outcome:
    """The real flight of a bidder that knows the market."""
    purse = kr.Purse(budget, 0.0, float(REQUESTS))
    return run_auctions(kr.PlanningBidder(AUDIENCE, 1, purse, MARKET, learn=False), stream, 1)


@pytest.mark.parametrize("budget", [20.0, 90.0, 430.0])
def test_an_outlook_is_what_flights_do(budget: float) -> None:
    """Mean of six flights within 3 %; true reach inside the 95 % band in at least four of six."""
    outlook = OutlookMaker(AUDIENCE, MARKET, REQUESTS, 1).for_budget(budget)
    outcomes = [flight(stream, budget) for stream in streams()]
    expected = np.mean([outcome.expected_reach for outcome in outcomes])
    assert outlook.reach == pytest.approx(float(expected), rel=0.03)
    assert outlook.spend == pytest.approx(
        float(np.mean([outcome.spend for outcome in outcomes])), rel=0.04
    )
    low, high = outlook.band
    assert sum(low <= outcome.reach <= high for outcome in outcomes) >= 4
    assert low < outlook.reach < high
    impressions = float(np.mean([outcome.impressions for outcome in outcomes]))
    assert outlook.impressions == pytest.approx(impressions, rel=0.05)
    assert outlook.average_frequency == pytest.approx(outlook.impressions / outlook.reach, rel=0.01)


@pytest.mark.parametrize("budget", [31.0, 78.0, 100.0, 157.0])
def test_a_short_price_list_promises_nothing_impossible(budget: float) -> None:
    """Eight prices, so that a little more value wins much more: still no more reach than the
    hindsight limit of real streams, within 1.5 %."""
    market = kr.EmpiricalMarket(FEW_PRICES, FEW_COUNTS)
    outlook = OutlookMaker(AUDIENCE, market, REQUESTS, 1).for_budget(budget)
    limits = [
        kr.hindsight_limit(AUDIENCE, stream.group, stream.price, 1, [budget])[0]
        for stream in streams(FEW_PRICES)
    ]
    limit = float(np.mean(limits))
    assert outlook.reach <= 1.015 * limit
    assert outlook.impressions * FEW_PRICES[0] <= 1.015 * budget


def test_bands_widen_with_the_level() -> None:
    maker = OutlookMaker(AUDIENCE, MARKET, REQUESTS, 1)
    bands = [maker.for_budget(50.0, level=level).band for level in (0.5, 0.9, 0.99)]
    widths = [high - low for low, high in bands]
    assert widths == sorted(widths)
    assert widths[0] < 0.6 * widths[1]


def test_the_seed_alone_decides() -> None:
    maker = OutlookMaker(AUDIENCE, MARKET, REQUESTS, 1)
    first, again = maker.for_budget(50.0, seed=3), maker.for_budget(50.0, seed=3)
    assert asdict(first) == asdict(again)
    assert maker.for_budget(50.0, seed=4).band != first.band


def test_more_money_reaches_more() -> None:
    maker = OutlookMaker(AUDIENCE, MARKET, REQUESTS, 2)
    outlooks = [maker.for_budget(budget) for budget in (5.0, 20.0, 80.0, 320.0, 5_000.0)]
    reaches = [outlook.reach for outlook in outlooks]
    assert reaches == sorted(reaches)
    most = OutlookMaker(AUDIENCE, MARKET, REQUESTS, 2).for_budget(1e9).reach
    assert reaches[-1] == pytest.approx(most)
    assert most == pytest.approx(kr.measure(AUDIENCE, [100] * 10, 2).reach, rel=0.01)
    assert outlooks[-1].spend < 2_000.0  # everything costs 1,000 · e^{σ²/2} = 1,278


@pytest.mark.parametrize("auction", ["second_price", "first_price"])
@pytest.mark.parametrize("budget", [30.0, 150.0])
def test_back_from_reach_to_budget(auction: str, budget: float) -> None:
    """Budget within 4 %, reach within 3 %: plans are solved to 1 %, flights are simulated."""
    maker = OutlookMaker(AUDIENCE, kr.LogNormalMarket(0.0, SPREAD, auction), REQUESTS, 1)
    there = maker.for_budget(budget)
    back = maker.for_reach(there.reach)
    assert back.budget == pytest.approx(budget, rel=0.04)
    assert back.reach == pytest.approx(there.reach, rel=0.03)


def test_of_two_kinds_the_one_that_reaches_more_is_bought() -> None:
    """Half of the groups hold hardly any targeted people."""
    audience = kr.Audience.disjoint([20] * 10, [20] * 5 + [1] * 5)
    mixed = OutlookMaker(audience, MARKET, REQUESTS, 1).for_budget(20.0)
    good = OutlookMaker(kr.Audience.disjoint([20] * 5), MARKET, REQUESTS // 2, 1).for_budget(20.0)
    assert mixed.reach == pytest.approx(good.reach, rel=0.05)


def test_a_profiled_audience_can_be_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlook_module, "_MAX_TRIALS", 40)  # each takes longer than of others
    audience = kr.Audience.profiled([[0.1, 0.2, 0.7]] * 20)
    outlook = OutlookMaker(audience, MARKET, REQUESTS, 1).for_budget(50.0)
    assert 0.0 < outlook.reach < 60.0
    assert outlook.spend == pytest.approx(50.0, rel=0.1)


def test_what_no_budget_reaches_is_refused() -> None:
    maker = OutlookMaker(AUDIENCE, MARKET, REQUESTS, 1)
    for reach in (200.1, 0.0, -5.0, float("nan")):
        with pytest.raises(
            kr.KreachError,
            match=r"^reach must lie between 0 and what is possible \(19\d\.\d\), got",
        ):
            maker.for_reach(reach)


@pytest.mark.parametrize("budget", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_budgets_are_refused(budget: float) -> None:
    with pytest.raises(kr.KreachError, match=r"^budget must be a finite number > 0, got"):
        OutlookMaker(AUDIENCE, MARKET, REQUESTS, 1).for_budget(budget)


def test_other_bad_input_is_refused() -> None:
    maker = OutlookMaker(AUDIENCE, MARKET, REQUESTS, 1)
    for level in (0.0, 1.0, float("nan")):
        with pytest.raises(kr.KreachError, match=r"^level must lie between 0 and 1, both excluded"):
            maker.for_budget(10.0, level=level)
    with pytest.raises(kr.KreachError, match=r"^seed must be a whole number from 0 "):
        maker.for_budget(10.0, seed=-1)
    with pytest.raises(kr.KreachError, match=r"^cap must be a whole number from 1 "):
        OutlookMaker(AUDIENCE, MARKET, REQUESTS, 0)
    with pytest.raises(kr.KreachError, match=r"^requests must be a whole number from 1 "):
        OutlookMaker(AUDIENCE, MARKET, 0, 1)
    overlapping = kr.Audience.overlapping([2, 2], [((0, 1), 2)])
    with pytest.raises(kr.KreachError, match=r"^audience must have disjoint groups, got"):
        OutlookMaker(overlapping, MARKET, REQUESTS, 1)


# -- with a visit model -----------------------------------------------------------------------


@pytest.mark.parametrize("cap", [1, 3])
def test_a_flat_model_changes_nothing(cap: int) -> None:
    """No sessions, no hours, even visits: the formulas of the paper."""
    flat = kr.VisitModel.flat(20)
    plain = OutlookMaker(AUDIENCE, MARKET, REQUESTS, cap).for_budget(60.0)
    drawn = OutlookMaker(AUDIENCE, MARKET, REQUESTS, cap, model=flat).for_budget(60.0)
    assert drawn.reach == pytest.approx(plain.reach, rel=0.01)
    assert drawn.spend == pytest.approx(plain.spend, rel=0.01)
    assert drawn.band == pytest.approx(plain.band, rel=0.03)
    assert drawn.multiplier == pytest.approx(plain.multiplier, rel=0.03)


def test_sessions_and_meetings_cost_reach() -> None:
    model = sample_model(20.0)
    for cap in (1, 3):
        plain = OutlookMaker(AUDIENCE, MARKET, REQUESTS, cap).for_budget(60.0)
        drawn = OutlookMaker(AUDIENCE, MARKET, REQUESTS, cap, model=model).for_budget(60.0)
        assert drawn.reach < 0.95 * plain.reach
        assert drawn.spend == pytest.approx(60.0, rel=0.02)
        assert drawn.band[0] < drawn.reach < drawn.band[1]
    maker = OutlookMaker(AUDIENCE, MARKET, REQUESTS, 1, model=model)
    there = maker.for_budget(40.0)
    assert maker.for_reach(there.reach).budget == pytest.approx(40.0, rel=0.05)


def test_with_sessions_a_reach_is_found_or_refused() -> None:
    """All of it costs all requests, and what is found is what was asked for."""
    maker = OutlookMaker(AUDIENCE, MARKET, 300, 2, model=sample_model(20.0))
    most = maker.for_budget(1e6).reach
    for share in (0.3, 0.6, 0.9):
        assert maker.for_reach(share * most).reach == pytest.approx(share * most, rel=0.03)
    with pytest.raises(kr.KreachError, match=r"^reach must lie between 0 and what is possible"):
        maker.for_reach(1.1 * most)


def test_a_model_and_visit_shares_are_refused_together() -> None:
    audience = kr.Audience.profiled([[0.5, 0.5]])
    message = r"^audience must have no visit shares with a visit model, got"
    with pytest.raises(kr.KreachError, match=message):
        OutlookMaker(audience, MARKET, REQUESTS, 1, model=kr.VisitModel.flat(2))


def test_groups_without_requests_are_not_planned_on() -> None:
    """Nine tenths of the requests from half of the groups: there is less to choose from."""
    even = OutlookMaker(AUDIENCE, MARKET, REQUESTS, 1).for_budget(60.0)
    busy = [9.0] * 5 + [1.0] * 5
    uneven = OutlookMaker(AUDIENCE, MARKET, REQUESTS, 1, traffic=busy).for_budget(60.0)
    half = kr.Audience.disjoint([20] * 5)
    alone = OutlookMaker(half, MARKET, REQUESTS, 1).for_budget(60.0)
    assert alone.reach < uneven.reach < even.reach
    same = OutlookMaker(AUDIENCE, MARKET, REQUESTS, 1, traffic=[3] * 10).for_budget(60.0)
    assert asdict(same) == asdict(even)
    nobody = OutlookMaker(AUDIENCE, MARKET, REQUESTS, 1, traffic=[1.0] * 5 + [0.0] * 5)
    assert nobody.for_budget(60.0).reach == pytest.approx(alone.reach, rel=0.03)


def test_uneven_groups_of_one_spend_their_budget() -> None:
    """Few prices and people of whom many hardly come: a little more value wins much more."""
    market = kr.EmpiricalMarket(FEW_PRICES, FEW_COUNTS)
    traffic = np.random.default_rng(3).negative_binomial(0.7, 0.2, 600)
    alone, requests = kr.Audience.disjoint([1] * 600), int(traffic.sum())
    model = sample_model(20.0)
    maker = OutlookMaker(
        alone, market, requests, 1, model=model, traffic=traffic, simulated_groups=6_000
    )
    outlooks = [maker.for_budget(share * requests) for share in (0.03, 0.06, 0.1, 0.15)]
    people = [outlook.people for outlook in outlooks]
    assert people == sorted(people)
    for outlook in outlooks:
        assert outlook.spend >= 0.97 * outlook.budget
        assert outlook.unspent_reason is None


def test_people_visit_by_their_law() -> None:
    """Without `traffic` groups of one are visited as unevenly as people are, in a plan of any
    number of groups; uniform visits and no model are groups by size."""
    market, requests = MARKET, 4_000
    even = kr.Audience.disjoint([1] * 400)
    uneven = kr.Audience.disjoint([1] * 400, dispersion=0.6)
    by_size = {"traffic": [1.0] * 400}

    def people(audience: kr.Audience, **more: Any) -> float:
        return OutlookMaker(audience, market, requests, 1, **more).for_budget(90.0).people

    assert people(even) == people(even, **by_size)
    assert people(uneven) < 0.97 * people(uneven, **by_size)
    model = sample_model(20.0)
    modelled = people(even, model=model)
    assert modelled < 0.97 * people(even, model=model, **by_size)
    # of many groups, and of a part that stands for them
    many = kr.Audience.disjoint([1] * 40_000)
    large = OutlookMaker(many, market, 100 * requests, 1, model=model, simulated_groups=400)
    part = OutlookMaker(even, market, 100 * requests, 1, model=model, stands_for=100.0)
    for maker in (large, part):
        assert maker.for_budget(9_000.0).people == pytest.approx(100.0 * modelled, rel=0.03)


@pytest.mark.parametrize("traffic", [[1.0] * 9, [0.0] * 10, [-1.0] + [1.0] * 9, [np.nan] * 10])
def test_impossible_traffic_is_refused(traffic: list[float]) -> None:
    with pytest.raises(kr.KreachError, match=r"^traffic must be 10 weights ≥ 0, not all 0, got"):
        OutlookMaker(AUDIENCE, MARKET, REQUESTS, 1, traffic=traffic)


def test_a_sample_of_groups_stands_for_all() -> None:
    """Money and people in proportion; a band that is wider by the root; errors of the whole."""
    small, large = 500, 8_000
    sizes = np.tile([10, 20, 30, 40], large // 4)
    flights = {}
    for groups in (small, large):
        audience = kr.Audience.disjoint(sizes[:groups])
        maker = OutlookMaker(audience, MARKET, 50 * groups, 2, simulated_groups=small)
        flights[groups] = maker.for_budget(0.5 * groups)
        everybody = audience.targeted_user_count
        with pytest.raises(ValueError, match="can be reached") as refused:
            maker.for_people(2 * everybody)
        most = float(str(refused.value).partition("(")[2].partition(")")[0])
        assert 0.8 * everybody < most < everybody
    few, many = flights[small], flights[large]
    scale = large / small
    assert many.budget == 0.5 * large
    assert many.people == pytest.approx(scale * few.people, rel=0.02)
    assert many.spend == pytest.approx(scale * few.spend, rel=0.02)
    widths = [np.ptp(one.people_band) for one in (few, many)]
    assert widths[1] == pytest.approx(scale**0.5 * widths[0], rel=0.2)
    assert many.average_frequency == pytest.approx(few.average_frequency, rel=0.02)
    whole = OutlookMaker(kr.Audience.disjoint(sizes), MARKET, 50 * large, 2, simulated_groups=large)
    assert many.people == pytest.approx(whole.for_budget(0.5 * large).people, rel=0.02)
