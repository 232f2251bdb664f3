"""A budget that cannot be exceeded: what a bidder may still spend, now and today."""

from typing import Any

from kreach.boundary.checks import is_number
from kreach.boundary.times import DAY_SECONDS
from kreach.display.objects import Displayed
from kreach.display.table import Table, cell_text
from kreach.errors import KreachError

__all__ = ["Purse"]


class Purse(Displayed):
    """A budget for a flight and optionally for each day of it (days count from the start).

    A bid never exceeds `available` and is held back until its outcome is known; a win costs at
    most the bid. So spend stays within the budget by construction, whatever the market does and
    however many bids are open at once.

    >>> import kreach as kr
    >>> purse = kr.Purse(budget=50.0, start=0.0, end=7 * 86_400.0, daily_budget=10.0)
    >>> purse.available(now=0.0)
    10.0
    >>> purse.hold(4.0)  # a bid is out
    >>> purse.available(now=0.0)
    6.0
    """

    def __init__(
        self, budget: float, start: float, end: float, daily_budget: float | None = None
    ) -> None:
        for name, value in (("budget", budget), ("start", start), ("end", end)):
            if not is_number(value):
                raise KreachError.rule(name, "be a number", value)
        if daily_budget is not None and not is_number(daily_budget):
            raise KreachError.rule("daily_budget", "be a number", daily_budget)
        if not 0.0 < budget < float("inf"):
            raise KreachError.rule("budget", "be a finite number > 0", budget)
        if daily_budget is not None and not 0.0 < daily_budget < float("inf"):
            raise KreachError.rule("daily_budget", "be a finite number > 0", daily_budget)
        if not start < end:
            raise KreachError.rule("end", f"come after the start ({start})", end)
        self.budget, self.daily_budget = budget, daily_budget
        self.start, self.end = start, end
        self._left = float(budget)  # kept beside the spend: it cannot round below 0
        self._spent = 0.0
        self._held = 0.0
        self._day = 0
        self._left_today = float("inf") if daily_budget is None else float(daily_budget)

    @property
    def spent(self) -> float:
        """What was paid so far, at most the budget."""
        return min(self._spent, self.budget)

    @property
    def spent_by_all(self) -> float:
        """What was paid so far, by other bidders of the same campaign as well."""
        return self.spent

    def to_dict(self) -> dict[str, Any]:
        """Budget, spend and flight."""
        return {
            "budget": self.budget,
            "spent": self.spent,
            "daily_budget": self.daily_budget,
            "start": self.start,
            "end": self.end,
        }

    def _display(self) -> Table:
        facts = self.to_dict()
        return Table("Purse", {"": list(facts), "value": list(facts.values())})

    def __repr__(self) -> str:
        return f"Purse({cell_text(self.spent)} of {cell_text(self.budget)} spent)"

    def available(self, now: float) -> float:
        """What may be spent on one request at this moment; 0 outside the flight."""
        if not self.start <= now < self.end:
            return 0.0
        self._turn_to(now)
        return max(min(self._left, self._left_today) - self._held, 0.0)

    def hold(self, amount: float) -> None:
        """Hold an amount back for a bid whose outcome is not known yet."""
        self._held += amount

    def release(self, amount: float) -> None:
        """The outcome of a bid is known: what was held for it is free again."""
        self._held = max(self._held - amount, 0.0)
        if self._held < 1e-12 * self.budget:
            self._held = 0.0  # the rest of rounded sums

    def pay(self, price: float, now: float) -> None:
        """Book the price of a win."""
        if not 0.0 <= price < float("inf"):
            raise KreachError.rule("price", "be a finite number ≥ 0", price)
        self._turn_to(now)
        self._left = max(self._left - price, 0.0)
        self._spent += price
        self._left_today = max(self._left_today - price, 0.0)

    def refund(self, price: float) -> None:
        """Take back the price of a win that was never shown (for the flight, not for its day)."""
        if not 0.0 <= price <= self.spent + 1e-9 * self.budget:
            raise KreachError.rule("price", f"lie between 0 and the spend ({self.spent})", price)
        self._left = min(self._left + price, self.budget)
        self._spent = max(self._spent - price, 0.0)

    def plannable(self, now: float) -> float:
        """What is left for the rest of the flight, as far as daily budgets will let it be spent."""
        left = self._left
        if self.daily_budget is not None:
            self._turn_to(now)
            days = (self.end - now) / DAY_SECONDS
            rest_of_today = min(1.0 - ((now - self.start) / DAY_SECONDS) % 1.0, days)
            later = max(days - rest_of_today, 0.0)
            left = min(left, self._left_today + later * self.daily_budget)
        return max(left, 0.0)

    def _turn_to(self, now: float) -> None:
        if self.daily_budget is not None:
            day = int((now - self.start) // DAY_SECONDS)
            if day > self._day:
                self._day, self._left_today = day, float(self.daily_budget)
