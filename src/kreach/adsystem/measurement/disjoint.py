"""Disjoint groups: a report needs only how many groups of each kind have how many impressions."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from kreach.adsystem.measurement.exposure import (
    Bounds,
    CertifiedBounds,
    Exposure,
    ServedKind,
    expose,
)
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.numeric.exposure import ExposureLaw, exposure_law
from kreach.numeric.groupreach import GroupKind
from kreach.numeric.types import FloatArray, IntArray
from kreach.numeric.variance import (
    group_variance,
    group_variance_at_least,
    group_variances_at_least,
)

__all__ = ["Cells", "DisjointExposure", "disjoint_bounds", "fold"]

_TOP = 10  # counts whose variances every report needs together


@dataclass(frozen=True)
class Cells:
    """A histogram: `groups[i]` groups of this size, targeting and dispersion with n impressions.

    It is all that a report on disjoint groups needs, however many groups or people there are, so
    any engine that can count can produce it.
    """

    size: FloatArray
    targeted: FloatArray
    dispersion: FloatArray
    impressions: FloatArray
    groups: FloatArray


def fold(audience: DisjointAudience, impressions_by_group: IntArray) -> Cells:
    """Count groups by (kind, impressions): one pass of `bincount`, or a sort for huge counts."""
    kinds = audience.kinds
    n = impressions_by_group
    span = int(n.max(initial=0)) + 1
    if len(kinds) * span <= max(4 * len(n), 1 << 16):
        code = n if kinds.of_group is None else kinds.of_group * span + n
        tally = np.bincount(code, minlength=1) if len(n) else np.zeros(0, dtype=np.int64)
        cells = np.flatnonzero(tally)
        kind, count = np.divmod(cells, span)
        groups = tally[cells]
    else:
        of_group = np.zeros(len(n), dtype=np.int64) if kinds.of_group is None else kinds.of_group
        order = np.lexsort((n, of_group))
        kind, count = of_group[order], n[order]
        first = np.flatnonzero(
            np.concatenate([[True], (kind[1:] != kind[:-1]) | (count[1:] != count[:-1])])
        )
        groups = np.diff(np.concatenate([first, [len(n)]]))
        kind, count = kind[first], count[first]
    some = kinds.targeted[kind] > 0.0
    kind, count, groups = kind[some], count[some], groups[some]
    return Cells(
        kinds.size[kind],
        kinds.targeted[kind],
        kinds.dispersion[kind],
        count.astype(np.float64),
        groups.astype(np.float64),
    )


class Served(Protocol):
    """Groups that share nobody by size, targeted members and impressions."""

    @property
    def size(self) -> FloatArray: ...
    @property
    def targeted(self) -> FloatArray: ...
    @property
    def impressions(self) -> FloatArray: ...
    @property
    def groups(self) -> FloatArray: ...


def disjoint_bounds(cells: Served, cap: int) -> CertifiedBounds:
    """Per group: most min(n, c·u); least min(n, c), or 0 where a member is not targeted."""
    most = np.minimum(cells.impressions, cap * cells.targeted)
    everybody = cells.targeted == cells.size
    least = np.where(everybody, np.minimum(cells.impressions, cap), 0.0)
    bounds = Bounds(round(float(cells.groups @ least)), round(float(cells.groups @ most)))
    return CertifiedBounds(bounds, (True, True))


class DisjointExposure(Exposure):
    """Theorem 1, 2 and 3 for disjoint groups, uniform or with Dirichlet visit shares."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        dispersed = bool(np.isfinite(cells.dispersion).any())
        self.visits = "dispersion" if dispersed else "uniform"
        self.basis = (
            "beta-binomial counterpart of Theorem 1: disjoint groups, independent visits, "
            "visit shares symmetric Dirichlet"
            if dispersed
            else "Theorem 1: disjoint groups, independent visits, uniform within a group"
        )

    @property
    def people(self) -> FloatArray:
        return self.cells.targeted * self.cells.groups

    def law(self, rows: slice, top: int) -> ExposureLaw:
        cells = self.cells
        return exposure_law(cells.impressions[rows], cells.size[rows], cells.dispersion[rows], top)

    @property
    def max_trials(self) -> int:
        return int(self.cells.impressions.max(initial=0.0))

    @property
    def targeted_impressions(self) -> float:
        cells = self.cells
        return float((cells.groups * cells.impressions) @ (cells.targeted / cells.size))

    def variance(self, cap: int) -> float:
        cells = self.cells
        each = group_variance(cells.size, cells.targeted, cells.impressions, cells.dispersion, cap)
        return float(cells.groups @ each)

    @cached_property
    def _at_least_variances(self) -> FloatArray:
        cells = self.cells
        each = group_variances_at_least(
            cells.size, cells.targeted, cells.impressions, cells.dispersion, _TOP
        )
        result: FloatArray = cells.groups @ each
        return result

    def at_least_variance(self, count: int) -> float:
        if count <= _TOP:
            return float(self._at_least_variances[count - 1])
        cells = self.cells
        each = group_variance_at_least(
            cells.size, cells.targeted, cells.impressions, cells.dispersion, count
        )
        return float(cells.groups @ each)

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        return disjoint_bounds(self.cells, cap)

    def unfolded(self) -> tuple[Audience, IntArray]:
        cells = self.cells
        times = cells.groups.astype(np.int64)
        size, targeted, dispersion = (
            np.repeat(column, times) for column in (cells.size, cells.targeted, cells.dispersion)
        )
        impressions = np.repeat(cells.impressions.astype(np.int64), times)
        return Audience.disjoint(size, targeted, dispersion), impressions

    def served_kinds(self) -> list[ServedKind]:
        cells = self.cells
        return [
            ServedKind(
                GroupKind(np.array([1.0 / size]), np.array([targeted]), size * dispersion),
                int(impressions),
                int(groups),
            )
            for size, targeted, dispersion, impressions, groups in zip(
                cells.size,
                cells.targeted,
                cells.dispersion,
                cells.impressions,
                cells.groups,
                strict=True,
            )
        ]


@expose.register
def _(audience: DisjointAudience, impressions_by_group: IntArray) -> Exposure:
    return DisjointExposure(fold(audience, impressions_by_group))
