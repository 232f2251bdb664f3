"""Several sources as one log: files, tables and columns, matched by name."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

import kreach as kr
from kreach.adsystem.log.duckdb_engine import EmbeddedEngine
from kreach.boundary.duckdb import new_engine
from kreach.errors import KreachError

COLUMNS = {
    "campaign": ["c", "c", "d"],
    "group": ["a", "b", "a"],
    "ts": ["2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z", "2026-11-02T12:00:00Z"],
}


def write(path: Path, *groups: str, day: int = 1) -> Path:
    """A Parquet file with a column that others lack."""
    engine = new_engine()
    rows = ", ".join(f"('{g}', 'c', TIMESTAMPTZ '2026-11-0{day} 06:00:00+00', 1)" for g in groups)
    path.parent.mkdir(parents=True, exist_ok=True)
    engine.execute(
        f"""COPY (SELECT * FROM (VALUES {rows}) AS t("group", campaign, ts, extra))
        TO '{path}' (FORMAT parquet)"""
    )
    engine.close()
    return path


def test_sources_are_read_as_one_log(tmp_path: Path) -> None:
    files = [write(tmp_path / "one[1].parquet", "a", "a"), write(tmp_path / "two.parquet", "b")]
    folder = write(tmp_path / "days" / "day=2026-11-03" / "x.parquet", "a", day=3).parent.parent
    with kr.EmbeddedEngine() as engine:
        table = kr.ImpressionLog.create(engine, "#more")
        moment = datetime(2026, 11, 4, tzinfo=UTC)
        table.append([kr.Impression("i", "c", "b", moment)])
        log = kr.ImpressionLog.open(engine, [*files, str(folder), "#more", COLUMNS])
        assert log.counts("c") == {"a": 4, "b": 3}
        assert log.counts("c", "2026-11-01", "2026-11-02") == {"a": 3, "b": 1}
        assert log.counts("c", "2026-11-03") == {"a": 1, "b": 1}
        assert log.counts("d") == {"a": 1}


def test_files_alone_and_one_source_alone(tmp_path: Path) -> None:
    files = (write(tmp_path / "one.parquet", "a"), write(tmp_path / "two.parquet", "a", "b"))
    with kr.EmbeddedEngine() as engine:
        assert kr.ImpressionLog.open(engine, files).counts() == {"a": 2, "b": 1}
        assert kr.ImpressionLog.open(engine, [COLUMNS]).counts("c") == {"a": 1, "b": 1}


@pytest.mark.parametrize("sources", [[], ["nowhere.parquet"], [COLUMNS, 7], [COLUMNS, "#nothing"]])
def test_what_cannot_be_read_is_refused(sources: list[object]) -> None:
    with kr.EmbeddedEngine() as engine, pytest.raises(KreachError, match="impressions must"):
        kr.ImpressionLog.open(engine, sources)


def test_a_log_of_several_sources_is_not_appended_to() -> None:
    impression = kr.Impression("i", "c", "a", datetime(2026, 11, 4, tzinfo=UTC))
    with kr.EmbeddedEngine() as engine:
        columns = COLUMNS | {"impression_id": ["1", "2", "3"]}
        log = kr.ImpressionLog.open(engine, [columns])
        with pytest.raises(KreachError, match="log must"):
            log.append([impression])


def test_an_engine_on_a_connection_leaves_its_tables_to_others() -> None:
    base = new_engine()
    base.execute('CREATE TABLE log (campaign VARCHAR, "group" VARCHAR, ts TIMESTAMPTZ)')
    base.execute("INSERT INTO log VALUES ('c', 'a', TIMESTAMPTZ '2026-11-01 00:00:00+00')")
    with EmbeddedEngine.on(base.cursor()) as engine:
        log = kr.ImpressionLog.open(engine, "#log")
        assert log.counts() == {"a": 1}
        base.execute("INSERT INTO log VALUES ('c', 'b', TIMESTAMPTZ '2026-11-01 00:00:00+00')")
        assert log.counts() == {"a": 1, "b": 1}
    assert base.execute("SELECT count(*) FROM log").fetchone() == (2,)
    base.close()
