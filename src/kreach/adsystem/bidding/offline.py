"""λ* when every request's reach probability is known beforehand (the paper's KKT condition)."""

import numpy as np
import numpy.typing as npt

from kreach.adsystem.bidding.market import Market
from kreach.errors import KreachError

__all__ = ["offline_multiplier"]


def offline_multiplier(probabilities: npt.ArrayLike, market: Market, budget: float) -> float:
    """λ* with Σ_t H(b*(p_t/λ*)) = budget; 0 if even winning everything costs less.

    Spend falls as λ rises, so bisection on ln λ finds it to the last digit.

    >>> import kreach as kr
    >>> market = kr.LogNormalMarket(mu=0.0, sigma=0.7)
    >>> multiplier = kr.offline_multiplier([1.0, 0.5, 0.25], market, budget=1.0)
    >>> round(sum(float(market.expected_cost(p / multiplier)) for p in (1.0, 0.5, 0.25)), 6)
    1.0
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if not ((p >= 0.0) & (p <= 1.0)).all():
        raise KreachError.rule("probabilities", "lie between 0 and 1", p)
    if not 0.0 < budget < float("inf"):
        raise KreachError.rule("budget", "be a finite number > 0", budget)
    p = p[p > 0.0]

    def spend(log_multiplier: float) -> float:
        bids = market.optimal_bid(p / np.exp(log_multiplier))
        return float(market.expected_cost(bids).sum())

    low, high = -40.0, 40.0
    if p.size == 0 or spend(low) <= budget:
        return 0.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if spend(middle) > budget else (low, middle)
    return float(np.exp(high))
