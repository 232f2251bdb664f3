"""How far off the model is, by a panel: the estimate, its variance, and what other campaigns say.

With R the model's reach at a cap when the correction was released and δ the panel's truth − model,
e = δ/R estimates how far the model is off, whatever the model is. Its variance is

    v = (noise + (G/m − 1) · r² · Var_model) / R²

with m of G groups in the panel and r how much groups deviate beside what the model expects (the
panel's spread, joined with what is usual where the panel is small).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np

from kreach.adsystem.measurement.exposure import Exposure
from kreach.adsystem.measurement.report import ReachReport
from kreach.boundary.correction import Correction, PanelRelease
from kreach.numeric.types import FloatArray

__all__ = ["ModelFigures", "PanelError", "Prior", "pooled_prior", "priors_of"]

_USUAL_SPREAD = 1.1  # of groups beside the model, where it is right: three real logs, 0.8 to 1.3
_SPREAD_STD = 0.25  # of that from site to site
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
    def by_cap(
        cls, correction: Correction, release: PanelRelease, then: ModelFigures
    ) -> list["PanelError"]:
        """At caps 1, 2, …, as many as the panel knows; none where the model reached nobody."""
        caps = range(1, len(release.differences) + 1)
        found = [cls.of(correction, release, then, cap) for cap in caps]
        return [error for error in found if error is not None]

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
