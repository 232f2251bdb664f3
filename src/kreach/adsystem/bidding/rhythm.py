"""What hours of the day are dear: factors of prices by UTC hour, from one's own auctions.

ln price ~ Normal(m_h, σ²) in hour h. Outcomes are censored as those of `MarketLearner` are, and the
m_h are fitted with what wins and losses say (`numeric.censored`). Two estimates are made of each
hour, a_h from even days and b_h from odd days, with variances A_h and B_h:

* The variance between hours is what both agree on: τ² = E[a_h b_h]. Noise, and prices that drift,
  are not the same on both. It is 0 unless the sum of a_h b_h/√(A_h B_h) is 3.5 standard errors
  above 0; then there is no rhythm, and nothing changes.
* How much they differ beyond A_h + B_h says how much more than chance prices move from day to day:
  variances are multiplied by that.
* The offset of an hour is its estimate times τ²/(τ² + variance): an hour with few auctions stays
  near 0, and one that was never seen is 0 (empirical Bayes).

On the first day there is one estimate: an hour and a trend cannot be told apart. What other
campaigns know of the market's hours is believed until then (`market_hours`), and afterwards as far
as one's own auctions do not say otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from kreach.boundary.times import DAY_SECONDS, HOUR_SECONDS
from kreach.numeric.censored import CensoredSamples, fit_locations
from kreach.numeric.types import FloatArray

__all__ = [
    "HOURS",
    "HourEstimates",
    "PriceRhythm",
    "believed_offsets",
    "hour_of",
    "shrunk_offsets",
]

HOURS = 24
_SETS = 2 * HOURS  # hours of even days, then those of odd days
_CELLS = 32
_HALF_LIFE_DAYS = 14.0
_MIN_AUCTIONS = 2.0  # in an hour of even or odd days, as much as so many prices seen say
_MIN_HOURS = 6  # with estimates from both
_MIN_ERRORS = 3.5  # standard errors
_MAX_OFFSET = 3.0


def hour_of(moment: float) -> int:
    """The UTC hour of the day, of seconds since 1970."""
    return int(moment // HOUR_SECONDS) % HOURS


class PriceRhythm:
    """Outcomes by hour of even and odd days; offsets of ln price by hour of the day.

    An outcome costs one look-up. Of a bid that won or lost without a price only the cell of its
    logarithm is kept, with the mean in it. What was seen 14 days ago counts half.
    """

    def __init__(self, low: float, high: float, sigma: float) -> None:
        """`low` and `high`: the prices in between which cells lie. `sigma` is believed at first."""
        self._low, self._width = log(low), (log(high) - log(low)) / _CELLS
        self._sigma = sigma
        self._prices = np.zeros((_SETS, 3))  # seen: count, sum and sum of squares of ln price
        self._lost: FloatArray = np.zeros((_SETS, _CELLS, 2))  # count and sum of ln bid
        self._won: FloatArray | None = None  # likewise; of first-price auctions
        self._days = np.full(_SETS, -1, dtype=np.int64)  # of the last outcome

    def price(self, price: float, moment: float) -> None:
        """A price was seen."""
        if price > 0.0:
            x = self._inside(log(price))
            row = self._prices[self._set(moment)]
            row[0] += 1.0
            row[1] += x
            row[2] += x * x

    def bound(self, bid: float, moment: float, *, won: bool, count: float = 1.0) -> None:
        """The price was at most the bid (won), or above it."""
        if bid > 0.0:
            x = self._inside(log(bid))
            tally = self._lost
            if won:
                if self._won is None:
                    self._won = np.zeros((_SETS, _CELLS, 2))
                tally = self._won
            cell = min(int((x - self._low) / self._width), _CELLS - 1)
            row = tally[self._set(moment), cell]
            row[0] += count
            row[1] += count * x

    def _inside(self, x: float) -> float:
        return min(max(x, self._low), self._low + _CELLS * self._width)

    def _set(self, moment: float) -> int:
        day = int(moment // DAY_SECONDS)
        at = hour_of(moment) + HOURS * (day % 2)
        if day > self._days[at]:
            if self._days[at] >= 0:
                self._fade(at, 0.5 ** ((day - int(self._days[at])) / _HALF_LIFE_DAYS))
            self._days[at] = day
        return at

    def _fade(self, at: int, factor: float) -> None:
        self._prices[at] *= factor
        self._lost[at] *= factor
        if self._won is not None:
            self._won[at] *= factor

    @property
    def repeats(self) -> bool:
        """Whether enough hours were seen on even and on odd days."""
        seen = self._days.reshape(2, HOURS) >= 0
        return int((seen[0] & seen[1]).sum()) >= _MIN_HOURS

    def estimates(self) -> "HourEstimates | None":
        """ln price by hour of even and of odd days; None before hours have repeated."""
        if not self.repeats:
            return None
        samples = self._samples()
        middle = self._low + 0.5 * _CELLS * self._width
        pooled = fit_locations(samples.pooled(), middle, self._sigma)
        fitted = fit_locations(samples, float(pooled.location[0]), pooled.sigma)
        information = fitted.information
        enough = information * fitted.sigma**2 >= _MIN_AUCTIONS
        variance = np.where(enough, 1.0 / np.where(enough, information, 1.0), np.inf)
        return HourEstimates(fitted.location.reshape(2, HOURS), variance.reshape(2, HOURS))

    def offsets(self) -> FloatArray | None:
        """Offsets of ln price by hour, around 0; None without a rhythm."""
        return believed_offsets(self.estimates(), None)

    def _samples(self) -> CensoredSamples:
        won = np.zeros_like(self._lost) if self._won is None else self._won
        rows = [tally[tally[:, :, 0] > 0.0] for tally in (self._lost, won)]
        sets = [np.nonzero(tally[:, :, 0] > 0.0)[0] for tally in (self._lost, won)]
        count, total = np.concatenate(rows).T
        losses = np.arange(len(count)) < len(rows[0])
        seen, seen_sum, seen_squares = self._prices.T
        return CensoredSamples(
            seen,
            seen_sum,
            seen_squares,
            np.concatenate(sets),
            total / np.maximum(count, 1e-300),
            np.where(losses, count, 0.0),
            np.where(losses, 0.0, count),
        )

    def memory(self) -> dict[str, Any]:
        """What was seen, as plain values: cells that hold something."""
        memory: dict[str, Any] = {
            "days": self._days.tolist(),
            "prices": _rounded(self._prices),
            "lost": _sparse(self._lost),
        }
        return memory if self._won is None else memory | {"won": _sparse(self._won)}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take up what was seen before, on the same cells."""
        days, prices = np.array(memory["days"], dtype=np.int64), np.array(memory["prices"])
        if days.shape != (_SETS,) or prices.shape != (_SETS, 3):
            raise ValueError(f"a memory of prices by hour must have {_SETS} rows")
        lost = _dense(memory["lost"])
        won = _dense(memory["won"]) if "won" in memory else None
        self._days, self._prices, self._lost, self._won = days, prices.astype(float), lost, won


@dataclass(frozen=True)
class HourEstimates:
    """ln price by hour (columns) of even and of odd days; an infinite variance: nothing known."""

    location: FloatArray
    variance: FloatArray


def believed_offsets(own: HourEstimates | None, market: FloatArray | None) -> FloatArray | None:
    """Offsets by hour from one's own estimates and from those of the market, as others know it.

    Own offsets are counted from the market's, and shrunk to these: they say something where even
    and odd days agree that one's own prices have another rhythm.
    """
    if own is None:
        return market
    if market is None:
        return shrunk_offsets(own.location, own.variance)
    apart = shrunk_offsets(own.location - market, own.variance)
    return market if apart is None else np.clip(market + apart, -_MAX_OFFSET, _MAX_OFFSET)


def shrunk_offsets(estimate: FloatArray, variance: FloatArray) -> FloatArray | None:
    """Offsets by hour from the estimates of even and of odd days; None if they do not agree.

    An infinite variance: nothing is known of the hour.
    """
    both = np.isfinite(variance).all(axis=0)
    hours = int(both.sum())
    if hours < _MIN_HOURS:
        return None
    a, b = estimate[:, both]
    noise_a, noise_b = variance[:, both]
    weight = 1.0 / (noise_a + noise_b)
    mean_a, mean_b = (float(weight @ x / weight.sum()) for x in (a, b))
    a, b = a - mean_a, b - mean_b
    more = max(float(((a - b) ** 2 * weight).sum()) / (hours - 1), 1.0)
    noise = more * np.sqrt(noise_a * noise_b)
    if float((a * b / noise).sum()) < _MIN_ERRORS * np.sqrt(hours - 1):
        return None
    between = max(float((a * b).mean()), 0.0)
    for _ in range(10):  # hours of which more is known count more
        weight = 1.0 / (between + noise) ** 2
        between = max(float(weight @ (a * b) / weight.sum()), 0.0) * hours / (hours - 1)
    known = 1.0 / variance
    total = known.sum(axis=0)
    seen = total > 0.0
    centred = np.where(np.isfinite(variance), estimate - np.array([[mean_a], [mean_b]]), 0.0)
    x = (centred * known).sum(axis=0) / np.where(seen, total, 1.0)
    spread = np.where(seen, more / np.where(seen, total, 1.0), np.inf)
    precision = 1.0 / (between + spread)
    middle = float(precision @ x / precision.sum())
    offsets: FloatArray = np.where(seen, (x - middle) * between * precision, 0.0)
    return np.clip(offsets, -_MAX_OFFSET, _MAX_OFFSET)


def _rounded(array: FloatArray) -> list[Any]:
    rounded: list[Any] = [[float(f"{x:.9g}") for x in row] for row in array.tolist()]
    return rounded


def _sparse(tally: FloatArray) -> list[Any]:
    sets, cells = np.nonzero(tally[:, :, 0] > 0.0)
    values = _rounded(tally[sets, cells])
    rows = zip(sets.tolist(), cells.tolist(), values, strict=True)
    return [[at, cell, *value] for at, cell, value in rows]


def _dense(rows: list[Any]) -> FloatArray:
    tally = np.zeros((_SETS, _CELLS, 2))
    for at, cell, count, total in rows:
        tally[int(at), int(cell)] = float(count), float(total)
    return tally
