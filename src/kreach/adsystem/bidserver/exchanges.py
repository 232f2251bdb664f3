"""Exchanges: who sent a request, and how each answers first-price bids.

In a second-price auction the best bid is the value, at every exchange. In a first-price auction it
depends on what others bid there, so bids are shaded by what was won and lost at the exchange. All
campaigns learn together: other buyers' bids are the exchange's, not the campaign's. Where these
have a daily rhythm, bids are shaded by the prices of the hour.
"""

import re
from collections.abc import Mapping, Sequence
from math import log
from typing import Any

from kreach.adsystem.bidding.hourly_learning import HourlyLearner
from kreach.adsystem.bidding.market import LogNormalMarket
from kreach.adsystem.bidding.market_hours import MarketHours
from kreach.adsystem.bidding.shading import Shading
from kreach.numeric.types import FloatArray

__all__ = ["FIRST_PRICE", "FIXED_PRICE", "SECOND_PRICE", "Exchanges", "auction_of"]

SECOND_PRICE = 0
FIRST_PRICE = 1
"""Venues: a second-price auction; a first-price auction of an exchange without a name. Each further
number is that of a first-price auction at a named exchange."""
FIXED_PRICE = 255
"""A deal at an agreed price: it teaches nothing about a market."""

_MAX_NAMED = 16
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_ENOUGH = 200  # outcomes; before, bids are shaded by the campaign's own first-price auctions
_HALF_LIFE_AUCTIONS = 2_000.0
_REFRESH_SECONDS = 10.0


def auction_of(venue: int) -> str:
    """The auction type of a venue."""
    return "second_price" if venue == SECOND_PRICE else "first_price"


class Exchanges:
    """Up to 16 named exchanges, the first to send a first-price request; others have no name."""

    def __init__(self, mu: float, sigma: float) -> None:
        """`mu` and `sigma` of ln(CPM): the prior of every exchange."""
        self._prior = LogNormalMarket(mu - log(1_000), sigma, "first_price")
        self.hours = MarketHours()  # by auction type, from the campaigns' auctions
        self._numbers: dict[str, int] = {}
        self._learners: dict[int, HourlyLearner] = {}
        self._shadings: dict[int, Shading] = {}
        self._changed: set[int] = set()
        self._refreshed = float("-inf")

    @property
    def names(self) -> Sequence[str]:
        """The exchanges that are told apart, in the order of their venues."""
        return tuple(self._numbers)

    def venue(self, name: str) -> int:
        """The number of first-price auctions at an exchange."""
        number = self._numbers.get(name)
        if number is not None:
            return number
        lower = name.lower()
        if lower in self._numbers:
            return self._numbers[lower]
        if len(self._numbers) >= _MAX_NAMED or not _NAME.fullmatch(lower):
            return FIRST_PRICE
        number = self._numbers[lower] = FIRST_PRICE + 1 + len(self._numbers)
        self._learners[number] = HourlyLearner(self._prior, half_life_auctions=_HALF_LIFE_AUCTIONS)
        return number

    def shading(self, venue: int) -> Shading | None:
        """How to shade bids at an exchange; None while too little is known."""
        return self._shadings.get(venue)

    def learn(
        self,
        venue: int,
        bid: float,
        *,
        won: bool,
        count: float = 1.0,
        moment: float | None = None,
    ) -> None:
        """Learn from the outcome of a bid, or of several lost ones; `moment`: when it was made."""
        learner = self._learners.get(venue)
        if learner is None:
            return
        if won:
            learner.win(bid, bid, moment)
        else:
            learner.loss(bid, count, moment)
        self._changed.add(venue)

    def refresh(self, now: float) -> None:
        """Shade by what was learned; does so every 10 seconds."""
        if not self._changed or 0.0 <= now - self._refreshed < _REFRESH_SECONDS:
            return
        self._refreshed = now
        due = next((at for at in sorted(self._changed) if self._learners[at].fit_due), None)
        if due is not None:  # one at a time: requests wait for it
            self._learners[due].fit_hours(self._market_hours())
        for venue in self._changed:
            learner = self._learners[venue]
            if learner.auctions >= _ENOUGH:
                if not learner.knows_hours:  # a new exchange begins with those of the others
                    learner.fit_hours(self._market_hours())
                self._shadings[venue] = Shading(learner.market(), learner.factors)
        self._changed.clear()

    def _market_hours(self) -> FloatArray | None:
        return self.hours.offsets("first_price", "")

    def memory(self) -> dict[str, Any]:
        """What was learned, as plain values, by exchange in the order of their venues."""
        return {name: self._learners[number].memory() for name, number in self._numbers.items()}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take up what an earlier run learned."""
        for name, learned in memory.items():
            number = self.venue(name)
            if number != FIRST_PRICE:
                self._learners[number].remember(learned)
                self._changed.add(number)
