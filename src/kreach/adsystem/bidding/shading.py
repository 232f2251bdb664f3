"""The best bid for a value, quick enough for a bid request."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from kreach.adsystem.bidding.market import EmpiricalMarket, LogNormalMarket, Market
from kreach.adsystem.bidding.responses import market_response
from kreach.adsystem.bidding.rhythm import hour_of

__all__ = ["Shading", "shading_of"]


class Shading:
    """`market.optimal_bid` of one value at a time, from a table made once.

    A second price asks for the value itself. Prices that were seen give steps, which the table
    holds all of; a smooth market is read off 1,024 points in between which it is a straight line.

    `factors` are those of prices by UTC hour: the bid for v at f times the prices is f times the
    bid for v/f, so one table serves all hours.
    """

    def __init__(self, market: Market, factors: Sequence[float] | None = None) -> None:
        self._factors = factors
        self._values: list[float] = []
        self._bids: list[float] = []
        self._steps = isinstance(market, EmpiricalMarket)
        if market.auction == "second_price":
            return
        if isinstance(market, EmpiricalMarket):
            values, bids = market.steps()
            self._values, self._bids = values.tolist(), [0.0, *bids.tolist()]
        else:
            response = market_response(market)
            self._values, self._bids = response.values.tolist(), response.bids.tolist()

    def at(self, moment: float, value: float) -> float:
        """The bid at a time (seconds since 1970)."""
        if self._factors is None:
            return self(value)
        factor = self._factors[hour_of(moment)]
        return factor * self(value / factor)

    def __call__(self, value: float) -> float:
        """The bid for a request worth so much money, at prices as they are in the table."""
        values = self._values
        if not values:
            return value
        at = bisect_right(values, value)
        if self._steps:
            return self._bids[at]
        if at == 0 or at >= len(values):
            return self._bids[min(at, len(values) - 1)]
        low, high = values[at - 1], values[at]
        part = (value - low) / (high - low)
        return self._bids[at - 1] + part * (self._bids[at] - self._bids[at - 1])


def shading_of(market: Market, factors: Sequence[float] | None = None) -> Shading:
    """The shading of a market. Campaigns with the same prior share one, which is slow to make."""
    if factors is None and isinstance(market, LogNormalMarket):
        return _of_prior(market)
    return Shading(market, factors)


@lru_cache(maxsize=64)
def _of_prior(market: LogNormalMarket) -> Shading:
    return Shading(market)
