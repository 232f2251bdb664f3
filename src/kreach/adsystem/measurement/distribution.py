"""The whole distribution of reach."""

from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from kreach.adsystem.measurement.exposure import ServedKind
from kreach.boundary.checks import as_probability
from kreach.numeric.convolve import sum_distribution
from kreach.numeric.groupreach import GroupKind, group_reach_pmf, reach_pmf_cost
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["ReachDistribution", "exact_cost", "exact_distribution"]

_SHORT = 1_000  # values of reach, so that all laws that are remembered take some 30 MB at most
_FEW_SHARES = 100


@dataclass(frozen=True)
class ReachDistribution:
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
