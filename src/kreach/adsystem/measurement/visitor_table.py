"""P(the person of a new session is targeted and under the cap), by effective draws so far.

A session's person has had X impressions in the d sessions of the group that were won. X compounds
the person's sessions among those d (`VisitorKinds.sessions_of_next`) with the impressions of each
so far (the
campaign's sessions by impressions, as the filter has counted them). A row of a table holds

    u/k · P(X < 1), ..., u/k · P(X < top)

for a whole number of draws; in between it is linear, as in reports (`drawn.py`). Members are
targeted whatever they visit, so being targeted (u of k) is independent of X.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kreach.boundary.audience import DisjointAudience
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.meetings import PART_US
from kreach.numeric.types import FloatArray, IntArray
from kreach.numeric.visitors import compound

__all__ = ["KINDS_AT_ONCE", "ModelProbability", "VisitorTable"]

Row = tuple[float, ...]
_FIRST_ROWS = 16
_FEW_ROWS = 64
KINDS_AT_ONCE = 32
"""Kinds whose first rows are made together: calls cost more than numbers."""


@dataclass(frozen=True)
class ModelProbability:
    """P(the person of a new session is targeted and under the cap) by kind of group and draws.

    It can be sent to another process. `meeting` is how likely a draw so far and one now are one
    person's, `batch` the law of the impressions of a session that was won.
    """

    size: FloatArray
    targeted: FloatArray
    model: VisitModel
    meeting: float
    cap: int
    batch: FloatArray

    def __call__(self, kind: int | IntArray, draws: FloatArray) -> FloatArray:
        """The probability after so many draws, rounded to whole ones; the kind of all, or each."""
        n: FloatArray = np.rint(np.maximum(draws, 0.0))
        result: FloatArray = self.under(kind, n)[:, -1]
        return result

    def under(self, kind: int | IntArray, draws: FloatArray) -> FloatArray:
        """The same for every cap up to the largest, a column each."""
        size, targeted = (np.full(len(draws), each[kind]) for each in (self.size, self.targeted))
        below: FloatArray = np.empty((len(draws), self.cap))
        alone = size == 1.0  # one person, whatever the sessions
        if alone.any():
            below[alone] = draws[alone, None] < np.arange(1, self.cap + 1)
        if not alone.all():
            kinds = self.model.kinds(self.meeting, size[~alone])
            law = compound(kinds.sessions_of_next(draws[~alone], self.cap - 1), self.batch)
            below[~alone] = np.minimum(np.cumsum(law.pmf, axis=1), 1.0)
        below *= (targeted / size)[:, None]
        return below


class VisitorTable:
    """The rows of every kind of group, made when needed and made anew when the clock moves on."""

    def __init__(
        self, audience: DisjointAudience, model: VisitModel, top: int, traffic: float
    ) -> None:
        kinds = audience.kinds
        self.sizes = kinds.size.tolist()
        self._kinds = kinds
        self._model = model
        self._top = top
        self._traffic = traffic
        self._meeting = 1.0
        self._batch: FloatArray = np.ones(1)  # P(a won session has had 1, 2, ... impressions)
        self.rows: list[list[Row]] = [[] for _ in self.sizes]
        self._lengths = [_FIRST_ROWS for _ in self.sizes]

    def refresh(
        self, draws_by_part: Mapping[int, float], sessions: Sequence[float], now_us: int
    ) -> None:
        """Make rows for a draw now.

        Given are the campaign's draws so far by part since 1970, and the expected number of them
        that brought 1, 2, ... impressions.
        """
        part = np.fromiter(draws_by_part, dtype=np.int64, count=len(draws_by_part))
        draws = np.fromiter(draws_by_part.values(), dtype=np.float64, count=len(part))
        draws = np.maximum(draws, 0.0)  # what was taken back may leave a rounding error
        self._meeting = self._model.meeting_now(part, draws, now_us // PART_US, self._traffic)
        total = float(draws.sum())
        if total > 1e-9:
            self._batch = np.maximum(np.array(sessions), 0.0) / total
        for kind, rows in enumerate(self.rows):
            self._lengths[kind] = max(self._lengths[kind], len(rows))
            rows.clear()

    def kind_probability(self) -> ModelProbability:
        """What the rows are made of, as of the last refresh."""
        kinds = self._kinds
        return ModelProbability(
            kinds.size, kinds.targeted, self._model, self._meeting, self._top, self._batch
        )

    def more_impressions(self) -> list[float]:
        """P(a won session has had at least 1, 2, ..., top impressions)."""
        fewer = np.concatenate([[0.0], np.cumsum(self._batch[: self._top - 1])])
        fewer = np.pad(fewer, (0, self._top - len(fewer)), mode="edge")
        result: list[float] = np.clip(1.0 - fewer, 0.0, 1.0).tolist()
        return result

    def grow(self, kind: int, whole: int) -> list[Row]:
        """The rows of a kind of group, at least up to `whole` + 1 draws."""
        rows = self.rows[kind]
        if not rows:
            self._begin(kind)
        start = len(rows)
        if whole + 1 >= start:
            draws = np.arange(start, max(whole + 2, 2 * start), dtype=np.float64)
            rows.extend(map(tuple, self.kind_probability().under(kind, draws).tolist()))
        return rows

    def _begin(self, kind: int) -> None:
        """Make the first rows of a kind, and of its neighbours that have none."""
        low = kind - kind % KINDS_AT_ONCE
        block = range(low, min(low + KINDS_AT_ONCE, len(self.rows)))
        few = [each for each in block if self._lengths[each] <= _FEW_ROWS or each == kind]
        new = [each for each in few if not self.rows[each]]
        lengths = [self._lengths[each] for each in new]
        draws = np.concatenate([np.arange(length, dtype=np.float64) for length in lengths])
        made = self.kind_probability().under(np.repeat(np.array(new), lengths), draws).tolist()
        stop = 0
        for each, length in zip(new, lengths, strict=True):
            start, stop = stop, stop + length
            self.rows[each].extend(map(tuple, made[start:stop]))
