"""`kreach jobs`: what a scheduler runs, what it prints, and every flag with something wrong."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.jobs.output import OutputFolder
from tests.adsystem.jobs.sample_stores import (
    DAY,
    HOUR,
    NOW,
    START,
    SampleStore,
    Sold,
    rows_of,
    tree,
)
from tests.cli.command import Result, kreach


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SampleStore:
    room = SampleStore(tmp_path_factory.mktemp("room"), bidders=("b1", "b2"))
    room.add("spring")
    room.write_random(60, seed=41, span=DAY)
    room.move()
    lines = f'[adsystem]\nstore = "store"\ncatalogues = ["{room.folder / "v1"}"]\n[bidder]\n'
    (room.folder / "kreach.toml").write_text(lines)
    return room


@pytest.fixture
def room(made: SampleStore, tmp_path: Path) -> SampleStore:
    return made.copy(tmp_path)


def run(room: SampleStore, job: str, *more: str, config: bool = False) -> Result:
    source = ["--store", str(room.settings.store), "--groups", str(room.folder / "v1")]
    if config:
        source = ["--config", str(room.folder / "kreach.toml")]
    return kreach("jobs", job, *source, "--out", str(room.folder / "out"), *more)


def document(result: Result) -> Any:
    assert (result.code, result.err) == (0, ""), result.err
    return json.loads(result.out)


def test_hourly_from_settings_and_from_flags(room: SampleStore) -> None:
    asked = ("--from", "2025-11-01T05", "--to", "2025-11-01T07", "--json")
    found = document(run(room, "hourly", *asked, config=True))
    assert found["job"] == "hourly"
    assert found["bidders"] == ["b1", "b2"]
    age = datetime.now(UTC) - datetime.fromisoformat(found["complete_until"])
    assert timedelta(minutes=10) <= age < timedelta(minutes=15)  # the bidders are long silent
    assert found["refused"] is None
    assert [(one["start"], one["end"], one["state"]) for one in found["done"]] == [
        ("2025-11-01T05:00:00Z", "2025-11-01T06:00:00Z", "written"),
        ("2025-11-01T06:00:00Z", "2025-11-01T07:00:00Z", "written"),
    ]
    for one in found["done"]:
        start = datetime.fromisoformat(one["start"])
        truth = room.rows("spring", "v1", start, start + HOUR)
        assert one["impressions"] == len(truth)
        assert one["spend_micros"] == sum(sold.micros for sold in truth)
        assert one["rows"] == len(rows_of(Path(one["folders"][0]))) == 4
    before = tree(room.folder / "out")
    again = document(run(room, "hourly", *asked))
    assert [one["state"] for one in again["done"]] == ["unchanged", "unchanged"]
    forced = document(run(room, "hourly", "--hour", "2025-11-01T05", "--force", "--json"))
    assert [one["state"] for one in forced["done"]] == ["written"]
    assert tree(room.folder / "out") == before


def test_nightly_and_what_it_says_without_json(room: SampleStore) -> None:
    result = run(room, "nightly", "--day", "2025-11-01", "--rows-per-file", "25")
    assert result.code == 0
    assert result.out.startswith("2025-11-01T00:00:00Z written: 60 impressions of 1 campaigns, ")
    assert len(list((room.folder / "out" / "log" / "day=2025-11-01").glob("part-*"))) == 3


def test_without_a_time_it_is_the_last_full_hour(tmp_path: Path) -> None:
    room = SampleStore(tmp_path)
    now = datetime.now(UTC)
    full = now.replace(minute=0, second=0, microsecond=0) - HOUR
    room.add("spring", start=now - DAY, end=now + DAY)
    room.write([Sold("", "spring", "v1", 1, full + timedelta(minutes=1), 9)])
    room.move(now + DAY)  # a clock that is ahead: complete, whatever the minute is
    found = document(run(room, "hourly", "--json"))
    (one,) = found["done"]
    assert one["start"] in {f"{full + late:%Y-%m-%dT%H:%M:%SZ}" for late in (0 * HOUR, HOUR)}


def test_an_hour_that_is_not_complete_ends_with_one_line(room: SampleStore) -> None:
    room.write([Sold("b1", "spring", "v1", 1, NOW - 2 * HOUR + HOUR / 4, 9)])
    asked = ("--from", "2025-11-20T21", "--to", "2025-11-21T00", "--json")
    result = run(room, "hourly", *asked)
    assert result.code == 1
    assert result.err == (
        "kreach: hour must be complete (bidder b1 has moved its rows into files up to 2025-11-20T"
        "22:15:00Z), got 2025-11-20T22:00Z: try again when it has (compaction_rows)\n"
    )
    told = json.loads(result.out)
    assert [one["state"] for one in told["done"]] == ["written"]
    assert told["refused"]["start"] == "2025-11-20T22:00:00Z"
    assert f"kreach: {told['refused']['reason']}\n" == result.err
    partly = run(room, "hourly", "--hour", "2025-11-20T22", "--partial")
    assert partly.code == 0
    assert partly.out.startswith("2025-11-20T22:00:00Z partial: 0 impressions")


def test_two_runs_at_once(room: SampleStore) -> None:
    with OutputFolder(room.folder / "out", "hourly"):
        result = run(room, "hourly", "--hour", "2025-11-01T05")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("kreach: out must be used by one hourly run at a time, got ")
    assert result.err.count("\n") == 1


def test_what_could_not_be_measured_is_said(room: SampleStore) -> None:
    room.add("lost", audience="gone")
    room.write([Sold("b1", "lost", "v1", 1, START + HOUR, 9)])
    room.move()
    result = run(room, "hourly", "--hour", "2025-11-01T01")
    assert "1 not measured (see the note column)" in result.out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--hour", "soon"), "hour must be a time such as"),
        (("--hour", "2025-11-01T05:30"), "hour must be the start of an hour"),
        (("--from", "x"), "from must be a time"),
        (("--from", "2025-11-01", "--to", "2025-11-01"), "to must come after from"),
        (("--to", "2025-11-01"), "from must be given with to"),
        (("--last", "0"), "last must be a whole number from 1"),
        (("--last", "1", "--hour", "2025-11-01T05"), "hour must be given alone"),
        (("--engine", "pandas"), "engine must be duckdb or spark"),
        (("--level", "2"), "level must lie between 0 and 1"),
        (("--memory", "much", "--hour", "2025-11-01T05"), "memory must be an amount"),
        (("--config", "nowhere.toml"), "config must be given alone"),
        (("--groups", "nowhere", "--hour", "2025-11-01T05"), "catalogue must be a released folder"),
    ],
)
def test_flags_that_are_refused(room: SampleStore, asked: tuple[str, ...], said: str) -> None:
    result = run(room, "hourly", *asked, "--json")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"kreach: {said}")
    assert result.err.count("\n") == 1
    assert tree(room.folder / "out") == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "config must be given, or store and groups"),
        (("--store", "store"), "config must be given, or store and groups"),
        (("--groups", "v1"), "config must be given, or store and groups"),
        (("--store", "nowhere", "--groups", "v1"), "store must be a folder that exists"),
        (("--store", ".", "--groups", "v1"), "out must lie outside of the store"),
        (("--config", "nowhere.toml"), "config must be a file that can be read"),
        (("--config", "store"), "config must be a file that can be read"),
        (("--config", "wrong.toml"), "config [adsystem]: "),
    ],
)
def test_sources_that_are_refused(
    room: SampleStore, given: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (room.folder / "wrong.toml").write_text("[adsystem]\nstores = 1\n")
    monkeypatch.chdir(room.folder)
    for job in ("hourly", "nightly"):
        result = kreach("jobs", job, *given, "--out", "out")
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith(f"kreach: {said}")
        assert result.err.count("\n") == 1


def test_a_bidder_of_the_settings_whose_log_is_missing(room: SampleStore) -> None:
    with (room.folder / "kreach.toml").open("a") as file:
        file.write('[redis]\nurl = "redis://127.0.0.1:1"\nbidders = ["b1", "b2", "b3"]\n')
    result = run(room, "nightly", "--day", "2025-11-01", config=True)
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        "kreach: store must hold the logs of its bidders (bidders/NAME/live.sqlite3), "
        "got none of b3\n"
    )


def test_a_store_that_was_never_used_and_an_out_that_is_a_file(
    room: SampleStore, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    given = ("--store", str(empty), "--groups", str(room.folder / "v1"))
    result = kreach("jobs", "nightly", *given, "--out", str(tmp_path / "elsewhere"))
    assert result.code == 1
    assert result.err.startswith("kreach: store must hold campaigns (control.sqlite3), got ")
    (tmp_path / "out").write_text("a file")
    result = run(room, "nightly", "--day", "2025-11-01")
    assert result.code == 1
    assert result.err.startswith("kreach: out must be a folder that can be written, got ")
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("asked", [("hourly",), ("hourly", "--out"), ("weekly",), ("nightly", "x")])
def test_wrong_usage(asked: tuple[str, ...]) -> None:
    assert kreach("jobs", *asked).code == 2


def test_files_that_cannot_be_read_are_one_line(room: SampleStore) -> None:
    file = next((room.bidders["b1"] / "log").rglob("*.parquet"))
    file.write_bytes(b"PAR1 no more PAR1")
    for job, at in (("hourly", ("--hour", "2025-11-01T05")), ("nightly", ("--day", "2025-11-01"))):
        result = run(room, job, *at)
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith("kreach: store must hold files that can be read, got ")
        assert result.err.count("\n") == 1
