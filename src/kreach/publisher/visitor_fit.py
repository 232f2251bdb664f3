"""Regulars, lasting habits and the scale of meetings, fitted so that replays of history come out.

A replay wins a random share of the requests of a window of history. Its true reach is known, and
the model says what it should be; three numbers of the model are those that make the relative errors
of unique reach and of reach at cap 3 least, over shares and windows. The formula is the one that
reports use (`boundary/draw_law.py`), with everything that the three numbers do not touch computed
once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.draw_cells import draws_in_order
from kreach.boundary.draw_law import DrawLaw
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.draws import sum_by
from kreach.numeric.types import FloatArray, IntArray
from kreach.numeric.visitors import sums_of_batches
from kreach.publisher.visit_history import VisitHistory

__all__ = ["audience_of", "fit_visitors", "true_reach"]

CAPS = (1, 3)
_SHARES = (0.05, 0.1, 0.3, 1.0)
_WINDOWS = ((1 / 8, 3), (1 / 3, 3), (1.0, 2))  # share of history, replays of each share won
_STARTS = (0.05, 0.15, 0.35)  # of the share of regulars
_MIN_REACH = 30  # people: less is mostly chance
_BOUNDS = ((0.0, 0.01, 0.5), (0.6, 0.99, 3.0))  # regulars, lasting, scale of meetings


def audience_of(history: VisitHistory) -> DisjointAudience:
    """All members of the groups, everybody targeted."""
    audience = Audience.disjoint(history.sizes)
    assert isinstance(audience, DisjointAudience)
    return audience


def true_reach(person: IntArray, caps: Sequence[int] = CAPS) -> list[float]:
    """Σ min(X_i, cap) of the people who made these requests, for each cap."""
    seen = np.bincount(person)
    return [float(np.minimum(seen, cap).sum()) for cap in caps]


@dataclass(frozen=True, eq=False)
class _Replays:
    """Rows of groups of one size and whole draws, for all replays together."""

    replay: IntArray
    size: FloatArray
    draws: FloatArray
    people: FloatArray
    meeting: FloatArray  # of each row's replay, before the scale
    short: FloatArray  # (rows, draws 0, 1, 2) expected impressions up to cap 3
    truth: FloatArray  # (replays, caps)

    def errors(self, model: VisitModel) -> FloatArray:
        """Measured over true − 1 by (replay, cap)."""
        meeting = np.minimum(model.meeting_scale * self.meeting, 0.99)
        kinds = model.kinds(meeting, self.size)
        law = kinds.sessions(self.draws, max(CAPS) - 1)
        unique = law.survival()[:, 1]
        capped = (law.pmf * self.short).sum(axis=1) + max(CAPS) * law.tail
        count = len(self.truth)
        measured = [sum_by(self.replay, self.people * each, count) for each in (unique, capped)]
        return np.stack(measured, axis=1) / self.truth - 1.0


def fit_visitors(
    history: VisitHistory, model: VisitModel, generator: np.random.Generator
) -> tuple[VisitModel, FloatArray]:
    """The model with the three numbers fitted, and the errors that are left by (replay, cap)."""
    from scipy.optimize import least_squares  # noqa: PLC0415 - slow to import

    replays = _replays(history, model, generator)
    if replays is None:
        return model, np.zeros((0, len(CAPS)))

    def at(values: FloatArray) -> VisitModel:
        regulars, lasting, scale = (float(value) for value in values)
        return replace(model, regulars=regulars, lasting=lasting, meeting_scale=scale)

    low = np.array(_BOUNDS[0])
    low[0] = min(1.0 / model.group_size, 0.5)  # a group of k has one regular at least
    best = None
    for regulars in _STARTS:
        start = [max(regulars, low[0] * 1.02), 0.5, 1.2]
        fit = least_squares(
            lambda values: replays.errors(at(values)).ravel(), start, bounds=(low, _BOUNDS[1])
        )
        if best is None or fit.cost < best.cost:
            best = fit
    assert best is not None
    fitted = at(np.clip(np.round(best.x, 2), low, _BOUNDS[1]))
    return fitted, replays.errors(fitted)


def _replays(
    history: VisitHistory, model: VisitModel, generator: np.random.Generator
) -> _Replays | None:
    """Random shares of windows of history, folded to what the three numbers need."""
    audience = audience_of(history)
    first, last = int(history.at_us.min()), int(history.at_us.max()) + 1
    columns: list[tuple[FloatArray, ...]] = []
    truth: list[list[float]] = []
    for part, times in _WINDOWS:
        for share in _SHARES:
            for _ in range(times):
                start = first + generator.random() * (1.0 - part) * (last - first)
                inside = history.between(start, start + part * (last - first))
                won = inside.where(inside.chances(generator) < share)
                reached = true_reach(won.person)
                if reached[0] < _MIN_REACH:
                    continue
                columns.append(_folded(audience, won, model, len(truth)))
                truth.append(reached)
    if not truth:
        return None
    replay, size, draws, people, meeting, *short = (
        np.concatenate(column) for column in zip(*columns, strict=True)
    )
    return _Replays(
        replay.astype(np.int64),
        size,
        draws,
        people,
        meeting,
        np.stack(short, axis=1),
        np.array(truth),
    )


def _folded(
    audience: DisjointAudience, won: VisitHistory, model: VisitModel, replay: int
) -> tuple[FloatArray, ...]:
    """Rows by (size, whole draws) of one replay: people, meeting, impressions up to the cap."""
    law = DrawLaw(draws_in_order(audience, won.group, won.at_us, model), model)
    size, draws = law.rows.size, law.rows.draws
    cap = max(CAPS)
    sums = sums_of_batches(law.batch(cap - 1), cap - 1)
    short = cap - sums @ (cap - np.arange(cap, dtype=np.float64))  # E[min(B_1 + ... + B_s, cap)]
    number = np.full(len(size), float(replay))
    meeting = np.full(len(size), law.meeting / model.meeting_scale)
    each = (np.full(len(size), value) for value in short)
    return (number, size, draws, law.people, meeting, *each)
