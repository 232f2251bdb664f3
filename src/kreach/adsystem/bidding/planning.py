"""Plans for a whole campaign: one multiplier for all groups, tables shared by groups of a kind."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from kreach.adsystem.bidding.competition import Availability
from kreach.adsystem.bidding.responses import PlannedMarket, market_response
from kreach.adsystem.measurement.baselines import EveryImpression
from kreach.adsystem.measurement.probability import profile_reach_probability
from kreach.adsystem.measurement.visitor_table import ModelProbability
from kreach.boundary.audience import Audience, DisjointAudience, ProfiledAudience
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.meetings import PARTS
from kreach.numeric.planning import PlanTable, Response, gamma_factors, solve_plan
from kreach.numeric.probability import group_reach_probability
from kreach.numeric.types import FloatArray, IntArray

__all__ = [
    "Conditions",
    "GroupState",
    "Passing",
    "Plan",
    "Planner",
    "kind_probabilities",
    "market_response",
    "planned_days",
    "session_continuation",
]

_COLUMNS = 64
_MAX_STEPS = 96
_SAMPLED_PROFILES = 200
_MAX_CLASSES = 16  # of kinds that are planned together
_CLASS_WIDTH = 0.05  # of size and share targeted, at first
_LOWEST, _HIGHEST = 1e-9, 1e9
_PLANNED_DAYS = 8  # that a plan spreads draws over, to tell how often two are one person's
_DELIVERED = 0.95  # of the budget
_MOST_AUCTIONS = 0.9  # whoever wins so many pays the price that a default limit is based on
_CLOSE = 0.01  # relative error in spend that a plan may leave: re-planning corrects it

KindProbability = Callable[[int, FloatArray], FloatArray]
"""(kind, impressions) → reach probability."""


@dataclass(frozen=True)
class GroupState:
    """Where each group stands: its kind, impressions so far, and requests still expected.

    With a visit model impressions are effective draws. `evidence` is how many independent requests
    were behind the estimate of each that is expected: infinite if traffic is known.
    """

    kind: IntArray
    impressions: IntArray | FloatArray
    requests_left: FloatArray
    evidence: float = float("inf")


@dataclass(frozen=True)
class Conditions:
    """What limits a campaign besides its budget: the most it may bid, and other campaigns.

    `delivered` is what plans have spent so far over what they expected to.
    """

    max_bid: float = float("inf")
    availability: Availability | None = None
    delivered: float = 1.0

    def response(self, market: PlannedMarket) -> Response:
        """How the market answers at most that bid."""
        return market_response(market, self.max_bid)

    def at(self, response: Response, multiplier: float) -> Response:
        """How it answers with what others leave over at this multiplier."""
        left = 1.0 if self.availability is None else self.availability.at(multiplier)
        left = min(left * self.delivered, 1.0)
        return response if left == 1.0 else response.contested(left)


@dataclass(frozen=True)
class _KindTable:
    """A table in units of blocks: impressions and requests are both divided by `block`."""

    table: PlanTable
    first: float  # impressions of column 0
    block: float


_FREE = Conditions()


class Plan:
    """A solved plan: what a request is worth, and the multiplier that turns worth into money."""

    def __init__(
        self,
        multiplier: float,
        tables: list[_KindTable | None],
        spend: float,
        reach: float,
        response: Response,
        more: float = 0.0,
        max_cost_per_reach: float | None = None,
    ) -> None:
        self.multiplier = multiplier
        self.max_cost_per_reach = max_cost_per_reach
        self.expected_spend = spend
        self.expected_reach = reach
        self.response = response  # of the market to a session, if requests come in sessions
        self.more = more
        self.shortfall: str | None = None  # why less than the budget can be spent
        made = {id(t): _Lookup(t) for t in tables if t is not None}  # kinds share tables
        self._lookup = [None if t is None else made[id(t)] for t in tables]

    def without_tables(self) -> "Plan":
        """The same plan for somebody who has its tables in another form."""
        plan = Plan(
            self.multiplier,
            [None] * len(self._lookup),
            self.expected_spend,
            self.expected_reach,
            self.response,
            self.more,
            self.max_cost_per_reach,
        )
        plan.shortfall = self.shortfall
        return plan

    @property
    def limited(self) -> bool:
        """Whether the limit of what a further reach may cost holds spend back."""
        most = self.max_cost_per_reach
        return most is not None and self.multiplier * most <= 1.0 + 1e-9

    def discount(self, kind: int, impressions: float, requests_left: float) -> float:
        """worth/p: the part of a request's reach probability that later ones cannot make up."""
        lookup = self._lookup[kind]
        if lookup is None:
            return 1.0
        return lookup.discount(impressions, requests_left * (1.0 - self.more))

    def discounts(
        self, kind: int, impressions: IntArray | FloatArray, requests_left: FloatArray
    ) -> FloatArray:
        """`discount` for many groups of one kind."""
        lookup = self._lookup[kind]
        if lookup is None:
            return np.ones(np.shape(impressions))
        return lookup.many(impressions, requests_left * (1.0 - self.more))

    def request_value(self, worth: float) -> float:
        """The value in money of one request that adds so much reach, later ones considered."""
        value = worth / self.multiplier
        if self.more <= 0.0:
            return value
        return float(self.response.request_value(np.array(value)))


class _Lookup:
    """A table as plain lists: a look-up from Python costs well under a microsecond."""

    def __init__(self, made: _KindTable) -> None:
        first = made.table.worth[0]  # at τ = 0 nothing comes later: worth = p
        ratio = made.table.worth / np.maximum(first, 1e-300)
        self._table = np.clip(ratio, 0.0, 1.0)
        self._rows: list[list[float]] = self._table.tolist()
        self._first, self._block = made.first, made.block
        self._last_row, self._last_column = len(self._rows) - 1, len(self._rows[0]) - 1
        self._step = float(made.table.tau[1]) * made.block if self._last_row else 1.0

    def discount(self, impressions: float, requests_left: float) -> float:
        y = min(requests_left / self._step, self._last_row)
        x = min(max((impressions - self._first) / self._block, 0.0), self._last_column)
        row, column = int(y), int(x)
        y, x = y - row, x - column
        here, after = self._rows[row], self._rows[min(row + 1, self._last_row)]
        right = min(column + 1, self._last_column)
        low = here[column] * (1.0 - x) + here[right] * x
        return low * (1.0 - y) + (after[column] * (1.0 - x) + after[right] * x) * y

    def many(self, impressions: IntArray | FloatArray, requests_left: FloatArray) -> FloatArray:
        y = np.minimum(requests_left / self._step, self._last_row)
        x = np.clip((impressions - self._first) / self._block, 0.0, self._last_column)
        row, column = y.astype(np.int64), x.astype(np.int64)
        y, x = y - row, x - column
        after, right = (
            np.minimum(row + 1, self._last_row),
            np.minimum(column + 1, self._last_column),
        )
        table = self._table
        low = table[row, column] * (1.0 - x) + table[row, right] * x
        high = table[after, column] * (1.0 - x) + table[after, right] * x
        result: FloatArray = low * (1.0 - y) + high * y
        return result


class Planner:
    """Solves for the multiplier at which the expected spend of all groups is the budget.

    Large groups are planned in blocks of impressions (with p averaged over a block and requests
    counted in blocks as well), so the work does not grow with group sizes or budgets. Kinds of
    nearly the same size share a table (`_classes`): values stay those of each kind, the factor
    for what comes later is their class's.

    `more` is the chance that a request is followed by another of its session (0: every request is
    a session of its own). Plans then count sessions. `passing` is the probability that a publisher
    who caps by person does not drop a bid, by kind and draws. With fewer `max_classes` plans are
    made faster and tell kinds of group less apart.
    """

    def __init__(
        self,
        kind_count: int,
        probability: KindProbability,
        *,
        ahead: bool = True,
        more: float = 0.0,
        passing: KindProbability | None = None,
        max_classes: int = _MAX_CLASSES,
    ):
        self._passing = passing
        self._kind_count = kind_count
        self._probability = probability
        self._ahead = ahead
        self._more = more if ahead else 0.0
        self._class_of, self._member = _classes(probability, kind_count, max_classes)
        self._known: list[FloatArray] = [np.zeros(0)] * len(self._member)  # p(0), p(1), ...

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
            none: list[_KindTable | None] = [None] * len(self._member)
            empty = self._plan(_HIGHEST, 0.0, 0.0, none, response(_HIGHEST))
            empty.max_cost_per_reach = max_cost_per_reach
            return empty
        most = max_cost_per_reach
        if most is None and max_cost_multiple is not None:
            most = max_cost_multiple * self.first_reach_cost(state, market)
        lowest = _LOWEST if most is None else min(max(1.0 / most, _LOWEST), _HIGHEST)
        tried: dict[float, tuple[float, float, list[_KindTable | None]]] = {}

        def spend(log_multiplier: float) -> float:
            if log_multiplier not in tried:
                multiplier = float(np.exp(log_multiplier))
                tried[log_multiplier] = self._evaluate(state, multiplier, response(multiplier))
            return tried[log_multiplier][0]

        guess = guess or self._first_guess(state, budget, whole.of_sessions(self._more))
        best = _find_multiplier(spend, budget, max(guess, lowest), lowest)
        plan = self._plan(float(np.exp(best)), *tried[best], response(float(np.exp(best))))
        plan.max_cost_per_reach = most
        if plan.expected_spend < _DELIVERED * budget:
            plan.shortfall = self._shortfall(state, plan, market, conditions)
        return plan

    def _shortfall(
        self, state: GroupState, plan: Plan, market: PlannedMarket, conditions: Conditions
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
            spend, _, _ = self._evaluate(state, plan.multiplier, free)
            if spend > most:
                best, most = reason, spend
        return best

    def first_reach_cost(self, state: GroupState, market: PlannedMarket) -> float:
        """What it costs to reach somebody first: the price of who wins nine auctions of ten, over
        the chance that the person behind a request is targeted."""
        response = market_response(market)
        at = int(np.argmax(response.win >= _MOST_AUCTIONS * response.win[-1]))
        price = float(response.cost[at] / max(response.win[at], 1e-300))
        chance = 0.0
        classes = self._class_of[state.kind]
        for number in np.unique(classes).tolist():
            requests = float(state.requests_left[classes == number].sum())
            chance += requests * float(self._at(number, np.zeros(1))[0])
        chance /= max(float(state.requests_left.sum()), 1e-300)
        return price / chance if chance > 0.0 else float("inf")

    def _plan(
        self,
        multiplier: float,
        spend: float,
        reach: float,
        tables: list[_KindTable | None],
        response: Response,
    ) -> Plan:
        by_kind = [tables[number] for number in self._class_of.tolist()]
        return Plan(multiplier, by_kind, spend, reach, response, self._more)

    def _first_guess(self, state: GroupState, budget: float, response: Response) -> float:
        """λ that would spend the budget if no request made later ones worth less."""
        start = np.empty(len(state.kind))
        classes = self._class_of[state.kind]
        for number in np.unique(classes).tolist():
            mine = classes == number
            start[mine] = self._at(number, state.impressions[mine].astype(np.float64))
        start, at = np.unique(np.round(start, 3), return_inverse=True)
        left = (1.0 - self._more) * np.bincount(at, weights=state.requests_left)
        low, high = np.log(_LOWEST), np.log(_HIGHEST)
        for _ in range(40):
            middle = 0.5 * (low + high)
            _, cost = response.win_and_cost(start / np.exp(middle))
            spend = float(cost @ left)
            low, high = (middle, high) if spend > budget else (low, middle)
        return float(np.exp(high)) / 2.0  # requests do get worth less, so bids must be higher

    def at_multiplier(self, state: GroupState, market: PlannedMarket, multiplier: float) -> Plan:
        """The plan at a given multiplier, with what it will spend and reach."""
        response = market_response(market).of_sessions(self._more)
        return self._plan(multiplier, *self._evaluate(state, multiplier, response), response)

    def _evaluate(
        self, state: GroupState, multiplier: float, response: Response
    ) -> tuple[float, float, list[_KindTable | None]]:
        spend = reach = 0.0
        tables: list[_KindTable | None] = []
        classes = self._class_of[state.kind]
        for number in range(len(self._member)):
            mine = classes == number
            left = state.requests_left[mine] * (1.0 - self._more)
            if left.size == 0 or left.max() <= 0.0:
                tables.append(None)
                continue
            n = state.impressions[mine].astype(np.float64)
            most = float(left.max())
            made = self._kind_table(number, n, most, state.evidence, multiplier, response)
            column, tau = (n - made.first) / made.block, left / made.block
            own_spend = float(made.table.at(made.table.spend, column, tau).sum()) * made.block
            own_value = float(made.table.at(made.table.value, column, tau).sum()) * made.block
            spend += own_spend
            reach += own_value + multiplier * own_spend
            tables.append(made)
        return spend, reach, tables

    def _at(self, number: int, impressions: FloatArray) -> FloatArray:
        """p of a class after so many impressions, rounded; computed once."""
        n = np.rint(np.maximum(impressions, 0.0)).astype(np.int64)
        known = self._known[number]
        most = int(n.max(initial=0))
        if most >= len(known):
            more = np.arange(len(known), max(most + 1, 2 * len(known), 64), dtype=np.float64)
            known = np.concatenate([known, self._probability(self._member[number], more)])
            self._known[number] = known
        return known[n]

    def _kind_table(
        self,
        number: int,
        n: FloatArray,
        left: float,
        evidence: float,
        multiplier: float,
        response: Response,
    ) -> _KindTable:
        sure = not np.isfinite(evidence)
        furthest = left if sure else left * float(gamma_factors(np.array([evidence * left])).max())
        first = float(n.min())
        start = self._at(number, np.array([first]))
        if self._passing is not None:
            passed = self._passing(self._member[number], np.array([first]))
            start = start / np.maximum(passed, 1e-6)
        win, _ = response.win_and_cost(start / multiplier)
        max_wins = furthest * float(win[0])
        span = float(n.max()) - first + max_wins + 4.0 * np.sqrt(max_wins) + 4.0
        block = max(1.0, np.ceil(span / _COLUMNS))
        columns = int(np.ceil(span / block)) + 1
        offsets = (
            np.arange(columns)[:, None] * block
            + (np.arange(int(min(block, 8))) + 0.5) * (block / min(block, 8))
            - 0.5
        )
        probability = self._at(number, first + offsets.ravel()).reshape(offsets.shape)
        passing = None
        if self._passing is not None:
            passing = self._passing(self._member[number], first + offsets.ravel())
            passing = passing.reshape(offsets.shape)
        steps = int(np.clip(np.ceil(1.25 * max_wins / block), 12, _MAX_STEPS))
        table = solve_plan(
            probability.mean(axis=1),
            furthest / block,
            steps,
            multiplier,
            response,
            ahead=self._ahead,
            passing=None if passing is None else passing.mean(axis=1),
        )
        if not sure:
            table = table.averaged(left / block, steps, evidence * block)
        return _KindTable(table, first, block)


def _classes(
    probability: KindProbability, kinds: int, max_classes: int
) -> tuple[IntArray, list[int]]:
    """The class of each kind, and a kind of each class: sizes within some per cent are one."""
    every = np.arange(kinds)
    size, targeted = getattr(probability, "size", None), getattr(probability, "targeted", None)
    if kinds <= max_classes or size is None or targeted is None:
        return every, every.tolist()
    traits = [np.log(size), targeted / size]
    dispersion = getattr(probability, "dispersion", None)
    if dispersion is not None:
        traits.append(np.log(np.minimum(dispersion, 1e6)))
    width = _CLASS_WIDTH
    while True:
        cells = np.stack([np.floor(trait / width) for trait in traits], axis=1)
        alone = (size == 1.0) | (targeted == 0.0)  # these are worth all or nothing
        cells = np.concatenate([cells, alone[:, None]], axis=1)
        _, number = np.unique(cells, axis=0, return_inverse=True)
        number = number.ravel()
        if number.max() < max_classes:
            break
        width *= 1.5
    order = np.lexsort((size, number))
    ends = np.searchsorted(number[order], np.arange(number.max() + 2))
    middles = (ends[:-1] + ends[1:] - 1) // 2
    return number, order[middles].tolist()


def _find_multiplier(
    spend: Callable[[float], float], budget: float, guess: float, lowest: float
) -> float:
    """ln λ with spend(ln λ) ≈ budget: bracket it from the guess, then narrow. Spend falls in λ.

    The lowest λ allowed, if even that leaves a part of the budget.
    """
    low_limit, high_limit = float(np.log(lowest)), np.log(_HIGHEST)
    low = high = float(np.log(guess))
    width = 0.1
    while spend(low) < budget and low > low_limit:  # too little is spent: money is worth less
        high, low, width = low, max(low - width, low_limit), 2.0 * width
    while spend(high) > budget and high < high_limit:
        low, high, width = max(low, high), min(high + width, high_limit), 2.0 * width
    for _ in range(40):
        below, above = spend(high), spend(low)
        if above <= budget * (1.0 + _CLOSE):
            return low
        if below >= budget * (1.0 - _CLOSE):
            return high
        share = np.clip((above - budget) / max(above - below, 1e-300), 0.1, 0.9)
        middle = low + share * (high - low)
        if spend(middle) > budget:
            low = middle
        else:
            high = middle
        if high - low < 1e-6:
            break
    return high


@dataclass(frozen=True)
class Passing:
    """P(a bid is not dropped) where a share of a group's draws is within the publisher's memory."""

    under_cap: KindProbability
    share: float
    _known: dict[int, FloatArray] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, kind: int, draws: FloatArray) -> FloatArray:
        recent = self.share * np.maximum(draws, 0.0)
        whole = recent.astype(np.int64)
        known = self._known_up_to(kind, int(whole.max(initial=0)) + 1)
        low, high = known[whole], known[whole + 1]
        first = max(float(known[0]), 1e-300)  # whom the campaign targets
        result: FloatArray = (low + (recent - whole) * (high - low)) / first
        return result

    def _known_up_to(self, kind: int, most: int) -> FloatArray:
        """P(under the cap) after 0, 1, ... draws; computed once."""
        known = self._known.get(kind)
        start = 0 if known is None else len(known)
        if known is None or most >= start:
            more = np.arange(start, max(most + 1, 2 * start, 64), dtype=np.float64)
            added = self.under_cap(kind, more)
            known = added if known is None else np.concatenate([known, added])
            self._known[kind] = known
        return known


def kind_probabilities(
    audience: Audience, cap: int, model: VisitModel | None = None
) -> tuple[KindProbability, IntArray]:
    """p(n) by kind of group, and the kind of each group; with a visit model n is draws.

    Kinds of a disjoint audience are its own. Any other audience is planned with one average group:
    for profiled ones p averaged over (a sample of) the groups, for overlapping ones as if the
    groups were disjoint.
    """
    one_kind = np.zeros(audience.group_count, dtype=np.int64)
    if isinstance(audience, ProfiledAudience):
        step = max(1, audience.group_count // _SAMPLED_PROFILES)
        profiles = [audience.shares_of(j) for j in range(0, audience.group_count, step)]
        return _AverageProfile(tuple(profiles), cap), one_kind
    if isinstance(audience, EveryImpression):
        return _always, one_kind
    if isinstance(audience, DisjointAudience):
        kinds = audience.kinds
        of_group = one_kind if kinds.of_group is None else kinds.of_group
    else:
        kinds, of_group = Audience.disjoint([round(audience.group_sizes.mean())]).kinds, one_kind
    if model is not None:
        meeting = model.meeting_probability(planned_days(model))
        once = np.ones(1)  # a session is planned to be won once
        by_model = ModelProbability(kinds.size, kinds.targeted, model, meeting, cap, once)
        return by_model, of_group
    return _ByKind(kinds.size, kinds.targeted, kinds.dispersion, cap), of_group


def planned_days(model: VisitModel) -> FloatArray:
    """The calendar that plans assume: draws at all hours, as the site's traffic, for eight days."""
    by_part = model.hourly_traffic.reshape(PARTS, -1).mean(axis=1)
    result: FloatArray = np.tile(by_part, (_PLANNED_DAYS, 1))
    return result


def session_continuation(model: VisitModel | None) -> float:
    """The chance that a request is followed by another of its session."""
    return 0.0 if model is None else 1.0 - 1.0 / model.mean_requests_per_session


# classes rather than functions inside functions: a plan can then be solved in another process


@dataclass(frozen=True)
class _ByKind:
    size: FloatArray
    targeted: FloatArray
    dispersion: FloatArray
    cap: int

    def __call__(self, kind: int, impressions: FloatArray) -> FloatArray:
        n: FloatArray = np.rint(np.maximum(impressions, 0.0))
        columns = (self.size, self.targeted, self.dispersion)
        size, targeted, dispersion = (np.full(len(n), column[kind]) for column in columns)
        return group_reach_probability(size, targeted, n, dispersion, self.cap)


@dataclass(frozen=True)
class _AverageProfile:
    profiles: tuple[FloatArray, ...]
    cap: int

    def __call__(self, kind: int, impressions: FloatArray) -> FloatArray:
        del kind  # there is one
        n: FloatArray = np.rint(np.maximum(impressions, 0.0))
        each = [profile_reach_probability(shares, n, self.cap) for shares in self.profiles]
        result: FloatArray = np.mean(each, axis=0)
        return result


def _always(kind: int, impressions: FloatArray) -> FloatArray:
    del kind
    return np.ones(len(impressions))
