"""Requests that come in sessions: the chance of the previous visitor enters the value."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from tests.strategies import caps

MINUTE, HOUR = 60.0, 3_600.0
SAME = {MINUTE: 0.9, HOUR: 0.4, 5e6: 0.05}  # probability to continue, for gaps below
SESSIONS = replace(
    kr.VisitModel.flat(5),
    gap_edges_seconds=tuple(SAME),
    continuation_odds=np.array([[same / (1.0 - same) for same in SAME.values()]]),
)
NEVER = kr.VisitModel.flat(5)


EVEN = kr.Audience.disjoint([5])
PARTLY = kr.Audience.disjoint([5], [3])


@pytest.mark.parametrize("audience", [EVEN, PARTLY])
@pytest.mark.parametrize("cap", [1, 2, 3])
@pytest.mark.parametrize("gap", [10.0, 600.0, 7_200.0])
def test_a_world_of_two_kinds_of_request(audience: kr.Audience, cap: int, gap: float) -> None:
    """n = 4 wins by independent visitors; then the next request is the last visitor's with
    probability s(gap), else anybody's. 200,000 worlds, z-tolerance 4.5."""
    trials, wins = 200_000, 4
    generator = np.random.default_rng([51, cap, int(gap)])
    drawn = [generator.integers(5, size=trials) for _ in range(wins + 1)]
    same = generator.random(trials) < SESSIONS.continuation(gap, 0.0)
    author = np.where(same, drawn[wins - 1], drawn[wins])
    seen = sum((drawn[turn] == author).astype(int) for turn in range(wins))
    targeted = 3 if audience is PARTLY else 5
    reached = (seen < cap) & (author < targeted)
    valuation = kr.VisitorValuation(audience, cap, SESSIONS)
    now = 0.0
    for _ in range(wins):
        now += 6e6  # beyond every gap that continues a session
        valuation.probability(0, now)
        valuation.record(0, now)
    found = valuation.probability(0, now + gap)
    error = max(float(reached.std()) / np.sqrt(trials), 1e-6)
    assert found == pytest.approx(float(reached.mean()), abs=4.5 * error)


def test_by_hand() -> None:
    """Two people, cap 1, a win a moment ago: with 0.9 the same person, who has seen it."""
    valuation = kr.VisitorValuation(kr.Audience.disjoint([2]), 1, SESSIONS)
    assert valuation.probability(0, 0.0) == 1.0
    valuation.record(0, 0.0)
    assert valuation.probability(0, 10.0) == pytest.approx(0.1 * 0.5)
    # that one was lost, but its session has been won with 0.9, and this one continues it with 0.9
    assert valuation.probability(0, 20.0) == pytest.approx((1.0 - 0.9 * 0.9) * 0.5)
    deeper = kr.VisitorValuation(kr.Audience.disjoint([2]), 2, SESSIONS)
    deeper.probability(0, 0.0)
    deeper.record(0, 0.0)
    assert deeper.probability(0, 1_800.0) == pytest.approx(1.0)  # one impression, cap 2


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(2, 9), min_size=1, max_size=4),
    cap=caps,
    wins=st.lists(st.booleans(), max_size=12),
    data=st.data(),
)
def test_without_sessions_it_is_the_plain_cap(
    sizes: list[int], cap: int, wins: list[bool], data: st.DataObject
) -> None:
    audience = kr.Audience.disjoint(sizes)
    recent, plain = kr.VisitorValuation(audience, cap, NEVER), kr.CapValuation(audience, cap)
    for now, won in enumerate(wins):
        group = data.draw(st.integers(0, audience.group_count - 1))
        expected = plain.probability(group, float(now))
        assert recent.probability(group, float(now)) == pytest.approx(expected, rel=1e-12)
        if won:
            recent.record(group, float(now))
            plain.record(group, float(now))
    assert recent.counts().tolist() == plain.counts().tolist()


def test_a_request_right_after_a_win_is_worth_less() -> None:
    """The shorter the gap, the less; after long enough it is the plain value again."""
    values = []
    for gap in (1.0, 600.0, 1e6):
        valuation = kr.VisitorValuation(kr.Audience.disjoint([20]), 1, SESSIONS)
        valuation.probability(0, 0.0)
        valuation.record(0, 0.0)
        values.append(valuation.probability(0, gap))
    assert values == sorted(values)
    assert values == pytest.approx([0.1 * 0.95, 0.6 * 0.95, 0.95 * 0.95])


def test_other_groups_are_not_touched() -> None:
    valuation = kr.VisitorValuation(kr.Audience.disjoint([20, 20]), 1, SESSIONS)
    valuation.probability(0, 0.0)
    valuation.record(0, 0.0)
    assert valuation.probability(1, 1.0) == 1.0


def test_revert_forgets_who_was_reached() -> None:
    """A win that was never shown tells nothing about the request after it."""
    valuation = kr.VisitorValuation(kr.Audience.disjoint([2]), 2, SESSIONS)
    for now in (0.0, 1e7):
        valuation.probability(0, now)
        valuation.record(0, now)
    valuation.revert(0, 1e7)
    assert valuation.count(0) == 1
    plain = kr.CapValuation(kr.Audience.disjoint([2]), 2)
    plain.record(0, 0.0)
    assert valuation.probability(0, 1e7 + 1.0) == plain.probability(0, 1e7 + 1.0)


def test_a_bidder_takes_it() -> None:
    """Bids fall right after a win, and the sum of what counts stays the measured reach."""
    audience = kr.Audience.disjoint([20, 20])
    valuation = kr.VisitorValuation(audience, 1, SESSIONS)
    market = kr.LogNormalMarket(0.0, 1.0)
    bidder = kr.PlanningBidder(
        audience, 1, kr.Purse(100.0, 0.0, 1e4), market, valuation=valuation, first_plan=1_000
    )
    bid = bidder.bid(0, 0.0)
    bidder.won(0, bid, 0.0, 0.0)
    assert bidder.bid(0, 1.0) == pytest.approx(0.1 * 0.95 * bid)
    assert valuation.meter.reach[1] == 1.0


@pytest.mark.parametrize("cap", [0, -2, 0.5])
def test_an_impossible_cap_is_refused(cap: int) -> None:
    with pytest.raises(kr.KreachError, match=r"^cap must be a whole number from 1 "):
        kr.VisitorValuation(kr.Audience.disjoint([5]), cap, SESSIONS)


def test_a_group_that_the_audience_does_not_hold_is_refused() -> None:
    valuation = kr.VisitorValuation(kr.Audience.disjoint([5]), 2, SESSIONS)
    for ask in (valuation.probability, valuation.record, valuation.revert):
        with pytest.raises(kr.KreachError, match=r"^group must be a group from 0 to 0, got 1"):
            ask(1, 0.0)
