"""Up to when the logs of all bidders are complete, and which files are theirs."""

import shutil
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from kreach.adsystem.jobs.listing import digest, first_times, view_log
from kreach.adsystem.ledger.journal import Journal
from kreach.boundary.times import to_micros
from kreach.errors import KreachError
from tests.adsystem.jobs.sample_stores import DAY, HOUR, NOW, START, SampleStore, Sold
from tests.adsystem.ledger.sample_journals import journal, wait

MINUTE = timedelta(minutes=1)


def sold(ts: datetime, bidder: str = "") -> Sold:
    return Sold(bidder, "spring", "v1", 0, ts, 100)


@pytest.fixture
def sample(tmp_path: Path) -> SampleStore:
    sample = SampleStore(tmp_path)
    sample.add("spring")
    return sample


def moment(writer: Journal, at: datetime) -> None:
    writer.submit("moment", (to_micros(at),))
    assert wait(writer) is None


def test_a_log_is_complete_up_to_its_oldest_live_row(sample: SampleStore) -> None:
    at = START + 90 * MINUTE
    sample.write([sold(START + MINUTE), sold(at), sold(at + MINUTE)])
    sample.move(START + 17 * MINUTE)
    view = view_log(sample.settings.store, at + 2 * MINUTE)
    assert view.complete_until == at
    assert [file.rows for file in view.of_day(START.date())] == [1]
    bidder = view.slowest()
    assert bidder.expires(at) == at + MINUTE + 15 * MINUTE - timedelta(seconds=2)  # by the hour
    assert bidder.expires(START + HOUR) is None


def test_without_live_rows_it_is_complete_up_to_the_last_moment_that_was_written(
    sample: SampleStore,
) -> None:
    sample.write([sold(START)])
    sample.move(START + HOUR)
    now = START + HOUR + 5 * MINUTE
    assert view_log(sample.settings.store, now).complete_until == START + HOUR
    with journal(sample.settings.store) as writer:
        moment(writer, now - timedelta(seconds=3))
    assert view_log(sample.settings.store, now).complete_until == now - timedelta(seconds=3)


def test_a_bidder_that_is_down_does_not_hold_up_the_others(tmp_path: Path) -> None:
    sample = SampleStore(tmp_path, bidders=("down", "up"))
    sample.add("spring")
    sample.write([sold(START, "down"), sold(START, "up")])
    sample.move(START + HOUR)
    now = START + 10 * HOUR
    with journal(sample.bidders["up"]) as writer:
        moment(writer, now)
    assert view_log(sample.settings.store, now).complete_until == now - 10 * MINUTE
    sample.write([sold(START + 9 * HOUR, "down")])  # unless it went with rows that are not in files
    assert view_log(sample.settings.store, now).complete_until == START + 9 * HOUR
    assert view_log(sample.settings.store, now).slowest().name == "down"


def test_bidders_with_a_name_and_one_without(tmp_path: Path) -> None:
    sample = SampleStore(tmp_path, bidders=("", "b1", "b2"))
    sample.add("spring")
    sample.write_random(60, seed=1)
    sample.move()
    (sample.settings.store / "bidders" / "empty").mkdir()
    (sample.settings.store / "bidders" / "note.txt").write_text("x")
    view = view_log(sample.settings.store, NOW)
    assert [bidder.name for bidder in view.bidders] == ["", "b1", "b2"]
    assert view_log(sample.settings.store, NOW, ["b1", "b2"]) == view
    with pytest.raises(KreachError, match=r"store must hold the logs of its bidders.*b4, empty"):
        view_log(sample.settings.store, NOW, ["b1", "b4", "empty"])
    assert sum(file.rows for file in view.of_day(START.date())) == 60
    assert view.of_day((START - DAY).date()) == view.before(START.date()) == []


def test_a_bidder_that_is_just_starting_has_no_rows(sample: SampleStore) -> None:
    sample.settings.store.mkdir(exist_ok=True)
    with closing(sqlite3.connect(sample.settings.store / "live.sqlite3")) as database:
        database.execute("CREATE TABLE other (x)")
    view = view_log(sample.settings.store, NOW)
    assert view.before(NOW.date()) == []
    assert view.complete_until == NOW - 10 * MINUTE


def test_a_digest_tells_sets_of_files_apart(tmp_path: Path) -> None:
    sample = SampleStore(tmp_path, bidders=("b1", "b2"))
    sample.add("spring")
    sample.write_random(40, seed=2, span=3 * DAY)
    sample.move()
    files = view_log(sample.settings.store, NOW).before(NOW.date())
    assert len(files) == 6
    assert digest(files) == digest(reversed(files))
    digests = {digest(files[:count]) for count in range(7)}
    assert len(digests) == 7


def test_files_tell_their_first_time(sample: SampleStore) -> None:
    sample.write_random(50, seed=3, span=2 * DAY)
    sample.move()
    files = view_log(sample.settings.store, NOW).before(NOW.date())
    truth = [
        min(row.ts for row in sample.sold if row.ts.date() == file.day).replace(microsecond=0)
        for file in files
    ]
    times = first_times(files)
    assert [times[file].replace(microsecond=0) for file in files] == truth
    assert first_times([]) == {}


def test_files_that_are_lost_changed_or_unreadable_are_refused(sample: SampleStore) -> None:
    sample.write_random(50, seed=3)
    sample.move()
    (file,) = view_log(sample.settings.store, NOW).before(NOW.date())
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[:-9])
    with pytest.raises(KreachError, match="store must hold files that can be read"):
        first_times([file])
    file.path.unlink()
    with pytest.raises(KreachError, match=r"store must hold the files that it lists.*part-"):
        first_times([file])
    other = SampleStore(sample.folder / "other")
    other.add("spring")
    other.write_random(49, seed=4)
    other.move()
    (short,) = view_log(other.settings.store, NOW).before(NOW.date())
    shutil.copy(short.path, file.path)
    with pytest.raises(KreachError, match=r"hold the rows that it lists \(50 in .*got 49"):
        first_times([file])


@pytest.mark.parametrize("name", ["part.parquet", "day=2026-13-01/part.parquet", "day=x/a.csv"])
def test_a_listing_that_is_not_by_day_is_refused(sample: SampleStore, name: str) -> None:
    sample.write([sold(START)])
    with closing(sqlite3.connect(sample.settings.store / "live.sqlite3")) as writer:
        writer.execute("INSERT INTO compacted VALUES (?, 1, 1, 1)", (name,))
        writer.commit()
    with pytest.raises(KreachError, match="store must list files by day"):
        view_log(sample.settings.store, NOW)


def test_a_store_without_a_log_or_with_a_damaged_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KreachError, match="store must hold the logs of its bidders"):
        view_log(tmp_path, NOW)
    (tmp_path / "live.sqlite3").write_bytes(b"no database" * 100)
    with pytest.raises(KreachError, match="store must hold a log that can be read"):
        view_log(tmp_path, NOW)
