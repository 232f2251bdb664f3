"""Members of a family in one bidder: what one shows lowers what a request is worth to all."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.bidding.family_members import BoardMember, EquivalentImpressions, StackedMember
from kreach.adsystem.bidding.family_visitors import MemberVisitors, PooledVisitors
from kreach.adsystem.campaigns.campaign import Campaign, Cap
from kreach.adsystem.campaigns.family import Family
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.reports.pacing import last_pace
from kreach.errors import KreachError
from tests.adsystem.bidding.test_board_visitors import MODEL
from tests.adsystem.bidserver.sample_bidders import (
    NOW,
    Exchange,
    ManualClock,
    as_response,
    bidding,
    sample_campaign,
    sample_catalogue,
    sample_request,
)

DAY = 86_400.0
AUDIENCE = kr.Audience.disjoint([20] * 6)
BRAND = Family(id="brand", caps=(Cap(limit=2),))


def member(name: str, cap: int = 1, family: str = "brand", **more: Any) -> Campaign:
    return sample_campaign(name, caps=(Cap(limit=cap),), family=family, **more)


def valuation_of(exchange: Exchange, number: int) -> object:
    bidder = next(iter(exchange.state.catalogue_bidders.values()))
    return bidder.runtimes[number].bidder.valuation


def burdens(exchange: Exchange, group: int = 0) -> list[float]:
    """What has been shown, as each campaign feels it: impressions, or the chance of being full."""
    bidder = next(iter(exchange.state.catalogue_bidders.values()))
    now = exchange.state.clock()
    return [
        1.0 - runtime.bidder.valuation.probability(group, now)
        if runtime.slot is None
        else runtime.bidder.valuation.count(group)
        for runtime in bidder.runtimes.values()
    ]


def won_by(exchange: Exchange, name: str, group: str = "g0") -> None:
    """Let a campaign win a request, whoever else would bid."""
    for _ in range(200):
        bid = as_response(exchange.bid(sample_request(group))).seatbid[0].bid[0]
        if bid.cid == name:
            assert exchange.call(bid.burl, bid.price / 2).status == 200
            return
        assert exchange.call(bid.lurl).status == 200
        exchange.state.catalogue_bidders["v1"].board.forget_rankings()
    raise AssertionError(f"{name} never bids")


KINDS = {
    "board": (None, (1, 1), BRAND, BoardMember),
    "sessions, own cap lower": (MODEL, (1, 1), BRAND, MemberVisitors),
    "sessions, family's cap lower": (MODEL, (3, 2), BRAND, PooledVisitors),
    "rolling": (
        None,
        (1, 1),
        Family(id="brand", caps=(Cap(limit=2, span_seconds=7 * DAY),)),
        StackedMember,
    ),
}


@pytest.mark.parametrize(("model", "caps", "family", "kind"), KINDS.values(), ids=KINDS.keys())
def test_a_win_of_one_lowers_the_value_for_all_and_survives_a_restart(
    tmp_path: Path,
    model: kr.VisitModel | None,
    caps: Sequence[int],
    family: Family,
    kind: type,
) -> None:
    catalogue = sample_catalogue(model=model)
    clock = ManualClock()
    campaigns = [
        member("spring", caps[0]),
        member("winter", caps[1]),
        sample_campaign("other", max_cpm=0.01),
    ]
    with bidding(
        tmp_path, campaigns, families=[family], catalogues=[catalogue], clock=clock
    ) as exchange:
        assert isinstance(valuation_of(exchange, 1), kind)
        assert isinstance(valuation_of(exchange, 2), kind)
        before = burdens(exchange)
        assert before == [0.0] * 3
        for _ in range(6):
            won_by(exchange, "spring")
            clock.now += 1.0 if model is None else 4 * 3_600.0
            now = burdens(exchange)
            assert now[0] > before[0]
            assert now[0] >= now[1] >= before[1]
            assert now[2] == 0.0
            before = now
        assert before[1] > 0.01
        assert burdens(exchange, group=1) == [0.0] * 3
        exchange.rest()
    with bidding(tmp_path, [], catalogues=[catalogue], clock=clock) as exchange:
        assert burdens(exchange) == pytest.approx(before, rel=0.05 if model else 1e-5)
        assert burdens(exchange, group=1) == [0.0] * 3


def test_what_an_ended_member_showed_still_counts(tmp_path: Path) -> None:
    clock = ManualClock()
    campaigns = [member("spring"), member("winter")]
    with bidding(tmp_path, campaigns, families=[BRAND], clock=clock) as exchange:
        for _ in range(5):
            won_by(exchange, "spring")
        after = burdens(exchange)[1]
        assert after > 0.0
        store = CampaignStore(exchange.state.store)
        store.change("spring", {"state": "ended"})
        store.close()
        exchange.rest(0.8)
        assert burdens(exchange)[1] == pytest.approx(after)
    with bidding(tmp_path, [], clock=clock, asleep=True) as exchange:
        exchange.rest()
        assert burdens(exchange)[1] == pytest.approx(after)


def test_a_win_that_is_never_billed_is_taken_back_from_all(tmp_path: Path) -> None:
    campaigns = [member("spring"), member("winter")]
    with bidding(tmp_path, campaigns, families=[BRAND], win_notices=True) as exchange:
        bid = as_response(exchange.bid(sample_request())).seatbid[0].bid[0]
        assert bid.nurl is not None
        assert exchange.call(bid.nurl).status == 200
        assert max(burdens(exchange)) == 1.0
        assert exchange.call(bid.lurl).status == 200
        assert burdens(exchange) == [0.0, 0.0]


def test_a_member_that_comes_later_knows_what_was_shown(tmp_path: Path) -> None:
    with bidding(tmp_path, [member("spring")], families=[BRAND]) as exchange:
        for _ in range(5):
            exchange.win()
        store = CampaignStore(exchange.state.store)
        store.add(member("winter"))
        store.close()
        exchange.wait(lambda: 2 in exchange.state.accounts)
        assert burdens(exchange)[1] == pytest.approx(EquivalentImpressions(AUDIENCE, 1, 2)(0, 0, 5))
        assert burdens(exchange, group=1)[1] == 0.0


def test_a_family_without_caps_changes_no_value(tmp_path: Path) -> None:
    money = Family(id="brand", budget=5.0)
    with bidding(tmp_path, [member("spring"), member("winter")], families=[money]) as exchange:
        won_by(exchange, "spring")
        assert burdens(exchange) == [1.0, 0.0]


def test_plans_share_the_familys_budget_and_say_so(tmp_path: Path) -> None:
    """Three members could spend far more than the family has; one of them is paused."""
    clock = ManualClock()
    end = NOW + timedelta(hours=10)
    budgets = {"spring": 0.3, "winter": 0.1, "paused": 50.0}
    campaigns = [
        member(name, family="money", budget=budget, start=NOW, end=end)
        for name, budget in budgets.items()
    ]
    family = Family(id="money", budget=0.02)
    with bidding(
        tmp_path, campaigns, families=[family], clock=clock, pacing_seconds=0.05
    ) as exchange:
        state = exchange.state
        store = CampaignStore(state.store)
        store.change("paused", {"state": "paused"})
        store.close()
        exchange.rest(0.8)
        purses = [state.catalogue_bidders["v1"].runtimes[n].bidder.purse for n in (1, 2, 3)]
        now = clock()
        assert [purse.plannable(now) for purse in purses] == pytest.approx([0.015, 0.005, 0.0])
        for at in range(60):
            exchange.bid(sample_request(f"g{at % 6}"))
        clock.now += 600.0
        exchange.wait(lambda: state.plan_count >= 2, 60.0)
        exchange.wait(
            lambda: getattr(last_pace(state.store, 1), "under_delivery", None) is not None
        )
        pace = last_pace(state.store, 1)
        assert pace is not None
        assert pace.under_delivery == "budget of the family"
        assert exchange.metric('kreach_bidder_under_delivery{campaign="spring"}') == 1.0
        assert exchange.metric('kreach_bidder_family_budget_left_micros{family="money"}') == 20_000


def test_members_that_are_valued_and_fly_alike_plan_as_one(tmp_path: Path) -> None:
    end = NOW + timedelta(hours=10)
    family = Family(id="brand", caps=(Cap(limit=1),), budget=3.0)
    flight: dict[str, Any] = {"start": NOW, "end": end}
    campaigns = [
        member("spring", 1, budget=1.0, **flight),
        member("winter", 2, budget=3.0, **flight),
        member("autumn", 1, family="other", budget=2.0, **flight),
    ]
    other = Family(id="other", caps=(Cap(limit=2),))
    with bidding(tmp_path, campaigns, families=[family, other]) as exchange:
        bidder = exchange.state.catalogue_bidders["v1"]
        exchange.rest()
        now = exchange.state.clock()

        def planned() -> list[float]:
            return [bidder.runtimes[n].bidder.purse.plannable(now) for n in (1, 2, 3)]

        assert planned() == pytest.approx([3.0, 3.0, 2.0])
        assert [bidder.runtimes[n].share(now) for n in (1, 2)] == pytest.approx([0.75, 2.25])
        store = CampaignStore(exchange.state.store)
        store.change("winter", {"end": (end + timedelta(hours=1)).isoformat()})
        store.close()
        exchange.rest(0.9)
        assert planned() == pytest.approx([0.75, 2.25, 2.0])


def test_the_cap_of_the_family_is_named_where_it_is_what_limits(tmp_path: Path) -> None:
    clock = ManualClock()
    end = NOW + timedelta(hours=10)
    rich: dict[str, Any] = {"budget": 50_000.0, "start": NOW, "end": end}
    campaigns = [
        member("spring", 3, family="brand", **rich),
        member("winter", 3, family="brand", **rich),
    ]
    family = Family(id="brand", caps=(Cap(limit=1),))
    with bidding(
        tmp_path, campaigns, families=[family], clock=clock, pacing_seconds=0.05
    ) as exchange:
        bidder = exchange.state.catalogue_bidders["v1"]
        groups = np.arange(6)
        bidder.add_impressions(1, groups, np.full(6, 30))
        for at in range(60):
            exchange.bid(sample_request(f"g{at % 6}"))
        clock.now += 600.0
        exchange.wait(lambda: exchange.state.plan_count >= 2, 60.0)
        exchange.rest()
        assert bidder.runtimes[2].shortfall == "cap of the family"


def test_overlapping_groups_have_no_family_caps(tmp_path: Path) -> None:
    overlapping = sample_catalogue(
        groups=2, classes=(((0,), 10), ((1,), 10), ((0, 1), 10)), sizes=np.array([20, 20])
    )
    lines: list[str] = []
    with bidding(
        tmp_path,
        [member("spring")],
        families=[BRAND],
        catalogues=[overlapping],
        lines=lines,
    ) as exchange:
        assert not exchange.state.catalogue_bidders["v1"].runtimes
        assert any("family must be without caps on overlapping groups" in line for line in lines)
    with pytest.raises(KreachError, match="disjoint"):
        kr.StackedValuation(kr.Audience.overlapping([2, 2], [((0,), 1)]), [kr.CapRule(1)])
