"""Has the rows of one bidder's log counted in Redis, each once."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kreach.adsystem.sharing.own_rows import last_row, rows_after
from kreach.adsystem.sharing.redis_pool import Pool
from kreach.errors import KreachError

__all__ = ["Feeder"]

_BATCHES = 20  # of rows at a time


class Feeder:
    """Knows how far the counting is. Used by one thread."""

    def __init__(self, pool: Pool, store: Path) -> None:
        self._pool, self._store = pool, store
        self.fed = 0
        self._retelling = 0  # rows up to this one may have been told to an earlier run of Redis
        self.rows_behind = 0

    def begin(self) -> None:
        """A run of Redis begins: find out how much of the log it has counted.

        More than there is means that this is not the log it was told from.
        """
        fed, last = self._pool.fed_row(), last_row(self._store)
        if fed > last:
            rule = "hold every row that Redis was told of: start Redis anew after a backup was "
            rule += "restored, give a new log a new name"
            raise KreachError.rule("log", rule, f"{last} of {fed} rows")
        self.fed, self._retelling = fed, last

    def feed(self, rolling: Mapping[int, int]) -> bool:
        """Have the next rows counted; True if there are more. `rolling` as of `Pool.feed`."""
        for _ in range(_BATCHES):
            rows = rows_after(self._store, self.fed)
            if not len(rows.row):
                self.rows_behind = 0
                return False
            quietly = self.fed < self._retelling
            if quietly:
                upto = int(np.searchsorted(rows.row, self._retelling, side="right"))
                rows = rows.first(upto)
            self.fed = self._pool.feed(self.fed, rows, rolling, quietly=quietly)
            if quietly and self.fed >= self._retelling:  # others may have missed some of it
                self._pool.feed(self.fed, rows.first(0), rolling, quietly=False)
        self.rows_behind = max(last_row(self._store) - self.fed, 0)
        return self.rows_behind > 0
