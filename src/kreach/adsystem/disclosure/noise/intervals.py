"""Intervals of noisy numbers, for noise and model together, from shown numbers alone.

The exact variance of reach is a function of the log, so it may be neither shown nor used. Bounds
of it follow from the numbers that are shown. Exposure counts X_i are negatively associated
(impressions of a group are dealt out to its members), so with P people

    Var Σ min(X_i, c) ≤ Σ Var min(X_i, c) ≤ Σ_{j≤c} (2j − 1) a_j − R(c)²/P
    Var #{X_i ≥ j}    ≤ a_j (1 − a_j/P).

Where impressions are dealt out independently, Efron and Stein give another: an impression counts
for R(c) if its person has at most c, which holds for Q = R(c) − c a_{c+1} impressions, and for
#{X_i ≥ j} if the person has exactly j, Q = j (a_j − a_{j+1}). By concavity Var ≤ Q (1 − Q/N).

An interval is the noisy sum ± z times the root of both variances, cut off at what is possible and
stretched to hold what is shown. It rests on its own draw and not on the largest of several, so it
holds with its level although numbers so far are shown as running maxima, which err upwards.
"""

from dataclasses import dataclass
from math import sqrt

from kreach.adsystem.disclosure.noise.answers import NoisyAnswer
from kreach.boundary.discrete_noise import MILLIS
from kreach.numeric.special import normal_half_width

__all__ = ["Interval", "Intervals"]

Interval = tuple[float, float]


@dataclass(frozen=True)
class Intervals:
    """Standard deviations and intervals of an answer, each at its own level."""

    answer: NoisyAnswer

    @property
    def _a(self) -> list[float]:
        return [value / MILLIS for value in self.answer.shown.at_least]

    @property
    def _scale(self) -> float:
        return self.answer.strength.parts[0].scale / MILLIS

    def _min_variance(self, by_people: float, counting: float | None) -> float:
        """The smaller of the two bounds, as far as they hold."""
        n = self.answer.shown.impressions
        bounds = [by_people]
        if counting is not None and self.answer.target.independent and n:
            bounds.append(counting * (1.0 - min(counting / n, 1.0)))
        return max(min(bounds), 0.0)

    def reach_variance(self, cap: int) -> float:
        """A bound of the variance of R(cap), by the model alone; the cap is below K."""
        a, people = self._a, self.answer.target.people
        reach = sum(a[:cap])
        squares = sum((2 * j - 1) * a[j - 1] for j in range(1, cap + 1))
        by_people = squares - reach**2 / people if people else 0.0
        return self._min_variance(by_people, reach - cap * a[cap] if cap < len(a) else None)

    def at_least_variance(self, count: int) -> float:
        """A bound of the variance of the number of people with at least `count` impressions."""
        a, people = self._a, self.answer.target.people
        mean = a[count - 1]
        by_people = mean * (1.0 - mean / people) if people else 0.0
        return self._min_variance(by_people, count * (mean - a[count]) if count < len(a) else None)

    def reach_std(self, cap: int) -> float:
        """Standard deviation of R(cap): noise on `cap` numbers, and the model's."""
        return sqrt(cap * self._scale**2 + self.reach_variance(cap))

    def reach(self, cap: int, level: float) -> Interval:
        """An interval for reach at a cap."""
        noisy = sum(self.answer.noisy.at_least[:cap]) / MILLIS
        shown = sum(self.answer.shown.at_least[:cap]) / MILLIS
        most = float(cap * self.answer.target.people)
        return _around(noisy, self.reach_std(cap), level, most, shown)

    def at_least(self, count: int, level: float) -> Interval:
        """An interval for the people who saw it at least `count` times."""
        noisy = self.answer.noisy.at_least[count - 1] / MILLIS
        shown = self.answer.shown.at_least[count - 1] / MILLIS
        std = sqrt(self._scale**2 + self.at_least_variance(count))
        return _around(noisy, std, level, float(self.answer.target.people), shown)

    @property
    def targeted_impressions(self) -> float:
        """Impressions on targeted people, as shown."""
        shown = self.answer.shown
        if self.answer.target.everyone:
            return float(shown.impressions)
        return (sum(shown.at_least) + shown.rest) / MILLIS

    def targeted(self, level: float) -> Interval:
        """An interval for impressions on targeted people."""
        answer, shown = self.answer, self.targeted_impressions
        _, by_impressions, _ = answer.strength.parts
        if answer.target.everyone:
            noisy, variance = float(answer.noisy.impressions), by_impressions.scale**2
        else:
            components = [*answer.noisy.at_least, answer.noisy.rest]
            noisy = sum(components) / MILLIS
            n = answer.shown.impressions
            chance = shown * (1.0 - min(shown / n, 1.0)) if n else 0.0
            variance = len(components) * self._scale**2 + chance
        return _around(noisy, sqrt(variance), level, float("inf"), shown)

    @property
    def average_frequency(self) -> float:
        """Targeted impressions per person reached at least once; 0 if nobody was."""
        reached = self.answer.shown.at_least[0] / MILLIS
        return self.targeted_impressions / reached if reached > 0.0 else 0.0

    def average(self, level: float) -> Interval:
        """An interval for the average frequency: two intervals that hold together (Bonferroni)."""
        each = 1.0 - (1.0 - level) / 2.0
        low, high = self.targeted(each)
        fewest, most = self.at_least(1, each)
        least = max(low / most, 1.0) if fewest > 0.0 else 0.0  # nobody may be reached
        largest = max(high / max(fewest, 1.0), least)  # at least one person is reached
        shown = self.average_frequency
        return min(least, shown), max(largest, shown)


def _around(noisy: float, std: float, level: float, most: float, shown: float) -> Interval:
    half = normal_half_width(level) * std
    low, high = (min(max(end, 0.0), most) for end in (noisy - half, noisy + half))
    return min(low, shown), max(high, shown)
