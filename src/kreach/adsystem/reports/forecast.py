"""Before a flight, from Python and the command line: what budgets reach, what a reach costs."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kreach.adsystem.bidding.market import Market
from kreach.adsystem.bidding.outlook import Outlook, OutlookMaker
from kreach.adsystem.campaigns.campaign import MAX_COST_MULTIPLE
from kreach.adsystem.catalogues import visible_per_group
from kreach.adsystem.reports import tables
from kreach.boundary.audience import Audience
from kreach.boundary.checks import is_number
from kreach.boundary.visit_model import VisitModel
from kreach.display.objects import Tabular
from kreach.display.table import Columns, Table, cell_text, columns_of, with_pairs
from kreach.errors import KreachError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ReachPlan", "plan"]

_SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)  # of the price of all requests
_MAX_BUDGETS = 1_000


@dataclass(frozen=True, eq=False, repr=False)
class ReachPlan(Tabular):
    """What budgets will reach, with bands; with a `reach`, the last outlook is its budget.

    >>> import kreach as kr
    >>> audience = kr.Audience.disjoint([20] * 10)
    >>> found = kr.plan(audience, kr.LogNormalMarket(0.0, 0.5), 1_000, cap=1, budgets=[20, 40])
    >>> [round(outlook.reach) for outlook in found.outlooks]
    [47, 76]
    """

    audience: Audience
    market: Market
    requests: int
    cap: int
    model: VisitModel | None
    outlooks: tuple[Outlook, ...]

    @property
    def people(self) -> int:
        """Targeted people of the audience."""
        return self.audience.targeted_user_count

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, as `kreach plan --json` prints it."""
        low, median = visible_per_group(self.audience)
        known = self.model and {"people": self.model.people, "days": self.model.history_days}
        return {
            "people": self.people,
            "groups": self.audience.group_count,
            "visible": {"min": low, "median": median},
            "cap": self.cap,
            "requests": self.requests,
            "model": known,
            "plans": [asdict(outlook) for outlook in self.outlooks],
        }

    def _columns(self) -> Columns:
        return columns_of([with_pairs(asdict(outlook)) for outlook in self.outlooks])

    def _display(self) -> Table:
        title = f"{self.people:,} people, {self.requests:,} requests, cap {self.cap}"
        return tables.plan_table(title, self.outlooks)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Reach by spend, with its band."""
        return tables.plan_plot(f"{self.people:,} people", self.cap, self.outlooks, ax)

    def __repr__(self) -> str:
        pairs = ", ".join(
            f"{cell_text(one.budget)} reaches {one.reach:,.1f}" for one in self.outlooks
        )
        return f"ReachPlan(people={self.people:,}, cap={self.cap}; {pairs})"


def plan(
    audience: Audience,
    market: Market,
    requests: int,
    cap: int,
    *,
    budgets: float | Iterable[float] | None = None,
    reach: float | None = None,
    model: VisitModel | None = None,
    max_cost_per_reach: float | None = None,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> ReachPlan:
    """Forecast the reach of `budgets`, or find the budget for a `reach`; with bands.

    `requests` is how many bid requests the flight will see, `cap` the frequency cap that reach
    counts up to. Without budgets and reach, budgets from 1 % to all of what every request costs
    are forecast. Budgets are limited by what a further reach may cost: `max_cost_per_reach`, by
    default ten times the first. `model` is the site's visit model: requests then come in sessions.

    >>> import kreach as kr
    >>> audience, market = kr.Audience.disjoint([20] * 10), kr.LogNormalMarket(0.0, 0.5)
    >>> found = kr.plan(audience, market, requests=1_000, cap=1, reach=78)
    >>> round(found.outlooks[-1].budget)
    42
    """
    if not isinstance(audience, Audience):
        raise KreachError.rule("audience", "be a kreach Audience", type(audience).__name__)
    if not isinstance(market, Market):
        raise KreachError.rule("market", "be a market such as LogNormalMarket", market)
    if model is not None and not isinstance(model, VisitModel):
        raise KreachError.rule("model", "be a VisitModel or None", type(model).__name__)
    amounts = _amounts(budgets)
    if reach is not None and not is_number(reach):
        raise KreachError.rule("reach", "be a number", reach)
    maker = OutlookMaker(
        audience,
        market,
        requests,
        cap,
        model=model,
        max_cost_per_reach=max_cost_per_reach,
        max_cost_multiple=MAX_COST_MULTIPLE,
    )
    if not amounts and reach is None:
        amounts = _default_budgets(market, requests)
    outlooks = []
    for amount in amounts:
        progress(f"planning a budget of {amount:,g}")
        outlooks.append(maker.for_budget(amount, level=level, seed=seed))
    if reach is not None:
        progress(f"finding the budget for a reach of {reach:,g}")
        outlooks.append(maker.for_reach(reach, level=level, seed=seed))
    return ReachPlan(audience, market, requests, cap, model, tuple(outlooks))


def _amounts(budgets: float | Iterable[float] | None) -> list[float]:
    if budgets is None:
        return []
    listed: list[Any] = [budgets] if is_number(budgets) else []
    if not listed:
        try:
            listed = list(budgets)  # type: ignore[arg-type]
        except TypeError:
            raise KreachError.rule("budgets", "be a number or a list of them", budgets) from None
    for at, amount in enumerate(listed):
        if not is_number(amount):
            raise KreachError.rule(f"budgets[{at}]", "be a number", amount)
    if not 1 <= len(listed) <= _MAX_BUDGETS:
        raise KreachError.rule("budgets", f"be 1 to {_MAX_BUDGETS} numbers", len(listed))
    return [float(amount) for amount in listed]


def _default_budgets(market: Market, requests: int) -> list[float]:
    """From a hundredth to all of what it costs to buy every request."""
    everything = requests * float(market.expected_cost(float("inf")))
    if market.auction == "first_price":
        everything = requests * float(market.optimal_bid(1e300))
    return [float(f"{share * everything:.3g}") for share in _SHARES]
