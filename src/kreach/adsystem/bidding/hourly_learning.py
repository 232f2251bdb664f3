"""Learning a market whose prices have a daily rhythm.

A price in hour h is one of a base market times e^{o_h − c}. `MarketLearner` learns the base from
outcomes divided by that factor, with its short memory, and so follows the level; `PriceRhythm`
learns the offsets o_h over days. When offsets change, c moves so that the market of the auctions
which the base remembers stays where it was. Without a rhythm every factor is 1.
"""

from collections.abc import Mapping
from math import exp, log
from typing import Any

from kreach.adsystem.bidding.learning import MarketLearner
from kreach.adsystem.bidding.market import Market
from kreach.adsystem.bidding.rhythm import (
    HOURS,
    HourEstimates,
    PriceRhythm,
    believed_offsets,
    hour_of,
)
from kreach.boundary.times import HOUR_SECONDS
from kreach.numeric.types import FloatArray

__all__ = ["HourlyLearner"]

_QUARTILES_SIGMA = 1.349  # between the quartiles of a normal law


class HourlyLearner(MarketLearner):
    """A `MarketLearner` that is told when each auction was.

    `market` is the base; that of an hour is the base times `factors[hour]`. Without a moment an
    outcome says nothing about hours.
    """

    def __init__(
        self,
        prior: Market,
        prior_auctions: float = 10.0,
        half_life_auctions: float = float("inf"),
    ) -> None:
        super().__init__(prior, prior_auctions, half_life_auctions)
        low, high = self.quartiles
        sigma = max(log(high / low) / _QUARTILES_SIGMA, 0.05)
        self._rhythm = PriceRhythm(float(self._edges[0]), float(self._edges[-1]), sigma)
        self._offsets = [0.0] * HOURS
        self._level = 0.0  # c
        self._recent = [0.0] * HOURS  # auctions that the base remembers
        self.factors: tuple[float, ...] | None = None
        self._last: float | None = None
        self._fitted_hour: int | None = None
        self._market: FloatArray | None = None  # offsets that others have learned
        self.estimates: tuple[HourEstimates, float] | None = None  # own, as of a moment

    def factor(self, moment: float | None) -> float:
        """Prices at a moment, over those of the base; without, of the auctions remembered."""
        if self.factors is None:
            return 1.0
        if moment is not None:
            return self.factors[hour_of(moment)]
        return exp(self._mean(self._offsets) - self._level)

    def win(self, bid: float, price: float, moment: float | None = None) -> None:
        """Record a win; with a first price the price paid is the bid."""
        factor = self._note(moment, 1.0)
        if moment is not None and self.auction == "first_price":
            self._rhythm.bound(bid, moment, won=True)
        elif moment is not None:
            self._rhythm.price(price, moment)
        super().win(bid / factor, price / factor)

    def loss(self, bid: float, count: float = 1.0, moment: float | None = None) -> None:
        """Record a loss, several at the same bid, or part of one that may have another reason."""
        if bid > 0.0:
            factor = self._note(moment, count)
            if moment is not None:
                self._rhythm.bound(bid, moment, won=False, count=count)
            super().loss(bid / factor, count)

    def _note(self, moment: float | None, count: float) -> float:
        if moment is None:
            return self.factor(None)
        self._recent[hour_of(moment)] += self._weight * count
        self._last = moment
        return self.factor(moment)

    @property
    def knows_hours(self) -> bool:
        """Whether its own auctions tell hours apart, or might."""
        return self._rhythm.repeats

    @property
    def fit_due(self) -> bool:
        """Whether an hour has passed in which something was learned, and hours have repeated."""
        if self._last is None or int(self._last // HOUR_SECONDS) == self._fitted_hour:
            return False
        return self._rhythm.repeats

    def fit_hours(self, market: FloatArray | None = None) -> None:
        """Believe what was learned about hours; does so once an hour.

        `market`: offsets that others have learned in the same market. They are believed at once,
        and as far as one's own auctions do not say otherwise.
        """
        if self.fit_due and self._last is not None:
            self._fitted_hour = int(self._last // HOUR_SECONDS)
            own = self._rhythm.estimates()
            self.estimates = None if own is None else (own, self._last)
        elif self.estimates is None and self._rhythm.repeats:
            return  # remembered: offsets are those of both already
        elif market is None or (self._market is not None and (market == self._market).all()):
            return
        self._market = market
        own = None if self.estimates is None else self.estimates[0]
        self._use(believed_offsets(own, market))

    def _use(self, offsets: FloatArray | None) -> None:
        new = [0.0] * HOURS if offsets is None else offsets.tolist()
        self._level += self._mean(new) - self._mean(self._offsets)
        self._offsets = new
        if offsets is None and abs(self._level) < 1e-12:
            self._level, self.factors = 0.0, None
        else:
            self.factors = tuple(exp(offset - self._level) for offset in new)

    def _mean(self, offsets: list[float]) -> float:
        """The mean offset of the auctions that the base remembers."""
        total = sum(self._recent)
        if total <= 0.0:
            return 0.0
        return sum(x * weight for x, weight in zip(offsets, self._recent, strict=True)) / total

    def _rescale(self) -> None:
        self._recent = [weight / self._weight for weight in self._recent]
        super()._rescale()

    def memory(self) -> dict[str, Any]:
        """What was seen, as plain values."""
        memory: dict[str, Any] = dict(super().memory())
        memory["hours"] = self._rhythm.memory() | {
            "offsets": self._offsets,
            "level": self._level,
            "recent": self._recent,
        }
        return memory

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take up what was seen before; a memory on another grid of prices is of no use."""
        if not self._take_up(memory):
            return
        hours = memory.get("hours")  # memories of earlier versions have none
        if hours is None:
            return
        offsets, recent = ([float(x) for x in hours[name]] for name in ("offsets", "recent"))
        if len(offsets) != HOURS or len(recent) != HOURS:
            raise ValueError(f"a memory of prices by hour must have {HOURS} of each")
        self._rhythm.remember(hours)
        self._offsets, self._recent, self._level = offsets, recent, float(hours["level"])
        self.factors = None
        if any(offsets) or self._level:
            self.factors = tuple(exp(offset - self._level) for offset in offsets)
