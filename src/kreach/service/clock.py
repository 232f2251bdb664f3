"""Time for services: it never runs backwards, and in a demonstration it runs faster."""

import time
from collections.abc import Callable
from pathlib import Path

from kreach.errors import KreachError
from kreach.service.config import Settings

__all__ = ["FASTEST", "Clock", "ClockSettings", "SteadyClock"]

FASTEST = 100_000.0  # seconds shown in a second

Clock = Callable[[], float]
"""Seconds since 1970, UTC."""


class SteadyClock:
    """The machine's clock, without its steps back.

    Between two readings time passes as the monotonic clock says. A wall clock that steps forward is
    followed; one that steps back is not, so nothing that had expired comes to life again and a
    budget's day does not begin twice. `not_before` carries this over a restart: pass the latest
    time that was written down.
    """

    def __init__(
        self,
        not_before: float = 0.0,
        wall: Clock = time.time,
        monotonic: Clock = time.monotonic,
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._ahead = max(wall(), not_before) - monotonic()

    def __call__(self) -> float:
        passed = self._monotonic()
        ahead = self._wall() - passed
        self._ahead = max(self._ahead, ahead)
        return passed + self._ahead

    @property
    def behind_seconds(self) -> float:
        """How far the wall clock is behind this one: how far it stepped back."""
        return max(0.0, self() - self._wall())


class ClockSettings(Settings, frozen=True, kw_only=True):
    """`[clock]`, for demonstrations only: time that stands at `shown`, then runs `speed` times.

    It begins to run at the moment (seconds since 1970) that is written in the file `begins`, once
    there is such a file. All services of a system are given the same.
    """

    speed: float = 1.0
    shown: float = 0.0
    begins: Path | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.speed <= FASTEST:
            raise KreachError.rule("speed", f"be above 0 and at most {FASTEST:.0f}", self.speed)
        if (self.begins is None) != (self.shown == 0.0) or self.shown < 0.0:
            raise KreachError.rule("shown", "be given together with begins", self.shown)
        if self.speed != 1.0 and self.begins is None:
            raise KreachError.rule("speed", "be 1 unless shown and begins are given", self.speed)

    def steady(self, not_before: float = 0.0) -> SteadyClock:
        """A clock that keeps to these settings."""
        if self.begins is None:
            return SteadyClock(not_before)
        clock = _ShownClock(self.speed, self.shown, self.begins)
        return SteadyClock(not_before, clock, clock)


class _ShownClock:
    """Stands until a file says since when it runs."""

    def __init__(self, speed: float, shown: float, begins: Path) -> None:
        self._speed, self._shown, self._begins = speed, shown, begins
        self._ahead: float | None = None  # of the monotonic clock, when it began to run

    def __call__(self) -> float:
        if self._ahead is None:
            try:
                since = float(self._begins.read_text())
            except (OSError, ValueError):
                return self._shown
            self._ahead = since - time.time() + time.monotonic()
        return self._shown + max(time.monotonic() - self._ahead, 0.0) * self._speed
