"""Backups where logs leave the machine: mirrors of remote bidders, and a bidder that ships."""

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from kreach.adsystem.backup.chapter_resume import ChapterResume, resume_chapters
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
    GROUPS,
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


class RestoredBidder:
    """A log whose bidder was restored without reporting: it lacks an hour that chapters hold."""

    def __init__(self, folder: Path) -> None:
        self.bidder, self.reporting = folder / "bidder", folder / "reporting"
        for store in (self.bidder, self.reporting):
            CampaignStore(store).close()
        log = SampleLog(self.bidder)
        self.sample = SampleChapters(log, settings(), self.reporting)
        fill(log, 0, 1)
        back_up(self.bidder, folder / "backup")
        fill(log, 2)
        assert self.sample.look(after(3)).shown_count == 2
        self.table = self.sample.look(after(3)).table.tolist()
        self.shown = self.sample.counts().tolist()
        log.close()
        shutil.rmtree(self.bidder)
        restore(self.bidder, folder / "backup", time.time() - 3_600.0)
        settle(self.bidder, None, time.time(), 60.0)
        self.log = self.sample.log = SampleLog(self.bidder, first_row=100)

    def accept(self, hours: float) -> list[ChapterResume]:
        """What an operator does on reporting's machine, where the log is a mirror."""
        link = self.reporting / "bidders" / "b1"
        link.parent.mkdir(exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(self.bidder)
        return resume_chapters(self.reporting, settings(), ["b1"], after(hours) / 1e6)

    def close(self) -> None:
        self.sample.close()
        self.log.close()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[RestoredBidder]:
    made = RestoredBidder(tmp_path)
    yield made
    made.close()


def test_chapters_stay_as_shown_when_only_the_bidder_is_restored(alone: RestoredBidder) -> None:
    """The log then lacks rows that advertisers were shown: nothing newer is, or it would differ."""
    sample = alone.sample
    fill(alone.log, 3, 4, 5)
    assert sample.look(after(6), START + 5 * HOUR).table.tolist() == alone.table
    assert sample.counts().tolist() == alone.shown
    assert sample.writer.behind(Place(1, "v1"))
    assert sample.writer.behind_count == 1
    assert len(all_rows(alone.bidder)) == 12 + 18  # those of the backup, and new ones, each once


def test_chapters_go_on_after_an_operator_accepted_the_loss(alone: RestoredBidder) -> None:
    sample, log = alone.sample, alone.log
    fill(log, 3, rows=4)
    (accepted,) = alone.accept(4)
    assert accepted.since == "2026-11-01T03:00:00Z"
    assert len(sample.look(after(4))) == 3  # four rows since are too few
    assert sample.writer.behind_count == 0
    fill(log, 4, 5, 6)
    chapters = sample.look(after(7))
    assert chapters.table[:3].tolist() == alone.table  # those that were closed, as they were
    assert (chapters[3].start_micros, chapters[3].impressions) == (START + 3 * HOUR, 4 + 6)
    assert chapters.shown_count == 5
    assert sum(chapter.impressions for chapter in map(chapters.__getitem__, range(3, 6))) == 22
    new = sample.counts(range(3, 6))
    assert new.tolist() == log.counts().tolist()  # each new row once, none of the backup again
    with pytest.raises(KreachError, match="nothing to resume"):
        alone.accept(7)


def test_a_late_row_counts_once_after_the_loss_and_never_from_before_it(
    alone: RestoredBidder,
) -> None:
    sample, log = alone.sample, alone.log
    fill(log, 3)
    alone.accept(4)
    assert len(sample.look(after(4))) == 4
    log.write([START + 2 * HOUR + 5, START + 3 * HOUR + 5], [0, 1])  # one from before
    fill(log, 4)
    chapters = sample.look(after(5))
    assert (len(chapters), chapters[4].impressions) == (5, 6 + 1)
    over = START + 5 * HOUR
    chapters = sample.look(START + 7 * HOUR, over)
    assert chapters.shown_count == 5
    since = log.counts() - np.bincount([0], minlength=GROUPS)
    assert sample.counts(range(3, 5)).tolist() == since.tolist()


def test_rows_that_come_back_after_the_loss_was_accepted_are_not_shown_twice(
    alone: RestoredBidder,
) -> None:
    """The lost disk is found again: its hour is in a chapter already."""
    sample, log = alone.sample, alone.log
    fill(log, 3)
    alone.accept(4)
    assert len(sample.look(after(4))) == 4
    fill(log, 2)
    assert len(sample.look(after(5))) == 4
    fill(log, 5)
    chapters = sample.look(after(6))
    assert [chapters[at].impressions for at in (3, 4)] == [6, 6]


def test_a_second_loss_needs_a_second_word(alone: RestoredBidder) -> None:
    sample, log = alone.sample, alone.log
    fill(log, 3, 4)
    alone.accept(4)
    assert len(sample.look(after(5))) == 5
    with closing(sqlite3.connect(alone.bidder / "live.sqlite3")) as file, file:
        file.execute("DELETE FROM impressions WHERE ts >= ?", (START + 4 * HOUR,))
    log.close()
    log = alone.log = sample.log = SampleLog(alone.bidder, first_row=500)
    fill(log, 5, 6)
    assert len(sample.look(after(7))) == 5
    assert sample.writer.behind_count == 1
    alone.accept(7)
    assert len(sample.look(after(7))) == 7
    assert sample.counts(range(5, 7)).tolist() == log.counts().tolist()


def test_a_loss_is_not_accepted_where_there_is_none(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with pytest.raises(KreachError, match="has no chapters"):
        resume_chapters(store, settings(), [], time.time())
    CampaignStore(store).close()
    log = SampleLog(store)
    sample = SampleChapters(log, settings(), store)
    fill(log, 0, 1)
    assert len(sample.look(after(2))) == 2
    with pytest.raises(KreachError, match="nothing to resume"):
        resume_chapters(store, settings(), [], after(2) / 1e6)
    with pytest.raises(KreachError, match="the log of b1 has not arrived"):
        resume_chapters(store, settings(), ["b1"], after(2) / 1e6)
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
