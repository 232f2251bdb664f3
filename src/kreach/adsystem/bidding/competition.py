"""What other campaigns of the same bidder leave over.

Of the campaigns that want a request one bids: campaign i, of value v_i and weight w_i, with
probability w_i·v_i^γ / Σ_j w_j·v_j^γ (`Board.ranks`). A campaign that plans with every request
would plan with those that others get. So it learns from sampled requests how strong the others are.
Its own value is its worth u_i times 1/λ_i, and it would get every second of such requests at

    1/λ = l = (Σ_{j≠i} w_j·v_j^γ / w_i)^(1/γ) / u_i.

With the multiplier λ it gets the share A(λ) = E[ 1 / (1 + (l·λ)^γ) ], the mean over requests, those
of more worth counting more: what is worth much to one is often worth much to others. Requests are
won with A·W and cost A·H. Weights are money left per time left, so that campaigns with equal
values get requests in proportion to what they can spend.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from kreach.numeric.types import FloatArray, IntArray

__all__ = ["PREFERENCE", "Availability", "Competition"]

PREFERENCE = 4.0
"""γ: of campaigns that want a request, i gets it with a chance ∝ w_i·v_i^γ. If the one that values
it most always did, campaigns would outbid each other, and pay more, for the same requests."""

_CELLS = 480
_LOWEST, _HIGHEST = 1e-9, 1e3  # money for a reach
_STEP = np.log(_HIGHEST / _LOWEST) / _CELLS
_HALF_LIFE = 2_000.0  # sampled requests
_GROWTH = 2.0 ** (1.0 / _HALF_LIFE)  # of the weight of a request over the one before
_PRIOR = 0.5  # requests without competition, assumed at first


@dataclass(frozen=True)
class Availability:
    """A(λ) at falling λ, rising 1/λ. It can be sent to another process."""

    levels: FloatArray  # 1/λ
    shares: FloatArray

    def at(self, multiplier: float) -> float:
        """The share of the requests that a campaign gets with this multiplier."""
        return float(np.interp(1.0 / multiplier, self.levels, self.shares))


class Competition:
    """How strong the others were in sampled requests, by slot of a board."""

    def __init__(self) -> None:
        self._weights = np.zeros((0, _CELLS + 1))  # the first cell: nobody else wanted it
        self._weight = 1.0

    def add_slots(self, slots: int) -> None:
        """Make room for campaigns."""
        self._weights = np.concatenate([self._weights, np.zeros((slots, _CELLS + 1))])

    def forget(self, slot: int) -> None:
        """The slot is a new campaign's."""
        self._weights[slot] = 0.0

    def record(
        self,
        values: FloatArray,
        multipliers: FloatArray,
        weights: FloatArray,
        others: float,
        pools: IntArray | None = None,
    ) -> None:
        """A sampled request: value, λ and weight by slot; `others`: Σ w·v^γ of those without one.

        A value of 0 says that the campaign does not want it. Slots with the same number ≥ 0 in
        `pools` plan as one campaign: they do not compete with each other.
        """
        self.record_all(values[None], multipliers, weights, np.array([others]), pools)

    def record_all(
        self,
        values: FloatArray,
        multipliers: FloatArray,
        weights: FloatArray,
        others: FloatArray,
        pools: IntArray | None = None,
    ) -> None:
        """`record` of several requests in their order: rows of `values`, and `others` of each."""
        requests = len(values)
        strength = weights * values**PREFERENCE
        own = strength
        weights = np.broadcast_to(weights, values.shape)
        if pools is not None and (pools >= 0).any():
            own, weights = _pooled(strength, weights, pools)
        left = np.maximum(strength.sum(axis=1)[:, None] - own, 0.0) + others[:, None]
        mine = np.nonzero(values > 0.0)
        request, slot = mine
        worth = values[mine] * multipliers[slot]
        level = (left[mine] / np.maximum(weights[mine], 1e-300)) ** (1.0 / PREFERENCE) / worth
        cell = np.ceil(np.log(np.maximum(level, _LOWEST) / _LOWEST) / _STEP).astype(np.int64)
        cell = slot * (_CELLS + 1) + np.clip(cell, 0, _CELLS)
        later = np.array([self._weight, *([_GROWTH] * requests)]).cumprod()
        np.add.at(self._weights.reshape(-1), cell, later[request] * np.minimum(worth, 1.0))
        self._weight = float(later[-1])
        if self._weight > 1e100:
            self._weights /= self._weight
            self._weight = 1.0

    def availability(self, slot: int) -> Availability | None:
        """A(λ) for one campaign; None while there is no competition."""
        weights = self._weights[slot] / self._weight
        if not weights[1:].any():
            return None
        weights[0] += _PRIOR
        levels, shares = _shares()
        return Availability(levels, shares @ weights / weights.sum())


def _pooled(
    strength: FloatArray, weights: FloatArray, pools: IntArray
) -> tuple[FloatArray, FloatArray]:
    """The strength of each slot's pool, and weights that give the pool's strength at its value."""
    pooled, count = pools >= 0, int(pools.max()) + 1
    key = np.arange(len(strength))[:, None] * count + pools[pooled]
    sums = np.bincount(key.ravel(), weights=strength[:, pooled].ravel())
    own = strength.copy()
    own[:, pooled] = sums[key]
    wanted = pooled & (strength > 0.0)
    return own, np.where(wanted, weights * own / np.where(wanted, strength, 1.0), weights)


@cache
def _shares() -> tuple[FloatArray, FloatArray]:
    """Levels 1/λ, and the share that each gets of the requests in each cell."""
    levels = _LOWEST * np.exp(_STEP * np.arange(_CELLS + 1))
    rivals = levels * np.exp(-0.5 * _STEP)  # the middle of a cell
    rivals[0] = 0.0  # nobody else wanted it
    return levels, 1.0 / (1.0 + (rivals[None, :] / levels[:, None]) ** PREFERENCE)
