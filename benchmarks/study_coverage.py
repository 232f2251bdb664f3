"""How often an interval holds the truth: campaigns whose audience is known, measured from a log.

    python -m benchmarks.study_coverage [--repetitions 200] [--seed 1]

People are in groups of 20. Every repetition is a campaign of its own: impressions fall on groups
that visit unequally often, and in a group on its members as the world says. Who that was is kept
here; the log holds campaign, group and time. All campaigns of all worlds are rows of one file, and
each is measured by `measure_window`. In a cell: how often the interval held the truth and, in
brackets, how often it should have. Reach is a whole number, so an interval from its own law (all
but "overlapping, normal") holds it somewhat more often than the level says; 2+ intervals are normal
everywhere, and may hold a little more or less.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil, floor, sqrt
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kreach as kr
from kreach.adsystem.log.tables import GroupTable
from kreach.numeric.types import BoolArray, IntArray

__all__ = [
    "CAPS",
    "LEVELS",
    "QUANTITIES",
    "Flight",
    "Held",
    "World",
    "fly",
    "groups_of",
    "judge",
    "judge_reports",
    "main",
    "overlapping_world",
    "study",
    "worlds",
    "write_log",
]

LEVELS = (0.5, 0.8, 0.95, 0.99)
CAPS = (1, 3)
QUANTITIES = ("unique reach", "reach at cap 3", "2+ reach")
START = datetime(2026, 11, 1, tzinfo=UTC)
END = START + timedelta(days=7)

_SIZE = 20
_A_HEAD = 1.25  # impressions a head: with cap 3 some of them are over
_UNEVEN = 8.0  # shape of the gamma law over how often groups visit
_ASTRAY = 50  # impressions of a campaign before and after the window, which must not count
_SIMULATED = 100  # people: the law of reach is then simulated in a moment


@dataclass(frozen=True, eq=False)
class World:
    """People in groups, and how a group's requests choose among its members."""

    name: str
    members: IntArray  # (groups, members of one): people by number
    wanted: BoolArray  # for each person: whether the campaign targets it
    dispersion: float = float("inf")
    method: str = "exact"  # of the intervals for reach; "normal" where the law would be simulated

    @property
    def group_count(self) -> int:
        """How many groups there are."""
        return len(self.members)

    @property
    def overlapping(self) -> bool:
        """Whether somebody is in several groups."""
        return self.members.size > len(self.wanted)

    def group_names(self) -> list[str]:
        """Worlds share a log, so their groups must not share names."""
        return [f"{self.name} {group}" for group in range(self.group_count)]


@dataclass(frozen=True, eq=False)
class Flight:
    """One campaign: the group of each impression, as logged, and what nobody outside knows."""

    world: World
    campaign: str
    groups: IntArray
    seen: IntArray  # impressions on each targeted person

    def truth(self, quantity: str) -> int:
        """What a report estimates, counted person by person."""
        if quantity == "2+ reach":
            return int(np.count_nonzero(self.seen >= 2))
        cap = 1 if quantity == "unique reach" else 3
        return int(np.minimum(self.seen, cap).sum())


@dataclass(frozen=True)
class Held:
    """One interval: whether it held the truth, and how likely that was by the report's own law."""

    world: str
    quantity: str
    level: float
    held: bool
    expected: float
    error: float  # (truth − mean)/std
    half_width: float  # relative to the mean


def worlds(people: int) -> list[World]:
    """One of each kind."""
    generator = np.random.default_rng(people)
    members = np.arange(people).reshape(-1, _SIZE)
    everybody = np.ones(people, dtype=np.bool_)
    return [
        World("uniform", members, everybody),
        World("dispersed", members, everybody, dispersion=0.6),
        World("partly targeted", members, generator.random(people) < 0.7),
        World("partly targeted, dispersed", members, generator.random(people) < 0.4, 1.5),
        overlapping_world("overlapping, normal", people, "normal"),
    ]


def overlapping_world(name: str, people: int, method: str) -> World:
    """Everybody is in a group of each of two partitions; four of five people are targeted."""
    generator = np.random.default_rng(people)
    layers = [np.arange(people), generator.permutation(people)]
    members = np.concatenate([layer.reshape(-1, _SIZE) for layer in layers])
    return World(name, members, generator.random(people) < 0.8, method=method)


def fly(world: World, number: int, generator: np.random.Generator) -> Flight:
    """One campaign. Each has visit shares of its own: that is what a dispersion says."""
    count = world.group_count
    popular = generator.gamma(_UNEVEN, size=count)
    total = round(_A_HEAD * len(world.wanted))
    impressions = generator.multinomial(total, popular / popular.sum())
    shares = np.full((count, _SIZE), 1.0 / _SIZE)
    if np.isfinite(world.dispersion):
        shares = generator.dirichlet(np.full(_SIZE, world.dispersion), size=count)
    on_member = generator.multinomial(impressions, shares)
    seen = np.bincount(
        world.members.ravel(), weights=on_member.ravel(), minlength=len(world.wanted)
    ).astype(np.int64)
    groups = np.repeat(np.arange(count), impressions)
    return Flight(world, f"{world.name} {number}", groups, seen[world.wanted])


def write_log(file: Path, flights: Sequence[Flight], seed: int) -> None:
    """The log of all campaigns: campaign, group and time, and no trace of who it was."""
    generator = np.random.default_rng(seed)
    length = (END - START) // timedelta(microseconds=1)
    begin = int(START.timestamp()) * 1_000_000
    campaigns, groups, times = [], [], []
    for flight in flights:
        names = np.array(flight.world.group_names(), dtype=object)
        astray = generator.integers(0, len(names), _ASTRAY)
        outside = generator.integers(1, length, _ASTRAY) * generator.choice([-1, 1], _ASTRAY)
        groups += [names[flight.groups], names[astray]]
        times += [
            begin + generator.integers(0, length, len(flight.groups)),
            begin + np.where(outside < 0, outside, length + outside),
        ]
        campaigns += [flight.campaign] * (len(flight.groups) + _ASTRAY)
    columns = {
        "campaign": pa.array(campaigns, pa.string()),
        "group": pa.array(np.concatenate(groups), pa.string()),
        "ts": pa.array(np.concatenate(times), pa.timestamp("us", tz="UTC")),
    }
    pq.write_table(pa.table(columns), file, row_group_size=1 << 16)


def groups_of(engine: kr.EmbeddedEngine, world: World) -> GroupTable:
    """The groups as a publisher would tell them."""
    count = world.group_count
    told = {
        "group": np.array(world.group_names(), dtype=object),
        "size": np.full(count, _SIZE),
    }
    if not world.overlapping:
        told["targeted"] = world.wanted[world.members].sum(axis=1)
        told["dispersion"] = np.full(count, world.dispersion)
        return kr.open_groups(engine, told)
    held: list[list[str]] = [[] for _ in world.wanted]
    for name, members in zip(world.group_names(), world.members.tolist(), strict=True):
        for person in members:
            held[person].append(name)
    classes: dict[str, int] = {}
    for person in np.flatnonzero(world.wanted).tolist():
        key = ";".join(sorted(held[person]))
        classes[key] = classes.get(key, 0) + 1
    listed = {
        "groups": np.array(list(classes), dtype=object),
        "headcount": np.array(list(classes.values())),
    }
    return kr.open_groups(engine, told, listed)


def judge(log: kr.ImpressionLog, groups: GroupTable, flight: Flight) -> Iterator[Held]:
    """Measure one campaign as a user would, and hold every interval against the truth."""
    found = kr.measure_window(log, groups, CAPS, campaign=flight.campaign, start=START, end=END)
    if found.impressions != len(flight.groups) or any(found.rejected.values()):
        raise RuntimeError(f"{flight.campaign}: {found.impressions} impressions, {found.rejected}")
    yield from judge_reports(found.reports, flight)


def judge_reports(reports: Sequence[kr.ReachReport], flight: Flight) -> Iterator[Held]:
    """The intervals of a campaign's reports, one for each of `CAPS`."""
    method = flight.world.method
    for report, quantity in zip(reports, QUANTITIES, strict=False):
        for level in LEVELS:
            low, high = report.interval(level, method)
            expected = _chance_inside(report.reach, report.std, low, high)
            if method == "exact":
                law = report.distribution()
                expected = float(law.pmf[(law.support >= low) & (law.support <= high)].sum())
            yield _held(flight, quantity, level, (low, high), expected, (report.reach, report.std))
    report = reports[0]
    mean, std = float(report.at_least(2)[-1]), sqrt(report.exposure.at_least_variance(2))
    for level in LEVELS:
        low, high = report.at_least_interval(2, level)
        expected = _chance_inside(mean, std, low, high)
        yield _held(flight, "2+ reach", level, (low, high), expected, (mean, std))


def _chance_inside(mean: float, std: float, low: float, high: float) -> float:
    """Of a normal law rounded to whole numbers: each stands for half below to half above it."""
    law = NormalDist(mean, std)
    return law.cdf(floor(high) + 0.5) - law.cdf(ceil(low) - 0.5)


def _held(
    flight: Flight,
    quantity: str,
    level: float,
    interval: tuple[float, float],
    expected: float,
    moments: tuple[float, float],
) -> Held:
    truth, (low, high), (mean, std) = flight.truth(quantity), interval, moments
    return Held(
        flight.world.name,
        quantity,
        level,
        low <= truth <= high,
        expected,
        (truth - mean) / std,
        (high - low) / 2.0 / mean,
    )


def study(chosen: Sequence[World], repetitions: int, seed: int) -> list[Held]:
    """Every campaign of every world through one log."""
    flights = [
        fly(world, number, np.random.default_rng([seed, at, number]))
        for at, world in enumerate(chosen)
        for number in range(repetitions)
    ]
    with tempfile.TemporaryDirectory() as folder, kr.EmbeddedEngine() as engine:
        assert isinstance(engine, kr.EmbeddedEngine)
        file = Path(folder) / "log.parquet"
        write_log(file, flights, seed)
        log = kr.ImpressionLog.open(engine, file)
        tables = {world.name: groups_of(engine, world) for world in chosen}
        return [held for f in flights for held in judge(log, tables[f.world.name], f)]


def main(arguments: Sequence[str]) -> int:
    """Simulate, measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.study_coverage")
    parser.add_argument("--repetitions", type=int, default=200, help="campaigns of each world")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--people", type=int, default=2000)
    asked = parser.parse_args(arguments)
    chosen = worlds(asked.people)
    chosen.append(overlapping_world("overlapping, simulated", _SIMULATED, "exact"))
    found = study(chosen, asked.repetitions, asked.seed)
    print(f"{asked.repetitions} campaigns of each world, groups of {_SIZE}, seed {asked.seed}.")
    for quantity in QUANTITIES:
        print_coverage(quantity, chosen, [h for h in found if h.quantity == quantity])
    return 0


def print_coverage(quantity: str, chosen: Sequence[World], found: Sequence[Held]) -> None:
    """A Markdown table: observed coverage, in brackets expected; a row per world."""
    head = ["world", "people", *(f"{level:.0%}" for level in LEVELS), "95% is ±"]
    print(f"\nHow often the interval for {quantity} held the truth, and should have.\n")
    print(f"| {' | '.join(head)} |")
    print(f"|---|{'---:|' * (len(head) - 1)}")
    for world in chosen:
        cells = [world.name, f"{len(world.wanted):,}"]
        for level in LEVELS:
            mine = [h for h in found if h.world == world.name and h.level == level]
            observed = np.mean([h.held for h in mine])
            cells.append(f"{observed:.1%} ({np.mean([h.expected for h in mine]):.1%})")
            if level == 0.95:
                width = f"{np.mean([h.half_width for h in mine]):.1%}"
        print(f"| {' | '.join([*cells, width])} |")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
