"""Backups where logs leave the machine: mirrors of remote bidders, and a bidder that ships."""

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kreach.adsystem.backup.restored import fence_adsystem, settle
from kreach.adsystem.backup.stores import SCHEMAS, SIDE, store_files
from kreach.adsystem.backup.take import copy_adsystem
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.ledger.journal import open_reader
from kreach.adsystem.log.place import Place
from kreach.errors import KreachError
from kreach.service.backup.manifest import Manifest
from kreach.service.backup.reader import check_backup, restore_backup
from kreach.service.backup.writer import BackupWriter
from tests.adsystem.disclosure.chapters.sample_log import (
    HOUR,
    START,
    SampleChapters,
    SampleLog,
    settings,
)
from tests.adsystem.disclosure.chapters.test_writer import after, fill
from tests.adsystem.ledger.sample_journals import all_rows, row, wait
from tests.adsystem.shipping.test_faults import World


def back_up(store: Path, out: Path) -> Manifest:
    with BackupWriter(out, (store,)) as writer:
        facts = copy_adsystem(store, writer)
        return writer.finish(SIDE, "1.0", "2026-11-18T00:00:00Z", facts)


def restore(store: Path, out: Path, now: float) -> None:
    manifest = check_backup(out, SIDE, SCHEMAS)
    restore_backup(out, manifest, {"store": store}, SCHEMAS, lambda at: fence_adsystem(at, now))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, 11, faults=0.0)
    CampaignStore(made.reporting).close()
    CampaignStore(made.bidder).close()
    for _ in range(3):
        made.write()
    made.compact()
    made.write()
    _arrive(made)
    yield made
    made.stop_bidder()
    made.mirror.close()


def _arrive(world: World) -> Path:
    """All that the bidder wrote is in the mirror."""
    assert world.publisher.publish_new(tables=True) is None
    world.shipper.ship()
    for _ in range(8):
        world.read()
    link = world.reporting / "bidders" / "b1"
    assert sorted(all_rows(link)) == sorted(all_rows(world.bidder))
    return link


def test_a_restored_mirror_reads_on_where_it_was(world: World, tmp_path: Path) -> None:
    manifest = back_up(world.reporting, tmp_path / "backup")
    rows = len(all_rows(world.bidder))
    assert manifest.facts["mirrors"] == {"b1": {"rows": rows, "files": 1}}
    assert manifest.facts["journals"] == {"": {"rows": 0, "files": 0}}
    for _ in range(3):  # what comes after the backup
        world.write()
    world.compact()
    world.write()
    _arrive(world)
    world.mirror.close()
    shutil.rmtree(world.reporting)
    restore(world.reporting, tmp_path / "backup", time.time())
    link = world.reporting / "bidders" / "b1"
    assert link.is_symlink()
    assert len(all_rows(link)) == rows
    world.start_mirror()
    assert world.mirror.status(world.now).ready
    world.write()
    _arrive(world)
    with pytest.raises(KreachError, match="nothing to settle"):  # its bidder lost nothing
        settle(world.reporting, None, time.time(), 60.0)


def test_spend_is_never_booked_in_a_mirror(world: World, tmp_path: Path) -> None:
    own = world.reporting / "bidders" / "b2"  # a bidder beside reporting; b1 is before it
    shutil.copytree(world.bidder, own, ignore=shutil.ignore_patterns("bidder.lock"))
    back_up(world.reporting, tmp_path / "backup")
    world.mirror.close()
    shutil.rmtree(world.reporting)
    restore(world.reporting, tmp_path / "backup", time.time())
    world.start_mirror()
    done = settle(world.reporting, {}, time.time() + 3_600.0, 60.0)
    assert done.journals == (str(own),)
    with closing(open_reader(world.reporting / "bidders" / "b1")) as reader:
        meta = dict(reader.execute("SELECT name, value FROM meta"))
    assert "restored" not in meta
    assert "fence" not in meta


def test_a_restored_bidder_publishes_its_row_numbers_anew(world: World, tmp_path: Path) -> None:
    back_up(world.bidder, tmp_path / "backup")
    kept = world.written
    world.write()  # rows that are lost with the disk
    link = _arrive(world)
    before = sorted(all_rows(link))
    world.stop_bidder()
    shutil.rmtree(world.bidder)
    restored = time.time() - 3_600.0
    restore(world.bidder, tmp_path / "backup", restored)
    settle(world.bidder, None, time.time(), 60.0)
    with closing(sqlite3.connect(world.bidder / "live.sqlite3")) as file, file:
        file.execute("INSERT INTO adjustments VALUES (?, 1, 2500000)", (int(restored * 1e6),))
    world.start_bidder()
    for at in range(kept, kept + 3):  # the same row numbers, other impressions
        number, *rest, _ = row(at)
        world.journal.submit("impression", (number + (7 << 40), *rest, 5))
    assert wait(world.journal) is None
    world.publisher.publish_new(tables=True)
    world.read()
    assert sorted(all_rows(link)) == before  # until the new one is complete
    assert sorted(all_rows(_arrive(world))) != before
    with closing(open_reader(link)) as reader:  # so that a rebuilt bidder knows them
        assert [one[2] for one in reader.execute("SELECT * FROM adjustments")] == [2_500_000]


def test_chapters_stay_as_shown_when_only_the_bidder_is_restored(tmp_path: Path) -> None:
    """The log then lacks rows that advertisers were shown: nothing newer is, or it would differ."""
    bidder = tmp_path / "bidder"
    CampaignStore(bidder).close()
    log = SampleLog(bidder)
    sample = SampleChapters(log, settings(), tmp_path / "reporting")
    fill(log, 0, 1)
    back_up(bidder, tmp_path / "backup")
    fill(log, 2)
    assert sample.look(after(3)).shown_count == 2
    table, shown = sample.look(after(3)).table.tolist(), sample.counts().tolist()
    log.close()
    shutil.rmtree(bidder)
    restore(bidder, tmp_path / "backup", time.time() - 3_600.0)
    settle(bidder, None, time.time(), 60.0)
    log = sample.log = SampleLog(bidder, first_row=100)
    fill(log, 3, 4, 5)
    assert sample.look(after(6), START + 5 * HOUR).table.tolist() == table
    assert sample.counts().tolist() == shown
    assert sample.writer.behind(Place(1, "v1"))
    assert len(all_rows(bidder)) == 12 + 18  # those of the backup, and new ones, each once
    sample.close()
    log.close()


def test_lost_chapters_are_not_told_apart_when_only_reporting_is_restored(tmp_path: Path) -> None:
    """The chapter after a restore has at least the floors of rows that no lost one can have."""
    log = SampleLog(tmp_path / "bidder")
    store = tmp_path / "reporting"
    CampaignStore(store).close()
    sample = SampleChapters(log, settings(), store)
    fill(log, 0, 1)
    assert len(sample.look(after(1))) == 1
    sample.close()
    back_up(store, tmp_path / "backup")
    sample = SampleChapters(log, settings(), store)
    fill(log, 2, 3)
    assert sample.look(after(4)).shown_count == 3  # two of them will be lost
    sample.close()
    shutil.rmtree(store)
    restore(store, tmp_path / "backup", (START + 4 * HOUR) / 1e6)
    sample = SampleChapters(log, settings(), store)
    assert len(sample.look(after(4))) == 1
    fill(log, 4, rows=3)  # too few
    assert len(sample.look(after(5))) == 1
    fill(log, 5)
    chapters = sample.look(after(6))
    assert len(chapters) == 2
    assert chapters[1].start_micros == START + HOUR
    assert chapters[1].impressions == 6 * 3 + 3 + 6  # each row once
    sample.close()
    log.close()


def test_migration_knows_the_mirrors(world: World) -> None:
    found = {
        file.path.relative_to(world.reporting).as_posix() for file in store_files(world.reporting)
    }
    assert "bidders/b1/live.sqlite3" in found
