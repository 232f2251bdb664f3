"""Who bids: flights, states, budgets, targeting, caps, auctions and kinds of catalogues."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from kreach.adsystem.bidserver.exchanges import FIRST_PRICE, Exchanges
from kreach.adsystem.campaigns.campaign import Campaign, Cap, Creative
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.boundary.files import write_groups
from kreach.boundary.openrtb import decode_request
from tests.adsystem.bidserver.sample_bidders import (
    CREATIVE,
    NOW,
    Exchange,
    ManualClock,
    as_response,
    bidding,
    sample_campaign,
    sample_catalogue,
    sample_request,
    user_data,
)


def change(exchange: Exchange, name: str, **changes: Any) -> None:
    """Change a campaign as reporting would, and wait until the bidder knows."""
    store = CampaignStore(exchange.state.shared.store)
    revision = store.change(name, changes).revision
    store.close()
    exchange.wait(
        lambda: max(kept.revision for kept in exchange.state.stored_campaigns.values()) >= revision
    )
    exchange.rest()


def bidders(exchange: Exchange, **more: Any) -> list[str]:
    """Whoever bids for a request, by place."""
    reply = exchange.bid(sample_request(**more))
    if reply.status == 204:
        return [reply.reason]
    return [bid.cid for bid in as_response(reply).seatbid[0].bid]


def test_campaigns_bid_within_their_flight(tmp_path: Path) -> None:
    hands = ManualClock()
    flight: Any = {"start": NOW + timedelta(minutes=1), "end": NOW + timedelta(days=1)}
    campaign = sample_campaign(**flight)
    with bidding(tmp_path, [campaign], clock=hands, asleep=True) as exchange:
        for seconds, who in [(0, "no campaign"), (59, "no campaign"), (61, "spring")]:
            hands.now = NOW.timestamp() + seconds
            exchange.rest()
            assert bidders(exchange) == [who]
        hands.now = flight["end"].timestamp()  # to the second, before any tick
        assert bidders(exchange) == ["no campaign"]
        exchange.rest()
        assert bidders(exchange) == ["no campaign"]


def test_paused_campaigns_wait_and_ended_ones_are_over(tmp_path: Path) -> None:
    campaigns = [sample_campaign("a"), sample_campaign("b", state="paused")]
    with bidding(tmp_path, campaigns, asleep=True) as exchange:
        exchange.rest()
        assert bidders(exchange) == ["a"]
        change(exchange, "b", state="running")
        two_places: dict[str, Any] = {"imp": [{"id": "1", "banner": {}}, {"id": "2", "banner": {}}]}
        assert sorted(bidders(exchange, **two_places)) == ["a", "b"]
        change(exchange, "a", state="paused")
        assert bidders(exchange, **two_places) == ["b"]
        change(exchange, "b", state="ended")
        assert bidders(exchange) == ["no campaign"]
        change(exchange, "a", state="running")
        assert bidders(exchange) == ["a"]


def test_a_campaign_that_changed_keeps_its_counts(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign()]) as exchange:
        for _ in range(5):
            exchange.win()
        before = exchange.price()
        assert before < 0.85
        change(exchange, "spring", max_cpm=0.5)
        assert exchange.price("g1") == 0.5
        change(exchange, "spring", max_cpm=20.0)
        assert exchange.price() == before


def test_each_campaign_has_one_of_many_places(tmp_path: Path) -> None:
    campaigns = [sample_campaign(f"c{at}", market_mu=0.1 * at) for at in range(20)]
    with bidding(tmp_path, campaigns) as exchange:
        places = [{"id": str(at), "banner": {}} for at in range(25)]
        bids = as_response(exchange.bid(sample_request(imp=places))).seatbid[0].bid
        prices = {bid.cid: bid.price for bid in bids}  # in any order, likely the highest first
        assert len(bids) == len(prices) == 20
        for at in range(20):
            assert prices[f"c{at}"] == pytest.approx(np.exp(0.1 * at), abs=0.001)


def test_limits_of_bids_hold(tmp_path: Path) -> None:
    campaigns = [sample_campaign("low", max_cpm=0.2), sample_campaign("high", min_cpm=5.0)]
    with bidding(tmp_path, campaigns) as exchange:
        assert bidders(exchange) == ["low"]
        assert exchange.price() == 0.2
        floor = sample_request(imp=[{"id": "1", "banner": {}, "bidfloor": 0.201}])
        assert exchange.bid(floor).reason == "below floor"


def test_never_more_is_out_than_the_budget(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign(budget=0.0105)]) as exchange:
        bids = []
        reasons = set()
        for _ in range(30):
            reply = exchange.bid(sample_request())
            if reply.status == 200:
                bids.append(as_response(reply).seatbid[0].bid[0])
            else:
                reasons.add(reply.reason)
        assert sum(round(bid.price * 1_000) for bid in bids) <= 10_500
        assert len(bids) >= 10
        assert reasons <= {"no budget", "no campaign"}
        for bid in bids:
            assert exchange.call(bid.burl, bid.price).status == 200
        exchange.rest()
        assert exchange.metric('kreach_bidder_budget_left_micros{campaign="spring"}') >= 0
        assert bidders(exchange)[0] in {"no budget", "no campaign"}
        change(exchange, "spring", budget=1.0)
        exchange.rest()
        assert bidders(exchange) == ["spring"]


def test_money_of_lost_bids_comes_back(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign(budget=0.001)]) as exchange:
        for _ in range(5):
            bid = as_response(exchange.bid(sample_request())).seatbid[0].bid[0]
            assert bidders(exchange)[0] in {"no budget", "no campaign"}
            assert exchange.call(bid.lurl).status == 200
            exchange.rest()


def test_days_have_their_own_budget(tmp_path: Path) -> None:
    hands = ManualClock()
    campaign = sample_campaign(budget=1.0, daily_budget=0.002)
    with bidding(tmp_path, [campaign], clock=hands) as exchange:
        for _ in range(2):
            exchange.win()
            exchange.win()
            exchange.win()
            while (reply := exchange.bid(sample_request())).status == 200:
                bid = as_response(reply).seatbid[0].bid[0]
                exchange.call(bid.burl, bid.price)
            assert reply.reason in {"no budget", "no campaign"}
            hands.now += 86_400
            exchange.rest()
        spent = 1_000_000 - exchange.metric('kreach_bidder_budget_left_micros{campaign="spring"}')
        assert 3_000 < spent <= 4_000


def test_head_counts_of_an_audience_lower_bids(tmp_path: Path) -> None:
    catalogue = sample_catalogue(4)
    targeted = np.array([20, 10, 1, 0])
    write_groups(catalogue, tmp_path / "golfers.parquet", targeted)
    audiences = {"golfers": tmp_path / "golfers.parquet"}
    campaign = sample_campaign(audience="golfers")
    with bidding(tmp_path, [campaign], catalogues=[catalogue], audiences=audiences) as exchange:
        prices = [exchange.price(f"g{group}") for group in range(3)]
        assert prices == pytest.approx([1.0, 0.5, 0.05], abs=0.0011)
        assert bidders(exchange, user={"data": [user_data("g3")]}) == ["no campaign"]


def test_a_campaign_whose_audience_is_not_known_is_not_played(tmp_path: Path) -> None:
    lines: list[str] = []
    campaigns = [sample_campaign("a", audience="nobody-knows"), sample_campaign("b")]
    with bidding(tmp_path, campaigns, lines=lines) as exchange:
        assert bidders(exchange, imp=[{"id": "1", "banner": {}}, {"id": "2", "banner": {}}]) == [
            "b"
        ]
    assert sum('"campaign cannot run on catalogue"' in line for line in lines) == 1


def test_the_value_falls_by_the_kernel(tmp_path: Path) -> None:
    """p of a group of 20 after n impressions: (19/20)^n at cap 1, and more at higher caps."""
    campaigns = [sample_campaign("one"), sample_campaign("two", caps=(Cap(limit=2),))]
    with bidding(tmp_path, campaigns) as exchange:
        for campaign in ("one", "two"):
            others = {"one": "two", "two": "one"}[campaign]
            change(exchange, others, state="paused")
            change(exchange, campaign, state="running") if campaign == "two" else None
            for n in range(8):
                p = 0.95**n
                if campaign == "two":
                    p += n * 0.05 * 0.95 ** (n - 1) if n else 0.0
                assert exchange.price("g1") == pytest.approx(p, abs=0.0011)
                exchange.win("g1")


@pytest.mark.parametrize("caps", [(Cap(limit=1),), (Cap(limit=1, span_seconds=3_600.0),)])
def test_the_request_says_the_auction_type(tmp_path: Path, caps: tuple[Cap, ...]) -> None:
    """One campaign bids in both: its value, or in a first-price auction less."""
    with bidding(tmp_path, [sample_campaign(caps=caps)]) as exchange:
        bidder = exchange.state.catalogue_bidders["v1"].runtimes[1].bidder
        value = 1.0 / bidder.multiplier
        shaded = float(bidder.markets.of("first_price").optimal_bid(value))
        for told, wanted in (({}, value), ({"at": 2}, value), ({"at": 1}, shaded)):
            assert exchange.price("g0", **told) == pytest.approx(1_000 * wanted, abs=0.0011)
        assert shaded < 0.9 * value


def test_each_auction_type_has_a_market_of_its_own(tmp_path: Path) -> None:
    """First-price bids that all lose raise what is bid there, and nowhere else."""
    with bidding(tmp_path, [sample_campaign()]) as exchange:
        runtime = exchange.state.catalogue_bidders["v1"].runtimes[1]
        before = exchange.price("g0"), exchange.price("g0", at=1)
        for _ in range(100):
            exchange.price("g0", at=1)
        learned = runtime.bidder.memory()["markets"]
        assert learned["first_price"]["auctions"] == [101.0]
        assert learned["second_price"]["auctions"] == [1.0]
        runtime.bidder.markets.refresh()
        runtime.forget_shading()
        assert exchange.price("g0") == before[0]
        assert exchange.price("g0", at=1) > 1.05 * before[1]


def schain(*systems: str) -> dict[str, Any]:
    """The source of a request that came through these systems."""
    return {"schain": {"complete": 1, "nodes": [{"asi": one, "sid": "1"} for one in systems]}}


def test_first_price_bids_are_shaded_by_exchange(tmp_path: Path) -> None:
    """300 losses at one exchange, 300 wins at another: bids rise here and fall there."""
    dear, cheap = schain("ssp.example", "Dear.example"), {"ext": schain("cheap.example")}
    with bidding(tmp_path, [sample_campaign()]) as exchange:
        state = exchange.state
        before = exchange.price("g0", at=1)
        assert exchange.price("g0", at=1, source=dear) == before
        for at in range(300):
            exchange.price("g0", at=1, source=dear)
            exchange.win(f"g{at % 5 + 1}", at=1, source=cheap)
        assert state.exchanges.names == ("dear.example", "cheap.example")
        state.exchanges.refresh(state.clock() + 60.0)

        def bid(**more: Any) -> float:
            """Of a value of 1, at the exchange of a request."""
            bidder = state.catalogue_bidders["v1"]
            request = decode_request(json.dumps(sample_request("g0", at=1, **more)).encode())
            pending = bidder.begin_request(0, state.clock(), request, request.exchange)
            return bidder._shaded(bidder.runtimes[1], 0.001, pending, pending.venue)

        assert bid(source=dear) > 1.05 * bid() > 1.05 * 1.2 * bid(source=cheap)
    with bidding(tmp_path) as exchange:
        assert exchange.state.exchanges.names == ("dear.example", "cheap.example")


def test_the_address_of_the_bidder_may_name_the_exchange(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign()]) as exchange:
        for name, kind in (("one", 1), ("two", 2), ("one", 1)):
            request = json.dumps(sample_request(at=kind)).encode()
            assert exchange.ask("POST", f"/openrtb2/bid/{name}", request).status == 200
        assert exchange.state.exchanges.names == ("one",)  # a second price is not shaded


def test_exchanges_are_bounded_in_number_and_in_form() -> None:
    exchanges = Exchanges(0.0, 1.0)
    odd = ["", " ", "a b", "x" * 65, "ü.example", "u-123@mail.example"]
    assert {exchanges.venue(name) for name in odd} == {FIRST_PRICE}
    venues = [exchanges.venue(f"ssp{at}.example") for at in range(40)]
    assert len(set(venues[:16])) == 16
    assert FIRST_PRICE not in venues[:16]
    assert set(venues[16:]) == {FIRST_PRICE}
    assert exchanges.venue("SSP3.example") == venues[3]
    assert len(exchanges.memory()) == 16


def test_papers_bidder_bids_its_base_bid_first_and_raises_it(tmp_path: Path) -> None:
    """λ starts at ten over the typical price, and falls with every request that is not paid for."""
    campaign = sample_campaign(bidder="paper", expected_requests=1_000, budget=100.0)
    with bidding(tmp_path, [campaign]) as exchange:
        prices = [exchange.price("g1") for _ in range(50)]
        assert prices[0] == pytest.approx(0.1, abs=0.002)
        assert prices == sorted(prices)
        assert prices[-1] == pytest.approx(1.0 / (10.0 - 0.1 * 50), rel=0.05)


ROLLING = (Cap(limit=1, span_seconds=3_600.0),)
STACKED = (Cap(limit=1, span_seconds=3_600.0), Cap(limit=3, span_seconds=86_400.0))


@pytest.mark.parametrize(("caps", "recovers"), [(ROLLING, True), (STACKED, False)])
def test_rolling_and_stacked_caps(tmp_path: Path, caps: tuple[Cap, ...], recovers: bool) -> None:
    hands = ManualClock()
    with bidding(tmp_path, [sample_campaign(caps=caps)], clock=hands) as exchange:
        fresh = exchange.price()
        assert fresh == pytest.approx(1.0, abs=0.001)
        for _ in range(60):
            exchange.win()
        worn = exchange.price()
        assert worn == pytest.approx(0.95**60, abs=0.002)
        hands.now += 3_601
        exchange.rest()
        later = exchange.price()
        assert later > 4 * worn
        assert (later == fresh) is recovers


def test_lost_wins_of_rolling_caps_are_taken_back(tmp_path: Path) -> None:
    with bidding(tmp_path, [sample_campaign(caps=ROLLING)]) as exchange:
        fresh = exchange.price()
        bid = as_response(exchange.bid(sample_request())).seatbid[0].bid[0]
        exchange.call(bid.nurl or "")
        assert exchange.price() < fresh
        assert exchange.call(bid.lurl).status == 200
        assert exchange.price() == fresh


def test_overlapping_groups_share_people(tmp_path: Path) -> None:
    classes = (((0, 1), 20), ((2,), 20))
    catalogue = sample_catalogue(3, classes=classes, class_floor=20)
    campaign = sample_campaign()
    with bidding(tmp_path, [campaign], catalogues=[catalogue]) as exchange:
        fresh = [exchange.price(f"g{group}") for group in range(3)]
        assert fresh == pytest.approx([1.0, 1.0, 1.0], abs=0.001)
        for _ in range(10):
            exchange.win("g0")
        prices = [exchange.price(f"g{group}") for group in range(3)]
        assert prices[0] == prices[1] == pytest.approx(0.95**10, abs=0.002)
        assert prices[2] == fresh[2]


def test_stacked_caps_are_not_played_on_overlapping_groups(tmp_path: Path) -> None:
    lines: list[str] = []
    catalogue = sample_catalogue(3, classes=(((0, 1), 20), ((2,), 20)), class_floor=20)
    campaigns = [sample_campaign("a", caps=STACKED), sample_campaign("b")]
    with bidding(tmp_path, campaigns, catalogues=[catalogue], lines=lines) as exchange:
        assert bidders(exchange, imp=[{"id": "1", "banner": {}}, {"id": "2", "banner": {}}]) == [
            "b"
        ]
    assert sum('"campaign cannot run on catalogue"' in line for line in lines) == 1


def test_profiles_of_visits_lower_repeats(tmp_path: Path) -> None:
    """A group where one member makes nine of ten visits is soon exhausted, yet not at once."""
    shares = (np.array([0.1 / 19] * 19 + [0.9]), np.full(20, 0.05))
    catalogue = sample_catalogue(2, visit_shares=shares)
    with bidding(tmp_path, [sample_campaign()], catalogues=[catalogue]) as exchange:
        assert exchange.price("g0") == pytest.approx(1.0, abs=0.001)
        exchange.win("g0")
        exchange.win("g1")
        left = float((shares[0] * (1.0 - shares[0])).sum())
        assert exchange.price("g0") == pytest.approx(left, abs=0.0011)
        assert exchange.price("g1") == pytest.approx(0.95, abs=0.0011)


def test_dispersed_visits(tmp_path: Path) -> None:
    """A flat Dirichlet law of 20 members: p after n impressions is 20·19/((19 + n)(20 + n))."""
    catalogue = sample_catalogue(2, dispersion=1.0)
    with bidding(tmp_path, [sample_campaign()], catalogues=[catalogue]) as exchange:
        for n in range(6):
            assert exchange.price() == pytest.approx(_flat(20, n), abs=0.0011)
            exchange.win()


def _flat(size: int, n: int) -> float:
    """E[Σ w(1 − w)^n] for shares w of a flat Dirichlet law: each is Beta(1, size − 1)."""
    from scipy.special import beta

    return float(size * beta(2, size - 1 + n) / beta(1, size - 1))


def kinds_of_campaigns() -> list[Campaign]:
    """One of each kind."""
    return [
        sample_campaign("plain"),
        sample_campaign("paper", bidder="paper", expected_requests=1_000),
        sample_campaign("rolling", caps=ROLLING),
        sample_campaign("stacked", caps=STACKED),
        sample_campaign("sized", creative=Creative(markup="<b>ad</b>", width=728, height=90)),
    ]


def test_all_kinds_side_by_side(tmp_path: Path) -> None:
    """Whoever values a request most has its first place, and everybody who may has one."""
    with bidding(tmp_path, kinds_of_campaigns()) as exchange:
        places = [{"id": str(at), "banner": {"w": 300, "h": 250}} for at in range(6)]
        bids = as_response(exchange.bid(sample_request(imp=places))).seatbid[0].bid
        assert {bid.cid for bid in bids} == {"plain", "paper", "rolling", "stacked"}
        prices = [bid.price for bid in bids]
        assert prices == sorted(prices, reverse=True)
        assert set(bidders(exchange, imp=places, at=1)) == {bid.cid for bid in bids}
        wide = [{"id": str(at), "banner": {"w": 728, "h": 90}} for at in range(6)]
        assert bidders(exchange, imp=wide) == ["sized"]


def prices_of_all(exchange: Exchange) -> dict[str, float]:
    """What every campaign bids in two groups, in second-price auctions."""
    places = [{"id": str(at), "banner": {}} for at in range(8)]
    prices: dict[str, float] = {}
    for group in ("g1", "g2"):
        bids = as_response(exchange.bid(sample_request(group, imp=places))).seatbid[0].bid
        planned = (bid for bid in bids if bid.cid != "paper")  # whose bids move by request
        prices |= {f"{bid.cid} {group}": bid.price for bid in planned}
    return prices


def test_what_was_billed_survives_a_restart(tmp_path: Path) -> None:
    with bidding(tmp_path, kinds_of_campaigns()) as exchange:
        for _ in range(12):
            exchange.win("g1")
            exchange.win("g1", at=1)
        before = prices_of_all(exchange)
        left = exchange.metric('kreach_bidder_budget_left_micros{campaign="plain"}')
    with bidding(tmp_path) as exchange:
        assert exchange.metric('kreach_bidder_budget_left_micros{campaign="plain"}') == left
        assert prices_of_all(exchange) == pytest.approx(before, abs=0.0021)


def test_a_limit_cuts_the_shaded_bid(tmp_path: Path) -> None:
    """As the library: the best bid for the value, and at most the limit."""
    campaign = sample_campaign(max_cpm=0.4)
    with bidding(tmp_path, [campaign]) as exchange:
        bidder = exchange.state.catalogue_bidders["v1"].runtimes[1].bidder
        market = bidder.markets.of("first_price")
        wanted = 1_000 * float(market.optimal_bid(1.0 / bidder.multiplier))
        assert wanted > 0.4
        assert exchange.price(at=1) == 0.4


def test_who_may_not_bid_much_does_not_stand_before_who_does(tmp_path: Path) -> None:
    campaigns = [
        sample_campaign("plain"),
        sample_campaign("rolling", caps=ROLLING, market_mu=1.0, max_cpm=0.1),
    ]
    with bidding(tmp_path, campaigns) as exchange:
        assert bidders(exchange) == ["plain"]


def test_blocked_domains_are_blocked_however_they_are_written(tmp_path: Path) -> None:
    campaign = sample_campaign(creative=replace(CREATIVE, domains=("Shop.example",)))
    with bidding(tmp_path, [campaign]) as exchange:
        assert bidders(exchange, badv=["shop.example"]) == ["no campaign"]


@pytest.mark.parametrize("lacking", [{}, {"markup": "<b>ad</b>"}, {"width": 300, "height": 250}])
def test_who_has_nothing_to_show_does_not_bid(tmp_path: Path, lacking: dict[str, Any]) -> None:
    campaign = sample_campaign(creative=Creative(**lacking))
    with bidding(tmp_path, [campaign], asleep=True) as exchange:
        exchange.rest()
        assert bidders(exchange) == ["no campaign"]
        whole = {"markup": "<b>ad</b>", "width": 300, "height": 250}
        change(exchange, "spring", creative=whole)
        assert bidders(exchange) == ["spring"]


@pytest.mark.parametrize("bidder", ["planning", "paper"])
@pytest.mark.parametrize("caps", [(Cap(limit=1),), (Cap(limit=1, span_seconds=3_600.0),)])
def test_a_further_reach_costs_at_most_so_much(
    tmp_path: Path, bidder: str, caps: tuple[Cap, ...]
) -> None:
    """The first request reaches somebody for sure: it is worth the limit, 0.4 per thousand."""
    more: dict[str, Any] = {"bidder": bidder, "expected_requests": 20, "caps": caps}
    campaign = sample_campaign(max_cost_per_reach=0.0004, **more)
    with bidding(tmp_path, [campaign]) as exchange:
        prices = [exchange.price("g1") for _ in range(150)]
        assert max(prices) <= 0.4
        assert prices[-1] == pytest.approx(0.4, abs=0.0011)
        change(exchange, "spring", max_cost_per_reach=0.0002)
        assert exchange.price("g1") <= 0.2
