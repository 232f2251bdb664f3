"""Caps of a campaign and of its family against enumeration: everybody who could be behind a win."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.bidding.board import Board
from kreach.adsystem.bidding.family import FamilyExposure
from kreach.adsystem.bidding.family_members import BoardMember, EquivalentImpressions, StackedMember
from kreach.adsystem.bidding.group_kinds import kind_probabilities
from kreach.adsystem.bidding.valuation import StackedValuation
from kreach.adsystem.bidding.worth import worth_table
from kreach.boundary.audience import DisjointAudience
from kreach.errors import KreachError
from kreach.numeric.nested import open_share_in_family
from tests.adsystem.bidding.test_stacked_caps import AUDIENCES, DAY, HOUR, NOW, WEEK, Urn

Shown = Sequence[tuple[float, bool]]
"""Times of the family's impressions, and whether they are the campaign's own."""


def enumerate_people(
    urn: Urn,
    size: int,
    targeted: int,
    rules: tuple[Sequence[kr.CapRule], Sequence[kr.CapRule]],
    shown: Shown,
    now: float,
) -> Fraction:
    """P(a request now is from a targeted member under every cap, own and family's)."""
    total = Fraction(0)
    for history in product(range(size), repeat=len(shown)):
        chance = Fraction(1)
        for turn, member in enumerate(history):
            chance *= urn(member, history[:turn])
        for member in range(targeted):
            seen = [one for one, who in zip(shown, history, strict=True) if who == member]
            own, family = (
                all(
                    sum(r.span_seconds is None or at > now - r.span_seconds for at in times)
                    < r.limit
                    for r in each
                )
                for each, times in (
                    (rules[0], [at for at, mine in seen if mine]),
                    (rules[1], [at for at, _ in seen]),
                )
            )
            if own and family:
                total += chance * urn(member, history)
    return total


def members(
    audience: kr.Audience, own: Sequence[kr.CapRule], family: Sequence[kr.CapRule], shown: Shown
) -> tuple[StackedMember, FamilyExposure]:
    exposure = FamilyExposure(family, audience.group_count)
    mine, sibling = (StackedMember(audience, own, exposure) for _ in range(2))
    for at, is_own in shown:
        (mine if is_own else sibling).record(0, at)
    return mine, exposure


RULES = {
    "1 beside 2": ([kr.CapRule(1)], [kr.CapRule(2)]),
    "2 beside 3": ([kr.CapRule(2)], [kr.CapRule(3)]),
    "3 beside 2": ([kr.CapRule(3)], [kr.CapRule(2)]),
    "2 beside 2": ([kr.CapRule(2)], [kr.CapRule(2)]),
    "1 a day beside 2": ([kr.CapRule(1, DAY)], [kr.CapRule(2)]),
    "2 beside 1 a day": ([kr.CapRule(2)], [kr.CapRule(1, DAY)]),
    "1 a week beside 2 a day": ([kr.CapRule(1, WEEK)], [kr.CapRule(2, DAY)]),
    "1 a day, 3 in all beside 2 a week": (
        [kr.CapRule(1, DAY), kr.CapRule(3)],
        [kr.CapRule(2, WEEK)],
    ),
    "2 a week beside 1 an hour, 2 a day, 4 in all": (
        [kr.CapRule(2, WEEK)],
        [kr.CapRule(1, HOUR), kr.CapRule(2, DAY), kr.CapRule(4)],
    ),
}
SHOWN: dict[str, Shown] = {
    "nothing": [],
    "own": [(NOW - 2 * DAY, True), (NOW - 9.0, True)],
    "a sibling's": [(NOW - 2 * DAY, False), (NOW - 9.0, False)],
    "both": [
        (NOW - 9 * DAY, False),
        (NOW - 5 * DAY, True),
        (NOW - 2 * DAY, False),
        (NOW - 2 * HOUR, True),
        (NOW - 10.0, False),
    ],
    "at once": [(NOW - 60.0, True), (NOW - 60.0, False), (NOW - 60.0, False), (NOW, True)],
}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN.keys())
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("name", AUDIENCES.keys())
def test_values_are_those_of_enumeration(
    name: str, rules: tuple[Sequence[kr.CapRule], Sequence[kr.CapRule]], shown: Shown
) -> None:
    audience, urn, size, targeted = AUDIENCES[name]
    mine, _ = members(audience, *rules, shown)
    exact = enumerate_people(urn, size, targeted, rules, shown, NOW)
    assert mine.probability(0, NOW) == pytest.approx(float(exact), rel=1e-12, abs=1e-13)


counts = st.integers(0, 7)
caps = st.integers(1, 5)


def lifetime(size: int, own: int, others: int, own_cap: int, family_cap: int) -> float:
    shown = [(0.0, True)] * own + [(0.0, False)] * others
    audience = kr.Audience.disjoint([size])
    mine, _ = members(audience, [kr.CapRule(own_cap)], [kr.CapRule(family_cap)], shown)
    return mine.probability(0, 1.0)


@given(st.integers(1, 6), counts, counts, caps, caps)
def test_a_value_is_never_above_that_of_either_cap(
    size: int, own: int, others: int, own_cap: int, family_cap: int
) -> None:
    both = lifetime(size, own, others, own_cap, family_cap)

    def alone(shown: int, cap: int) -> float:
        return float(kr.reach_probability(kr.Audience.disjoint([size]), [shown], cap)[0])

    own_value, family_value = alone(own, own_cap), alone(own + others, family_cap)
    assert both <= min(own_value, family_value) + 1e-12
    assert both >= own_value + family_value - 1.0 - 1e-12
    assert both >= alone(own + others, min(own_cap, family_cap)) - 1e-12
    if others == 0 and own_cap <= family_cap:
        assert both == pytest.approx(own_value, abs=1e-12)
    if own_cap >= family_cap:
        assert both == pytest.approx(family_value, abs=1e-12)


@given(st.integers(1, 6), counts, counts, caps, caps)
def test_an_impression_of_a_sibling_never_raises_a_value(
    size: int, own: int, others: int, own_cap: int, family_cap: int
) -> None:
    before = lifetime(size, own, others, own_cap, family_cap)
    assert lifetime(size, own, others + 1, own_cap, family_cap) <= before + 1e-12
    assert lifetime(size, own + 1, others, own_cap, family_cap) <= before + 1e-12


@given(st.lists(st.floats(0.0, 3 * WEEK), max_size=8), st.sampled_from(list(RULES.values())))
def test_a_family_of_one_with_the_same_caps_is_the_campaign_alone(
    times: list[float], rules: tuple[Sequence[kr.CapRule], Sequence[kr.CapRule]]
) -> None:
    audience = kr.Audience.disjoint([3], [2])
    for own in rules:
        alone = StackedValuation(audience, own)
        member = StackedMember(audience, own, FamilyExposure(own, 1))
        for at in sorted(times):
            for each in (alone, member):
                each.record(0, at)
        for now in (3 * WEEK, 3 * WEEK + HOUR, 5 * WEEK):
            assert member.probability(0, now) == pytest.approx(alone.probability(0, now), 1e-12)


def test_what_is_reverted_was_never_there() -> None:
    audience = kr.Audience.disjoint([4, 4])
    family = FamilyExposure([kr.CapRule(1, HOUR), kr.CapRule(3)], 2)
    one, two = (StackedMember(audience, [kr.CapRule(2)], family) for _ in range(2))
    two.record(1, 5.0)
    before = [each.probability(1, 9.0) for each in (one, two)]
    one.record(1, 7.0)
    assert two.probability(1, 9.0) < before[1]
    one.revert(1, 7.0)
    assert [each.probability(1, 9.0) for each in (one, two)] == before
    with pytest.raises(KreachError, match=r"^won_at must be the moment of a recorded impression"):
        one.revert(1, 7.0)
    assert [each.probability(1, 9.0) for each in (one, two)] == before


def test_large_caps_do_not_lose_their_digits() -> None:
    share = open_share_in_family([1_200], [3_000], [60], [150])
    assert share[0] == pytest.approx(1.0)
    assert np.all(np.isfinite(share))
    assert np.all(np.diff(share) <= 1e-9)
    assert share[59] == pytest.approx(1.0, abs=1e-12)
    assert share[-1] == 0.0
    assert open_share_in_family([0], [0], [3], [5])[0] == 1.0


def test_a_family_has_caps() -> None:
    with pytest.raises(KreachError, match=r"^rules must hold at least one cap, got 'none'$"):
        FamilyExposure([], 3)


# -- on the board -----------------------------------------------------------------------------


def board_members(
    audience: DisjointAudience, own_caps: Sequence[int], family_cap: int
) -> tuple[Board, list[BoardMember], FamilyExposure]:
    """Members on a board whose tables have the plain probabilities, at a multiplier of one."""
    family = FamilyExposure([kr.CapRule(family_cap)], audience.group_count)
    board = Board(audience.group_count, seed=1)
    board.add_slots(len(own_caps))
    made = []
    for slot, cap in enumerate(own_caps):
        probability, kinds = kind_probabilities(audience, min(cap, family_cap))
        at = board.add_audience(kinds) if slot == 0 else 0
        made.append(BoardMember(board, slot, audience, cap, family))
        worth = worth_table(int(kinds.max(initial=0)) + 1, probability, 40, 0.0, None)
        board.set_worth(slot, at, worth, 0.0)
        board.multipliers[slot], board.most[slot] = 1.0, 9.0
    return board, made, family


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=25),
    st.tuples(caps, caps, caps),
    caps,
)
def test_the_board_values_members_as_they_are_valued_one_by_one(
    wins: list[tuple[int, int]], own_caps: tuple[int, int, int], family_cap: int
) -> None:
    audience = kr.Audience.disjoint([2, 5, 5], [2, 5, 3], dispersion=[np.inf, np.inf, 0.7])
    board, on_board, family = board_members(audience, own_caps, family_cap)
    exposure = FamilyExposure([kr.CapRule(family_cap)], 3)
    exact = [StackedMember(audience, [kr.CapRule(cap)], exposure) for cap in own_caps]
    for at, (who, group) in enumerate(wins):
        on_board[who].record(group, float(at))
        exact[who].record(group, float(at))
    for group in range(3):
        values = board.value(group, 0.0)
        for slot, each in enumerate(exact):
            assert values[slot] == pytest.approx(each.probability(group, 99.0), rel=1e-5, abs=1e-7)
    for at, (who, group) in enumerate(wins):
        on_board[who].revert(group, float(at))
    assert not board.counts.any()
    assert not family.counts.any()


def test_a_log_counts_as_its_impressions_do_and_so_does_a_late_member() -> None:
    audience = kr.Audience.disjoint([3, 3, 3])
    board, (one, two), _ = board_members(audience, (1, 2), 3)
    one.load(np.array([0, 2, 0]), np.array([1, 2, 1]))
    two.load(np.array([2]), np.array([3]))
    other, (first, second), family = board_members(audience, (1, 2), 3)
    for group in (0, 0, 2, 2):
        first.record(group, 0.0)
    for _ in range(3):
        second.record(2, 0.0)
    assert board.counts.tolist() == other.counts.tolist()
    other.add_slots(1)
    late = BoardMember(other, 2, audience, 1, family)
    equivalent = EquivalentImpressions(audience, 1, 3)
    assert late.counts().tolist() == pytest.approx([equivalent(0, 0, n) for n in (2, 0, 5)])
