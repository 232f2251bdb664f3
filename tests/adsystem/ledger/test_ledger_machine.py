"""Any sequence of bids, notices, failures, crashes and days, beside a model that adds up lists.

The model keeps every bid and every row of the log there ever was and works all sums out from them;
the ledger keeps sums. What both say must be the same after every step.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.ledger import Ledger, Outcome
from kreach.adsystem.ledger.tokens import Claim
from kreach.boundary.times import DAY_SECONDS
from kreach.errors import KreachError

EXPIRY_SECONDS = 900
FAMILY = -1
FIRST = 1_790_000_000.5

picks = st.integers(0, 10**6)


@dataclass
class Bid:
    """A bid that was made, and what became of it in the run that made it."""

    claim: Claim
    state: str = "out"  # won, posted, void, swept
    price: int | None = None


@dataclass
class Known:
    """What the world knows about a campaign's money; `granted` is on disk."""

    budget: int
    daily: int | None
    start: float
    granted: int = 0
    carried: int = 0
    carried_until: float = 0.0
    lowered: bool = False

    def day(self, claim: Claim) -> int:
        return int((claim.issued_micros - round(self.start * 1e6)) // (DAY_SECONDS * 1_000_000))


class Money(RuleBasedStateMachine):
    @initialize(
        budgets=st.lists(st.integers(1, 1_000_000), min_size=1, max_size=3),
        share=st.sampled_from([None, 0.01, 0.2, 1.0]),
        hours=st.integers(0, 30),
    )
    def begin(self, budgets: list[int], share: float | None, hours: int) -> None:
        self._begin(budgets, share, hours)

    def _begin(self, budgets: list[int], share: float | None, hours: int) -> None:
        self.now = FIRST + 3_600.0 * hours
        self.known = {
            number: Known(budget, None if share is None else max(int(budget * share), 1), FIRST)
            for number, budget in enumerate(budgets, start=1)
        }
        self.bids: list[Bid] = []
        self.log: list[tuple[Claim, int]] = []  # of impressions that are written down
        self.epoch = 0
        self._start_run()

    def _start_run(self) -> None:
        self.epoch += 1
        self.ledger = Ledger(self.epoch)
        for number, known in self.known.items():
            account = self.ledger.accounts[number] = self._new_account(number)
            for claim, price in self.log:
                if claim.campaign == number:
                    account.book(price, known.day(claim))
            known.carried = max(known.granted - self._spent(number), 0)
            known.carried_until = self.now + EXPIRY_SECONDS + 1
            account.carry(known.granted, known.carried_until)
        self.ledger.remember(
            (claim.impression, claim.expires) for claim, _ in self.log if claim.expires > self.now
        )
        lost = [bid.claim.impression for bid in self.bids if bid.state == "void"]
        self.ledger.remember_lost(np.array(lost, dtype=np.int64))

    def _new_account(self, number: int) -> Account:
        known = self.known[number]
        return Account(known.budget, known.daily, known.start)

    # -- the model's sums ---------------------------------------------------------------------

    def _spent(self, number: int, day: int | None = None) -> int:
        return sum(
            price
            for claim, price in self.log
            if claim.campaign == number and day in {None, self.known[number].day(claim)}
        )

    def _reserved(self, number: int, day: int | None = None) -> int:
        return sum(
            bid.claim.micros
            for bid in self.bids
            if bid.claim.campaign == number
            and bid.claim.epoch == self.epoch
            and bid.state in {"out", "won"}
            and day in {None, self.known[number].day(bid.claim)}
        )

    def _available(self, number: int, day: int) -> int:
        known, account = self.known[number], self.ledger.accounts[number]
        out = self._reserved(number) + known.carried
        left = min(account.granted, known.budget) - self._spent(number) - out
        if known.daily is not None:
            today = self._spent(number, day) + self._reserved(number, day)
            left = min(left, known.daily - today - known.carried)
        return max(left, 0)

    def _all_known(self) -> dict[int, Known]:
        return self.known

    def _sharing(self, number: int) -> list[Known]:
        """Whose money a campaign's bids are of."""
        return [self.known[number]]

    def _doubtful(self, number: int) -> bool:
        return self.known[number].lowered

    def _today(self, number: int) -> int:
        return self.ledger.accounts[number].day_of(int(self.now * 1e6))

    def _pick(self, pick: int) -> Bid:
        """Mostly a bid of late."""
        return self.bids[-1 - pick % min(len(self.bids), 12)]

    # -- what may happen ----------------------------------------------------------------------

    @rule(pick=picks, slice_micros=st.sampled_from([10, 1_000, 50_000, 10**6]), told=picks)
    def grant(self, pick: int, slice_micros: int, told: int) -> None:
        self._grant(pick, slice_micros, told)

    def _grant(self, pick: int, slice_micros: int, told: int) -> None:
        number = 1 + pick % len(self.known)
        account, known = self.ledger.accounts[number], self.known[number]
        wanted = account.wanted_grant(slice_micros)
        if wanted is None:
            return
        assert known.granted <= account.granted < wanted <= known.budget
        known.granted = wanted  # written down first
        if told % 10 == 9:
            self._start_run()  # killed before anybody was told
        else:
            account.granted = max(account.granted, wanted)

    @rule(pick=picks, share=st.floats(0.0, 1.0), seconds=st.sampled_from([1, 30, EXPIRY_SECONDS]))
    def bid(self, pick: int, share: float, seconds: int) -> None:
        number = 1 + pick % len(self.known)
        account, day = self.ledger.accounts[number], self._today(number)
        if not account.available(day):
            self.grant(pick, 50_000, 0)
        most = account.available(day)
        assert most == self._available(number, day)
        for refused in (most + 1, 0, -5):
            with pytest.raises(KreachError):
                self.ledger.reserve(number, 1, 0, refused, self.now, seconds)
        if most:
            micros = max(int(most * share), 1) if pick % 4 else most
            claim = self.ledger.reserve(number, 1, pick, micros, self.now, seconds)
            assert claim.impression not in {bid.claim.impression for bid in self.bids}
            self.bids.append(Bid(claim))

    def _expected(self, bid: Bid) -> Outcome:
        """What a notice should find, worked out from the bid's history."""
        if bid.claim.expires <= self.now:
            return Outcome.EXPIRED
        if bid.state == "posted":
            return Outcome.REPEATED
        return Outcome.UNKNOWN if bid.state == "void" else Outcome.DONE

    @precondition(lambda self: self.bids)
    @rule(pick=picks)
    def win_notice(self, pick: int) -> None:
        bid = self._pick(pick)
        expected = self._expected(bid)
        if bid.state == "won" and expected is Outcome.DONE and bid.claim.epoch == self.epoch:
            expected = Outcome.REPEATED
        assert self.ledger.won(bid.claim, self.now) is expected
        if expected is Outcome.DONE and bid.claim.epoch == self.epoch:
            bid.state = "won"

    @precondition(lambda self: self.bids)
    @rule(pick=picks, written=st.booleans(), told=picks)
    def loss_notice(self, pick: int, written: bool, told: int) -> None:
        bid = self._pick(pick)
        claim, mine = bid.claim, bid.claim.epoch == self.epoch
        expected = self._expected(bid)
        outcome = self.ledger.void(claim, self.now)
        if not mine and self._doubtful(claim.campaign):
            assert outcome in {expected, Outcome.UNKNOWN}
        else:
            assert outcome is expected
        if outcome is not Outcome.DONE:
            return
        assert self.ledger.void(claim, self.now) is Outcome.UNKNOWN
        assert self.ledger.post(claim, 0, self.now) is Outcome.UNKNOWN
        won = self.ledger.was_won(claim)
        assert won == (mine and bid.state == "won")
        if not written:
            self.ledger.unvoid(claim, won=won)
            return
        bid.state = "void"
        if told % 5 == 4:
            self._start_run()  # killed before anybody was told
            return
        self.ledger.voided(claim)
        if not mine:
            for one in self._sharing(claim.campaign):
                one.carried -= claim.micros

    @precondition(lambda self: self.bids)
    @rule(pick=picks, share=st.sampled_from([0.0, 0.3, 1.0, 1.1]), written=st.booleans())
    def billing_notice(self, pick: int, share: float, written: bool) -> None:
        bid = self._pick(pick)
        claim = bid.claim
        price = int(claim.micros * share) if share <= 1.0 else claim.micros + 1 + pick % 7
        expected = self._expected(bid)
        if expected is Outcome.DONE and share > 1.0:
            expected = Outcome.OVERPRICED
        outcome = self.ledger.post(claim, price, self.now)
        if claim.epoch != self.epoch and self._doubtful(claim.campaign):
            # an advertiser took money away: taken only if it is there
            assert outcome in {expected, Outcome.UNKNOWN}
        else:
            assert outcome is expected
        if outcome is not Outcome.DONE:
            return
        won = self.ledger.was_won(claim)
        assert won == (bid.state == "won" and claim.epoch == self.epoch)
        if not written:
            self.ledger.unpost(claim, won=won)
            return
        self.ledger.posted(claim, price)
        bid.state, bid.price = "posted", price
        if claim.epoch != self.epoch:
            for one in self._sharing(claim.campaign):
                one.carried -= claim.micros
        self.log.append((claim, price))

    @precondition(lambda self: self.bids)
    @rule(pick=picks)
    def billing_repeated(self, pick: int) -> None:
        """The same notice again changes nothing, whatever price it names."""
        bid = self._pick(pick)
        if bid.state != "posted" or bid.claim.expires <= self.now:
            return
        account = self.ledger.accounts[bid.claim.campaign]
        before = account.spent, account.reserved, account.carried
        for price in (bid.price or 0, 0, bid.claim.micros + 1):
            assert self.ledger.post(bid.claim, price, self.now) is Outcome.REPEATED
        assert (account.spent, account.reserved, account.carried) == before

    @rule()
    def expire(self) -> None:
        ended = self.ledger.expire(self.now)
        freed: dict[int, tuple[int, int]] = {}
        wins = []
        for bid in self.bids:
            claim = bid.claim
            if claim.expires <= self.now and bid.state in {"out", "won"}:
                if claim.epoch == self.epoch:
                    micros, count = freed.get(claim.campaign, (0, 0))
                    freed[claim.campaign] = (micros + claim.micros, count + 1)
                    wins += [claim] if bid.state == "won" else []
                bid.state = "swept"
        assert {n: sums for (n, _), sums in ended.bids.items() if sums != (0, 0)} == freed
        assert sorted(ended.wins) == sorted(wins)
        carried = {}
        for number, known in self._all_known().items():
            if known.carried and known.carried_until <= self.now:
                carried[number], known.carried = known.carried, 0
        assert ended.carried == carried

    @rule(seconds=st.sampled_from([0.0, 0.3, 1.0, 5.0, 29.0, 60.5, 300.0, 901.5, 86_400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(seconds=st.sampled_from([-1e-6, 0.0, 1e-6]))
    def to_the_end_of_the_day(self, seconds: float) -> None:
        day = (self.now - FIRST) // DAY_SECONDS + 1
        self.now = max(FIRST + day * DAY_SECONDS + seconds, self.now)

    @rule()
    def crash(self) -> None:
        self._start_run()

    @precondition(lambda self: self.bids)
    @rule(pick=picks, written=st.booleans())
    def crash_before_the_notice_comes(self, pick: int, written: bool) -> None:
        self._start_run()
        self.billing_notice(pick, 1.0, written)
        self.billing_notice(pick, 1.0, True)
        self.billing_notice(pick, 1.0, True)

    @rule(pick=picks)
    def lost_sold_again_and_billed_by_mistake(self, pick: int) -> None:
        """The day's money goes out twice, and the crash makes us forget that one was lost."""
        before = len(self.bids)
        for _ in range(2):
            self.bid(4 * pick, 1.0, EXPIRY_SECONDS)
            if len(self.bids) == before + 1:
                self.loss_notice(0, True, 0)
        if len(self.bids) == before + 2:
            self.billing_notice(0, 1.0, True)
            self._start_run()
            self.billing_notice(1, 1.0, True)

    @precondition(lambda self: self.bids)
    @rule(pick=picks)
    def win_that_could_not_be_written(self, pick: int) -> None:
        self.win_notice(pick)
        self.billing_notice(pick, 0.5, False)
        self.win_notice(pick)
        self.billing_notice(pick, 0.5, True)

    @rule(pick=picks, share=st.sampled_from([0.1, 0.9, 1.0, 1.5, 10.0]))
    def change_budget(self, pick: int, share: float) -> None:
        number = 1 + pick % len(self.known)
        known, account = self.known[number], self.ledger.accounts[number]
        known.lowered |= share < 1.0
        known.budget = account.budget = max(int(known.budget * share), 1)
        if known.daily is not None:
            known.daily = account.daily = max(int(known.daily * share), 1)

    # -- what must hold -----------------------------------------------------------------------

    @invariant()
    def both_say_the_same(self) -> None:
        for number in self.known:
            account = self.ledger.accounts[number]
            assert account.spent == self._spent(number)
            assert account.reserved == self._reserved(number)
            assert account.carried == self.known[number].carried
            assert account.left() == max(account.budget - self._spent(number), 0)
            days = {self.known[number].day(claim) for claim, _ in self.log}
            for day in days:
                assert account.spent_on(day) == self._spent(number, day)
        mine = [bid for bid in self.bids if bid.claim.epoch == self.epoch]
        assert self.ledger.bids_out == sum(bid.state in {"out", "won"} for bid in mine)
        assert self.ledger.wins_out == sum(bid.state == "won" for bid in mine)

    @invariant()
    def no_limit_is_exceeded(self) -> None:
        for number, known in self._all_known().items():
            account = self.ledger.accounts[number]
            out = account.spent + account.reserved + account.carried
            assert out <= max(account.granted, account.spent)
            assert account.granted <= max(known.granted, account.spent)
            if known.lowered:
                continue
            assert out <= account.granted <= known.granted <= known.budget
            if known.daily is not None:
                for day in {known.day(bid.claim) for bid in self.bids}:
                    spent, reserved = self._spent(number, day), self._reserved(number, day)
                    assert spent + reserved <= known.daily

    @invariant()
    def nothing_is_posted_twice(self) -> None:
        numbers = [claim.impression for claim, _ in self.log]
        assert len(numbers) == len(set(numbers))
        assert sorted(numbers) == sorted(
            bid.claim.impression for bid in self.bids if bid.state == "posted"
        )

    @invariant()
    def whatever_may_still_be_billed_is_covered(self) -> None:
        """Bids of any run that somebody may still bill never come to more than the grant."""
        for number, known in self.known.items():
            owed = sum(
                bid.claim.micros
                for bid in self.bids
                if bid.claim.campaign == number
                and bid.state in {"out", "won"}
                and bid.claim.expires > self.now
            )
            assert owed <= max(known.granted - self._spent(number), 0)


class FamilyMoney(Money):
    """The first campaigns are a family: a bid is in both accounts or in neither."""

    @initialize(
        budgets=st.lists(st.integers(1, 1_000_000), min_size=2, max_size=4),
        shared=st.integers(1, 1_500_000),
        share=st.sampled_from([None, 0.2, 1.0]),
        alone=st.integers(0, 1),
    )
    def begin_family(
        self, budgets: list[int], shared: int, share: float | None, alone: int
    ) -> None:
        self.family = Known(shared, None, 0.0)
        self.members = set(range(1, len(budgets) + 1 - alone))
        self._begin(budgets, share, 0)

    def begin(self) -> None:
        """Not as without a family."""

    def _all_known(self) -> dict[int, Known]:
        return self.known | {FAMILY: self.family}

    def _sharing(self, number: int) -> list[Known]:
        return [self.known[number]] + ([self.family] if number in self.members else [])

    def _doubtful(self, number: int) -> bool:
        shared = number in self.members
        return super()._doubtful(number) or (shared and self.family.lowered)

    def _start_run(self) -> None:
        family = Account(self.family.budget, None, 0.0)
        self._family_account = family
        super()._start_run()
        self.ledger.accounts[FAMILY] = family
        self.family.carried = max(self.family.granted - self._family_sum(self._spent), 0)
        self.family.carried_until = self.now + EXPIRY_SECONDS + 1
        family.carry(self.family.granted, self.family.carried_until)

    def _new_account(self, number: int) -> Account:
        account = super()._new_account(number)
        if number in self.members:
            account.join(self._family_account)
        return account

    def _family_sum(self, of: Callable[[int], int]) -> int:
        return sum(of(number) for number in self.members)

    def _available(self, number: int, day: int) -> int:
        own = super()._available(number, day)
        if number not in self.members:
            return own
        out = self._family_sum(self._reserved) + self.family.carried
        granted = min(self._family_account.granted, self.family.budget)
        return max(min(own, granted - self._family_sum(self._spent) - out), 0)

    @rule(pick=picks, slice_micros=st.sampled_from([10, 1_000, 50_000, 10**6]), told=picks)
    def grant(self, pick: int, slice_micros: int, told: int) -> None:
        wanted = self._family_account.wanted_grant(slice_micros)
        if wanted is not None:
            self.family.granted = wanted
            self._family_account.granted = max(self._family_account.granted, wanted)
        self._grant(pick, slice_micros, told)

    @rule(share=st.sampled_from([0.5, 1.0, 2.0]))
    def change_the_family(self, share: float) -> None:
        self.family.lowered |= share < 1.0
        self.family.budget = max(int(self.family.budget * share), 1)
        self._family_account.budget = self.family.budget

    @invariant()
    def the_family_has_the_sums_of_its_members(self) -> None:
        account = self._family_account
        assert account.spent == self._family_sum(self._spent)
        assert account.reserved == self._family_sum(self._reserved)
        assert account.carried == self.family.carried
        if not self.family.lowered:
            assert account.spent <= self.family.budget

    @invariant()
    def plans_share_what_the_family_has_left(self) -> None:
        shares = [
            min(self.ledger.accounts[number].share_of_family(), self.ledger.accounts[number].left())
            for number in self.members
        ]
        assert sum(shares) <= self._family_account.left()


Money.TestCase.settings = settings(max_examples=250, stateful_step_count=50)
TestMoney = Money.TestCase
FamilyMoney.TestCase.settings = settings(max_examples=150, stateful_step_count=50)
TestFamilyMoney = FamilyMoney.TestCase
