"""From counts to reports: the only module between the log and `measurement`.

Every figure of every report is computed here, whichever log, window, policy or output it is for.
"""

from hashlib import blake2b
from typing import Literal

import numpy as np

from kreach.adsystem.measurement.distribution import exact_cost
from kreach.adsystem.measurement.exposure import Exposure, expose
from kreach.adsystem.measurement.report import ReachReport
from kreach.adsystem.reports.report import CapReport, CurveReport
from kreach.boundary.audience import Audience
from kreach.boundary.checks import as_probability
from kreach.numeric.types import IntArray
from kreach.service.lru_cache import LruCache

__all__ = [
    "ReportCache",
    "basis_of",
    "cap_reports",
    "interval_method",
    "measure_caps",
    "measure_exposure",
]

_MAX_EXACT_STEPS = 3e7  # up to here an exact interval takes a second or so
_MAX_EXACT_GROUPS = 5_000  # a sum over more is normal: its quantiles are within 0.01 of a std
_MAX_SIMULATED = 1_000  # impressions, each drawn some thousand times
_MAX_FREQUENCY = 10
_MAX_CACHED = 20_000  # reports of one cap each, some kilobytes


def measure_caps(
    audience: Audience, by_group: IntArray, caps: tuple[int, ...]
) -> tuple[ReachReport, ...]:
    """The library's report at each cap on impressions by group."""
    people = audience.targeted_user_count
    return measure_exposure(expose(audience, by_group), int(by_group.sum()), people, caps)


def measure_exposure(
    exposure: Exposure, impressions: int, people: int, caps: tuple[int, ...]
) -> tuple[ReachReport, ...]:
    """The same for impressions that an engine folded into an exposure."""
    return tuple(ReachReport(cap, impressions, people, exposure) for cap in caps)


def basis_of(audience: Audience) -> str:
    """The theorem and the assumptions behind reports on an audience."""
    return expose(audience, np.zeros(audience.group_count, dtype=np.int64)).basis


def interval_method(report: ReachReport) -> str:
    """Exact where that takes a moment; elsewhere groups are so many that their sum is normal."""
    kinds = report.exposure.served_kinds()
    if kinds is None:  # simulated
        few = report.impressions <= _MAX_SIMULATED and report.exposure.unfolded() is not None
        return "exact" if few else "normal"
    many = sum(kind.groups for kind in kinds if kind.impressions) > _MAX_EXACT_GROUPS
    costly = many or exact_cost(kinds, report.cap) > _MAX_EXACT_STEPS
    return "normal" if costly else "exact"


def cap_reports(reports: tuple[ReachReport, ...], level: float) -> tuple[CapReport, ...]:
    """The reports of one window as structs; what no cap changes is computed once."""
    level = as_probability("level", level)
    first = reports[0]
    unique = next((report for report in reports if report.cap == 1), None)
    if unique is None:
        unique = ReachReport(1, first.impressions, first.targeted_user_count, first.exposure)
    low, high = unique.interval(level, interval_method(unique))
    targeted = first.exposure.targeted_impressions
    max_frequency = targeted / low if low > 0.0 else float(first.impressions)
    frequency = tuple(first.frequency(_MAX_FREQUENCY).tolist())
    at_least = tuple(first.at_least(_MAX_FREQUENCY).tolist())
    at_least_intervals = first.at_least_intervals(_MAX_FREQUENCY, level)
    result = []
    for report in reports:
        method = interval_method(report)
        attained_low, attained_high = report.bounds_attained
        result.append(
            CapReport(
                cap=report.cap,
                impressions=report.impressions,
                reach=report.reach,
                std=report.std,
                interval=report.interval(level, method),
                level=level,
                interval_method=report.distribution().method if method == "exact" else method,
                bounds=(report.bounds.least, report.bounds.most),
                bounds_attained=(attained_low, attained_high),
                over_exposed=report.over_exposed,
                unique_reach=unique.reach,
                unique_reach_interval=(low, high),
                average_frequency=first.average_frequency,
                average_frequency_interval=(targeted / high if high > 0.0 else 0.0, max_frequency),
                frequency=frequency,
                at_least=at_least,
                at_least_intervals=at_least_intervals,
            )
        )
    return tuple(result)


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
_Entry = tuple[Audience, tuple[CapReport, ...] | tuple[CurveReport, ...]]


class ReportCache:
    """Reports by impressions: what is over does not change. For use by several threads."""

    def __init__(self) -> None:
        self._reports = LruCache[_Key, _Entry](_MAX_CACHED, lambda entry: len(entry[1]))

    def full(
        self, audience: Audience, by_group: IntArray, caps: tuple[int, ...], level: float
    ) -> tuple[CapReport, ...]:
        """The report at each cap."""
        key: _Key = ("full", id(audience), _digest(by_group), caps, level)
        # the entry holds the audience, so that no other object gets its id meanwhile
        entry = self._reports.get_or_make(
            key, lambda: (audience, cap_reports(measure_caps(audience, by_group, caps), level))
        )
        return entry[1]  # type: ignore[return-value] # by its key

    def curve(
        self, audience: Audience, by_group: IntArray, caps: tuple[int, ...], level: float
    ) -> tuple[CurveReport, ...]:
        """The point of a curve at each cap."""
        key: _Key = ("curve", id(audience), _digest(by_group), caps, level)
        entry = self._reports.get_or_make(
            key, lambda: (audience, _curve_reports(measure_caps(audience, by_group, caps), level))
        )
        return entry[1]  # type: ignore[return-value]


def _digest(by_group: IntArray) -> bytes:
    return blake2b(by_group.tobytes()).digest()
