"""Questions about a campaign."""

from dataclasses import dataclass

from kreach.boundary.times import Window

__all__ = ["EVER", "PlanQuestion", "ReachQuestion"]

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
    """

    requests: int | None = None
    cap: int | None = None
    budgets: tuple[float, ...] = ()
    reach: float | None = None
    level: float = 0.95
    group_size: int | None = None
    auction: str = "second_price"
    max_cost_per_reach: float | None = None
