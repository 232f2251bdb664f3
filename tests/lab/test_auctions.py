"""The auction loop: the truth is counted, and the bidder sees only what crosses."""

from collections.abc import Sequence

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.bidding.auction_markets import AuctionMarkets
from kreach.adsystem.bidding.bidder import Bidder
from kreach.errors import KreachError
from kreach.lab.auctions import Stream, paper_stream, run_auctions


class Scripted(Bidder):
    """Bids what it is told to, and keeps everything that it was shown."""

    def __init__(self, audience: kr.Audience, cap: int, bids: Sequence[float]) -> None:
        markets = AuctionMarkets(kr.LogNormalMarket(0.0, 1.0), learn=False)
        super().__init__(kr.CapValuation(audience, cap), kr.Purse(1e6, 0.0, 1e6), markets)
        self._bids = list(bids)
        self.seen: list[tuple[object, ...]] = []

    @property
    def multiplier(self) -> float:
        return 1.0

    def value(self, group: int, now: float, auction: str | None = None) -> float:
        self.seen.append(("request", group, now))
        return self._bids.pop(0)

    def learn(self, bid: float, price: float, *, won: bool, auction: str | None = None) -> None:
        self.seen.append(("won", bid, price) if won else ("lost", bid))


def stream() -> Stream:
    """Two groups of two; persons 0 and 1 are group 0."""
    return Stream(
        np.array([0, 0, 1, 3, 3]),
        np.array([0, 0, 0, 1, 1]),
        np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
        np.array([1.0, 1.0, 1.0, 1.0, 2.0]),
        4,
    )


def test_the_truth_is_counted_by_person() -> None:
    """Wins: 0, 0, 3 (a tie wins), 3; lost: 1."""
    audience = kr.Audience.disjoint([2, 2])
    for cap, reach in ((1, 2), (2, 4)):
        bidder = Scripted(audience, cap, [1.5, 2.0, 0.9, 1.0, 2.5])
        outcome = run_auctions(bidder, stream(), cap)
        assert (outcome.reach, outcome.impressions, outcome.spend) == (reach, 4, 5.0)
        assert outcome.expected_reach == pytest.approx(kr.measure(audience, [2, 2], cap).reach)


@pytest.mark.parametrize(("memory", "won"), [(float("inf"), 3), (1.5, 3), (1.0, 5), (0.5, 5)])
def test_a_gateway_that_forgets_drops_recent_repeats(memory: float, won: int) -> None:
    """Persons 0 and 3 come again a second later: shown within (now − memory, now] they are not."""
    bidder = Scripted(kr.Audience.disjoint([2, 2]), 1, [3.0] * 5)
    outcome = run_auctions(bidder, stream(), 1, gateway_cap=1, gateway_memory_seconds=memory)
    assert outcome.impressions == won
    assert outcome.reach == 3
    dropped = [act for act in bidder.seen if act[0] == "lost"]
    assert len(dropped) == 5 - won  # to the bidder a drop is a lost auction


def test_the_bidder_sees_groups_moments_and_outcomes_only() -> None:
    bidder = Scripted(kr.Audience.disjoint([2, 2]), 1, [1.5, 0.0, 0.9, 1.0, 1.0])
    run_auctions(bidder, stream(), 1)
    assert bidder.seen == [
        ("request", 0, 1.0),
        ("won", 1.5, 1.0),
        ("request", 0, 2.0),  # no bid, no outcome
        ("request", 0, 3.0),
        ("lost", 0.9),
        ("request", 1, 4.0),
        ("won", 1.0, 1.0),
        ("request", 1, 5.0),
        ("lost", 1.0),
    ]


def test_a_first_price_is_the_bid() -> None:
    bidder = Scripted(kr.Audience.disjoint([2, 2]), 1, [1.5, 0.0, 0.9, 1.0, 2.5])
    outcome = run_auctions(bidder, stream(), 1, auction="first_price")
    assert outcome.spend == 1.5 + 1.0 + 2.5


def test_a_price_of_0_needs_a_bid() -> None:
    nobody, nothing = np.zeros(3, dtype=np.int64), np.zeros(3)
    free = Stream(nobody, nobody, nothing, nothing, 1)
    bidder = Scripted(kr.Audience.disjoint([1]), 1, [0.0, 0.1, 0.0])
    assert run_auctions(bidder, free, 1).impressions == 1


@pytest.mark.parametrize("group_size", [1, 6, 120])
def test_the_setting_of_figure_2(group_size: int) -> None:
    """z-tolerance 4.5: people visit evenly, ln(price) has mean 0 and variance 1/2."""
    made = paper_stream(group_size, np.random.default_rng(21), requests=20_000)
    assert made.people == 120
    assert made.at.tolist() == list(range(20_000))
    assert (made.group == made.person // group_size).all()
    visits = np.bincount(made.person, minlength=120)
    expected = 20_000 / 120
    assert ((visits - expected) ** 2 / expected).sum() < 119 + 4.5 * np.sqrt(2 * 119)
    logs = np.log(made.price)
    assert abs(logs.mean()) < 4.5 * np.sqrt(0.5 / 20_000)
    assert logs.var() == pytest.approx(0.5, abs=4.5 * 0.5 * np.sqrt(2 / 20_000))


def test_the_seed_alone_decides_a_stream() -> None:
    first, again, other = (
        paper_stream(6, np.random.default_rng(seed), requests=50) for seed in (1, 1, 2)
    )
    assert first.price.tolist() == again.price.tolist() != other.price.tolist()
    assert first.person.tolist() == again.person.tolist()


def test_the_same_people_and_prices_whatever_the_groups() -> None:
    """Bidders at different group sizes can be compared on one stream."""
    alone, together = (paper_stream(k, np.random.default_rng(3)) for k in (1, 20))
    assert alone.person.tolist() == together.person.tolist()
    assert alone.price.tolist() == together.price.tolist()


@pytest.mark.parametrize("group_size", [7, 121])
def test_groups_that_do_not_divide_the_people_are_refused(group_size: int) -> None:
    with pytest.raises(
        KreachError, match=rf"^group_size must divide the 120 people, got {group_size}"
    ):
        paper_stream(group_size, np.random.default_rng(1))


def test_measured_and_true_reach_agree_on_average() -> None:
    """The bidder's expected reach beside the truth, 30 streams, z-tolerance 4."""
    audience = kr.Audience.disjoint([6] * 20)
    gaps = []
    for seed in range(30):
        made = paper_stream(6, np.random.default_rng([22, seed]), requests=400)
        market = kr.LogNormalMarket(0.0, 0.7)
        bidder = kr.PaperBidder(kr.CapValuation(audience, 1), kr.Purse(60, 0, 400.0), market, 400)
        outcome = run_auctions(bidder, made, 1)
        gaps.append(outcome.reach - outcome.expected_reach)
    assert abs(np.mean(gaps)) < 4.0 * np.std(gaps) / np.sqrt(len(gaps))


def test_stacked_caps_have_no_single_expected_reach() -> None:
    audience = kr.Audience.disjoint([2, 2])
    valuation = kr.StackedValuation(audience, [kr.CapRule(1, 10.0), kr.CapRule(2)])
    bidder = kr.PlanningBidder(
        audience, 2, kr.Purse(9, 0, 9.0), kr.LogNormalMarket(0, 1), valuation=valuation, ahead=False
    )
    assert run_auctions(bidder, stream(), 2).expected_reach == 0.0
