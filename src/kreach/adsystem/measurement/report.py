"""A reach report: the paper's measurement section as one object."""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kreach.adsystem.measurement import (  # noqa: F401 - each registers its kind of audience
    disjoint,
    overlapping,
    profiled,
)
from kreach.adsystem.measurement.distribution import (
    ReachDistribution,
    exact_cost,
    exact_distribution,
)
from kreach.adsystem.measurement.exposure import Bounds, CertifiedBounds, Exposure, expose
from kreach.adsystem.measurement.sampling import sample_reach
from kreach.boundary.audience import Audience
from kreach.boundary.checks import as_counts, as_probability, as_whole_number
from kreach.display.objects import Tabular
from kreach.display.plots import bars, new_axes
from kreach.display.table import Columns, Table, columns_of, with_pairs
from kreach.errors import KreachError
from kreach.numeric.special import normal_half_width
from kreach.numeric.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ReachReport", "measure"]

_MAX_EXACT_STEPS = 1e9  # some twenty seconds
_MAX_DRAWS = 4e8
_FEWEST_TRIALS = 200
_MAX_TRIALS = 20_000


def measure(audience: Audience, impressions_by_group: npt.ArrayLike, cap: int) -> "ReachReport":
    """Measure reach at a frequency cap from impressions per group.

    Figures are computed when they are read. Assumptions are those of the audience: visits are
    independent; within a group uniform, or with the given dispersion or shares.

    >>> report = measure(Audience.disjoint([6] * 20), [12] * 20, cap=3)
    >>> round(report.reach, 3), round(report.std, 3)
    (219.49, 4.275)
    """
    if not isinstance(audience, Audience):
        raise KreachError.rule("audience", "be a kreach Audience", type(audience).__name__)
    n = as_counts("impressions_by_group", impressions_by_group, length=audience.group_count)
    cap = as_whole_number("cap", cap, minimum=1)
    return ReachReport(cap, int(n.sum()), audience.targeted_user_count, expose(audience, n))


@dataclass(frozen=True, eq=False, repr=False)
class ReachReport(Tabular):
    """Reach at one cap, with its uncertainty. `measure` returns one, and so does a log.

    It stores the impressions grouped by what behaves alike (`exposure`), which is small.

    >>> import kreach as kr
    >>> report = kr.measure(kr.Audience.disjoint([20] * 500), [30] * 500, cap=2)
    >>> round(report.reach), round(report.std), report.interval(0.95)
    (12318, 39, (12242.0, 12394.0))
    >>> report.bounds
    Bounds(least=1000, most=15000)
    >>> round(report.over_exposed), round(report.average_frequency, 2)
    (1878, 1.91)
    """

    cap: int
    impressions: int  # in all, targeted or not
    targeted_user_count: int
    exposure: Exposure

    @property
    def basis(self) -> str:
        """The theorem and the assumptions that the numbers rest on."""
        return self.exposure.basis

    @cached_property
    def reach(self) -> float:
        """Expected capped reach E[Σ min(X_i, cap)] over targeted people (Theorem 1, 5)."""
        return self.exposure.reach(self.cap)

    @cached_property
    def variance(self) -> float:
        """Exact variance of reach for this cap (Theorem 2 gives cap 1)."""
        return self.exposure.variance(self.cap)

    @property
    def std(self) -> float:
        """Standard deviation of reach."""
        return sqrt(self.variance)

    @cached_property
    def _certified(self) -> CertifiedBounds:
        return self.exposure.certified_bounds(self.cap)

    @property
    def bounds(self) -> Bounds:
        """(least, most) reach that any assignment of the impressions to members allows."""
        return self._certified.bounds

    @property
    def bounds_attained(self) -> tuple[bool, bool]:
        """For (least, most): True if some assignment attains it, False if it is only certified."""
        return self._certified.attained

    @cached_property
    def over_exposed(self) -> float:
        """Expected targeted people with more than `cap` impressions (Theorem 3)."""
        return self.exposure.over_exposed(self.cap)

    def frequency(self, top: int) -> FloatArray:
        """Expected targeted people who saw it 0, 1, ..., top − 1 times, and top times or more."""
        return self.exposure.frequency(as_whole_number("top", top, minimum=1, maximum=10**6))

    def at_least(self, top: int) -> FloatArray:
        """Expected targeted people who saw it at least 1, 2, ..., top times (1+, 2+, ... reach)."""
        exactly = self.frequency(top)
        result: FloatArray = np.cumsum(exactly[::-1])[::-1][1:]
        return result

    def at_least_interval(self, count: int, level: float = 0.95) -> tuple[float, float]:
        """An interval for the people who saw it at least `count` times: mean ± z·std, exact std.

        Cut off at 0 and at how many people can have seen it so often.
        """
        count = as_whole_number("count", count, minimum=1)
        possible = count <= self.exposure.max_trials
        mean = float(self.at_least(count)[-1]) if possible else 0.0
        return self._at_least_interval(count, mean, level)

    def at_least_intervals(self, top: int, level: float = 0.95) -> tuple[tuple[float, float], ...]:
        """The same for 1, 2, ..., top times, from one frequency distribution."""
        means = self.at_least(top).tolist()
        return tuple(
            self._at_least_interval(count, mean, level) for count, mean in enumerate(means, 1)
        )

    def _at_least_interval(self, count: int, mean: float, level: float) -> tuple[float, float]:
        level = as_probability("level", level)
        if count > self.exposure.max_trials:
            return 0.0, 0.0
        centre, std = self._widened(mean, self.exposure.at_least_variance(count), count)
        half = normal_half_width(level) * std
        most = float(min(self.targeted_user_count, self.impressions // count))
        return min(max(centre - half, 0.0), most), min(max(centre + half, 0.0), most)

    def _widened(self, figure: float, variance: float, cap: int) -> tuple[float, float]:
        """Centre and standard deviation of an interval: sampling, and error of the visit model.

        Measured over true was 1 + bias on average in replays of history, give or take the spread.
        """
        error = self.exposure.model_error
        if error is None:
            return figure, sqrt(variance)
        bias, spread = (
            (error.bias, error.spread) if cap == 1 else (error.higher_bias, error.higher_spread)
        )
        return figure / (1.0 + bias), sqrt(variance + (spread * figure) ** 2)

    @property
    def average_frequency(self) -> float:
        """Expected targeted impressions per person reached at least once; 0 if nobody was."""
        reached = float(self.at_least(1)[0])
        return self.exposure.targeted_impressions / reached if reached > 0.0 else 0.0

    @cached_property
    def _distribution(self) -> ReachDistribution:
        if self.exposure.model_error is not None:
            centre, std = self._widened(self.reach, self.variance, self.cap)
            return ReachDistribution.normal(centre, std, *self._limits)
        kinds = self.exposure.served_kinds()
        if kinds is not None and exact_cost(kinds, self.cap) <= _MAX_EXACT_STEPS:
            return exact_distribution(kinds, self.cap)
        trials = int(min(_MAX_TRIALS, _MAX_DRAWS / max(self.impressions, 1)))
        groups = self.exposure.unfolded() if trials >= _FEWEST_TRIALS else None
        if groups is not None:
            samples = sample_reach(*groups, self.cap, trials, seed=0)
            return ReachDistribution.of_samples(samples)
        return ReachDistribution.normal(self.reach, self.std, *self._limits)

    def distribution(self) -> ReachDistribution:
        """The distribution of reach: exact for disjoint and profiled groups, sampled for overlap.

        Sampled too where groups are so large that the exact law would take minutes, and normal
        where even simulation would; `.method` and `.exact` say which. Sampling is seeded: the
        same report gives the same answer. With a visit model it is normal, centred and widened by
        how far off the model was in replays of history.
        """
        return self._distribution

    @property
    def _limits(self) -> tuple[int, int]:
        """Cheap bounds: the sharp ones of overlapping groups may cost more than an interval."""
        if self.exposure.bounds_are_cheap or self.exposure.served_kinds() is not None:
            return self.bounds
        most = min(self.impressions, self.cap * self.targeted_user_count)
        return (0, most)

    def interval(self, level: float = 0.95, method: str = "exact") -> tuple[float, float]:
        """An interval that holds reach with probability `level`.

        "exact": from the quantiles of `distribution()`, equal tails. "normal": mean ± z·std.
        "chebyshev" (Theorem 2): mean ± std/√(1 − level), which needs no law and is wide. The last
        two are cut off at what is possible. With a visit model, all are centred and widened by
        its error in replays of history.
        """
        level = as_probability("level", level)
        if method == "exact":
            law = self.distribution()
            tail = (1.0 - level) / 2.0
            return float(law.quantile(tail)), float(law.quantile(1.0 - tail))
        centre, std = self._widened(self.reach, self.variance, self.cap)
        if method == "normal":
            half = normal_half_width(level) * std
        elif method == "chebyshev":
            half = std / sqrt(1.0 - level)
        else:
            raise KreachError.rule("method", 'be "exact", "normal" or "chebyshev"', method)
        least, most = self._limits
        return max(centre - half, float(least)), min(centre + half, float(most))

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """The figures as plain values, under the names of `kreach measure --json`."""
        from kreach.adsystem.measurement.figures import (  # noqa: PLC0415 - it imports this module
            report_figures,
        )

        return report_figures((self,), level)[0]

    def _columns(self) -> Columns:
        return columns_of([with_pairs(self.to_dict())])

    def _display(self) -> Table:
        figures = self.to_dict()
        people = self.targeted_user_count
        rows: dict[str, object] = {
            f"reach at cap {self.cap}": (figures["reach"], figures["interval"]),
            "people reached": (figures["unique_reach"], figures["unique_reach_interval"]),
            f"people over cap {self.cap}": (figures["over_exposed"], None),
            "average frequency": (
                figures["average_frequency"],
                figures["average_frequency_interval"],
            ),
        }
        names, values = list(rows), list(rows.values())
        numbers, intervals = zip(*values, strict=True)
        return Table(
            f"{self.impressions:,} impressions on {people:,} people",
            {"": names, "expected": numbers, f"{figures['level']:.0%} interval": intervals},
            (
                f"possible at cap {self.cap}: {self.bounds.least:,} to {self.bounds.most:,}",
                self.basis,
            ),
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Expected people by how often they saw it; darker beyond the cap."""
        people = self.frequency(max(10, self.cap + 1)).tolist()
        last = max((at for at, value in enumerate(people) if value >= 0.5), default=1)
        title = f"{self.reach:,.0f} within cap {self.cap}, {self.over_exposed:,.0f} people over it"
        ax = new_axes(ax, title, "impressions seen", "people")
        shown = list(range(1, max(last, 1) + 1))
        bars(ax, shown, people[1 : len(shown) + 1])
        for at, bar in zip(shown, ax.patches, strict=True):
            if at > self.cap:
                bar.set_color("#d9822b")
        labels = [f"{at}+" if at == len(people) - 1 else str(at) for at in shown]
        ax.set_xticks(shown, labels)
        return ax

    def __repr__(self) -> str:
        return f"ReachReport(cap={self.cap}, reach={self.reach:.2f}, std={self.std:.2f})"
