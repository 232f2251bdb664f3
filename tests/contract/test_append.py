"""Appending: every id once, whatever is sent again; a batch is there whole or not at all."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import kreach as kr
from kreach.adsystem.log.engine import Engine
from tests.contract.reference_logs import (
    DAY,
    MICRO,
    START,
    Row,
    assert_one_line,
    write_csv,
    write_log,
)


def impression(key: str, group: str = "a", ts: datetime = START) -> kr.Impression:
    return kr.Impression(key, "c", group, ts, price=0.5)


def assert_appends(engine: Engine, source: str) -> None:
    log = kr.ImpressionLog.create(engine, source)
    assert log.counts() == {}
    first = log.append([impression("1"), impression("1", "b"), impression("2")])
    assert (first.added, first.repeated) == (2, 1)  # of copies in a batch the first stays
    again = log.append(iter([impression("2", "b"), impression("3", "b"), impression("it's")]))
    assert (again.added, again.repeated) == (2, 1)
    assert log.counts() == {"a": 3, "b": 1}
    reopened = kr.ImpressionLog.open(engine, source)
    assert reopened.counts() == {"a": 3, "b": 1}
    existing = kr.ImpressionLog.create(engine, source)  # one that is there is kept
    none = existing.append([impression(key, "z") for key in ("1", "2", "3", "it's")])
    assert (none.added, none.repeated) == (0, 4)
    assert existing.append([]) == none.__class__(0, 0)
    assert existing.counts() == {"a": 3, "b": 1}


def test_each_id_once_in_a_folder(writer: Engine, tmp_path: Path) -> None:
    assert_appends(writer, str(tmp_path / "made" / "log"))


def test_each_id_once_in_a_table(tmp_path: Path) -> None:
    """Also when the database is opened again, and under a name that needs quoting."""
    with kr.EmbeddedEngine() as engine:
        assert_appends(engine, '#a "log"')
    for expected in (2, 0):
        with kr.EmbeddedEngine(tmp_path / "base.duckdb") as engine:
            log = kr.ImpressionLog.create(engine, "#log")
            assert log.append([impression("1"), impression("2")]).added == expected
            assert log.counts() == {"a": 2}
    with kr.EmbeddedEngine() as engine:
        stored = kr.ImpressionLog.open(engine, f"{tmp_path / 'base.duckdb'}#log")
        assert stored.counts() == {"a": 2}


@pytest.mark.xdist_group("spark")
def test_engines_append_to_one_log(duckdb: Engine, spark: Engine, tmp_path: Path) -> None:
    """A folder belongs to no engine: each reads what the other wrote, to the microsecond."""
    source = str(tmp_path / "log")
    times = [START, START - MICRO, START + DAY - MICRO, START + DAY]
    engines = [spark, duckdb, spark, duckdb]
    for at, (engine, ts) in enumerate(zip(engines, times, strict=True)):
        log = kr.ImpressionLog.create(engine, source)
        batch = [impression(f"{n}", f"g{n}", times[n]) for n in range(at)]
        done = log.append([*batch, impression(f"{at}", f"g{at}", ts)])
        assert (done.added, done.repeated) == (1, at)
    for engine in (duckdb, spark):
        log = kr.ImpressionLog.open(engine, source)
        assert set(log.counts(None, START, START + DAY)) == {"g0", "g2"}
        assert set(log.counts(None, None, START)) == {"g1"}


def test_times_are_kept_to_the_microsecond(writer: Engine, tmp_path: Path) -> None:
    """Far from now as well, where a float no longer holds a microsecond."""
    times = [
        datetime(2026, 11, 1, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2026, 11, 1, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(1969, 7, 20, 20, 17, 40, 123457, tzinfo=UTC),
        datetime(2399, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(9000, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    ]
    log = kr.ImpressionLog.create(writer, str(tmp_path / "log"))
    log.append([impression(f"{at}", f"g{at}", ts) for at, ts in enumerate(times)])
    existing = [log.counts(None, ts, ts + MICRO) == {f"g{at}": 1} for at, ts in enumerate(times)]
    assert existing == [True] * len(times)


def test_a_batch_is_there_whole_or_not_at_all(duckdb: Engine, tmp_path: Path) -> None:
    """The source of a batch breaks down, or one of its rows is wrong: no engine was told of it."""
    log = kr.ImpressionLog.create(duckdb, str(tmp_path / "log"))
    log.append([impression("0")])

    def breaks() -> Iterator[kr.Impression]:
        yield impression("1")
        raise ConnectionError("the stream ended")

    def wrong() -> Iterator[kr.Impression]:
        yield impression("1")
        yield kr.Impression("", "c", "a", START)

    with pytest.raises(ConnectionError):
        log.append(breaks())
    with pytest.raises(kr.KreachError):
        log.append(wrong())
    rows: list[Any] = [impression("1"), ("2", "c", "a", START)]
    with pytest.raises(kr.KreachError, match="impressions must"):
        log.append(rows)
    for engine_log in (log, kr.ImpressionLog.open(duckdb, str(tmp_path / "log"))):
        assert engine_log.counts() == {"a": 1}


def test_a_write_that_fails_leaves_nothing(
    duckdb: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file appears under its name only when it is whole."""
    log = kr.ImpressionLog.create(duckdb, str(tmp_path / "log"))

    def fails(self: Path, target: Path) -> Path:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fails)
        with pytest.raises(OSError, match="no space"):
            log.append([impression("1")])
    assert kr.ImpressionLog.open(duckdb, str(tmp_path / "log")).counts() == {}
    assert log.append([impression("1")]).added == 1
    assert log.counts() == {"a": 1}


def test_a_log_by_day_stays_readable(writer: Engine, tmp_path: Path) -> None:
    """A folder with partitions is appended to or refused; it is never left unreadable."""
    write_log(tmp_path / "log" / "day=2026-11-01" / "0.parquet", [Row("0", "c", "a", START)])
    log = kr.ImpressionLog.open(writer, str(tmp_path / "log"))
    try:
        log.append([impression("1")])
        expected = {"a": 2}
    except kr.KreachError:
        expected = {"a": 1}
    assert kr.ImpressionLog.open(writer, str(tmp_path / "log")).counts() == expected


def test_received_is_now_unless_told(writer: Engine, tmp_path: Path) -> None:
    """As text or without a zone it means UTC, as every time does."""
    log = kr.ImpressionLog.create(writer, str(tmp_path / "log"))
    given: list[Any] = [datetime(2026, 11, 1), "2026-11-01T00:00:00Z", START]
    given = given[: 3 if writer.dialect == "duckdb" else 1]  # engines get them as one and the same
    for at, received in enumerate(given):
        log.append([impression(f"{at}")], received=received)
    log.append([impression("now")])
    rows = log.table.rows
    stored = log.engine.columns(rows.group_by("received").aggregate(n=rows.count()))
    assert sorted(stored["n"].tolist()) == [1, len(given)]


@pytest.mark.parametrize("bad", ["yesterday", 7, ["2026-11-01"]], ids=repr)
def test_received_that_is_no_time(duckdb: Engine, tmp_path: Path, bad: Any) -> None:
    log = kr.ImpressionLog.create(duckdb, str(tmp_path / "log"))
    with pytest.raises(kr.KreachError) as error:
        log.append([impression("1")], received=bad)
    assert_one_line(error, "received")


GOOD: dict[str, Any] = {"impression_id": "1", "campaign": "c", "group": "a", "ts": START}
WRONG: list[tuple[str, Any]] = [
    *(
        (name, bad)
        for name in ("impression_id", "campaign", "group")
        for bad in ("", None, 7, b"x")
    ),
    *(("ts", bad) for bad in (None, "yesterday", 7, START.date(), "")),
    *(("price", bad) for bad in (-1, float("nan"), float("inf"), "1", [1])),
]


@pytest.mark.parametrize(("name", "bad"), WRONG, ids=repr)
def test_wrong_impressions_are_refused(name: str, bad: Any) -> None:
    with pytest.raises(kr.KreachError) as error:
        kr.Impression(**(GOOD | {name: bad}))
    assert_one_line(error, name)


def test_what_cannot_be_appended_to(writer: Engine, tmp_path: Path) -> None:
    """A file is not a folder; a log without ids could not keep each id once."""
    file = write_log(tmp_path / "log.parquet", [Row("1", "c", "a", START)])
    text = write_csv(tmp_path / "log.csv", "impression_id,campaign,group,ts", "1,c,a,2026-11-01")
    stored = {"impression_id": ["1"], "campaign": ["c"], "group": ["a"], "ts": [START]}
    for source in (file, text, stored)[: 3 if writer.dialect == "duckdb" else 1]:
        log = kr.ImpressionLog.open(writer, source)
        with pytest.raises(kr.KreachError) as error:
            log.append([impression("2")])
        assert_one_line(error, "log")
        assert kr.ImpressionLog.open(writer, source).counts() == {"a": 1}
    bare = write_csv(tmp_path / "bare.csv", "campaign,group,ts", "c,a,2026-11-01")
    with pytest.raises(kr.KreachError, match="impression_id") as error:
        kr.ImpressionLog.open(writer, bare).append([impression("2")])
    assert_one_line(error, "log")
    with pytest.raises(kr.KreachError) as error:
        kr.ImpressionLog.create(writer, file)
    assert_one_line(error, "log")


@pytest.mark.parametrize(
    "key",
    ["'; DROP TABLE log; --", "ü ✓ 𝄞", 'say "hi"', "back\\slash", "${x}", " ", "a\nb", "%s{}"],
)
def test_odd_ids(duckdb: Engine, tmp_path: Path, key: str) -> None:
    """Ids, campaigns and groups are opaque."""
    for source in (str(tmp_path / "log"), f"#{tmp_path.name}"):
        log = kr.ImpressionLog.create(duckdb, source)
        odd = kr.Impression(key, key, key, START)
        assert log.append([odd, odd]).added == 1
        assert log.append([odd]).repeated == 1
        assert log.counts(key) == {key: 1}


def test_odd_campaigns(engine: Engine, tmp_path: Path) -> None:
    """What is asked for is compared, never run nor replaced."""
    odd = [
        "it's",
        'say "hi"',
        "back\\slash",
        "\\'",
        "${x}",
        "${spark.app.name}",
        "ü ✓ 𝄞",
        "a\nb",
        "%",
    ]
    rows = [Row(f"{at}", name, f"g{at}", START) for at, name in enumerate(odd)]
    log = kr.ImpressionLog.open(engine, write_log(tmp_path / "log.parquet", rows))
    assert [name for at, name in enumerate(odd) if log.counts(name) != {f"g{at}": 1}] == []


@pytest.mark.parametrize("bad", [7, b"c", ["c"], 1.5, True], ids=repr)
def test_what_is_no_campaign(duckdb: Engine, tmp_path: Path, bad: Any) -> None:
    log = kr.ImpressionLog.open(
        duckdb, write_log(tmp_path / "l.parquet", [Row("1", "c", "a", START)])
    )
    with pytest.raises(kr.KreachError) as error:
        log.counts(bad)
    assert_one_line(error, "campaign")
