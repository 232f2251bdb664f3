"""A campaign at play on one catalogue: its bidder, its account and its tallies."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log

import numpy as np

from kreach.adsystem.bidding.arrivals import Arrivals, Traffic
from kreach.adsystem.bidding.bidder import Bidder, PaperBidder, PlanningBidder
from kreach.adsystem.bidding.budget import Purse
from kreach.adsystem.bidding.market import LogNormalMarket
from kreach.adsystem.bidding.shading import Shading
from kreach.adsystem.bidding.valuation import CapRule, CapValuation, StackedValuation, Valuation
from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.ledger.account import Account
from kreach.boundary.audience import Audience, DisjointAudience, OverlappingAudience
from kreach.boundary.money import MICROS
from kreach.boundary.openrtb import MICROS_PER_CPM, BidRequest, Imp, as_json
from kreach.boundary.times import DAY_SECONDS

__all__ = ["AccountPurse", "Play", "make_bidder", "own_valuation"]

_MAX_KINDS = 2_000
_MAX_SEEN = 10_000.0


class AccountPurse(Purse):
    """A purse whose money is the ledger's: it looks, and leaves booking to the ledger."""

    def __init__(self, account: Account, start: float, end: float) -> None:
        daily = None if account.daily is None else account.daily / MICROS
        super().__init__(account.budget / MICROS, start, end, daily)
        self._account = account

    @property
    def spent(self) -> float:
        return self._account.spent / MICROS

    def available(self, now: float) -> float:
        if not self.start <= now < self.end:
            return 0.0
        return self._account.available(self._account.day_of(int(now * 1e6))) / MICROS

    def plannable(self, now: float) -> float:
        account = self._account
        left = account.left()
        if account.daily is not None:
            day = account.day_of(int(now * 1e6))
            days = max(self.end - now, 0.0) / DAY_SECONDS
            rest_of_today = min(1.0 - ((now - self.start) / DAY_SECONDS) % 1.0, days)
            later = max(days - rest_of_today, 0.0) * account.daily
            left = min(left, account.left_today(day) + round(later))
        return max(left, 0) / MICROS

    def hold(self, amount: float) -> None:
        """The ledger holds."""

    def release(self, amount: float) -> None:
        """The ledger releases."""

    def pay(self, price: float, now: float) -> None:
        """The ledger pays."""

    def refund(self, price: float) -> None:
        """The ledger refunds."""


def own_valuation(campaign: Campaign, audience: Audience) -> Valuation | None:
    """What values requests one by one, for campaigns that no table can; None for the others."""
    if campaign.cap is None:
        rules = [CapRule(cap.limit, cap.span_seconds) for cap in campaign.caps]
        return StackedValuation(audience, rules)
    if isinstance(audience, DisjointAudience) and len(audience.kinds) <= _MAX_KINDS:
        return None
    return CapValuation(audience, campaign.cap)


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
) -> Bidder:
    """The bidder that a campaign asks for. `market`: mu and sigma of ln(price per thousand)."""
    mu = campaign.market_mu if campaign.market_mu is not None else market[0]
    sigma = campaign.market_sigma if campaign.market_sigma is not None else market[1]
    believed = LogNormalMarket(mu - log(1_000), sigma, campaign.auction)  # of one impression
    typical = float(np.exp(believed.mu))
    start, end = campaign.start.timestamp(), campaign.end.timestamp()
    purse = AccountPurse(account, start, end)
    if campaign.bidder == "paper":
        return PaperBidder(
            valuation,
            purse,
            believed,
            campaign.expected_requests or 1,
            step_size=0.1 / typical,  # the paper's numbers, for a market whose price is 1
            base_bids=(0.1 * typical, 10.0 * typical),
        )
    arrivals = Arrivals(audience.group_count, start, end, hourly, traffic=traffic)
    stacked = campaign.cap is None
    return PlanningBidder(
        audience,
        campaign.largest_cap,
        purse,
        believed,
        valuation=valuation,
        ahead=not stacked and not isinstance(audience, OverlappingAudience),
        plans=plans,
        first_multiplier=1.0 / typical,
        arrivals=arrivals,
        plans_itself=False,
    )


@dataclass(eq=False)
class Play:
    """A campaign in one desk. `slot` is its place on the board, or None if it is valued alone."""

    number: int
    campaign: Campaign
    audience: int | None
    bidder: Bidder
    account: Account
    slot: int | None
    shading: Shading
    multiplier: float  # the paper's, while the board does not hold it
    min_micros: int = field(init=False)
    max_micros: int = field(init=False)
    start: float = field(init=False)
    end: float = field(init=False)
    first_price: bool = field(init=False)
    size: tuple[int, int] | None = field(init=False)
    domains: frozenset[str] = field(init=False)
    told: bytes = field(init=False)  # the end of its bids, in JSON
    low_micros: int = 0  # with less of its grant left it asks for more
    asleep: bool = True
    bids: int = 0
    wins: int = 0
    losses: int = 0
    seen: float = 0.0  # requests it has looked at, the later ones counting more,
    suited: float = 0.0  # and how many of these had a place for it

    def __post_init__(self) -> None:
        campaign = self.campaign
        self.min_micros = max(round(campaign.min_cpm * MICROS_PER_CPM), 1)
        self.max_micros = round(campaign.max_cpm * MICROS_PER_CPM)
        self.start, self.end = campaign.start.timestamp(), campaign.end.timestamp()
        self.first_price = campaign.auction == "first_price"
        creative = campaign.creative
        self.domains = frozenset(domain.lower() for domain in creative.domains)
        self.size = None
        if creative.width is not None and creative.height is not None:
            self.size = creative.width, creative.height
        told = {
            "cid": campaign.id,
            "crid": creative.id,
            "adomain": creative.domains or None,
            "adm": creative.markup,
            "w": creative.width,
            "h": creative.height,
        }
        self.told = as_json({k: v for k, v in told.items() if v is not None}).lstrip(b"{")

    @property
    def share(self) -> float:
        """Of all requests, those with a place that suits this campaign."""
        return (self.suited + 1.0) / (self.seen + 1.0)

    def suits(self, request: BidRequest, imp: Imp) -> bool:
        """Whether it may have this place, in its flight."""
        if self.first_price != (request.at == 1):
            return False
        if request.badv and not self.domains.isdisjoint(map(str.lower, request.badv)):
            return False
        if imp.banner is None or self.size is None:
            return True
        return imp.banner.fits(*self.size)

    def look_at(self, request: BidRequest) -> None:
        """See whether a request has a place for it."""
        self.seen += 1.0
        self.suited += any(self.suits(request, imp) for imp in request.imp)
        if self.seen > _MAX_SEEN:  # what suits may change
            self.seen, self.suited = self.seen / 2.0, self.suited / 2.0

    def looks_like(self, other: "Play") -> bool:
        """Whether the same places suit both."""
        mine, others = ((play.size, play.domains, play.first_price) for play in (self, other))
        return mine == others

    def awake(self, now: float) -> bool:
        """Whether it may bid at all now."""
        if self.campaign.state != "running" or not self.start <= now < self.end:
            return False
        return self.account.available(self.account.day_of(int(now * 1e6))) >= self.min_micros
