"""Disjoint groups whose impressions have times: effective draws through the site's visit model.

What a log is folded to is in `boundary/draw_cells.py`, the law in `boundary/draw_law.py`: the
publisher fits its model with the same formula that reports use.
"""

from dataclasses import dataclass

import numpy as np

from kreach.adsystem.measurement.disjoint import disjoint_bounds
from kreach.adsystem.measurement.exposure import CertifiedBounds, Exposure
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.draw_cells import DrawCells, WindowDraws, fold_draws
from kreach.boundary.draw_law import DrawLaw
from kreach.boundary.visit_model import ModelError, VisitModel
from kreach.numeric.exposure import ExposureLaw
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["DrawCells", "DrawnExposure", "GroupDraws", "WindowDraws", "fold_draws"]


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
    bounds_are_cheap = True

    def __init__(self, window: WindowDraws, model: VisitModel) -> None:
        self.cells = window.cells
        self.model_error: ModelError | None = model.error(window.hours)
        self.draw_law = DrawLaw(window, model)
        self.meeting = self.draw_law.meeting
        self.model = model
        fitted = (
            f", fitted on {model.people:,} people over {model.history_days:.0f} days"
            if model.people
            else ""
        )
        self.basis = (
            "visit model of the site: effective draws (sessions), two sessions one person's by "
            f"hours and days apart, regulars and others{fitted}; disjoint groups"
        )

    @property
    def people(self) -> FloatArray:
        return self.draw_law.people

    def law(self, rows: slice, top: int) -> ExposureLaw:
        return self.draw_law.law(rows, top)

    @property
    def max_trials(self) -> int:
        return int(self.cells.impressions.max(initial=0.0))

    @property
    def targeted_impressions(self) -> float:
        cells = self.cells
        return float((cells.groups * cells.impressions) @ (cells.targeted / cells.size))

    def reach(self, cap: int) -> float:
        """As the law has it, within what is possible."""
        least, most = self.certified_bounds(cap).bounds
        return min(max(super().reach(cap), float(least)), float(most))

    def variance(self, cap: int) -> float:
        """Of the law at the given draws, and of the number of sessions behind the draws."""
        least, most = self.certified_bounds(cap).bounds
        if least == most:
            return 0.0
        return self.draw_law.variance(min(cap, max(self.max_trials, 1)))

    def at_least_variance(self, count: int) -> float:
        return self.draw_law.variance(min(count, max(self.max_trials, 1)), at_least=True)

    def certified_bounds(self, cap: int) -> CertifiedBounds:
        return disjoint_bounds(self.cells, cap)

    def served_kinds(self) -> None:
        return None  # sessions are not known one by one, so the law of reach is taken as normal

    def unfolded(self) -> None:
        return None
