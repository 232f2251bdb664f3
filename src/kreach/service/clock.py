"""The clock that a service runs on: the machine's, or a faster one in a demonstration."""

import ipaddress
import mmap
import struct
import time
from pathlib import Path

from kreach.errors import KreachError
from kreach.service.config import Settings
from kreach.service.steady_clock import SETTLE_SECONDS, Clock, ClockMark, SteadyClock, boot_number

__all__ = [
    "FASTEST",
    "Clock",
    "ClockMark",
    "ClockSettings",
    "FollowingClock",
    "ReplayClock",
    "SteadyClock",
]

_TIME = struct.Struct("d")
FASTEST = 100_000.0  # simulated seconds per second


class FollowingClock(SteadyClock):
    """A clock that somebody sets, and that is believed: its time, without steps back."""

    def __init__(self, mark: ClockMark | None, clock: Clock) -> None:
        self._latest = 0.0 if mark is None else mark.not_before
        self._clock = clock
        super().__init__(mark, clock, clock)

    def __call__(self) -> float:
        self._latest = max(self._latest, self._clock())
        return self._latest

    def check(self) -> None:
        """Nothing to compare with."""


class ClockSettings(Settings, frozen=True, kw_only=True):
    """`[clock]`, for demonstrations only: simulated time.

    The clock stands at `start_seconds` (since 1970) until `start_file` exists. That file holds the
    real time, in seconds since 1970, from which simulated time runs `speed` times as fast. All
    services of a system need the same settings.

    For replays of a log only, `time_file` holds the time itself, which whoever replays sets
    (`ReplayClock`). Services take it on loopback addresses only.
    """

    speed: float = 1.0
    start_seconds: float = 0.0
    start_file: Path | None = None
    time_file: Path | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.speed <= FASTEST:
            raise KreachError.rule("speed", f"be above 0 and at most {FASTEST:.0f}", self.speed)
        if (self.start_file is None) != (self.start_seconds == 0.0) or self.start_seconds < 0.0:
            rule = "be above 0 and come with start_file"
            raise KreachError.rule("start_seconds", rule, self.start_seconds)
        if self.speed != 1.0 and self.start_file is None:
            raise KreachError.rule("speed", "be 1 without start_file", self.speed)
        if self.time_file is not None and self.start_file is not None:
            raise KreachError.rule("time_file", "be left out beside start_file", self.time_file)

    def check_host(self, host: str) -> None:
        """Refuse a clock that somebody sets where others can reach the service."""
        if self.time_file is None or host == "localhost":
            return
        try:
            loopback = ipaddress.ip_address(host).is_loopback
        except ValueError:
            loopback = False
        if not loopback:
            rule = "be left out unless the host is a loopback address: it is for replays"
            raise KreachError.rule("time_file", rule, host)

    def steady(
        self,
        mark: ClockMark | None = None,
        *,
        settle_seconds: float = SETTLE_SECONDS,
        confirm: bool = False,
    ) -> SteadyClock:
        """A clock with these settings."""
        if self.time_file is not None:
            return FollowingClock(mark, ReplayClock(self.time_file))
        if self.start_file is not None:
            clock = _SimulatedClock(self.speed, self.start_seconds, self.start_file)
            return FollowingClock(mark, clock)
        return SteadyClock(mark, boot=boot_number(), settle_seconds=settle_seconds, confirm=confirm)


class ReplayClock:
    """The time in a file that several processes map: seconds since 1970, 8 bytes."""

    def __init__(self, path: Path, now: float | None = None) -> None:
        """With `now` the file is made."""
        if now is not None:
            path.write_bytes(_TIME.pack(now))
        try:
            with path.open("r+b") as file:
                self._time = mmap.mmap(file.fileno(), _TIME.size)
        except (OSError, ValueError):
            raise KreachError.rule("time_file", "hold a time", str(path)) from None

    def __call__(self) -> float:
        now: float = _TIME.unpack_from(self._time)[0]
        return now

    def set(self, now: float) -> None:
        """Let it be this time in all processes."""
        self._time[:] = _TIME.pack(now)  # at once: pack_into would write 0 first


class _SimulatedClock:
    """Stands still until its file exists, then runs `speed` times as fast as real time."""

    def __init__(self, speed: float, start_seconds: float, start_file: Path) -> None:
        self._speed, self._start_seconds, self._start_file = speed, start_seconds, start_file
        self._started: float | None = None  # when it began to run, on the monotonic clock

    def __call__(self) -> float:
        if self._started is None:
            try:
                since = float(self._start_file.read_text())
            except (OSError, ValueError):
                return self._start_seconds
            self._started = since - time.time() + time.monotonic()
        return self._start_seconds + max(time.monotonic() - self._started, 0.0) * self._speed
