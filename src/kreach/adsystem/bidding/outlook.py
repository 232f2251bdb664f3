"""Before a flight: what a budget will reach, and what budget a reach will take, with bands."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from kreach.adsystem.bidding.conditions import GroupState
from kreach.adsystem.bidding.group_kinds import (
    kind_classes,
    kind_probabilities,
    planned_days,
    session_continuation,
)
from kreach.adsystem.bidding.group_sample import GroupSample
from kreach.adsystem.bidding.market import Market
from kreach.adsystem.bidding.multiplier import HIGHEST, LOWEST, find_multiplier
from kreach.adsystem.bidding.plan import Plan
from kreach.adsystem.bidding.planning import Planner
from kreach.adsystem.measurement.drawn import GroupDraws
from kreach.adsystem.measurement.report import ReachReport, measure
from kreach.boundary.audience import Audience, DisjointAudience, OverlappingAudience
from kreach.boundary.checks import as_whole_number
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["Outlook", "OutlookMaker"]

_SIMULATED_GROUPS = 300_000
_MAX_TRIALS = 200
_FEWEST_TRIALS = 20
_STEPS, _FEW_STEPS = 64, 24  # of a simulated flight: of a fine one, and of a coarse one
_MAX_SEARCH = 24
_SEARCH_GROUPS = 5_000
_MAX_AIMS, _FEW_GROUPS = 3, 2_000
_DEVIATION_GROUPS = 250
_CLOSE = 0.002  # of the people wanted
_LEFT = 0.01  # of a budget: less than this is not called unspent


@dataclass(frozen=True)
class Outlook:
    """What to expect of a budget. `band` holds reach with probability `level`.

    `people` are those reached at least once, whatever the cap. `unspent` is what will be left of
    the budget and `unspent_reason` why. `max_cost_per_reach` is what a further reach may cost, if
    that is limited.

    >>> import kreach as kr
    >>> market = kr.LogNormalMarket(0.0, 0.5)
    >>> found = kr.plan(kr.Audience.disjoint([20] * 10), market, 1_000, cap=1, budgets=20)
    >>> outlook = found.outlooks[0]
    >>> round(outlook.reach), tuple(map(round, outlook.band)), outlook.unspent_reason
    (47, (41, 53), None)
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
    people: float = 0.0
    people_band: tuple[float, float] = (0.0, 0.0)


class OutlookMaker:
    """Plans a flight on an audience and a market, with so many requests expected in all.

    Requests come from groups by the law of the people in them (`visits_by_group`): as unevenly as
    the visit model has it, or else the audience's dispersion. `traffic` gives a weight per group
    instead: groups formed by visit rates differ much in it. The plan gives the multiplier; reach,
    spend and band come from simulating flights under it, with the chance of who was behind each
    impression added to the band.

    With the site's visit model requests come in sessions, and reach is that of effective draws, as
    a report on the flight will have it. At cap 1 no session is won twice.

    A flight never has more impressions than requests. What a further reach may cost is limited as
    for `PlanningBidder`; the default limit (a multiple) holds for budgets, not for a reach that
    somebody asks for.

    `simulated_groups` is how many groups all simulated flights of a budget have together: fewer are
    quicker, and their bands come from the variance instead of the flights' own quantiles. Where an
    audience has more groups than a flight can then have, flights are of a sample of them
    (`GroupSample`), and money and people are multiplied. An audience may itself be a sample, which
    `stands_for` so many times as many groups of the same kinds; requests are those of all.
    """

    def __init__(
        self,
        audience: Audience,
        market: Market,
        requests: int,
        cap: int,
        *,
        model: VisitModel | None = None,
        traffic: npt.ArrayLike | None = None,
        max_cost_per_reach: float | None = None,
        max_cost_multiple: float | None = None,
        simulated_groups: float | None = None,
        stands_for: float = 1.0,
    ) -> None:
        simulated = _SIMULATED_GROUPS if simulated_groups is None else simulated_groups
        self._simulated_groups = as_whole_number("simulated_groups", simulated, minimum=1)
        if max_cost_per_reach is not None and not 0.0 < max_cost_per_reach < float("inf"):
            rule = "be a finite number > 0"
            raise KreachError.rule("max_cost_per_reach", rule, max_cost_per_reach)
        self._most, self._multiple = max_cost_per_reach, max_cost_multiple
        if isinstance(audience, OverlappingAudience):
            raise KreachError.rule("audience", "have disjoint groups", type(audience).__name__)
        if model is not None and not isinstance(audience, DisjointAudience):
            kind = type(audience).__name__
            raise KreachError.rule("audience", "have no visit shares with a visit model", kind)
        if model is not None and isinstance(audience, DisjointAudience):
            model = model.for_audience(audience)
        self._market, self._model = market, model
        self._cap = as_whole_number("cap", cap, minimum=1)
        requests = as_whole_number("requests", requests, minimum=1)
        self._fine = self._simulated_groups >= _SIMULATED_GROUPS
        most = self._simulated_groups // (_FEWEST_TRIALS if self._fine else 1)
        if traffic is None:
            sample = GroupSample.by_visits(audience, model, most)
        else:
            sample = GroupSample.of(audience, _weights(audience, traffic), most)
        self._audience, self._scale = sample.audience, stands_for * sample.scale
        probability, kinds = kind_probabilities(sample.audience, self._cap, model)
        if not self._fine:  # kinds of nearly one size fly as one; each is measured as it is
            class_of, members = kind_classes(probability, int(kinds.max(initial=0)) + 1)
            kinds = members[class_of[kinds]]
        self._probability = probability
        self._more = session_continuation(model)
        self._planner = Planner(
            int(kinds.max(initial=0)) + 1, probability, more=self._more if self._cap == 1 else 0.0
        )
        self._requests = max(round(requests / self._scale), 1)
        left = requests / self._scale * sample.weights / max(sample.weights.sum(), 1e-300)
        self._state = GroupState(kinds, np.zeros(len(left), dtype=np.int64), left)

    def for_budget(self, budget: float, *, level: float = 0.95, seed: int = 0) -> Outlook:
        """What this budget will reach."""
        if not 0.0 < budget < float("inf"):
            raise KreachError.rule("budget", "be a finite number > 0", budget)
        found = self._for_budget(max(budget / self._scale, 5e-324), level, seed)
        return replace(_scaled(found, self._scale), budget=budget)

    def _for_budget(self, budget: float, level: float, seed: int) -> Outlook:
        limits: dict[str, Any] = {
            "max_cost_per_reach": self._most,
            "max_cost_multiple": self._multiple,
        }
        plan, aimed = self._planner.solve(self._state, budget, self._market, **limits), budget
        for aim in range(_MAX_AIMS):  # the plan is a little off the simulated flights: aim beside
            if self._model is not None:
                plan = self._paced(plan, aimed, seed)
            elif aim:
                guess = plan.multiplier
                plan = self._planner.solve(self._state, aimed, self._market, guess, **limits)
            outlook = self._outlook(plan, budget, level, seed)
            if outlook.spend >= (1.0 - _LEFT) * budget or plan.limited or _buys_all(plan):
                break
            aimed *= budget / max(outlook.spend, 1e-3 * budget, 1e-300)
        return outlook

    def _paced(self, plan: Plan, budget: float, seed: int) -> Plan:
        """The plan whose flights spend the budget: sessions cost more, or less, than it expects."""
        most = plan.max_cost_per_reach
        lowest = LOWEST if most is None else min(max(1.0 / most, LOWEST), HIGHEST)
        start = float(np.log(plan.multiplier))
        tried: dict[float, tuple[float, Plan]] = {}

        def spend(log_multiplier: float) -> float:
            if log_multiplier not in tried:
                multiplier = float(np.exp(log_multiplier))
                found = plan if log_multiplier == start else self._at(multiplier, most)
                tried[log_multiplier] = self._free_spend(found, seed), found
            return tried[log_multiplier][0]

        return tried[find_multiplier(spend, budget, plan.multiplier, lowest)][1]

    def _free_spend(self, plan: Plan, seed: int) -> float:
        """What a plan would spend if the budget did not stop it, from few flights."""
        trials = max(_FEW_GROUPS // max(self._audience.group_count, 1), 1)
        _, _, spends = self._fly(plan, trials, np.inf, np.random.default_rng(seed))
        return float(spends.mean())

    def for_reach(self, reach: float, *, level: float = 0.95, seed: int = 0) -> Outlook:
        """The budget that reaches so many; refuses what no budget reaches."""
        possible = "what is possible"
        if self._most is not None:
            possible = f"what {self._most:g} per further reach buy"
        return self._for_reached("reach", reach, self._cap, possible, level, seed)

    def for_people(self, people: float, *, level: float = 0.95, seed: int = 0) -> Outlook:
        """The budget that reaches so many people at least once; refuses what no budget reaches."""
        return self._for_reached("people", people, 1, "what can be reached", level, seed)

    def _for_reached(
        self, name: str, amount: float, cap: int, possible: str, level: float, seed: int
    ) -> Outlook:
        """The plan whose simulated flights reach so many at a cap."""
        scale, wanted = self._scale, amount / self._scale
        most = self._reached(self._at(self._lowest), cap, seed)
        if not 0.0 < amount <= most * scale:
            rule = f"lie between 0 and {possible} ({most * scale:.1f})"
            raise KreachError.rule(name, rule, amount)

        def missing(log_multiplier: float) -> float:
            plan = self._at(float(np.exp(log_multiplier)))
            # the plan's own reach is quick, but off by some: simulate where it is near
            if plan.expected_reach < 0.5 * wanted:
                return plan.expected_reach / wanted - 1.0
            return self._reached(plan, cap, seed) / wanted - 1.0

        low, high = float(np.log(self._lowest)), float(np.log(HIGHEST))
        found = _find_zero(missing, low, high, most / wanted - 1.0, -1.0, _CLOSE)
        return _scaled(self._outlook(self._at(float(np.exp(found))), None, level, seed), scale)

    @property
    def _lowest(self) -> float:
        """The multiplier at which as much is reached as may be."""
        return LOWEST if self._most is None else 1.0 / self._most

    def _at(self, multiplier: float, most: float | None = None) -> Plan:
        return self._planner.at_multiplier(self._state, self._market, multiplier, most)

    def _reached(self, plan: Plan, cap: int, seed: int) -> float:
        """What a plan reaches at a cap if no budget stops it, from few flights."""
        trials = self._trials(min(self._simulated_groups, _SEARCH_GROUPS))
        flights = self._fly(plan, trials, np.inf, np.random.default_rng(seed))
        reports = [self._measure(*flight) for flight in zip(*flights[:2], strict=True)]
        return float(np.mean([replace(report, cap=cap).reach for report in reports]))

    def _trials(self, simulated_groups: int) -> int:
        trials = simulated_groups // max(self._audience.group_count, 1)
        return int(np.clip(trials, 1, _MAX_TRIALS))

    def _outlook(self, plan: Plan, budget: float | None, level: float, seed: int) -> Outlook:
        if not 0.0 < level < 1.0:
            raise KreachError.rule("level", "lie between 0 and 1, both excluded", level)
        generator = np.random.default_rng(as_whole_number("seed", seed, minimum=0))
        trials = self._trials(self._simulated_groups)
        if self._fine:
            trials = max(trials, _FEWEST_TRIALS)
        most = np.inf if budget is None else budget
        draws, counts, spends = self._fly(plan, trials, most, generator)
        reports = [self._measure(*flight) for flight in zip(draws, counts, strict=True)]
        figures = []
        for cap in dict.fromkeys((self._cap, 1)):
            expected = np.array([replace(report, cap=cap).reach for report in reports])
            if self._fine:
                std = np.array([replace(report, cap=cap).std for report in reports])
            else:
                std = self._few_groups_std(draws[0], counts[0], cap)
            figures.append(_mean_and_band(expected, std, level, generator))
        (reach, band), (unique, people_band) = figures[0], figures[-1]
        shown = float(np.mean([report.exposure.targeted_impressions for report in reports]))
        spend = min(float(spends.mean()), most)
        return Outlook(
            spend if budget is None else budget,
            spend,
            reach,
            band,
            level,
            shown,
            shown / unique if unique > 0.0 else 0.0,
            plan.multiplier,
            *self._unspent(plan, budget, spend, float(counts.sum(axis=1).mean())),
            plan.max_cost_per_reach if self._most is None else self._most,
            unique,
            people_band,
        )

    def _few_groups_std(self, draws: IntArray, impressions: IntArray, cap: int) -> FloatArray:
        """The deviation of who was behind a flight, from few groups: an exact one takes seconds."""
        audience = self._audience
        rows = np.arange(audience.group_count, dtype=np.float64)
        few = GroupSample.of(audience, rows, _DEVIATION_GROUPS)
        chosen = few.weights.astype(np.int64)
        report = self._measure(draws[chosen], impressions[chosen], few.audience)
        return np.array([replace(report, cap=cap).std * few.scale**0.5])

    def _measure(
        self, draws: IntArray, impressions: IntArray, audience: Audience | None = None
    ) -> ReachReport:
        """What a report will say about a flight on the audience, or on some of its groups."""
        audience, model = self._audience if audience is None else audience, self._model
        if model is None or not isinstance(audience, DisjointAudience):
            return measure(audience, impressions, self._cap)
        window = GroupDraws(
            model, draws.astype(np.float64), np.zeros(len(draws)), planned_days(model), 0.0
        )
        exposure = window.exposure(audience, impressions)
        total = int(impressions.sum())
        return ReachReport(self._cap, total, audience.targeted_user_count, exposure)

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
        return left, "nobody is left to reach" if _buys_all(plan) else None

    def _fly(
        self, plan: Plan, trials: int, budget: float, generator: np.random.Generator
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Sessions won and impressions by group (a row per simulated flight), and the spends."""
        draws = np.zeros((trials, self._audience.group_count), dtype=np.int64)
        counts = draws.copy()
        spends = np.zeros(trials)
        steps = _STEPS if self._fine else _FEW_STEPS
        kinds = [np.flatnonzero(self._state.kind == k) for k in np.unique(self._state.kind)]
        known = [self._probability(k, np.arange(64.0)) for k in np.unique(self._state.kind)]
        for step in range(steps):
            open_still = (spends < budget)[:, None]
            for at, (kind, mine) in enumerate(zip(np.unique(self._state.kind), kinds, strict=True)):
                own, left = draws[:, mine], self._state.requests_left[mine]
                while own.max(initial=0) >= len(known[at]):
                    known[at] = self._probability(kind, np.arange(2.0 * len(known[at])))
                to_come = left * ((steps - step - 0.5) / steps)
                discount = plan.discounts(kind, own, np.broadcast_to(to_come, own.shape))
                worth = known[at][own] * discount / plan.multiplier
                won, shown, cost = self._sessions(plan, worth, left / steps * open_still, generator)
                draws[:, mine] = own + won
                counts[:, mine] += shown
                spends += (shown * cost).sum(axis=1)
        self._drop_surplus(draws, counts, spends, generator)
        return draws, counts, spends

    def _sessions(
        self, plan: Plan, worth: FloatArray, requests: FloatArray, generator: np.random.Generator
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Sessions won among so many requests, their impressions, and the cost of one.

        Above a cap of 1 all requests of a session are bid for: after a win another follows with
        probability eW / (1 − e(1 − W)).
        """
        more = self._more
        win, cost = plan.response.win_and_cost(worth)
        each = cost / np.maximum(win, 1e-300)
        if self._cap == 1 or more == 0.0:
            won = generator.poisson(requests * (1.0 - more) * win)
            return won, won, each
        tries = 1.0 - more * (1.0 - win)
        won = generator.poisson(requests * (1.0 - more) * win / tries)
        again = generator.negative_binomial(np.maximum(won, 1), 1.0 - more * win / tries)
        return won, won + np.where(won > 0, again, 0), each

    def _drop_surplus(
        self,
        draws: IntArray,
        counts: IntArray,
        spends: FloatArray,
        generator: np.random.Generator,
    ) -> None:
        """Requests come at random, but not more than expected in all: drop wins beyond them."""
        bought = counts.sum(axis=1)
        for at in np.flatnonzero(bought > self._requests).tolist():
            kept = generator.multivariate_hypergeometric(
                counts[at], self._requests, method="marginals"
            )
            counts[at], spends[at] = kept, spends[at] * (self._requests / bought[at])
            draws[at] = np.minimum(draws[at], kept)


def _buys_all(plan: Plan) -> bool:
    """Whether no lower multiplier is to be had: whoever can be reached is worth any price."""
    return plan.multiplier <= LOWEST * (1.0 + 1e-9)


def _weights(audience: Audience, traffic: npt.ArrayLike) -> FloatArray:
    """How requests are shared among groups, as a caller gives it."""
    weights = np.asarray(traffic, dtype=np.float64)
    fits = weights.shape == (audience.group_count,) and bool((weights >= 0.0).all())
    if not (fits and 0.0 < weights.sum() < float("inf")):
        rule = f"be {audience.group_count} weights ≥ 0, not all 0"
        raise KreachError.rule("traffic", rule, traffic)
    return weights


def _scaled(outlook: Outlook, scale: float) -> Outlook:
    """The outlook of so many times as many groups, which are independent of each other.

    Means are multiplied, deviations by the square root.
    """
    if scale == 1.0:
        return outlook

    def band(mean: float, ends: tuple[float, float]) -> tuple[float, float]:
        low, high = (scale * mean + scale**0.5 * (end - mean) for end in ends)
        return max(low, 0.0), high

    amounts = ("budget", "spend", "reach", "impressions", "unspent", "people")
    return replace(
        outlook,
        **{name: scale * getattr(outlook, name) for name in amounts},
        band=band(outlook.reach, outlook.band),
        people_band=band(outlook.people, outlook.people_band),
    )


def _find_zero(
    falling: Callable[[float], float],
    low: float,
    high: float,
    at_low: float,
    at_high: float,
    close: float,
) -> float:
    """Where a falling function with a little noise is 0, within `close`.

    Halves the interval until the function is not far from 0 at both ends, then takes secants
    (Illinois: an end that stays has its value halved).
    """
    middle = low
    for _ in range(_MAX_SEARCH):
        steep = min(at_low, 1.0) - at_high
        straight = at_high > -1.0 + 1e-3 and at_low < 1.0 and steep > 0.0
        middle = low + (high - low) * (at_low / steep if straight else 0.5)
        value = falling(middle)
        if abs(value) <= close:
            break
        if value > 0.0:
            low, at_low, at_high = middle, value, 0.5 * at_high if straight else at_high
        else:
            high, at_high, at_low = middle, value, 0.5 * at_low if straight else at_low
    return middle


def _mean_and_band(
    expected: FloatArray, std: FloatArray, level: float, generator: np.random.Generator
) -> tuple[float, tuple[float, float]]:
    """Expected reach over simulated flights, and the band of what one of them reaches.

    Chance decides who was behind the impressions of each flight. Of few flights quantiles say
    little: the band is then mean ± z·std.
    """
    mean, tail = float(expected.mean()), (1.0 - level) / 2.0
    if len(expected) < _FEWEST_TRIALS or len(std) < len(expected):
        between = float(expected.var(ddof=1)) if len(expected) > 1 else 0.0
        half = NormalDist().inv_cdf(1.0 - tail) * float(np.sqrt((std**2).mean() + between))
        return mean, (max(mean - half, 0.0), mean + half)
    reached = expected + std * generator.standard_normal(len(expected))
    low, high = np.quantile(reached, [tail, 1.0 - tail]).tolist()
    return mean, (max(low, 0.0), high)
