"""Noisy answers: the noisy vector, the consistent numbers that are shown, and their parameters."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kreach.adsystem.disclosure.noise.consistency import consistent, running_max
from kreach.adsystem.disclosure.noise.mechanism import Strength, Vector, add_noise, exact_vector
from kreach.adsystem.measurement.exposure import expose
from kreach.adsystem.measurement.tally import GroupTally
from kreach.adsystem.reports.measure import measure_caps
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.discrete_noise import Draw
from kreach.numeric.types import IntArray

__all__ = ["AudienceFacts", "NoisyAnswer", "draw_answer", "exact_counts"]


@dataclass(frozen=True)
class AudienceFacts:
    """Facts of an audience that do not depend on a log.

    `everyone`: every impression is on a targeted person, so they add up to N. `independent`: who of
    a group sees an impression does not depend on who saw others (not so with dispersion, where
    shares of visits are unknown and common to all).
    """

    people: int
    everyone: bool
    independent: bool

    @classmethod
    def of(cls, audience: Audience) -> "AudienceFacts":
        """The facts of an audience, from one impression on each group."""
        one_each = np.ones(audience.group_count, dtype=np.int64)
        lost = audience.group_count - expose(audience, one_each).targeted_impressions
        dispersed = isinstance(audience, DisjointAudience) and audience.dispersion is not None
        return cls(audience.targeted_user_count, lost < 1e-6, not dispersed)


@dataclass(frozen=True)
class NoisyAnswer:
    """Numbers with noise. Intervals come from `noisy`, all other figures from `shown`."""

    noisy: Vector
    shown: Vector
    strength: Strength
    target: AudienceFacts
    stride_seconds: int = 0  # of a point: how far it is to the next one

    def document(self) -> dict[str, Any]:
        """Plain values, as the ledger stores them."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "NoisyAnswer":
        """An answer as the ledger stores it."""
        noisy, shown = (
            Vector(**(vector | {"at_least": tuple(vector["at_least"])}))
            for vector in (document["noisy"], document["shown"])
        )
        strength, target = Strength(**document["strength"]), AudienceFacts(**document["target"])
        return cls(noisy, shown, strength, target, document["stride_seconds"])


def exact_counts(
    audience: Audience, counts: IntArray, spend_micros: int, strength: Strength
) -> Vector:
    """The exact vector of impressions by group; never shown."""
    (report,) = measure_caps(audience, GroupTally(counts), (1,))
    return exact_vector(report, strength.max_frequency, spend_micros)


def draw_answer(
    exact: Vector,
    strength: Strength,
    target: AudienceFacts,
    draw: Draw,
    before: NoisyAnswer | None = None,
    stride_seconds: int = 0,
) -> NoisyAnswer:
    """Draw noise on a vector once, and derive the shown numbers; a point never falls."""
    noisy = add_noise(exact, strength, draw)
    shown = consistent(noisy, strength, target.people, target.everyone)
    if before is not None:
        shown = running_max(before.shown, shown)
    return NoisyAnswer(noisy, shown, strength, target, stride_seconds)
