"""Time for services: it never runs backwards."""

import time
from collections.abc import Callable

__all__ = ["Clock", "SteadyClock"]

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
