"""What a request is worth: the paper's example, exact fractions, and one kernel with measuring."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.bidding.bidder import Bidder
from tests.golden.test_golden import CASES, audience_of
from tests.strategies import Campaign, campaigns, caps

RICH = 1e9
FREE_MARKET = kr.LogNormalMarket(0.0, 1.0)

every_case = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])


def test_two_targeted_people_of_the_paper() -> None:
    """Section 4.1: A and B, cap 1. The first request is worth 1, after a win the second 0.5."""
    valuation = kr.CapValuation(kr.Audience.disjoint([2]), cap=1)
    assert valuation.probability(0, now=0.0) == 1.0
    valuation.record(0, now=0.0)
    assert valuation.probability(0, now=1.0) == 0.5
    valuation.record(0, now=1.0)
    assert valuation.probability(0, now=2.0) == 0.25


def test_the_example_through_a_bidder() -> None:
    """The bid is p_t/λ: after the win half of what it was, after a loss the same."""
    audience = kr.Audience.disjoint([2])
    bidder = kr.PlanningBidder(
        audience, 1, kr.Purse(RICH, 0.0, 10.0), FREE_MARKET, first_multiplier=4.0
    )
    assert bidder.bid(0, 0.0) == 0.25
    bidder.lost(0, 0.25)
    assert bidder.bid(0, 1.0) == 0.25
    bidder.won(0, 0.25, 0.2, 1.0)
    assert bidder.bid(0, 2.0) == 0.125


@every_case
def test_theorems_4_and_6_in_exact_fractions(case: dict[str, Any]) -> None:
    audience = audience_of(case)
    valuation = kr.CapValuation(audience, case["cap"])
    for group, n in enumerate(case["impressions"]):
        for _ in range(n):
            valuation.record(group, 0.0)
    found = [valuation.probability(j, 0.0) for j in range(audience.group_count)]
    expected = [float(Fraction(p)) for p in case["reach_probability"]]
    assert found == pytest.approx(expected, rel=1e-11, abs=1e-11)
    assert [valuation.count(j) for j in range(audience.group_count)] == case["impressions"]
    assert valuation.counts().tolist() == case["impressions"]


def bidders(audience: kr.Audience, cap: int, budget: float, end: float) -> list[Bidder]:
    """The paper's bidder and one that plans, both valuing requests at p_t."""
    return [
        kr.PaperBidder(
            kr.CapValuation(audience, cap),
            kr.Purse(budget, 0.0, end),
            FREE_MARKET,
            requests=max(int(end), 1),
            limits=kr.BidLimits(0.0, 5.0),
        ),
        kr.PlanningBidder(
            audience,
            cap,
            kr.Purse(budget, 0.0, end),
            FREE_MARKET,
            ahead=False,
            first_plan=5,
            limits=kr.BidLimits(0.0, 5.0),
        ),
    ]


@settings(max_examples=60)
@given(campaign=campaigns(), cap=caps, seed=st.integers(0, 999))
def test_the_sum_over_wins_is_the_measured_reach(campaign: Campaign, cap: int, seed: int) -> None:
    """For every kind of audience, through a bidder that wins some requests and loses others."""
    audience = campaign.audience
    generator = np.random.default_rng(seed)
    groups = np.array(campaign.groups() * 2, dtype=np.int64)
    generator.shuffle(groups)
    for bidder in bidders(audience, cap, RICH, len(groups) + 1.0):
        worth = 0.0
        won = np.zeros(audience.group_count, dtype=np.int64)
        for now, group in enumerate(groups.tolist()):
            p = kr.reach_probability(audience, won, cap)[group]
            bid = bidder.bid(group, float(now))
            if bid == 0.0:
                assert p == pytest.approx(0.0, abs=1e-12)
            elif generator.random() < 0.6:
                bidder.won(group, bid, bid * generator.random(), float(now))
                worth += float(p)
                won[group] += 1
            else:
                bidder.lost(group, bid)
            if 0.0 < bid < 5.0:
                assert bid * bidder.multiplier == pytest.approx(float(p), rel=1e-9, abs=1e-12)
        measured = kr.measure(audience, won, cap).reach
        assert worth == pytest.approx(measured, rel=1e-9, abs=1e-9)
        assert bidder.valuation.counts().tolist() == won.tolist()


@given(campaign=campaigns(), cap=caps)
def test_record_then_revert_is_nothing(campaign: Campaign, cap: int) -> None:
    audience = campaign.audience
    valuation = kr.CapValuation(audience, cap)
    groups = campaign.groups()
    for group in groups:
        valuation.record(group, 0.0)
    for group in groups:
        valuation.record(group, 1.0)
    for group in reversed(groups):
        valuation.revert(group, 1.0)
    expected = kr.reach_probability(audience, campaign.impressions, cap)
    found = [valuation.probability(j, 2.0) for j in range(audience.group_count)]
    assert found == pytest.approx(expected.tolist(), rel=1e-9, abs=1e-12)
    assert valuation.counts().tolist() == list(campaign.impressions)


@pytest.mark.parametrize("group", [-1, 3, 99])
def test_a_group_that_the_audience_does_not_hold_is_refused(group: int) -> None:
    valuation = kr.CapValuation(kr.Audience.disjoint([5, 5, 5]), 1)
    for ask in (valuation.probability, valuation.record, valuation.revert):
        with pytest.raises(
            kr.KreachError, match=rf"^group must be a group from 0 to 2, got {group}"
        ):
            ask(group, 0.0)


@pytest.mark.parametrize("cap", [0, -1, 1.5, float("nan")])
def test_an_impossible_cap_is_refused(cap: int) -> None:
    with pytest.raises(kr.KreachError, match=r"^cap must be a whole number from 1 "):
        kr.CapValuation(kr.Audience.disjoint([5]), cap)


def test_reverting_what_was_not_won_is_refused() -> None:
    valuation = kr.CapValuation(kr.Audience.disjoint([5, 5]), 1)
    valuation.record(0, 0.0)
    with pytest.raises(kr.KreachError, match=r"^group must have an impression to revert, got 1"):
        valuation.revert(1, 0.0)
