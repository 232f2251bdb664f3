"""A log that holds shares of draws gives the reports of the log that it is a copy of, exactly."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kreach as kr
from kreach.adsystem.log.counts import holds_draws
from kreach.adsystem.log.engine import Engine
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.tables import GroupTable
from kreach.boundary.files import write_catalogue
from kreach.boundary.times import Window
from tests.adsystem.api.live_stores import START
from tests.contract.fast_spark import on_engines
from tests.contract.reference_logs import DAY, Row, write_log
from tests.contract.test_draws import CAPS, CATALOGUE, END, MODEL, SERVED, WINDOWS


def _rows() -> list[Row]:
    """Every kind of row: copies soon after, on the next day and at the same time; strangers."""
    rows = [
        Row(f"i{at}", one.campaign, CATALOGUE.groups[one.group], _at(one.us))
        for at, one in enumerate(SERVED)
    ]
    soon = [row._replace(ts=row.ts + timedelta(seconds=30)) for row in rows[::7] if row.ts]
    later = [row._replace(ts=row.ts + DAY) for row in rows[::13] if row.ts]
    other = [row._replace(campaign="fall") for row in rows[:9]]
    known = CATALOGUE.groups[0]
    strange = [
        Row("s1", "spring", "a stranger", START),
        Row("s2", "spring", None, START),
        Row("s2", "spring", None, START),
        Row("s3", "spring", known, None),
        Row(None, "spring", known, START + DAY / 2),
        Row(None, "spring", known, START + DAY / 2),
        Row("s4", None, known, START + DAY / 2),
    ]
    return rows + soon + later + rows[::11] + other + strange


def _at(us: int) -> Any:
    return START + timedelta(microseconds=us)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, and the groups that it is measured with."""
    folder = tmp_path_factory.mktemp("prepared")
    rows = _rows()
    write_log(folder / "log" / "a.parquet", rows[::2])
    write_log(folder / "log" / "b.parquet", rows[1::2])
    write_catalogue(CATALOGUE, folder / "release")
    return folder


@pytest.fixture(scope="module")
def prepared(duckdb: Engine, folder: Path) -> Path:
    """A copy written by the embedded engine, in several files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(duckdb), "rows_per_file", 150)
        table = kr.open_groups(duckdb, folder / "release")
        copy = kr.prepare_log(duckdb, folder / "log", table, folder / "copy")
    assert copy.rows == len(_rows())
    assert copy.copies > 0
    assert copy.files > 3  # copies of an id are in different ones
    return copy.folder


def _holds(log: kr.ImpressionLog, groups: GroupTable, campaign: str | None, window: Window) -> bool:
    place = Place.named(campaign, groups.version)
    return holds_draws(log.engine, log.table, groups, place, [window])


def _document(log: kr.ImpressionLog, groups: GroupTable, **asked: Any) -> dict[str, Any]:
    measured: Any = kr.measure_series if "by" in asked else kr.measure_window
    result: dict[str, Any] = msgspec.to_builtins(measured(log, groups, CAPS, **asked).document())
    return result


def _on_writers() -> list[Any]:
    """Every window on DuckDB; on Spark, which takes ten seconds for each, the first and last.

    `test_draws.py` compares the others with the library there.
    """
    spark = pytest.mark.xdist_group("spark")
    return [pytest.param("duckdb", window, id=f"duckdb-{window}") for window in WINDOWS] + [
        pytest.param("spark", window, id=f"spark-{window}", marks=spark)
        for window in (WINDOWS[0], WINDOWS[-1])
    ]


@pytest.mark.parametrize(("writer", "window"), _on_writers(), indirect=["writer"])
def test_windows_are_those_of_the_log(
    writer: Engine, folder: Path, prepared: Path, window: Window
) -> None:
    groups = kr.open_groups(writer, folder / "release")
    log = kr.ImpressionLog.open(writer, str(folder / "log"))
    copy = kr.ImpressionLog.open(writer, str(prepared))
    short = window == WINDOWS[-1]  # shorter than the model looks back: nothing to gain
    campaigns: tuple[str, ...] = ("spring", "fall")
    if writer.dialect != "duckdb":
        campaigns = campaigns[-1:] if short else campaigns[:1]
    for campaign in campaigns:
        asked: dict[str, Any] = {"campaign": campaign, "start": window.start, "end": window.end}
        assert _holds(copy, groups, campaign, window) is not short
        assert not _holds(log, groups, campaign, window)
        assert _document(copy, groups, **asked) == _document(log, groups, **asked)


def test_any_window_is_that_of_the_log(duckdb: Engine, folder: Path, prepared: Path) -> None:
    """Starts in the middle of sessions, to the microsecond."""
    chance = np.random.default_rng(3)
    groups = kr.open_groups(duckdb, folder / "release")
    log, copy = (kr.ImpressionLog.open(duckdb, one) for one in (folder / "log", prepared))
    starts = [SERVED[at].us + int(chance.integers(-1, 2)) for at in range(0, 60, 6)]
    for us in starts:
        window = Window(_at(us), _at(us + int(chance.integers(20_000, 200_000)) * 1_000_000))
        asked: dict[str, Any] = {"campaign": "spring", "start": window.start, "end": window.end}
        assert _holds(copy, groups, "spring", window)
        assert _document(copy, groups, **asked) == _document(log, groups, **asked)


@pytest.mark.parametrize(
    ("writer", "by"), on_engines(["day", "week"], not_on_spark=["day"]), indirect=["writer"]
)
def test_series_are_those_of_the_log(writer: Engine, folder: Path, prepared: Path, by: str) -> None:
    groups = kr.open_groups(writer, folder / "release")
    log = kr.ImpressionLog.open(writer, str(folder / "log"))
    copy = kr.ImpressionLog.open(writer, str(prepared))
    asked: dict[str, Any] = {"campaign": "spring", "by": by, "start": START + DAY / 5}
    asked["end"] = END - DAY / 7
    assert _document(copy, groups, **asked) == _document(log, groups, **asked)


def test_series_by_hour_are_computed(duckdb: Engine, folder: Path, prepared: Path) -> None:
    groups = kr.open_groups(duckdb, folder / "release")
    log = kr.ImpressionLog.open(duckdb, folder / "log")
    copy = kr.ImpressionLog.open(duckdb, prepared)
    asked: dict[str, Any] = {"campaign": "fall", "by": "hour", "start": START}
    asked["end"] = START + DAY
    assert _document(copy, groups, **asked) == _document(log, groups, **asked)


def test_engines_read_what_others_wrote(
    writer: Engine, duckdb: Engine, folder: Path, tmp_path: Path
) -> None:
    groups = kr.open_groups(writer, folder / "release")
    written = kr.prepare_log(writer, str(folder / "log"), groups, tmp_path / "copy")
    assert written.rows == len(_rows())
    table = kr.open_groups(duckdb, folder / "release")
    log = kr.ImpressionLog.open(duckdb, folder / "log")
    copy = kr.ImpressionLog.open(duckdb, written.folder)
    window = WINDOWS[1]
    asked: dict[str, Any] = {"campaign": "spring", "start": window.start, "end": window.end}
    assert _holds(copy, table, "spring", window)
    assert _document(copy, table, **asked) == _document(log, table, **asked)


def test_other_questions_are_computed(duckdb: Engine, folder: Path, prepared: Path) -> None:
    """Another model, traffic or version, all campaigns at once, or ids taken for unique."""
    groups = kr.open_groups(duckdb, folder / "release")
    log, copy = (kr.ImpressionLog.open(duckdb, one) for one in (folder / "log", prepared))
    odds = replace(MODEL, continuation_odds=MODEL.continuation_odds * 2.0)
    window = Window()
    assert _holds(copy, groups, "spring", window)
    others = (
        groups.with_model(odds),
        groups.with_model(MODEL.at_traffic(1.3)),
        replace(groups, version="another"),
        replace(groups, version=None),
    )
    for other in others:
        assert not _holds(copy, other, "spring", window)
        ours = _document(copy, other, campaign="spring")
        assert ours == _document(log, other, campaign="spring")
    assert not _holds(copy, groups, None, window)
    assert _document(copy, groups) == _document(log, groups)
    log, copy = (
        kr.ImpressionLog.open(duckdb, one, unique_ids=True) for one in (folder / "log", prepared)
    )
    assert not _holds(copy, groups, "spring", window)
    assert _document(copy, groups, campaign="spring") == _document(log, groups, campaign="spring")


def test_errors_of_a_model_do_not_change_shares(
    duckdb: Engine, folder: Path, prepared: Path
) -> None:
    groups = kr.open_groups(duckdb, folder / "release").with_model(replace(MODEL, errors=()))
    assert _holds(kr.ImpressionLog.open(duckdb, prepared), groups, "spring", Window())


def _copied(folder: Path, to: Path) -> Path:
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def test_appended_rows_are_noticed(
    writer: Engine, folder: Path, prepared: Path, tmp_path: Path
) -> None:
    """A late row changes the shares of those after it; they are computed again."""
    groups = kr.open_groups(writer, folder / "release")
    log = kr.ImpressionLog.open(writer, str(_copied(folder / "log", tmp_path / "log")))
    copy = kr.ImpressionLog.open(writer, str(_copied(prepared, tmp_path / "copy")))
    assert _holds(copy, groups, "spring", Window())
    first = next(row for row in SERVED if row.campaign == "spring" and row.us > 20_000_000)
    late = kr.Impression(
        "late", "spring", CATALOGUE.groups[first.group], _at(first.us - 20_000_000)
    )
    before = _document(copy, groups, campaign="spring")
    for one in (log, copy):
        assert one.append([late], received=END).added == 1
    assert not _holds(copy, groups, "spring", Window())
    after = _document(copy, groups, campaign="spring")
    assert after == _document(log, groups, campaign="spring")
    assert after["impressions"] == before["impressions"] + 1


@pytest.mark.parametrize("change", ["gone", "replaced", "unlisted", "no list", "broken list"])
def test_changed_files_are_noticed(
    duckdb: Engine, prepared: Path, tmp_path: Path, change: str
) -> None:
    copy = _copied(prepared, tmp_path / "copy")
    assert kr.ImpressionLog.open(duckdb, copy).table.shares is not None
    first, second = sorted(copy.glob("*.parquet"))[:2]
    match change:
        case "gone":
            first.unlink()
        case "replaced":
            first.write_bytes(second.read_bytes())
        case "unlisted":
            (copy / "more.parquet").write_bytes(first.read_bytes())
        case "no list":
            (copy / "_shares.json").unlink()
        case _:
            (copy / "_shares.json").write_text('{"format": 1, "files": []')
    assert kr.ImpressionLog.open(duckdb, copy).table.shares is None


def test_rows_of_other_catalogues_do_not_count(
    duckdb: Engine, folder: Path, tmp_path: Path
) -> None:
    rows = [row for row in _rows() if row.campaign == "spring"]
    versions = [(None, CATALOGUE.version, "another")[at % 3] for at in range(len(rows))]
    columns = {name: [getattr(row, name) for row in rows] for name in ("campaign", "group", "ts")}
    pq.write_table(pa.table(columns | {"catalogue": versions}), tmp_path / "log.parquet")
    groups = kr.open_groups(duckdb, folder / "release")
    written = kr.prepare_log(duckdb, tmp_path / "log.parquet", groups, tmp_path / "copy")
    log = kr.ImpressionLog.open(duckdb, tmp_path / "log.parquet")
    copy = kr.ImpressionLog.open(duckdb, written.folder)
    assert _holds(copy, groups, None, Window())  # there is one campaign
    ours = _document(copy, groups, start=START + DAY / 3)
    assert ours == _document(log, groups, start=START + DAY / 3)
    assert ours["rejected"]["other_catalogue"] > 0


def test_text_files_can_be_prepared(duckdb: Engine, folder: Path, tmp_path: Path) -> None:
    groups = kr.open_groups(duckdb, folder / "release")
    lines = ["campaign,group,ts", f"spring,{CATALOGUE.groups[0]},yesterday"]
    lines += [
        f"{row.campaign},{CATALOGUE.groups[row.group]},{_at(row.us).isoformat()}"
        for row in SERVED[:200]
    ]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    written = kr.prepare_log(duckdb, tmp_path / "log.csv", groups, tmp_path / "copy")
    again = kr.prepare_log(duckdb, written.folder, groups, tmp_path / "again")  # a copy of a copy
    log = kr.ImpressionLog.open(duckdb, tmp_path / "log.csv")
    wanted = _document(log, groups, campaign="spring")
    for one in (written, again):
        copy = kr.ImpressionLog.open(duckdb, one.folder)
        assert _holds(copy, groups, "spring", Window())
        assert _document(copy, groups, campaign="spring") == wanted


def test_an_empty_log_can_be_prepared(writer: Engine, folder: Path, tmp_path: Path) -> None:
    groups = kr.open_groups(writer, folder / "release")
    write_log(tmp_path / "log.parquet", [])
    written = kr.prepare_log(writer, str(tmp_path / "log.parquet"), groups, tmp_path / "copy")
    assert written.rows == 0
    copy = kr.ImpressionLog.open(writer, str(written.folder))
    assert kr.measure_window(copy, groups, [1], campaign="spring").impressions == 0


def test_what_cannot_be_prepared_is_refused(duckdb: Engine, folder: Path, tmp_path: Path) -> None:
    groups = kr.open_groups(duckdb, folder / "release")
    log = folder / "log"
    with pytest.raises(kr.KreachError, match="groups must have a visit model"):
        kr.prepare_log(duckdb, log, groups.with_model(None), tmp_path / "copy")
    with pytest.raises(kr.KreachError, match="out must be a new folder"):
        kr.prepare_log(duckdb, log, groups, tmp_path)
    with pytest.raises(kr.KreachError, match="out must be a path on this machine"):
        kr.prepare_log(duckdb, log, groups, "s3://bucket/copy")
    with pytest.raises(kr.KreachError, match="impressions must name a file that exists"):
        kr.prepare_log(duckdb, folder / "nothing", groups, tmp_path / "copy")
    (tmp_path / "file").write_text("")
    with pytest.raises(kr.KreachError, match="out must be in a folder that can be written"):
        kr.prepare_log(duckdb, log, groups, tmp_path / "file" / "copy")
    damaged = tmp_path / "damaged"
    write_log(damaged / "a.parquet", _rows())
    whole = (damaged / "a.parquet").read_bytes()
    half = len(whole) // 3
    (damaged / "a.parquet").write_bytes(whole[:half] + bytes(200) + whole[half + 200 :])
    with pytest.raises(kr.KreachError):
        kr.prepare_log(duckdb, damaged, groups, tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged", "file"]
