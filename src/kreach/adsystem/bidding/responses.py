"""How markets answer values in money, on a grid: what plans are solved with."""

import numpy as np

from kreach.adsystem.bidding.hourly_market import MarketByHour
from kreach.adsystem.bidding.market import Market, MarketMix
from kreach.numeric.planning import Response
from kreach.numeric.types import FloatArray

__all__ = ["PlannedMarket", "market_response"]

_POINTS = 1024

PlannedMarket = Market | MarketMix | MarketByHour
"""The market of requests to come."""


def market_response(market: PlannedMarket, max_bid: float = float("inf")) -> Response:
    """The market's answer on a grid of values that covers its prices, whatever their unit, for
    bids of at most `max_bid`."""
    if isinstance(market, MarketMix):
        return _mixed_response(market).limited(max_bid)
    if isinstance(market, MarketByHour):
        return _response_by_hour(market, max_bid)
    return _response(market).limited(max_bid)


def _response(market: Market) -> Response:
    coarse = np.exp(np.linspace(-60.0, 60.0, 481))
    win = market.win_probability(coarse)
    lowest = coarse[np.argmax(win > 1e-7)] / 2.0
    highest = coarse[np.argmax(win >= win[-1] * (1.0 - 1e-7))] * 2.0
    if market.auction == "first_price":
        highest *= 1e3  # bids are shaded, so values reach further than prices
    grid = np.exp(np.linspace(np.log(lowest), np.log(highest), _POINTS))
    bids = market.optimal_bid(grid)
    zero = np.zeros(1)
    return Response(
        np.concatenate([zero, grid]),
        np.concatenate([zero, bids]),
        np.concatenate([zero, market.win_probability(bids)]),
        np.concatenate([zero, market.expected_cost(bids)]),
    )


def _mixed_response(mix: MarketMix) -> Response:
    """A request is of one of the markets: chances to win and costs are averages by their shares."""
    parts = [(market_response(market), share) for market, share in mix.parts]
    values = np.unique(np.concatenate([response.values for response, _ in parts]))
    win, cost = np.zeros(len(values)), np.zeros(len(values))
    for response, share in parts:
        own_win, own_cost = response.win_and_cost(values)
        win += share * own_win
        cost += share * own_cost
    return Response(values, values, win, cost)


def _response_by_hour(market: MarketByHour, max_bid: float) -> Response:
    """A request comes in one of the hours; the answer in each is that of the base, scaled."""
    base = _response(market.base)
    factors = np.array([factor for factor, _ in market.parts])
    low, high = base.values[1] * factors.min(), base.values[-1] * factors.max()
    points = _POINTS + int(np.ceil(np.log(factors.max() / factors.min()) / _step(base)))
    grid = np.exp(np.linspace(np.log(low), np.log(high), points))
    values = np.concatenate([np.zeros(1), grid])
    bids, win, cost = np.zeros((3, len(values)))
    for factor, share in market.parts:
        answer = base.limited(max_bid / factor)
        own = values / factor
        bids += share * factor * np.interp(own, answer.values, answer.bids)
        win += share * np.interp(own, answer.values, answer.win)
        cost += share * factor * np.interp(own, answer.values, answer.cost)
    return Response(values, bids, win, cost)


def _step(response: Response) -> float:
    values: FloatArray = response.values
    return float(np.log(values[2] / values[1]))
