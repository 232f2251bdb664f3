"""Chapters after a restore: what tells a new one from a lost one is never few rows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kreach.adsystem.disclosure.chapters.store import FILE, fence_chapters
from tests.adsystem.disclosure.chapters.sample_log import (
    HOUR,
    SETTLE,
    START,
    SampleChapters,
    SampleLog,
    settings,
)
from tests.adsystem.disclosure.chapters.test_writer import after, fill


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SampleLog]:
    opened = SampleLog(tmp_path)
    yield opened
    opened.close()


def restored(log: SampleLog, hours: float) -> SampleChapters:
    """Chapters as of the backup, in a store that was restored at some hour."""
    fence_chapters(log.folder / FILE, START + round(hours * HOUR))
    return SampleChapters(log, settings())


def test_the_next_chapter_has_enough_rows_since_the_restore(log: SampleLog) -> None:
    fill(log, 0, 1)
    first = SampleChapters(log, settings())
    assert len(first.look(after(2))) == 2
    first.close()
    fill(log, 2, rows=4)  # in the backup, perhaps shown in a chapter that is lost
    sample = restored(log, 3.5)
    try:
        fill(log, 5, rows=4)
        # eight rows are enough for a chapter, four since the restore are not
        assert len(sample.look(after(6))) == 2
        fill(log, 7, rows=2)
        chapters = sample.look(after(8))
        assert len(chapters) == 3
        assert chapters[2][:3] == (START + 2 * HOUR, START + 8 * HOUR, 10)
        fill(log, 8, 9)
        chapters = sample.look(after(10))
        assert (len(chapters), chapters.shown_count) == (5, 4)  # as ever
        expected = log.counts(end=START + 9 * HOUR).tolist()
        assert sample.counts().tolist() == expected
    finally:
        sample.close()


def test_rows_in_the_hour_of_the_restore_count_as_before_it(log: SampleLog) -> None:
    fill(log, 0)
    sample = restored(log, 0.5)
    try:
        assert len(sample.look(after(1))) == 0
        fill(log, 1)
        chapters = sample.look(after(2))
        assert [(one.end_micros, one.impressions) for one in (chapters[0],)] == [
            (START + 2 * HOUR, 12)
        ]
    finally:
        sample.close()


def test_a_campaign_that_ends_with_few_rows_since_the_restore_stays_withheld(
    log: SampleLog,
) -> None:
    fill(log, 0, 1)
    first = SampleChapters(log, settings())
    assert first.look(after(2)).shown_count == 1
    first.close()
    sample = restored(log, 2.5)
    try:
        fill(log, 3, rows=2)
        over = START + 4 * HOUR
        for now in (START + 5 * HOUR + SETTLE, START + 50 * HOUR):
            chapters = sample.look(now, over)
            assert (len(chapters), chapters.shown_count) == (2, 1)
    finally:
        sample.close()


def test_a_campaign_that_began_after_the_restore_is_as_ever(log: SampleLog) -> None:
    sample = restored(log, -2.0)
    try:
        fill(log, 0, 1)
        chapters = sample.look(after(2))
        assert (len(chapters), chapters.shown_count) == (2, 1)
    finally:
        sample.close()
