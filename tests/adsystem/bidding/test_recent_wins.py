"""Campaigns that take requests in late know what they would have known at once."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.bidding import recent_wins
from kreach.adsystem.bidding.board import Board
from kreach.adsystem.bidding.board_visitors import BoardVisitors
from kreach.adsystem.bidding.recent_wins import DEFERRED_SECONDS, RecentWins
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.ledger import Ledger
from kreach.adsystem.measurement.visitor_filter import VisitorFilter, as_micros
from kreach.boundary.times import MICROS

SIZES = [20, 20, 5, 5, 1]
CAPS = (1, 1, 2, 3)
MODEL = replace(
    kr.VisitModel.flat(20, dispersion=0.6),
    gap_edges_seconds=(60.0, 600.0, 7_200.0),
    continuation_odds=np.array([[9.0, 1.0, 0.3], [0.5, 0.1, 0.1], [0.4, 0.1, 0.0]]),
    requests_per_session=np.array([0.5, 0.3, 0.2]),
)
Event = tuple[str, int, float, Sequence[int]]  # what, group, time, slots


class Campaigns:
    """Campaigns on one board, with their visitor filters."""

    def __init__(self, memory_seconds: float | None = None) -> None:
        audience = kr.Audience.disjoint(SIZES)
        self.board = Board(len(SIZES))
        self.board.add_slots(len(CAPS))
        self.recent = RecentWins()
        self.all = [
            BoardVisitors(
                self.board, slot, audience, cap, MODEL, self.recent, memory_seconds=memory_seconds
            )
            for slot, cap in enumerate(CAPS)
        ]

    def held(self, slot: int) -> dict[int, list[tuple[Any, ...]]]:
        """By group: the requests that a campaign holds, without their values."""
        for group in range(len(SIZES)):
            self.recent.take_in(group, slot)
        by_group = self.all[slot].filter._recent
        return {
            group: [request[:5] for request in recent.requests]
            for group, recent in by_group.items()
        }


def stream(seed: int, events: int = 3_000) -> list[Event]:
    """Requests, late notices of wins, and wins taken back. Now and then nobody comes for long."""
    generator = np.random.default_rng(seed)
    now, result = 1_000_000.0, list[Event]()
    notices: list[tuple[float, str, int, float, int]] = []  # due, what, group, time, slot
    for _ in range(events):
        now += float(generator.exponential(20.0))
        if generator.random() < 0.004:
            now += float(generator.choice([1_000.0, 3_000.0, 6_000.0]))
        for notice in sorted(notice for notice in notices if notice[0] <= now):
            notices.remove(notice)
            result.append((notice[1], notice[2], notice[3], (notice[4],)))
        group = int(generator.choice(len(SIZES), p=[0.5, 0.2, 0.1, 0.1, 0.1]))
        asked = np.flatnonzero(generator.random(len(CAPS)) < 0.05)
        result.append(("request", group, now, asked.tolist()))
        if generator.random() < 0.1:
            slot = int(generator.integers(len(CAPS)))
            due = now + float(generator.exponential(30.0))
            notices.append((due, "won", group, now, slot))
            if generator.random() < 0.2:
                notices.append((due + 60.0, "revert", group, now, slot))
    return result


def test_shares_asked_for_late_are_those_asked_for_at_once() -> None:
    """States, draws and sessions to the last digit; shares too, by tables of the same age."""
    late, at_once = Campaigns(), Campaigns()
    compared = 0
    for what, group, now, slots in stream(6):
        if what != "request":
            for each in (late, at_once):
                campaign = each.all[slots[0]]
                (campaign.record if what == "won" else campaign.revert)(group, now)
            continue
        for slot in slots:
            for each in (late, at_once):
                each.all[slot].filter._next_refresh_us = -inf
                each.all[slot].kind_probability(now)
        shares, all_shares = (each.recent.shares(group, now) for each in (late, at_once))
        known = dict(all_shares or {})
        for slot in slots:
            share = 1.0 if shares is None else shares.of(slot)
            assert share == pytest.approx(known.get(slot, 1.0), rel=1e-12)
            compared += share < 1.0
    assert compared > 100
    for slot in range(len(CAPS)):
        assert late.held(slot) == at_once.held(slot)
        assert late.held(slot)
        assert late.all[slot].memory() == at_once.all[slot].memory()
    assert late.board.counts.tolist() == at_once.board.counts.tolist()


@pytest.mark.parametrize("cap", [1, 3])
def test_followed_requests_leave_what_valued_ones_do(cap: int) -> None:
    """Against the filter itself: requests one by one, or as lists of times."""
    audience = kr.Audience.disjoint(SIZES)
    valued, followed = (VisitorFilter(audience, MODEL, [cap]) for _ in range(2))
    generator, pending, now = np.random.default_rng(7), list[int](), 1_000_000.0
    for turn in range(1_500):
        now += float(generator.exponential(40.0))
        valued.request(0, now)
        pending.append(as_micros(now))
        if turn % 29 == 0:
            followed.follow(0, pending)
            pending = []
            for each in (valued, followed):
                each.won(0, now)
        assert valued.holds(0)
    followed.follow(0, pending)
    assert followed.draws(0) == valued.draws(0)
    assert followed.reach == pytest.approx(valued.reach, rel=1e-3)
    last = [each._recent[0].requests[-1] for each in (valued, followed)]
    assert last[0][:5] == last[1][:5]
    assert followed.request(0, now + 5.0) == pytest.approx(valued.request(0, now + 5.0), rel=1e-3)


def test_a_request_before_the_last_one_takes_its_place() -> None:
    """Another bidder's win may be ahead of this one's clock."""
    audience = kr.Audience.disjoint(SIZES)
    valued, followed = (VisitorFilter(audience, MODEL, [1]) for _ in range(2))
    for each in (valued, followed):
        each.won(0, 1_000.0)
    for now in (990.0, 1_010.0):
        valued.request(0, now)
    followed.follow(0, [990 * MICROS, 1_010 * MICROS])
    assert followed.request(0, 1_020.0) == valued.request(0, 1_020.0)


def test_beside_a_gateway_every_request_is_taken_in_at_once() -> None:
    """What passes the gateway's cap may be worth more than a request of a fresh session."""
    campaigns = Campaigns(memory_seconds=5_000.0)
    for now in (100.0, 200.0, 300.0):
        campaigns.all[0].record(0, now)
    before = campaigns.all[0].passing(0)
    shares = campaigns.recent.shares(0, 310.0)
    assert shares is not None
    assert shares.drops_repeats
    assert campaigns.all[0].passing(0) < before  # nobody has asked for a share
    assert list(shares) == [0]
    assert shares.of(1) == 1.0


def test_requests_wait_neither_long_nor_in_large_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    campaigns, taken = Campaigns(), list[int]()
    campaigns.all[0].record(0, 100.0)
    follow = campaigns.all[0].filter.follow

    def counted(group: int, times_us: Sequence[int]) -> None:
        taken.append(len(times_us))
        follow(group, times_us)

    monkeypatch.setattr(campaigns.all[0].filter, "follow", counted)
    asked = recent_wins._DEFERRED
    for turn in range(2 * asked + 2):  # the first one after a win is taken in at once
        campaigns.recent.shares(0, 101.0 + turn)
    assert taken == [asked - 1, asked - 1]
    campaigns.recent.shares(0, 200.0 + DEFERRED_SECONDS)
    assert taken == [asked - 1, asked - 1, 1]


def test_a_slot_that_changed_hands_has_no_recent_wins() -> None:
    campaigns = Campaigns()
    campaigns.all[0].record(0, 100.0)
    shares = campaigns.recent.shares(0, 110.0)
    assert shares is not None
    assert 0 in shares
    assert len(shares) == 1
    campaigns.recent.forget(0)
    assert campaigns.recent.shares(0, 120.0) is None
    assert len(campaigns.recent) == 0


@pytest.mark.parametrize("part", [0.0, 0.25, 0.5, 0.75])
def test_a_bid_is_known_by_the_time_of_its_request(part: float) -> None:
    """Else its win would be a request of its own, beside the one it is of."""
    now = 1_790_000_000.0 + (123_456.0 + part) / MICROS
    ledger = Ledger(1)
    ledger.accounts[1] = Account(1_000_000, None, now - 60.0)
    ledger.accounts[1].granted = 1_000_000
    claim = ledger.reserve(1, 1, 0, 1_000, now, 60)
    campaigns = Campaigns()
    campaigns.all[0].record(0, now - 30.0)
    campaigns.recent.shares(0, now)
    campaigns.all[0].record(0, claim.issued_micros / MICROS)
    assert len(campaigns.held(0)[0]) == 2
