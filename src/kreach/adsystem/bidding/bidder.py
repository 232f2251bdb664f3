"""The bidders: one function decides live and in simulation.

`PaperBidder` is the paper's: value a request at p_t, divide by a multiplier that an additive rule
keeps on budget. `PlanningBidder` solves for the multiplier with a learned market and learned
arrivals, again and again during the flight; it values a request at what later requests cannot make
up for, or, with `ahead` off, at p_t.
"""

from abc import ABC, abstractmethod

import numpy as np

from kreach.adsystem.bidding.arrivals import Arrivals
from kreach.adsystem.bidding.budget import Purse
from kreach.adsystem.bidding.learning import MarketLearner
from kreach.adsystem.bidding.market import Market
from kreach.adsystem.bidding.planning import GroupState, Plan, Planner
from kreach.adsystem.measurement.baselines import EveryImpression
from kreach.adsystem.measurement.meter import ReachMeter
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.errors import KreachError
from kreach.numeric.probability import group_reach_probability
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["BidLimits", "Bidder", "PaperBidder", "PlanningBidder"]


class BidLimits:
    """The least and the most that may be bid; a bid below the least is not made."""

    def __init__(self, least: float = 0.0, most: float = float("inf")) -> None:
        if not 0.0 <= least <= most:
            raise KreachError.rule("bid limits", "be 0 ≤ least ≤ most", (least, most))
        self.least, self.most = least, most


class Bidder(ABC):
    """A campaign's bidder: `bid` for each request, then `won` or `lost` for each bid made."""

    def __init__(
        self, audience: Audience, cap: int, purse: Purse, limits: BidLimits | None = None
    ) -> None:
        self.meter = ReachMeter(audience, [cap])
        self.cap = cap
        self.purse = purse
        self.limits = limits or BidLimits()

    @property
    @abstractmethod
    def multiplier(self) -> float:
        """λ: reach per unit of money."""

    def bid(self, group: int, now: float, floor: float = 0.0) -> float:
        """What to bid for a request of this group; 0 means no bid."""
        wanted = min(self._wanted(group, now), self.limits.most, self.purse.available(now))
        return wanted if wanted > 0.0 and wanted >= max(floor, self.limits.least) else 0.0

    def won(self, group: int, bid: float, price: float, now: float) -> None:
        """A bid won and was shown; `price` is what is paid, at most the bid."""
        if not 0.0 <= price <= bid:
            raise KreachError.rule("price", f"lie between 0 and the bid ({bid})", price)
        self.purse.pay(price, now)
        self.meter.record(group)
        self._learn(bid, price, won=True)

    def lost(self, group: int, bid: float) -> None:
        """A bid lost."""
        self._learn(bid, 0.0, won=False)

    @abstractmethod
    def _wanted(self, group: int, now: float) -> float:
        """The bid before limits and budget."""

    def _learn(self, bid: float, price: float, *, won: bool) -> None:
        """What an outcome teaches; nothing by default."""


class PaperBidder(Bidder):
    """The paper's rule: bid (h/w)⁻¹(p_t/λ) and move λ by λ ← λ − ε(1 − r_t) after every request.

    r_t is the spend on the request over the average budget per request. The paper holds bids
    between 0.1 and 10 and starts at "a bid λ₁ = 10", though λ divides the bid. What reproduces its
    figure: λ starts at 10 and is held so that the base bid 1/λ stays in [0.1, 10].
    """

    def __init__(
        self,
        audience: Audience,
        cap: int,
        purse: Purse,
        market: Market,
        requests: int,
        *,
        step_size: float = 0.1,
        base_bids: tuple[float, float] = (0.1, 10.0),
        limits: BidLimits | None = None,
    ) -> None:
        super().__init__(audience, cap, purse, limits)
        if requests < 1:
            raise KreachError.rule("requests", "be at least 1", requests)
        self._market = market
        self._per_request = purse.budget / requests
        self._step_size = step_size
        self._least, self._most = 1.0 / base_bids[1], 1.0 / base_bids[0]
        self._multiplier = self._most
        self._pending = False
        self._spent_before = 0.0

    @property
    def multiplier(self) -> float:
        return self._multiplier

    def _wanted(self, group: int, now: float) -> float:
        self._update()
        value = self.meter.reach_probability(group, self.cap) / self._multiplier
        if self._market.auction == "second_price":
            return value
        return float(self._market.optimal_bid(value))

    def _update(self) -> None:
        """λ for this request from what the one before cost."""
        if self._pending:
            ratio = (self.purse.spent - self._spent_before) / self._per_request
            moved = self._multiplier - self._step_size * (1.0 - ratio)
            self._multiplier = min(max(moved, self._least), self._most)
        self._pending, self._spent_before = True, self.purse.spent


class PlanningBidder(Bidder):
    """Plans the rest of the flight at intervals, with what it has learned by then.

    `market` is what is believed at first; with `learn` it is only a prior, worth
    `prior_auctions`. Until `first_plan` requests have come nothing is known about arrivals, and it
    bids as the paper does, at the multiplier λ = `first_multiplier`.
    """

    def __init__(
        self,
        audience: Audience,
        cap: int,
        purse: Purse,
        market: Market,
        *,
        learn: bool = True,
        ahead: bool = True,
        plans: int = 40,
        first_plan: int = 20,
        first_multiplier: float = 10.0,
        prior_auctions: float = 10.0,
        limits: BidLimits | None = None,
        arrivals: Arrivals | None = None,
    ) -> None:
        super().__init__(audience, cap, purse, limits)
        self._market = market
        self._learner = MarketLearner(market, prior_auctions) if learn else None
        groups = audience.group_count
        self._arrivals = arrivals or Arrivals(groups, purse.start, purse.end)
        self._kinds, self._kind_of_group = _kinds_of(audience)
        self._codes = self._kind_of_group.tolist()
        self._planner = Planner(*self._kinds_for_plan(cap), ahead=ahead)
        self._interval = (purse.end - purse.start) / plans
        self._first_plan = first_plan
        self._next_plan_at = purse.start
        self._plan: Plan | None = None
        self._first_multiplier = first_multiplier
        self._requests_left = 0.0

    def _kinds_for_plan(self, cap: int) -> tuple[int, "_KindProbability"]:
        return len(self._kinds), _KindProbability(self._kinds, cap)

    @property
    def multiplier(self) -> float:
        return self._first_multiplier if self._plan is None else self._plan.multiplier

    def _wanted(self, group: int, now: float) -> float:
        self._arrivals.record(group)
        if now >= self._next_plan_at and self._arrivals.total >= self._first_plan:
            self._replan(now)
        worth = self.meter.reach_probability(group, self.cap)
        plan = self._plan
        if plan is not None:
            left = self._arrivals.left_of(group, self._requests_left_at(now))
            worth *= plan.discount(self._codes[group], self.meter.count(group), left)
        value = worth / self.multiplier
        if self._market.auction == "second_price":
            return value
        return float(self._market.optimal_bid(value))

    def _requests_left_at(self, now: float) -> float:
        span = self.purse.end - self._planned_at
        return self._requests_left * max(self.purse.end - now, 0.0) / span if span > 0 else 0.0

    def _replan(self, now: float) -> None:
        if self._learner is not None:
            self._market = self._learner.market()
        self._requests_left = self._arrivals.left(now)
        self._planned_at = now
        state = GroupState(
            self._kind_of_group,
            self.meter.impressions_by_group,
            self._arrivals.left_by_group(now),
        )
        guess = None if self._plan is None else self._plan.multiplier
        self._plan = self._planner.solve(state, self.purse.plannable(now), self._market, guess)
        self._next_plan_at = now + self._interval

    def _learn(self, bid: float, price: float, *, won: bool) -> None:
        if self._learner is None:
            return
        if won:
            self._learner.win(bid, price)
        else:
            self._learner.loss(bid)


class _KindProbability:
    """p(n) of each kind of group, also between whole numbers of impressions."""

    def __init__(self, kinds: list[tuple[float, float, float]], cap: int) -> None:
        self._kinds = kinds
        self._cap = cap

    def __call__(self, kind: int, impressions: FloatArray) -> FloatArray:
        size, targeted, dispersion = self._kinds[kind]
        n = np.maximum(np.round(impressions), 0.0)
        ones = np.ones(len(n))
        return group_reach_probability(
            size * ones, targeted * ones, n, dispersion * ones, self._cap
        )


def _kinds_of(audience: Audience) -> tuple[list[tuple[float, float, float]], IntArray]:
    """Kinds of groups that a plan tells apart, and the kind of each group."""
    if isinstance(audience, DisjointAudience):
        kinds = audience.kinds
        listed = list(zip(kinds.size, kinds.targeted, kinds.dispersion, strict=True))
        of_group = kinds.of_group
        zeros = np.zeros(audience.group_count, dtype=np.int64)
        return listed, zeros if of_group is None else of_group
    if isinstance(audience, EveryImpression):
        return [(1e12, 1e12, np.inf)], np.zeros(audience.group_count, dtype=np.int64)
    rule = "have disjoint groups to be planned ahead (use PaperBidder for others)"
    raise KreachError.rule("audience", rule, type(audience).__name__)
