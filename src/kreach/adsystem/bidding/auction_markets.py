"""A campaign's markets: the auction type is known with each request, prices are learned by type.

Where prices have a daily rhythm, the market of an hour is that of the type times a factor.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kreach.adsystem.bidding.hourly_learning import HourlyLearner
from kreach.adsystem.bidding.hourly_market import MarketByHour, scaled
from kreach.adsystem.bidding.market import Market, MarketMix, check_auction
from kreach.adsystem.bidding.market_hours import CampaignHours
from kreach.adsystem.bidding.responses import PlannedMarket
from kreach.adsystem.bidding.rhythm import HOURS
from kreach.boundary.money import AUCTIONS
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray

__all__ = ["AuctionMarkets"]

_MAX_COUNTED = 10_000.0
_TYPICAL_WORTH = 0.5  # reach, of a request that is bought
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
        by_hour: bool = True,
    ) -> None:
        """With `by_hour` off prices are taken to be alike at all hours."""
        self.own, self._prior = prior.auction, prior
        self._learn = learn
        self._prior_auctions, self._half_life_auctions = prior_auctions, half_life_auctions
        self._by_hour = by_hour
        self._moment: float | None = None  # of what happens now
        self._markets: dict[str, Market] = {prior.auction: prior}
        self._scaled: dict[tuple[str, float], Market] = {}
        self._learners: dict[str, HourlyLearner] = {}
        if learn:
            self._learner(prior.auction)  # refuses wrong numbers now
        self.requests = dict.fromkeys(AUCTIONS, 0.0)  # the later ones weighing more
        self.market_hours: CampaignHours | None = None
        """What campaigns of the same bidder learn together about prices by hour."""
        self._hours_version = -1
        self._hours_of_others: dict[str, FloatArray] = {}

    def turn_to(self, moment: float) -> None:
        """What is learned and read from now on happens at this time (seconds since 1970)."""
        self._moment = moment if self._by_hour else None

    def at(self, moment: float, auction: str | None = None) -> Market:
        """The market of an auction type at this time, which it is from now on."""
        self.turn_to(moment)
        return self.of(auction)

    def of(self, auction: str | None = None) -> Market:
        """The market of an auction type as it is believed to be now."""
        auction = auction or self.own
        base = self._base(auction)
        learner = self._learners.get(auction)
        if learner is None or learner.factors is None:
            return base
        key = auction, learner.factor(self._moment)
        market = self._scaled.get(key)
        if market is None:
            if len(self._scaled) > 4 * HOURS:
                self._scaled.clear()
            market = self._scaled[key] = scaled(base, key[1])
        return market

    def with_factors(self, auction: str) -> tuple[Market, tuple[float, ...] | None]:
        """A market, and by how much its prices are multiplied at each hour, if by anything."""
        learner = self._learners.get(auction)
        return self._base(auction), None if learner is None else learner.factors

    def _base(self, auction: str) -> Market:
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

    def count(self, auction: str | None = None, seen: int = 1) -> None:
        """A request of this type was seen, or several."""
        requests = self.requests
        auction = auction or self.own
        requests[auction] = counted = requests[auction] + seen
        if counted > _MAX_COUNTED / 2.0 and sum(requests.values()) > _MAX_COUNTED:
            for name in requests:  # traffic may change
                requests[name] /= 2.0

    def learn(self, bid: float, price: float, *, won: bool, auction: str | None = None) -> None:
        """Learn from the outcome of a bid."""
        if not self._learn:
            return
        learner = self._learner(auction or self.own)
        if won:
            learner.win(bid, price, self._moment)
        else:
            learner.loss(bid, 1.0, self._moment)

    def learn_losses(self, bid: float, count: float, auction: str | None = None) -> None:
        """Learn from several losses at about the same bid."""
        if self._learn:
            self._learner(auction or self.own).loss(bid, count, self._moment)

    def _learner(self, auction: str) -> HourlyLearner:
        learner = self._learners.get(auction)
        if learner is None:
            prior = self._base(auction)  # nothing was learned yet: it is the prior
            learner = HourlyLearner(prior, self._prior_auctions, self._half_life_auctions)
            self._learners[auction] = learner
        return learner

    def refresh(self) -> None:
        """Believe what was learned so far."""
        self._scaled.clear()
        self._read_market_hours()
        for auction, learner in self._learners.items():
            if self._by_hour:
                self._fit_hours(auction, learner)
            self._markets[auction] = learner.market()

    def _read_market_hours(self) -> None:
        """What others have learned about hours since the last time."""
        shared = self.market_hours
        if shared is None or not (self._learn and self._by_hour):
            return
        if shared.version != self._hours_version:
            self._hours_version = shared.version
            for auction, count in self.requests.items():
                offsets = shared.offsets(auction)
                if offsets is not None and (count > 0.0 or auction in self._learners):
                    self._learner(auction)
                    self._hours_of_others[auction] = offsets
                else:
                    self._hours_of_others.pop(auction, None)

    def _fit_hours(self, auction: str, learner: HourlyLearner) -> None:
        before = learner.estimates
        learner.fit_hours(self._hours_of_others.get(auction))
        own = learner.estimates
        if self.market_hours is not None and own is not None and own is not before:
            self.market_hours.report(auction, *own)

    def planned(self, hours: FloatArray | None = None) -> PlannedMarket:
        """The market of the requests to come: as mixed as those that were seen.

        `hours`: the share of each hour of the day in the requests to come.
        """
        seen = sum(self.requests.values())
        shares = {name: count for name, count in self.requests.items() if count > _FEW * seen}
        if not shares:
            return self._to_come(self.own, hours)
        if len(shares) == 1:
            return self._to_come(next(iter(shares)), hours)
        total = sum(shares.values())
        parts = [(self._to_come(name, hours), count / total) for name, count in shares.items()]
        return MarketMix(tuple(parts))

    def _to_come(self, auction: str, hours: FloatArray | None) -> Market | MarketByHour:
        base, factors = self.with_factors(auction)
        if hours is None or factors is None:
            return self.of(auction)
        parts = [pair for pair in zip(factors, hours.tolist(), strict=True) if pair[1] > 0.0]
        if len({factor for factor, _ in parts}) == 1:
            return scaled(base, parts[0][0])
        return MarketByHour(base, tuple(parts))

    def cost_by_hour(self, multiplier: float) -> FloatArray | None:
        """What a typical request costs on average, by hour of the day; None if alike."""
        value = _TYPICAL_WORTH / multiplier
        total, rhythm = np.zeros(HOURS), False
        for auction, count in self.requests.items():
            if count <= 0.0:
                continue
            base, factors = self.with_factors(auction)
            rhythm = rhythm or factors is not None
            by_hour = np.ones(HOURS) if factors is None else np.array(factors)
            bids = base.optimal_bid(value / by_hour)
            total += count * by_hour * base.expected_cost(bids)
        return total if rhythm and total.sum() > 0.0 else None

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
