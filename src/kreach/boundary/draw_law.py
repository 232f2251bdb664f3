"""The law of exposure in a window of a log, given a visit model: mean and variance of reach.

Both sides use it: the ad system measures with it, and the publisher fits its visit model and finds
the model's errors with the very same formula.
"""

from functools import cached_property

import numpy as np

from kreach.boundary.draw_cells import WholeDraws, WindowDraws
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.exposure import ExposureLaw, binomial_law
from kreach.numeric.types import FloatArray
from kreach.numeric.visitor_variance import session_variance
from kreach.numeric.visitors import VisitorKinds, batch_law, compound

__all__ = ["DrawLaw"]

_WEEK_HOURS = 168.0
_MAX_BATCH_LAW = 128  # impressions of one session that the law tells apart


class DrawLaw:
    """Rows of people who are alike, each with a head-count and the law of its impressions."""

    def __init__(self, window: WindowDraws, model: VisitModel, traffic: float = 1.0) -> None:
        cells = window.cells
        traffic = max(traffic, _min_traffic(window, model))
        self.meeting = model.meeting_probability(window.days, traffic)
        self.rows = WholeDraws.of(cells)
        self._model = model
        draws = cells.total_draws
        self._mean_batch = cells.total_impressions / draws if draws > 0.0 else 1.0

    @property
    def people(self) -> FloatArray:
        """Targeted head-count of each row."""
        return self.rows.targeted * self.rows.groups

    @cached_property
    def _kinds(self) -> VisitorKinds:
        return self._model.kinds(self.meeting, self.rows.size)

    @cached_property
    def _batch(self) -> FloatArray:
        return batch_law(self._model.requests_per_session, self._mean_batch, _MAX_BATCH_LAW)

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
