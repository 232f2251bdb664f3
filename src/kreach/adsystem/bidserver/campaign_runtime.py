"""The runtime state of a campaign on one catalogue: its bidder, account and tallies."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log

import numpy as np

from kreach.adsystem.bidding.arrivals import Arrivals, Traffic
from kreach.adsystem.bidding.bidder import Bidder, BidLimits, PaperBidder, PlanningBidder
from kreach.adsystem.bidding.board import Board, BoardValuation
from kreach.adsystem.bidding.board_visitors import BoardVisitors, RecentWins
from kreach.adsystem.bidding.budget import Purse
from kreach.adsystem.bidding.market import LogNormalMarket
from kreach.adsystem.bidding.shading import Shading, shading_of
from kreach.adsystem.bidding.valuation import (
    CapRule,
    CapValuation,
    StackedValuation,
    Valuation,
    VisitorValuation,
)
from kreach.adsystem.campaigns.campaign import MAX_COST_MULTIPLE, Campaign
from kreach.adsystem.ledger.account import Account
from kreach.boundary.audience import Audience, DisjointAudience, OverlappingAudience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.money import MICROS
from kreach.boundary.openrtb import MICROS_PER_CPM, BidRequest, Imp, as_json
from kreach.boundary.times import DAY_SECONDS, HOUR_SECONDS
from kreach.boundary.visit_model import VisitModel

__all__ = [
    "AccountPurse",
    "CampaignRuntime",
    "board_valuation",
    "individual_valuation",
    "make_bidder",
    "memory_seconds_of",
    "visit_model_of",
]

_MAX_KINDS = 2_000
_MAX_SAMPLED = 10_000.0
_PASSING_STEP = 0.01


class AccountPurse(Purse):
    """A purse that reads its account in the ledger, which does all booking."""

    def __init__(self, account: Account, start: float, end: float) -> None:
        daily = None if account.daily is None else account.daily / MICROS
        super().__init__(account.budget / MICROS, start, end, daily)
        self._account = account

    @property
    def spent(self) -> float:
        return self._account.spent / MICROS

    @property
    def spent_by_all(self) -> float:
        return (self._account.spent + self._account.spent_elsewhere) / MICROS

    def available(self, now: float) -> float:
        if not self.start <= now < self.end:
            return 0.0
        return self._account.available(self._account.day_at(now)) / MICROS

    def plannable(self, now: float) -> float:
        account = self._account
        left = account.left()
        if account.daily is not None:
            day = account.day_at(now)
            days = max(self.end - now, 0.0) / DAY_SECONDS
            rest_of_today = min(1.0 - ((now - self.start) / DAY_SECONDS) % 1.0, days)
            later = max(days - rest_of_today, 0.0) * account.daily
            left = min(left, account.left_today(day) + round(later))
        return max(left, 0) / MICROS

    def hold(self, amount: float) -> None:
        """Does nothing: the ledger reserves."""

    def release(self, amount: float) -> None:
        """Does nothing: the ledger releases."""

    def pay(self, price: float, now: float) -> None:
        """Does nothing: the ledger posts."""

    def refund(self, price: float) -> None:
        """Does nothing: the ledger reverts."""


def visit_model_of(
    campaign: Campaign, audience: Audience, catalogue: Catalogue
) -> VisitModel | None:
    """The visit model that a campaign is valued with: one cap, groups that do not overlap."""
    if campaign.bidder == "paper" or campaign.cap is None:
        return None
    return catalogue.model if isinstance(audience, DisjointAudience) else None


def memory_seconds_of(catalogue: Catalogue, model: VisitModel | None) -> float | None:
    """How long the publisher remembers whom it showed a campaign that is valued with a model."""
    hours = catalogue.memory_hours
    return None if hours is None or model is None else hours * HOUR_SECONDS


def individual_valuation(
    campaign: Campaign,
    audience: Audience,
    model: VisitModel | None,
    memory_seconds: float | None = None,
) -> Valuation | None:
    """A valuation for campaigns that need their own; None for those that the board can value."""
    if campaign.cap is None:
        rules = [CapRule(cap.limit, cap.span_seconds) for cap in campaign.caps]
        return StackedValuation(audience, rules)
    if isinstance(audience, DisjointAudience) and len(audience.kinds) <= _MAX_KINDS:
        return None
    if model is not None:
        return VisitorValuation(audience, campaign.cap, model, memory_seconds=memory_seconds)
    return CapValuation(audience, campaign.cap)


def board_valuation(
    campaign: Campaign,
    audience: Audience,
    model: VisitModel | None,
    board: Board,
    slot: int,
    recent: RecentWins,
    before: "CampaignRuntime | None",
    memory_seconds: float | None = None,
) -> Valuation:
    """The valuation of a campaign on the board; what it knew before stays, unless its cap moved."""
    if model is None or campaign.cap is None:
        return BoardValuation(board, slot)
    if before is not None and before.campaign.cap == campaign.cap:
        known = before.bidder.valuation
        if isinstance(known, BoardVisitors):
            return known
    recent.forget(slot)
    return BoardVisitors(
        board, slot, audience, campaign.cap, model, recent, memory_seconds=memory_seconds
    )


def make_bidder(
    campaign: Campaign,
    audience: Audience,
    valuation: Valuation,
    account: Account,
    traffic: Traffic,
    *,
    market: tuple[float, float],
    plans: int,
    hourly: Sequence[float] | None,
    model: VisitModel | None,
    memory_seconds: float | None,
    first_bid_share: float,
) -> Bidder:
    """The kind of bidder that a campaign names. `market`: mu and sigma of ln(CPM)."""
    mu = campaign.market_mu if campaign.market_mu is not None else market[0]
    sigma = campaign.market_sigma if campaign.market_sigma is not None else market[1]
    believed = LogNormalMarket(mu - log(1_000), sigma)  # of one impression
    typical = float(np.exp(believed.mu))
    start, end = campaign.start.timestamp(), campaign.end.timestamp()
    purse = AccountPurse(account, start, end)
    most = campaign.max_cost_per_reach or float("inf")
    if campaign.bidder == "paper":
        return PaperBidder(
            valuation,
            purse,
            believed,
            campaign.expected_requests or 1,
            step_size=0.1 / typical,  # the paper's numbers, for a market whose price is 1
            base_bids=(0.1 * typical, max(min(most, 10.0 * typical), 0.1 * typical)),
        )
    arrivals = Arrivals(audience.group_count, start, end, hourly, traffic=traffic)
    stacked = campaign.cap is None
    return PlanningBidder(
        audience,
        campaign.largest_cap,
        purse,
        believed,
        model=model,
        memory_seconds=memory_seconds,
        valuation=valuation,
        ahead=not stacked and not isinstance(audience, OverlappingAudience),
        plans=plans,
        limits=BidLimits(0.0, campaign.max_cpm / 1_000.0),
        first_multiplier=1.0 / (first_bid_share * typical),
        arrivals=arrivals,
        plans_itself=False,
        max_cost_per_reach=campaign.max_cost_per_reach,
        max_cost_multiple=MAX_COST_MULTIPLE,
    )


@dataclass(eq=False)
class CampaignRuntime:
    """A campaign on one catalogue. `slot`: its place on the board, None if valued individually."""

    number: int
    campaign: Campaign
    audience: int | None
    bidder: Bidder
    account: Account
    slot: int | None
    multiplier: float  # of the paper's bidder, while the board does not hold it
    min_micros: int = field(init=False)
    max_micros: int = field(init=False)
    start: float = field(init=False)
    end: float = field(init=False)
    size: tuple[int, int] | None = field(init=False)
    domains: frozenset[str] = field(init=False)
    json_tail: bytes = field(init=False)  # the last fields of its bids
    _shading: Shading | None = None  # of first-price bids, since the last plan
    low_funds_micros: int = 0  # with less of its grant left it requests more
    active: bool = False
    weight: float = 1.0  # money left per second of flight left: its claim to requests
    shortfall: str | None = None  # why the plan cannot spend the budget
    passing: float = 1.0  # of its bids lately: the part that the publisher did not drop
    bids: int = 0
    wins: int = 0
    losses: int = 0
    sampled_requests: float = 0.0  # checked for eligibility, the later ones weighing more
    eligible_requests: float = 0.0  # of these, those with an eligible place

    def __post_init__(self) -> None:
        campaign = self.campaign
        self.min_micros = max(round(campaign.min_cpm * MICROS_PER_CPM), 1)
        self.max_micros = round(campaign.max_cpm * MICROS_PER_CPM)
        self.start, self.end = campaign.start.timestamp(), campaign.end.timestamp()
        creative = campaign.creative
        self.domains = frozenset(domain.lower() for domain in creative.domains)
        self.size = None
        if creative.width is not None and creative.height is not None:
            self.size = creative.width, creative.height
        fields = {
            "cid": campaign.id,
            "crid": creative.id,
            "adomain": creative.domains or None,
            "adm": creative.markup,
            "w": creative.width,
            "h": creative.height,
        }
        self.json_tail = as_json({k: v for k, v in fields.items() if v is not None}).lstrip(b"{")

    @property
    def shading(self) -> Shading:
        """How to shade a first-price bid by the campaign's own auctions, as of its last plan."""
        if self._shading is None:
            self._shading = shading_of(*self.bidder.markets.with_factors("first_price"))
        return self._shading

    def note_passing(self, group: int) -> None:
        """It bids for the group's last request: how likely does the publisher drop the bid?"""
        if isinstance(self.bidder, PlanningBidder):
            self.passing += _PASSING_STEP * (self.bidder.passing(group) - self.passing)

    def outbid(self, micros: int, auction: str, group: int | None = None) -> float:
        """The probability that a lost bid was outbid and not dropped; of any group if None."""
        if not isinstance(self.bidder, PlanningBidder):
            return 1.0
        passed = self.passing if group is None else self.bidder.passing(group)
        return self.bidder.outbid(passed, micros / MICROS, auction)

    def forget_shading(self) -> None:
        """What the bidder believes of its market has changed."""
        self._shading = None

    @property
    def eligible_share(self) -> float:
        """Eligible bid requests as a share of all."""
        return (self.eligible_requests + 1.0) / (self.sampled_requests + 1.0)

    def is_eligible(self, request: BidRequest, imp: Imp) -> bool:
        """Whether the campaign may have this place: blocked domains, size."""
        if request.badv and not self.domains.isdisjoint(map(str.lower, request.badv)):
            return False
        if imp.banner is None or self.size is None:
            return True
        return imp.banner.fits(*self.size)

    def sample(self, request: BidRequest) -> None:
        """Count a request, and whether it is eligible."""
        self.sampled_requests += 1.0
        if any(self.is_eligible(request, imp) for imp in request.imp):
            self.eligible_requests += 1.0
            self.bidder.markets.count("first_price" if request.first_price else "second_price")
        if self.sampled_requests > _MAX_SAMPLED:  # traffic may change
            self.sampled_requests, self.eligible_requests = (
                self.sampled_requests / 2.0,
                self.eligible_requests / 2.0,
            )

    def same_eligibility(self, other: "CampaignRuntime") -> bool:
        """Whether the same places are eligible for both."""
        mine, others = ((one.size, one.domains) for one in (self, other))
        return mine == others

    def can_bid(self, now: float) -> bool:
        """Whether it is running with a creative, in its flight, and can pay the smallest bid."""
        if self.campaign.state != "running" or not self.start <= now < self.end:
            return False
        if self.campaign.not_bidding is not None:
            return False
        return self.account.available(self.account.day_at(now)) >= self.min_micros
