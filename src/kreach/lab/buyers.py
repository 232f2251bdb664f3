"""The bidders of the studies: the paper's and ours, by what they know, and upper bounds."""

from collections.abc import Callable

import numpy as np

from kreach.adsystem.bidding.arrivals import Arrivals
from kreach.adsystem.bidding.bidder import Bidder, BidLimits, PaperBidder, PlanningBidder
from kreach.adsystem.bidding.budget import Purse
from kreach.adsystem.bidding.hindsight import session_hindsight_limit
from kreach.adsystem.bidding.market import LogNormalMarket
from kreach.adsystem.bidding.valuation import CapValuation, Valuation, VisitorValuation
from kreach.boundary.audience import Audience
from kreach.boundary.times import HOUR_SECONDS, MICROS
from kreach.boundary.visit_model import VisitModel
from kreach.lab.approaches import GroupedCampaign
from kreach.lab.auctions import Outcome, Stream, run_auctions
from kreach.lab.site import StudyCampaign
from kreach.numeric.types import IntArray
from kreach.publisher.visit_history import sessions

__all__ = [
    "BUYERS",
    "buy",
    "buy_at_k1",
    "buy_with_gateway_cap",
    "buy_with_memory",
    "full_reach_cost",
    "hindsight_reach",
]

_LIMITS = BidLimits(0.0, 10.0)
_PRIOR = (0.5, 1.0)  # the market that our bidder assumes at first; it learns

_PLANS = 100  # real traffic changes quickly

Make = Callable[[GroupedCampaign, float, int], Bidder]


def _purse(campaign: StudyCampaign, budget: float) -> Purse:
    return Purse(budget, 0.0, campaign.seconds + 1.0)


def _arrivals(campaign: StudyCampaign, groups: int) -> Arrivals:
    """Expected requests, by the hours of the visits in history."""
    hours = (campaign.before.at_us - campaign.starts_us) // (HOUR_SECONDS * MICROS) % 24
    weights = np.bincount(hours, minlength=24) + 1.0
    return Arrivals(groups, 0.0, campaign.seconds + 1.0, hourly=weights.tolist())


def _valuation(grouped: GroupedCampaign, approach: str, cap: int) -> Valuation:
    if approach != "model" or grouped.model is None:
        return CapValuation(grouped.audience(approach), cap)
    starts = grouped.campaign.starts_us / MICROS
    return VisitorValuation(grouped.audience(approach), cap, grouped.model, starts)


def _paper(approach: str) -> Make:
    def make(grouped: GroupedCampaign, budget: float, cap: int) -> Bidder:
        campaign = grouped.campaign
        valuation = _valuation(grouped, approach, cap)
        purse = _purse(campaign, budget)
        return PaperBidder(valuation, purse, campaign.market, max(len(campaign.person), 1))

    return make


def _planning(approach: str, memory_seconds: float | None = None) -> Make:
    def make(grouped: GroupedCampaign, budget: float, cap: int) -> Bidder:
        return PlanningBidder(
            grouped.audience(approach),
            cap,
            _purse(grouped.campaign, budget),
            LogNormalMarket(*_PRIOR),
            model=grouped.model if approach == "model" else None,
            starts_seconds=grouped.campaign.starts_us / MICROS,
            memory_seconds=memory_seconds,
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
    "visitors": _paper("model"),
    "planning": _planning("dispersed"),
    "planning_visitors": _planning("model"),
}


def stream_of(campaign: StudyCampaign, groups: IntArray) -> Stream:
    """The flight as input of the auction loop."""
    return Stream(campaign.person, groups, campaign.at, campaign.price, campaign.people.count)


def buy(name: str, grouped: GroupedCampaign, budget: float, cap: int) -> Outcome:
    """Run one bidder through the flight; it sees groups, times and its own outcomes."""
    bidder = BUYERS[name](grouped, budget, cap)
    return run_auctions(bidder, stream_of(grouped.campaign, grouped.groups), cap)


def buy_at_k1(
    campaign: StudyCampaign,
    budget: float,
    cap: int,
    *,
    planning: bool = False,
    model: VisitModel | None = None,
) -> Outcome:
    """Run a bidder that knows every person (k = 1): the reference of every relative figure.

    `model` tells our own bidder how people visit.
    """
    audience = Audience.disjoint(np.ones(campaign.people.count, dtype=np.int64))
    purse = _purse(campaign, budget)
    bidder: Bidder
    if planning:
        bidder = PlanningBidder(
            audience,
            cap,
            purse,
            LogNormalMarket(*_PRIOR),
            model=model,
            starts_seconds=campaign.starts_us / MICROS,
            limits=_LIMITS,
            plans=_PLANS,
            arrivals=_arrivals(campaign, campaign.people.count),
        )
    else:
        requests = max(len(campaign.person), 1)
        bidder = PaperBidder(CapValuation(audience, cap), purse, campaign.market, requests)
    return run_auctions(bidder, stream_of(campaign, campaign.person), cap)


def buy_with_gateway_cap(grouped: GroupedCampaign, budget: float, cap: int) -> Outcome:
    """Run a bidder whose publisher enforces the cap: bids for people at the cap lose.

    Every win then adds to reach, so the ad system bids as if every request were new. This is the
    upper reference; it needs a publisher that enforces caps.
    """
    bidder = _paper("impressions")(grouped, budget, cap)
    stream = stream_of(grouped.campaign, grouped.groups)
    return run_auctions(bidder, stream, cap, gateway_cap=cap)


def buy_with_memory(
    grouped: GroupedCampaign, budget: float, cap: int, memory_hours: float
) -> Outcome:
    """Run our bidder beside a publisher that enforces the cap, and forgets after some hours.

    Infinite hours: the whole flight. The bidder knows the hours and nothing about a person.
    """
    memory_seconds = memory_hours * HOUR_SECONDS
    bidder = _planning("model", memory_seconds)(grouped, budget, cap)
    stream = stream_of(grouped.campaign, grouped.groups)
    return run_auctions(bidder, stream, cap, gateway_cap=cap, gateway_memory_seconds=memory_seconds)


def hindsight_reach(grouped: GroupedCampaign, budgets: list[float]) -> list[float]:
    """Maximum unique reach for a bidder that knows all but who is who.

    It knows every group, price and session of the flight, and how many sessions each member has.
    """
    campaign = grouped.campaign
    session, starts = sessions(campaign.person, np.round(campaign.at * MICROS).astype(np.int64))
    counts = np.bincount(campaign.person[starts], minlength=campaign.people.count)
    members = np.split(
        counts[np.argsort(grouped.group_of, kind="stable")], np.cumsum(grouped.sizes)[:-1]
    )
    limits = session_hindsight_limit(members, grouped.groups, session, campaign.price, budgets)
    return [float(reach) for reach in limits]


def full_reach_cost(campaign: StudyCampaign) -> float:
    """The cost to reach every visitor once at their cheapest request (k = 1)."""
    order = np.lexsort((campaign.price, campaign.person))
    first = np.unique(campaign.person[order], return_index=True)[1]
    return float(campaign.price[order][first].sum())
