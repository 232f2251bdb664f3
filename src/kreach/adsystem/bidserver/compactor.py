"""Moves expired rows of the journal into Parquet files, at intervals."""

import asyncio
import time
from threading import Lock
from typing import TYPE_CHECKING

from kreach.adsystem.ledger.compaction import GroupNames, compact

if TYPE_CHECKING:
    from kreach.adsystem.bidserver.service import BidderState

__all__ = ["LogCompactor"]

_MAX_WAIT_SECONDS = 900.0


class LogCompactor:
    """Compacts when there are enough rows, or when they have waited long."""

    def __init__(self, state: "BidderState") -> None:
        self._state = state
        self._lock = Lock()
        self._compacted_at = time.monotonic()

    async def run(self) -> None:
        """Wait for the interval, then compact."""
        settings = self._state.settings
        await asyncio.sleep(settings.compaction_seconds)
        waited = time.monotonic() - self._compacted_at > _MAX_WAIT_SECONDS
        min_rows = 1 if waited else settings.compaction_rows
        moved = await asyncio.to_thread(self.compact, min_rows)
        if moved or waited:
            self._compacted_at = time.monotonic()
        if moved:
            self._state.log.info("log compacted", rows=moved)

    def compact(self, min_rows: int = 1) -> int:
        """Move expired rows into files; returns how many."""
        state = self._state
        groups = GroupNames(state.store)
        for number, catalogue in state.known_catalogues().items():
            groups.know(number, catalogue)
        campaigns = {n: stored.campaign.id for n, stored in list(state.stored_campaigns.items())}
        name, now = state.settings.name or "", state.clock()
        replicated = state.replicated_row  # rows that are nowhere else stay where they are
        with self._lock:
            return compact(
                state.journal, state.store, campaigns, groups, now, min_rows, name, replicated
            )
