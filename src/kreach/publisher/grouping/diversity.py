"""l-diversity and t-closeness of a sensitive attribute inside groups, and floors for them.

A group of k people protects nobody's secret if all of them share it. Of each group this counts

* l, *distinct*: different values;
* l, *entropy*: equally likely values that it is worth, exp(−Σ q ln q);
* t: the earth mover's distance between the values in the group (q) and among all people (p).
  Categories are equally far from each other, t = ½ Σ |q − p|. Numbers are in order: with m
  different values, t = 1/(m − 1) Σ |F_q − F_p| over their cumulative shares.

Joining two groups never lowers either l below that of the worse one, and never raises t above it:
the number of values can only grow, entropy is concave, and both distances are convex.

Machanavajjhala et al., l-diversity (ICDE 2006); Li, Li and Venkatasubramanian, t-closeness
(ICDE 2007).
"""

from dataclasses import dataclass

import numpy as np

from kreach.boundary.checks import as_whole_number
from kreach.errors import KreachError
from kreach.numeric.types import BoolArray, FloatArray, IntArray
from kreach.publisher.people import Attribute

__all__ = ["DiversityFloors", "GroupDiversity", "SensitiveValues"]

_ROUNDING = 1e-9  # a floor of exactly what a group has must hold


@dataclass(frozen=True, eq=False)
class GroupDiversity:
    """The diversity of one attribute, group by group."""

    sizes: IntArray
    distinct: IntArray
    entropy_l: FloatArray
    top_share: FloatArray  # of the most common value: how often its guess is right
    t: FloatArray


@dataclass(frozen=True)
class DiversityFloors:
    """What every group must hold of each sensitive attribute.

    `min_l`: different values. `min_entropy_l`: equally likely values that it is worth. `max_t`:
    distance from the values of all people; 1 allows everything.
    """

    min_l: int = 2
    min_entropy_l: float = 1.0
    max_t: float = 1.0

    def __post_init__(self) -> None:
        as_whole_number("min_l", self.min_l, minimum=1)
        if not 1.0 <= self.min_entropy_l < np.inf:
            raise KreachError.rule("min_entropy_l", "be a number ≥ 1", self.min_entropy_l)
        if not 0.0 < self.max_t <= 1.0:
            raise KreachError.rule("max_t", "be a number above 0 and at most 1", self.max_t)

    def hold(self, groups: GroupDiversity) -> BoolArray:
        """Whether each group holds them."""
        return (
            (groups.distinct >= self.min_l)
            & (groups.entropy_l >= self.min_entropy_l - _ROUNDING)
            & (groups.t <= self.max_t + _ROUNDING)
        )


class SensitiveValues:
    """One attribute of all people: the code of everybody's value and the share of each value.

    Codes are 0..m−1, in ascending order of numbers; values that nobody has are left out.
    """

    def __init__(self, attribute: Attribute) -> None:
        present, self.codes = np.unique(attribute.codes, return_inverse=True)
        self.count = len(present)
        self.counts = np.bincount(self.codes, minlength=self.count)
        self.shares = self.counts / max(len(self.codes), 1)
        self.ordered = attribute.numeric
        self._below = np.cumsum(self.shares)  # F_p
        self._sum_below = np.concatenate([[0.0], np.cumsum(self._below)])

    def in_groups(self, group_of: IntArray, members: IntArray | None = None) -> GroupDiversity:
        """The diversity of groups 0..M−1; `group_of` is of `members`, or of everybody."""
        codes = self.codes if members is None else self.codes[members]
        cell, count = np.unique(group_of * self.count + codes, return_counts=True)
        group, value = np.divmod(cell, max(self.count, 1))
        groups = int(group[-1]) + 1 if len(group) else 0
        sizes: FloatArray = np.bincount(group, weights=count, minlength=groups).astype(np.float64)
        share = count / sizes[group]
        starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
        top = np.maximum.reduceat(share, starts) if len(share) else share
        entropy = np.bincount(group, weights=-share * np.log(share), minlength=groups)
        if self.ordered:
            t = self._ordered_distance(group, value, count, sizes)
        else:
            above = np.maximum(share - self.shares[value], 0.0)  # ½ Σ |q − p| = Σ (q − p)⁺
            t = np.bincount(group, weights=above, minlength=groups).astype(np.float64)
        distinct = np.bincount(group, minlength=groups)
        return GroupDiversity(sizes.astype(np.int64), distinct, np.exp(entropy), top, t)

    def of_all(self) -> GroupDiversity:
        """The same of all people as one group."""
        return self.in_groups(np.zeros(len(self.codes), dtype=np.int64))

    def _ordered_distance(
        self, group: IntArray, value: IntArray, count: IntArray, sizes: FloatArray
    ) -> FloatArray:
        """1/(m − 1) Σ_i |F_q(i) − F_p(i)|.

        F_q is constant from one value of the group to the next, and F_p ascends: each such run is
        two sums of F_p, before and after the two cross.
        """
        if self.count < 2 or len(group) == 0:
            return np.zeros(len(sizes))
        total = np.cumsum(count)
        first = np.concatenate([[True], group[1:] != group[:-1]])
        earlier = np.maximum.accumulate(np.where(first, total - count, 0))
        level = (total - earlier) / sizes[group]  # F_q from this value on
        end = np.concatenate([np.where(first[1:], self.count, value[1:]), [self.count]])
        cross = np.clip(np.searchsorted(self._below, level), value, end)
        s = self._sum_below
        run = level * (2 * cross - value - end) + s[value] + s[end] - 2.0 * s[cross]
        run += np.where(first, s[value], 0.0)  # below its first value F_q is 0
        total_run = np.bincount(group, weights=run, minlength=len(sizes)).astype(np.float64)
        return total_run / (self.count - 1)
