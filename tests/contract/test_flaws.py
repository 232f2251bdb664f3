"""Rows that cannot count, rows that one should know of: each is told, none is lost."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kreach as kr
from kreach.adsystem.log.engine import Engine
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from tests.contract.reference_logs import DAY, MICRO, START, Row, write_csv, write_groups, write_log

END = START + 2 * DAY


def released(folder: Path, *, overlapping: bool = False) -> str:
    """Groups as a publisher hands them over, formed one day into the window."""
    classes = (((0,), 2), ((0, 1), 2)) if overlapping else None
    catalogue = Catalogue(
        "v2", START + DAY, 2, ("a", "b"), np.array([4, 4]), classes=classes, class_floor=2
    )
    write_catalogue(catalogue, folder)
    return str(folder)


ROWS = [
    (Row("1", "c", "a", START), "v2", START + MICRO),
    (Row("1", "c", "a", START + MICRO), "v2", START + MICRO),  # a copy
    (Row("2", "c", "b", START + DAY), None, None),  # told under no version: as good as this one
    (Row("3", "c", "a", START + DAY - MICRO), "v2", END),  # late, and before the catalogue
    (Row("4", "c", "a", END - MICRO), "v2", END - MICRO),
    (Row("5", "c", "x", START), "v2", START),  # a stranger
    (Row("6", "c", None, START), "v2", END + DAY),  # no group, and late
    (Row("7", "c", "a", START), "v1", START),  # another catalogue
    (Row("7", "c", "a", START), "v1", START),
    (Row("8", "c", "a", None), "v2", START),  # no time
    (Row("9", None, "a", START), "v2", START),  # no campaign
    (Row("0", "d", "a", START), "v2", START),  # another campaign
    (Row("10", "c", "a", END), "v2", START),  # beyond
    (Row("11", "c", "a", START - MICRO), "v2", START),  # before
    (Row("12", "c", "b", START), "v1", START),  # the first of two is told under another version
    (Row("12", "c", "b", START + DAY), "v2", START),
]


def log_of_all(folder: Path) -> str:
    return write_log(
        folder / "log.parquet",
        [row for row, _, _ in ROWS],
        catalogue=pa.array([version for _, version, _ in ROWS], pa.string()),
        received=pa.array([received for _, _, received in ROWS], pa.timestamp("us", "UTC")),
    )


@pytest.mark.parametrize("overlapping", [False, True], ids=["disjoint", "overlapping"])
def test_every_row_is_accounted_for(engine: Engine, tmp_path: Path, overlapping: bool) -> None:
    groups = kr.open_groups(engine, released(tmp_path / "release", overlapping=overlapping))
    log = kr.ImpressionLog.open(engine, log_of_all(tmp_path))
    measured = kr.measure_window(log, groups, [1], campaign="c", start=START, end=END)
    assert measured.catalogue == "v2"
    assert measured.impressions == 5
    assert measured.rejected == {
        "no_time": 1,
        "no_group": 1,
        "no_campaign": 1,
        "unknown_group": 1,
        "duplicate": 1,
        "other_catalogue": 3,
    }
    inside = [row for row, _, _ in ROWS if row.campaign == "c" and row.ts]
    inside = [row for row in inside if row.ts and START <= row.ts < END]
    outside = {"no_time", "no_campaign"}  # rows that lie in no window, or in none of this campaign
    refused = sum(n for reason, n in measured.rejected.items() if reason not in outside)
    assert measured.impressions + refused == len(inside)
    assert measured.warnings["late"] == 2
    assert measured.warnings["before_catalogue"] == sum(
        row.ts < START + DAY for row in inside if row.ts
    )
    assert "several_campaigns" not in measured.warnings


def test_without_a_campaign(engine: Engine, tmp_path: Path) -> None:
    """All rows count, also one that names no campaign; the report warns that they are mixed."""
    groups = kr.open_groups(engine, released(tmp_path / "release"))
    log = kr.ImpressionLog.open(engine, log_of_all(tmp_path))
    measured = kr.measure_window(log, groups, [1], start=START, end=END)
    assert measured.impressions == 7
    assert "no_campaign" not in measured.rejected
    assert measured.warnings["several_campaigns"] == 1
    later = kr.measure_window(log, groups, [1], start=START + DAY, end=END)
    assert later.warnings["several_campaigns"] == 0  # those of the window are of one campaign
    assert "before_catalogue" not in later.warnings


def test_reasons_that_were_not_looked_for_are_left_out(engine: Engine, tmp_path: Path) -> None:
    """Without ids there are no copies to find, without a version no other one."""
    path = write_csv(tmp_path / "log.csv", "campaign,group,ts", "c,a,2026-11-01", "c,a,2026-11-01")
    groups = write_groups(tmp_path / "groups.parquet", group=["a"], size=[4])
    log = kr.ImpressionLog.open(engine, path)
    measured = kr.measure_window(log, kr.open_groups(engine, groups), [1], campaign="c")
    assert measured.impressions == 2
    assert measured.rejected == {"no_time": 0, "no_group": 0, "no_campaign": 0, "unknown_group": 0}
    assert measured.warnings == {"converted_to_utc": 0}
    assert measured.catalogue is None


def test_rows_filed_under_another_day(engine: Engine, tmp_path: Path) -> None:
    """A folder per day is by the writer's clock; the time of a row decides, to the microsecond."""
    days = [
        ("2026-11-01", START),
        ("2026-11-01", START + DAY - MICRO),
        ("2026-11-01", START + DAY),  # filed a moment early
        ("2026-11-02", START + DAY - MICRO),  # and a moment late
        ("2026-11-02", START + DAY),
    ]
    for at, (day, ts) in enumerate(days):
        row = Row(f"{at}", "c", "a", ts)
        write_log(tmp_path / "log" / f"day={day}" / f"{at}.parquet", [row])
    log = kr.ImpressionLog.open(engine, str(tmp_path / "log"))
    groups = write_groups(tmp_path / "groups.parquet", group=["a"], size=[4])
    opened = kr.open_groups(engine, groups)
    first = kr.measure_window(log, opened, [1], campaign="c", start=START, end=START + DAY)
    assert first.impressions == 3
    assert first.warnings == {"filed_under_another_day": 1}
    whole = kr.measure_window(log, opened, [1], campaign="c")
    assert whole.impressions == 5
    assert whole.warnings == {"filed_under_another_day": 2}


def test_a_series_tells_the_flaws_of_its_window(duckdb: Engine, tmp_path: Path) -> None:
    groups = kr.open_groups(duckdb, released(tmp_path / "release"))
    log = kr.ImpressionLog.open(duckdb, log_of_all(tmp_path))
    window: dict[str, Any] = {"campaign": "c", "start": START, "end": END}
    whole = kr.measure_window(log, groups, [1], **window)
    series = kr.measure_series(log, groups, [1], by="day", **window)
    assert series.whole.document() == whole.document()


def test_late_is_by_the_end_of_the_window(duckdb: Engine, engine: Engine, tmp_path: Path) -> None:
    """A row that arrived at the very end arrived after it; without an end nothing is late."""
    created = kr.ImpressionLog.create(duckdb, str(tmp_path / "log"))  # sooner than Spark does it
    for at, received in enumerate([END - MICRO, END, END + timedelta(days=900)]):
        created.append([kr.Impression(f"{at}", "c", "a", START)], received=received)
    log = kr.ImpressionLog.open(engine, str(tmp_path / "log"))
    groups = write_groups(tmp_path / "groups.parquet", group=["a"], size=[4])
    opened = kr.open_groups(engine, groups)
    assert kr.measure_window(log, opened, [1], end=END).warnings["late"] == 2
    assert "late" not in kr.measure_window(log, opened, [1]).warnings
