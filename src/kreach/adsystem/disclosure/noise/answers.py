"""An answer as it is kept: the noisy vector, what is shown of it, and how it was made."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kreach.adsystem.disclosure.noise.consistency import consistent, grown
from kreach.adsystem.disclosure.noise.mechanism import Draw, Strength, Vector, exact_vector, noised
from kreach.adsystem.measurement.exposure import expose
from kreach.adsystem.reports.measure import measure_caps
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.numeric.types import IntArray

__all__ = ["AudienceFacts", "NoisyAnswer", "draw_answer", "exact_counts"]


@dataclass(frozen=True)
class AudienceFacts:
    """What may be known of an audience without looking at a log.

    `everyone`: every impression is on a targeted person, so they add up to N. `independent`: who of
    a group sees an impression does not depend on who saw others (not so with dispersion, where
    shares of visits are unknown and common to all).
    """

    people: int
    everyone: bool
    independent: bool

    @classmethod
    def of(cls, audience: Audience) -> "AudienceFacts":
        """The facts of an audience; one impression on each group tells whom they are on."""
        one_each = np.ones(audience.group_count, dtype=np.int64)
        lost = audience.group_count - expose(audience, one_each).targeted_impressions
        dispersed = isinstance(audience, DisjointAudience) and audience.dispersion is not None
        return cls(audience.targeted_user_count, lost < 1e-6, not dispersed)


@dataclass(frozen=True)
class NoisyAnswer:
    """Numbers with noise. Intervals are made from `noisy`, everything else is `shown`."""

    noisy: Vector
    shown: Vector
    strength: Strength
    target: AudienceFacts
    stride_seconds: int = 0  # of a point: how far it is to the next one

    def document(self) -> dict[str, Any]:
        """Plain values, as the ledger keeps them."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "NoisyAnswer":
        """An answer as the ledger kept it."""
        noisy, shown = (
            Vector(tuple(told["at_least"]), told["rest"], told["impressions"], told["spend_micros"])
            for told in (document["noisy"], document["shown"])
        )
        strength, target = Strength(**document["strength"]), AudienceFacts(**document["target"])
        return cls(noisy, shown, strength, target, document["stride_seconds"])


def exact_counts(
    audience: Audience, counts: IntArray, spend_micros: int, strength: Strength
) -> Vector:
    """The vector of impressions by group; it is not to be shown."""
    (report,) = measure_caps(audience, counts, (1,))
    return exact_vector(report, strength.max_frequency, spend_micros)


def draw_answer(
    exact: Vector,
    strength: Strength,
    target: AudienceFacts,
    draw: Draw,
    before: NoisyAnswer | None = None,
    stride_seconds: int = 0,
) -> NoisyAnswer:
    """Noise on a vector, once, and what is shown of it: of a point, never less than before."""
    noisy = noised(exact, strength, draw)
    shown = consistent(noisy, strength, target.people, target.everyone)
    if before is not None:
        shown = grown(before.shown, shown)
    return NoisyAnswer(noisy, shown, strength, target, stride_seconds)
