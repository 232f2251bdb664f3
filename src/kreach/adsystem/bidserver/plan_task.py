"""A plan to solve, as it is sent to the planner's process."""

from collections.abc import Callable
from dataclasses import dataclass

from kreach.adsystem.bidding.plan import Plan
from kreach.adsystem.bidding.worth import Worth

__all__ = ["PlanTask"]


@dataclass(frozen=True)
class PlanTask:
    """A plan to solve and the table to compute with it. Holds copies: it can run anywhere."""

    solve: Callable[[], Plan] | None
    worth: Callable[[Plan | None], Worth] | None

    def run(self) -> tuple[Plan | None, Worth | None]:
        """The plan and its table."""
        plan = None if self.solve is None else self.solve()
        if self.worth is None:
            return plan, None
        worth = self.worth(plan)
        return None if plan is None else plan.without_tables(), worth  # they are in `worth`
