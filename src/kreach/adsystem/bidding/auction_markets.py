"""A campaign's markets: the auction type is known with each request, prices are learned by type."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kreach.adsystem.bidding.learning import MarketLearner
from kreach.adsystem.bidding.market import Market, MarketMix, check_auction
from kreach.boundary.money import AUCTIONS
from kreach.errors import KreachError

__all__ = ["AuctionMarkets"]

_MAX_COUNTED = 10_000.0
_FEW = 0.005  # of all requests: an auction type that is not planned for


class AuctionMarkets:
    """The markets of first-price and second-price auctions, one learner each.

    `prior` is what is believed of prices at first, in both; its own auction type is that of
    requests that name none. Plans take the markets by the requests seen of each type.
    """

    def __init__(
        self,
        prior: Market,
        prior_auctions: float = 10.0,
        half_life_auctions: float = float("inf"),
        *,
        learn: bool = True,
    ) -> None:
        self.own, self._prior = prior.auction, prior
        self._learn = learn
        self._prior_auctions, self._half_life_auctions = prior_auctions, half_life_auctions
        self._markets: dict[str, Market] = {prior.auction: prior}
        self._learners: dict[str, MarketLearner] = {}
        if learn:
            self._learner(prior.auction)  # refuses wrong numbers now
        self.requests = dict.fromkeys(AUCTIONS, 0.0)  # the later ones weighing more

    def of(self, auction: str | None = None) -> Market:
        """The market of an auction type as it is believed to be now."""
        auction = auction or self.own
        market = self._markets.get(auction)
        if market is None:
            check_auction(auction)
            prior: Any = self._prior
            try:
                market = replace(prior, auction=auction)
            except TypeError:
                rule = f"be {self.own}: the market given cannot be that of another type"
                raise KreachError.rule("auction", rule, auction) from None
            self._markets[auction] = market
        return market

    def count(self, auction: str | None = None) -> None:
        """A request of this type was seen."""
        requests = self.requests
        requests[auction or self.own] += 1.0
        if sum(requests.values()) > _MAX_COUNTED:  # traffic may change
            for name in requests:
                requests[name] /= 2.0

    def learn(self, bid: float, price: float, *, won: bool, auction: str | None = None) -> None:
        """Learn from the outcome of a bid."""
        if not self._learn:
            return
        learner = self._learner(auction or self.own)
        if won:
            learner.win(bid, price)
        else:
            learner.loss(bid)

    def learn_losses(self, bid: float, count: float, auction: str | None = None) -> None:
        """Learn from several losses at about the same bid."""
        if self._learn:
            self._learner(auction or self.own).loss(bid, count)

    def _learner(self, auction: str) -> MarketLearner:
        learner = self._learners.get(auction)
        if learner is None:
            prior = self.of(auction)  # nothing was learned yet: it is the prior
            learner = MarketLearner(prior, self._prior_auctions, self._half_life_auctions)
            self._learners[auction] = learner
        return learner

    def refresh(self) -> None:
        """Believe what was learned so far."""
        for auction, learner in self._learners.items():
            self._markets[auction] = learner.market()

    def planned(self) -> Market | MarketMix:
        """The market of the requests to come: as mixed as those that were seen."""
        seen = sum(self.requests.values())
        shares = {name: count for name, count in self.requests.items() if count > _FEW * seen}
        if not shares:
            return self.of()
        if len(shares) == 1:
            return self.of(next(iter(shares)))
        total = sum(shares.values())
        return MarketMix(tuple((self.of(name), count / total) for name, count in shares.items()))

    def memory(self) -> dict[str, Any]:
        """What was learned, as plain values."""
        learned = {auction: one.memory() for auction, one in self._learners.items()}
        return {"markets": learned, "requests": dict(self.requests)}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take up what was learned before."""
        for auction, learned in memory.get("markets", {}).items():
            if self._learn and auction in AUCTIONS:
                self._learner(auction).remember(learned)
        for auction, count in memory.get("requests", {}).items():
            if auction in AUCTIONS:
                self.requests[auction] = float(count)
        self.refresh()
