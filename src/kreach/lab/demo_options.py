"""The options of a demo, and the figures that it shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kreach.boundary.times import DAY_SECONDS
from kreach.errors import KreachError
from kreach.service.clock import FASTEST

__all__ = ["CampaignResult", "DemoOptions"]

_HISTORY_VISITS = 20.0  # per person


@dataclass(frozen=True)
class DemoOptions:
    """Size, length and speed of a demo."""

    folder: Path
    people: int = 10_000
    group_size: int = 20
    days: float = 7.0
    minutes: float = 4.0
    visits_per_person: float = 6.0
    seed: int = 1
    console_port: int | None = 8400
    console_host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        for name, minimum, maximum in (
            ("people", 400, 1_000_000),
            ("group_size", 2, 1_000),
            ("days", 0.5, 60.0),
            ("minutes", 0.05, 600.0),
            ("visits_per_person", 0.1, 200.0),
        ):
            if not minimum <= getattr(self, name) <= maximum:
                rule = f"be between {minimum:g} and {maximum:g}"
                raise KreachError.rule(name, rule, getattr(self, name))
        if self.speed > FASTEST:
            minimum = self.days * 1_440.0 / FASTEST
            rule = f"be at least {minimum:.3f} for {self.days:g} days"
            raise KreachError.rule("minutes", rule, self.minutes)
        if self.people < 10 * self.group_size:
            raise KreachError.rule("people", "make at least ten groups", self.people)

    @property
    def speed(self) -> float:
        """Simulated seconds per real second."""
        return self.days * DAY_SECONDS / (self.minutes * 60.0)

    @property
    def visits(self) -> int:
        """Expected visits in the whole flight."""
        return round(self.people * self.visits_per_person)

    @property
    def history_days(self) -> int:
        """Days of visits before the flight: about 20 visits a person, in one to four weeks."""
        wanted = _HISTORY_VISITS * self.days / self.visits_per_person
        return round(min(max(wanted, 7.0), 28.0))

    def fixed(self) -> dict[str, Any]:
        """The options that must not change when a demo is continued."""
        names = ("people", "group_size", "days", "visits_per_person", "seed")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class CampaignResult:
    """A campaign so far: the figures of the ad system next to the truth."""

    campaign: str
    impressions: int
    spend: float
    budget: float
    cap: int
    reach: float
    interval: tuple[float, float]
    true_reach: int
    over_exposed: float
    true_over_exposed: int
