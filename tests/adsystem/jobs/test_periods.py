"""The periods and options of a run, and what is refused before anything is read."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.jobs.engines import open_engine
from kreach.adsystem.jobs.options import JobOptions
from kreach.adsystem.jobs.periods import chosen_periods
from kreach.adsystem.settings import AdSystemSettings
from kreach.errors import KreachError

NOW = datetime(2026, 11, 16, 4, 34, 54, 7, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def starts(by: str, **options: Any) -> list[str]:
    periods = chosen_periods(by, NOW, **options)
    length = {"hour": HOUR, "day": DAY}[by]
    assert all(period.end - period.start == length and period.by == by for period in periods)
    return [f"{period.start:%d %H}" for period in periods]


def test_without_being_asked_it_is_the_last_full_one() -> None:
    assert starts("hour") == ["16 03"]
    assert starts("day") == ["15 00"]


@pytest.mark.parametrize(
    ("by", "options", "expected"),
    [
        ("hour", {"at": "2026-11-01T13"}, ["01 13"]),
        ("hour", {"at": "2026-11-01T13:00+02:00"}, ["01 11"]),
        ("day", {"at": "2026-11-01"}, ["01 00"]),
        ("hour", {"last": 3}, ["16 01", "16 02", "16 03"]),
        ("day", {"last": 2}, ["14 00", "15 00"]),
        ("hour", {"start": "2026-11-16T02"}, ["16 02", "16 03"]),
        ("day", {"start": "2026-11-13", "end": "2026-11-15"}, ["13 00", "14 00"]),
        ("hour", {"start": "2026-11-01T23", "end": "2026-11-02T01"}, ["01 23", "02 00"]),
        ("hour", {"at": "2027-01-01T00"}, ["01 00"]),  # will be refused as not complete
    ],
)
def test_periods(by: str, options: dict[str, Any], expected: list[str]) -> None:
    assert starts(by, **options) == expected


@pytest.mark.parametrize(
    ("by", "options", "said"),
    [
        ("hour", {"at": "soon"}, "hour must be a time such as"),
        ("hour", {"at": "2026-11-01T13:30"}, "hour must be the start of an hour in UTC"),
        ("hour", {"at": "2026-11-01T13:00+05:30"}, "hour must be the start of an hour in UTC"),
        ("day", {"at": "2026-11-01T13"}, "day must be the start of a day in UTC"),
        ("day", {"at": "9999-12-31"}, "day must lie before the year 9999"),
        ("day", {"start": "2026-11-01T13"}, "from must be the start of a day"),
        ("day", {"start": "2026-11-01", "end": "x"}, "to must be a time such as"),
        ("day", {"end": "2026-11-01"}, "from must be given with to"),
        ("day", {"start": "2026-11-02", "end": "2026-11-02"}, "to must come after from"),
        ("day", {"start": "2026-11-16"}, "to must come after from"),  # today is not over
        ("hour", {"last": 0}, "last must be a whole number from 1"),
        ("hour", {"last": -3}, "last must be a whole number from 1"),
        ("hour", {"last": 10_001}, "last must be a whole number from 1 to 10000"),
        ("hour", {"at": "2026-11-01T13", "last": 2}, "hour must be given alone"),
        ("day", {"at": "2026-11-01", "start": "2026-11-01"}, "day must be given alone"),
        ("day", {"start": "2026-11-01", "last": 1}, "from/to must be given alone"),
        ("hour", {"start": "2000-01-01"}, "window must hold at most 10000 periods"),
    ],
)
def test_periods_that_are_refused(by: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(KreachError, match=said):
        chosen_periods(by, NOW, **options)


def options(tmp_path: Path, **more: Any) -> JobOptions:
    (tmp_path / "store").mkdir(exist_ok=True)
    settings = AdSystemSettings(store=tmp_path / "store", catalogues=(tmp_path / "v1",))
    given: dict[str, Any] = {"settings": settings, "out": tmp_path / "out"}
    return JobOptions(**(given | more))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"engine": "pandas"}, "engine must be duckdb or spark, got 'pandas'"),
        ({"level": 1.0}, "level must lie between 0 and 1"),
        ({"rows_per_file": 0}, "rows_per_file must be a whole number"),
    ],
)
def test_options_that_are_refused(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(KreachError, match=said):
        options(tmp_path, **more)


@pytest.mark.parametrize("out", ["store", "store/log", "store/bidders/b1", "link"])
def test_output_in_the_store_is_refused(tmp_path: Path, out: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "store")
    with pytest.raises(KreachError, match="out must lie outside of the store"):
        options(tmp_path, out=tmp_path / out)


@pytest.mark.parametrize("store", ["log", "daily/store", "hourly", ".drafts/x"])
def test_a_store_in_the_output_is_refused(tmp_path: Path, store: str) -> None:
    folder = tmp_path / store
    folder.mkdir(parents=True)
    settings = AdSystemSettings(store=folder, catalogues=(tmp_path / "v1",))
    with pytest.raises(KreachError, match=r"store must lie outside of .* of out"):
        JobOptions(settings=settings, out=tmp_path)


def test_a_store_that_is_not_there_is_refused(tmp_path: Path) -> None:
    settings = AdSystemSettings(store=tmp_path / "nowhere", catalogues=(tmp_path / "v1",))
    with pytest.raises(KreachError, match="store must be a folder that exists"):
        JobOptions(settings=settings, out=tmp_path / "out")
    assert not (tmp_path / "nowhere").exists()


def test_an_engine_that_is_not_there_is_refused() -> None:
    with pytest.raises(KreachError, match="engine must be duckdb or spark"):
        open_engine("pandas")
    with pytest.raises(KreachError, match="memory must be an amount"):
        open_engine("duckdb", memory="much")
