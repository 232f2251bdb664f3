"""From counts to reports: the only module between the log and `measurement`.

Every figure of every report is computed here, whichever log, window, policy or output it is for.
"""

from typing import Literal

import numpy as np

from kreach.adsystem.measurement.drawn import DrawnExposure
from kreach.adsystem.measurement.exposure import Exposure, expose
from kreach.adsystem.measurement.figures import interval_method, report_figures
from kreach.adsystem.measurement.report import ReachReport
from kreach.adsystem.measurement.tally import GroupTally
from kreach.adsystem.reports.report import CapReport, CurveReport, ModelInfo
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.service.lru_cache import LruCache
from kreach.service.tracing import traced

__all__ = [
    "ReportCache",
    "cap_reports",
    "described",
    "interval_method",
    "measure_caps",
    "measure_exposure",
    "model_info",
]

_MAX_CACHED = 20_000  # reports of one cap each, some kilobytes


def measure_caps(
    audience: Audience, tally: GroupTally, caps: tuple[int, ...]
) -> tuple[ReachReport, ...]:
    """The library's report at each cap on impressions by group."""
    people = audience.targeted_user_count
    return measure_exposure(tally.exposure(audience), tally.impressions, people, caps)


def measure_exposure(
    exposure: Exposure, impressions: int, people: int, caps: tuple[int, ...]
) -> tuple[ReachReport, ...]:
    """The same for impressions that an engine folded into an exposure."""
    return tuple(ReachReport(cap, impressions, people, exposure) for cap in caps)


def described(audience: Audience, tally: GroupTally) -> tuple[str, ModelInfo]:
    """The theorem and the assumptions behind a report, and how visits are modelled."""
    exposure: Exposure
    if tally.draws is not None and isinstance(audience, DisjointAudience):
        exposure = tally.draws.described()
    else:
        exposure = expose(audience, np.zeros(audience.group_count, dtype=np.int64))
    return exposure.basis, model_info(exposure)


def model_info(exposure: Exposure) -> ModelInfo:
    """How the visits behind an exposure are modelled."""
    if not isinstance(exposure, DrawnExposure):
        return ModelInfo(name=exposure.visits)
    model, error = exposure.model, exposure.model_error
    return ModelInfo(
        name=exposure.visits,
        fitted_people=model.people or None,
        history_days=model.history_days or None,
        error=None if error is None else error.spread,
        traffic=1.0,
        traffic_source="history",
    )


@traced("compute reach")
def cap_reports(reports: tuple[ReachReport, ...], level: float) -> tuple[CapReport, ...]:
    """The reports of one window as structs."""
    return tuple(CapReport(**figures) for figures in report_figures(reports, level))


@traced("compute reach")
def _curve_reports(reports: tuple[ReachReport, ...], level: float) -> tuple[CurveReport, ...]:
    """Reach and its normal interval, which takes no distribution."""
    return tuple(
        CurveReport(
            cap=report.cap,
            reach=report.reach,
            std=report.std,
            interval=report.interval(level, "normal"),
            level=level,
            interval_method="normal",
        )
        for report in reports
    )


_Key = tuple[Literal["full", "curve"], int, bytes, tuple[int, ...], float]
_Entry = tuple[tuple[object, ...], tuple[CapReport, ...] | tuple[CurveReport, ...]]


class ReportCache:
    """Reports by what they depend on: what is over does not change. For use by several threads."""

    def __init__(self) -> None:
        self._reports = LruCache[_Key, _Entry](_MAX_CACHED, lambda entry: len(entry[1]))

    def full(
        self, audience: Audience, tally: GroupTally, caps: tuple[int, ...], level: float
    ) -> tuple[CapReport, ...]:
        """The report at each cap."""
        key: _Key = ("full", id(audience), tally.digest(), caps, level)
        # the entry holds audience and model, so that no other object gets its id meanwhile
        held = (audience, tally.draws and tally.draws.model)
        entry = self._reports.get_or_make(
            key, lambda: (held, cap_reports(measure_caps(audience, tally, caps), level))
        )
        return entry[1]  # type: ignore[return-value] # by its key

    def curve(
        self, audience: Audience, tally: GroupTally, caps: tuple[int, ...], level: float
    ) -> tuple[CurveReport, ...]:
        """The point of a curve at each cap."""
        key: _Key = ("curve", id(audience), tally.digest(), caps, level)
        held = (audience, tally.draws and tally.draws.model)
        entry = self._reports.get_or_make(
            key, lambda: (held, _curve_reports(measure_caps(audience, tally, caps), level))
        )
        return entry[1]  # type: ignore[return-value]
