"""Who buys: the paper's bidder and ours, with what they may know, beside the limits of both."""

from collections.abc import Callable

import numpy as np

from kreach.adsystem.bidding.arrivals import Arrivals
from kreach.adsystem.bidding.bidder import Bidder, BidLimits, PaperBidder, PlanningBidder
from kreach.adsystem.bidding.budget import Purse
from kreach.adsystem.bidding.hindsight import hindsight_limit
from kreach.adsystem.bidding.market import LogNormalMarket
from kreach.adsystem.bidding.valuation import CapValuation, RecencyValuation, Valuation
from kreach.boundary.audience import Audience
from kreach.lab.approaches import Grouped
from kreach.lab.auctions import Outcome, Stream, run_auctions
from kreach.lab.site import Campaign
from kreach.numeric.types import IntArray
from kreach.publisher.recency import fit_recency

__all__ = ["BUYERS", "alone", "buy", "cheapest_everybody", "gateway_capped", "hindsight"]

_LIMITS = BidLimits(0.0, 10.0)
_PRIOR = (0.5, 1.0)  # a market that ours believes in at first; it learns

_PLANS = 100  # real traffic turns quickly

Make = Callable[[Grouped, float, int], Bidder]


def _purse(campaign: Campaign, budget: float) -> Purse:
    return Purse(budget, 0.0, campaign.seconds + 1.0)


def _arrivals(campaign: Campaign, groups: int) -> Arrivals:
    """Requests to come, by the hours at which history had its visits."""
    hours = (campaign.before.at_us - campaign.starts_us) // 3_600_000_000 % 24
    weights = np.bincount(hours, minlength=24) + 1.0
    return Arrivals(groups, 0.0, campaign.seconds + 1.0, hourly=weights.tolist())


def _valued(grouped: Grouped, approach: str, cap: int, *, recent: bool) -> Valuation:
    audience = grouped.audience(approach)
    if not recent:
        return CapValuation(audience, cap)
    table = fit_recency(grouped.campaign.before, grouped.group_of)
    return RecencyValuation(audience, cap, table)


def _paper(approach: str, *, recent: bool = False) -> Make:
    def make(grouped: Grouped, budget: float, cap: int) -> Bidder:
        campaign = grouped.campaign
        valuation = _valued(grouped, approach, cap, recent=recent)
        purse = _purse(campaign, budget)
        return PaperBidder(valuation, purse, campaign.market, max(len(campaign.person), 1))

    return make


def _ours(approach: str, *, recent: bool = False) -> Make:
    def make(grouped: Grouped, budget: float, cap: int) -> Bidder:
        return PlanningBidder(
            grouped.audience(approach),
            cap,
            _purse(grouped.campaign, budget),
            LogNormalMarket(*_PRIOR),
            valuation=_valued(grouped, approach, cap, recent=recent),
            limits=_LIMITS,
            plans=_PLANS,
            arrivals=_arrivals(grouped.campaign, len(grouped.sizes)),
        )

    return make


BUYERS: dict[str, Make] = {
    "impressions": _paper("impressions"),
    "groups": _paper("groups"),
    "uniform": _paper("uniform"),
    "profiled": _paper("profiled"),
    "profiled_history": _paper("profiled_history"),
    "dispersed": _paper("dispersed"),
    "uniform_recency": _paper("uniform", recent=True),
    "dispersed_recency": _paper("dispersed", recent=True),
    "planning": _ours("dispersed"),
    "planning_recency": _ours("dispersed", recent=True),
}


def stream_of(campaign: Campaign, groups: IntArray) -> Stream:
    """The flight as an auction loop sees it."""
    return Stream(campaign.person, groups, campaign.at, campaign.price, campaign.people.count)


def buy(name: str, grouped: Grouped, budget: float, cap: int) -> Outcome:
    """Run one buyer through the flight; it sees groups, times and its own outcomes."""
    bidder = BUYERS[name](grouped, budget, cap)
    return run_auctions(bidder, stream_of(grouped.campaign, grouped.groups), cap)


def alone(campaign: Campaign, budget: float, cap: int, *, ahead: bool = False) -> Outcome:
    """k = 1, everybody known: the reference of every relative number."""
    audience = Audience.disjoint(np.ones(campaign.people.count, dtype=np.int64))
    purse = _purse(campaign, budget)
    bidder: Bidder
    if ahead:
        bidder = PlanningBidder(
            audience,
            cap,
            purse,
            LogNormalMarket(*_PRIOR),
            limits=_LIMITS,
            plans=_PLANS,
            arrivals=_arrivals(campaign, campaign.people.count),
        )
    else:
        requests = max(len(campaign.person), 1)
        bidder = PaperBidder(CapValuation(audience, cap), purse, campaign.market, requests)
    return run_auctions(bidder, stream_of(campaign, campaign.person), cap)


def gateway_capped(grouped: Grouped, budget: float, cap: int) -> Outcome:
    """The publisher drops the bid for whoever is at the cap: a lost auction, to the ad system.

    With that every win is a reach, so the ad system bids as if every request were new: the upper
    reference, at the price of trusting the publisher with the cap.
    """
    bidder = _paper("impressions")(grouped, budget, cap)
    stream = stream_of(grouped.campaign, grouped.groups)
    return run_auctions(bidder, stream, cap, gateway_cap=cap)


def hindsight(grouped: Grouped, budgets: list[float], cap: int) -> list[float]:
    """The most that anybody could reach who knows every group, price and visit share before."""
    audience = grouped.audience("profiled")
    found = hindsight_limit(audience, grouped.groups, grouped.campaign.price, cap, budgets)
    return [float(reach) for reach in found]


def cheapest_everybody(campaign: Campaign) -> float:
    """What it costs to reach every visitor once at the cheapest of his requests: k = 1."""
    order = np.lexsort((campaign.price, campaign.person))
    first = np.unique(campaign.person[order], return_index=True)[1]
    return float(campaign.price[order][first].sum())
