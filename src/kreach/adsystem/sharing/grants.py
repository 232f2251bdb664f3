"""Grants in a bidder's log: updated before money moves in either direction.

A lease from Redis is logged before it is used, and what is given back leaves the log before Redis
learns of it. So at every instant, for each campaign,

    what may be used ≤ what the log holds ≤ what Redis has set aside for this bidder

and a bidder that restarts from its log holds nothing that another bidder has leased.
"""

import queue
from collections.abc import Callable, Mapping

from kreach.adsystem.ledger.journal import Journal

__all__ = ["Grants"]

_SETTLE_SECONDS = 30.0
_OnLoop = Callable[[Callable[[Exception | None], None]], Callable[[Exception | None], None]]


class Grants:
    """Logs grants, one at a time for each campaign. Used by the event loop."""

    def __init__(
        self, journal: Journal, on_loop: _OnLoop, granted: Callable[[int, int], None]
    ) -> None:
        """`on_loop` moves callbacks of the journal to the loop; `granted` is called on a raise."""
        self._journal, self._on_loop, self._granted = journal, on_loop, granted
        self._logged: dict[int, int] = {}
        self._writing: dict[int, int] = {}

    def load(self, number: int, micros: int) -> None:
        """Set what the log holds at the start."""
        self._logged[number] = micros

    @property
    def writing(self) -> bool:
        """Whether a write is under way."""
        return bool(self._writing)

    def max_logged(self, number: int) -> int:
        """The most that the log can hold now, whether or not a write is under way."""
        return max(self._logged.get(number, 0), self._writing.get(number, 0))

    def raise_to(self, number: int, micros: int) -> None:
        """Log a larger grant; while another write is under way, the next sync asks for it again."""
        if number not in self._writing:
            self._write(number, micros, raised=True)

    def lower(self, number: int, micros: int) -> None:
        """Log a smaller grant, if the log holds more."""
        if number not in self._writing and micros < self._logged.get(number, 0):
            self._write(number, micros, raised=False)

    def _write(self, number: int, micros: int, *, raised: bool) -> None:
        self._writing[number] = micros

        def written(error: Exception | None) -> None:
            if self._writing.pop(number, None) is None:
                return  # settled meanwhile
            if error is not None:  # most likely it is as it was
                self._logged[number] = max(self._logged.get(number, 0), micros)
                return
            self._logged[number] = micros
            if raised:
                self._granted(number, micros)

        self._journal.submit("grant", (number, micros), self._on_loop(written))

    def settle(self, held: Mapping[int, int]) -> None:
        """Before the end: log what is held and wait for it, whatever write is under way."""
        ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self._writing.clear()
        for number, micros in held.items():
            self._journal.submit("grant", (number, micros), ended.put)
        try:
            for number, micros in held.items():
                if ended.get(timeout=_SETTLE_SECONDS) is None:
                    self._logged[number] = micros
        except queue.Empty:
            return
