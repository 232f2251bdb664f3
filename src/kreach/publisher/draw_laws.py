"""Reach and its variance in many windows at once.

A replay measures thousands of windows with a few rows each, where a call of NumPy costs more than
its numbers. The rows of all windows go through each formula of `DrawLaw` together.
"""

from collections.abc import Sequence

import numpy as np

from kreach.boundary.draw_law import DrawLaw
from kreach.numeric.draws import sum_by
from kreach.numeric.exposure import ExposureLaw
from kreach.numeric.types import FloatArray
from kreach.numeric.visitor_variance import shortfall_moments, variance_of_shortfall
from kreach.numeric.visitors import VisitorKinds, sums_of_batches

__all__ = ["DrawLaws"]


class DrawLaws:
    """Laws of windows, all of models with the same share of regulars; figures by (window, cap)."""

    def __init__(self, laws: Sequence[DrawLaw], caps: Sequence[int]) -> None:
        self._laws, self._caps, self._top = laws, caps, max(caps) - 1
        self._of_row = np.repeat(np.arange(len(laws)), [len(law.rows.size) for law in laws])
        names = ("size", "targeted", "impressions", "draws", "groups", "doubt")
        columns = (np.concatenate([getattr(law.rows, name) for law in laws]) for name in names)
        self._size, self._targeted, self._impressions, self._draws, self._groups, self._doubt = (
            columns
        )
        kinds = [law.kinds_of(law.rows.size) for law in laws]
        assert len({one.regulars for one in kinds}) == 1
        self._kinds = VisitorKinds(
            kinds[0].regulars,
            np.concatenate([one.share for one in kinds]),
            np.concatenate([one.other_share for one in kinds]),
            np.concatenate([one.concentration for one in kinds]),
        )
        self._sums = np.stack([sums_of_batches(law.batch(self._top), self._top) for law in laws])
        now, more = self._kinds.sessions_of_each((self._draws, self._draws + 1.0), self._top)
        self._now, self._more = self._impressions_law(now), self._impressions_law(more)

    def _impressions_law(self, sessions: ExposureLaw) -> ExposureLaw:
        """`compound`, with the batches of each row's window."""
        sums = self._sums[self._of_row]
        beyond = np.maximum(1.0 - sums.sum(axis=-1), 0.0)
        pmf = np.einsum("rs,rsl->rl", sessions.pmf, sums)
        return ExposureLaw(pmf, sessions.tail + np.einsum("rs,rs->r", sessions.pmf, beyond))

    def reach(self) -> FloatArray:
        """As `DrawLaw.reach`."""
        alone = self._size == 1.0
        people = self._targeted * self._groups
        columns = []
        for cap in self._caps:
            certain = np.minimum(self._impressions, cap)
            mean = np.where(alone, certain, self._now.capped_mean(cap))
            columns.append(self._by_window(people * mean))
        return np.stack(columns, axis=1)

    def variance(self) -> FloatArray:
        """As `DrawLaw.variance`."""
        columns = []
        for cap in self._caps:
            moments = zip(
                *(shortfall_moments(law.batch(cap), cap, at_least=False) for law in self._laws),
                strict=True,
            )
            first, second = (np.stack(moment)[self._of_row] for moment in moments)
            each = variance_of_shortfall(self._draws, self._targeted, self._kinds, first, second)
            gain = self._targeted * (self._more.capped_mean(cap) - self._now.capped_mean(cap))
            spread = self._groups * each + self._doubt * gain**2
            columns.append(self._by_window(np.where(self._size > 1.0, spread, 0.0)))
        return np.maximum(np.stack(columns, axis=1), 0.0)

    def _by_window(self, column: FloatArray) -> FloatArray:
        return sum_by(self._of_row, column, len(self._laws))
