"""Ids are searched by their hashes and compared by themselves: nothing depends on the hashes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import ibis.expr.types as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kreach as kr
from kreach.adsystem.log import copies
from kreach.adsystem.log.parts import LogPart, read_parts
from kreach.adsystem.log.tables import GroupTable
from kreach.boundary.times import Window
from tests.contract.reference_logs import DAY, START, Row, expected

GROUPS = ["a", "b", "c"]
HOUR = timedelta(hours=1)
MARKS: dict[str, Callable[[ir.Value], ir.Value]] = {
    "hash": copies.mark_of,
    "few marks": lambda ids: ids.length(),
    "one mark": lambda ids: ids.length() * 0,
}
ROWS = st.lists(
    st.builds(
        Row,
        st.sampled_from(["x", "y", "z", "xx", "yy", "", None]),
        st.sampled_from(["spring", "summer"]),
        st.sampled_from([*GROUPS, "stranger", None]),
        st.integers(-24, 48).map(lambda hour: START + hour * HOUR),
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def engine() -> Iterator[kr.EmbeddedEngine]:
    opened = kr.EmbeddedEngine(threads=1)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def groups(engine: kr.EmbeddedEngine) -> GroupTable:
    return kr.open_groups(engine, {"group": GROUPS, "size": [20] * 3})


@contextmanager
def marked_by(name: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copies, "mark_of", MARKS[name])
        yield


@pytest.fixture(scope="module")
def log(engine: kr.EmbeddedEngine) -> kr.ImpressionLog:
    return kr.ImpressionLog.create(engine, "#impressions")


def fill(engine: kr.EmbeddedEngine, rows: list[Row]) -> None:
    engine.run("DELETE FROM impressions")
    for row in rows:
        values = ", ".join("NULL" if value is None else f"'{value}'" for value in row)
        engine.run(f"INSERT INTO impressions BY POSITION SELECT {values}, NULL, NULL")


@pytest.mark.parametrize("marks", MARKS)
@settings(max_examples=12)
@given(rows=ROWS)
def test_reports_do_not_depend_on_the_hashes(
    engine: kr.EmbeddedEngine,
    groups: GroupTable,
    log: kr.ImpressionLog,
    marks: str,
    rows: list[Row],
) -> None:
    """Windows, series and campaigns together, where no, some or all ids share a hash."""
    fill(engine, rows)
    window, days = Window(START, START + DAY), [START, START + DAY]
    truth = expected(rows, "spring", window)
    known = sum(n for group, n in truth.counts.items() if group in GROUPS)
    with marked_by(marks):
        report = kr.measure_window(
            log, groups, [1], campaign="spring", start=window.start, end=window.end
        )
        together = read_parts(
            engine,
            log.table,
            groups,
            [LogPart(name, name, window) for name in ("spring", "summer")],
        )
        series = kr.measure_series(
            log, groups, [1], campaign="spring", start=START, end=START + 2 * DAY, by="day"
        )
        counted = log.counts("spring", window.start, window.end)
    assert counted == truth.counts
    assert report.impressions == known
    assert report.rejected["duplicate"] == truth.duplicate
    assert report.rejected["no_group"] == truth.no_group
    other = expected(rows, "summer", window)
    assert together.rejected["duplicate"] == truth.duplicate + other.duplicate
    assert [list(one) for one in together.by_part] == [
        [one.counts.get(group, 0) for group in GROUPS] for one in (truth, other)
    ]
    by_day = [expected(rows, "spring", Window(day, day + DAY)).counts for day in days]
    assert [period.impressions for period in series.document().series] == [
        sum(n for group, n in counts.items() if group in GROUPS) for counts in by_day
    ]
