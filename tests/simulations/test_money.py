"""Schedules of faults: the books are right in all of them, and wrong when the code is."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from simulations.money import bidder
from simulations.money.redis import SimulatedRedis
from simulations.money.run import fast_folder, run_schedules, run_seed

from kreach.adsystem.bidserver import clock_watch, local_grants
from kreach.adsystem.ledger import compaction, fold, journal
from kreach.adsystem.ledger.account import Account
from kreach.adsystem.ledger.ledger import Ledger
from kreach.adsystem.sharing import fleet_member, recovery
from kreach.service import steady_clock

SCHEDULES = 400  # 50,000 others by `make soak`
_TO_CATCH = 600  # schedules within which a mistake must be noticed


@pytest.fixture
def folder() -> Iterator[Path]:
    with fast_folder() as made:
        yield made


def test_the_books_are_right_whatever_happens(folder: Path) -> None:
    failures = run_schedules(range(SCHEDULES), folder)
    assert not failures, "\n".join(failure.text() for failure in failures)


def test_a_seed_is_a_schedule(folder: Path) -> None:
    for seed in (3, 4, 5):
        assert run_seed(seed, folder) == run_seed(seed, folder)


def forget_losses(patch: pytest.MonkeyPatch) -> None:
    """A crash forgets which bids were lost."""
    patch.setattr(Ledger, "remember_lost", lambda self, lost: None)


def forget_bills(patch: pytest.MonkeyPatch) -> None:
    """A crash forgets which bids were billed."""
    patch.setattr(Ledger, "remember", lambda self, impressions: None)


def forget_what_is_out(patch: pytest.MonkeyPatch) -> None:
    """A crash forgets that bids are out."""

    def carry(self: Account, granted: int, until: float) -> None:
        self.granted, self.carried_until = max(granted, self.spent), until

    patch.setattr(Account, "carry", carry)


def answer_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Notices are acknowledged before they are on the disk."""
    submit = journal.Journal.submit

    def early(self: Any, kind: str, values: Any, done: Any = None) -> None:
        submit(self, kind, values, None)
        if done is not None:
            done(None)

    patch.setattr(journal.Journal, "submit", early)


def free_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """What a bill saves is bid again before the log has the bill."""
    post, posted, unpost = Ledger.post, Ledger.posted, Ledger.unpost

    def early(self: Ledger, claim: Any, price: int, now: float) -> Any:
        outcome = post(self, claim, price, now)
        if outcome.value == "done":
            posted(self, claim, price)
        return outcome

    def undo(self: Ledger, claim: Any, *, won: bool) -> None:
        account = self.accounts[claim.campaign]
        day = account.day_of(claim.issued_micros)
        account.book(-claim.micros, day)
        account._hold(claim.micros, day)
        unpost(self, claim, won=won)

    patch.setattr(Ledger, "post", early)
    patch.setattr(Ledger, "posted", lambda self, claim, price: None)
    patch.setattr(Ledger, "unpost", undo)


def use_grants_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Money is bid before the log knows that it may be out."""
    request = local_grants.LocalGrants.request

    def early(self: Any, number: int) -> None:
        account = self._accounts[number]
        wanted = account.wanted_grant(local_grants.grant_size(account))
        request(self, number)
        account.granted = max(account.granted, wanted or 0)

    patch.setattr(local_grants.LocalGrants, "request", early)


def follow_the_wall(patch: pytest.MonkeyPatch) -> None:
    """The clock believes every step forward, as it once did."""
    patch.setattr(steady_clock, "TOLERANCE_SECONDS", 1e12)


def forget_steps(patch: pytest.MonkeyPatch) -> None:
    """Accepted steps of the clock are forgotten by a restart."""
    patch.setattr(journal, "read_steps", lambda connection: ())
    patch.setattr(fold, "read_steps", lambda connection: ())


def ignore_steps(patch: pytest.MonkeyPatch) -> None:
    """Days of budgets are days of the wall clock."""
    patch.setattr(clock_watch.ClockWatch, "steps", (), raising=False)
    patch.setattr(Account, "day_of", lambda self, at: (at - self._start_micros) // 86_400_000_000)


def lease_what_others_hold(patch: pytest.MonkeyPatch) -> None:
    """Redis looks at what others spent, not at what they hold."""
    lease = SimulatedRedis._lease

    def generous(self: SimulatedRedis, key: str, me: str, limit: int, *rest: Any) -> list[int]:
        others = sum(held - used for name, (held, used) in self.money.get(key, {}).items())
        return lease(self, key, me, limit + others, *rest)

    patch.setattr(SimulatedRedis, "_lease", generous)


def give_back_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Others lease what this bidder's log still holds."""
    patch.setattr(fleet_member, "_set_aside", lambda budgets, minimum: budgets)


def bid_beyond_a_lowered_budget(patch: pytest.MonkeyPatch) -> None:
    """What was granted is bid, though the budget was lowered since."""
    take = Account.take

    def generous(self: Account, wanted: int, minimum: int, day: int) -> int:
        budget = self.budget
        self.budget = max(budget, self.granted)
        try:
            return take(self, wanted, minimum, day)
        finally:
            self.budget = budget

    patch.setattr(Account, "take", generous)


def forget_files(patch: pytest.MonkeyPatch) -> None:
    """A start counts live rows only, not those that were moved into files."""
    patch.setattr(fold, "_fold_files", lambda *_: None)


def move_rows_that_may_be_repeated(patch: pytest.MonkeyPatch) -> None:
    """Rows are moved into files while their notices may still come."""
    expired = compaction._expired
    patch.setattr(compaction, "_expired", lambda log, now, *rest: expired(log, now + 1e9, *rest))


def delete_before_listing(patch: pytest.MonkeyPatch) -> None:
    """Rows leave the journal though their file was never listed."""
    compact = compaction.compact

    def careless(log: Any, *rest: Any) -> int:
        if not isinstance(log, journal.Journal):  # the one that fails
            real = next(one for one in bidders if one.folder == rest[0])
            real.journal.run_now(
                lambda db: db.execute("DELETE FROM impressions WHERE expires < ?", (rest[3],))
            )
        return compact(log, *rest)

    bidders: list[Any] = []
    start = bidder.SimulatedBidder.start

    def remembered(self: Any) -> None:
        bidders.append(self)
        start(self)

    patch.setattr(bidder.SimulatedBidder, "start", remembered)
    patch.setattr(bidder, "compact", careless)


def settle_at_once(patch: pytest.MonkeyPatch) -> None:
    """A dead bidder's money is free for others while its bids are out."""
    read = recovery._read_log

    def early(*given: Any, settled: bool) -> Any:
        return read(*given, settled=True)

    patch.setattr(recovery, "_read_log", early)


def give_back_what_is_out(patch: pytest.MonkeyPatch) -> None:
    """A bidder that stops in order gives back money that its bids may cost."""
    patch.setattr(Account, "used", lambda self: self.spent)


def ask_for_what_was_given_up(patch: pytest.MonkeyPatch) -> None:
    """Bidders that hold more than a lowered budget ask for it again: it is set aside for ever."""
    apply = fleet_member.FleetMember._apply_lease

    def forgetful(self: Any, *given: Any) -> None:
        apply(self, *given)
        self._over.clear()

    patch.setattr(fleet_member.FleetMember, "_apply_lease", forgetful)


# and the seed from which on to look: most schedules do not come near a given mistake
MUTANTS: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    forget_losses: 90,
    forget_bills: 0,
    forget_what_is_out: 0,
    answer_before_the_commit: 0,
    free_before_the_commit: 0,
    use_grants_before_the_commit: 20,
    follow_the_wall: 0,
    forget_steps: 250,
    ignore_steps: 130,
    lease_what_others_hold: 0,
    give_back_before_the_commit: 240,
    bid_beyond_a_lowered_budget: 220,
    forget_files: 0,
    move_rows_that_may_be_repeated: 0,
    delete_before_listing: 40,
    ask_for_what_was_given_up: 455,
    settle_at_once: 340,
    give_back_what_is_out: 30,
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mistake_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mutant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    mutant(monkeypatch)
    seeds = range(MUTANTS[mutant], MUTANTS[mutant] + _TO_CATCH)
    assert any(run_seed(seed, folder)[0] is not None for seed in seeds), mutant.__doc__


def test_a_failure_is_cut_down_to_what_matters(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_bills(monkeypatch)
    seed = next(seed for seed in range(_TO_CATCH) if run_seed(seed, folder)[0] is not None)
    (failure,) = run_schedules([seed], folder)
    assert len(failure.trace) < 40
    assert f"--seed {seed}" in failure.text()
