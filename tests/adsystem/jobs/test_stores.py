"""Up to when the logs of all bidders are complete, and which files are theirs."""

import shutil
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from kreach.adsystem.jobs.listing import digest, first_times, view_log
from kreach.adsystem.ledger.journal import Journal
from kreach.errors import KreachError
from tests.adsystem.jobs.rooms import DAY, HOUR, NOW, START, Room, Sold, micros
from tests.adsystem.ledger.sample_journals import journal, wait

MINUTE = timedelta(minutes=1)


def sold(ts: datetime, bidder: str = "") -> Sold:
    return Sold(bidder, "spring", "v1", 0, ts, 100)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    made = Room(tmp_path)
    made.add("spring")
    return made


def moment(made: Journal, at: datetime) -> None:
    made.submit("moment", (micros(at),))
    assert wait(made) is None


def test_a_log_is_complete_up_to_its_oldest_live_row(room: Room) -> None:
    at = START + 90 * MINUTE
    room.write([sold(START + MINUTE), sold(at), sold(at + MINUTE)])
    room.move(START + 17 * MINUTE)
    found = view_log(room.settings.store, at + 2 * MINUTE)
    assert found.complete_until == at
    assert [file.rows for file in found.of_day(START.date())] == [1]
    bidder = found.slowest()
    assert bidder.expires(at) == at + MINUTE + 15 * MINUTE - timedelta(seconds=2)  # by the hour
    assert bidder.expires(START + HOUR) is None


def test_without_live_rows_it_is_complete_up_to_the_last_moment_that_was_written(
    room: Room,
) -> None:
    room.write([sold(START)])
    room.move(START + HOUR)
    now = START + HOUR + 5 * MINUTE
    assert view_log(room.settings.store, now).complete_until == START + HOUR
    with journal(room.settings.store) as made:
        moment(made, now - timedelta(seconds=3))
    assert view_log(room.settings.store, now).complete_until == now - timedelta(seconds=3)


def test_a_bidder_that_is_down_does_not_hold_up_the_others(tmp_path: Path) -> None:
    room = Room(tmp_path, bidders=("down", "up"))
    room.add("spring")
    room.write([sold(START, "down"), sold(START, "up")])
    room.move(START + HOUR)
    now = START + 10 * HOUR
    with journal(room.bidders["up"]) as made:
        moment(made, now)
    assert view_log(room.settings.store, now).complete_until == now - 10 * MINUTE
    room.write([sold(START + 9 * HOUR, "down")])  # unless it went with rows that are not in files
    assert view_log(room.settings.store, now).complete_until == START + 9 * HOUR
    assert view_log(room.settings.store, now).slowest().name == "down"


def test_bidders_with_a_name_and_one_without(tmp_path: Path) -> None:
    room = Room(tmp_path, bidders=("", "b1", "b2"))
    room.add("spring")
    room.chance(60, seed=1)
    room.move()
    (room.settings.store / "bidders" / "empty").mkdir()
    (room.settings.store / "bidders" / "note.txt").write_text("x")
    found = view_log(room.settings.store, NOW)
    assert [bidder.name for bidder in found.bidders] == ["", "b1", "b2"]
    assert view_log(room.settings.store, NOW, ["b1", "b2"]) == found
    with pytest.raises(KreachError, match=r"store must hold the logs of its bidders.*b4, empty"):
        view_log(room.settings.store, NOW, ["b1", "b4", "empty"])
    assert sum(file.rows for file in found.of_day(START.date())) == 60
    assert found.of_day((START - DAY).date()) == found.before(START.date()) == []


def test_a_bidder_that_is_just_starting_has_no_rows(room: Room) -> None:
    room.settings.store.mkdir(exist_ok=True)
    with closing(sqlite3.connect(room.settings.store / "live.sqlite3")) as made:
        made.execute("CREATE TABLE other (x)")
    found = view_log(room.settings.store, NOW)
    assert found.before(NOW.date()) == []
    assert found.complete_until == NOW - 10 * MINUTE


def test_a_digest_tells_sets_of_files_apart(tmp_path: Path) -> None:
    room = Room(tmp_path, bidders=("b1", "b2"))
    room.add("spring")
    room.chance(40, seed=2, span=3 * DAY)
    room.move()
    files = view_log(room.settings.store, NOW).before(NOW.date())
    assert len(files) == 6
    assert digest(files) == digest(reversed(files))
    told = {digest(files[:count]) for count in range(7)}
    assert len(told) == 7


def test_files_tell_their_first_time(room: Room) -> None:
    room.chance(50, seed=3, span=2 * DAY)
    room.move()
    files = view_log(room.settings.store, NOW).before(NOW.date())
    truth = [
        min(row.ts for row in room.sold if row.ts.date() == file.day).replace(microsecond=0)
        for file in files
    ]
    found = first_times(files)
    assert [found[file].replace(microsecond=0) for file in files] == truth
    assert first_times([]) == {}


def test_files_that_are_lost_changed_or_unreadable_are_refused(room: Room) -> None:
    room.chance(50, seed=3)
    room.move()
    (file,) = view_log(room.settings.store, NOW).before(NOW.date())
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-9])
    with pytest.raises(KreachError, match="store must hold files that can be read"):
        first_times([file])
    file.path.unlink()
    with pytest.raises(KreachError, match=r"store must hold the files that it lists.*part-"):
        first_times([file])
    other = Room(room.folder / "other")
    other.add("spring")
    other.chance(49, seed=4)
    other.move()
    (short,) = view_log(other.settings.store, NOW).before(NOW.date())
    shutil.copy(short.path, file.path)
    with pytest.raises(KreachError, match=r"hold the rows that it lists \(50 in .*got 49"):
        first_times([file])


@pytest.mark.parametrize("name", ["part.parquet", "day=2026-13-01/part.parquet", "day=x/a.csv"])
def test_a_listing_that_is_not_by_day_is_refused(room: Room, name: str) -> None:
    room.write([sold(START)])
    with closing(sqlite3.connect(room.settings.store / "live.sqlite3")) as made:
        made.execute("INSERT INTO compacted VALUES (?, 1, 1, 1)", (name,))
        made.commit()
    with pytest.raises(KreachError, match="store must list files by day"):
        view_log(room.settings.store, NOW)


def test_a_store_without_a_log_or_with_a_damaged_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KreachError, match="store must hold the logs of its bidders"):
        view_log(tmp_path, NOW)
    (tmp_path / "live.sqlite3").write_bytes(b"no database" * 100)
    with pytest.raises(KreachError, match="store must hold a log that can be read"):
        view_log(tmp_path, NOW)
