"""What a bidder does about a machine whose clock is wrong: says so, and writes it down.

While the clock is in doubt no bids are made. Notices are taken as before, on the time that has
passed: nothing that is out expires early. A step of the clock that is believed after all is logged
before it is followed, so that the days of daily budgets stay 24 hours that passed, also after a
restart (`Account.steps`).
"""

import sqlite3
from typing import TYPE_CHECKING, Protocol

from kreach.adsystem.ledger.clock_rows import Step, begin_doubt, end_doubt
from kreach.adsystem.ledger.journal import Journal
from kreach.boundary.times import MICROS
from kreach.service.clock import ClockMark, SteadyClock
from kreach.service.steady_clock import SETTLE_SECONDS, Doubt

if TYPE_CHECKING:
    from kreach.adsystem.bidserver.service import BidderState

__all__ = ["ClockWatch", "MakeClock"]


class MakeClock(Protocol):
    """Makes a clock that continues from a mark."""

    def __call__(self, mark: ClockMark, *, settle_seconds: float, confirm: bool) -> SteadyClock: ...


class ClockWatch:
    """Watches the clock of a bidder. Used by the event loop."""

    def __init__(self, state: "BidderState", make: MakeClock) -> None:
        self._state, self._make = state, make
        self.steps: tuple[Step, ...] = ()
        self._doubt: Doubt | None = None  # as reported
        self._writing = False

    def start(self, journal: Journal) -> SteadyClock:
        """The clock, from what the log knows of time."""
        # when a doubt has lasted so long, no bid is out that a step could expire
        settle = max(SETTLE_SECONDS, self._state.settings.expiry_seconds + 10.0)
        self._clock = clock = self._make(journal.clock_mark, settle_seconds=settle, confirm=True)
        self.steps = journal.steps
        at_us = int(clock() * MICROS)
        journal.run(lambda connection: end_doubt(connection, at_us, "restart"))
        self._submit_mark(journal)
        self._report(journal)
        journal.run_now(lambda _: None)  # in this boot no other start has to believe the wall
        return clock

    def check(self) -> None:
        """Compare the clocks, report a doubt that begins or ends, follow a step."""
        self._clock.check()
        self._report(self._state.journal)
        step = self._clock.proposal
        if step is not None and not self._writing:
            self._log_step((int(step.before * MICROS), int(step.after * MICROS)))

    def write_mark(self) -> None:
        """Log a reading of both clocks."""
        self._submit_mark(self._state.journal)

    def _submit_mark(self, journal: Journal) -> None:
        clock = self._clock
        uptime, now = clock.uptime, clock()
        journal.submit("mark", (int(now * MICROS), clock.boot, int(uptime * MICROS)))

    def _report(self, journal: Journal) -> None:
        before, doubt = self._doubt, self._clock.doubt
        if doubt == before:
            return
        self._doubt = doubt
        at_us = int(self._clock() * MICROS)
        if doubt is not None:
            lead = doubt.lead_seconds
            self._state.log.error("clock in doubt", reason=doubt.reason, lead_seconds=round(lead))
            if before is None:
                journal.run(lambda connection: begin_doubt(connection, at_us, lead))
        else:
            self._state.log.info("clock is believed again")
            journal.run(lambda connection: end_doubt(connection, at_us, "believed"))

    def _log_step(self, step: Step) -> None:
        """Log a step, then follow it."""
        state, clock = self._state, self._clock
        self._writing = True

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO steps VALUES (?, ?)", step)

        def written(error: Exception | None) -> None:
            self._writing = False
            if error is not None:
                return
            if not clock.accept():  # the wall clock made another step meanwhile
                state.journal.run(
                    lambda connection: connection.execute(
                        "DELETE FROM steps WHERE after = ?", (step[1],)
                    )
                )
                return
            self.steps = (*self.steps, step)
            for account in state.accounts.values():
                account.steps = self.steps
            seconds = (step[1] - step[0]) / MICROS
            state.log.warning("step of the clock accepted", seconds=round(seconds))
            self.write_mark()
            self._report(state.journal)

        state.journal.run(write, state.on_loop(written))
