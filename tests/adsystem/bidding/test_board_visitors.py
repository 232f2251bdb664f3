"""A campaign on the board with a visit model says what the library's bidder says."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.bidding.arrivals import Arrivals, Traffic
from kreach.adsystem.bidding.bidder import PlanningBidder
from kreach.adsystem.bidding.board import Board
from kreach.adsystem.bidding.board_visitors import BoardVisitors, RecentWins
from kreach.adsystem.bidding.budget import Purse
from kreach.adsystem.bidding.market import LogNormalMarket
from kreach.adsystem.bidding.worth import SessionValues, worth_table

START, END = 0.0, 40_000.0
SIZES = [20, 20, 5, 5, 1]
MODEL = replace(
    kr.VisitModel.flat(20, dispersion=0.6),
    gap_edges_seconds=(60.0, 600.0),
    continuation_odds=np.array([[9.0, 1.0], [0.5, 0.1]]),
    requests_per_session=np.array([0.5, 0.3, 0.2]),
)


class Twins:
    """One campaign, twice: as the library's bidder and as a slot of a board."""

    def __init__(self, cap: int, memory_seconds: float | None = None) -> None:
        self.audience = kr.Audience.disjoint(SIZES)
        self.traffic = Traffic(len(SIZES), START)
        self.board = Board(len(SIZES))
        self.board.add_slots(2)
        self.recent = RecentWins()
        self.continued = 0
        self.above = 0
        self.on_board = BoardVisitors(
            self.board,
            1,
            self.audience,
            cap,
            MODEL,
            self.recent,
            memory_seconds=memory_seconds,
        )
        self.bidder = PlanningBidder(
            self.audience,
            cap,
            Purse(30.0, START, END),
            LogNormalMarket(0.0, 0.8),
            model=MODEL,
            memory_seconds=memory_seconds,
            learn=False,
            arrivals=Arrivals(len(SIZES), START, END, traffic=self.traffic),
            plans_itself=False,
        )
        self.audience_number = self.board.add_audience(self.bidder.kind_of_group)
        self.board.ends[1], self.board.most[1] = END, np.inf

    def plan(self, now: float) -> None:
        plan = self.bidder.plan_job(now)()
        self.bidder.adopt(plan)
        left = self.bidder.left_per_time * (END - now)
        probability = self.on_board.kind_probability(now)
        busiest = max(self.share(group) for group in range(len(SIZES)))
        most = int(self.board.max_counted[1])
        passing = self.on_board.drops_repeats
        table = worth_table(3, probability, most, left * busiest, plan, passing=passing)
        sessions = SessionValues(plan.response) if plan.more > 0.0 else None
        rate = self.bidder.left_per_time
        self.board.set_worth(1, self.audience_number, table, rate, sessions)
        self.board.multipliers[1] = plan.multiplier
        self.board.turn_to(now)

    def share(self, group: int) -> float:
        return (self.traffic.by_group[group] + 5.0) / (self.traffic.total + 5.0 * len(SIZES))

    def values(self, group: int, now: float) -> tuple[float, float]:
        """What a request is worth to either."""
        self.traffic.record(group)
        by_library = self.bidder.wanted(group, now)
        self.board.turn_to(now)
        shares: Mapping[int, float] = self.recent.shares(group, now) or {}
        self.continued += 1 in shares
        self.above += shares.get(1, 1.0) > 1.0
        share = self.share(group)
        ranks, complete = self.board.ranks(group, self.traffic.by_group[group], share, shares)
        assert complete
        ranked = [rank for rank in ranks if rank.slot == 1]
        if not ranked:  # worth nothing any more
            return by_library, 0.0
        value = self.board.exact(ranked[0], group, shares.get(1, 1.0))
        assert value * ranked[0].luck <= ranked[0].score * 1.0001  # else the best may be missed
        whole = [rank for rank in self.board.all_ranks(group, share, shares) if rank.slot == 1]
        exact = [self.board.exact(rank, group, shares.get(1, 1.0)) for rank in whole]
        assert exact == pytest.approx([value] if value > 0.0 else [], rel=0.05)  # another row
        return by_library, value

    def won(self, group: int, now: float) -> None:
        self.bidder.valuation.record(group, now)
        self.on_board.record(group, now)


@pytest.mark.parametrize("memory_seconds", [None, 900.0, 5_000.0])
@pytest.mark.parametrize("cap", [1, 2])
def test_the_board_values_as_the_bidder_does(cap: int, memory_seconds: float | None) -> None:
    """Tables have few rows for requests to come, so values agree to a few per cent; a request of
    a session that was won is worth as much less on the board as in the library. Beside a gateway
    that drops repeats it is worth as much more."""
    twins, generator = Twins(cap, memory_seconds), np.random.default_rng(5)
    now, ratios = 10.0, []
    for turn in range(600):
        now += float(generator.exponential(12.0))
        group = int(generator.integers(len(SIZES)))
        if turn in (100, 300, 450):
            twins.plan(now)
        if turn < 100:
            twins.traffic.record(group)
            continue
        by_library, on_board = twins.values(group, now)
        if by_library > 1e-3 and turn >= 300:  # sessions are known by then
            ratios.append(on_board / by_library)
        if generator.random() < 0.3 * twins.bidder.passing(group):
            twins.won(group, now)
    assert len(ratios) > 200
    assert twins.continued > 50
    assert (twins.above > 50) == (memory_seconds is not None)
    assert np.abs(np.log(ratios)).max() < 0.1
    assert np.abs(np.mean(np.log(ratios))) < 0.02
    draws = twins.bidder.valuation.counts()
    as_of_wins = 1e-5 if memory_seconds is None else 0.03  # draws for w people change with hours
    assert twins.on_board.counts() == pytest.approx(draws, rel=as_of_wins)


def test_what_an_earlier_run_showed_is_remembered() -> None:
    """A request that passes is for one of the others: with times, that is known after a restart;
    what is older counts as draws that can be met again."""
    twins, again = Twins(1, 5_000.0), Twins(1, 5_000.0)
    for group, moment in ((0, 100.0), (0, 7_000.0), (0, 8_000.0)):
        twins.on_board.record(group, moment)
    again.on_board.load(np.array([0]), np.array([1]))
    again.on_board.load_shown([(0, 7_000.0), (0, 8_000.0)])
    for each in (twins, again):
        each.on_board.kind_probability(9_000.0)
    before, after = (each.on_board.filter.request(0, 9_000.0) for each in (twins, again))
    assert after == pytest.approx(before, rel=0.02)
    assert again.on_board.passing(0) == pytest.approx(twins.on_board.passing(0), rel=0.02)
    assert again.on_board.count(0) == pytest.approx(twins.on_board.count(0), rel=0.1)
    assert again.recent.shares(0, 9_001.0) is not None


@pytest.mark.parametrize("memory_seconds", [None, 5_000.0])
def test_draws_of_others_stay_when_a_win_is_taken_back(memory_seconds: float | None) -> None:
    """Impressions that others counted in a group with recent wins are not lost."""
    twins = Twins(1, memory_seconds)
    twins.on_board.record(0, 100.0)
    twins.on_board.record(0, 200.0)
    before = twins.on_board.count(0)
    twins.on_board.load(np.array([0, 1]), np.array([10, 10]))
    more = 10.0 * twins.on_board.draws_per_impression
    assert twins.on_board.counts()[:2] == pytest.approx([before + more, more], rel=1e-5)
    twins.on_board.share(0, 250.0)
    twins.on_board.revert(0, 200.0)
    twins.on_board.record(0, 300.0)
    assert twins.on_board.count(0) > 0.9 * more


@pytest.mark.parametrize("memory_seconds", [None, 5_000.0])
def test_a_win_taken_back_leaves_nothing(memory_seconds: float | None) -> None:
    twins = Twins(1, memory_seconds)
    twins.on_board.record(0, 100.0)
    twins.on_board.revert(0, 100.0)
    assert twins.on_board.counts().tolist() == [0.0] * len(SIZES)
    assert twins.recent.shares(0, 110.0) is None


@pytest.mark.parametrize("memory_seconds", [None, 5_000.0, 90_000.0])
def test_a_win_of_long_ago_can_be_taken_back(memory_seconds: float | None) -> None:
    """Its session is over: one draw less."""
    twins = Twins(1, memory_seconds)
    twins.on_board.record(0, 100.0)
    twins.on_board.record(1, 30_000.0)
    twins.on_board.share(1, 39_000.0)
    twins.on_board.revert(0, 100.0)
    assert twins.on_board.count(0) == 0.0


def test_only_groups_with_recent_wins_are_held() -> None:
    twins = Twins(1)
    assert twins.recent.shares(0, 50.0) is None
    twins.on_board.record(0, 100.0)
    assert len(twins.recent) == 1
    shares = twins.recent.shares(0, 110.0)
    assert shares is not None
    assert shares[1] == pytest.approx(0.1)  # odds of 9 to 1 that the session goes on
    for later in range(100):  # others come; an hour later nothing is held
        twins.on_board.filter.request(1, 8_000.0 + later)
    twins.on_board.record(1, 9_000.0)
    assert twins.recent.shares(0, 9_000.0) is None
    assert len(twins.recent) == 1


def test_what_was_learned_can_be_stored() -> None:
    first, second = Twins(2), Twins(2)
    for at in range(20):
        first.on_board.share(at % 3, 100.0 + 30.0 * at)
        first.on_board.record(at % 3, 100.0 + 30.0 * at)
    second.on_board.remember(first.on_board.memory())
    assert second.on_board.draws_per_impression == first.on_board.draws_per_impression < 1.0
    second.on_board.load(np.array([0, 1]), np.array([10, 0]))
    assert second.on_board.count(0) == pytest.approx(10 * first.on_board.draws_per_impression)
    now = 5_000.0
    ours, theirs = (twin.on_board.kind_probability(now) for twin in (first, second))
    draws = np.arange(6.0)
    assert ours(0, draws).tolist() == pytest.approx(theirs(0, draws).tolist())
    second.on_board.remember({"wins": "many"})  # of no use, and no harm
