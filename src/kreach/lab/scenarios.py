"""Inputs of the paper's experiments: its settings by name, and campaigns on uneven traffic.

The paper's own data is not public. Campaigns take visits and prices from files, or from a
generated world that is as uneven as the traffic of a public news portal.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import kreach as kr
from kreach.boundary.times import DAY_SECONDS, MICROS
from kreach.errors import KreachError
from kreach.lab.trials import Progress, generator_for, silent
from kreach.lab.visitors import SiteVisitors
from kreach.numeric.types import FloatArray, IntArray

__all__ = [
    "APPROACHES",
    "CAMPAIGNS",
    "GROUP_SIZE",
    "PAPER_PRICES",
    "PaperCampaign",
    "Pricing",
    "Run",
    "Traffic",
    "generate_traffic",
]

GROUP_SIZE = 20
CAMPAIGNS = 10
MIN_REQUESTS = 100
MIN_VISITS = 2  # of a person: a session
APPROACHES = {
    "impressions": "A every impression",
    "groups": "B every group",
    "uniform": "C uniform",
    "profiled": "D visit shares",
    "dispersed": "one dispersion (ours)",
}
PAPER_PRICES = (0.0, float(np.sqrt(0.5)))  # μ and σ of the paper's log-normal prices

Value = TypeVar("Value")


@dataclass(frozen=True)
class Run:
    """Options and inputs of a reproduction. Results do not depend on `processes` and `progress`."""

    seed: int = 0
    quick: bool = False
    processes: int | None = None
    visits: Path | None = None
    prices: Path | None = None
    progress: Progress = silent

    def either(self, full: Value, quick: Value) -> Value:
        """The full setting, or the quick one."""
        return quick if self.quick else full

    @cached_property
    def traffic(self) -> "Traffic":
        """Visits from the file, or generated ones."""
        if self.visits is not None:
            return _read_traffic(self.visits)
        people = CAMPAIGNS * self.either(1500, 600)
        return generate_traffic(people, generator_for(self.seed, 50))

    @cached_property
    def pricing(self) -> "Pricing":
        """Prices from the file, or the paper's."""
        return Pricing.paper() if self.prices is None else _read_pricing(self.prices)

    @cached_property
    def campaigns(self) -> list["PaperCampaign"]:
        """Ten campaigns, each on people chosen at random from the same traffic."""
        most = self.traffic.people // GROUP_SIZE * GROUP_SIZE
        size = min(self.either(1500, 600), most)
        return [
            _campaign(self.traffic, self.pricing, size, generator_for(self.seed, 51, i))
            for i in range(CAMPAIGNS)
        ]

    def campaign_setting(self) -> dict[str, Any]:
        """A description of the campaigns for the report."""
        requests = [len(c.person) for c in self.campaigns]
        return {
            "visits": self.traffic.source,
            "prices": self.pricing.source,
            "campaigns": CAMPAIGNS,
            "people per campaign": len(self.campaigns[0].group_of),
            "group size": GROUP_SIZE,
            "requests per campaign": round(float(np.mean(requests))),
        }


@dataclass(frozen=True, eq=False)
class Traffic:
    """Visits in time order: person and day. The flight starts at `split`."""

    person: IntArray
    at: FloatArray
    people: int
    split: float
    source: str  # in words

    @cached_property
    def visits_by_person(self) -> IntArray:
        """History and flight together."""
        return np.bincount(self.person, minlength=self.people)


_DAYS = 16
_GENERATED = (
    "generated: people visit in sessions and at their hours, fitted to a public news portal "
    "(9.3 visits a head, median 4, 8.9 effective members in random groups of 20)"
)


def generate_traffic(people: int, generator: np.random.Generator) -> Traffic:
    """Generate visits of people who all come, like the readers of a news portal."""
    seed = int(generator.integers(2**32))
    drawn = SiteVisitors.draw(3 * people + 100, None, seed, known=False)  # about 0.55 come
    visits = drawn.schedule(0.0, _DAYS * DAY_SECONDS)
    counts = np.bincount(visits.person, minlength=len(drawn.user_ids))
    known = np.flatnonzero(counts >= MIN_VISITS)[:people]
    index = np.full(len(counts), -1)
    index[known] = np.arange(people)
    person = index[visits.person]
    at = visits.at_seconds[person >= 0] / DAY_SECONDS
    return Traffic(person[person >= 0], at, people, _DAYS / 2.0, _GENERATED)


def _read_traffic(path: Path) -> Traffic:
    from kreach.publisher.directory import Directory  # noqa: PLC0415 - slow

    directory = Directory(path)
    if directory.user_count < 2 * GROUP_SIZE:
        rule = f"hold at least {2 * GROUP_SIZE} people"
        raise KreachError.rule("visits", rule, f"{directory.user_count} people")
    visits = directory.visits()
    at = visits.at_us / (DAY_SECONDS * MICROS)
    split = float(np.median(at))
    source = "from the file, the flight is the later half"
    return Traffic(visits.user, at, directory.user_count, split, source)


@dataclass(frozen=True, eq=False)
class Pricing:
    """Second prices, in units of their median: the paper's rule expects prices near 1."""

    prices: FloatArray | None  # None: the paper's log-normal law
    chances: FloatArray | None
    source: str

    @classmethod
    def paper(cls) -> "Pricing":
        """The law of the paper's Section 5.2."""
        return cls(None, None, "log-normal (μ 0, σ² 0.5)")

    def draw(self, count: int, generator: np.random.Generator) -> FloatArray:
        """Draw a price for each request."""
        if self.prices is None:
            return generator.lognormal(*PAPER_PRICES, size=count)
        return generator.choice(self.prices, size=count, p=self.chances)


def _read_pricing(path: Path) -> Pricing:
    from kreach.adsystem.bidding.history import read_prices  # noqa: PLC0415 - slow

    market = read_prices(path)
    price, count = np.asarray(market.prices, dtype=float), np.asarray(market.counts, dtype=float)
    middle = float(price[np.searchsorted(np.cumsum(count), count.sum() / 2.0)])
    if not middle > 0.0:
        raise KreachError.rule("prices", "have a median above 0", middle)
    return Pricing(price / middle, count / count.sum(), "from the file, in units of their median")


@dataclass(frozen=True, eq=False)
class PaperCampaign:
    """People in random groups of 20, their visits before the flight, and the flight's requests."""

    group_of: IntArray  # of each person
    history: IntArray  # visits of each person before the flight
    person: IntArray  # who made each request of the flight, in the order of time
    price: FloatArray

    @property
    def group_count(self) -> int:
        """Groups of the campaign."""
        return int(self.group_of.max()) + 1

    @cached_property
    def flight(self) -> IntArray:
        """Visits of each person in the flight."""
        return np.bincount(self.person, minlength=len(self.group_of))

    def shares(self) -> list[FloatArray]:
        """The visit shares of each group in the flight itself; equal ones where nobody came."""
        order = np.argsort(self.group_of, kind="stable")
        table = self.flight[order].reshape(self.group_count, GROUP_SIZE).astype(float)
        table[table.sum(axis=1) == 0.0] = 1.0
        return list(table / table.sum(axis=1, keepdims=True))

    @cached_property
    def dispersion(self) -> float:
        """The one number for how unevenly members of groups of 20 visit, from history."""
        from kreach.publisher.visit_knowledge import match_dispersion  # noqa: PLC0415

        return match_dispersion(self.history, self.group_of)

    @cached_property
    def audiences(self) -> dict[str, kr.Audience]:
        """The audience under each approach of the paper's Section 5.3, and ours."""
        groups, sizes = self.group_count, np.full(self.group_count, GROUP_SIZE)
        return {
            "impressions": kr.baselines.every_impression(groups),
            "groups": kr.baselines.every_group(groups),
            "uniform": kr.Audience.disjoint(sizes),
            "profiled": kr.Audience.profiled(self.shares()),
            "dispersed": kr.Audience.disjoint(sizes, dispersion=self.dispersion),
        }


def _campaign(
    traffic: Traffic, pricing: Pricing, size: int, generator: np.random.Generator
) -> PaperCampaign:
    chosen = generator.choice(traffic.people, size=size, replace=False)  # in random order
    place = np.full(traffic.people, -1)
    place[chosen] = np.arange(size)
    at = place[traffic.person]
    before = traffic.at < traffic.split
    history = np.bincount(at[(at >= 0) & before], minlength=size)
    person = at[(at >= 0) & ~before]
    if len(person) < MIN_REQUESTS or history.sum() < MIN_REQUESTS:
        rule = f"hold at least {MIN_REQUESTS} in each half, for {size} people"
        raise KreachError.rule("visits", rule, f"{history.sum()} and {len(person)}")
    price = pricing.draw(len(person), generator)
    return PaperCampaign(np.arange(size) // GROUP_SIZE, history, person, price)
