"""People whom two or more sets reached: variance of their number and bounds, by audience."""

from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from kreach.adsystem.measurement.exposure import Bounds, CertifiedBounds
from kreach.boundary.audience import (
    Audience,
    DisjointAudience,
    OverlappingAudience,
    ProfiledAudience,
)
from kreach.errors import KreachError
from kreach.numeric.only_fixed import overlapping_several_variance, profiled_several_variance
from kreach.numeric.several import several_variance
from kreach.numeric.types import IntArray

__all__ = ["several_bounds", "several_people_variance"]

_MAX_ROWS = 20_000  # groups; of more, so many are sampled


@singledispatch
def several_people_variance(audience: Audience, counts: Sequence[IntArray]) -> float:
    """Var[number of targeted people whom two or more sets reached]; counts by group of each set."""
    raise KreachError.rule("audience", "be a kreach Audience", type(audience).__name__)


@several_people_variance.register
def _(audience: DisjointAudience, counts: Sequence[IntArray]) -> float:
    """Exact; where over 20,000 groups are alike to no other, from a sample of them (seeded)."""
    kinds = audience.kinds
    table = np.stack(counts, axis=1)
    served = np.flatnonzero((table > 0).sum(axis=1) >= 2)
    if served.size == 0:
        return 0.0
    kind = np.zeros(len(table), dtype=np.int64) if kinds.of_group is None else kinds.of_group
    rows = np.column_stack([table[served], kind[served]])
    rows, times = np.unique(rows, axis=0, return_counts=True)
    scale = 1.0
    if len(rows) > _MAX_ROWS:
        chosen = np.random.default_rng(0).choice(len(rows), _MAX_ROWS, replace=False)
        scale = float(times.sum()) / float(times[chosen].sum())
        rows, times = rows[chosen], times[chosen]
    number, kind = rows[:, :-1].astype(np.float64), rows[:, -1]
    each = several_variance(number, kinds.size[kind], kinds.targeted[kind], kinds.dispersion[kind])
    return scale * float(times @ each)


@several_people_variance.register
def _(audience: ProfiledAudience, counts: Sequence[IntArray]) -> float:
    table = np.stack(counts, axis=1)
    served = np.flatnonzero((table > 0).sum(axis=1) >= 2).tolist()
    groups = [(audience.shares_of(j), table[j].astype(np.float64)) for j in served]
    return profiled_several_variance(groups)


@several_people_variance.register
def _(audience: OverlappingAudience, counts: Sequence[IntArray]) -> float:
    return overlapping_several_variance(
        audience.classes,
        audience.headcounts.astype(np.float64),
        audience.group_sizes.astype(np.float64),
        np.stack(counts, axis=1),
    )


def several_bounds(audience: Audience, counts: Sequence[IntArray], cap: int) -> CertifiedBounds:
    """Least and most impressions within the cap on people whom two or more sets reached.

    In a group with impressions n_1, n_2, ... of the sets, at most min(⌊n/2⌋, n − max n_s) people
    can have met two sets. Nobody must have, as long as every set finds a member of its own. With
    overlapping groups people may meet sets in different groups: the most is then certified only.
    """
    table = np.stack(counts, axis=1)
    total, largest = table.sum(axis=1), table.max(axis=1, initial=0)
    if isinstance(audience, OverlappingAudience):
        n, top = int(total.sum()), int(table.sum(axis=0).max(initial=0))
        people = min(n // 2, n - top, audience.targeted_user_count)
        return CertifiedBounds(Bounds(0, min(n, cap * people) if people else 0), (False, False))
    if isinstance(audience, DisjointAudience):
        targeted, members = audience.targeted_counts, audience.group_sizes
        everybody = targeted == members
    else:
        assert isinstance(audience, ProfiledAudience)
        starts = audience.offsets[:-1]
        members = (
            np.add.reduceat(audience.shares > 0.0, starts) if len(starts) else audience.group_sizes
        )
        targeted, everybody = members, np.ones(len(members), dtype=bool)
    people = np.minimum(np.minimum(total // 2, total - largest), targeted)
    most = np.where(people > 0, np.minimum(total, min(cap, int(total.max(initial=0))) * people), 0)
    crowded = everybody & ((table > 0).sum(axis=1) > members)
    least = np.where(crowded, min(cap, 2), 0)
    return CertifiedBounds(
        Bounds(int(least.sum()), int(most.sum())), (not bool(crowded.any()), True)
    )
