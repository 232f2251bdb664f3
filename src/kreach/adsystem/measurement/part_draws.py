"""Impressions of several parts with their times: effective draws of any of them together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kreach.adsystem.measurement.combination import Chosen
from kreach.adsystem.measurement.drawn import DrawnExposure
from kreach.adsystem.measurement.exposure import Exposure
from kreach.adsystem.measurement.pooled_exposure import PooledExposure
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.draw_cells import WindowDraws, fold_draws
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.draws import HOUR_US, sum_by
from kreach.numeric.meetings import PART_US, calendar
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["DrawsByGroup", "PartDraws", "TimedRows"]

_FEW_PARTS = 3
_MAX_SETS = 4  # whose draws are held, beside those of single parts and of all


@dataclass(frozen=True, eq=False)
class TimedRows:
    """Impressions of all parts, ordered by group, then time."""

    group: IntArray
    at_us: IntArray
    part: IntArray

    @classmethod
    def ordered(cls, group: IntArray, at_us: IntArray, part: IntArray) -> "TimedRows":
        """The same rows in that order."""
        order = np.lexsort((part, at_us, group))
        return cls(group[order], at_us[order], part[order])


@dataclass(frozen=True, eq=False)
class DrawsByGroup:
    """Impressions and effective draws of some parts together, by group."""

    impressions: IntArray
    draws: FloatArray
    doubt: FloatArray
    window: WindowDraws


class PartDraws:
    """Rows of several parts, and the effective draws of any of them together."""

    def __init__(
        self,
        audience: DisjointAudience,
        names: Sequence[str],
        rows: TimedRows,
        model: VisitModel,
    ) -> None:
        self.names = tuple(names)
        self._audience, self._rows, self._model = audience, rows, model
        self._draws: dict[Chosen, DrawsByGroup] = {}
        self._pooled: dict[Chosen, Exposure] = {}
        self._reached: dict[Chosen, float] = {}

    @property
    def people(self) -> int:
        return self._audience.targeted_user_count

    def impressions(self, chosen: Chosen) -> int:
        return int(self.drawn(chosen).impressions.sum())

    def drawn(self, chosen: Chosen) -> DrawsByGroup:
        """The draws of the chosen parts together."""
        known = self._draws.get(chosen)
        if known is None:
            known = self._draws[chosen] = self._drawn(chosen)
            sets = [one for one in self._draws if 1 < len(one) < len(self.names)]
            for old in sets[:-_MAX_SETS]:  # there may be hundreds, each as long as all groups
                del self._draws[old]
        return known

    def _drawn(self, chosen: Chosen) -> DrawsByGroup:
        rows, audience = self._rows, self._audience
        keep = self._rows_of(chosen)
        group, at_us = rows.group[keep], rows.at_us[keep]
        share, count = self._model.draw_shares(group, at_us), audience.group_count
        impressions, draws = np.bincount(group, minlength=count), sum_by(group, share, count)
        doubt = sum_by(group, share * (1.0 - share), count)
        hours = float(at_us.max() - at_us.min()) / HOUR_US if len(at_us) else 0.0
        cells = fold_draws(audience, impressions, draws, doubt)
        window = WindowDraws(cells, calendar(at_us // PART_US, share), hours)
        return DrawsByGroup(impressions, np.minimum(draws, impressions), doubt, window)

    def _rows_of(self, chosen: Chosen) -> IntArray | slice:
        """The rows of the chosen parts, in order."""
        if len(chosen) == len(self.names):
            return slice(None)
        if len(chosen) <= _FEW_PARTS:
            return np.sort(np.concatenate([self._by_part[at] for at in chosen]))
        wanted = np.zeros(len(self.names), dtype=bool)
        wanted[list(chosen)] = True
        return np.flatnonzero(wanted[self._rows.part])

    @cached_property
    def _by_part(self) -> list[IntArray]:
        order = np.argsort(self._rows.part, kind="stable")
        ends = np.cumsum(np.bincount(self._rows.part, minlength=len(self.names)))
        return np.split(order, ends[:-1])

    def together(self, chosen: Chosen) -> Exposure:
        if chosen not in self._pooled:
            exposure: Exposure = DrawnExposure(self.drawn(chosen).window, self._model)
            if len(chosen) > 1:
                exposure = PooledExposure(exposure, [self.together((at,)) for at in chosen])
            self._pooled[chosen] = exposure
        return self._pooled[chosen]

    def reached(self, chosen: Chosen) -> float:
        """People whom the chosen parts reached."""
        if chosen not in self._reached:
            self._reached[chosen] = self.together(chosen).reach(1) if chosen else 0.0
        return self._reached[chosen]

    def law_of(self, chosen: Chosen) -> DrawnExposure:
        """The law of the parts together, as if they were one campaign."""
        exposure = self.together(chosen)
        inner = exposure.inner if isinstance(exposure, PooledExposure) else exposure
        assert isinstance(inner, DrawnExposure)
        return inner

    @property
    def audience(self) -> DisjointAudience:
        """Whom the parts could reach."""
        return self._audience
