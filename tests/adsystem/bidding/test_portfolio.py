"""Many campaigns in one bidder: the best bid goes out, and nobody touches another's counts."""

import numpy as np
import pytest

import kreach as kr
from kreach.adsystem.bidding.portfolio import Offer

MARKET = kr.LogNormalMarket(0.0, 1.0)


def campaign(
    multiplier: float, budget: float = 100.0, groups: int = 3, cap: int = 1, size: int = 2
) -> kr.PlanningBidder:
    """A bidder at a fixed multiplier: it never has enough requests to plan."""
    audience = kr.Audience.disjoint([size] * groups)
    purse = kr.Purse(budget, 0.0, 1_000.0)
    return kr.PlanningBidder(
        audience, cap, purse, MARKET, first_multiplier=multiplier, first_plan=10**9
    )


def test_the_best_bid_goes_out() -> None:
    portfolio = kr.Portfolio()
    portfolio.add("cheap", campaign(4.0))
    portfolio.add("dear", campaign(2.0))
    portfolio.add("cheaper", campaign(8.0))
    assert portfolio.offer(0, 1.0) == Offer("dear", 0.5)


def test_who_is_beaten_keeps_its_money() -> None:
    """Only the bid that goes out is held back, whichever place it has in the portfolio."""
    portfolio = kr.Portfolio()
    bidders = [campaign(multiplier) for multiplier in (4.0, 2.0, 8.0, 3.0)]
    for name, bidder in zip("abcd", bidders, strict=True):
        portfolio.add(name, bidder)
    assert portfolio.offer(0, 1.0) == Offer("b", 0.5)
    assert [bidder.purse.available(1.0) for bidder in bidders] == [100.0, 99.5, 100.0, 100.0]


def test_of_equal_bids_the_earlier_campaign_wins() -> None:
    portfolio = kr.Portfolio()
    portfolio.add("b", campaign(2.0))
    portfolio.add("a", campaign(2.0))
    assert portfolio.offer(0, 1.0) == Offer("b", 0.5)


def test_counts_and_purses_are_apart() -> None:
    portfolio = kr.Portfolio()
    first, second = campaign(2.0), campaign(3.0)
    portfolio.add("first", first)
    portfolio.add("second", second)
    offer = portfolio.offer(1, 0.0)
    assert offer == Offer("first", 0.5)
    portfolio.won(offer, 1, 0.4, 0.0)
    assert first.purse.spent == pytest.approx(0.4)
    assert second.purse.spent == 0.0
    assert first.valuation.counts().tolist() == [0, 1, 0]
    assert second.valuation.counts().tolist() == [0, 0, 0]
    # the first now values group 1 at a half, so the second, who has not shown there, outbids it
    assert portfolio.offer(1, 1.0) == Offer("second", 1.0 / 3.0)
    assert portfolio.offer(0, 1.0) == Offer("first", 0.5)


def test_a_campaign_alone_and_in_company_does_the_same() -> None:
    """A campaign whose rivals cannot bid wins, spends and counts as if it were alone."""
    generator = np.random.default_rng(61)
    groups, prices = generator.integers(3, size=300), generator.lognormal(-1.5, 0.5, size=300)

    def planning() -> kr.PlanningBidder:
        audience = kr.Audience.disjoint([20] * 3)
        return kr.PlanningBidder(audience, 1, kr.Purse(8.0, 0.0, 300.0), MARKET)

    alone, together = planning(), planning()
    portfolio = kr.Portfolio()
    portfolio.add(
        "not yet",
        kr.PlanningBidder(kr.Audience.disjoint([20] * 3), 1, kr.Purse(8.0, 1e6, 2e6), MARKET),
    )
    portfolio.add("ours", together)
    portfolio.add("elsewhere", campaign(0.01, groups=9), groups=[7, 8])
    for now, (group, price) in enumerate(zip(groups.tolist(), prices.tolist(), strict=True)):
        bid = alone.bid(group, float(now))
        offer = portfolio.offer(group, float(now))
        assert bid == (0.0 if offer is None else offer.bid)
        if offer is None:
            continue
        assert offer.campaign == "ours"
        if bid >= price:
            alone.won(group, bid, price, float(now))
            portfolio.won(offer, group, price, float(now))
        else:
            alone.lost(group, bid)
            portfolio.lost(offer, group)
    assert together.purse.spent == alone.purse.spent > 4.0
    assert together.valuation.counts().tolist() == alone.valuation.counts().tolist()


def test_only_named_groups_are_eligible() -> None:
    portfolio = kr.Portfolio()
    portfolio.add("north", campaign(1.0), groups=[0, 1])
    portfolio.add("south", campaign(2.0), groups=[2])
    assert portfolio.offer(0, 0.0) == Offer("north", 1.0)
    assert portfolio.offer(2, 0.0) == Offer("south", 0.5)
    nowhere = kr.Portfolio()
    nowhere.add("none", campaign(1.0), groups=[])
    assert nowhere.offer(0, 0.0) is None


def test_campaigns_may_have_audiences_of_their_own() -> None:
    """Group 5 exists for one of them only, and the other is not asked about it."""
    portfolio = kr.Portfolio()
    portfolio.add("small", campaign(0.1, groups=2), groups=[0, 1])
    portfolio.add("large", campaign(2.0, groups=6))
    assert portfolio.offer(5, 0.0) == Offer("large", 0.5)


def test_nobody_may_bid() -> None:
    assert kr.Portfolio().offer(0, 0.0) is None
    portfolio = kr.Portfolio()
    portfolio.add("one", campaign(2.0))
    assert portfolio.offer(0, -1.0) is None  # before the flight
    assert portfolio.offer(0, 1.0, floor=0.6) is None
    assert portfolio.offer(0, 1.0, floor=0.5) == Offer("one", 0.5)


def test_who_has_spent_its_budget_leaves_the_field() -> None:
    portfolio = kr.Portfolio()
    portfolio.add("rich", campaign(4.0, budget=50.0))
    portfolio.add("poor", campaign(1.0, budget=1.5))
    winners = []
    for now in range(4):
        offer = portfolio.offer(now % 3, float(now))
        assert offer is not None
        winners.append(offer.campaign)
        portfolio.won(offer, now % 3, offer.bid, float(now))
    assert winners == ["poor", "poor", "rich", "rich"]


def test_a_loss_teaches_only_who_bid() -> None:
    portfolio = kr.Portfolio()
    bidders = {name: campaign(multiplier) for name, multiplier in (("a", 2.0), ("b", 3.0))}
    for name, bidder in bidders.items():
        portfolio.add(name, bidder)
    offer = portfolio.offer(0, 0.0)
    assert offer == Offer("a", 0.5)
    portfolio.lost(offer, 0)
    learned = [
        bidder.memory()["markets"]["second_price"]["auctions"] for bidder in bidders.values()
    ]
    assert learned == [[1.0], [0.0]]


def test_a_campaign_can_be_taken_out() -> None:
    portfolio = kr.Portfolio()
    bidder = campaign(2.0)
    portfolio.add("one", bidder)
    assert portfolio.remove("one") is bidder
    assert portfolio.offer(0, 0.0) is None
    portfolio.add("one", bidder)
    assert portfolio.offer(0, 0.0) == Offer("one", 0.5)


def test_names_that_make_no_sense_are_refused() -> None:
    portfolio = kr.Portfolio()
    portfolio.add("one", campaign(2.0))
    with pytest.raises(kr.KreachError, match=r"^campaign 'one' is in the portfolio already"):
        portfolio.add("one", campaign(2.0))
    unknown = r"^no campaign 'two' in the portfolio"
    with pytest.raises(kr.KreachError, match=unknown):
        portfolio.remove("two")
    with pytest.raises(kr.KreachError, match=unknown):
        portfolio.won(Offer("two", 1.0), 0, 0.5, 0.0)
    with pytest.raises(kr.KreachError, match=unknown):
        portfolio.lost(Offer("two", 1.0), 0)


@pytest.mark.parametrize("group", [-1, 3])
def test_a_group_that_the_audience_does_not_hold_is_refused(group: int) -> None:
    portfolio = kr.Portfolio()
    portfolio.add("one", campaign(2.0))
    with pytest.raises(kr.KreachError, match=rf"^group must be .*got {group}"):
        portfolio.offer(group, 0.0)
