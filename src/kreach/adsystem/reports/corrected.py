"""Reports corrected by a publisher's panel: model + what the panel says it is off by.

With R the model's reach at a cap when the correction was released and δ the panel's truth − model,
e = δ/R estimates how far the model is off, whatever the model is. Its variance is

    v = (noise + (G/m − 1) · r² · Var_model) / R²

with m of G groups in the panel and r how much groups deviate beside what the model expects (the
panel's spread, joined with what is usual where the panel is small). The number shown is

    R · (1 + κ e + (1 − κ) μ),   κ = τ²/(τ² + v)

where μ and τ are how far the model was off on the site's campaigns (random effects), with the
model's own error in replays of history as one campaign more. A large panel has κ near 1: its number
is unbiased however wrong the model is. A small one leans on the model and on other campaigns.

Everything up to the release is corrected by e; what came after it is taken to be off by as much.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np
from scipy.special import stdtrit

from kreach.adsystem.measurement.exposure import Exposure
from kreach.adsystem.measurement.report import ReachReport
from kreach.adsystem.reports.report import CapReport, CorrectionInfo
from kreach.boundary.correction import Correction, PanelRelease
from kreach.boundary.times import iso_text
from kreach.numeric.falling import nearest_falling
from kreach.numeric.types import FloatArray

__all__ = [
    "CorrectedWindow",
    "ModelFigures",
    "PanelError",
    "Prior",
    "corrected",
    "pooled_prior",
    "priors_of",
]

_USUAL_SPREAD = 1.1  # of groups beside the model, where it is right: three real logs, 0.8 to 1.3
_SPREAD_STD = 0.25  # of that from site to site
_ALARM = 1.96  # standard deviations between panel and model
_MIN_FREEDOM = 3.0


@dataclass(frozen=True, eq=False)
class ModelFigures:
    """What the model says of a window, at caps 1..F."""

    reach: FloatArray
    variance: FloatArray
    at_least: FloatArray  # 1+, 2+, ...: as many as a report shows
    error: tuple[float, float] | None  # of reach at cap 1 and above, in replays of history
    impressions: int
    people: int

    @classmethod
    def of(cls, exposure: Exposure, impressions: int, people: int, top: int) -> "ModelFigures":
        """Of an exposure.

        Reach is the sum of 1+, 2+, …, which a panel compares group by group. A report cuts it off
        at what the impressions allow, all groups together; that comes after the correction.
        """
        reports = [ReachReport(cap, impressions, people, exposure) for cap in range(1, top + 1)]
        error = exposure.model_error
        at_least = reports[0].at_least(max(top, 10))
        return cls(
            np.cumsum(at_least[:top]),
            np.array([report.variance for report in reports]),
            at_least,
            None if error is None else (error.spread, error.higher_spread),
            impressions,
            people,
        )

    def stated_error(self, cap: int) -> float:
        """The model's own error at a cap; infinite where it states none.

        At higher caps at least that of cap 1: traffic and loyalty move both, and replays see fewer
        people with many showings.
        """
        if self.error is None:
            return inf
        return self.error[0] if cap == 1 else max(self.error)


@dataclass(frozen=True)
class PanelError:
    """How far off the model is by a panel, relative to its reach, at one cap."""

    error: float
    variance: float
    freedom: float  # degrees of, behind the variance

    @classmethod
    def of(
        cls, correction: Correction, release: PanelRelease, then: ModelFigures, cap: int
    ) -> "PanelError | None":
        """None where the model reached nobody."""
        reach = float(then.reach[cap - 1])
        if reach <= 0.0:
            return None
        noise = cap * release.noise_std**2
        ratio = correction.groups / correction.panel_groups - 1.0
        spread, freedom = _spread(correction, release, cap)
        sampling = ratio * spread**2 * float(then.variance[cap - 1])
        error = sum(release.differences[:cap]) / reach
        if noise > sampling:  # noise is known, so only the rest of the variance is uncertain
            freedom *= ((noise + sampling) / max(sampling, 1e-12)) ** 2
        return cls(error, (noise + sampling) / reach**2, freedom)


def _spread(correction: Correction, release: PanelRelease, cap: int) -> tuple[float, float]:
    """The spread between groups beside the model's, and the degrees of freedom of its square.

    What the panel found, with |D| of m/2 pairs known to √((π/2 − 1)/(m/2)), and what is usual,
    each by its precision. What is usual is only known to √(usual), which is at least as large as a
    gap between the two that chance and noise do not explain: a wrong model is not usual.
    """
    pairs = max(correction.panel_groups / 2.0, 1.0)
    found, noise = release.spreads[cap - 1], release.spread_std[cap - 1]
    chance = max(found, _USUAL_SPREAD) ** 2 * (np.pi / 2.0 - 1.0) / pairs
    own = chance + noise**2
    usual = max(_SPREAD_STD**2, (found - _USUAL_SPREAD) ** 2 - own)
    weight = usual / (usual + own)
    spread = max(weight * found + (1.0 - weight) * _USUAL_SPREAD, 0.25)
    relative = 4.0 * weight * own / spread**2  # of the square
    return spread, max(2.0 / max(relative, 1e-9), _MIN_FREEDOM)


@dataclass(frozen=True)
class Prior:
    """How far off the model is on campaigns of a site: mean μ, standard deviation τ, how many."""

    mean: float
    std: float
    campaigns: int


def pooled_prior(stated: float, errors: Sequence[PanelError]) -> Prior:
    """Random effects over campaigns (DerSimonian and Laird), the model's own error among them.

    The model says of itself that it is off by 0 give or take `stated`. τ is at least half of that:
    campaigns that agree do not make all others like them. With one campaign μ is 0.
    """
    if not errors or not isfinite(stated):
        own = max((each.error**2 - each.variance for each in errors), default=0.0)
        return Prior(0.0, inf if not isfinite(stated) else max(stated, sqrt(max(own, 0.0))), 0)
    if len(errors) == 1:
        own = errors[0].error ** 2 - errors[0].variance
        return Prior(0.0, sqrt(max(stated**2, own)), 1)
    values = np.array([0.0, *(each.error for each in errors)])
    variances = np.array([stated**2, *(each.variance for each in errors)])
    weights = 1.0 / np.maximum(variances, 1e-12)
    mean = float(weights @ values / weights.sum())
    heterogeneity = float(weights @ (values - mean) ** 2)
    scale = float(weights.sum() - (weights @ weights) / weights.sum())
    between = max((heterogeneity - (len(values) - 1)) / scale, 0.0)
    between = max(between, (stated / 2.0) ** 2)
    weights = 1.0 / (variances + between)
    return Prior(float(weights @ values / weights.sum()), sqrt(between), len(errors))


def priors_of(
    then: ModelFigures, own: tuple[Correction, PanelRelease], others: Sequence[list[PanelError]]
) -> list[Prior]:
    """By cap: how far off the model is, by this campaign, others of the site and itself.

    `others` has a list by cap for each campaign.
    """
    priors = []
    for cap in range(1, len(own[1].differences) + 1):
        mine = PanelError.of(*own, then, cap)
        errors = [each[cap - 1] for each in others if len(each) >= cap]
        priors.append(pooled_prior(then.stated_error(cap), [*([mine] if mine else []), *errors]))
    return priors


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
    results = [_correct(*window[1:], correction, priors) for window in windows]
    at_least = np.diff(np.array([each.reach for each in results]), axis=1, prepend=0.0)
    # no number is above a later one: the newest rests on the most, and stays as it is
    at_least = np.minimum.accumulate(np.maximum(at_least, 0.0)[::-1], axis=0)[::-1]
    found = []
    for (reports, now, _, _), result, row in zip(windows, results, at_least, strict=True):
        people = np.minimum(nearest_falling(row), now.people)
        found.append(CorrectedWindow(_reports(reports, now, people, result), result.info))
    return found


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
        if report.cap > top:
            found.append(report)  # the panel says nothing of such caps
            continue
        at, level, bounds = report.cap - 1, report.level, report.bounds
        possible = (0.0, inf) if bounds is None else bounds
        interval = _interval(reach[at], result.std[at], result.freedom[at], level, possible)
        unique = _interval(people[0], result.std[0], result.freedom[0], level, limits)
        ranges = _ranges(at_least[:top], result, level, now.people)
        targeted = report.average_frequency * report.unique_reach
        found.append(
            CapReport(
                cap=report.cap,
                impressions=report.impressions,
                reach=min(max(float(reach[at]), possible[0]), possible[1]),
                std=float(result.std[at]),
                interval=interval,
                level=level,
                interval_method="panel",
                bounds=bounds,
                bounds_attained=report.bounds_attained,
                over_exposed=float(at_least[report.cap])
                if report.cap < len(at_least)
                else report.over_exposed,
                unique_reach=float(people[0]),
                unique_reach_interval=unique,
                average_frequency=targeted / float(people[0]) if people[0] > 0.0 else 0.0,
                average_frequency_interval=_ratio(targeted, unique, report.impressions),
                frequency=tuple(float(each) for each in frequency),
                at_least=tuple(at_least.tolist()),
                at_least_intervals=(*ranges, *report.at_least_intervals[top:]),
            )
        )
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
