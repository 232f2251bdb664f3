"""The differentially private mechanism: the vector that is released, and the noise on it.

The release is a vector: a_j, the expected people who saw an ad at least j times, for j = 1..K; the
rest Σ a_j over j > K; impressions N; spend S, each price counted up to a limit. For one more
impression the a_j and the rest do not fall, and they rise by at most 1 in all: Σ_j a_j is the
expected number of targeted impressions, and the one kernel says that a_j rises by the probability
that the impression goes to a targeted person with j − 1 before it. So m impressions, added or
taken away, move (a, rest) by at most m in L1, hence in L2, N by m and S by m prices.

Noise is OpenDP's discrete Gaussian, from the system's entropy. With L2 distance d and scale σ it
is d²/2σ²-zero-concentrated differentially private; the three parts of a vector add up.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from kreach.adsystem.measurement.report import ReachReport
from kreach.boundary.discrete_noise import MILLIS, Draw, Part
from kreach.errors import KreachError

__all__ = ["Strength", "Vector", "add_noise", "exact_vector"]

_SHARES_PERCENT = (70, 15)  # of ρ to people and to impressions; the rest is for spend


@dataclass(frozen=True)
class Vector:
    """The released numbers, before or after noise. People are in thousandths."""

    at_least: tuple[int, ...]  # 1+, 2+, ... K+ people
    rest: int  # the sum of those who saw it K + 1, K + 2, ... times or more
    impressions: int
    spend_micros: int


@dataclass(frozen=True)
class Strength:
    """The parameters of the noise on an answer: its cost, for how many impressions of a person."""

    rho_nanos: int
    max_per_person: int
    max_frequency: int
    max_price_micros: int

    def __post_init__(self) -> None:
        for name in ("rho_nanos", "max_per_person", "max_frequency", "max_price_micros"):
            if getattr(self, name) < 1:
                raise KreachError.rule(name, "be at least 1", getattr(self, name))
        if min(part.rho_nanos for part in self.parts) < 1:
            rule = "be enough to be shared by people, impressions and spend"
            raise KreachError.rule("rho_nanos", rule, self.rho_nanos)

    @property
    def parts(self) -> tuple[Part, Part, Part]:
        """People, impressions, spend.

        Rounding to thousandths of a person moves each component by less than one more. Where
        components move by x_j with Σ x_j ≤ L, a whole number, the rounded ones move by n_j ≤ ⌈x_j⌉,
        Σ (n_j − 1)⁺ ≤ L − 1 and so Σ n_j² ≤ L² + (components − 1). One thousandth is added to L for
        floating point.
        """
        m = self.max_per_person
        people, impressions = (self.rho_nanos * share // 100 for share in _SHARES_PERCENT)
        spend = self.rho_nanos - people - impressions
        moved = MILLIS * m + 1
        return (
            Part(sqrt(moved**2 + self.max_frequency), people),
            Part(float(m), impressions),
            Part(float(m * self.max_price_micros), spend),
        )


def exact_vector(report: ReachReport, max_frequency: int, spend_micros: int) -> Vector:
    """The vector of a stretch; `spend_micros` has each price counted up to the limit."""
    at_least = report.at_least(max_frequency)
    rest = max(report.exposure.targeted_impressions - float(at_least.sum()), 0.0)
    rounded = np.floor(np.append(at_least, rest) * MILLIS + 0.5).astype(np.int64).tolist()
    return Vector(tuple(rounded[:-1]), rounded[-1], report.impressions, spend_micros)


def add_noise(vector: Vector, strength: Strength, draw: Draw) -> Vector:
    """The vector with noise: the only form in which it may be shown."""
    people, impressions, spend = strength.parts
    moved = draw(people, [*vector.at_least, vector.rest])
    return Vector(
        tuple(moved[:-1]),
        moved[-1],
        draw(impressions, [vector.impressions])[0],
        draw(spend, [vector.spend_micros])[0],
    )
