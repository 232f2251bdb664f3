"""One campaign's money in integer micros (millionths of the currency)."""

from kreach.boundary.times import DAY_SECONDS
from kreach.boundary.times import MICROS as MICROSECONDS
from kreach.errors import KreachError

__all__ = ["Account"]


class Account:
    """What a campaign spent, what is out on bids, and what may still go out.

    At every instant, for the flight and for each day of it (days count from the start of the
    flight, and a bid belongs to the day it was made on):

        spent + reserved + carried ≤ granted ≤ budget        spent + reserved + carried ≤ daily

    Where several bidders share a budget, each has such an account; what is granted to all of them
    together stays within the budget, and so do the grants for a day (`day_grants`) within `daily`.
    `spent_elsewhere` is what the others have spent, as far as is known: planning looks at it.

    `granted` is written down before it is used and bids are not: after a crash nobody knows which
    bids were out, but they came to `granted` − `spent` at most. That much is `carried` by the next
    run until the last of them must have expired.

    `largest_bid` is the largest amount that a bid wanted lately: grants should hold several.
    """

    def __init__(self, budget: int, daily: int | None, start: float) -> None:
        self.budget, self.daily = budget, daily
        self._start_micros = round(start * MICROSECONDS)
        self.spent = 0
        self.reserved = 0
        self.carried = 0
        self.carried_until = 0.0
        self.granted = 0
        self.largest_bid = 0
        self.day_grants: dict[int, int] | None = None  # None: all of a day's budget is ours
        self.spent_elsewhere = 0
        self.spent_elsewhere_on: dict[int, int] = {}
        self._days: dict[int, list[int]] = {}  # day: spent, reserved

    def day_of(self, moment_micros: int) -> int:
        """The day of the flight that a moment (in millionths of a second) is on."""
        return (moment_micros - self._start_micros) // (DAY_SECONDS * MICROSECONDS)

    def day_at(self, now: float) -> int:
        """The day of the flight at a time in seconds."""
        return self.day_of(int(now * MICROSECONDS))

    def available(self, day: int) -> int:
        """What one more bid may cost today."""
        left = min(self.granted, self.budget) - self.spent - self.reserved - self.carried
        if self.daily is not None:
            spent, reserved = self._days.get(day, (0, 0))
            left = min(left, self._granted_on(day) - spent - reserved - self.carried)
        return max(left, 0)

    def _granted_on(self, day: int) -> int:
        assert self.daily is not None
        if self.day_grants is None:
            return self.daily
        return min(self.daily, self.day_grants.get(day, 0))

    def used(self) -> int:
        """What was spent or may be out."""
        return self.spent + self.reserved + self.carried

    def used_on(self, day: int) -> int:
        """What was spent or may be out of a day's budget."""
        return sum(self._days.get(day, (0, 0))) + self.carried

    def left(self) -> int:
        """What the budget still holds, bids that are out not counted."""
        return max(self.budget - self.spent - self.spent_elsewhere, 0)

    def left_today(self, day: int) -> int:
        """What the day's budget still holds; the flight's, if days have none."""
        if self.daily is None:
            return self.left()
        spent = self._days.get(day, (0, 0))[0] + self.spent_elsewhere_on.get(day, 0)
        return max(min(self.left(), self.daily - spent), 0)

    def reserve(self, amount: int, day: int) -> None:
        """Reserve money for a bid; the caller has checked `available`."""
        if not 0 < amount <= self.available(day):
            raise KreachError.rule("amount", f"be at most {self.available(day)} micros", amount)
        self.reserved += amount
        self._days.setdefault(day, [0, 0])[1] += amount

    def take(self, wanted: int, minimum: int, day: int) -> int:
        """Reserve what is wanted, or what is left if that is less; 0 if below the minimum."""
        amount = self.granted if self.granted < self.budget else self.budget
        amount -= self.spent + self.reserved + self.carried
        today = self._days.get(day)
        if today is None:
            today = self._days[day] = [0, 0]
        if self.daily is not None:
            amount = min(amount, self._granted_on(day) - today[0] - today[1] - self.carried)
        amount = min(amount, wanted)
        if amount < minimum or amount <= 0:
            return 0
        self.reserved += amount
        today[1] += amount
        return amount

    def release(self, amount: int, day: int) -> None:
        """Release reserved money."""
        self.reserved -= amount
        self._days[day][1] -= amount
        assert self.reserved >= 0
        assert self._days[day][1] >= 0

    def post(self, amount: int, price: int, day: int) -> None:
        """An impression: spend its price, release the rest of its reservation."""
        assert 0 <= price <= amount
        self.release(amount, day)
        self.book(price, day)

    def unpost(self, amount: int, price: int, day: int) -> None:
        """Undo a post that could not be logged."""
        self.book(-price, day)
        self.reserved += amount
        self._days[day][1] += amount

    def post_carried(self, amount: int, price: int, day: int) -> bool:
        """An impression of an earlier run's bid; False if it cannot have been open."""
        if amount > self.carried:
            return False
        if self.daily is not None and amount > self.daily - sum(self._days.get(day, (0, 0))):
            return False  # was lost or had expired: its day's money went out again since
        self.carried -= amount
        self.book(price, day)
        return True

    def unpost_carried(self, amount: int, price: int, day: int) -> None:
        """Undo `post_carried`."""
        self.book(-price, day)
        self.carried += amount

    def book(self, price: int, day: int) -> None:
        """Add to the spend."""
        self.spent += price
        self._days.setdefault(day, [0, 0])[0] += price

    def spent_on(self, day: int) -> int:
        """What was spent on bids of this day."""
        return self._days.get(day, [0, 0])[0]

    def carry(self, granted: int, until: float) -> None:
        """After a restart: all of the earlier grant that was not spent may still be out."""
        self.granted = max(granted, self.spent)
        self.carried = max(granted - self.spent, 0)
        self.carried_until = until

    def expire_carried(self, now: float) -> int:
        """Free what an earlier run had out, once it must have expired; how much that was."""
        if not self.carried or now < self.carried_until:
            return 0
        freed, self.carried = self.carried, 0
        return freed

    def wanted_grant(self, slice_micros: int) -> int | None:
        """What to grant next, if less than half a slice is left of the last grant."""
        used = self.used()
        if self.granted >= self.budget or self.granted - used >= slice_micros // 2:
            return None
        return min(self.budget, used + slice_micros)
