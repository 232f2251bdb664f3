"""Markets whose prices are those of another market times a factor: the hours of a day.

With prices f times as high, W(b) = W₁(b/f), H(b) = f·H₁(b/f), and the best bid for v is f times the
best bid for v/f: one table serves all hours.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kreach.adsystem.bidding.market import Market
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray

__all__ = ["MarketByHour", "ScaledMarket", "scaled"]


@dataclass(frozen=True)
class ScaledMarket:
    """A market with prices `factor` times those of another.

    >>> from kreach.adsystem.bidding.market import LogNormalMarket
    >>> dear = ScaledMarket(LogNormalMarket(mu=0.0, sigma=1.0), factor=2.0)
    >>> float(dear.win_probability(2.0))
    0.5
    """

    base: Market
    factor: float

    def __post_init__(self) -> None:
        if not 0.0 < self.factor < float("inf"):
            raise KreachError.rule("factor", "be a finite number > 0", self.factor)

    @property
    def auction(self) -> str:
        """ "second_price" or "first_price"."""
        return self.base.auction

    def win_probability(self, bid: npt.ArrayLike) -> FloatArray:
        """W(b)."""
        return self.base.win_probability(np.asarray(bid, dtype=np.float64) / self.factor)

    def expected_cost(self, bid: npt.ArrayLike) -> FloatArray:
        """H(b), counting a lost auction as 0."""
        return self.factor * self.base.expected_cost(
            np.asarray(bid, dtype=np.float64) / self.factor
        )

    def optimal_bid(self, value: npt.ArrayLike) -> FloatArray:
        """The bid that maximises value·W(b) − H(b)."""
        return self.factor * self.base.optimal_bid(
            np.asarray(value, dtype=np.float64) / self.factor
        )


def scaled(base: Market, factor: float) -> Market:
    """The market itself, where its prices stay as they are."""
    return base if factor == 1.0 else ScaledMarket(base, factor)


@dataclass(frozen=True)
class MarketByHour:
    """Requests to come in hours of different prices: factors, each with its share of them.

    It can be planned for, not bid in: a bid is made in one hour.
    """

    base: Market
    parts: tuple[tuple[float, float], ...]  # factor, share

    def __post_init__(self) -> None:
        shares = [share for _, share in self.parts]
        if not (min(shares, default=0.0) > 0.0 and abs(sum(shares) - 1.0) < 1e-9):
            raise KreachError.rule("shares of hours", "be > 0 and sum to 1", shares)

    @property
    def auction(self) -> str:
        """ "second_price" or "first_price"."""
        return self.base.auction
