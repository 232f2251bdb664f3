"""Reports corrected by a publisher's panel: model + what the panel says it is off by.

With e and v how far off the model is by the panel and the variance of that (`panel_error.py`), the
number shown is

    R · (1 + κ e + (1 − κ) μ),   κ = τ²/(τ² + v)

where μ and τ are how far the model was off on the site's campaigns (random effects), with the
model's own error in replays of history as one campaign more. A large panel has κ near 1: its number
is unbiased however wrong the model is. A small one leans on the model and on other campaigns.

Everything up to the release is corrected by e; what came after it is taken to be off by as much.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Any

import msgspec
import numpy as np
from scipy.special import stdtrit

from kreach.adsystem.reports.panel_error import ModelFigures, PanelError, Prior
from kreach.adsystem.reports.report import CapReport, CorrectionInfo, CurveReport
from kreach.boundary.correction import Correction, PanelRelease
from kreach.boundary.times import iso_text
from kreach.numeric.falling import nearest_falling
from kreach.numeric.types import FloatArray

__all__ = ["CorrectedWindow", "corrected", "corrected_curve"]

_ALARM = 1.96  # standard deviations between panel and model
_MIN_FREEDOM = 3.0

_Point = tuple[ModelFigures, ModelFigures, PanelRelease]


@dataclass(frozen=True, eq=False)
class CorrectedWindow:
    """One window with its correction: reports by cap, and what the correction did."""

    reports: tuple[CapReport, ...]
    info: CorrectionInfo


@dataclass(frozen=True, eq=False)
class _Corrected:
    """Caps 1..F of one window: numbers, standard deviations, freedom."""

    reach: FloatArray
    std: FloatArray
    freedom: FloatArray
    info: CorrectionInfo


def corrected(
    windows: Sequence[tuple[tuple[CapReport, ...], ModelFigures, ModelFigures, PanelRelease]],
    correction: Correction,
    priors: Sequence[Prior],
) -> list[CorrectedWindow]:
    """Correct cumulative windows of one campaign, which come in order of time.

    Of each: the model's reports, its figures, those at the time of the release, and the release.
    `priors` are by cap, up to the largest that the panel knows. Numbers do not fall with time or
    rise with frequency.
    """
    found = _people([window[1:] for window in windows], correction, priors)
    return [
        CorrectedWindow(_reports(reports, now, people, result), result.info)
        for (reports, now, _, _), (people, result) in zip(windows, found, strict=True)
    ]


def corrected_curve(
    points: Sequence[_Point],
    correction: Correction,
    priors: Sequence[Prior],
    caps: Sequence[int],
    level: float,
) -> list[tuple[CurveReport, ...]]:
    """The same in short, for charts of many points; caps that the panel knows.

    Of each point: the model's figures, those at the time of the release, and the release.
    """
    found = []
    for people, result in _people(points, correction, priors):
        reach = np.cumsum(people)
        found.append(
            tuple(
                CurveReport(
                    cap=cap,
                    reach=float(reach[cap - 1]),
                    std=float(result.std[cap - 1]),
                    interval=_interval(
                        reach[cap - 1],
                        result.std[cap - 1],
                        result.freedom[cap - 1],
                        level,
                        (0.0, inf),
                    ),
                    level=level,
                    interval_method="panel",
                )
                for cap in caps
            )
        )
    return found


def _people(
    points: Sequence[_Point], correction: Correction, priors: Sequence[Prior]
) -> list[tuple[FloatArray, _Corrected]]:
    """1+, 2+, … people at each point: none above a later number, none below a higher frequency.

    The newest number rests on the most, and stays as it is.
    """
    results = [_correct(*point, correction, priors) for point in points]
    at_least = np.diff(np.array([each.reach for each in results]), axis=1, prepend=0.0)
    at_least = np.minimum.accumulate(np.maximum(at_least, 0.0)[::-1], axis=0)[::-1]
    return [
        (np.minimum(nearest_falling(row), point[0].people), result)
        for point, result, row in zip(points, results, at_least, strict=True)
    ]


def _correct(
    now: ModelFigures,
    then: ModelFigures,
    release: PanelRelease,
    correction: Correction,
    priors: Sequence[Prior],
) -> _Corrected:
    top = len(release.differences)
    reach, std, freedom = now.reach[:top].copy(), np.sqrt(now.variance[:top]), np.full(top, 1e9)
    first: tuple[PanelError, float] | None = None
    for cap in range(1, top + 1):
        panel = PanelError.of(correction, release, then, cap)
        if panel is None:
            continue
        prior = priors[min(cap, len(priors)) - 1]
        weight = _weight(prior, panel.variance)
        model = float(now.reach[cap - 1])
        shift = weight * panel.error + (1.0 - weight) * prior.mean
        later = max(float(now.variance[cap - 1] - then.variance[cap - 1]), 0.0)
        stale = model - float(then.reach[cap - 1])
        drift = 0.0 if now.error is None else (now.stated_error(cap) * stale) ** 2
        reach[cap - 1] = model * (1.0 + shift)
        variance = weight * panel.variance if weight < 1.0 else panel.variance
        std[cap - 1] = sqrt(model**2 * variance + later + drift)
        freedom[cap - 1] = panel.freedom
        first = first or (panel, weight)
    info = _info(correction, release, now, first, priors[0])
    return _Corrected(np.maximum(reach, 0.0), std, freedom, info)


def _weight(prior: Prior, variance: float) -> float:
    if not isfinite(prior.std) or variance <= 0.0:
        return 1.0
    return prior.std**2 / (prior.std**2 + variance)


def _info(
    correction: Correction,
    release: PanelRelease,
    now: ModelFigures,
    first: tuple[PanelError, float] | None,
    prior: Prior,
) -> CorrectionInfo:
    model = float(now.reach[0])
    if first is None:
        first = PanelError(0.0, 0.0, _MIN_FREEDOM), 0.0
    panel, weight = first
    stated = now.stated_error(1)
    band = sqrt(panel.variance + (stated**2 if isfinite(stated) else 0.0))
    off = isfinite(stated) and abs(panel.error) > _ALARM * band
    alarm = (
        f"the model is off by {-panel.error:+.1%} (give or take {sqrt(panel.variance):.1%}), "
        f"more than its own error of {stated:.1%}: ask the publisher to fit it anew"
    )
    return CorrectionInfo(
        released=iso_text(release.end),
        panel_share=correction.share,
        max_cap=len(release.differences),
        model_unique_reach=model,
        panel_unique_reach=model * (1.0 + panel.error),
        panel_std=model * sqrt(panel.variance),
        weight=weight,
        other_campaigns=max(prior.campaigns - 1, 0),
        rho=correction.rho,
        alarm=alarm if off else None,
    )


def _reports(
    reports: tuple[CapReport, ...], now: ModelFigures, people: FloatArray, result: _Corrected
) -> tuple[CapReport, ...]:
    """The reports with corrected numbers in place of the model's."""
    top = len(people)
    limits = _limits(reports, now.people)
    first = min(max(float(people[0]), limits[0]), limits[1])
    people = np.minimum(np.concatenate([[first], people[1:]]), first)
    at_least = _tail(people, now)
    frequency = (now.people - at_least[0], *(at_least[:-1] - at_least[1:]).tolist(), at_least[-1])
    reach = np.cumsum(people)
    found = []
    for report in reports:
        at, level, bounds = report.cap - 1, report.level, report.bounds
        unique = _interval(people[0], result.std[0], result.freedom[0], level, limits)
        ranges = _ranges(at_least[:top], result, level, now.people)
        targeted = report.average_frequency * report.unique_reach
        of_people: dict[str, Any] = {  # the same at every cap
            "unique_reach": float(people[0]),
            "unique_reach_interval": unique,
            "average_frequency": targeted / float(people[0]) if people[0] > 0.0 else 0.0,
            "average_frequency_interval": _ratio(targeted, unique, report.impressions),
            "frequency": tuple(float(each) for each in frequency),
            "at_least": tuple(at_least.tolist()),
            "at_least_intervals": (*ranges, *report.at_least_intervals[top:]),
        }
        if report.cap <= top:  # of reach at higher caps the panel says nothing
            possible = (0.0, inf) if bounds is None else bounds
            of_people |= {
                "reach": min(max(float(reach[at]), possible[0]), possible[1]),
                "std": float(result.std[at]),
                "interval": _interval(
                    reach[at], result.std[at], result.freedom[at], level, possible
                ),
                "interval_method": "panel",
            }
        if report.cap <= top and report.cap < len(at_least):
            of_people["over_exposed"] = float(at_least[report.cap])
        found.append(msgspec.structs.replace(report, **of_people))
    return tuple(found)


Interval = tuple[float, float]


def _limits(reports: tuple[CapReport, ...], people: int) -> Interval:
    """Least and most people who can have been reached, by the bounds of a report at cap 1."""
    bounds = [report.bounds for report in reports if report.cap == 1 and report.bounds is not None]
    return bounds[0] if bounds else (0.0, float(people))


def _interval(mean: float, std: float, freedom: float, level: float, limits: Interval) -> Interval:
    half = float(stdtrit(freedom, 0.5 + level / 2.0)) * std
    low, high = (min(max(end, limits[0]), limits[1]) for end in (mean - half, mean + half))
    return float(low), float(high)


def _ranges(
    at_least: FloatArray, result: _Corrected, level: float, most: float
) -> Iterator[Interval]:
    """Of 1+, 2+, … people: the variance a cap adds, or as much as all reached people vary by."""
    steps = np.sqrt(np.abs(np.diff(result.std**2, prepend=0.0)))
    for f, mean in enumerate(at_least):
        share = mean / at_least[0] if at_least[0] > 0.0 else 0.0
        std = max(steps[f], result.std[0] * share)
        yield _interval(mean, std, result.freedom[f], level, (0.0, most))


def _ratio(targeted: float, unique: Interval, impressions: int) -> Interval:
    low, high = unique
    return (
        targeted / high if high > 0.0 else 0.0,
        targeted / low if low > 0.0 else float(impressions),
    )


def _tail(people: FloatArray, now: ModelFigures) -> FloatArray:
    """1+, 2+, … people: the corrected ones, then the model's in proportion to the last of them."""
    model = now.at_least
    top = len(people)
    scale = float(people[-1] / model[top - 1]) if model[top - 1] > 0.0 else 0.0
    later = np.minimum(model[top:] * scale, people[-1])
    return np.concatenate([people, later])
