"""The whole distribution of reach."""

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from kreach.adsystem.measurement.exposure import ServedKind
from kreach.boundary.checks import as_probability
from kreach.display.objects import Tabular
from kreach.display.plots import COLORS, bars, new_axes, with_thousands
from kreach.display.table import Columns, Table
from kreach.numeric.convolve import sum_distribution
from kreach.numeric.groupreach import GroupKind, group_reach_pmf, reach_pmf_cost
from kreach.numeric.types import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ReachDistribution", "exact_cost", "exact_distribution"]

_SHORT = 1_000  # values of reach, so that all laws that are remembered take some 30 MB at most
_FEW_SHARES = 100


_SHOWN = (0.01, 0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975, 0.99)  # quantiles


@dataclass(frozen=True, repr=False)
class ReachDistribution(Tabular):
    """P(reach = support[i]) = pmf[i]. `method` is "exact", "sampled" or "normal".

    >>> import kreach as kr
    >>> law = kr.measure(kr.Audience.disjoint([3]), [2], cap=1).distribution()
    >>> law.support, law.pmf.round(3), law.quantile(0.5)
    (array([1, 2]), array([0.333, 0.667]), 2)
    """

    support: IntArray
    pmf: FloatArray
    method: str

    @property
    def exact(self) -> bool:
        """Whether the probabilities are computed, not estimated."""
        return self.method == "exact"

    @property
    def mean(self) -> float:
        """Expected reach under this distribution."""
        return float(self.pmf @ self.support)

    def quantile(self, p: float) -> int:
        """The least reach r with P(reach ≤ r) ≥ p."""
        p = as_probability("p", p, ends=True)
        if p == 1.0:
            return int(self.support[np.flatnonzero(self.pmf)[-1]])
        # the last digits of a cumulative sum are rounding
        at = int(np.searchsorted(np.cumsum(self.pmf), p - 1e-12))
        return int(self.support[min(at, len(self.support) - 1)])

    def to_dict(self) -> dict[str, Any]:
        """Support and probabilities as lists."""
        return {
            "method": self.method,
            "support": self.support.tolist(),
            "pmf": self.pmf.tolist(),
        }

    def _columns(self) -> Columns:
        return {"reach": self.support.tolist(), "probability": self.pmf.tolist()}

    def _display(self) -> Table:
        columns: Columns = {
            "reach is at most": [self.quantile(p) for p in _SHOWN],
            "with probability": [f"{p:g}" for p in _SHOWN],
        }
        return Table(f"Distribution of reach ({self.method}), mean {self.mean:,.1f}", columns)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """The probability of each reach; the middle 95% shaded."""
        low, high = self.quantile(0.025), self.quantile(0.975)
        ax = new_axes(ax, f"95%: {low:,} to {high:,}", "reach", "probability")
        with_thousands(ax.xaxis)
        likely = self.pmf > 1e-6 * self.pmf.max()
        x, y = self.support[likely], self.pmf[likely]
        if len(x) < 40:
            bars(ax, x.tolist(), y.tolist())
            ax.locator_params(axis="x", integer=True)
            return ax
        ax.plot(x, y, color=COLORS[0], linewidth=1.5)
        inside = (x >= low) & (x <= high)
        ax.fill_between(x[inside], y[inside], color=COLORS[0], alpha=0.18, linewidth=0)
        ax.set_ylim(bottom=0.0)
        return ax

    def __repr__(self) -> str:
        return (
            f"ReachDistribution({self.method}, mean={self.mean:.2f}, "
            f"from {self.support[0]:,} to {self.support[-1]:,})"
        )

    @classmethod
    def of_samples(cls, samples: IntArray) -> "ReachDistribution":
        """The empirical distribution of simulated reaches."""
        support, count = np.unique(samples, return_counts=True)
        return cls(support, count / count.sum(), "sampled")

    @classmethod
    def normal(cls, mean: float, std: float, least: int, most: int) -> "ReachDistribution":
        """The normal law on a grid of at most 2,001 whole numbers, for sums beyond simulation."""
        if std == 0.0:
            return cls(np.array([round(mean)]), np.ones(1), "normal")
        law = NormalDist(mean, std)
        low, high = max(least, int(mean - 9 * std)), min(most, int(mean + 9 * std) + 1)
        support = np.unique(np.linspace(low, high, min(high - low + 1, 2001)).round()).astype(int)
        edges = (support[1:] + support[:-1]) / 2.0
        cdf = np.array([0.0, *(law.cdf(e) for e in edges), 1.0])
        return cls(support, np.diff(cdf), "normal")


def exact_cost(kinds: list[ServedKind], cap: int) -> float:
    """Elementary steps of `exact_distribution`, to decide whether it is worth starting."""
    return sum(reach_pmf_cost(served.kind, served.impressions, cap) for served in kinds)


def _group_pmf(served: ServedKind, cap: int) -> FloatArray:
    """The law of one group, remembered if it is short: reports of a series share most of them."""
    kind = served.kind
    if len(kind.shares) > _FEW_SHARES or kind.most(served.impressions, cap) > _SHORT:
        return group_reach_pmf(kind, served.impressions, cap)
    shares, people = tuple(kind.shares.tolist()), tuple(kind.people.tolist())
    return _remembered_pmf(shares, people, float(kind.concentration), served.impressions, cap)


@lru_cache(maxsize=4_096)
def _remembered_pmf(
    shares: tuple[float, ...],
    people: tuple[float, ...],
    concentration: float,
    impressions: int,
    cap: int,
) -> FloatArray:
    kind = GroupKind(np.array(shares), np.array(people), concentration)
    pmf = group_reach_pmf(kind, impressions, cap)
    pmf.flags.writeable = False
    return pmf


def exact_distribution(kinds: list[ServedKind], cap: int) -> ReachDistribution:
    """Groups are independent: the law of each kind, then a convolution over all groups."""
    served = [s for s in kinds if s.impressions > 0 and s.groups > 0]
    if not served:
        return ReachDistribution(np.zeros(1, dtype=np.int64), np.ones(1), "exact")
    pmfs = [_group_pmf(s, cap) for s in served]
    low, pmf = sum_distribution(pmfs, np.array([float(s.groups) for s in served]))
    return ReachDistribution(low + np.arange(len(pmf)), pmf, "exact")
