"""Discrete Gaussian noise of a stated cost, from OpenDP: for whatever either side publishes.

With L2 distance d and scale σ the discrete Gaussian is d²/2σ²-zero-concentrated differentially
private (ρ-zCDP). Noise comes from the system's entropy. OpenDP is the extra `dp`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt
from typing import Any

from kreach.extras import require_extra

__all__ = ["MILLIS", "NANOS", "Draw", "Part", "opendp_draw", "privacy_epsilon"]

NANOS = 1_000_000_000  # of a unit of ρ
MILLIS = 1_000  # of a person
_SLACK = 1.0 + 1e-9  # on a scale, so that rounding never makes a mechanism cost more than it says


@dataclass(frozen=True)
class Part:
    """One piece of a release: how far a person can move it (L2), and its share of ρ."""

    distance: float
    rho_nanos: int

    @property
    def scale(self) -> float:
        """σ with distance²/2σ² = ρ."""
        return self.distance / sqrt(2.0 * self.rho_nanos / NANOS) * _SLACK


Draw = Callable[[Part, Sequence[int]], list[int]]
"""Integers with noise of a part's scale on each."""


@lru_cache(maxsize=256)
def _mechanism(part: Part) -> Any:
    """OpenDP's discrete Gaussian of a part; checks that it costs no more than the part allows."""
    import opendp.prelude as dp  # noqa: PLC0415 - only where noise is on

    dp.enable_features("contrib")  # OpenDP's name for what is proven but not yet reviewed by all
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    mechanism = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=part.scale)
    cost = float(mechanism.map(part.distance))  # type: ignore[no-untyped-call]
    if cost * NANOS > part.rho_nanos:
        raise RuntimeError(f"a mechanism costs {cost} where {part.rho_nanos} nanos are allowed")
    return mechanism


def opendp_draw(feature: str = "[noise]") -> Draw:
    """Noise from OpenDP; refuses where it is not installed."""
    require_extra(feature, "dp")
    return lambda part, values: [int(value) for value in _mechanism(part)(list(values))]


def privacy_epsilon(rho: float, delta: float) -> float:
    """The ε at which ρ-zCDP is (ε, δ)-differentially private: ρ + 2√(ρ ln(1/δ)).

    >>> round(privacy_epsilon(0.25, 1e-6), 2)
    3.97
    """
    return rho + 2.0 * sqrt(rho * log(1.0 / delta))
