"""The money of one campaign, or of a family, in integer micros (millionths of the currency)."""

from collections.abc import Sequence

from kreach.adsystem.ledger.clock_rows import Step, skipped_micros
from kreach.boundary.times import DAY_SECONDS
from kreach.boundary.times import MICROS as MICROSECONDS
from kreach.errors import KreachError

__all__ = ["NO_LIMIT", "Account"]

NO_LIMIT = 2**53
"""The budget of a family that has none, in micros: nobody spends as much, and floats hold it."""
_DAY_MICROS = DAY_SECONDS * MICROSECONDS
_ALL_DAYS = 0  # of a family, which has no budget by day
_PRICES = 8  # impressions that the usual price is a mean of, about
_FADING = 8  # of the largest bid: half of it is left after 2^8·ln 2, some 180 smaller ones


class Account:
    """What a campaign spent, what is out on bids, and what may still go out.

    At every instant, for the flight and for each day of it (days count from the start of the
    flight, and a bid belongs to the day it was made on; they are 24 hours that passed, so where
    the machine's clock made a step, `steps`, later days begin and end by so much later):

        spent + reserved + carried ≤ granted ≤ budget        spent + reserved + carried ≤ daily

    Where several bidders share a budget, each has such an account; what is granted to all of them
    together stays within the budget, and so do the grants for a day (`day_grants`) within `daily`.
    `spent_elsewhere` is what the others have spent, as far as is known: planning looks at it.

    `granted` is written down before it is used and bids are not: after a crash nobody knows which
    bids were out, but they came to `granted` − `spent` at most. That much is `carried` by the next
    run until the last of them must have expired.

    `largest_bid` is the largest amount that a bid wanted lately: grants should hold several.
    `usual_price` is what an impression cost lately, 0 before the first of this run.

    The account of a campaign in a family has that of the `family`, for which the same holds with
    the bids of all members. A bid is reserved in both or in neither, and what becomes of it is
    booked in both; so a log of the members' impressions has the family's spend as well.
    `demand` is what a member can use of the family's budget: 0 once its flight is over, less than
    its own budget where its plan cannot spend that, None if that is not known.
    """

    def __init__(
        self, budget: int, daily: int | None, start: float, steps: Sequence[Step] = ()
    ) -> None:
        self.budget, self.daily = budget, daily
        self._start_micros = round(start * MICROSECONDS)
        self.steps = tuple(steps)
        self.spent = 0
        self.reserved = 0
        self.carried = 0
        self.carried_until = 0.0
        self.granted = 0
        self.largest_bid = 0
        self.usual_price = 0
        self.day_grants: dict[int, int] | None = None  # None: all of a day's budget is ours
        self.spent_elsewhere = 0
        self.spent_elsewhere_on: dict[int, int] = {}
        self._days: dict[int, list[int]] = {}  # day: spent, reserved
        self.family: Account | None = None
        self.members: list[Account] = []  # of a family
        self.demand: int | None = None
        self.low_funds_micros = 0  # with less of its grant left it requests more

    def join(self, family: "Account") -> None:
        """Make this the account of a member; it has neither spent nor reserved anything yet."""
        assert not self.used()
        self.family = family
        family.members.append(self)

    def day_of(self, moment_micros: int) -> int:
        """The day of the flight that a moment (in millionths of a second) is on."""
        passed = moment_micros - self._start_micros
        if self.steps:
            passed -= skipped_micros(self.steps, self._start_micros, moment_micros)
        return passed // _DAY_MICROS

    def day_at(self, now: float) -> int:
        """The day of the flight at a time in seconds."""
        return self.day_of(int(now * MICROSECONDS))

    def available(self, day: int) -> int:
        """What one more bid may cost today."""
        left = min(self.granted, self.budget) - self.spent - self.reserved - self.carried
        if self.daily is not None:
            spent, reserved = self._days.get(day, (0, 0))
            left = min(left, self._granted_on(day) - spent - reserved - self.carried)
        if self.family is not None:
            left = min(left, self.family.available(_ALL_DAYS))
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

    def overspent(self) -> int:
        """What was spent beyond the budget: 0, unless the budget was lowered below the spend."""
        return max(self.spent + self.spent_elsewhere - self.budget, 0)

    def left_today(self, day: int) -> int:
        """What the day's budget still holds; the flight's, if days have none."""
        if self.daily is None:
            return self.left()
        spent = self._days.get(day, (0, 0))[0] + self.spent_elsewhere_on.get(day, 0)
        return max(min(self.left(), self.daily - spent), 0)

    def share_of_family(self, totals: tuple[int, int] | None = None) -> int:
        """What of the family's budget a member may plan with; all of them together have it all.

        Members get what they can use (`demand`), or that much in proportion if the budget does
        not suffice; what is then left is shared in proportion to what their own budgets hold.
        `totals` are the family's, for who asks about many members.
        """
        if self.family is None:
            return NO_LIMIT
        left, wants = self.family.left(), self._demanded()
        wanted, active = totals or self.family.member_totals()
        if wanted > left:
            return left * wants // wanted
        own = self.left() if self.demand != 0 else 0
        return wants + ((left - wanted) * own // active if active else 0)

    def member_totals(self) -> tuple[int, int]:
        """What a family's members can use, and what is left of the budgets of those that can."""
        active = [member for member in self.members if member.demand != 0]
        return sum(one._demanded() for one in active), sum(one.left() for one in active)

    def left_of_members(self) -> int:
        """What of a family's budget its members can still use, together."""
        return min(self.left(), self.member_totals()[0])

    def _demanded(self) -> int:
        left = self.left()
        return left if self.demand is None else min(self.demand, left)

    def reserve(self, amount: int, day: int) -> None:
        """Reserve money for a bid; the caller has checked `available`."""
        if not 0 < amount <= self.available(day):
            raise KreachError.rule("amount", f"be at most {self.available(day)} micros", amount)
        self._hold(amount, day)

    def _hold(self, amount: int, day: int) -> None:
        self.reserved += amount
        self._days.setdefault(day, [0, 0])[1] += amount
        if self.family is not None:
            self.family._hold(amount, _ALL_DAYS)

    def note_wanted(self, micros: int) -> None:
        """A bid wants so much."""
        largest = self.largest_bid
        self.largest_bid = micros if micros >= largest else largest - (largest >> _FADING)
        if self.family is not None:
            self.family.note_wanted(micros)

    def take(self, wanted: int, minimum: int, day: int) -> int:
        """Reserve what is wanted, or what is left if that is less; 0 if below the minimum."""
        amount = self.granted if self.granted < self.budget else self.budget
        amount -= self.spent + self.reserved + self.carried
        today = self._days.get(day)
        if today is None:
            today = self._days[day] = [0, 0]
        if self.daily is not None:
            amount = min(amount, self._granted_on(day) - today[0] - today[1] - self.carried)
        amount = wanted if wanted < amount else amount
        if self.family is not None:
            amount = min(amount, self.family.available(_ALL_DAYS))
        if amount < minimum or amount <= 0:
            return 0
        self.reserved += amount
        today[1] += amount
        if self.family is not None:
            self.family._hold(amount, _ALL_DAYS)
        return amount

    def release(self, amount: int, day: int) -> None:
        """Release reserved money."""
        self.reserved -= amount
        self._days[day][1] -= amount
        assert self.reserved >= 0
        assert self._days[day][1] >= 0
        if self.family is not None:
            self.family.release(amount, _ALL_DAYS)

    def post(self, amount: int, price: int, day: int) -> None:
        """An impression: spend its price, release the rest of its reservation."""
        assert 0 <= price <= amount
        self.release(amount, day)
        self.book(price, day)
        usual = self.usual_price
        self.usual_price = usual + (price - usual) // _PRICES if usual else price

    def hold_carried(self, amount: int, day: int) -> bool:
        """Reserve what a bid of an earlier run may cost; False if it cannot have been open."""
        if not self.covers_carried(amount):
            return False  # none that was out: the grant was logged before the bid
        if self.daily is not None and amount > self.daily - sum(self._days.get(day, (0, 0))):
            return False  # was lost or had expired: its day's money went out again since
        self.release_carried(amount)
        self._hold(amount, day)
        return True

    def unhold_carried(self, amount: int, day: int) -> None:
        """Undo `hold_carried`."""
        self.release(amount, day)
        self.carried += amount
        if self.family is not None:
            self.family.carried += amount

    def covers_carried(self, amount: int) -> bool:
        """Whether a bid of an earlier run of this amount can be out."""
        family = self.family
        return amount <= self.carried and (family is None or amount <= family.carried)

    def release_carried(self, amount: int) -> None:
        """A bid of an earlier run was lost: free its part of what that run had out."""
        for account in (self, self.family):
            if account is not None:
                account.carried = max(account.carried - amount, 0)  # expired meanwhile, if less

    def book(self, price: int, day: int) -> None:
        """Add to the spend, and to the family's."""
        self.spent += price
        self._days.setdefault(day, [0, 0])[0] += price
        if self.family is not None:
            self.family.book(price, _ALL_DAYS)

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
