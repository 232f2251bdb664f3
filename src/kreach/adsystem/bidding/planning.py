"""Plans for a whole campaign: one multiplier for all groups, tables shared by groups of a kind."""

from dataclasses import replace

import numpy as np

from kreach.adsystem.bidding.class_probability import ClassProbability
from kreach.adsystem.bidding.class_tables import ClassGroups, ClassTables, solve_classes
from kreach.adsystem.bidding.conditions import Conditions, GroupState
from kreach.adsystem.bidding.group_kinds import KindProbability, Passing, kind_classes
from kreach.adsystem.bidding.multiplier import HIGHEST, LOWEST, find_multiplier, guess_multiplier
from kreach.adsystem.bidding.plan import Discounts, Plan
from kreach.adsystem.bidding.responses import PlannedMarket, market_response
from kreach.numeric.planning import Response

__all__ = ["Planner"]

_DELIVERED = 0.95  # of the budget
_MOST_AUCTIONS = 0.9  # whoever wins so many pays the price that a default limit is based on
_FREE = Conditions()


class Planner:
    """Solves for the multiplier at which the expected spend of all groups is the budget.

    Large groups are planned in blocks of impressions (with p averaged over a block and requests
    counted in blocks as well), so the work does not grow with group sizes or budgets. Kinds of
    nearly the same size share a table (`kind_classes`): values stay those of each kind, the factor
    for what comes later is their class's.

    `more` is the chance that a request is followed by another of its session (0: every request is
    a session of its own). Plans then count sessions. `passing` is the probability that a publisher
    who caps by person does not drop a bid, by kind and draws.
    """

    def __init__(
        self,
        kind_count: int,
        probability: KindProbability,
        *,
        ahead: bool = True,
        more: float = 0.0,
        passing: Passing | None = None,
    ):
        self._ahead = ahead
        self._more = more if ahead else 0.0
        self._class_of, members = kind_classes(probability, kind_count)
        self._probability = ClassProbability(probability, members, passing)

    def solve(
        self,
        state: GroupState,
        budget: float,
        market: PlannedMarket,
        guess: float | None = None,
        conditions: Conditions = _FREE,
        *,
        max_cost_per_reach: float | None = None,
        max_cost_multiple: float | None = None,
    ) -> Plan:
        """The plan for the rest of a flight; a good guess of the multiplier saves most work.

        A further reach costs at most `max_cost_per_reach`: the multiplier is at least its inverse,
        and what cannot be spent so is left. Without, the limit is `max_cost_multiple` times
        `first_reach_cost`; without either there is none.
        """
        whole = conditions.response(market)

        def response(multiplier: float) -> Response:
            return conditions.at(whole, multiplier).of_sessions(self._more)

        if budget <= 0.0 or state.requests_left.sum() <= 0.0:
            none: list[Discounts | None] = [None] * len(self._class_of)
            return Plan(HIGHEST, none, 0.0, 0.0, response(HIGHEST), self._more, max_cost_per_reach)
        most = max_cost_per_reach
        if most is None and max_cost_multiple is not None:
            most = max_cost_multiple * self.first_reach_cost(state, market)
        lowest = LOWEST if most is None else min(max(1.0 / most, LOWEST), HIGHEST)
        groups = ClassGroups(state, self._class_of, self._more)
        tried: dict[float, ClassTables] = {}

        def spend(log_multiplier: float) -> float:
            if log_multiplier not in tried:
                multiplier = float(np.exp(log_multiplier))
                tried[log_multiplier] = self._tables(groups, multiplier, response(multiplier))
            return tried[log_multiplier].spend

        guess = guess or self._first_guess(state, budget, whole.of_sessions(self._more))
        best = find_multiplier(spend, budget, max(guess, lowest), lowest)
        multiplier = float(np.exp(best))
        plan = self._plan(multiplier, tried[best], response(multiplier), most)
        if plan.expected_spend < _DELIVERED * budget:
            plan.shortfall = self._shortfall(groups, plan, market, conditions)
        return plan

    def at_multiplier(
        self,
        state: GroupState,
        market: PlannedMarket,
        multiplier: float,
        max_cost_per_reach: float | None = None,
    ) -> Plan:
        """The plan at a given multiplier, with what it will spend and reach."""
        response = market_response(market).of_sessions(self._more)
        tables = self._tables(ClassGroups(state, self._class_of, self._more), multiplier, response)
        return self._plan(multiplier, tables, response, max_cost_per_reach)

    def first_reach_cost(self, state: GroupState, market: PlannedMarket) -> float:
        """What it costs to reach somebody first: the price of who wins nine auctions of ten, over
        the chance that the person behind a request is targeted."""
        response = market_response(market)
        at = int(np.argmax(response.win >= _MOST_AUCTIONS * response.win[-1]))
        price = float(response.cost[at] / max(response.win[at], 1e-300))
        classes = self._class_of[state.kind]
        requests = np.bincount(classes, weights=state.requests_left)
        numbers = np.arange(len(requests))
        chance = float(requests @ self._probability.at(numbers, np.zeros(len(numbers))))
        chance /= max(float(state.requests_left.sum()), 1e-300)
        return price / chance if chance > 0.0 else float("inf")

    def _tables(self, groups: ClassGroups, multiplier: float, response: Response) -> ClassTables:
        return solve_classes(self._probability, groups, multiplier, response, ahead=self._ahead)

    def _plan(
        self, multiplier: float, tables: ClassTables, response: Response, most: float | None = None
    ) -> Plan:
        by_class: dict[int, Discounts] = dict(
            zip(tables.groups.numbers.tolist(), tables.discounts(), strict=True)
        )
        by_kind = [by_class.get(number) for number in self._class_of.tolist()]
        reach = tables.value + multiplier * tables.spend
        return Plan(multiplier, by_kind, tables.spend, reach, response, self._more, most)

    def _first_guess(self, state: GroupState, budget: float, response: Response) -> float:
        classes = self._class_of[state.kind]
        worth = self._probability.at(classes, state.impressions.astype(np.float64))
        sessions = (1.0 - self._more) * state.requests_left
        return guess_multiplier(worth, sessions, budget, response)

    def _shortfall(
        self, groups: ClassGroups, plan: Plan, market: PlannedMarket, conditions: Conditions
    ) -> str:
        """Why the budget cannot be spent: what would let most more be spent if it were gone."""
        reasons = {}
        if np.isfinite(conditions.max_bid):
            reasons["bid limit"] = replace(conditions, max_bid=float("inf"))
        if conditions.availability is not None:
            alone = replace(conditions, availability=None, delivered=1.0)
            reasons["competition of other campaigns"] = alone
        none = "limit on the cost of a reach" if plan.limited else "too few eligible requests"
        best, most = none, 1.2 * plan.expected_spend
        for reason, without in reasons.items():
            free = without.at(without.response(market), plan.multiplier).of_sessions(self._more)
            spend = self._tables(groups, plan.multiplier, free).spend
            if spend > most:
                best, most = reason, spend
        return best
