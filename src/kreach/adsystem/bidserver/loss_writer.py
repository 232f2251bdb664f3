"""Writes losses to the log, many to a row: there are about as many of them as bids."""

import asyncio
from typing import TYPE_CHECKING

from kreach.adsystem.ledger.notice_rows import losses_row
from kreach.adsystem.ledger.tokens import Claim

if TYPE_CHECKING:
    from kreach.adsystem.bidserver.service import BidderState

__all__ = ["LossWriter"]


class LossWriter:
    """Losses that come while a row is being written are the next row. Used by the event loop."""

    def __init__(self, state: "BidderState") -> None:
        self._state = state
        self._losses: list[tuple[Claim, bool]] = []  # and whether a win notice came first
        self._next: asyncio.Future[str | None] | None = None  # of those losses
        self._writing = False

    async def write(self, claim: Claim, *, won: bool) -> str | None:
        """Wait until a loss is in the log and its money is free; returns the error, if any.

        The money moves even if nobody waits any more.
        """
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        waiting = self._next
        self._losses.append((claim, won))
        if not self._writing:
            self._flush()
        return await asyncio.shield(waiting)

    def _flush(self) -> None:
        losses, waiting = self._losses, self._next
        self._losses, self._next = [], None
        if waiting is None:
            return
        self._writing = True

        state = self._state

        def done(error: Exception | None) -> None:
            self._writing = False
            for claim, won in losses:
                if error is None:
                    state.ledger.voided(claim)
                else:
                    state.ledger.unvoid(claim, won=won)
            waiting.set_result(None if error is None else state.journal.failure or "failed")
            self._flush()

        row = losses_row([claim for claim, _ in losses])
        state.journal.submit("losses", row, state.on_loop(done))
