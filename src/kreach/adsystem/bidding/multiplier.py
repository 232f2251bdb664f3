"""The search for a budget multiplier: where expected spend is the budget."""

from collections.abc import Callable

import numpy as np

from kreach.numeric.planning import Response
from kreach.numeric.types import FloatArray

__all__ = ["HIGHEST", "LOWEST", "find_multiplier", "guess_multiplier"]

LOWEST, HIGHEST = 1e-9, 1e9
_CLOSE = 0.01  # relative error in spend that a plan may leave: re-planning corrects it


def guess_multiplier(
    worth: FloatArray, requests: FloatArray, budget: float, response: Response
) -> float:
    """λ that would spend the budget if no request made later ones worth less.

    `requests` are to come that are worth `worth` each.
    """
    worth, at = np.unique(np.round(worth, 3), return_inverse=True)
    left = np.bincount(at, weights=requests)
    low, high = np.log(LOWEST), np.log(HIGHEST)
    for _ in range(40):
        middle = 0.5 * (low + high)
        _, cost = response.win_and_cost(worth / np.exp(middle))
        spend = float(cost @ left)
        low, high = (middle, high) if spend > budget else (low, middle)
    return float(np.exp(high)) / 2.0  # requests do get worth less, so bids must be higher


def find_multiplier(
    spend: Callable[[float], float], budget: float, guess: float, lowest: float
) -> float:
    """ln λ with spend(ln λ) ≈ budget: bracket it from the guess, then narrow. Spend falls in λ.

    The lowest λ allowed, if even that leaves a part of the budget.
    """
    low_limit, high_limit = float(np.log(lowest)), np.log(HIGHEST)
    low = high = float(np.log(guess))
    width = 0.1
    while spend(low) < budget and low > low_limit:  # too little is spent: money is worth less
        high, low, width = low, max(low - width, low_limit), 2.0 * width
    while spend(high) > budget and high < high_limit:
        low, high, width = max(low, high), min(high + width, high_limit), 2.0 * width
    for _ in range(40):
        below, above = spend(high), spend(low)
        if above <= budget * (1.0 + _CLOSE):
            return low
        if below >= budget * (1.0 - _CLOSE):
            return high
        share = np.clip((above - budget) / max(above - below, 1e-300), 0.1, 0.9)
        middle = low + share * (high - low)
        if spend(middle) > budget:
            low = middle
        else:
            high = middle
        if high - low < 1e-6:
            break
    return high
