"""The law of exposure in a window of a log, given a visit model: mean and variance of reach.

Both sides use it: the ad system measures with it, and the publisher fits its visit model and finds
the model's errors with the very same formula.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kreach.boundary.draw_cells import WholeDraws, WindowDraws
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.exposure import ExposureLaw, binomial_law
from kreach.numeric.types import FloatArray, IntArray
from kreach.numeric.visitor_variance import session_variance
from kreach.numeric.visitors import VisitorKinds, batch_law, compound

__all__ = ["DrawLaw", "GroupDrawTable"]

_WEEK_HOURS = 168.0
_MAX_BATCH_LAW = 128  # impressions of one session that the law tells apart


@dataclass(frozen=True, eq=False)
class GroupDrawTable:
    """Single groups of a window: size, impressions, effective draws and their doubt Σ w(1 − w)."""

    size: FloatArray
    impressions: FloatArray
    draws: FloatArray
    doubt: FloatArray

    def whole(self) -> Iterator[tuple[FloatArray, FloatArray, FloatArray, IntArray]]:
        """Weight of each group at the whole part of its draws, then at one more.

        With each the distinct (size, draws) and which of them a group has.
        """
        whole = np.floor(self.draws + 1e-12)
        more = np.maximum(self.draws - whole, 0.0)
        for step, weight in ((0.0, 1.0 - more), (1.0, more)):
            table = np.stack([self.size, whole + step])
            rows, row_of = np.unique(table, axis=1, return_inverse=True)
            yield weight, rows[0], rows[1], row_of.reshape(-1)


class DrawLaw:
    """Rows of people who are alike, each with a head-count and the law of its impressions."""

    def __init__(self, window: WindowDraws, model: VisitModel, traffic: float = 1.0) -> None:
        cells = window.cells
        traffic = max(traffic, _min_traffic(window, model))
        self.meeting = model.meeting_probability(window.days, traffic)
        self.rows = WholeDraws.of(cells)
        self._model = model
        draws = cells.total_draws
        self.mean_batch = cells.total_impressions / draws if draws > 0.0 else 1.0

    @property
    def people(self) -> FloatArray:
        """Targeted head-count of each row."""
        return self.rows.targeted * self.rows.groups

    @cached_property
    def _kinds(self) -> VisitorKinds:
        return self.kinds_of(self.rows.size)

    @cached_property
    def _batch(self) -> FloatArray:
        return batch_law(self._model.requests_per_session, self.mean_batch, _MAX_BATCH_LAW)

    def kinds_of(self, size: FloatArray) -> VisitorKinds:
        """How members of groups of each size share the sessions of this window."""
        return self._model.kinds(self.meeting, size)

    def batch(self, top: int) -> FloatArray:
        """P(B = 1), ..., P(B = top) of the impressions of a session that has any."""
        return self._batch[:top]

    def law(self, rows: slice, top: int) -> ExposureLaw:
        """The law of the impressions of one member, for the given rows."""
        table, kinds = self.rows, self._kinds
        here = VisitorKinds(
            kinds.regulars, kinds.share[rows], kinds.other_share[rows], kinds.concentration[rows]
        )
        law = compound(here.sessions(table.draws[rows], top), self.batch(top))
        alone = table.size[rows] == 1.0  # a group of one is one person, whatever the sessions
        if alone.any():
            certain = binomial_law(table.impressions[rows], np.ones(len(alone)), top)
            law = ExposureLaw(
                np.where(alone[:, None], certain.pmf, law.pmf),
                np.where(alone, certain.tail, law.tail),
            )
        return law

    def reach(self, cap: int) -> float:
        """Σ E[min(X_i, cap)] over targeted people."""
        return float(self.people @ self.law(slice(None), cap - 1).capped_mean(cap))

    def at_least_by_group(self, groups: "GroupDrawTable", top: int) -> FloatArray:
        """A row per group: expected members with 1, 2, ..., top or more impressions.

        Groups of this window. Linear between whole draws, as `WholeDraws` has it: the rows sum to
        the figures of the window.
        """
        batch = self.batch(top)
        result = np.zeros((len(groups.size), top))
        for weight, size, draws, row_of in groups.whole():
            law = compound(self.kinds_of(size).sessions(draws, top), batch)
            people = size[:, None] * law.survival()[:, 1 : top + 1]
            result += weight[:, None] * people[row_of]
        alone = groups.size == 1.0
        result[alone] = groups.impressions[alone, None] >= np.arange(1.0, top + 1.0)
        result[groups.impressions == 0.0] = 0.0
        return result

    def variance_by_group(self, groups: "GroupDrawTable", cap: int) -> FloatArray:
        """Var[Σ min(X_i, cap)] over the members of each group, as in `variance`."""
        result = np.zeros(len(groups.size))
        means = []
        for weight, size, draws, row_of in groups.whole():
            kinds = self.kinds_of(size)
            each = session_variance(draws, size, kinds, self.batch(cap), cap)
            result += weight * np.maximum(each, 0.0)[row_of]
            law = compound(kinds.sessions(draws, cap), self.batch(cap))
            means.append((size * law.capped_mean(cap))[row_of])
        result += groups.doubt * (means[1] - means[0]) ** 2
        result[(groups.size == 1.0) | (groups.impressions == 0.0)] = 0.0
        return result

    def variance(self, cap: int, *, at_least: bool = False) -> float:
        """Var[Σ min(X_i, cap)], or of #{i: X_i ≥ cap}.

        Of the law at the given draws, and of the number of sessions behind the draws.
        """
        table = self.rows
        random = table.size > 1.0
        each = session_variance(
            table.draws, table.targeted, self._kinds, self.batch(cap), cap, at_least=at_least
        )
        one_more = self._gain(cap, at_least=at_least)
        spread = table.groups * each + table.doubt * one_more**2
        return max(float(spread[random].sum()), 0.0)

    def _gain(self, cap: int, *, at_least: bool) -> FloatArray:
        """What one session more would add to the reach of a group."""
        table, kinds = self.rows, self._kinds

        def mean(sessions: ExposureLaw) -> FloatArray:
            law = compound(sessions, self.batch(cap))
            figure = law.survival()[..., cap] if at_least else law.capped_mean(cap)
            return np.asarray(table.targeted * figure)

        more, now = kinds.sessions_of_each((table.draws + 1.0, table.draws), cap)
        return mean(more) - mean(now)


def _min_traffic(window: WindowDraws, model: VisitModel) -> float:
    """The traffic that the impressions themselves prove: there were at least as many requests.

    For windows of a week and more: on a busy day the same people come more often, and it is not
    that more people come.
    """
    usual = model.requests_per_person_day * window.cells.members * window.hours / 24.0
    if window.hours < _WEEK_HOURS or usual <= 0.0:
        return 0.0
    return window.cells.total_impressions / usual
