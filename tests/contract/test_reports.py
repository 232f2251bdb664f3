"""Random logs: every engine and plain Python count alike and report alike."""

import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

import kreach as kr
from kreach.adsystem.log import exposures as folds
from kreach.adsystem.log.engine import Engine
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.queries import counts, histogram
from kreach.adsystem.reports.window import WindowReport
from kreach.boundary.audience import OverlappingAudience
from kreach.boundary.times import Window
from tests.contract.reference_logs import (
    DAY,
    MICRO,
    START,
    Row,
    assert_close,
    assert_report,
    audience_columns,
    expected,
    named_classes,
    write_classes,
    write_groups,
    write_log,
)
from tests.strategies import disjoint, overlapping, profiled

# Ids are opaque: a number, the same number written otherwise, signs that mean something elsewhere.
IDS = ("g", "o'brien", '"7"', "7", "007", "a;b,c", "größe ✓", "back\\slash", "${x}", " ")
CAMPAIGNS = ("c", "it's", None)
EDGES = [START + DAY * n for n in range(4)]

_times = st.one_of(
    st.sampled_from([edge + shift for edge in EDGES for shift in (-MICRO, 0 * MICRO, MICRO)]),
    st.datetimes(datetime(2026, 10, 31), datetime(2026, 11, 5)).map(
        lambda moment: moment.replace(tzinfo=START.tzinfo)
    ),
)


@dataclass(frozen=True)
class Case:
    """A log in files, groups, and a question."""

    audience: kr.Audience
    ids: tuple[str, ...]
    files: tuple[tuple[Row, ...], ...]
    campaign: str | None
    window: Window
    caps: tuple[int, ...]

    @property
    def rows(self) -> list[Row]:
        return [row for file in self.files for row in file]

    def report(self, engine: Engine, folder: Path) -> WindowReport:
        """Write everything down and ask an engine."""
        return self.question(engine, folder)()

    def question(self, engine: Engine, folder: Path) -> Callable[[], WindowReport]:
        """Write everything down, to ask an engine as often as one likes."""
        for at, file in enumerate(self.files):
            write_log(folder / "log" / f"part-{at}.parquet", file)
        groups = write_groups(
            folder / "groups.parquet", **audience_columns(self.audience, self.ids)
        )
        classes = None
        if isinstance(self.audience, OverlappingAudience):
            listed = named_classes(self.audience, self.ids)
            classes = write_classes(folder / "classes.parquet", listed)
        log = kr.ImpressionLog.open(engine, str(folder / "log"))
        return partial(
            kr.measure_window,
            log,
            kr.open_groups(engine, groups, classes),
            self.caps,
            campaign=self.campaign,
            start=self.window.start,
            end=self.window.end,
        )


@st.composite
def rows(draw: st.DrawFn, groups: tuple[str, ...], most: int) -> list[Row]:
    """Few ids, so that most come twice; groups, times and campaigns may be missing or unknown."""
    one = st.builds(
        Row,
        st.one_of(st.none(), st.integers(0, most // 2).map("id-{}".format)),
        st.sampled_from(CAMPAIGNS),
        st.sampled_from([*groups, *groups, "a stranger", None]),
        st.one_of(st.none(), _times, _times, _times, _times),
    )
    drawn = draw(st.lists(one, max_size=most))
    again = draw(st.lists(st.sampled_from(drawn), max_size=5)) if drawn else []
    return drawn + again


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Open or closed, at the edges that rows lie on."""
    edges = st.one_of(st.none(), st.sampled_from(EDGES), _times)
    start, end = draw(edges), draw(edges)
    if start is not None and end is not None and start >= end:
        start = None if start == end else start
        start, end = (None, end) if start is None else (end, start)
    return Window(start, end)


@st.composite
def cases(draw: st.DrawFn, audiences: st.SearchStrategy[kr.Audience], most: int = 25) -> Case:
    """A case on an audience of the given kind."""
    audience = draw(audiences)
    ids = tuple(draw(st.permutations(IDS))[: audience.group_count])
    drawn = draw(rows(ids, most))
    cuts = sorted(draw(st.lists(st.integers(0, len(drawn)), max_size=2)))
    edges = [0, *cuts, len(drawn)]
    files = tuple(tuple(drawn[a:b]) for a, b in itertools.pairwise(edges))
    campaign = draw(st.sampled_from(CAMPAIGNS))
    caps = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=2, unique=True)))
    return Case(audience, ids, files, campaign, draw(windows()), caps)


KINDS = {"disjoint": disjoint(), "profiled": profiled(), "overlapping": overlapping()}
of_any_kind = st.one_of(*(cases(kind) for kind in KINDS.values()))


@given(of_any_kind)
@settings(max_examples=40)
def test_a_report_is_what_the_library_says_about_the_counts(duckdb: Engine, case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = case.report(duckdb, Path(folder))
    assert_report(result, case.audience, case.ids, expected(case.rows, case.campaign, case.window))


@cache
def richest(kind: str, count: int) -> list[Case]:
    """Of many random cases those with most to get wrong: a question to a server takes a second."""
    drawn: list[tuple[int, Case]] = []

    @given(cases(KINDS[kind], most=60))
    @settings(max_examples=100)
    def collect(case: Case) -> None:
        truth = expected(case.rows, case.campaign, case.window)
        result = (
            truth.duplicate,
            truth.no_group,
            truth.no_time,
            len(truth.counts),
            len(case.files),
        )
        drawn.append((sum(min(number, 3) for number in result), case))

    collect()
    drawn.sort(key=lambda scored: -scored[0])
    return [case for _, case in drawn[:count]]


@pytest.mark.parametrize("kind", KINDS)
def test_engines_give_the_same_report(
    duckdb: Engine, other: Engine, kind: str, tmp_path: Path
) -> None:
    """To the last digit, and the same as the library."""
    for at, case in enumerate(richest(kind, 1)):
        one, two = (case.report(engine, tmp_path / str(at)) for engine in (duckdb, other))
        truth = expected(case.rows, case.campaign, case.window)
        assert_report(two, case.audience, case.ids, truth)
        if kind == "profiled":
            assert_close(to_builtins(one.document()), to_builtins(two.document()), rel=1e-12)
        else:
            assert one.document() == two.document()


def test_many_random_logs_in_one_question(duckdb: Engine, other: Engine, tmp_path: Path) -> None:
    """Logs side by side, each with ids and groups of its own: one question answers for all."""
    logs: list[list[Row]] = []

    @given(rows(("g", "h", "7"), 12))
    @settings(max_examples=150)
    def collect(log: list[Row]) -> None:
        logs.append(log)

    collect()
    apart = [
        Row(
            None if row.impression_id is None else f"{at}/{row.impression_id}",
            row.campaign,
            None if row.group is None else f"{at}/{row.group}",
            row.ts,
        )
        for at, log in enumerate(logs)
        for row in log
    ]
    for part in range(3):
        write_log(tmp_path / "log" / f"{part}.parquet", apart[part::3])
    for campaign, window in [
        (None, Window()),
        ("it's", Window(EDGES[1], EDGES[2])),
    ]:
        truth = expected(apart, campaign, window).counts
        for engine in (duckdb, other):
            log = kr.ImpressionLog.open(engine, str(tmp_path / "log"))
            assert log.counts(campaign, window.start, window.end) == truth


def test_engines_give_the_same_histogram(duckdb: Engine, other: Engine, tmp_path: Path) -> None:
    """What a report is made from, cell by cell: groups by kind and impressions."""
    drawn = [Row(f"i{n % 37}", "c", f"g{n % 7}", START + n * DAY / 9) for n in range(50)] + [
        Row(f"n{n}", "c", None, START) for n in range(3)
    ]
    log = write_log(tmp_path / "log.parquet", drawn)
    groups = write_groups(
        tmp_path / "groups.parquet",
        group=[f"g{n}" for n in range(6)],
        size=[1, 2, 2, 3, 3, 3],
        targeted=[1, 0, 2, 3, 3, 3],
        dispersion=[None, 0.5, 2.0, 0.5, 0.5, float("inf")],
    )
    slots = Window(START, START + 3 * DAY).periods("day")
    cells = []
    for engine in (duckdb, other):
        table = kr.ImpressionLog.open(engine, log).table
        opened = kr.open_groups(engine, groups)
        result = engine.columns(histogram(counts(table, Place("c"), slots), opened, len(slots)))
        names = ("status", "size", "targeted", "dispersion", "code", "groups", "copies")
        listed = zip(*(result[name].tolist() for name in names), strict=True)
        cells.append(sorted(listed, key=repr))
    assert cells[0] == cells[1]


def overlap_case(engine: Engine, folder: Path, case: Case) -> tuple[WindowReport, WindowReport]:
    """The same question class by class and tallied inside the engine."""
    ask = case.question(engine, folder)
    sharp = ask()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folds, "_MAX_MEMBERSHIPS", 0)
        return sharp, ask()


def assert_tallies_agree(sharp: WindowReport, tallied: WindowReport) -> None:
    """All but the bounds agree; those of the tallies hold the sharp ones."""
    assert tallied.rejected == sharp.rejected
    assert tallied.impressions == sharp.impressions
    for one, other in zip(sharp.reports, tallied.reports, strict=True):
        assert type(one.exposure) is not type(other.exposure)
        assert other.reach == pytest.approx(one.reach, rel=1e-11, abs=1e-11)
        assert other.variance == pytest.approx(one.variance, rel=1e-9, abs=1e-9)
        assert other.over_exposed == pytest.approx(one.over_exposed, rel=1e-10, abs=1e-11)
        assert np.allclose(other.frequency(6), one.frequency(6), rtol=1e-10, atol=1e-11)
        assert other.average_frequency == pytest.approx(one.average_frequency, rel=1e-10)
        for count in range(1, 5):
            variance = one.exposure.at_least_variance(count)
            result = other.exposure.at_least_variance(count)
            assert result == pytest.approx(variance, rel=1e-9, abs=1e-9)
        assert other.bounds[0] <= one.bounds[0] <= one.bounds[1] <= other.bounds[1]
        assert other.bounds[0] <= one.reach + 1e-9
        assert one.reach <= other.bounds[1] + 1e-9


@given(cases(overlapping(), most=40))
@settings(max_examples=20)
def test_tallied_overlap_is_what_the_library_says(duckdb: Engine, case: Case) -> None:
    """The path for classes too many to look at one by one, on classes few enough to compare."""
    with tempfile.TemporaryDirectory() as folder:
        sharp, tallied = overlap_case(duckdb, Path(folder), case)
    assert_tallies_agree(sharp, tallied)


MIXED = kr.Audience.overlapping(
    [9, 9, 4, 1, 5],
    [((0,), 3), ((0, 1), 2), ((1, 2), 1), ((0, 1, 2), 2), ((1,), 2), ((3, 0), 1), ((1, 0), 1)],
)
MIXED_CASE = Case(
    MIXED,
    ("a", "b;c", "d'", "ü", "nobody's"),
    (
        tuple(
            Row(f"i{n}", "c", group, START + n * MICRO)
            for n, group in enumerate(["a"] * 5 + ["b;c"] * 4 + ["d'"] * 3 + ["ü"] * 2 + ["x"])
        ),
        tuple(Row(f"i{n}", "c", "a", START + DAY) for n in range(3)),
        tuple(Row(f"j{n}", "c", "nobody's", START + DAY) for n in range(3)),
    ),
    "c",
    Window(),
    (1, 2, 3),
)


def test_tallied_overlap_is_the_same_on_every_engine(
    duckdb: Engine, other: Engine, tmp_path: Path
) -> None:
    """Mixed sizes, a group of one, a class listed twice, a group that nobody targeted is in."""
    result = [overlap_case(engine, tmp_path, MIXED_CASE) for engine in (duckdb, other)]
    for sharp, tallied in result:
        assert_report(sharp, MIXED, MIXED_CASE.ids, expected(MIXED_CASE.rows, "c"))
        assert_tallies_agree(sharp, tallied)
    documents = [[report.document() for report in pair] for pair in result]
    assert documents[0] == documents[1]


def test_groups_without_classes_reach_nobody(engine: Engine, tmp_path: Path) -> None:
    """No class, nobody targeted: impressions are counted, reach is 0."""
    log = write_log(tmp_path / "log.parquet", [Row("1", "c", "a", START)])
    groups = write_groups(tmp_path / "groups.parquet", group=["a"], size=[3])
    classes = write_classes(tmp_path / "classes.parquet", [])
    result = kr.measure_window(
        kr.ImpressionLog.open(engine, log), kr.open_groups(engine, groups, classes), [1]
    )
    assert result.impressions == 1
    assert result.report(1).reach == 0.0
    assert result.document().people == 0


def test_an_empty_log_reaches_nobody(engine: Engine, tmp_path: Path) -> None:
    """Not an error: nothing was shown yet."""
    log = write_log(tmp_path / "log.parquet", [])
    groups = write_groups(tmp_path / "groups.parquet", group=["a", "b"], size=[2, 3])
    opened = kr.open_groups(engine, groups)
    result = kr.measure_window(kr.ImpressionLog.open(engine, log), opened, [1], campaign="c")
    assert result.impressions == 0
    assert set(result.rejected.values()) == {0}
    assert result.document().reports[0].interval == (0.0, 0.0)
    assert result.document().people == 5
