"""Spark beside others: a session that is given stays as it was, and its tables can be asked."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kreach as kr
from kreach.adsystem.log.engine import Engine
from tests.contract.reference_logs import (
    DAY,
    MICRO,
    START,
    rows_at,
    write_csv,
    write_groups,
    write_log,
)

pytestmark = pytest.mark.xdist_group("spark")
ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def caller(spark: Engine) -> Iterator[Any]:
    """A session of somebody else on the same Spark, in New York and with habits of its own."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate().newSession()
    session.conf.set(ZONE, "America/New_York")
    session.conf.set("spark.sql.ansi.enabled", "true")
    yield session
    session.catalog.clearCache()
    for view in views_of(session, "IN global_temp"):
        session.catalog.dropGlobalTempView(view)


def views_of(session: Any, where: str = "") -> set[str]:
    return {row["viewName"] for row in session.sql(f"SHOW VIEWS {where}").collect()}


def settings_of(session: Any) -> dict[str, str]:
    return {row["key"]: row["value"] for row in session.sql("SET").collect()}


def test_a_given_session_is_not_changed(caller: Any, tmp_path: Path) -> None:
    """Neither its settings nor what it holds in memory, nor does closing the engine end it."""
    source = write_log(tmp_path / "log.parquet", rows_at("a", START, START + DAY))
    caller.read.parquet(source).createOrReplaceTempView("mine")
    caller.catalog.cacheTable("mine")
    caller.table("mine").count()
    before = settings_of(caller)
    views = views_of(caller)
    engine = kr.SparkEngine(session=caller)
    groups = write_groups(tmp_path / "groups.parquet", group=["a"], size=[2])
    log = kr.ImpressionLog.open(engine, source)
    found = kr.measure_window(log, kr.open_groups(engine, groups), [1], end=START + MICRO)
    assert found.impressions == 1
    engine.close()
    assert settings_of(caller) == before
    assert caller.conf.get(ZONE) == "America/New_York"
    assert views_of(caller) == views
    assert caller.table("mine").count() == 2
    assert caller.catalog.isCached("mine")


def test_instants_do_not_move_with_the_session(caller: Any, tmp_path: Path) -> None:
    """Files mean the same under a session in New York; its frames mean what they mean there."""
    engine = kr.SparkEngine(session=caller)
    times = [START - MICRO, START, START + DAY - MICRO, START + DAY]
    rows = rows_at("a", *times)
    naive = [ts.replace(tzinfo=None) for ts in times]
    zoned, plain = tmp_path / "zoned.parquet", tmp_path / "naive.parquet"
    write_log(zoned, rows)
    write_log(plain, rows, ts=naive)
    lines = [f"i{at},c,a,{ts:%Y-%m-%d %H:%M:%S.%f}" for at, ts in enumerate(times)]
    text = write_csv(tmp_path / "log.csv", "impression_id,campaign,group,ts", *lines)
    frame = caller.read.parquet(str(zoned))
    for source in (str(zoned), str(plain), text, frame):
        assert kr.ImpressionLog.open(engine, source).counts(None, START, START + DAY) == {"a": 2}
    # text that the caller's session has read as times is in the caller's zone
    there = caller.read.csv(
        text,
        header=True,
        schema="impression_id string, campaign string, group string, ts timestamp",
    )
    truth = there.where(
        "unix_micros(ts) >= 1793491200000000 AND unix_micros(ts) < 1793577600000000"
    )
    told = kr.ImpressionLog.open(engine, there).counts(None, START, START + DAY)
    assert told == {"a": truth.count()}
    engine.close()


def test_frames_and_tables(caller: Any, tmp_path: Path) -> None:
    """Tables of the catalog, views of all sessions, and frames."""
    engine = kr.SparkEngine(session=caller)
    frame = caller.read.parquet(write_log(tmp_path / "log.parquet", rows_at("a", START)))
    frame.createOrReplaceGlobalTempView("everywhere")
    frame.write.mode("overwrite").saveAsTable("stored")
    try:
        for name in ("#stored", "#default.stored", "#global_temp.everywhere"):
            assert kr.ImpressionLog.open(engine, name).counts("c") == {"a": 1}
    finally:
        caller.sql("DROP TABLE stored")
    assert kr.ImpressionLog.open(engine, frame).counts("c") == {"a": 1}
    assert kr.ImpressionLog.open(engine, frame.where("campaign = 'd'")).counts() == {}
    engine.close()


def test_temporary_views_of_the_session(caller: Any, tmp_path: Path) -> None:
    """What the caller calls `here` is `#here`."""
    engine = kr.SparkEngine(session=caller)
    frame = caller.read.parquet(write_log(tmp_path / "log.parquet", rows_at("a", START)))
    frame.createOrReplaceTempView("here")
    assert kr.ImpressionLog.open(engine, "#here").counts("c") == {"a": 1}
    engine.close()


def test_engines_side_by_side(spark: Engine, caller: Any, tmp_path: Path) -> None:
    """Two engines on one Spark: frames do not take each other's place, closing ends only one."""
    one, other = kr.SparkEngine(session=caller), kr.SparkEngine(session=caller)
    frame = caller.read.parquet(write_log(tmp_path / "log.parquet", rows_at("a", START)))
    more = caller.read.parquet(write_log(tmp_path / "more.parquet", rows_at("b", START)))
    first, second = kr.ImpressionLog.open(one, frame), kr.ImpressionLog.open(other, more)
    assert first.counts() == {"a": 1}
    assert second.counts() == {"b": 1}
    one.close()
    assert second.counts() == {"b": 1}
    other.close()
    assert views_of(caller, "IN global_temp") == set()  # nothing is left behind


def test_a_running_spark_is_not_ended(spark: Engine, tmp_path: Path) -> None:
    """An engine that found Spark running did not start it, and has no business stopping it."""
    from pyspark.sql import SparkSession

    context = SparkSession.builder.getOrCreate().sparkContext
    with pytest.MonkeyPatch.context() as patch:
        stopped: list[bool] = []
        patch.setattr(SparkSession, "stop", lambda self: stopped.append(True))
        kr.SparkEngine("local[2]").close()
    assert stopped == []
    assert not context._jsc.sc().isStopped()


@pytest.mark.parametrize("kind", ["orc", "json"])
def test_other_formats_that_spark_reads(
    spark: Engine, caller: Any, tmp_path: Path, kind: str
) -> None:
    rows = [("a", "g", "2026-11-01 10:00:00"), ("a", "g", "2026-11-01 11:00:00"), ("b", "g", None)]
    frame = caller.createDataFrame(rows, "campaign string, `group` string, ts string")
    path = tmp_path / f"log.{kind}"
    frame.write.format(kind).save(str(path))
    assert kr.ImpressionLog.open(spark, str(path)).counts("a") == {"g": 2}
