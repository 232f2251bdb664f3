"""Reach by segment: groups of one segment each, whose figures add up to the whole.

Groups share nobody, so reach is a sum over groups and every segment's figure is the sum over its
own. With a visit model all groups are under the law of the whole window: then they add up too.
"""

from functools import cached_property

import numpy as np

from kreach.adsystem.measurement.disjoint import disjoint_bounds
from kreach.adsystem.measurement.drawn import DrawnExposure
from kreach.adsystem.measurement.exposure import CertifiedBounds, Exposure, expose
from kreach.adsystem.measurement.part_draws import PartDraws
from kreach.adsystem.measurement.pooled_exposure import TableExposure
from kreach.boundary.audience import Audience, DisjointAudience, ProfiledAudience
from kreach.boundary.draw_cells import fold_draws
from kreach.boundary.draw_law import GroupDrawTable
from kreach.errors import KreachError
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["counted_segment", "timed_segment"]


def counted_segment(audience: Audience, impressions: IntArray, groups: IntArray) -> Exposure:
    """The groups of a segment, without times."""
    return expose(_some_groups(audience, groups), impressions[groups])


def _some_groups(audience: Audience, groups: IntArray) -> Audience:
    if isinstance(audience, DisjointAudience):
        spread = None if audience.dispersion is None else audience.dispersion[groups]
        sizes, targeted = audience.group_sizes[groups], audience.targeted_counts[groups]
        return Audience.disjoint(sizes, targeted, spread)
    if isinstance(audience, ProfiledAudience):
        return Audience.profiled([audience.shares_of(group) for group in groups.tolist()])
    raise KreachError.rule("groups", "share no members, for reach by segment", "overlapping groups")


def timed_segment(rows: PartDraws, groups: IntArray) -> "SegmentExposure":
    """The groups of a segment under the law of all of them."""
    return SegmentExposure(rows, groups)


class SegmentExposure(TableExposure):
    """Some groups of a window with a visit model."""

    def __init__(self, rows: PartDraws, groups: IntArray) -> None:
        everything = tuple(range(len(rows.names)))
        whole = rows.together(everything)
        assert isinstance(whole, DrawnExposure)
        drawn, audience = rows.drawn(everything), rows.audience
        self._law, self.model_error, self.basis = whole.draw_law, whole.model_error, whole.basis
        self._targeted = audience.targeted_counts[groups].astype(np.float64)
        self._size = audience.group_sizes[groups].astype(np.float64)
        impressions = drawn.impressions[groups]
        part = Audience.disjoint(audience.group_sizes[groups], audience.targeted_counts[groups])
        assert isinstance(part, DisjointAudience)
        self._cells = fold_draws(part, impressions, drawn.draws[groups], drawn.doubt[groups])
        self._groups = GroupDrawTable(
            self._size, impressions.astype(np.float64), drawn.draws[groups], drawn.doubt[groups]
        )

    @property
    def people(self) -> FloatArray:
        return np.array([float(self._targeted.sum())])

    @property
    def max_trials(self) -> int:
        return int(self._groups.impressions.max(initial=0.0))

    @cached_property
    def targeted_impressions(self) -> float:
        return float(self._groups.impressions @ (self._targeted / self._size))

    def table(self, top: int) -> FloatArray:
        members = self._law.at_least_by_group(self._groups, top + 1)
        above = (self._targeted / self._size) @ members
        exactly = above - np.append(above[1:], 0.0)
        return np.concatenate([[max(float(self.people[0]) - above[0], 0.0)], exactly])

    def variance(self, cap: int) -> float:
        """Of everybody in the groups, in proportion to those targeted."""
        each = self._law.variance_by_group(self._groups, min(cap, max(self.max_trials, 1)))
        return float((self._targeted / self._size) @ each)

    def at_least_variance(self, count: int) -> float:
        return self.variance_bound(count, at_least=True)

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        return disjoint_bounds(self._cells, cap)
