"""What is asked of a plan."""

from dataclasses import dataclass

__all__ = ["PlanQuestion"]


@dataclass(frozen=True)
class PlanQuestion:
    """What budgets will reach, or what a reach will cost; None and nothing: as the campaign says.

    With `group_size` the plan is for the same people in even groups of that size: what would
    another k cost?
    """

    requests: int | None = None
    cap: int | None = None
    budgets: tuple[float, ...] = ()
    reach: float | None = None
    level: float = 0.95
    group_size: int | None = None
