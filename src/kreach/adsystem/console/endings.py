"""Ending a campaign with time to undo it.

An ended campaign stays ended: reporting and bidders rely on that. So the console pauses it at once,
waits, and ends it then. Undo puts it back as it was. If the console stops it ends what is waiting;
if it is killed, the campaign stays paused.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from kreach.adsystem.console.client import ReportingError
from kreach.service.clock import Clock
from kreach.service.logs import Log

__all__ = ["UNDO_SECONDS", "Endings"]

UNDO_SECONDS = 15.0
Change = Callable[[str, Mapping[str, object]], Awaitable[None]]


@dataclass(eq=False)
class _Ending:
    before: str  # the state to go back to
    at: float
    task: "asyncio.Task[None] | None" = None


class Endings:
    """Campaigns that are about to end. For use on one event loop."""

    def __init__(
        self,
        change: Change,
        log: Log,
        undo_seconds: float = UNDO_SECONDS,
        clock: Clock = time.monotonic,
    ) -> None:
        self._change, self._log, self._clock = change, log, clock
        self._undo_seconds = undo_seconds
        self._waiting: dict[str, _Ending] = {}

    def __contains__(self, campaign: str) -> bool:
        return campaign in self._waiting

    def seconds_left(self, campaign: str) -> float | None:
        """How long an ending can be undone; None if none is waiting."""
        ending = self._waiting.get(campaign)
        return None if ending is None else max(ending.at - self._clock(), 0.0)

    async def begin(self, campaign: str, state: str) -> None:
        """Pause a campaign that is in `state` now, and end it in a while."""
        if campaign in self._waiting:
            return
        if state != "paused":
            await self._change(campaign, {"state": "paused"})
        ending = _Ending(state, self._clock() + self._undo_seconds)
        self._waiting[campaign] = ending
        ending.task = asyncio.create_task(self._end_later(campaign))

    async def undo(self, campaign: str) -> bool:
        """Put a campaign back as it was; False if it has ended."""
        ending = self._waiting.pop(campaign, None)
        if ending is None:
            return False
        if ending.task is not None:
            ending.task.cancel()
        if ending.before != "paused":
            await self._change(campaign, {"state": ending.before})
        return True

    async def close(self) -> None:
        """End all that are waiting now."""
        for campaign, ending in list(self._waiting.items()):
            if ending.task is not None:
                ending.task.cancel()
            await self._end(campaign)

    async def _end_later(self, campaign: str) -> None:
        await asyncio.sleep(self._undo_seconds)
        await self._end(campaign)

    async def _end(self, campaign: str) -> None:
        self._waiting.pop(campaign, None)
        try:
            await self._change(campaign, {"state": "ended"})
        except ReportingError as error:
            self._log.warning("campaign not ended", campaign=campaign, reason=str(error))
