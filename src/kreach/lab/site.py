"""A publisher's logs as input of a study: history before the split, flight after it, campaigns."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from kreach.adsystem.bidding.history import read_prices
from kreach.adsystem.bidding.market import EmpiricalMarket
from kreach.boundary.duckdb import columns_of, file_reader, scratch_connection, translate_errors
from kreach.boundary.times import from_micros, to_micros
from kreach.errors import KreachError
from kreach.lab.trials import generator_for
from kreach.numeric.types import FloatArray, IntArray
from kreach.publisher.directory import Directory, Visits
from kreach.publisher.people import Attribute, People

_FLIGHT = 0.995  # share of the visits after the split that make the flight

__all__ = [
    "Site",
    "StudyCampaign",
    "draw_campaigns",
    "open_site",
    "read_markets",
    "restricted_site",
]


@dataclass(frozen=True, eq=False)
class Site:
    """Everybody, the visits before the split and those after it."""

    people: People  # visits of history
    before: Visits
    after: Visits
    split: datetime

    @property
    def flight_seconds(self) -> float:
        """From the split to the last visit."""
        return float(self.after.at_us[-1]) / 1e6 - self.split.timestamp()


@dataclass(frozen=True, eq=False)
class StudyCampaign:
    """The people of one campaign (0, 1, ...), their visits, and a price for each later request."""

    name: str
    people: People  # visits of history
    before: Visits
    person: IntArray  # who makes each request of the flight
    at: FloatArray  # seconds since the split
    price: FloatArray  # the highest competing bid
    market: EmpiricalMarket
    seconds: float  # length of the flight
    starts_us: int  # the split, in microseconds since 1970

    @property
    def flight_visits(self) -> IntArray:
        """Requests of each person in the flight."""
        return np.bincount(self.person, minlength=self.people.count)

    def halves(self) -> tuple[IntArray, IntArray]:
        """Visits of each person in the earlier and the later half of history."""
        middle = len(self.before.user) // 2
        earlier, later = self.before.user[:middle], self.before.user[middle:]
        count = self.people.count
        return np.bincount(earlier, minlength=count), np.bincount(later, minlength=count)


def open_site(
    visits: Path,
    split: datetime | None = None,
    attributes: tuple[str, ...] = (),
    target: str | None = None,
) -> Site:
    """Read visits and split them in time: at `split`, or so that half of them are history."""
    directory = Directory(visits)
    if target is not None and target not in directory.attribute_names:
        known = ", ".join(directory.attribute_names) or "it has none"
        raise KreachError.rule("target", f"be a column of the visits ({known})", target)
    visits_in_file = directory.visits()
    if len(visits_in_file) < 100:
        raise KreachError.rule("visits", "hold at least 100 visits", len(visits_in_file))
    if split is None:
        middle = int(visits_in_file.at_us[len(visits_in_file) // 2])
        split = from_micros(middle)
    people = directory.people(attributes, end=split)
    before, after = directory.visits(end=split), directory.visits(start=split)
    after = _without_late_visits(after)
    if len(before) < 50 or len(after) < 50:
        rule = f"leave visits on both sides ({len(visits_in_file):,} in all)"
        raise KreachError.rule("split", rule, split.isoformat())
    return Site(people, before, after, split)


def _without_late_visits(after: Visits) -> Visits:
    """Drop the last few visits of a log: they may lie long after the end of the flight."""
    count = int(np.ceil(_FLIGHT * len(after)))
    return Visits(after.user[:count], after.at_us[:count])


def read_markets(prices: Path) -> list[EmpiricalMarket]:
    """A market for each campaign of the prices file, or one for all; the median price is made 1.

    The paper's pacing has its prices near 1 built in; only the unit of money changes.
    """
    with scratch_connection() as engine:
        columns = columns_of(engine, "prices", prices, ("market_price",))
        names: list[str | None] = [None]
        if "campaign" in columns:
            with translate_errors("prices", "have readable campaigns"):
                reader = file_reader("prices", prices, text_columns=("campaign",))
                query = f"""SELECT DISTINCT CAST(campaign AS VARCHAR) FROM {reader}
                    WHERE campaign IS NOT NULL ORDER BY 1"""
                names = [row[0] for row in engine.execute(query).fetchall()] or names
    return [_rescaled(read_prices(prices, name, "second_price")) for name in names]


def _rescaled(market: EmpiricalMarket) -> EmpiricalMarket:
    prices, counts = np.asarray(market.prices), np.asarray(market.counts)
    weight = np.cumsum(counts)
    median = float(prices[int(np.searchsorted(weight, weight[-1] / 2.0))])
    if not median > 0.0:
        raise KreachError.rule("prices", "have a median above 0", median)
    return EmpiricalMarket(prices / median, counts)


def draw_campaigns(
    site: Site,
    markets: list[EmpiricalMarket],
    count: int,
    size: int,
    seed: int,
    segment: str | None = None,
    among: IntArray | None = None,
) -> list[StudyCampaign]:
    """Campaigns that target people drawn at random, or the largest values of a column.

    `among` are the people that campaigns may have (default: everybody).

    No log holds visits and prices together: visits are real, prices are real, the pairing is ours.
    StudyCampaign i draws its prices from market i mod their number.
    """
    everybody = np.arange(site.people.count) if among is None else among
    codes = None if segment is None else site.people.attribute(segment).codes
    chosen = np.argsort(-np.bincount(codes), kind="stable") if codes is not None else None
    campaigns = []
    for at in range(count):
        generator = generator_for(seed, 1, at)
        if codes is None or chosen is None:
            pool, name = everybody, f"campaign {at + 1}"
        else:
            if at >= len(chosen):
                break
            pool, name = everybody[codes[everybody] == chosen[at]], f"{segment} {at + 1}"
        members = np.sort(generator.choice(pool, min(size, len(pool)), replace=False))
        campaigns.append(_campaign(site, name, members, markets[at % len(markets)], generator))
    return campaigns


def restricted_site(site: Site, members: IntArray) -> tuple[People, Visits]:
    """Some of the people, numbered anew in this order, and their visits before the split."""
    local = np.full(site.people.count, -1, dtype=np.int64)
    local[members] = np.arange(len(members))
    attributes = {
        key: Attribute(value.codes[members], value.labels)
        for key, value in site.people.attributes.items()
    }
    return People(site.people.visits[members], attributes), _restricted(site.before, local)


def _campaign(
    site: Site,
    name: str,
    members: IntArray,
    market: EmpiricalMarket,
    generator: np.random.Generator,
) -> StudyCampaign:
    people, before = restricted_site(site, members)
    local = np.full(site.people.count, -1, dtype=np.int64)
    local[members] = np.arange(len(members))
    after = _restricted(site.after, local)
    if not len(after):
        rule = "make campaigns whose people visit after the split"
        raise KreachError.rule("target", rule, f"{name}, {len(members)} people without a request")
    listed, counts = np.asarray(market.prices), np.asarray(market.counts)
    price = generator.choice(listed, size=len(after.user), p=counts / counts.sum())
    # ties between equal list prices would be bought all or none: spread them a little
    price = price * (1.0 + 1e-6 * generator.random(len(price)))
    return StudyCampaign(
        name,
        people,
        before,
        after.user,
        after.at_us / 1e6 - site.split.timestamp(),
        price,
        market,
        site.flight_seconds,
        to_micros(site.split),
    )


def _restricted(visits: Visits, local: IntArray) -> Visits:
    mine = local[visits.user] >= 0
    return Visits(local[visits.user[mine]], visits.at_us[mine])
