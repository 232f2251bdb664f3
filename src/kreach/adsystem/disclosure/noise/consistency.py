"""Makes noisy numbers consistent with each other, without access to the log.

Post-processing a noisy answer discloses no more than the answer. The true
numbers obey people ≥ a_1 ≥ … ≥ a_K ≥ 0, rest ≥ 0 and Σ a_j + rest ≤ N, with = where everybody is
targeted. What is shown is the nearest vector that does so too, with errors counted in units of
their σ: that is a projection on a convex set that holds the truth, so it is never further away from
the truth than the noisy vector was.
"""

from dataclasses import dataclass
from math import ceil, floor

import numpy as np

from kreach.adsystem.disclosure.noise.mechanism import Strength, Vector
from kreach.boundary.discrete_noise import MILLIS
from kreach.numeric.falling import nearest_falling
from kreach.numeric.types import FloatArray

__all__ = ["consistent", "running_max"]

_HALVINGS = 100


@dataclass(frozen=True)
class _Line:
    """The nearest vectors along the multiplier of Σ a_j + rest ≤ N."""

    falling: FloatArray  # the nearest a_1 ≥ … ≥ a_K, not yet cut off
    rest: float
    impressions: float
    people: int
    scale_people: float
    scale_impressions: float

    def at(self, multiplier: float) -> tuple[FloatArray, float, float]:
        """a, rest and N where leaving the limit by one would cost `multiplier`."""
        down = multiplier * self.scale_people**2
        a = np.clip(self.falling - down, 0.0, self.people)
        up = multiplier * self.scale_impressions**2
        return a, max(self.rest - down, 0.0), self.impressions + up

    def excess(self, multiplier: float) -> float:
        """Σ a_j + rest − N; it falls as the multiplier rises."""
        a, rest, impressions = self.at(multiplier)
        return float(a.sum()) + rest - impressions


def consistent(noisy: Vector, strength: Strength, people: int, everyone: bool) -> Vector:
    """The nearest vector that breaks no rule. `everyone`: every impression is on a targeted person.

    It is rounded to thousandths of a person and whole impressions so that the rules hold for what
    is shown, not only for what was meant. Spend is at most N times the largest price counted.
    """
    by_people, by_impressions, _ = strength.parts
    line = _Line(
        nearest_falling(np.array(noisy.at_least, dtype=float) / MILLIS),
        noisy.rest / MILLIS,
        float(noisy.impressions),
        people,
        by_people.scale / MILLIS,
        by_impressions.scale,
    )
    a, rest, impressions = line.at(_multiplier(line, everyone))
    n = max(floor(impressions + 0.5), 0)
    people_shown = [floor(value * MILLIS + 0.5) for value in [*a.tolist(), rest]]
    over = sum(people_shown) - n * MILLIS
    if 0 < over <= MILLIS:  # by rounding alone
        people_shown = _less(people_shown, over)
    enough = max(n, ceil(sum(people_shown) / MILLIS))
    spend = min(max(noisy.spend_micros, 0), enough * strength.max_price_micros)
    return Vector(tuple(people_shown[:-1]), people_shown[-1], enough, spend)


def _less(falling: list[int], amount: int) -> list[int]:
    """Subtract an amount from the end of a falling list, so that it still falls."""
    left = []
    for value in reversed(falling):
        step = min(value, amount)
        amount -= step
        left.append(value - step)
    return left[::-1]


def _multiplier(line: _Line, everyone: bool) -> float:
    """The multiplier at which the limit holds, by halving."""
    over = line.excess(0.0)
    if over == 0.0 or (over < 0.0 and not everyone):
        return 0.0
    # N alone could make up for all of it: the sign has changed there
    far = over / line.scale_impressions**2
    low, high = min(far, 0.0), max(far, 0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if line.excess(middle) > 0.0:
            low = middle
        else:
            high = middle
    return high


def running_max(before: Vector, now: Vector) -> Vector:
    """The larger of each number, since figures so far never fall. Keeps the rules of both."""
    top = min(len(before.at_least), len(now.at_least))
    pairs = zip(before.at_least[:top], now.at_least[:top], strict=True)
    at_least = tuple(max(pair) for pair in pairs)
    rest = max(before.rest, now.rest)
    impressions = max(before.impressions, now.impressions)
    enough = max(impressions, ceil((sum(at_least) + rest) / MILLIS))
    return Vector(at_least, rest, enough, max(before.spend_micros, now.spend_micros))
