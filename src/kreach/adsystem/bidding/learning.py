"""Learning the market from one's own auctions.

**Second price.** A win shows the price, a loss only that it was above the bid: right-censored data.
On a grid of prices the hazard of a cell is (prices seen in it)/(auctions that would have seen it),
and W(b) = 1 − Π (1 − hazard) (Kaplan and Meier). A prior enters as so many auctions already seen.

**First price.** A win shows nothing about the next lower bid: only win or loss at the bids made.
Rates per cell are made monotone by isotonic regression.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kreach.adsystem.bidding.market import EmpiricalMarket, Market, check_auction
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray

__all__ = ["MarketLearner"]

_CELLS = 240
_SPREAD = 4.0  # the grid reaches e⁴ times beyond the middle half of the prior's prices


class MarketLearner:
    """Own outcomes in, a market out; before the first outcome it is the prior.

    Updating costs one look-up; `market()` costs a pass over the grid and is meant to be called at
    intervals. `prior_auctions` is what the prior counts for. With `half_life_auctions` what was
    seen so many auctions ago counts half, so that a market that moves is followed.
    """

    def __init__(
        self,
        prior: Market,
        prior_auctions: float = 10.0,
        half_life_auctions: float = float("inf"),
    ) -> None:
        check_auction(prior.auction)
        if not prior_auctions > 0.0:
            raise KreachError.rule("prior_auctions", "be a number > 0", prior_auctions)
        if not half_life_auctions > 0.0:
            raise KreachError.rule("half_life_auctions", "be a number > 0", half_life_auctions)
        # instead of fading what was seen, what is new weighs more; only ratios matter
        self._growth = 2.0 ** (1.0 / half_life_auctions)
        self._weight = 1.0
        self.auction = prior.auction
        low, high = self.quartiles = _quantile(prior, 0.25), _quantile(prior, 0.75)
        edges = np.exp(np.linspace(np.log(low) - _SPREAD, np.log(high) + _SPREAD, _CELLS))
        self._edges = edges  # cell i holds prices in (edges[i−1], edges[i]]
        cumulative = prior.win_probability(edges)
        mass = np.diff(np.concatenate([[0.0], cumulative]))
        self._prior_seen: FloatArray = prior_auctions * mass
        self._prior_risk = prior_auctions * (1.0 - np.concatenate([[0.0], cumulative[:-1]]))
        self._prior_win = cumulative
        self._prior_auctions = prior_auctions
        self._seen = np.zeros(_CELLS)  # second price: prices seen; first price: wins at bids
        self._price_sum = np.zeros(_CELLS)
        self._lost = np.zeros(_CELLS)  # losses, by bid
        self.auctions = 0.0

    def win(self, bid: float, price: float) -> None:
        """Record a win; with a first price the price paid is the bid."""
        value = bid if self.auction == "first_price" else price
        cell = self._cell(value)
        self._seen[cell] += self._weight
        self._price_sum[cell] += self._weight * value
        self._next()

    def loss(self, bid: float, count: float = 1.0) -> None:
        """Record a loss, several at the same bid, or part of one that may have another reason."""
        if bid > 0.0:
            self._lost[self._cell(bid)] += self._weight * count
            self._next(count)

    def memory(self) -> dict[str, Any]:
        """What was seen, as plain values."""
        self._rescale()
        return {
            "edges": [float(self._edges[0]), float(self._edges[-1])],
            "seen": self._seen.tolist(),
            "price_sum": self._price_sum.tolist(),
            "lost": self._lost.tolist(),
            "auctions": [float(self.auctions)],
        }

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take up what was seen before; a memory on another grid of prices is of no use."""
        self._take_up(memory)

    def _take_up(self, memory: Mapping[str, Sequence[float]]) -> bool:
        edges = [float(self._edges[0]), float(self._edges[-1])]
        if list(memory["edges"]) != edges or len(memory["seen"]) != _CELLS:
            return False
        self._seen = np.array(memory["seen"], dtype=np.float64)
        self._price_sum = np.array(memory["price_sum"], dtype=np.float64)
        self._lost = np.array(memory["lost"], dtype=np.float64)
        self._weight, self.auctions = 1.0, float(memory["auctions"][0])
        return True

    def _cell(self, value: float) -> int:
        return min(int(np.searchsorted(self._edges, value, side="left")), _CELLS - 1)

    def market(self) -> EmpiricalMarket:
        """The market as known now."""
        self._rescale()
        win = self._isotonic() if self.auction == "first_price" else self._kaplan_meier()
        mass = np.diff(np.concatenate([[0.0], win]))
        middle = np.sqrt(self._edges * np.concatenate([self._edges[:1], self._edges[:-1]]))
        seen = self._seen > 1e-9
        centre = np.where(seen, self._price_sum / np.where(seen, self._seen, 1.0), middle)
        prices = centre if self.auction == "second_price" else self._edges
        beyond = max(0.0, 1.0 - float(win[-1]))
        return EmpiricalMarket(
            np.append(prices, self._edges[-1] * 10.0), np.append(mass, beyond + 1e-12), self.auction
        )

    def _next(self, count: float = 1.0) -> None:
        self.auctions += count
        self._weight *= self._growth ** min(count, 100_000)
        if self._weight > 1e100:
            self._rescale()

    def _rescale(self) -> None:
        """Let the newest auction weigh 1 again."""
        for tally in (self._seen, self._price_sum, self._lost):
            tally /= self._weight  # noqa: PLW2901 - in place
        self._weight = 1.0

    def _kaplan_meier(self) -> FloatArray:
        ended = self._seen + self._lost
        at_risk = np.cumsum(ended[::-1])[::-1]
        # a loss at a bid inside a cell says that the price is above it: it leaves after the cell
        risk = np.maximum(at_risk + self._prior_risk, 1e-12)
        hazard = (self._seen + self._prior_seen) / risk
        result: FloatArray = np.asarray(1.0 - np.cumprod(1.0 - np.minimum(hazard, 1.0)))
        return result

    def _isotonic(self) -> FloatArray:
        """Isotonic regression of win rates, the prior spread evenly over the cells."""
        from scipy.optimize import isotonic_regression  # noqa: PLC0415 - slow to import

        share = self._prior_auctions / _CELLS
        trials = self._seen + self._lost + share
        rate = (self._seen + share * self._prior_win) / trials
        win: FloatArray = isotonic_regression(rate, weights=trials).x
        return win


def _quantile(market: Market, p: float) -> float:
    """The price below which a share p of the market lies, by bisection on its logarithm."""
    low, high = -60.0, 60.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if float(market.win_probability(np.exp(middle))) < p:
            low = middle
        else:
            high = middle
    return float(np.exp(high))
