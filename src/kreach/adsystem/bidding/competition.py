"""What other campaigns of the same bidder leave over.

Of the campaigns that want a request one bids: campaign i, of value v_i and weight w_i, with
probability w_i·v_i^γ / Σ_j w_j·v_j^γ (`Board.ranks`). A campaign that plans with every request
would plan with those that others get. So it learns from sampled requests how strong the others are,

    e_i = (Σ_{j≠i} w_j·v_j^γ / w_i)^(1/γ),

the value at which it would get every second of such requests. At value v it gets

    A(v) = E[ v^γ / (v^γ + e_i^γ) ]

of them: a request of value v is won with A(v)·W(v) and costs A(v)·H(v). Weights are money left per
time left, so that campaigns with equal values get requests in proportion to what they can spend.
"""

from dataclasses import dataclass

import numpy as np

from kreach.numeric.planning import Response
from kreach.numeric.types import FloatArray

__all__ = ["PREFERENCE", "Availability", "Competition"]

PREFERENCE = 4.0
"""γ: of campaigns that want a request, i gets it with a chance ∝ w_i·v_i^γ. If the one that values
it most always did, campaigns would outbid each other, and pay more, for the same requests."""

_CELLS = 160
_LOWEST, _HIGHEST = 1e-9, 1e3  # money for one impression
_STEP = np.log(_HIGHEST / _LOWEST) / _CELLS
_HALF_LIFE = 2_000.0  # sampled requests
_PRIOR = 0.5  # requests without competition, assumed at first


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

    def record(self, values: FloatArray, weights: FloatArray, others: float) -> None:
        """A sampled request: value and weight by slot; `others` is Σ w·v^γ of those without one."""
        strength = weights * values**PREFERENCE
        left = np.maximum(strength.sum() - strength, 0.0) + others
        rival = (left / np.maximum(weights, 1e-300)) ** (1.0 / PREFERENCE)
        cell = np.ceil(np.log(np.maximum(rival, _LOWEST) / _LOWEST) / _STEP).astype(np.int64)
        self._weights[np.arange(len(cell)), np.clip(cell, 0, _CELLS)] += self._weight
        self._weight *= 2.0 ** (1.0 / _HALF_LIFE)
        if self._weight > 1e100:
            self._weights /= self._weight
            self._weight = 1.0

    def availability(self, slot: int) -> Availability | None:
        """A(v) for one campaign; None while there is no competition."""
        weights = self._weights[slot] / self._weight
        if not weights[1:].any():
            return None
        edges = _LOWEST * np.exp(_STEP * np.arange(_CELLS + 1))
        ratio = (edges[None, :] / edges[:, None]) ** PREFERENCE  # rival over value
        ratio[:, 0] = 0.0  # nobody else wanted it
        weights[0] += _PRIOR
        return Availability(edges, (weights / (1.0 + ratio)).sum(axis=1) / weights.sum())
