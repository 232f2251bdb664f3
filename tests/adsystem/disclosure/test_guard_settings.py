"""The guard's settings are checked, and `--check-config` tells what advertisers may use."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kreach.adsystem.catalogues import read_audience
from kreach.adsystem.check import check_adsystem, check_closing
from kreach.adsystem.disclosure.audience_rules import AudienceRules
from kreach.adsystem.disclosure.chapters.policy import whole_chapters
from kreach.adsystem.disclosure.chapters.store import ChapterStore, Flight, stored_audiences
from kreach.adsystem.disclosure.chapters.writer import observe_flight
from kreach.adsystem.settings import (
    AdSystemSettings,
    BidderSettings,
    GuardSettings,
    NoiseSettings,
)
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue, write_groups
from kreach.boundary.times import Window
from kreach.errors import KreachError
from kreach.service.config import load_settings, read_file
from tests.adsystem.disclosure.chapters.test_chapter import chapters

SIZES = np.full(200, 10)
CATALOGUE = Catalogue(
    "v1", datetime(2026, 10, 1, tzinfo=UTC), 5, tuple(f"g{j}" for j in range(200)), SIZES
)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"grid_seconds": 0}, "grid_seconds must lie between 1 and 86400, got 0"),
        ({"grid_seconds": 7_000}, "grid_seconds must divide a day"),
        ({"min_impressions": 0}, "min_impressions must lie between 1 and 1e"),
        ({"min_people": -1}, "min_people must lie between 1 and 1e"),
        ({"min_people": 1_001}, "min_audience must be at least min_people"),
        ({"min_audience": 499}, "min_audience must be at least min_people"),
        ({"min_difference": -1}, "min_difference must lie between 0"),
        ({"audiences_together": 1}, "audiences_together must lie between 2 and 6"),
        ({"settle_seconds": -0.1}, "settle_seconds must lie between 0 and 86400"),
        ({"closing_seconds": 1e9}, "closing_seconds must lie between 0 and 604800"),
    ],
)
def test_settings_are_checked(given: dict[str, Any], rule: str) -> None:
    with pytest.raises(KreachError, match=rule):
        GuardSettings(**given)
    with pytest.raises(KreachError, match="guard"):
        load_settings(GuardSettings, "guard", {"guard": given}, environment={})


def test_final_numbers_are_made_when_no_notice_can_come() -> None:
    bidder, long = BidderSettings(), BidderSettings(expiry_seconds=1_800)
    noise = NoiseSettings(enabled=True)
    check_closing(bidder, GuardSettings(), noise)
    check_closing(long, GuardSettings(enabled=False), NoiseSettings())
    rule = r"closing_seconds of \[guard\] must be more than expiry_seconds of \[bidder\] \(1800\)"
    with pytest.raises(KreachError, match=rule):
        check_closing(long, GuardSettings(), noise)
    with pytest.raises(KreachError, match=r"closing_seconds of \[noise\] must be more"):
        check_closing(long, GuardSettings(closing_seconds=1_801.0), noise)


def test_the_guard_is_on_unless_it_is_turned_off(tmp_path: Path) -> None:
    file = tmp_path / "kreach.toml"
    file.write_text("[guard]\nmin_people = 700\n")
    environment = {"KREACH_GUARD_ENABLED": "false", "KREACH_GUARD_GRID_SECONDS": "900"}
    document = read_file(file)
    assert load_settings(GuardSettings, "guard", document, environment={}).enabled
    found = load_settings(GuardSettings, "guard", document, environment=environment)
    assert (found.enabled, found.grid_seconds, found.min_people) == (False, 900, 700)


def adsystem(folder: Path) -> AdSystemSettings:
    write_catalogue(CATALOGUE, folder / "v1")
    named = {
        "half": SIZES * (np.arange(200) < 100),
        "nearly half": SIZES * (np.arange(200) < 110),
        "few": SIZES * (np.arange(200) < 20),
        "other half": SIZES * (np.arange(200) >= 100),
    }
    for name, targeted in named.items():
        write_groups(CATALOGUE, folder / f"{name}.parquet", targeted)
    audiences = {name: folder / f"{name}.parquet" for name in named}
    return AdSystemSettings(
        store=folder / "store", catalogues=(folder / "v1",), audiences=audiences
    )


def test_a_check_tells_what_advertisers_may_use(tmp_path: Path) -> None:
    shared = adsystem(tmp_path)
    found = check_adsystem(shared, GuardSettings())
    assert found["audiences"] == {
        "everyone": 2_000,
        "half": 1_000,
        "nearly half": 1_100,
        "few": 200,
        "other half": 1_000,
    }
    assert found["for advertisers"] == {
        "everyone": "yes",
        "half": "yes",
        "nearly half": "audience too close (to half)",
        "few": "audience too small",
        "other half": "audience too close (to everyone − half)",
    }
    pairs = check_adsystem(shared, GuardSettings(audiences_together=2))
    assert pairs["for advertisers"]["other half"] == "yes"
    assert "for advertisers" not in check_adsystem(shared)
    assert "for advertisers" not in check_adsystem(shared, GuardSettings(enabled=False))
    (tmp_path / "few.parquet").unlink()
    with pytest.raises(KreachError, match="name a file that exists"):
        check_adsystem(shared, GuardSettings())


def test_audiences_are_judged_once_for_each_catalogue(tmp_path: Path) -> None:
    shared = adsystem(tmp_path)
    reads = []

    def read(catalogue: Catalogue, name: str) -> Any:
        reads.append(name)
        return read_audience(shared, catalogue, name)

    names = ["everyone", *shared.audiences]
    floors, archive = GuardSettings(min_audience=700), ChapterStore(shared.store)
    audiences = AudienceRules(read, lambda: names, floors, b"a key of some length", archive)
    assert audiences.verdict(CATALOGUE, "few").reason == "audience too small"
    assert audiences.verdict(CATALOGUE, "half").reason is None
    assert audiences.verdict(CATALOGUE, "unheard of").reason == "audience not on this catalogue"
    assert set(reads) == set(names)
    # once more: half for one that is close to it, everyone and half for what they leave, and
    # both as they are kept
    assert len(reads) == 10


def test_what_could_be_used_is_kept_in_its_order(tmp_path: Path) -> None:
    assert stored_audiences(tmp_path, "v1") == {}
    assert not list(tmp_path.iterdir())
    first, second = ChapterStore(tmp_path), ChapterStore(tmp_path)
    assert first.store_audiences("v1", 0, {"sports": b"one", "news": b"two"})
    assert not second.store_audiences("v1", 0, {"late": b"three"})  # it was not the first
    assert second.store_audiences("v1", 2, {"arts": b"three"})
    assert second.store_audiences("v2", 0, {})
    names = {"sports": b"one", "news": b"two", "arts": b"three"}
    assert list(first.audiences("v1").items()) == list(names.items())
    assert stored_audiences(tmp_path, "v1") == names  # while others have it open
    first.close()
    second.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert list(stored_audiences(tmp_path, "v1").items()) == list(names.items())
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    assert stored_audiences(tmp_path, "v2") == {}


def test_a_check_of_an_old_or_a_broken_store(tmp_path: Path) -> None:
    file = tmp_path / "chapters.sqlite3"
    with closing(sqlite3.connect(file)) as before:
        before.execute("CREATE TABLE chapters (campaign INTEGER)")  # of a version without them
    assert stored_audiences(tmp_path, "v1") == {}
    file.write_bytes(b"no database at all, but long enough to be looked at" * 100)
    with pytest.raises(KreachError, match="store must be a folder"):
        stored_audiences(tmp_path, "v1")


def test_a_window_may_begin_before_all_chapters_but_not_end_after() -> None:
    book = chapters(2, 5, 9)
    assert whole_chapters(book, Window.between("1960-01-01", "1970-01-01T05:00Z")) == range(2)
    with pytest.raises(KreachError) as refused:
        whole_chapters(book, Window.between("1960-01-01", "1970-01-01T06:00Z"))
    assert str(refused.value) == (
        "end must be where a chapter ends (1970-01-01T05:00:00Z), got 1970-01-01T06:00:00Z"
    )


def test_what_is_seen_of_a_campaigns_end() -> None:
    first = observe_flight(None, 100, ended=False, now_micros=10)
    assert first == Flight(100, None, None)
    assert observe_flight(first, 100, ended=False, now_micros=500) == first  # it ended by itself
    moved = observe_flight(first, 20, ended=False, now_micros=50)  # into the past
    assert moved == Flight(20, 50, None)
    assert observe_flight(moved, 20, ended=False, now_micros=60) == moved
    assert observe_flight(moved, 90, ended=False, now_micros=60) == Flight(90, None, None)
    ended = observe_flight(first, 100, ended=True, now_micros=70)
    assert ended == Flight(100, None, 70)
    assert observe_flight(ended, 100, ended=True, now_micros=90) == ended
    assert observe_flight(None, 100, ended=True, now_micros=90) == Flight(100, None, 90)
