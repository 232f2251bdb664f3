"""The hindsight limit: nobody gets past it, and somebody who knew everything would get there."""

from itertools import combinations, permutations
from math import comb

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.bidding.bidder import Bidder
from kreach.adsystem.bidding.hindsight import session_hindsight_limit
from kreach.lab.auctions import paper_stream, run_auctions
from tests.strategies import independent

FloatArray = npt.NDArray[np.float64]


def every_purchase(
    audience: kr.Audience, groups: list[int], prices: list[float], cap: int
) -> tuple[FloatArray, FloatArray]:
    """Cost and expected reach of every subset of the requests."""
    costs, reaches = [], []
    for size in range(len(groups) + 1):
        for chosen in combinations(range(len(groups)), size):
            counts = np.bincount([groups[t] for t in chosen], minlength=audience.group_count)
            costs.append(sum(prices[t] for t in chosen))
            reaches.append(kr.measure(audience, counts, cap).reach)
    return np.array(costs), np.array(reaches)


def best_mixture(costs: FloatArray, reaches: FloatArray, budget: float) -> float:
    """The most that two purchases, mixed by a coin so that the mean cost fits, reach."""
    inside = costs <= budget + 1e-12
    best = float(reaches[inside].max())
    for cost, reach in zip(costs[inside], reaches[inside], strict=True):
        dear = ~inside & (reaches > reach)
        if dear.any():
            share = (budget - cost) / (costs[dear] - cost)
            best = max(best, float((reach + share * (reaches[dear] - reach)).max()))
    return best


@st.composite
def streams(draw: st.DrawFn) -> tuple[kr.Audience, list[int], list[float]]:
    audience = draw(independent())
    groups = draw(st.lists(st.integers(0, audience.group_count - 1), min_size=1, max_size=7))
    price = st.one_of(st.sampled_from([0.0, 1.0, 2.5]), st.floats(0.1, 9.0))
    return audience, groups, draw(st.lists(price, min_size=len(groups), max_size=len(groups)))


@settings(max_examples=40)
@given(stream=streams(), cap=st.integers(1, 3), share=st.floats(0.0, 1.2))
def test_against_every_subset(
    stream: tuple[kr.Audience, list[int], list[float]], cap: int, share: float
) -> None:
    audience, groups, prices = stream
    budget = share * sum(prices)
    costs, reaches = every_purchase(audience, groups, prices, cap)
    found = float(kr.hindsight_limit(audience, groups, prices, cap, [budget])[0])
    assert found == pytest.approx(best_mixture(costs, reaches, budget), abs=1e-9)


@settings(max_examples=40)
@given(stream=streams(), cap=st.integers(1, 3))
def test_rises_with_the_budget_ever_more_slowly(
    stream: tuple[kr.Audience, list[int], list[float]], cap: int
) -> None:
    audience, groups, prices = stream
    budgets = np.linspace(0.0, 1.1 * sum(prices) + 0.1, 60)
    limit = kr.hindsight_limit(audience, groups, prices, cap, budgets)
    slopes = np.diff(limit)
    assert (slopes >= -1e-12).all()
    assert (np.diff(slopes) <= 1e-9).all()
    everything = np.bincount(groups, minlength=audience.group_count)
    assert limit[-1] == pytest.approx(kr.measure(audience, everything, cap).reach, rel=1e-12)


def test_by_hand() -> None:
    """One group of two, cap 1: the first impression reaches 1, the second 1/2."""
    audience = kr.Audience.disjoint([2, 1])
    limit = kr.hindsight_limit(audience, [0, 0, 1, 0], [3.0, 1.0, 2.0, 5.0], 1, [0, 1, 2, 3, 6, 99])
    assert limit.tolist() == pytest.approx([0.0, 1.0, 1.5, 2.0, 2.5, 2.75])


def test_what_is_free_is_taken() -> None:
    audience = kr.Audience.disjoint([20])
    limit = kr.hindsight_limit(audience, [0, 0, 0], [0.0, 0.0, 1.0], 1, [0.0, 1.0])
    report = [kr.measure(audience, [n], 1).reach for n in (2, 3)]
    assert limit.tolist() == pytest.approx(report)


@pytest.mark.parametrize("group_size", [1, 6, 120])
@pytest.mark.parametrize("budget", [20.0, 90.0])
def test_no_bidder_gets_past_it(group_size: int, budget: float) -> None:
    """At what a bidder spent, the expected reach of its wins is at most the limit."""
    audience = kr.Audience.disjoint([group_size] * (120 // group_size))
    market = kr.LogNormalMarket(0.0, float(np.sqrt(0.5)))
    for cap in (1, 3):
        stream = paper_stream(group_size, np.random.default_rng([31, cap]), requests=800)
        valuation = kr.CapValuation(audience, cap)
        bidders: list[Bidder] = [
            kr.PaperBidder(valuation, kr.Purse(budget, 0.0, 800.0), market, 800),
            kr.PlanningBidder(audience, cap, kr.Purse(budget, 0.0, 800.0), market),
            kr.PlanningBidder(audience, cap, kr.Purse(budget, 0.0, 800.0), market, ahead=False),
        ]
        for bidder in bidders:
            outcome = run_auctions(bidder, stream, cap)
            limits = kr.hindsight_limit(
                audience, stream.group, stream.price, cap, [outcome.spend, budget]
            )
            assert 0.0 < outcome.expected_reach <= limits[0] * (1.0 + 1e-12)
            assert limits[0] <= limits[1]


def test_no_requests_reach_nobody() -> None:
    audience = kr.Audience.disjoint([5])
    assert kr.hindsight_limit(audience, [], [], 1, [0.0, 7.0]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("groups", "prices", "cap", "budgets", "message"),
    [
        ([0, 2], [1.0, 1.0], 1, [1.0], r"^groups must be below 2, got 2"),
        ([0, -1], [1.0, 1.0], 1, [1.0], r"^groups\[1\] must be a whole number from 0"),
        ([0, 1], [1.0], 1, [1.0], r"^prices must have one entry per request \(2\), got"),
        ([0, 1], [1.0, -3.0], 1, [1.0], r"^prices must be numbers ≥ 0, got -3.0"),
        ([0, 1], [1.0, float("nan")], 1, [1.0], r"^prices must be numbers ≥ 0, got nan"),
        ([0, 1], [1.0, 1.0], 0, [1.0], r"^cap must be a whole number from 1 "),
        ([0, 1], [1.0, 1.0], 1, [-1.0], r"^budgets must be numbers ≥ 0, got"),
        ([0, 1], [1.0, 1.0], 1, [float("nan")], r"^budgets must be numbers ≥ 0, got"),
    ],
)
def test_bad_input_is_refused(
    groups: list[int], prices: list[float], cap: int, budgets: list[float], message: str
) -> None:
    with pytest.raises(kr.KreachError, match=message):
        kr.hindsight_limit(kr.Audience.disjoint([3, 3]), groups, prices, cap, budgets)


def test_overlapping_groups_are_refused() -> None:
    audience = kr.Audience.overlapping([2, 2], [((0, 1), 2)])
    with pytest.raises(kr.KreachError, match=r"^audience must have disjoint groups, got"):
        kr.hindsight_limit(audience, [0], [1.0], 1, [1.0])


# -- sessions are known -----------------------------------------------------------------------


@st.composite
def session_streams(draw: st.DrawFn) -> tuple[list[list[int]], list[int], list[int], list[float]]:
    """Two groups of members with up to two sessions each; requests of known sessions."""
    counts = [draw(st.lists(st.integers(0, 2), min_size=1, max_size=3)) for _ in range(2)]
    groups, sessions, number = [], [], 0
    for group, own in enumerate(counts):
        for _ in range(sum(own)):
            requests = draw(st.integers(1, 2))
            groups += [group] * requests
            sessions += [number] * requests
            number += 1
    price = st.one_of(st.sampled_from([0.0, 1.0, 2.5]), st.floats(0.1, 9.0))
    prices = draw(st.lists(price, min_size=len(groups), max_size=len(groups)))
    return counts, groups, sessions, prices


def mean_reach(own: list[int], chosen: list[int]) -> float:
    """Of these sessions of a group, over every way in which its sessions can be its members'."""
    members = [who for who, count in enumerate(own) for _ in range(count)]
    ways = list(permutations(members))
    return sum(len({way[place] for place in chosen}) for way in ways) / len(ways)


@settings(max_examples=25, deadline=None)
@given(stream=session_streams(), share=st.floats(0.0, 1.2))
def test_sessions_against_every_subset_and_every_way(
    stream: tuple[list[list[int]], list[int], list[int], list[float]], share: float
) -> None:
    """Each set of sessions, at their cheapest requests, with every assignment to members."""
    counts, groups, sessions, prices = stream
    total = sum(sum(own) for own in counts)
    cheapest = [
        min(price for price, s in zip(prices, sessions, strict=True) if s == number)
        for number in range(total)
    ]
    first = sum(counts[0])
    costs, reaches = [], []
    for size in range(total + 1):
        for chosen in combinations(range(total), size):
            costs.append(sum(cheapest[number] for number in chosen))
            left = [number for number in chosen if number < first]
            right = [number - first for number in chosen if number >= first]
            reaches.append(mean_reach(counts[0], left) + mean_reach(counts[1], right))
    budget = share * sum(cheapest)
    found = session_hindsight_limit(counts, groups, sessions, prices, [budget])
    expected = best_mixture(np.array(costs), np.array(reaches), budget)
    assert float(found[0]) == pytest.approx(expected, abs=1e-9)


def test_sessions_by_the_formula() -> None:
    """n of N sessions reach Σ 1 − C(N − v, n)/C(N, n) people; prices of 1, so money buys n."""
    counts = [5, 3, 1, 1, 0]
    total = sum(counts)
    found = session_hindsight_limit(
        [counts], [0] * total, range(total), [1.0] * total, np.arange(total + 1)
    )
    expected = [
        sum(1.0 - comb(total - v, n) / comb(total, n) for v in counts) for n in range(total + 1)
    ]
    assert found.tolist() == pytest.approx(expected, rel=1e-12)
    assert found[-1] == 4.0  # every session is bought: everybody who comes
    slopes = np.diff(found)
    assert (np.diff(slopes) <= 1e-12).all()


def test_sessions_beat_independent_draws() -> None:
    """No session is paid twice, and none is drawn twice."""
    generator = np.random.default_rng(8)
    person = generator.integers(40, size=400)
    session, group = np.repeat(np.arange(400), 3), np.repeat(person // 20, 3)
    prices = generator.lognormal(0.0, 0.7, 1_200)
    counts = np.bincount(person, minlength=40).reshape(2, 20)
    audience = kr.Audience.profiled([own / own.sum() for own in counts])
    budgets = [5.0, 10.0, 20.0]
    aware = session_hindsight_limit(list(counts), group, session, prices, budgets)
    blind = kr.hindsight_limit(audience, group, prices, 1, budgets)
    assert (aware > 1.02 * blind).all()


def test_no_sessions_reach_nobody() -> None:
    assert session_hindsight_limit([[0, 0]], [], [], [], [3.0]).tolist() == [0.0]
    assert session_hindsight_limit([], [], [], [], [3.0]).tolist() == [0.0]


@pytest.mark.parametrize(
    ("counts", "groups", "sessions", "message"),
    [
        ([[1, 1]], [0, 0], [3], r"^sessions must have one entry per request \(2\), got"),
        ([[1], [0]], [0, 1], [3, 3], r"^sessions must each be of one group, got"),
        ([[2, 1]], [0, 0], [3, 4], r"^session_counts must sum to the 2 sessions of group 0, got 3"),
        ([[1, 1]], [0, 1], [3, 4], r"^groups must be below 1, got 1"),
    ],
)
def test_bad_sessions_are_refused(
    counts: list[list[int]], groups: list[int], sessions: list[int], message: str
) -> None:
    with pytest.raises(kr.KreachError, match=message):
        session_hindsight_limit(counts, groups, sessions, [1.0] * len(groups), [1.0])
