"""Before a flight: what a budget will reach, and what budget a reach will take, with bands."""

from dataclasses import dataclass

import numpy as np

from kreach.adsystem.bidding.market import Market
from kreach.adsystem.bidding.planning import (
    GroupState,
    Plan,
    Planner,
    kind_probabilities,
    market_response,
)
from kreach.adsystem.measurement.report import measure
from kreach.boundary.audience import Audience, OverlappingAudience
from kreach.boundary.checks import as_whole_number
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["Outlook", "OutlookMaker"]

_SIMULATED_GROUPS = 300_000
_MAX_TRIALS = 200
_FEWEST_TRIALS = 20
_STEPS = 64
_LOWEST = 1e-9  # multiplier
_LEFT = 0.01  # of a budget: less than this is not called unspent


@dataclass(frozen=True)
class Outlook:
    """What to expect of a budget. `band` holds reach with probability `level`.

    `unspent` is what will be left of the budget and `unspent_reason` why. `max_cost_per_reach` is
    what a further reach may cost, if that is limited.
    """

    budget: float
    spend: float
    reach: float
    band: tuple[float, float]
    level: float
    impressions: float
    average_frequency: float
    multiplier: float
    unspent: float = 0.0
    unspent_reason: str | None = None
    max_cost_per_reach: float | None = None


class OutlookMaker:
    """Plans a flight on an audience and a market, with so many requests expected in all.

    Requests are taken to come from groups in proportion to their size. The plan gives the
    multiplier; reach, spend and band come from simulating flights under it, with the chance of who
    was behind each impression added to the band. A flight never has more impressions than requests.

    What a further reach may cost is limited as for `PlanningBidder`; the default limit (a multiple)
    holds for budgets, not for a reach that somebody asks for.
    """

    def __init__(
        self,
        audience: Audience,
        market: Market,
        requests: int,
        cap: int,
        *,
        max_cost_per_reach: float | None = None,
        max_cost_multiple: float | None = None,
    ) -> None:
        if max_cost_per_reach is not None and not 0.0 < max_cost_per_reach < float("inf"):
            rule = "be a finite number > 0"
            raise KreachError.rule("max_cost_per_reach", rule, max_cost_per_reach)
        self._most, self._multiple = max_cost_per_reach, max_cost_multiple
        if isinstance(audience, OverlappingAudience):
            raise KreachError.rule("audience", "have disjoint groups", type(audience).__name__)
        self._audience, self._market = audience, market
        self._cap = as_whole_number("cap", cap, minimum=1)
        requests = as_whole_number("requests", requests, minimum=1)
        probability, kinds = kind_probabilities(audience, self._cap)
        self._probability = probability
        self._requests = requests
        self._planner = Planner(int(kinds.max(initial=0)) + 1, probability)
        sizes = audience.group_sizes.astype(np.float64)
        left = requests * sizes / max(sizes.sum(), 1.0)
        self._state = GroupState(kinds, np.zeros(len(sizes), dtype=np.int64), left)

    def for_budget(self, budget: float, *, level: float = 0.95, seed: int = 0) -> Outlook:
        """What this budget will reach."""
        if not 0.0 < budget < float("inf"):
            raise KreachError.rule("budget", "be a finite number > 0", budget)
        limits = {"max_cost_per_reach": self._most, "max_cost_multiple": self._multiple}
        plan = self._planner.solve(self._state, budget, self._market, **limits)
        outlook = self._outlook(plan, budget, level, seed)
        aimed = budget
        for _ in range(2):  # the plan is a little off the simulated flights: aim beside it
            if outlook.spend >= 0.99 * budget or plan.limited:
                break
            aimed *= budget / max(outlook.spend, 1e-3 * budget, 1e-300)
            guess = plan.multiplier
            plan = self._planner.solve(self._state, aimed, self._market, guess, **limits)
            outlook = self._outlook(plan, budget, level, seed)
        return outlook

    def for_reach(self, reach: float, *, level: float = 0.95, seed: int = 0) -> Outlook:
        """The budget that reaches so many; refuses what no budget reaches."""
        lowest = _LOWEST if self._most is None else 1.0 / self._most
        most = self._planner.at_multiplier(self._state, self._market, lowest).expected_reach
        if not 0.0 < reach <= most:
            rule = f"lie between 0 and what is possible ({most:.1f})"
            if self._most is not None:
                rule = f"lie between 0 and what {self._most:g} per further reach buy ({most:.1f})"
            raise KreachError.rule("reach", rule, reach)
        outlook = self._outlook(self._plan_for(reach), None, level, seed)
        aimed = reach
        for _ in range(4):  # the plan is a little off the simulated flights: aim beside it
            aimed = min(aimed * reach / max(outlook.reach, 1e-300), most)
            outlook = self._outlook(self._plan_for(aimed), None, level, seed)
        return outlook

    def _plan_for(self, reach: float) -> Plan:
        low, high = np.log(1e-9), np.log(1e9)
        for _ in range(60):
            middle = 0.5 * (low + high)
            plan = self._planner.at_multiplier(self._state, self._market, float(np.exp(middle)))
            if abs(plan.expected_reach - reach) <= 1e-4 * reach:
                break
            low, high = (middle, high) if plan.expected_reach > reach else (low, middle)
        return plan

    def _outlook(self, plan: Plan, budget: float | None, level: float, seed: int) -> Outlook:
        if not 0.0 < level < 1.0:
            raise KreachError.rule("level", "lie between 0 and 1, both excluded", level)
        generator = np.random.default_rng(as_whole_number("seed", seed, minimum=0))
        groups = self._audience.group_count
        trials = int(np.clip(_SIMULATED_GROUPS // max(groups, 1), _FEWEST_TRIALS, _MAX_TRIALS))
        most = np.inf if budget is None else budget
        flights, spends = self._fly(plan, trials, most, generator)
        reports = [measure(self._audience, counts, self._cap) for counts in flights]
        expected = np.array([report.reach for report in reports])
        # what each flight reached: chance decides who was behind the impressions
        chance = np.array([report.std for report in reports]) * generator.standard_normal(trials)
        tail = (1.0 - level) / 2.0
        low, high = np.quantile(expected + chance, [tail, 1.0 - tail]).tolist()
        shown = float(np.mean([report.exposure.targeted_impressions for report in reports]))
        unique = float(np.mean([report.at_least(1)[0] for report in reports]))
        spend = min(float(spends.mean()), most)
        return Outlook(
            spend if budget is None else budget,
            spend,
            float(expected.mean()),
            (max(low, 0.0), high),
            level,
            shown,
            shown / unique if unique > 0.0 else 0.0,
            plan.multiplier,
            *self._unspent(plan, budget, spend, float(flights.sum(axis=1).mean())),
            plan.max_cost_per_reach if self._most is None else self._most,
        )

    def _unspent(
        self, plan: Plan, budget: float | None, spend: float, bought: float
    ) -> tuple[float, str | None]:
        """What is left of a budget, and why."""
        left = 0.0 if budget is None else max(budget - spend, 0.0)
        if budget is None or left <= _LEFT * budget:
            return left, None
        if plan.limited:
            return left, f"a further reach would cost more than {plan.max_cost_per_reach:.4g}"
        if bought >= (1.0 - _LEFT) * self._requests:
            return left, "every request is bought"
        return left, "nobody is left to reach"

    def _fly(
        self, plan: Plan, trials: int, budget: float, generator: np.random.Generator
    ) -> tuple[IntArray, FloatArray]:
        """Impressions by group (a row per simulated flight), and what the flights spent."""
        response = market_response(self._market)
        counts = np.zeros((trials, self._audience.group_count), dtype=np.int64)
        spends = np.zeros(trials)
        kinds = [np.flatnonzero(self._state.kind == k) for k in np.unique(self._state.kind)]
        known = [self._probability(k, np.arange(64.0)) for k in np.unique(self._state.kind)]
        for step in range(_STEPS):
            open_still = (spends < budget)[:, None]
            for at, (kind, mine) in enumerate(zip(np.unique(self._state.kind), kinds, strict=True)):
                own, left = counts[:, mine], self._state.requests_left[mine]
                while own.max(initial=0) >= len(known[at]):
                    known[at] = self._probability(kind, np.arange(2.0 * len(known[at])))
                to_come = left * ((_STEPS - step - 0.5) / _STEPS)
                discount = plan.discounts(kind, own, np.broadcast_to(to_come, own.shape))
                win, cost = response.win_and_cost(known[at][own] * discount / plan.multiplier)
                won = generator.poisson(left / _STEPS * win * open_still)
                counts[:, mine] = own + won
                spends += (won * (cost / np.maximum(win, 1e-300))).sum(axis=1)
        self._drop_surplus(counts, spends, generator)
        return counts, spends

    def _drop_surplus(
        self, counts: IntArray, spends: FloatArray, generator: np.random.Generator
    ) -> None:
        """Requests come at random, but not more than expected in all: drop wins beyond them."""
        bought = counts.sum(axis=1)
        for at in np.flatnonzero(bought > self._requests).tolist():
            kept = generator.multivariate_hypergeometric(
                counts[at], self._requests, method="marginals"
            )
            counts[at], spends[at] = kept, spends[at] * (self._requests / bought[at])
