"""The privacy budget and the charge of each answer; ρ in whole billionths."""

from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from kreach.adsystem.disclosure.noise.mechanism import Strength
from kreach.adsystem.disclosure.noise.questions import Charge
from kreach.adsystem.settings import NoiseSettings
from kreach.boundary.discrete_noise import MILLIS, NANOS, privacy_epsilon

__all__ = ["Budget"]


@dataclass(frozen=True)
class Budget:
    """The settings in whole billionths of ρ. Remainders of divisions are not spent."""

    settings: NoiseSettings

    @property
    def rho_nanos(self) -> int:
        """The total budget for any `max_per_person` impressions of one person."""
        return floor(self.settings.rho * NANOS)

    @property
    def series_nanos(self) -> int:
        """The part of the budget for figures so far."""
        return floor(self.settings.rho * self.settings.series_share * NANOS)

    @property
    def point(self) -> Charge:
        """The charge of one point of the figures so far."""
        pot = self.series_nanos
        return self._charge(pot // self.settings.max_points, pot)

    @property
    def question(self) -> Charge:
        """The charge of one window."""
        pot = self.rho_nanos - self.series_nanos
        return self._charge(pot // self.settings.max_questions, pot)

    def _charge(self, cost: int, pot: int) -> Charge:
        return Charge(cost, pot, self.rho_nanos, self.settings.max_per_person)

    def strength(self, charge: Charge) -> Strength:
        """The noise that a charge pays for."""
        chosen = self.settings
        price_micros = ceil(chosen.max_price_cpm * 1_000)  # of one impression
        frequency = chosen.max_frequency
        return Strength(charge.rho_nanos, chosen.max_per_person, frequency, price_micros)

    def facts(self) -> dict[str, Any]:
        """The guarantee and the noise in numbers, for --check-config."""
        chosen = self.settings
        noise = {}
        for name, charge in (("point", self.point), ("question", self.question)):
            people, impressions, spend = self.strength(charge).parts
            noise[name] = {
                "rho": charge.rho_nanos / NANOS,
                "std_people": round(people.scale / MILLIS, 1),
                "std_impressions": round(impressions.scale, 1),
                "std_spend_micros": round(spend.scale),
            }
        return {
            "rho": chosen.rho,
            "epsilon": round(privacy_epsilon(chosen.rho, chosen.delta), 3),
            "delta": chosen.delta,
            "max_per_person": chosen.max_per_person,
            **noise,
        }
