"""The figures of reports as plain values: what every document, row and frame is filled from."""

from typing import Any

from kreach.adsystem.measurement.distribution import exact_cost
from kreach.adsystem.measurement.report import ReachReport
from kreach.boundary.checks import as_probability

__all__ = ["interval_method", "report_figures"]

_MAX_EXACT_STEPS = 3e7  # up to here an exact interval takes a second or so
_MAX_EXACT_GROUPS = 5_000  # a sum over more is normal: its quantiles are within 0.01 of a std
_MAX_SIMULATED = 1_000  # impressions, each drawn some thousand times
_MAX_FREQUENCY = 10


def interval_method(report: ReachReport) -> str:
    """Exact where that takes a moment; elsewhere groups are so many that their sum is normal."""
    kinds = report.exposure.served_kinds()
    if kinds is None:  # simulated
        few = report.impressions <= _MAX_SIMULATED and report.exposure.unfolded() is not None
        return "exact" if few else "normal"
    many = sum(kind.groups for kind in kinds if kind.impressions) > _MAX_EXACT_GROUPS
    costly = many or exact_cost(kinds, report.cap) > _MAX_EXACT_STEPS
    return "normal" if costly else "exact"


def report_figures(reports: tuple[ReachReport, ...], level: float) -> list[dict[str, Any]]:
    """The figures of each cap of one window; what no cap changes is computed once."""
    level = as_probability("level", level)
    first = reports[0]
    unique = next((report for report in reports if report.cap == 1), None)
    if unique is None:
        unique = ReachReport(1, first.impressions, first.targeted_user_count, first.exposure)
    low, high = unique.interval(level, interval_method(unique))
    targeted = first.exposure.targeted_impressions
    max_frequency = targeted / low if low > 0.0 else float(first.impressions)
    of_all_caps = {
        "unique_reach": unique.reach,
        "unique_reach_interval": (low, high),
        "average_frequency": first.average_frequency,
        "average_frequency_interval": (targeted / high if high > 0.0 else 0.0, max_frequency),
        "frequency": tuple(first.frequency(_MAX_FREQUENCY).tolist()),
        "at_least": tuple(first.at_least(_MAX_FREQUENCY).tolist()),
        "at_least_intervals": first.at_least_intervals(_MAX_FREQUENCY, level),
    }
    return [{**_of_one_cap(report, level), **of_all_caps} for report in reports]


def _of_one_cap(report: ReachReport, level: float) -> dict[str, Any]:
    method = interval_method(report)
    attained_low, attained_high = report.bounds_attained
    return {
        "cap": report.cap,
        "impressions": report.impressions,
        "reach": report.reach,
        "std": report.std,
        "interval": report.interval(level, method),
        "level": level,
        "interval_method": report.distribution().method if method == "exact" else method,
        "bounds": (report.bounds.least, report.bounds.most),
        "bounds_attained": (attained_low, attained_high),
        "over_exposed": report.over_exposed,
    }
