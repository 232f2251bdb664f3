"""A log in which it is known, but not to us, who saw what: intervals must hold the truth.

The worlds are those of benchmarks/study_coverage.py, smaller. Every repetition is a campaign of one
log file. Hits are held against the chances that the reports themselves promise, by the exact law of
their number: a test fails where that many, or that few, have a chance below `RARE`, that of four
standard deviations. (Four standard deviations of the hits would not do: of 40 intervals at 99 % 0.4
should miss, and three do in one log of 130.) Seeds are fixed.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.study_coverage import (
    CAPS,
    LEVELS,
    QUANTITIES,
    Flight,
    Held,
    World,
    fly,
    groups_of,
    judge,
    main,
    overlapping_world,
    worlds,
    write_log,
)
from scipy.stats import chi2

import kreach as kr
from kreach.adsystem.log import exposures as folds
from kreach.adsystem.log.tables import GroupTable
from kreach.adsystem.measurement import report as report_module
from kreach.numeric.types import FloatArray

STRAY = 4.0
RARE = 1.0 - NormalDist().cdf(STRAY)
CAMPAIGNS = 40
HOURS = 72
UNIFORM, DISPERSED, PARTLY, _, OVERLAPPING = worlds(400)
SIMULATED = overlapping_world("overlapping, simulated", 100, "exact")
FLOWN = (UNIFORM, DISPERSED, PARTLY, OVERLAPPING, SIMULATED)


class Truth:
    """One engine, one log of all campaigns, and who saw what."""

    def __init__(self, engine: kr.EmbeddedEngine, file: Path) -> None:
        self.flights = {
            world.name: [
                fly(world, number, np.random.default_rng([7, at, number]))
                for number in range(CAMPAIGNS)
            ]
            for at, world in enumerate(FLOWN)
        }
        write_log(file, [f for flights in self.flights.values() for f in flights], seed=7)
        self.engine = engine
        self.log = kr.ImpressionLog.open(engine, file)

    def judged(
        self, world: World, groups: GroupTable | None = None, campaigns: int = CAMPAIGNS
    ) -> list[Held]:
        known = groups_of(self.engine, world) if groups is None else groups
        flights = self.flights[world.name][:campaigns]
        return [outcomes for flight in flights for outcomes in judge(self.log, known, flight)]


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Truth]:
    with kr.EmbeddedEngine(threads=1) as engine:
        assert isinstance(engine, kr.EmbeddedEngine)
        yield Truth(engine, tmp_path_factory.mktemp("truth") / "log.parquet")


def tails(outcomes: list[Held]) -> tuple[float, float]:
    """The chance of so few hits or fewer, and of so many or more, if promises are kept."""
    law = np.ones(1)
    for one in outcomes:
        law = np.convolve(law, [1.0 - one.expected, one.expected])
    hits = sum(one.held for one in outcomes)
    return float(law[: hits + 1].sum()), float(law[hits:].sum())


def check_errors(errors: FloatArray) -> None:
    """Standardised errors: mean 0, and a sum of squares that is χ² with as many degrees."""
    assert abs(errors.mean()) <= STRAY / np.sqrt(len(errors))
    assert RARE <= chi2.cdf(np.sum(errors**2), len(errors)) <= 1.0 - RARE


def check(outcomes: list[Held], *, own_law: bool) -> None:
    for quantity in QUANTITIES:
        mine = [h for h in outcomes if h.quantity == quantity]
        for level in LEVELS:
            here = [h for h in mine if h.level == level]
            assert min(tails(here)) >= RARE, (quantity, level)
            # an interval of whole numbers from the law itself holds at least the level; a normal
            # one has ends between whole numbers, and misses or gains one of them
            if own_law and quantity != "2+ reach":
                assert all(h.expected >= level - 1e-9 for h in here)
            assert np.mean([h.expected for h in here]) == pytest.approx(level, abs=0.11)
        check_errors(np.array([h.error for h in mine if h.level == LEVELS[0]]))


@pytest.mark.parametrize("world", [UNIFORM, DISPERSED, PARTLY], ids=lambda w: w.name)
def test_intervals_hold_the_truth(truth: Truth, world: World) -> None:
    """Disjoint groups, from the exact law of reach."""
    check(truth.judged(world), own_law=True)


def test_intervals_of_overlapping_groups_hold_the_truth(truth: Truth) -> None:
    check(truth.judged(OVERLAPPING, campaigns=25), own_law=False)


def test_tallies_promise_the_same(truth: Truth, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were too many classes to look at: the engine tallies them and pairs of them."""
    by_class = truth.judged(OVERLAPPING, campaigns=6)
    monkeypatch.setattr(folds, "_MAX_MEMBERSHIPS", 0)
    tallied = truth.judged(OVERLAPPING, campaigns=6)
    assert len(tallied) == 6 * len(QUANTITIES) * len(LEVELS)
    for one, other in zip(by_class, tallied, strict=True):
        assert one.held == other.held
        assert one.error == pytest.approx(other.error, rel=1e-8)
        assert one.expected == pytest.approx(other.expected, rel=1e-8)
        assert one.half_width == pytest.approx(other.half_width, rel=1e-8)


def test_simulated_intervals_hold_the_truth(truth: Truth, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law of overlapping groups is simulated; fewer trials than usual, to be done sooner."""
    monkeypatch.setattr(report_module, "_MAX_TRIALS", 2_000)
    check(truth.judged(SIMULATED, campaigns=20), own_law=True)


def test_an_interval_of_the_wrong_world_does_not(truth: Truth) -> None:
    """These tests can fail: groups told as uniform whose members visit unequally often."""
    known = World(DISPERSED.name, DISPERSED.members, DISPERSED.wanted)
    outcomes = truth.judged(known, groups_of(truth.engine, known), campaigns=10)
    for quantity in QUANTITIES[:2]:
        here = [h for h in outcomes if h.quantity == quantity and h.level == 0.95]
        assert tails(here)[0] < RARE
        assert np.mean([h.error for h in here]) < -STRAY


def test_the_log_holds_nobody(truth: Truth, tmp_path: Path) -> None:
    write_log(tmp_path / "log.parquet", truth.flights["uniform"][:2], seed=1)
    assert pq.read_table(tmp_path / "log.parquet").column_names == ["campaign", "group", "ts"]


def hourly_log(file: Path, flights: list[Flight], start: datetime) -> None:
    """One campaign whose hours are the given flights."""
    names = np.array(flights[0].world.group_names(), dtype=object)
    generator = np.random.default_rng(3)
    hour = timedelta(hours=1) // timedelta(microseconds=1)
    begin = int(start.timestamp()) * 1_000_000
    times = [
        begin + at * hour + generator.integers(0, hour, len(flight.groups))
        for at, flight in enumerate(flights)
    ]
    groups = np.concatenate([names[flight.groups] for flight in flights])
    columns = {
        "campaign": pa.array(["hourly"] * len(groups), pa.string()),
        "group": pa.array(groups, pa.string()),
        "ts": pa.array(np.concatenate(times), pa.timestamp("us", tz="UTC")),
    }
    pq.write_table(pa.table(columns), file)


@pytest.mark.parametrize("world", [PARTLY, OVERLAPPING], ids=lambda w: w.name)
def test_a_series_holds_the_truth_of_every_hour(truth: Truth, world: World, tmp_path: Path) -> None:
    """Many more repetitions, as hours of one series: mean and std alone are held to account."""
    hours = HOURS // 12 if world.overlapping else HOURS
    flights = [fly(world, at, np.random.default_rng([8, at])) for at in range(hours)]
    start = datetime(2026, 11, 2, 5, tzinfo=UTC)
    hourly_log(tmp_path / "log.parquet", flights, start)
    log = kr.ImpressionLog.open(truth.engine, tmp_path / "log.parquet")
    groups = groups_of(truth.engine, world)
    series = kr.measure_series(log, groups, CAPS, by="hour", campaign="hourly", start=start)
    assert len(series.periods) == hours
    together = np.sum([flight.seen for flight in flights], axis=0)
    for at, (cap, quantity) in enumerate(zip(CAPS, QUANTITIES, strict=False)):
        reports = [period.alone[at] for period in series.periods]
        assert [r.impressions for r in reports] == [len(flight.groups) for flight in flights]
        errors = np.array(
            [
                (flight.truth(quantity) - report.reach) / report.std
                for flight, report in zip(flights, reports, strict=True)
            ]
        )
        check_errors(errors)
        # the whole series is one campaign: people seen in two hours count once
        so_far = np.cumsum([flight.seen for flight in flights[:3]], axis=0)
        for seen, period in zip(so_far, series.periods, strict=False):
            report = period.cumulative[at]
            reached = int(np.minimum(seen, cap).sum())
            assert abs(reached - report.reach) <= 5.0 * report.std
        whole = series.whole.report(cap)
        assert abs(np.minimum(together, cap).sum() - whole.reach) <= 5.0 * whole.std + 1e-6


def test_the_study_prints_the_same_tables_for_a_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_module, "_MAX_TRIALS", 500)
    arguments = ["--repetitions", "1", "--people", "100", "--seed", "3"]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert main(arguments) == 0
    assert capsys.readouterr().out == first
    for quantity in QUANTITIES:
        assert quantity in first
    assert first.count("| uniform |") == len(QUANTITIES)
