"""What other campaigns of the same bidder leave over.

For each request the campaign that values it most bids, and nobody else. A campaign that plans with
every request would plan with those that others take. So it learns how often the best of the others
values a request below v:

    A(v) = P(no other campaign values a request at v or more),

and a request of value v is won with A(v)·W(v) and costs A(v)·H(v). Requests are sampled; older ones
count less.
"""

from dataclasses import dataclass

import numpy as np

from kreach.numeric.planning import Response
from kreach.numeric.types import FloatArray

__all__ = ["Availability", "Competition"]

_CELLS = 160
_LOWEST, _HIGHEST = 1e-9, 1e3  # money for one impression
_STEP = np.log(_HIGHEST / _LOWEST) / _CELLS
_HALF_LIFE = 2_000.0  # sampled requests
_PRIOR = 20.0  # requests without competition, assumed at first


@dataclass(frozen=True)
class Availability:
    """A(v) at rising values. It can be sent to another process."""

    values: FloatArray
    available: FloatArray

    def apply(self, response: Response) -> Response:
        """The market of what others leave over."""
        at = np.interp(response.values, self.values, self.available)
        return response.contested(at)


class Competition:
    """The best value of the others for sampled requests, by slot of a board."""

    def __init__(self) -> None:
        self._weights = np.zeros((0, _CELLS + 1))  # the first cell: nobody else wanted it
        self._weight = 1.0

    def add_slots(self, slots: int) -> None:
        """Make room for campaigns."""
        self._weights = np.concatenate([self._weights, np.zeros((slots, _CELLS + 1))])

    def forget(self, slot: int) -> None:
        """The slot is a new campaign's."""
        self._weights[slot] = 0.0

    def record(self, best: float, winner: int | None, second: float) -> None:
        """A sampled request: the best value, whose it was, and the best value of the others."""
        cell, after = _cell(best), _cell(second)
        self._weights[:, cell] += self._weight
        if winner is not None:
            self._weights[winner, cell] -= self._weight
            self._weights[winner, after] += self._weight
        self._weight *= 2.0 ** (1.0 / _HALF_LIFE)
        if self._weight > 1e100:
            self._weights /= self._weight
            self._weight = 1.0

    def availability(self, slot: int) -> Availability | None:
        """A(v) for one campaign; None while there is no competition."""
        weights = self._weights[slot] / self._weight
        if not weights[1:].any():
            return None
        below = np.cumsum(weights) + _PRIOR
        edges = _LOWEST * np.exp(_STEP * np.arange(_CELLS + 1))
        return Availability(edges, below / below[-1])


def _cell(value: float) -> int:
    """0 for no value; cell i holds values up to the edge i."""
    if value <= _LOWEST:
        return 0
    return min(int(np.ceil(np.log(value / _LOWEST) / _STEP)), _CELLS)
