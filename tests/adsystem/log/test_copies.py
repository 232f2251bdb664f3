"""Ids are searched by their hashes: what shares one in different groups is never confused."""

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
    "shared across groups": lambda ids: ids.right(1).ascii_str(),
}
OWN_IDS = [(f"{group}{number}", group) for group in [*GROUPS, "stranger"] for number in (1, 2)]
ANY_IDS = [(name, group) for name in ("x", "y") for group in [*GROUPS, "stranger"]]
ODD_IDS = [("x", None), (None, "a"), (None, None), ("", "b")]
ROWS = st.lists(
    st.builds(
        lambda row, campaign, hour: Row(row[0], campaign, row[1], START + hour * HOUR),
        st.sampled_from([*OWN_IDS, *ANY_IDS, *ODD_IDS]),
        st.sampled_from(["spring", "summer"]),
        st.integers(-24, 48),
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
@settings(max_examples=25)
@given(rows=ROWS)
def test_ids_of_different_groups_may_share_a_hash(
    engine: kr.EmbeddedEngine,
    groups: GroupTable,
    log: kr.ImpressionLog,
    marks: str,
    rows: list[Row],
) -> None:
    """Windows, series and campaigns together; an id may also be in several groups."""
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


@pytest.mark.parametrize("kind", ["VARCHAR", "BIGINT", "UBIGINT"])
def test_copies_are_found_in_logs_whose_groups_are_numbers(kind: str) -> None:
    with kr.EmbeddedEngine(threads=1) as engine:
        engine.run(
            f"""CREATE TABLE numbered AS SELECT impression_id, 'spring' AS campaign,
            number::{kind} AS "group", ts FROM (VALUES ('x', 7, TIMESTAMP '2026-10-01 01:00'),
            ('x', 7, '2026-10-01'), ('y', 9, '2026-10-01'), ('z', NULL, '2026-10-01'))
            AS rows(impression_id, number, ts)"""
        )
        groups = kr.open_groups(engine, {"group": ["7", "9"], "size": [20, 20]})
        log = kr.ImpressionLog.open(engine, "#numbered")
        report = kr.measure_window(log, groups, [1], campaign="spring")
    assert report.impressions == 2
    assert report.rejected["no_group"] == 1
    assert report.rejected["unknown_group"] == 0
    assert report.rejected["duplicate"] == 1


def test_ids_that_count_upwards_have_different_hashes(engine: kr.EmbeddedEngine) -> None:
    """Hashes that repeat on such ids would make every row a candidate."""
    for form in ("i::VARCHAR", "'imp-' || i", "format('{:032x}', i)", "(i * 4096)::VARCHAR"):
        numbers = f"SELECT {form} AS impression_id FROM range(1000000) numbers(i)"
        mark = "hash(impression_id) >> 1"
        found = engine.run(f"SELECT count(DISTINCT {mark}) AS marks FROM ({numbers})")
        assert int(found["marks"][0]) == 1_000_000, form
