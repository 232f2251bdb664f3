"""Copies: of the rows that share an id the earliest counts, then the least group."""

from pathlib import Path

import kreach as kr
from kreach.adsystem.log.engine import Engine
from kreach.boundary.times import Window
from tests.contract.reference_logs import DAY, MICRO, START, Row, expected, write_groups, write_log

MIDNIGHT = START + DAY
FILES = {
    "0": [
        Row("twice in a file", "c", "a", START),
        Row("twice in a file", "c", "a", START),
        Row("in two files", "c", "b", START + MICRO),
        Row("after midnight", "c", "a", MIDNIGHT - MICRO),
        Row("two groups at once", "c", "b", START),
        Row("later group is less", "c", "a", START + MICRO),
        Row(None, "c", "a", START),
        Row(None, "c", "a", START),
        Row("first without group", "c", None, START),
        Row("first without time", "c", "a", None),
    ],
    "1": [
        Row("in two files", "c", "b", START),
        Row("after midnight", "c", "a", MIDNIGHT),
        Row("two groups at once", "c", "a", START),
        Row("later group is less", "c", "b", START),
        Row("first without group", "c", "b", START + MICRO),
        Row("first without time", "c", "b", START + MICRO),
        Row("known, then not", "c", "a", START),
        Row("known, then not", "c", "zz stranger", START + MICRO),
        Row("not, then known", "c", "zz stranger", START),
        Row("not, then known", "c", "a", START + MICRO),
        Row("two campaigns", "c", "a", START),
        Row("two campaigns", "d", "a", START - DAY),
        Row("before the window", "c", "b", START - MICRO),
        Row("before the window", "c", "b", START),
        Row("beyond the window", "c", "b", START),
        Row("beyond the window", "c", "a", START + 9 * DAY),
    ],
}
ROWS = FILES["0"] + FILES["1"]
OF_C = {"a": 7, "b": 5, "zz stranger": 1}  # by hand, in [START, MIDNIGHT)


def folder_of(path: Path) -> str:
    for name, rows in FILES.items():
        write_log(path / f"part-{name}.parquet", rows)
    return str(path)


def test_each_impression_counts_once(engine: Engine, tmp_path: Path) -> None:
    """Whichever file holds the copy; ids are compared within a campaign, or in the whole log."""
    log = kr.ImpressionLog.open(engine, folder_of(tmp_path / "log"))
    first = Window(START, MIDNIGHT)
    assert expected(ROWS, "c", first).counts == OF_C
    assert log.counts("c", START, MIDNIGHT) == OF_C
    # in the whole log "two campaigns" was shown the day before
    assert log.counts(None, START, MIDNIGHT) == OF_C | {"a": 6}
    assert expected(ROWS, None, first).counts == OF_C | {"a": 6}
    # a retry after midnight is no impression of the next day
    assert log.counts("c", MIDNIGHT) == {} == expected(ROWS, "c", Window(MIDNIGHT)).counts


def test_copies_are_counted_where_they_lie(engine: Engine, tmp_path: Path) -> None:
    """A copy is rejected in the window that holds the copy, not in that of its original."""
    log = kr.ImpressionLog.open(engine, folder_of(tmp_path / "log"))
    groups = kr.open_groups(
        engine, write_groups(tmp_path / "groups.parquet", group=["a", "b"], size=[20, 20])
    )
    one = kr.measure_window(log, groups, [1], campaign="c", start=START, end=MIDNIGHT)
    truth = expected(ROWS, "c", one.window)
    assert one.rejected["duplicate"] == truth.duplicate == 7
    assert one.rejected["no_group"] == 1
    assert one.rejected["unknown_group"] == 1
    assert one.rejected["no_time"] == 1
    assert one.impressions == OF_C["a"] + OF_C["b"]
    other = kr.measure_window(log, groups, [1], campaign="c", start=MIDNIGHT)
    assert other.rejected["duplicate"] == 2
    assert other.impressions == 0


def test_a_writer_may_vouch_for_its_ids(engine: Engine, tmp_path: Path) -> None:
    """Then nothing is looked for, and the report says so by leaving the reason out."""
    log = kr.ImpressionLog.open(engine, folder_of(tmp_path / "log"), unique_ids=True)
    groups = kr.open_groups(
        engine, write_groups(tmp_path / "groups.parquet", group=["a", "b"], size=[20, 20])
    )
    found = kr.measure_window(log, groups, [1], campaign="c")
    assert "duplicate" not in found.rejected
    known = [row for row in ROWS if row.campaign == "c" and row.ts and row.group in ("a", "b")]
    assert found.impressions == len(known)


def test_numbers_as_ids(engine: Engine, tmp_path: Path) -> None:
    """Whole numbers serve as ids and as groups; groups are then ordered as numbers."""
    rows = [Row(None, "c", None, START)] * 4
    path = write_log(
        tmp_path / "log.parquet", rows, impression_id=[1, 1, 2, 2], group=[10, 9, 7, 7]
    )
    assert kr.ImpressionLog.open(engine, path).counts() == {"9": 1, "7": 1}
