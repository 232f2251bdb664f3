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
from kreach.adsystem.bidding.family import FamilyExposure, FamilyMember
from kreach.adsystem.bidding.family_members import BoardMember, StackedMember
from kreach.adsystem.bidding.family_visitors import MemberVisitors, PooledVisitors
from kreach.adsystem.bidding.market import LogNormalMarket
from kreach.adsystem.bidding.plan import Plan
from kreach.adsystem.bidding.shading import Shading, shading_of
from kreach.adsystem.bidding.valuation import (
    CapRule,
    CapValuation,
    StackedValuation,
    Valuation,
    VisitorValuation,
)
from kreach.adsystem.bidserver.places import Requirements, is_eligible, requirements_of
from kreach.adsystem.bidserver.rotation import Rotation
from kreach.adsystem.campaigns.campaign import MAX_COST_MULTIPLE, Campaign
from kreach.adsystem.ledger.account import Account
from kreach.boundary.audience import Audience, DisjointAudience, OverlappingAudience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.money import MICROS
from kreach.boundary.openrtb import MICROS_PER_CPM, BidRequest, Imp
from kreach.boundary.times import DAY_SECONDS, HOUR_SECONDS
from kreach.boundary.visit_model import VisitModel

__all__ = [
    "AccountPurse",
    "CampaignRuntime",
    "board_valuation",
    "individual_valuation",
    "make_bidder",
    "memory_seconds_of",
    "value_cap",
    "visit_model_of",
]

_MAX_KINDS = 2_000
_MAX_SAMPLED = 10_000.0
_PASSING_STEP = 0.01
_LIMITED = 0.98  # of a budget: with less of it a plan is limited by the family's
_DELIVERED = 0.95  # of a budget: what is left of one that was spent so far needs no reason
_LAST = 0.02  # of a flight: what plans then have left of a budget they spend no more
_LEFT_BY_FAMILY = 1.0 / 1.2  # of the value: below, the family's cap is what a plan lacks
_USABLE_GROWTH = 1.5  # of what a plan can use, from plan to plan


class AccountPurse(Purse):
    """A purse that reads its account in the ledger, which does all booking.

    With `pooled` plans are for all that the members of its family can spend together: they are
    valued alike, so what one wins is a loss to all, as if they were one campaign.
    """

    pooled = False

    def __init__(self, account: Account, start: float, end: float) -> None:
        daily = None if account.daily is None else account.daily / MICROS
        super().__init__(account.budget / MICROS, start, end, daily)
        self._account = account

    @property
    def spent(self) -> float:
        return self._account.spent / MICROS

    @property
    def spent_by_all(self) -> float:
        account = self._account
        if self.pooled and account.family is not None:
            account = account.family
        return (account.spent + account.spent_elsewhere) / MICROS

    def available(self, now: float) -> float:
        if not self.start <= now < self.end:
            return 0.0
        return self._account.available(self._account.day_at(now)) / MICROS

    def plannable(self, now: float) -> float:
        if self.pooled and self._account.family is not None:
            return self._account.family.left_of_members() / MICROS
        return self.share(now)

    def share(self, now: float, totals: tuple[int, int] | None = None) -> float:
        """What a member may spend of its own budget, as far as the family's suffices.

        `totals` of the family as in `Account.share_of_family`.
        """
        own = round(self.own_plannable(now) * MICROS)
        return min(own, self._account.share_of_family(totals)) / MICROS

    def own_plannable(self, now: float) -> float:
        """The same without the limit of a family's budget."""
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


def value_cap(campaign: Campaign, family: FamilyExposure | None) -> int:
    """The cap that a campaign's tables and plans are made for: its own, or its family's if that
    is lower."""
    if family is None:
        return campaign.largest_cap
    return min(campaign.largest_cap, family.largest_cap)


def visit_model_of(
    campaign: Campaign,
    audience: Audience,
    catalogue: Catalogue,
    family: FamilyExposure | None = None,
) -> VisitModel | None:
    """The visit model that a campaign is valued with: one cap, groups that do not overlap."""
    if campaign.bidder == "paper" or campaign.cap is None:
        return None
    if family is not None and family.cap is None:
        return None
    if catalogue.model is None or not isinstance(audience, DisjointAudience):
        return None
    return catalogue.model.for_audience(audience)


def memory_seconds_of(
    campaign: Campaign,
    catalogue: Catalogue,
    model: VisitModel | None,
    family: FamilyExposure | None = None,
) -> float | None:
    """How long the publisher remembers whom it showed a campaign that is valued with a model.

    A catalogue does not say whether the publisher caps families. So where the family's cap is what
    a campaign is valued at, nothing is taken to be dropped: values are then too low, not too high.
    """
    hours = catalogue.memory_hours
    if family is not None and value_cap(campaign, family) < campaign.largest_cap:
        return None
    return None if hours is None or model is None else hours * HOUR_SECONDS


def individual_valuation(
    campaign: Campaign,
    audience: Audience,
    model: VisitModel | None,
    memory_seconds: float | None = None,
    family: FamilyExposure | None = None,
) -> Valuation | None:
    """A valuation for campaigns that need their own; None for those that the board can value."""
    few_kinds = isinstance(audience, DisjointAudience) and len(audience.kinds) <= _MAX_KINDS
    if family is not None:
        if campaign.cap is not None and family.cap is not None and few_kinds:
            return None
        rules = [CapRule(cap.limit, cap.span_seconds) for cap in campaign.caps]
        return StackedMember(audience, rules, family)
    if campaign.cap is None:
        rules = [CapRule(cap.limit, cap.span_seconds) for cap in campaign.caps]
        return StackedValuation(audience, rules)
    if few_kinds:
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
    family: FamilyExposure | None = None,
) -> Valuation:
    """The valuation of a campaign on the board; what it knew before stays, unless its cap moved."""
    if family is not None and before is not None:
        return before.bidder.valuation  # neither cap can be changed
    if family is not None:
        return _member_valuation(
            campaign, audience, model, board, slot, recent, family, memory_seconds
        )
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


def _member_valuation(
    campaign: Campaign,
    audience: Audience,
    model: VisitModel | None,
    board: Board,
    slot: int,
    recent: RecentWins,
    family: FamilyExposure,
    memory_seconds: float | None,
) -> Valuation:
    assert isinstance(audience, DisjointAudience)
    assert campaign.cap is not None
    assert family.cap is not None
    if model is None:
        return BoardMember(board, slot, audience, campaign.cap, family)
    recent.forget(slot)
    if campaign.cap >= family.cap:
        return PooledVisitors(board, slot, audience, campaign.cap, model, recent, family)
    return MemberVisitors(
        board, slot, audience, campaign.cap, model, recent, family, memory_seconds=memory_seconds
    )


def make_bidder(
    campaign: Campaign,
    audience: Audience,
    cap: int,
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
    """The kind of bidder that a campaign names. `market`: mu and sigma of ln(CPM).

    `cap` is the one to plan for (`value_cap`).
    """
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
    stacked = isinstance(valuation, StackedValuation)
    return PlanningBidder(
        audience,
        cap,
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
    requirements: Requirements = field(init=False)  # the same places are eligible for the same
    rotation: Rotation = field(init=False)
    may_run: bool = field(init=False)  # it is running, with a creative
    drops_repeats: bool = field(init=False)  # the publisher, of bids for people at the cap
    _shading: Shading | None = None  # of first-price bids, since the last plan
    low_funds_micros: int = 0  # with less of its grant left it requests more
    active: bool = False
    weight: float = 1.0  # money left per second of flight left: its claim to requests
    _shortfall: str | None = None  # why the budget cannot be spent, as of the last plan
    usable: float | None = None  # of the budget, where plans could not spend what they had
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
        self.requirements = requirements_of(campaign)
        self.rotation = Rotation(campaign)
        self.may_run = campaign.state == "running" and campaign.not_bidding is None
        bidder = self.bidder
        self.drops_repeats = isinstance(bidder, PlanningBidder) and bidder.drops_repeats

    @property
    def shading(self) -> Shading:
        """How to shade a first-price bid by the campaign's own auctions, as of its last plan."""
        if self._shading is None:
            self._shading = shading_of(*self.bidder.markets.with_factors("first_price"))
        return self._shading

    def note_passing(self, group: int) -> None:
        """It bids for the group's last request: how likely does the publisher drop the bid?

        Where it never does (`drops_repeats`) nothing is to be noted.
        """
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
    def shortfall(self) -> str | None:
        """Why the budget cannot be spent; None if it can, or if nearly all of it has been."""
        spent_enough = self.account.left() <= (1.0 - _DELIVERED) * self.account.budget
        return None if spent_enough else self._shortfall

    @property
    def eligible_share(self) -> float:
        """Eligible bid requests as a share of all."""
        return (self.eligible_requests + 1.0) / (self.sampled_requests + 1.0)

    def is_eligible(self, request: BidRequest, imp: Imp) -> bool:
        """Whether the campaign may have this place."""
        return is_eligible(self.requirements, request, imp)

    def sample(self, auction: str | None, requests: int = 1) -> None:
        """Count requests, and their auction type if they have an eligible place."""
        self.sampled_requests += requests
        if auction is not None:
            self.eligible_requests += requests
            self.bidder.markets.count(auction, requests)
        if self.sampled_requests > _MAX_SAMPLED:  # traffic may change
            self.sampled_requests, self.eligible_requests = (
                self.sampled_requests / 2.0,
                self.eligible_requests / 2.0,
            )

    def same_eligibility(self, other: "CampaignRuntime") -> bool:
        """Whether the same places are eligible for both."""
        return self.requirements == other.requirements

    @property
    def pooled(self) -> bool:
        """Whether it is valued by its family's cap and impressions alone, like its siblings."""
        valuation = self.bidder.valuation
        if isinstance(valuation, BoardMember):
            return valuation.pooled
        return isinstance(valuation, PooledVisitors)

    def pool(self, pooled: bool) -> None:
        """Plan with all of the family's money, or with the own share of it."""
        bidder = self.bidder
        purse = bidder.purse
        assert isinstance(purse, AccountPurse)
        if purse.pooled != pooled:
            purse.pooled = pooled
            if isinstance(bidder, PlanningBidder):
                bidder.restart_delivery()

    def share(self, now: float, totals: tuple[int, int] | None = None) -> float:
        """Its own money for the rest of the flight, as far as its family's suffices."""
        purse = self.bidder.purse
        assert isinstance(purse, AccountPurse)
        return purse.share(now, totals)

    def plans_alike(self, other: "CampaignRuntime") -> bool:
        """Whether a sibling's requests and flight are the same."""
        mine, others = self.campaign, other.campaign
        same = mine.audience == others.audience and mine.end == others.end
        return same and mine.bidder == others.bidder and self.same_eligibility(other)

    def demand(self, now: float) -> int:
        """What it can use of its family's budget, in micros."""
        if not self.may_run or now >= self.end:
            return 0
        purse = self.bidder.purse
        assert isinstance(purse, AccountPurse)
        own = purse.own_plannable(now)
        return round(MICROS * (own if self.usable is None else min(own, self.usable)))

    def note_plan(self, plan: Plan, now: float) -> None:
        """Why a new plan cannot spend the campaign's budget, and what it could use of it."""
        self._shortfall = plan.shortfall or self._money_that_stays(now)
        bidder = self.bidder
        if self.account.family is None or not isinstance(bidder, PlanningBidder):
            return
        purse = bidder.purse
        assert isinstance(purse, AccountPurse)
        own = purse.own_plannable(now)
        if plan.shortfall is not None:
            part = purse.share(now) / max(purse.plannable(now), 1e-12)
            self.usable = part * plan.expected_spend * bidder.sample_share
            valuation = bidder.valuation
            if (
                isinstance(valuation, FamilyMember)
                and valuation.left_by_family(now) < _LEFT_BY_FAMILY
            ):
                self._shortfall = "cap of the family"
            return
        if self.usable is not None:  # by and by: others plan with what it does not use
            self.usable = (
                None if _USABLE_GROWTH * self.usable >= own else (_USABLE_GROWTH * self.usable)
            )
        if purse.share(now) < _LIMITED * own:
            self._shortfall = "budget of the family"

    def _money_that_stays(self, now: float) -> str | None:
        """Why a part of the budget will be left although the plan expects to spend it.

        A plan spends fractions of an impression, and expects what comes on average: a budget worth
        a handful of impressions cannot be divided, and nothing makes up for chance at the end.
        """
        account, purse = self.account, self.bidder.purse
        assert isinstance(purse, AccountPurse)
        left = account.left()
        if account.daily is not None and purse.own_plannable(now) * MICROS < _LIMITED * left:
            return "daily budget"
        if left < account.usual_price:
            return "budget left is less than the price of an impression"
        if self.end - now <= _LAST * (self.end - self.start):
            return "too few eligible requests left"
        return None

    def can_bid(self, now: float) -> bool:
        """Whether it is running with a creative, in its flight, and can pay the smallest bid."""
        if not self.may_run or not self.start <= now < self.end:
            return False
        return self.account.available(self.account.day_at(now)) >= self.min_micros
