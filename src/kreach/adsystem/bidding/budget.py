"""Money that cannot run over: what a bidder may still spend, now and today."""

from kreach.errors import KreachError

__all__ = ["Purse"]

DAY_SECONDS = 86_400.0


class Purse:
    """A budget for a flight and optionally for each day of it (days count from the start).

    A bid never exceeds `available`, and a win costs at most the bid, so spend stays within the
    budget by construction, whatever the market does.
    """

    def __init__(
        self, budget: float, start: float, end: float, daily_budget: float | None = None
    ) -> None:
        if not 0.0 < budget < float("inf"):
            raise KreachError.rule("budget", "be a finite number > 0", budget)
        if daily_budget is not None and not 0.0 < daily_budget < float("inf"):
            raise KreachError.rule("daily_budget", "be a finite number > 0", daily_budget)
        if not start < end:
            raise KreachError.rule("end", f"come after the start ({start})", end)
        self.budget, self.daily_budget = budget, daily_budget
        self.start, self.end = start, end
        self.spent = 0.0
        self._day = 0
        self._spent_today = 0.0

    def available(self, now: float) -> float:
        """What may be spent on one request at this moment; 0 outside the flight."""
        if not self.start <= now < self.end:
            return 0.0
        left = self.budget - self.spent
        if self.daily_budget is not None:
            self._turn_to(now)
            left = min(left, self.daily_budget - self._spent_today)
        return max(left, 0.0)

    def pay(self, price: float, now: float) -> None:
        """Book the price of a win."""
        if not 0.0 <= price < float("inf"):
            raise KreachError.rule("price", "be a finite number ≥ 0", price)
        if self.daily_budget is not None:
            self._turn_to(now)
            self._spent_today += price
        self.spent += price

    def refund(self, price: float) -> None:
        """Take back the price of a win that was never shown (for the flight, not for its day)."""
        if not 0.0 <= price <= self.spent:
            raise KreachError.rule("price", f"lie between 0 and the spend ({self.spent})", price)
        self.spent -= price

    def plannable(self, now: float) -> float:
        """What is left for the rest of the flight, as far as daily budgets will let it be spent."""
        left = self.budget - self.spent
        if self.daily_budget is not None:
            self._turn_to(now)
            days = (self.end - now) / DAY_SECONDS
            rest_of_today = min(1.0 - ((now - self.start) / DAY_SECONDS) % 1.0, days)
            later = max(days - rest_of_today, 0.0)
            left = min(left, self.daily_budget - self._spent_today + later * self.daily_budget)
        return max(left, 0.0)

    def _turn_to(self, now: float) -> None:
        day = int((now - self.start) // DAY_SECONDS)
        if day > self._day:
            self._day, self._spent_today = day, 0.0
