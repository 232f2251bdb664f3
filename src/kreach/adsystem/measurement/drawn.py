"""Disjoint groups whose impressions have times: effective draws through the site's visit model.

An engine that reads a log counts, for every group, its impressions n, its effective draws d (the
sum of the shares of a draw, `numeric/draws.py`) and their doubt Σ w(1 − w). Folded by (kind of
group, n, whole part of d) these are `DrawCells`; with the draws by day and part of the day they are
all that a report on a window needs.

A group with 3.4 draws is taken as one of 3 draws with probability 0.6 and one of 4 with 0.4: every
figure is then that of a proper law, and linear in between.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kreach.adsystem.measurement.exposure import Bounds, CertifiedBounds, Exposure
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.visit_model import ModelError, VisitModel
from kreach.numeric.draws import sum_by
from kreach.numeric.exposure import ExposureLaw, binomial_law
from kreach.numeric.types import FloatArray, IntArray
from kreach.numeric.visitor_variance import session_variance
from kreach.numeric.visitors import VisitorKinds, batch_law, compound

__all__ = ["DrawCells", "DrawnExposure", "GroupDraws", "WindowDraws", "fold_draws"]

_MAX_BATCH_LAW = 64  # impressions of one session that the law tells apart


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
    def total_draws(self) -> float:
        """Effective draws of all groups."""
        return float(self.groups @ self.draws + self.fraction.sum())


@dataclass(frozen=True, eq=False)
class WindowDraws:
    """One window of a log: its cells, its draws by day and part of the day, and its length."""

    cells: DrawCells
    days: FloatArray  # numeric.meetings.calendar
    hours: float  # length of the window


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
    order = np.lexsort((whole, n, kind))
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


@dataclass(frozen=True, eq=False)
class GroupDraws:
    """The effective draws of a window by group of a catalogue, beside its impressions by group."""

    model: VisitModel
    draws: FloatArray
    doubt: FloatArray
    days: FloatArray  # numeric.meetings.calendar
    hours: float  # from the first impression to the last

    def described(self) -> "DrawnExposure":
        """An exposure of nobody, for what it says about model and window."""
        nobody = DrawCells(*(np.zeros(0) for _ in range(7)))
        return DrawnExposure(WindowDraws(nobody, self.days, self.hours), self.model)

    def exposure(self, audience: DisjointAudience, impressions: IntArray) -> "DrawnExposure":
        """The exposure of an audience on these groups."""
        cells = fold_draws(audience, impressions, self.draws, self.doubt)
        return DrawnExposure(WindowDraws(cells, self.days, self.hours), self.model)


class DrawnExposure(Exposure):
    """Reach from effective draws: sessions, hours and regulars as the visit model has them."""

    visits = "visit model"

    def __init__(self, window: WindowDraws, model: VisitModel, traffic: float = 1.0) -> None:
        self.cells = cells = window.cells
        self.model_error: ModelError | None = model.error(window.hours)
        self.meeting = model.meeting_probability(window.days, traffic)
        self.model = model
        self._twice = _Rows.of(cells)
        fitted = (
            f", fitted on {model.people:,} people over {model.history_days:.0f} days"
            if model.people
            else ""
        )
        self.basis = (
            "visit model of the site: effective draws (sessions), two sessions one person's by "
            f"hours and days apart, regulars and others{fitted}; disjoint groups"
        )
        draws = cells.total_draws
        self._mean_batch = cells.total_impressions / draws if draws > 0.0 else 1.0

    @property
    def people(self) -> FloatArray:
        return self._twice.targeted * self._twice.groups

    @cached_property
    def _kinds(self) -> VisitorKinds:
        return self.model.kinds(self.meeting, self._twice.size)

    @cached_property
    def _whole_batch(self) -> FloatArray:
        return batch_law(self.model.requests_per_session, self._mean_batch, _MAX_BATCH_LAW)

    def _batch(self, top: int) -> FloatArray:
        return self._whole_batch[:top]

    def law(self, rows: slice, top: int) -> ExposureLaw:
        table, kinds = self._twice, self._kinds
        here = VisitorKinds(
            kinds.regulars, kinds.share[rows], kinds.other_share[rows], kinds.concentration[rows]
        )
        law = compound(here.sessions(table.draws[rows], top), self._batch(top))
        alone = table.size[rows] == 1.0  # a group of one is one person, whatever the sessions
        if alone.any():
            certain = binomial_law(table.impressions[rows], np.ones(len(alone)), top)
            law = ExposureLaw(
                np.where(alone[:, None], certain.pmf, law.pmf),
                np.where(alone, certain.tail, law.tail),
            )
        return law

    @property
    def max_trials(self) -> int:
        return int(self.cells.impressions.max(initial=0.0))

    @property
    def targeted_impressions(self) -> float:
        cells = self.cells
        return float((cells.groups * cells.impressions) @ (cells.targeted / cells.size))

    def variance(self, cap: int) -> float:
        """Of the law at the given draws, and of the number of sessions behind the draws."""
        return self._variance(cap, at_least=False)

    def at_least_variance(self, count: int) -> float:
        return self._variance(count, at_least=True)

    def _variance(self, cap: int, *, at_least: bool) -> float:
        table = self._twice
        cap = min(cap, max(self.max_trials, 1))
        batch = self._batch(cap)
        random = table.size > 1.0
        each = session_variance(
            table.draws, table.targeted, self._kinds, batch, cap, at_least=at_least
        )
        one_more = self._gain(cap, at_least=at_least)
        total = float((table.groups * each) @ random + (table.doubt * one_more**2) @ random)
        return max(total, 0.0)

    def _gain(self, cap: int, *, at_least: bool) -> FloatArray:
        """What one session more would add to the reach of a group."""
        table, kinds = self._twice, self._kinds

        def mean(draws: FloatArray) -> FloatArray:
            law = compound(kinds.sessions(draws, cap), self._batch(cap))
            figure = law.survival()[..., cap] if at_least else law.capped_mean(cap)
            return np.asarray(table.targeted * figure)

        return mean(table.draws + 1.0) - mean(table.draws)

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        """Per group: most min(n, c·u); least min(n, c), or 0 where a member is not targeted."""
        cells = self.cells
        most = np.minimum(cells.impressions, cap * cells.targeted)
        everybody = cells.targeted == cells.size
        least = np.where(everybody, np.minimum(cells.impressions, cap), 0.0)
        bounds = Bounds(round(float(cells.groups @ least)), round(float(cells.groups @ most)))
        return CertifiedBounds(bounds, (True, True))

    def served_kinds(self) -> None:
        return None  # sessions are not known one by one, so the law of reach is taken as normal

    def unfolded(self) -> None:
        return None


@dataclass(frozen=True, eq=False)
class _Rows:
    """Cells with whole draws only: each cell as groups with `draws` and with one draw more."""

    size: FloatArray
    targeted: FloatArray
    impressions: FloatArray
    draws: FloatArray
    groups: FloatArray
    doubt: FloatArray

    @classmethod
    def of(cls, cells: DrawCells) -> "_Rows":
        more = np.minimum(cells.fraction, cells.groups)
        stay = cells.groups - more
        share = np.divide(more, cells.groups, out=np.zeros_like(more), where=cells.groups > 0)
        twice = [np.concatenate([c, c]) for c in (cells.size, cells.targeted, cells.impressions)]
        groups = np.concatenate([stay, more])
        doubt = np.concatenate([cells.doubt * (1.0 - share), cells.doubt * share])
        draws = np.concatenate([cells.draws, cells.draws + 1.0])
        some = groups > 0.0
        size, targeted, impressions = (column[some] for column in twice)
        return cls(size, targeted, impressions, draws[some], groups[some], doubt[some])
