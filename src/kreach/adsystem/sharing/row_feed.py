"""Sends the rows of a bidder's log to Redis, which counts each once."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from kreach.adsystem.sharing.own_rows import last_row, rows_after
from kreach.adsystem.sharing.redis_pool import RedisPool
from kreach.errors import KreachError

__all__ = ["RowFeed"]

_BATCHES = 20  # of rows at a time


class RowFeed:
    """Remembers which rows Redis has counted. Used by one thread."""

    def __init__(
        self, pool: RedisPool, store: Path, max_row: Callable[[], int | None] = lambda: None
    ) -> None:
        """Rows after `max_row` are not sent yet: they would be lost with the disk."""
        self._pool, self._store, self._max_row = pool, store, max_row
        self.counted_row = 0
        self._resend_to = 0  # rows up to this one may have been sent to an earlier run of Redis
        self.rows_behind = 0

    def start(self) -> None:
        """Join a run of Redis: look up how much of the log it has counted.

        More rows than the log has means that Redis counted another log.
        """
        counted, last = self._pool.counted_row(), last_row(self._store)
        if counted > last:
            raise KreachError(
                f"the log has {last} rows but Redis counted {counted} of this bidder: restart "
                "Redis empty after a backup was restored, give a new log a new bidder name"
            )
        self.counted_row, self._resend_to = counted, last

    def push(self, rolling: Mapping[int, int]) -> bool:
        """Send the next rows; True if there are more. `rolling` as in `RedisPool.add_rows`."""
        for _ in range(_BATCHES):
            rows = rows_after(self._store, self.counted_row)
            limit = self._max_row()
            if limit is not None:
                rows = rows.first(int(np.searchsorted(rows.row, limit, side="right")))
            if not len(rows.row):
                self.rows_behind = 0
                return False
            silent = self.counted_row < self._resend_to
            if silent:
                count = int(np.searchsorted(rows.row, self._resend_to, side="right"))
                rows = rows.first(count)
            self.counted_row = self._pool.add_rows(self.counted_row, rows, rolling, silent=silent)
            if silent and self.counted_row >= self._resend_to:  # others may have missed some
                self._pool.add_rows(self.counted_row, rows.first(0), rolling, silent=False)
        self.rows_behind = max(last_row(self._store) - self.counted_row, 0)
        return self.rows_behind > 0
