"""Windows and periods to the microsecond, and zones: an instant is an instant."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.log.engine import Engine
from kreach.adsystem.reports.window import SeriesReport
from kreach.boundary.times import Window
from tests.contract.fast_spark import on_engines
from tests.contract.other_time_zone import ZONE, answers
from tests.contract.reference_logs import (
    DAY,
    MICRO,
    START,
    Row,
    assert_close,
    documents,
    expected,
    rows_at,
    write_csv,
    write_groups,
    write_log,
)

HOUR = timedelta(hours=1)
AUDIENCE = kr.Audience.disjoint([3, 2, 4], [3, 1, 4])
IDS = ("a", "b", "c")


def groups_file(folder: Path) -> str:
    return write_groups(
        folder / "groups.parquet", group=list(IDS), size=[3, 2, 4], targeted=[3, 1, 4]
    )


def series_of(
    engine: Engine, folder: Path, rows: Sequence[Row], by: str, **window: Any
) -> SeriesReport:
    """A series on these rows."""
    path = write_log(folder / "log.parquet", rows)
    log, groups = kr.ImpressionLog.open(engine, path), kr.open_groups(engine, groups_file(folder))
    return kr.measure_series(log, groups, [1, 2], by=by, campaign="c", **window)


def assert_series(series: SeriesReport, rows: Sequence[Row]) -> None:
    """Periods follow each other; each is its window alone, and all from the start up to its end."""
    whole = series.whole
    windows = [period.window for period in series.periods]
    assert windows[0].start == whole.window.start
    assert windows[-1].end == whole.window.end
    assert [w.end for w in windows[:-1]] == [w.start for w in windows[1:]]
    for edge in (w.start for w in windows[1:]):
        assert edge is not None
        assert (edge.minute, edge.second, edge.microsecond) == (0, 0, 0)
        assert series.by == "hour" or edge.hour == 0
        assert series.by != "week" or edge.weekday() == 0
    assert sum(period.alone[0].impressions for period in series.periods) == whole.impressions
    for period in series.periods:
        running = Window(whole.window.start, period.window.end)
        for reports, window in ((period.alone, period.window), (period.cumulative, running)):
            counted = expected(rows, "c", window).counts
            impressions = [counted.get(group, 0) for group in IDS]
            for report in reports:
                plain = kr.measure(AUDIENCE, impressions, report.cap)
                assert report.impressions == plain.impressions
                assert report.reach == pytest.approx(plain.reach, rel=1e-12)
                assert report.variance == pytest.approx(plain.variance, rel=1e-9, abs=1e-12)
    first, last = series.periods[0], series.periods[-1]
    for one, other in [
        *zip(first.alone, first.cumulative, strict=True),
        *zip(last.cumulative, whole.reports, strict=True),
    ]:
        assert_close(documents(one), documents(other), rel=0.0)


def test_windows_are_half_open_to_the_microsecond(engine: Engine, tmp_path: Path) -> None:
    edge, other = START, START + DAY
    rows = [
        *rows_at("before", edge - MICRO),
        *rows_at("at", edge),
        *rows_at("after", edge + MICRO),
        *rows_at("last", other - MICRO),
        *rows_at("beyond", other),
    ]
    log = kr.ImpressionLog.open(engine, write_log(tmp_path / "log.parquet", rows))
    inside = {"at", "after", "last"}
    assert set(log.counts(None, edge, other)) == inside
    assert set(log.counts(None, edge, None)) == inside | {"beyond"}
    assert set(log.counts(None, None, other)) == inside | {"before"}
    assert set(log.counts(None, edge, edge + MICRO)) == {"at"}
    assert set(log.counts(None, "2026-10-31T23:59:59.999999Z", "2026-11-01")) == {"before"}
    assert set(log.counts(None, datetime.min, datetime.max)) == inside | {"before", "beyond"}
    berlin = "2026-11-01T01:00:00+01:00"  # the same instant
    assert set(log.counts("c", berlin, other)) == inside
    by_period = log.counts_by_period(None, edge - MICRO, other + MICRO, by="day")
    assert [set(groups) for _, groups in by_period] == [{"before"}, inside, {"beyond"}]


@pytest.mark.parametrize(
    ("engine", "by"),
    on_engines(["hour", "day", "week"], ["day", "week"])
    + on_engines(["day"], others=("clickhouse", "postgres"))[1:],
    indirect=["engine"],
)
def test_a_series_is_its_windows(engine: Engine, tmp_path: Path, by: str) -> None:
    """On the edges of periods, over more than 48 of them, with copies in later periods.

    What the periods are is decided before an engine is asked: Spark has the longest series only.
    """
    step = {"hour": HOUR, "day": DAY, "week": 7 * DAY}[by]
    periods = {"hour": 52, "day": 12, "week": 5}[by]
    start = START + 3 * HOUR / 2 - 2 * DAY
    edge = datetime(2026, 11, 2, tzinfo=UTC)  # a Monday
    rows = [Row(f"i{n}", "c", IDS[n % 3], start + n * periods * step / 40) for n in range(40)]
    rows += [Row(f"i{n}", "c", "b", start + (n + 9) * step) for n in range(0, 40, 7)]
    rows += [Row(f"e{n}", "c", "a", edge + n * MICRO) for n in (-1, 0, 1)]
    rows += [Row("x", "c", "stranger", edge), Row("y", "c", None, edge), Row("z", "d", "a", edge)]
    rows += [Row("old", "c", "a", start - DAY), Row("old", "c", "a", start + step)]
    end = start + periods * step
    series = series_of(engine, tmp_path, rows, by, start=start, end=end)
    assert len(series.periods) == periods + 1
    assert_series(series, rows)
    truth = expected(rows, "c", Window(start, end))
    assert series.whole.rejected["duplicate"] == truth.duplicate
    assert series.whole.impressions == sum(truth.counts.get(group, 0) for group in IDS)
    assert len(series.document().series) == periods + 1


@given(
    st.lists(st.integers(-40, 40), min_size=1, max_size=20),
    st.sampled_from(["hour", "day", "week"]),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=15)
def test_random_series(
    duckdb: Engine,
    tmp_path_factory: pytest.TempPathFactory,
    hours: list[int],
    by: str,
    opens: bool,
    closes: bool,
) -> None:
    """Open ends are closed around the impressions at full periods."""
    rows = [
        Row(f"i{n % 20}", "c", IDS[n % 3], START + at * HOUR + (at % 3 - 1) * MICRO)
        for n, at in enumerate(hours)
    ]
    times = [row.ts for row in rows if row.ts]
    start = None if opens else min(times) - 5 * HOUR / 2
    end = None if closes else max(times) + 7 * HOUR / 3
    folder = tmp_path_factory.mktemp("series")
    series = series_of(duckdb, folder, rows, by, start=start, end=end)
    assert_series(series, rows)
    truth = expected(rows, "c")
    assert series.whole.impressions == sum(truth.counts.get(group, 0) for group in IDS)


def test_open_ends_close_at_full_periods(engine: Engine, tmp_path: Path) -> None:
    """The last microsecond of a day belongs to that day, and opens no further one."""
    rows = rows_at("a", START, START + DAY - MICRO)
    series = series_of(engine, tmp_path, rows, "day")
    assert series.whole.window == Window(START, START + DAY)
    assert len(series.periods) == 1
    assert_series(series, rows)


def test_times_before_1970(duckdb: Engine, tmp_path: Path) -> None:
    """Seconds since 1970 are negative there, and rounding towards 0 would lose an impression."""
    first = datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=UTC)
    rows = rows_at("a", first, first + HOUR)
    series = series_of(duckdb, tmp_path, rows, "hour")
    assert series.whole.impressions == 2
    assert_series(series, rows)


def test_a_series_of_nothing(engine: Engine, tmp_path: Path) -> None:
    """With both ends there are periods without reach; without them there is nothing to hold."""
    series = series_of(engine, tmp_path, [], "day", start=START, end=START + 2 * DAY)
    assert [period.alone[0].impressions for period in series.periods] == [0, 0]
    with pytest.raises(kr.KreachError, match="impressions must hold impressions"):
        series_of(engine, tmp_path / "other", [], "day")


# Zones


@pytest.mark.parametrize(
    "kind",
    [
        pa.timestamp("us", "America/New_York"),
        pa.timestamp("us"),
        pa.timestamp("ms", "UTC"),
    ],
    ids=str,
)
def test_parquet_times_are_instants(engine: Engine, tmp_path: Path, kind: Any) -> None:
    """The zone of a column is how it is shown; a column without one is UTC."""
    times = [START - HOUR, START, START + DAY / 2, START + DAY]
    plain = [ts if kind.tz else ts.replace(tzinfo=None) for ts in times]
    rows = rows_at("a", *times)
    path = write_log(tmp_path / "log.parquet", rows, ts=pa.array(plain, kind))
    log = kr.ImpressionLog.open(engine, path)
    assert log.counts("c", START, START + DAY) == {"a": 2}
    if kind.tz == "UTC" and engine.dialect != "duckdb":
        return
    by_period = kr.measure_series(log, kr.open_groups(engine, groups_file(tmp_path)), [1], by="day")
    assert [period.alone[0].impressions for period in by_period.periods] == [1, 2, 1]
    assert by_period.whole.window == Window(START - DAY, START + 2 * DAY)


def test_dates_are_their_first_instant(engine: Engine, tmp_path: Path) -> None:
    rows = rows_at("a", START, START + DAY)
    days = pa.array([row.ts.date() for row in rows if row.ts], pa.date32())
    log = kr.ImpressionLog.open(engine, write_log(tmp_path / "log.parquet", rows, ts=days))
    assert log.counts(None, START, START + MICRO) == {"a": 1}
    assert log.counts(None, START + MICRO, None) == {"a": 1}


SAME = {  # ways to write the first instant of November 2026
    "2026-11-01T00:00:00Z": False,
    "2026-11-01 00:00:00": False,
    "2026-11-01T00:00:00": False,
    "2026-11-01": False,
    "2026-11-01 00:00:00.000000": False,
    "2026-11-01 00:00:00+00:00": False,
    "2026-11-01 00:00:00+00": False,
    "2026-11-01 00:00:00 Etc/UTC": False,
    "2026-11-01T01:00:00+01:00": True,
    "2026-11-01 01:00:00+01": True,
    "2026-11-01T05:30:00.000000+05:30": True,
    "2026-10-31 20:00:00-04:00": True,
    "2026-10-31 20:00:00 America/New_York": True,
    "2026-11-01 01:00:00 Europe/Berlin": True,
    "2026-10-31 21:00:00 America/Argentina/Buenos_Aires": True,
    "2026-10-31T20:00:00-0400": True,
    "2026-10-31 19:00:00 Etc/GMT+5": True,
    "2026-10-31 20:00:00 America/Port-au-Prince": True,
}


def test_text_times_with_offsets_and_zones(engine: Engine, tmp_path: Path) -> None:
    """However a CSV writes an instant; the report tells how many rows named another zone."""
    lines = [f"i{at},c,g{at},{text}" for at, text in enumerate(SAME)]
    path = write_csv(tmp_path / "log.csv", "impression_id,campaign,group,ts", *lines)
    log = kr.ImpressionLog.open(engine, path)
    by_period = log.counts("c", START, START + MICRO)
    assert {text for at, text in enumerate(SAME) if f"g{at}" not in by_period} == set()
    groups = write_groups(
        tmp_path / "groups.parquet",
        group=[f"g{at}" for at in range(len(SAME))],
        size=[2] * len(SAME),
    )
    report = kr.measure_window(log, kr.open_groups(engine, groups), [1], campaign="c")
    assert report.warnings["converted_to_utc"] == sum(SAME.values())
    assert report.rejected["no_time"] == 0


NO_TIMES = [
    "never",
    "2026-13-01",
    "2026-02-30 00:00:00",
    "2026-11-01 25:00:00",
    "12:34:56",
    "T12:34:56",
    "1793491200",
    "2026",
    "2026-11",
    "infinity",
    "epoch",
    "now",
    "2026-11-01 00:00:00 Mars/Olympus",
]


def test_text_that_is_no_time_is_missing(engine: Engine, tmp_path: Path) -> None:
    """The same on both engines: neither today at half past twelve nor a year nor infinity."""
    lines = [f"i{at},c,g{at},{text}" for at, text in enumerate(NO_TIMES)]
    path = write_csv(tmp_path / "log.csv", "impression_id,campaign,group,ts", *lines, "x,c,x,")
    by_period = kr.ImpressionLog.open(engine, path).counts("c")
    assert {text for at, text in enumerate(NO_TIMES) if f"g{at}" in by_period} == set()
    assert "x" not in by_period


def write_files(folder: Path) -> None:
    times = [START - HOUR, START, START + DAY - HOUR, START + DAY]
    rows = rows_at("a", *times)
    naive = pa.array([ts.replace(tzinfo=None) for ts in times], pa.timestamp("us"))
    write_log(folder / "naive.parquet", rows, ts=naive)
    write_log(folder / "zoned.parquet", rows)
    lines = [f"i{at},c,a,{ts:%Y-%m-%d %H:%M:%S}" for at, ts in enumerate(times)]
    write_csv(folder / "text.csv", "impression_id,campaign,group,ts", *lines)
    groups_file(folder)


AT_HOME = {
    "naive.parquet": {"a": 2},
    "zoned.parquet": {"a": 2},
    "text.csv": {"a": 2},
    "appended": {"a": 1},
    "late": 0,
    "day": "2026-11-01T00:00:00Z",
    "memory": {"a": 1},
}


def test_the_zone_of_the_machine_does_not_matter(tmp_path: Path) -> None:
    """In New York all is as in UTC: a process of its own, since DuckDB asks for the zone once."""
    write_files(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.contract.other_time_zone", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TZ": ZONE},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == AT_HOME


@pytest.fixture
def in_new_york() -> Iterator[None]:
    """This process is there for a while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", ZONE)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.xdist_group("spark")
@pytest.mark.usefixtures("in_new_york")
def test_nor_does_it_to_spark(spark: Engine, tmp_path: Path) -> None:
    """Java is in New York in all of these tests, and here Python is too."""
    assert isinstance(spark, kr.SparkEngine)
    java = spark._root.sparkContext._jvm.java.util.TimeZone
    assert java.getDefault().getID() == ZONE
    assert datetime(2026, 11, 1).astimezone(UTC).hour == 4
    write_files(tmp_path)
    assert answers(spark, tmp_path) == AT_HOME
