"""Groups counted by impressions and effective draws: what a window of a log tells a visit model.

Whoever reads a log counts, for every group, its impressions n, its effective draws d (the sum of
the shares of a draw, `numeric/draws.py`) and their doubt Σ w(1 − w). Folded by (kind of group, n,
whole part of d) these are `DrawCells`; with the draws by day and part of the day they are all that
a report on a window needs.

A group with 3.4 draws is taken as one of 3 draws with probability 0.6 and one of 4 with 0.4: every
figure is then that of a proper law, and linear in between.
"""

from dataclasses import dataclass

import numpy as np

from kreach.boundary.audience import DisjointAudience
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.draws import HOUR_US, sum_by
from kreach.numeric.meetings import PART_US, calendar
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["DrawCells", "WholeDraws", "WindowDraws", "draws_in_order", "fold_draws"]


@dataclass(frozen=True, eq=False)
class DrawCells:
    """A histogram: `groups[i]` groups of this size and targeting with n impressions and draws.

    `draws` is the whole part; `fraction` sums the rest of the draws over the groups of the cell,
    and `doubt` sums Σ w(1 − w), the variance of the number of sessions given the shares.
    """

    size: FloatArray
    targeted: FloatArray
    impressions: FloatArray
    draws: FloatArray
    groups: FloatArray
    fraction: FloatArray
    doubt: FloatArray

    @property
    def total_impressions(self) -> float:
        """Impressions of all groups."""
        return float(self.groups @ self.impressions)

    @property
    def members(self) -> float:
        """Members of all groups that hold anybody targeted."""
        return float(self.groups @ self.size)

    @property
    def total_draws(self) -> float:
        """Effective draws of all groups."""
        return float(self.groups @ self.draws + self.fraction.sum())


@dataclass(frozen=True, eq=False)
class WindowDraws:
    """One window of a log: its cells, its draws by day and part of the day, and its length."""

    cells: DrawCells
    days: FloatArray  # numeric.meetings.calendar
    hours: float  # length of the window


def draws_in_order(
    audience: DisjointAudience,
    group: IntArray,
    at_us: IntArray,
    model: VisitModel,
    traffic: float = 1.0,
    hours: float | None = None,
) -> WindowDraws:
    """The effective draws of impressions that come ordered by group, then time."""
    share = model.draw_shares(group, at_us, traffic)
    count = audience.group_count
    cells = fold_draws(
        audience,
        np.bincount(group, minlength=count),
        sum_by(group, share, count),
        sum_by(group, share * (1.0 - share), count),
    )
    if hours is None:
        hours = float(at_us.max() - at_us.min()) / HOUR_US if len(at_us) else 0.0
    return WindowDraws(cells, calendar(at_us // PART_US, share), hours)


def fold_draws(
    audience: DisjointAudience, impressions: IntArray, draws: FloatArray, doubt: FloatArray
) -> DrawCells:
    """Count groups by (kind, impressions, whole draws); those without impressions count too."""
    kinds = audience.kinds
    of_group = np.zeros(len(draws), dtype=np.int64) if kinds.of_group is None else kinds.of_group
    some = (impressions > 0) & (kinds.targeted[of_group] > 0.0 if len(kinds) else False)
    kind = of_group
    kind, n, d, v = kind[some], impressions[some], draws[some], doubt[some]
    d = np.minimum(d, n)  # rounding may not make more draws than impressions
    whole = np.floor(d + 1e-12).astype(np.int64)
    order = _sorted_by(kind, n, whole)
    kind, n, whole, d, v = kind[order], n[order], whole[order], d[order], v[order]
    new = np.ones(len(n), dtype=bool)
    new[1:] = (kind[1:] != kind[:-1]) | (n[1:] != n[:-1]) | (whole[1:] != whole[:-1])
    first = np.flatnonzero(new)
    cell = np.cumsum(new) - 1
    fraction = sum_by(cell, np.maximum(d - whole, 0.0), len(first))
    unserved = np.bincount(of_group[impressions == 0], minlength=len(kinds))
    empty = np.flatnonzero((unserved > 0) & (kinds.targeted > 0.0))
    kind, none = np.concatenate([empty, kind[first]]), np.zeros(len(empty))
    return DrawCells(
        kinds.size[kind],
        kinds.targeted[kind],
        np.concatenate([none, n[first]]),
        np.concatenate([none, whole[first]]),
        np.concatenate([unserved[empty], np.bincount(cell, minlength=len(first))]).astype(float),
        np.concatenate([none, fraction]),
        np.concatenate([none, sum_by(cell, v, len(first))]),
    )


def _sorted_by(*columns: IntArray) -> IntArray:
    """An order by the first column, then the second, ...: by one key where it fits."""
    spans = [int(column.max(initial=0)) + 1 for column in columns]
    if float(np.prod([float(span) for span in spans])) >= 2.0**62:
        return np.lexsort(columns[::-1])
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column, span in zip(columns, spans, strict=True):
        key = key * span + column
    return np.argsort(key, kind="stable")


@dataclass(frozen=True, eq=False)
class WholeDraws:
    """Rows of groups alike, with whole draws: each cell as groups with `draws` and with one more.

    `impressions` tells rows apart only for groups of one person, where sessions do not matter.
    """

    size: FloatArray
    targeted: FloatArray
    impressions: FloatArray
    draws: FloatArray
    groups: FloatArray
    doubt: FloatArray

    @classmethod
    def of(cls, cells: DrawCells) -> "WholeDraws":
        """Split the groups of each cell by the fraction of a draw that they have left."""
        more = np.minimum(cells.fraction, cells.groups)
        stay = cells.groups - more
        share = np.divide(more, cells.groups, out=np.zeros_like(more), where=cells.groups > 0)
        impressions = np.where(cells.size == 1.0, cells.impressions, 0.0)
        twice = [np.concatenate([c, c]) for c in (cells.size, cells.targeted, impressions)]
        groups = np.concatenate([stay, more])
        doubt = np.concatenate([cells.doubt * (1.0 - share), cells.doubt * share])
        table = np.stack([*twice, np.concatenate([cells.draws, cells.draws + 1.0])])
        order = np.lexsort(table)
        order = order[groups[order] > 0.0]
        table = table[:, order]
        new = np.ones(len(order), dtype=bool)
        new[1:] = (table[:, 1:] != table[:, :-1]).any(axis=0)
        row = np.cumsum(new) - 1
        count = int(new.sum())
        size, targeted, impressions, draws = table[:, new]
        sums = (sum_by(row, column[order], count) for column in (groups, doubt))
        return cls(size, targeted, impressions, draws, *sums)
