"""The time of the services: the wall clock, bounded by the clock that counts since boot.

Time passes as the clock since boot says, which nobody sets and which goes on while the machine is
suspended. The wall clock corrects it a little at a time. A wall clock that says something else is
*doubted*: time goes on as before, and whoever depends on the date is told (`SteadyClock.doubt`).
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

__all__ = ["Clock", "ClockMark", "ClockStep", "Doubt", "SteadyClock", "boot_number", "boot_seconds"]

Clock = Callable[[], float]
"""Seconds since 1970, UTC."""

TOLERANCE_SECONDS = 5.0  # a leap second, or what time servers correct at once
MAX_DRIFT = 0.001  # of the clock since boot: twice what time servers correct
SETTLE_SECONDS = 600.0  # a wall clock that ran on for so long after a step may be right,
_SETTLE_SHARE = 0.1  # or for this share of a large step
MAX_STEP_SECONDS = 31 * 86_400.0  # of a step forward that is believed at last, or of a time off
MAX_SLEW_SECONDS = 3_600.0  # of a step back that is believed at last
_SLEW_RATE = 0.5  # time runs so fast while the wall clock catches up
_SLEW_FROM_SECONDS = 0.001
_CHECK_SECONDS = 0.1
_TRIES = 10
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


boot_seconds: Clock = partial(
    time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
)
"""Seconds since the machine was booted, those in suspension too where the system has them."""


def boot_number() -> int:
    """A number that each boot of the machine has to itself; 0 if the system gives it none."""
    try:
        return int.from_bytes(blake2b(_BOOT_ID.read_bytes(), digest_size=7).digest()) | 1
    except OSError:
        return 0


@dataclass(frozen=True)
class ClockMark:
    """What a store knows of time: the latest that it holds, and a reading of both clocks."""

    not_before: float = 0.0
    seconds: float = 0.0  # the time, 0 if there is no reading,
    boot: int = 0  # in this boot of the machine,
    uptime: float = 0.0  # at this reading of the clock since boot


class ClockStep(NamedTuple):
    """A step of the wall clock forward that was accepted: no time passed in between."""

    before: float
    after: float


@dataclass(frozen=True)
class Doubt:
    """The wall clock is not believed."""

    since: float  # by the steady clock
    lead_seconds: float  # the wall clock's, before the steady one; negative if it is behind

    @property
    def reason(self) -> str:
        """What is wrong, and what to do."""
        side = "ahead of" if self.lead_seconds > 0.0 else "behind"
        return (
            f"the machine's clock is {abs(self.lead_seconds):.0f} s {side} the time that has "
            "passed: correct it, or stop the bidder and accept it by `kreach repair clock`"
        )


def _slowed(elapsed: float, slow: float) -> float:
    """What a clock that runs slow for some seconds loses."""
    return min(elapsed, slow) * (1.0 - _SLEW_RATE)


class SteadyClock:
    """The wall clock without its steps.

    It never goes back. What the wall clock corrects forward is followed within a tolerance that
    refills slowly; where the wall clock is a little behind, time runs slower until they agree. All
    else is a `doubt`, which ends when the wall clock is as it should be, or when it ran on without
    a step for so long that it is believed after all: ten minutes, or a tenth of the step. Steps
    forward of a month and steps back of an hour are the most that are believed like that.

    With `confirm` a step forward is only proposed (`proposal`) and the owner has to `accept` it.
    """

    def __init__(
        self,
        mark: ClockMark | None = None,
        wall: Clock = time.time,
        monotonic: Clock = boot_seconds,
        *,
        boot: int = 0,
        settle_seconds: float = SETTLE_SECONDS,
        confirm: bool = False,
    ) -> None:
        self.boot, self._wall, self._monotonic = boot, wall, monotonic
        self._settle_seconds, self._confirm = settle_seconds, confirm
        self.doubt: Doubt | None = None
        self.proposal: ClockStep | None = None
        self._allowance = TOLERANCE_SECONDS  # what the wall clock may yet add
        self._slewing = 0.0  # how far the wall clock may be behind, until it has caught up
        self._lock = threading.Lock()
        first, passed = self._both()
        self._anchor = (
            self._first(mark or ClockMark(), first, passed),
            passed,
            0.0,
        )  # and how long to run slow
        self._offset, self._consistent_since = 0.0, passed  # of the wall clock, while in doubt
        self._next_check = passed
        self.check()

    def _both(self) -> tuple[float, float]:
        """Both clocks, read at nearly the same instant: again if this thread slept in between."""
        for _ in range(_TRIES):
            passed = self._monotonic()
            wall = self._wall()
            if self._monotonic() - passed < _CHECK_SECONDS:
                break
        return wall, passed

    def _first(self, mark: ClockMark, wall: float, passed: float) -> float:
        """The time to begin with: as much later than the mark as has passed, where that is known.

        Otherwise the wall clock's, if it is neither earlier than what the store holds nor later by
        more than a machine is likely to have been off.
        """
        if mark.seconds and mark.boot == self.boot != 0 and passed >= mark.uptime:
            elapsed = passed - mark.uptime
            self._allowance = TOLERANCE_SECONDS + MAX_DRIFT * elapsed
            return max(mark.seconds + elapsed, mark.not_before)
        latest = max(mark.seconds, mark.not_before)
        off = wall - latest
        return wall if off >= 0.0 and (not mark.seconds or off <= MAX_STEP_SECONDS) else latest

    def __call__(self) -> float:
        passed = self._monotonic()
        if passed >= self._next_check:
            self.check()
        now, at, slow = self._anchor
        elapsed = passed - at
        if slow or elapsed < 0.0:
            elapsed -= _slowed(elapsed, slow) if elapsed > 0.0 else elapsed
        return now + elapsed

    @property
    def uptime(self) -> float:
        """The reading of the clock since boot."""
        return self._monotonic()

    @property
    def lead_seconds(self) -> float:
        """How far the wall clock is ahead of this one; negative if it is behind."""
        return self._wall() - self()

    def check(self) -> None:
        """Compare the clocks; done several times a second by whoever reads the time."""
        if not self._lock.acquire(blocking=False):
            return  # another thread does
        try:
            self._check()
        finally:
            self._lock.release()

    def _check(self) -> None:
        # The wall is read between two readings: this thread may have slept anywhere.
        early = self._monotonic()
        wall = self._wall()
        late = self._monotonic()
        now, at, slow = self._anchor
        elapsed = max(late - at, 0.0)
        slowed = _slowed(elapsed, slow)
        now += elapsed - slowed
        self._anchor = (now, late, max(slow - elapsed, 0.0))
        self._next_check = late + _CHECK_SECONDS
        gained = MAX_DRIFT * elapsed + slowed
        self._allowance = max(min(self._allowance + gained, TOLERANCE_SECONDS), self._allowance)
        lead = max(wall - now, 0.0) or min(wall - now + late - early, 0.0)
        offset = wall - late
        if self.doubt is None:
            self._follow(lead, offset)
            return
        inaccuracy = TOLERANCE_SECONDS + MAX_DRIFT * (late - self._consistent_since)
        if abs(offset - self._offset) > inaccuracy:  # another step
            self._offset, self._consistent_since = offset, late
            self.doubt = Doubt(self.doubt.since, lead)
        self._reconsider(lead, offset)

    def _follow(self, lead: float, offset: float) -> None:
        """Correct the time by a lead of the wall clock, or begin to doubt it."""
        now, at, _ = self._anchor
        if lead > self._allowance or -lead > max(self._slewing, TOLERANCE_SECONDS):
            self._anchor = (now, at, 0.0)
            self._slewing = 0.0
            self.doubt = Doubt(now, lead)
            self._offset, self._consistent_since = offset, at
        elif lead >= 0.0:
            self._anchor = (now + lead, at, 0.0)
            self._allowance -= lead
            self._slewing = 0.0
        else:
            # so long and no longer, also if nobody compares the clocks before: a suspended machine
            slow = -lead / (1.0 - _SLEW_RATE) if -lead > _SLEW_FROM_SECONDS else 0.0
            self._anchor = (now, at, slow)
            self._slewing = min(self._slewing, TOLERANCE_SECONDS - lead)

    def _reconsider(self, lead: float, offset: float) -> None:
        """End the doubt if the clocks agree again, or if the wall clock has been consistent."""
        now, at, _ = self._anchor
        consistent = at - self._consistent_since
        self.proposal = None
        if -TOLERANCE_SECONDS <= lead <= self._allowance:
            self.doubt = None
            self._follow(lead, offset)
        elif lead > 0.0:
            needed = max(self._settle_seconds, _SETTLE_SHARE * lead)
            if lead <= MAX_STEP_SECONDS and consistent >= needed:
                self.proposal = ClockStep(now, now + lead)
                if not self._confirm:
                    self._step()
        elif -lead <= MAX_SLEW_SECONDS and consistent >= self._settle_seconds:
            self._slewing = TOLERANCE_SECONDS - lead
            self.doubt = None

    def accept(self) -> bool:
        """Follow the step that is proposed; False if none is any more."""
        with self._lock:
            return self._step()

    def _step(self) -> bool:
        if self.proposal is None:
            return False
        now, at, _ = self._anchor
        self._anchor = (now + (self.proposal.after - self.proposal.before), at, 0.0)
        self._allowance = TOLERANCE_SECONDS
        self.doubt = self.proposal = None
        return True
