"""The bidders: one function decides live and in simulation.

`PaperBidder` is the paper's: value a request at p_t, divide by a multiplier that an additive rule
keeps on budget. `PlanningBidder` solves for the multiplier with a learned market and learned
arrivals, again and again during the flight; it values a request at what later requests cannot make
up for, or, with `ahead` off, at p_t.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np

from kreach.adsystem.bidding.arrivals import Arrivals
from kreach.adsystem.bidding.auction_markets import AuctionMarkets
from kreach.adsystem.bidding.board_visitors import BoardVisitors
from kreach.adsystem.bidding.budget import Purse
from kreach.adsystem.bidding.competition import Availability
from kreach.adsystem.bidding.conditions import Conditions, GroupState
from kreach.adsystem.bidding.group_kinds import (
    Passing,
    kind_probabilities,
    session_continuation,
)
from kreach.adsystem.bidding.market import Market
from kreach.adsystem.bidding.plan import Plan
from kreach.adsystem.bidding.planning import Planner
from kreach.adsystem.bidding.valuation import (
    CapValuation,
    StackedValuation,
    Valuation,
    VisitorValuation,
)
from kreach.boundary.audience import Audience, OverlappingAudience
from kreach.boundary.checks import as_whole_number
from kreach.boundary.visit_model import VisitModel
from kreach.display.objects import Displayed
from kreach.display.table import Table
from kreach.errors import KreachError
from kreach.numeric.meetings import PART_US

__all__ = ["BidLimits", "Bidder", "PaperBidder", "PlanningBidder", "best_bid"]


_TOO_EARLY = 0.005  # of a flight
_SOON = 0.05  # of the time between plans, until the second: a server's first knows little traffic
_SESSION_EVIDENCE = 0.3  # of a session, in independent ones: who comes often comes in streaks
_DELIVERY_MEMORY = 0.9  # of one plan to the next
_DELIVERY_PRIOR = 0.03  # of the budget, taken to have been spent as expected
_PLANNED_GROUPS = 20_000  # a plan for more is made with every so-manieth of them


class BidLimits:
    """The least and the most that may be bid; a bid below the least is not made.

    >>> import kreach as kr
    >>> limits = kr.BidLimits(least=0.2, most=5.0)
    >>> limits.least, limits.most
    (0.2, 5.0)
    """

    def __init__(self, least: float = 0.0, most: float = float("inf")) -> None:
        if not 0.0 <= least <= most:
            raise KreachError.rule("bid limits", "be 0 ≤ least ≤ most", (least, most))
        self.least, self.most = least, most

    def __repr__(self) -> str:
        return f"BidLimits(least={self.least:g}, most={self.most:g})"


class Bidder(Displayed, ABC):
    """A campaign's bidder: `bid` for each request, then `won` or `lost` for each bid made.

    The money of a bid is held back until its outcome is told. A win counts at once, confirmed or
    not; `void` takes it back if it was never shown.

    A request says whether its auction is first-price or second-price: pass it as `auction`, to the
    bid and to its outcome. Without, the auction type is that of the market given.
    """

    def __init__(
        self,
        valuation: Valuation,
        purse: Purse,
        markets: AuctionMarkets,
        limits: BidLimits | None = None,
    ) -> None:
        self.valuation = valuation
        self.purse = purse
        self.markets = markets
        self.limits = limits or BidLimits()

    @property
    def market(self) -> Market:
        """The market as it is believed to be now, of the auction type of the one given."""
        return self.markets.of()

    @property
    @abstractmethod
    def multiplier(self) -> float:
        """λ: reach per unit of money."""

    @property
    def max_cost_per_reach(self) -> float | None:
        """What a further reach may cost at most; None without a limit."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Cap, budget, spend and multiplier."""
        return {
            "cap": getattr(self.valuation, "cap", None),
            **self.purse.to_dict(),
            "multiplier": self.multiplier,
            "max_cost_per_reach": self.max_cost_per_reach,
        }

    def _display(self) -> Table:
        facts = self.to_dict()
        return Table(type(self).__name__, {"": list(facts), "value": list(facts.values())})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.purse!r}, multiplier={self.multiplier:.4g})"

    def bid(self, group: int, now: float, floor: float = 0.0, auction: str | None = None) -> float:
        """What to bid for a request of this group; 0 means no bid."""
        if not floor >= 0.0:
            raise KreachError.rule("floor", "be a number ≥ 0", floor)
        wanted = self.wanted(group, now, auction)
        wanted = min(wanted, self.limits.most, self.purse.available(now))
        if not (wanted > 0.0 and wanted >= max(floor, self.limits.least)):
            return 0.0
        self.purse.hold(wanted)
        return wanted

    def won(
        self, group: int, bid: float, price: float, now: float, auction: str | None = None
    ) -> None:
        """A bid won; `price` is what is paid, at most the bid."""
        if not 0.0 <= price <= bid:
            raise KreachError.rule("price", f"lie between 0 and the bid ({bid})", price)
        self.valuation.record(group, now)  # first: it refuses a group that does not exist
        self.purse.release(bid)
        self.purse.pay(price, now)
        self.markets.turn_to(now)
        self.learn(bid, price, won=True, auction=auction)

    def lost(self, group: int, bid: float, auction: str | None = None) -> None:
        """A bid lost."""
        self.withdraw(group, bid)
        self.learn(bid, 0.0, won=False, auction=auction)

    def withdraw(self, group: int, bid: float) -> None:
        """A bid was never put to the auction: nothing is learned from it."""
        self.valuation.count(group)  # refuses a group that does not exist
        self.purse.release(bid)

    def void(self, group: int, price: float, won_at: float) -> None:
        """A win was never shown: the money comes back and the impression does not count."""
        if not 0.0 <= price <= self.purse.spent + 1e-9 * self.purse.budget:
            raise KreachError.rule("price", f"be at most the spend ({self.purse.spent})", price)
        self.valuation.revert(group, won_at)
        self.purse.refund(price)

    def wanted(self, group: int, now: float, auction: str | None = None) -> float:
        """The bid before limits and budget; it is asked once for each request."""
        market = self.markets.at(now, auction)
        value = self.value(group, now)
        self.markets.count(auction)
        return best_bid(market, value)

    @abstractmethod
    def value(self, group: int, now: float) -> float:
        """What a request is worth in money, in any auction; it is asked once for each request."""

    def learn(self, bid: float, price: float, *, won: bool, auction: str | None = None) -> None:
        """What an outcome teaches."""
        self.markets.learn(bid, price, won=won, auction=auction)

    def memory(self) -> dict[str, Any]:
        """What was learned, as plain values, to survive a restart."""
        return {"multiplier": self.multiplier}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take up what an earlier run learned."""

    def learn_losses(self, bid: float, count: float, auction: str | None = None) -> None:
        """What several losses at about the same bid teach."""
        self.markets.learn_losses(bid, count, auction)


class PaperBidder(Bidder):
    """The paper's rule: bid (h/w)⁻¹(p_t/λ) and move λ by λ ← λ − ε(1 − r_t) after every request.

    r_t is the spend on the request over the average budget per request. The paper holds bids
    between 0.1 and 10 and starts at "a bid λ₁ = 10", though λ divides the bid. What reproduces its
    figure: λ starts at 10 and is held so that the base bid 1/λ stays in [0.1, 10].

    >>> import kreach as kr
    >>> valuation = kr.CapValuation(kr.Audience.disjoint([20] * 50), cap=1)
    >>> purse = kr.Purse(budget=50.0, start=0.0, end=86_400.0)
    >>> bidder = kr.PaperBidder(valuation, purse, kr.LogNormalMarket(0.0, 0.7), requests=1_000)
    >>> bidder.bid(group=7, now=1.0)  # p_t = 1, divided by λ = 10
    0.1
    """

    def __init__(
        self,
        valuation: Valuation,
        purse: Purse,
        market: Market,
        requests: int,
        *,
        step_size: float = 0.1,
        base_bids: tuple[float, float] = (0.1, 10.0),
        limits: BidLimits | None = None,
    ) -> None:
        super().__init__(valuation, purse, AuctionMarkets(market, learn=False), limits)
        requests = as_whole_number("requests", requests, minimum=1)
        if not 0.0 < base_bids[0] <= base_bids[1] < float("inf"):
            raise KreachError.rule("base_bids", "be 0 < least ≤ most", base_bids)
        if not 0.0 < step_size < float("inf"):
            raise KreachError.rule("step_size", "be a finite number > 0", step_size)
        self.per_request = purse.budget / requests
        self.step_size = step_size
        self.multipliers = 1.0 / base_bids[1], 1.0 / base_bids[0]
        self._multiplier = self.multipliers[1]
        self._pending = False
        self._spent_before = 0.0

    @property
    def max_cost_per_reach(self) -> float | None:
        """The largest base bid."""
        return 1.0 / self.multipliers[0]

    @property
    def multiplier(self) -> float:
        return self._multiplier

    def value(self, group: int, now: float) -> float:
        self._update()
        return self.valuation.probability(group, now) / self._multiplier

    def _update(self) -> None:
        """λ for this request from what the one before cost."""
        if self._pending:
            ratio = (self.purse.spent - self._spent_before) / self.per_request
            moved = self._multiplier - self.step_size * (1.0 - ratio)
            least, most = self.multipliers
            self._multiplier = min(max(moved, least), most)
        self._pending, self._spent_before = True, self.purse.spent

    def remember(self, memory: Mapping[str, Any]) -> None:
        least, most = self.multipliers
        self._multiplier = min(max(float(memory["multiplier"]), least), most)
        self._pending, self._spent_before = False, self.purse.spent


class PlanningBidder(Bidder):
    """Plans the rest of the flight at intervals, with what it has learned by then.

    `market` is what is believed at first; with `learn` it is only a prior, worth
    `prior_auctions`. Until `first_plan` requests have come nothing is known about arrivals, and it
    bids as the paper does, at the multiplier `first_multiplier`. With `plans_itself` off somebody
    else must see when a plan is due, run it and have it adopted (a server, beside its requests).

    With `memory_seconds` the publisher drops bids for people whom it showed the ad `cap` times in
    that time (infinite: ever). Values are then those of bids that get through, plans know that
    dropped bids cost nothing, and what a loss says about prices counts as far as the bid was
    probably not dropped.

    Groups are planned by kind. Profiled audiences, where every group is a kind of its own, are
    planned with the average group. Overlapping audiences and stacked or rolling caps are paced by
    the same plans but valued at p_t (`ahead` must be off).

    A further reach costs at most `max_cost_per_reach`: the multiplier is never below its inverse,
    so an ample budget is not spent on people who are reached already. Without, the limit is
    `max_cost_multiple` times what it costs to reach somebody first (`Planner.first_reach_cost`),
    by the market as it is known to each plan; without either there is no limit.

    >>> import kreach as kr
    >>> purse = kr.Purse(budget=50.0, start=0.0, end=86_400.0)
    >>> audience, prior = kr.Audience.disjoint([20] * 50), kr.LogNormalMarket(0.0, 0.7)
    >>> bidder = kr.PlanningBidder(audience, 1, purse, prior)
    >>> bid = bidder.bid(group=7, now=1.0)
    >>> bidder.won(7, bid, price=0.5 * bid, now=1.0)
    >>> bidder.purse.spent == 0.5 * bid
    True
    """

    def __init__(
        self,
        audience: Audience,
        cap: int,
        purse: Purse,
        market: Market,
        *,
        model: VisitModel | None = None,
        starts_seconds: float = 0.0,
        memory_seconds: float | None = None,
        valuation: Valuation | None = None,
        learn: bool = True,
        ahead: bool = True,
        plans: int = 100,
        first_plan: int = 20,
        first_multiplier: float = 10.0,
        prior_auctions: float = 10.0,
        half_life_auctions: float = 2000.0,
        limits: BidLimits | None = None,
        arrivals: Arrivals | None = None,
        plans_itself: bool = True,
        max_cost_per_reach: float | None = None,
        max_cost_multiple: float | None = None,
    ) -> None:
        if memory_seconds is not None and model is None:
            raise KreachError.rule("memory_seconds", "come with a model", memory_seconds)
        if valuation is None and model is not None:
            valuation = VisitorValuation(
                audience, cap, model, starts_seconds, memory_seconds=memory_seconds
            )
        markets = AuctionMarkets(market, prior_auctions, half_life_auctions, learn=learn)
        super().__init__(valuation or CapValuation(audience, cap), purse, markets, limits)
        if ahead and isinstance(self.valuation, StackedValuation):
            raise KreachError.rule("ahead", "be off for stacked caps", ahead)
        if ahead and isinstance(audience, OverlappingAudience):
            raise KreachError.rule("ahead", "be off for overlapping audiences", ahead)
        if not 0.0 < first_multiplier < float("inf"):
            raise KreachError.rule("first_multiplier", "be a finite number > 0", first_multiplier)
        if plans < 1:
            raise KreachError.rule("plans", "be at least 1", plans)
        self.arrivals = arrivals or Arrivals(audience.group_count, purse.start, purse.end)
        probability, kind_of_group = kind_probabilities(audience, cap, model)
        self.kind_of_group, self.kind_probability = kind_of_group, probability
        step = -(-len(kind_of_group) // _PLANNED_GROUPS)
        self._planned = np.arange(0, len(kind_of_group), step) if step > 1 else None
        self._plans_itself = plans_itself
        more, self._weight = 0.0, 1.0
        if model is not None:
            self._weight = _SESSION_EVIDENCE
            # above a cap of 1 a session that was won is still worth its next request
            more = session_continuation(model) if cap == 1 else 0.0
        kinds = int(kind_of_group.max(initial=0)) + 1
        passing = None
        if memory_seconds is not None:
            remembered = min(memory_seconds / (purse.end - purse.start), 1.0)
            passing = Passing(probability, remembered)
        self._forgets = memory_seconds is not None
        self._planner = Planner(kinds, probability, ahead=ahead, more=more, passing=passing)
        self._interval = (purse.end - purse.start) / plans
        if model is not None:  # with the part of the day another share of people is about
            self._interval = min(self._interval, PART_US / 1e6)
        self._first_plan = first_plan
        # the first moments, however busy, say nothing about the rate of a whole flight
        counted = min(self.arrivals.since, purse.start)  # perhaps before the flight
        early = counted + _TOO_EARLY * (purse.end - purse.start)
        self._next_plan_at = max(purse.start, early)
        self._plan: Plan | None = None
        self._has_plan = False  # now, or in an earlier run
        self._planned_at: float | None = None
        self.sample_share = len(kind_of_group) / (
            len(kind_of_group) if self._planned is None else len(self._planned)
        )
        self._expected, self._paid = [0.0, 0.0], [0.0, 0.0]  # discounted sum, and spent until then
        for name, limit in (
            ("max_cost_per_reach", max_cost_per_reach),
            ("max_cost_multiple", max_cost_multiple),
        ):
            if limit is not None and not 0.0 < limit < float("inf"):
                raise KreachError.rule(name, "be a finite number > 0", limit)
        self._max_cost_per_reach, self._max_cost_multiple = max_cost_per_reach, max_cost_multiple
        self._multiplier = self._limited(first_multiplier)
        self.left_per_time = 0.0

    @property
    def multiplier(self) -> float:
        return self._multiplier

    def _limited(self, multiplier: float) -> float:
        most = self._max_cost_per_reach
        return multiplier if most is None else max(multiplier, 1.0 / most)

    @property
    def max_cost_per_reach(self) -> float | None:
        """What a further reach may cost now; None without a limit, or before the first plan."""
        if self._max_cost_per_reach is not None or self._plan is None:
            return self._max_cost_per_reach
        return self._plan.max_cost_per_reach

    @property
    def plan(self) -> Plan | None:
        """The plan in force."""
        return self._plan

    @cached_property
    def _codes(self) -> list[int]:
        codes: list[int] = self.kind_of_group.tolist()
        return codes

    def value(self, group: int, now: float) -> float:
        worth = self.valuation.probability(group, now)
        if not self.purse.start <= now < self.purse.end:
            return 0.0
        arrivals = self.arrivals
        arrivals.record(group)
        if self._plans_itself and self.plan_due(now):
            self.adopt(self.plan_job(now)())
        plan = self._plan
        if plan is not None:
            left = arrivals.left_of(group, self.left_per_time * max(self.purse.end - now, 0.0))
            worth *= plan.discount(self._codes[group], self.valuation.count(group), left)
            return plan.request_value(worth)
        return worth / self._multiplier

    def plan_due(self, now: float) -> bool:
        """Whether it is time to plan again."""
        return now >= self._next_plan_at and self.arrivals.total >= self._first_plan

    def plan_job(self, now: float, availability: Availability | None = None) -> Callable[[], Plan]:
        """A plan from here, to be solved wherever there is time: it holds copies of all it needs.

        `availability` is what other campaigns of the same bidder leave over.

        Beyond 20,000 groups every so-manieth stands for its neighbours, with its part of the
        budget: the error is below what re-planning mends anyway.
        """
        self.markets.refresh()
        first_served = not self._plans_itself and not self._has_plan
        self._next_plan_at = now + self._interval * (_SOON if first_served else 1.0)
        time_left = max(self.purse.end - now, 1e-9)
        self.left_per_time = self.arrivals.left(now) / time_left
        left = self.arrivals.left_by_group(now, self._planned)
        kinds, budget = self.kind_of_group, self.purse.plannable(now)
        if self._planned is not None:
            budget *= len(self._planned) / len(kinds)
            kinds = kinds[self._planned]
        evidence = self._weight * self.arrivals.evidence(now)
        state = GroupState(kinds, self.valuation.counts(self._planned), left, evidence)
        guess = self._multiplier if self._has_plan else None
        conditions = Conditions(self.limits.most, availability, self._delivery(now))
        return partial(
            self._planner.solve,
            state,
            budget,
            self.markets.planned(self.arrivals.shares_left(now)),
            guess,
            conditions,
            max_cost_per_reach=self._max_cost_per_reach,
            max_cost_multiple=self._max_cost_multiple,
        )

    def _delivery(self, now: float) -> float:
        """What plans spent over what they expected to; the last dozen or so count."""
        plan, spent = self._plan, self.purse.spent_by_all
        if plan is not None and self._planned_at is not None:
            expected = plan.expected_spend * self.sample_share
            costs = self.markets.cost_by_hour(plan.multiplier)
            part = self.arrivals.part(self._planned_at, now, costs)
            for sums, amount in ((self._expected, expected * part), (self._paid, spent)):
                sums[0] = _DELIVERY_MEMORY * sums[0] + amount - sums[1]
        self._paid[1] = spent
        self._planned_at = now
        prior = _DELIVERY_PRIOR * self.purse.budget
        return float(np.clip((self._paid[0] + prior) / (self._expected[0] + prior), 0.25, 4.0))

    def restart_delivery(self) -> None:
        """Plans are for other money from now on: forget how earlier ones were spent."""
        self._expected, self._paid = [0.0, 0.0], [0.0, self.purse.spent_by_all]
        self._planned_at = None

    def adopt(self, plan: Plan) -> None:
        """Bid by this plan from now on."""
        self._plan, self._multiplier, self._has_plan = plan, plan.multiplier, True

    def memory(self) -> dict[str, Any]:
        memory: dict[str, Any] = {"multiplier": self._multiplier, "planned": self._has_plan}
        if isinstance(self.valuation, BoardVisitors):
            memory["visitors"] = self.valuation.memory()
        return memory | self.markets.memory()

    def lost(self, group: int, bid: float, auction: str | None = None) -> None:
        self.withdraw(group, bid)
        self.learn_losses(bid, self.outbid(self.passing(group), bid, auction), auction)

    def passing(self, group: int) -> float:
        """The probability that the publisher did not drop a bid for the group's last request."""
        if self._forgets and isinstance(self.valuation, VisitorValuation | BoardVisitors):
            return self.valuation.passing(group)
        return 1.0

    @property
    def drops_repeats(self) -> bool:
        """Whether `passing` may be below 1."""
        return self._forgets and isinstance(self.valuation, VisitorValuation | BoardVisitors)

    def outbid(self, passed: float, bid: float, auction: str | None = None) -> float:
        """The probability that a lost bid was outbid, if it passed the publisher's cap with
        probability `passed`: one that was dropped says nothing about prices."""
        if passed >= 1.0:
            return 1.0
        win = float(self.markets.of(auction).win_probability(np.array(bid)))
        losing = passed * (1.0 - win)
        return losing / max(losing + 1.0 - passed, 1e-12)

    def remember(self, memory: Mapping[str, Any]) -> None:
        self._multiplier = self._limited(float(memory["multiplier"]))
        self._has_plan = bool(memory["planned"])
        self.markets.remember(memory)
        if isinstance(self.valuation, BoardVisitors) and memory.get("visitors") is not None:
            self.valuation.remember(memory["visitors"])


def best_bid(market: Market, value: float) -> float:
    """The bid for a request worth so much money."""
    if value <= 0.0 or market.auction == "second_price":
        return value
    return float(market.optimal_bid(value))
