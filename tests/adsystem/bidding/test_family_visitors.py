"""Members of a family on a board with a visit model: sessions that any of them may have won."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.bidding.board import Board
from kreach.adsystem.bidding.board_visitors import BoardVisitors, RecentWins
from kreach.adsystem.bidding.family import FamilyExposure
from kreach.adsystem.bidding.family_members import StackedMember
from kreach.adsystem.bidding.family_visitors import MemberVisitors, PooledVisitors
from kreach.adsystem.bidding.worth import worth_table
from kreach.boundary.visit_model import VisitModel
from tests.adsystem.bidding.test_board_visitors import MODEL

AUDIENCE = kr.Audience.disjoint([20, 20, 5])
KINDS = 2
Make = Callable[[Board, int, RecentWins], BoardVisitors]


class Lane:
    """Campaigns on a board, valued by tables without a plan."""

    def __init__(self, *makers: Make) -> None:
        self.board = Board(3)
        self.board.add_slots(len(makers))
        self.recent = RecentWins()
        kinds = AUDIENCE.kinds.of_group
        assert kinds is not None
        at = self.board.add_audience(kinds)
        self.campaigns = [make(self.board, slot, self.recent) for slot, make in enumerate(makers)]
        for slot, campaign in enumerate(self.campaigns):
            worth = worth_table(KINDS, campaign.kind_probability(0.0), 60, 0.0, None)
            self.board.set_worth(slot, at, worth, 0.0)
            self.board.multipliers[slot], self.board.most[slot] = 1.0, 9.0

    def values(self, group: int, now: float) -> list[float]:
        """What a request is worth to each."""
        shares: Mapping[int, float] = self.recent.shares(group, now) or {}
        values = self.board.value(group, 0.0).tolist()
        return [value * shares.get(slot, 1.0) for slot, value in enumerate(values)]


def alone(cap: int, model: VisitModel = MODEL) -> Make:
    return lambda board, slot, recent: BoardVisitors(board, slot, AUDIENCE, cap, model, recent)


def member(family: FamilyExposure, cap: int, model: VisitModel = MODEL) -> Make:
    return lambda board, slot, recent: MemberVisitors(
        board, slot, AUDIENCE, cap, model, recent, family
    )


def pooled(family: FamilyExposure) -> Make:
    return lambda board, slot, recent: PooledVisitors(
        board, slot, AUDIENCE, 4, MODEL, recent, family
    )


steps = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from([5.0, 60.0, 500.0, 1_000.0]), st.sampled_from("-012")
    ),
    max_size=40,
)


class Held:
    """Whether filters hold a group for sure: one that idles for an hour may be dropped any time."""

    def __init__(self) -> None:
        self._last: dict[int, float] = {}

    def is_held(self, group: int, now: float) -> bool:
        idle = now - self._last.get(group, now)
        self._last[group] = now
        return idle < 3_600.0


@settings(max_examples=30, deadline=None)
@given(steps, st.sampled_from([1, 2]))
def test_where_only_the_familys_cap_binds_it_is_one_campaign(
    history: list[tuple[int, float, str]], cap: int
) -> None:
    family = FamilyExposure([kr.CapRule(cap)], 3)
    lane, single = Lane(pooled(family), pooled(family), pooled(family)), Lane(alone(cap))
    now, held = 0.0, Held()
    for group, gap, who in history:
        now += gap
        expected, found = single.values(group, now)[0], lane.values(group, now)
        if held.is_held(group, now):
            assert found == pytest.approx([expected] * 3, rel=1e-6, abs=1e-9)
        if who != "-":
            lane.campaigns[int(who)].record(group, now)
            single.campaigns[0].record(group, now)
    assert family.counts.sum() == sum(who != "-" for _, _, who in history)


@settings(max_examples=30, deadline=None)
@given(steps, st.sampled_from([(1, 2), (1, 3), (2, 3)]))
def test_a_value_is_never_above_that_of_either_cap(
    history: list[tuple[int, float, str]], caps: tuple[int, int]
) -> None:
    family = FamilyExposure([kr.CapRule(caps[1])], 3)
    lane = Lane(*[member(family, caps[0])] * 3)
    owns, whole = Lane(*[alone(caps[0])] * 3), Lane(alone(caps[1]))
    now, held = 0.0, Held()
    for group, gap, who in history:
        now += gap
        values, own = lane.values(group, now), owns.values(group, now)
        most, sure = whole.values(group, now)[0], held.is_held(group, now)
        for value, mine in zip(values, own, strict=True) if sure else ():
            assert 0.0 <= value <= min(mine, most) * (1.0 + 1e-3) + 1e-6
        if who != "-":
            for each in (lane, owns):
                each.campaigns[int(who)].record(group, now)
            whole.campaigns[0].record(group, now)


@settings(max_examples=30, deadline=None)
@given(steps)
def test_a_family_of_one_is_the_campaign_alone(history: list[tuple[int, float, str]]) -> None:
    lane, single = Lane(member(FamilyExposure([kr.CapRule(3)], 3), 1)), Lane(alone(1))
    now = 0.0
    for group, gap, who in history:
        now += gap
        assert lane.values(group, now) == pytest.approx(single.values(group, now), rel=1e-3)
        if who != "-":
            for each in (lane, single):
                each.campaigns[0].record(group, now)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=30))
def test_without_sessions_it_is_exact(wins: list[tuple[int, int]]) -> None:
    family, exposure = (FamilyExposure([kr.CapRule(3)], 3) for _ in range(2))
    flat = VisitModel.flat(20)
    lane = Lane(*[member(family, 1, flat)] * 2)
    exact = [StackedMember(AUDIENCE, [kr.CapRule(1)], exposure) for _ in range(2)]
    now = 0.0
    for who, group in wins:
        now += 90_000.0
        lane.values(group, now)
        lane.campaigns[who].record(group, now)
        exact[who].record(group, now)
    for group in range(3):
        expected = [each.probability(group, now) for each in exact]
        assert lane.values(group, now + 90_000.0) == pytest.approx(expected, rel=1e-3)


def test_a_session_that_siblings_filled_is_worth_little_and_reverts() -> None:
    family = FamilyExposure([kr.CapRule(2)], 3)
    lane = Lane(*[member(family, 1)] * 3)
    first = lane.values(0, 0.0)[2]
    lane.campaigns[0].record(0, 0.0)
    lane.values(0, 5.0)
    after_one = lane.values(0, 5.0)[2]
    lane.campaigns[1].record(0, 5.0)
    after_two = lane.values(0, 10.0)[2]
    assert after_one > 0.9 * first  # the person has seen one of two, and none of the third's
    assert after_two < 0.3 * first  # and now two of two
    assert lane.values(1, 10.0)[2] == pytest.approx(first, rel=1e-6)
    lane.campaigns[1].revert(0, 5.0)
    assert lane.values(0, 11.0)[2] > 0.85 * first
    lane.campaigns[0].revert(0, 0.0)
    assert lane.board.counts[0].tolist() == pytest.approx([0.0] * 3, abs=1e-6)
    assert not family.counts.any()


def test_impressions_of_a_log_are_known_to_all() -> None:
    family = FamilyExposure([kr.CapRule(3)], 3)
    lane = Lane(member(family, 1), member(family, 1), pooled(FamilyExposure([kr.CapRule(1)], 3)))
    fresh = lane.values(0, 0.0)
    lane.campaigns[0].load(np.array([0, 1]), np.array([30, 2]))
    values = lane.values(0, 0.0)
    assert values[0] < 0.5 * fresh[0]
    assert values[1] < 0.95 * fresh[1]
    assert values[2] == fresh[2]
