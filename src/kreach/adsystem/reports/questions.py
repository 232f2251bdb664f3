"""Questions about a campaign."""

from dataclasses import dataclass
from datetime import datetime

from kreach.adsystem.settings import EVERYONE
from kreach.boundary.times import Window

__all__ = ["EVER", "FlightQuestion", "PlanQuestion", "ReachQuestion"]

EVER = Window()


@dataclass(frozen=True)
class ReachQuestion:
    """Reach in a window of time, at caps; no caps: 1 and the campaign's own.

    `catalogue` is the release whose groups were served, None the newest that the campaign ran on.
    """

    window: Window = EVER
    caps: tuple[int, ...] = ()
    level: float = 0.95
    catalogue: str | None = None

    @property
    def so_far(self) -> bool:
        """Whether the question is about all impressions so far."""
        return self.window == EVER


@dataclass(frozen=True)
class PlanQuestion:
    """The reach of budgets, or the cost of a reach; defaults are the campaign's own.

    With `group_size` the plan is for the same people in even groups of that size: what would
    another k cost? A campaign bids in both types of auction; a plan assumes that all are of one.
    `people` asks for the budget that reaches so many people at least once. A `coarse` plan comes at
    once: it rests on fewer simulated flights.
    """

    requests: int | None = None
    cap: int | None = None
    budgets: tuple[float, ...] = ()
    reach: float | None = None
    level: float = 0.95
    group_size: int | None = None
    auction: str = "second_price"
    max_cost_per_reach: float | None = None
    people: float | None = None
    coarse: bool = False


@dataclass(frozen=True)
class FlightQuestion:
    """A plan for a flight: a campaign's, or one that no campaign has yet.

    Requests and the market (`mu` and `sigma` of ln of the price per thousand) default to what
    bidders observed; while they have seen too few prices, `assumed_market` is used if there is one.
    With `with_ids` it also says what the same budget would reach with groups of one person.
    """

    plan: PlanQuestion
    start: datetime | None = None
    end: datetime | None = None
    audience: str = EVERYONE
    market: tuple[float, float] | None = None
    with_ids: bool = False
    assumed_market: tuple[float, float] | None = None
