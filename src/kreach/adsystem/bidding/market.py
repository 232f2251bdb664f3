"""Markets: how likely a bid wins and what it costs.

The market price of a request is the highest competing bid; a bid of at least that wins. With W the
chance to win and H the expected cost at bid b, and w, h their derivatives, the best bid for a
request worth v units of money solves h(b)/w(b) = v (equation 12 of the paper):

    second price   H(b) = ∫_0^b x w(x) dx,   h/w = b,          so bid the value
    first price    H(b) = b·W(b),            h/w = b + W/w,    so shade below it
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from scipy import special

from kreach.adsystem.bidding.market_display import MarketDisplay
from kreach.boundary.checks import is_number
from kreach.boundary.money import AUCTIONS
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

if TYPE_CHECKING:
    from kreach.adsystem.bidding.hourly_market import MarketByHour

__all__ = ["EmpiricalMarket", "LogNormalMarket", "Market", "MarketMix"]

_BISECTIONS = 100


@runtime_checkable
class Market(Protocol):
    """Win and cost curves of one kind of auction."""

    @property
    def auction(self) -> str:
        """ "second_price" or "first_price"."""

    def win_probability(self, bid: npt.ArrayLike) -> FloatArray:
        """W(b)."""

    def expected_cost(self, bid: npt.ArrayLike) -> FloatArray:
        """H(b), counting a lost auction as 0."""

    def optimal_bid(self, value: npt.ArrayLike) -> FloatArray:
        """(h/w)⁻¹(value): the bid that maximises value·W(b) − H(b)."""


@dataclass(frozen=True)
class MarketMix:
    """Requests of several markets, each with its share of them. It can be planned for, not bid in:
    every bid is made in one of its markets. These may be `MarketByHour`."""

    parts: tuple[tuple["Market | MarketByHour", float], ...]

    def __post_init__(self) -> None:
        shares = [share for _, share in self.parts]
        if not (min(shares, default=0.0) > 0.0 and abs(sum(shares) - 1.0) < 1e-9):
            raise KreachError.rule("shares of markets", "be > 0 and sum to 1", shares)


def check_auction(auction: str) -> None:
    """Refuse what is not an auction we know."""
    if auction not in AUCTIONS:
        raise KreachError.rule("auction", f"be one of {', '.join(AUCTIONS)}", auction)


def _bids(name: str, values: npt.ArrayLike) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise KreachError.rule(name, "be numbers", values) from error
    if not (array >= 0.0).all():
        raise KreachError.rule(name, "be numbers ≥ 0", array[~(array >= 0.0)].flat[0])
    return array


@dataclass(frozen=True, repr=False)
class LogNormalMarket(MarketDisplay):
    """ln(market price) ~ Normal(mu, sigma²), as in the paper's experiments.

    >>> market = LogNormalMarket(mu=0.0, sigma=1.0)
    >>> float(market.win_probability(1.0)), float(market.optimal_bid(0.7))
    (0.5, 0.7)
    """

    mu: float
    sigma: float
    auction: str = "second_price"

    def __post_init__(self) -> None:
        check_auction(self.auction)
        if not (is_number(self.mu) and np.isfinite(self.mu)):
            raise KreachError.rule("mu", "be a finite number", self.mu)
        if not (is_number(self.sigma) and 0.0 < self.sigma < np.inf):
            raise KreachError.rule("sigma", "be a number > 0", self.sigma)

    def _z(self, bid: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            result: FloatArray = (np.log(bid) - self.mu) / self.sigma
        return result

    def win_probability(self, bid: npt.ArrayLike) -> FloatArray:
        """W(b) = Φ((ln b − μ)/σ)."""
        result: FloatArray = special.ndtr(self._z(_bids("bid", bid)))
        return result

    def win_density(self, bid: npt.ArrayLike) -> FloatArray:
        """w(b) = φ((ln b − μ)/σ)/(bσ)."""
        b = _bids("bid", bid)
        z = self._z(np.where(b > 0.0, b, 1.0))
        density = np.exp(-0.5 * z * z) / (
            np.where(b > 0.0, b, 1.0) * self.sigma * np.sqrt(2 * np.pi)
        )
        return np.where(b > 0.0, density, 0.0)

    def expected_cost(self, bid: npt.ArrayLike) -> FloatArray:
        """H(b): b·W(b), or e^{μ+σ²/2}·Φ((ln b − μ)/σ − σ) for a second price."""
        b = _bids("bid", bid)
        if self.auction == "first_price":
            finite = np.where(np.isinf(b), 0.0, b)
            return np.where(np.isinf(b), np.inf, finite * self.win_probability(finite))
        mean = np.exp(self.mu + self.sigma**2 / 2.0)
        result: FloatArray = mean * special.ndtr(self._z(b) - self.sigma)
        return result

    def marginal_cost(self, bid: npt.ArrayLike) -> FloatArray:
        """h(b): b·w(b) for a second price, W(b) + b·w(b) for a first price."""
        b = _bids("bid", bid)
        own = b * self.win_density(b)
        return own if self.auction == "second_price" else self.win_probability(b) + own

    def optimal_bid(self, value: npt.ArrayLike) -> FloatArray:
        """The value itself, or for a first price the root of b + W(b)/w(b) = value.

        The left side rises from 0 (the normal law is log-concave), so bisection on ln b between
        far below the market and the value always ends in the one root.
        """
        v = _bids("value", value)
        if self.auction == "second_price":
            return v.copy()
        low = np.full(v.shape, self.mu - 40.0 * self.sigma)
        high = np.minimum(np.log(np.where(v > 0.0, v, 1.0)), self.mu + 40.0 * self.sigma)
        low = np.minimum(low, high)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            below = self._shaded(middle) < v
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.where(v > 0.0, np.exp(low), 0.0)

    def _price_at(self, share: float) -> float:
        return float(np.exp(self.mu + self.sigma * special.ndtri(share)))

    def _facts(self) -> dict[str, Any]:
        return {"mu": self.mu, "sigma": self.sigma, "auction": self.auction}

    def _shaded(self, log_bid: FloatArray) -> FloatArray:
        """b + W/w with W/w = bσ·Φ(z)/φ(z), in logs so that far tails do not become 0/0."""
        z = (log_bid - self.mu) / self.sigma
        log_mills = special.log_ndtr(z) + 0.5 * z * z + 0.5 * np.log(2.0 * np.pi)
        with np.errstate(over="ignore"):
            result: FloatArray = np.exp(log_bid) * (1.0 + self.sigma * np.exp(log_mills))
        return result


@dataclass(frozen=True, eq=False, repr=False)
class EmpiricalMarket(MarketDisplay):
    """Market prices as they were seen, each with a count (or weight).

    For a first price the best bid is always a price that was seen: between two of them a bid wins
    no more and costs more. Which one is best for which value is read off the lower convex hull of
    the points (W, H): its slopes are the values at which the best bid steps up, so bids rise with
    the value.

    >>> import kreach as kr
    >>> market = kr.EmpiricalMarket([0.5, 1.0, 2.0], counts=[1, 2, 1])
    >>> float(market.win_probability(1.0)), float(market.expected_cost(1.0))
    (0.75, 0.625)
    """

    prices: npt.ArrayLike
    counts: npt.ArrayLike | None = None
    auction: str = "second_price"
    _price: FloatArray = field(init=False, repr=False)
    _win: FloatArray = field(init=False, repr=False)
    _cost: FloatArray = field(init=False, repr=False)
    _steps: FloatArray = field(init=False, repr=False)
    _step_bids: FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_auction(self.auction)
        price = _bids("prices", self.prices).ravel()
        if price.size == 0:
            raise KreachError.rule("prices", "hold at least one price", "none")
        if not np.isfinite(price).all():
            raise KreachError.rule("prices", "be finite", np.inf)
        weight = np.ones(price.size) if self.counts is None else _bids("counts", self.counts)
        if weight.shape != price.shape:
            raise KreachError.rule(
                "counts", f"have one entry per price ({price.size})", weight.size
            )
        if not (np.isfinite(weight).all() and weight.sum() > 0.0):
            raise KreachError.rule("counts", "be finite and not all 0", weight.sum())
        distinct, at = np.unique(price, return_inverse=True)
        mass = np.bincount(at, weights=weight) / weight.sum()
        self._fill(distinct[mass > 0.0], mass[mass > 0.0])

    def _fill(self, price: FloatArray, mass: FloatArray) -> None:
        win = np.minimum(np.cumsum(mass), 1.0)
        win[-1] = 1.0
        cost = np.cumsum(mass * price)
        rises = np.diff(np.concatenate([[0.0], win])) > 0.0  # a share below rounding is none
        price, win, cost = price[rises], win[rises], cost[rises]
        hull: IntArray = _lower_hull(win, price * win)
        before = np.concatenate([[-1], hull[:-1]])
        at_win, at_cost = np.append(win, 0.0), np.append(price * win, 0.0)  # index −1: no bid
        steps = (at_cost[hull] - at_cost[before]) / (at_win[hull] - at_win[before])
        for name, value in (
            ("_price", price),
            ("_win", win),
            ("_cost", cost),
            ("_steps", steps),
            ("_step_bids", price[hull]),
        ):
            object.__setattr__(self, name, value)

    def _price_at(self, share: float) -> float:
        at = int(np.searchsorted(self._win, share))
        return float(self._price[min(at, len(self._price) - 1)])

    def _facts(self) -> dict[str, Any]:
        mean = float(self._cost[-1])
        return {"prices": len(self._price), "mean_price": mean, "auction": self.auction}

    def steps(self) -> tuple[FloatArray, FloatArray]:
        """First price: the values at which the best bid steps up, and the bids it steps to."""
        return self._steps, self._step_bids

    def win_probability(self, bid: npt.ArrayLike) -> FloatArray:
        """W(b): the share of prices up to the bid."""
        at = np.searchsorted(self._price, _bids("bid", bid), side="right")
        return np.append(0.0, self._win)[at]

    def expected_cost(self, bid: npt.ArrayLike) -> FloatArray:
        """H(b): the mean of the prices paid, counting a lost auction as 0."""
        b = _bids("bid", bid)
        if self.auction == "first_price":
            won = self.win_probability(b)
            return np.where(won > 0.0, b * won, 0.0)
        at = np.searchsorted(self._price, b, side="right")
        return np.append(0.0, self._cost)[at]

    def win_density(self, bid: npt.ArrayLike) -> FloatArray:
        """w(b), as a histogram: the mass between neighbouring prices over their distance."""
        edges = np.concatenate([[0.0], self._price])
        width = np.maximum(np.diff(edges), 1e-300)
        mass = np.diff(np.concatenate([[0.0], self._win]))
        at = np.searchsorted(self._price, _bids("bid", bid), side="left")
        return np.append(mass / width, 0.0)[at]

    def marginal_cost(self, bid: npt.ArrayLike) -> FloatArray:
        """h(b) that belongs to `win_density`."""
        b = _bids("bid", bid)
        own = b * self.win_density(b)
        return own if self.auction == "second_price" else self.win_probability(b) + own

    def optimal_bid(self, value: npt.ArrayLike) -> FloatArray:
        """The bid that maximises value·W(b) − H(b)."""
        v = _bids("value", value)
        if self.auction == "second_price":
            return v.copy()
        at = np.searchsorted(self._steps, v, side="right")
        return np.append(0.0, self._step_bids)[at]


def _lower_hull(x: FloatArray, y: FloatArray) -> IntArray:
    """Indices of the points on the lower convex hull that starts at the origin; x rises."""
    hull: list[int] = []
    for i in range(len(x)):
        while hull:
            x0, y0 = (x[hull[-2]], y[hull[-2]]) if len(hull) > 1 else (0.0, 0.0)
            x1, y1 = x[hull[-1]], y[hull[-1]]
            if (y1 - y0) * (x[i] - x0) < (y[i] - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append(i)
    return np.array(hull, dtype=np.int64)
