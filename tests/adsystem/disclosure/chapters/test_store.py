"""Chapters on disk: written once, read back the same, and refused where others were first."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.adsystem.disclosure.chapters.chapter import Chapter, ChapterCounts, ChapterList
from kreach.adsystem.disclosure.chapters.store import FILE, ChapterStore, Flight, _packed, _unpacked
from kreach.adsystem.log.place import Place
from kreach.errors import KreachError

PLACE = Place(1, "v1")
NOTHING = ChapterList.of([])


def content(*groups: int) -> ChapterCounts:
    found = np.array(groups, dtype=np.int64)
    return ChapterCounts.of(found, np.ones(len(found), dtype=np.int64), 5)


def chapter(start: int, end: int, rows: int = 3, final: bool = False) -> Chapter:
    return Chapter(start, end, rows, rows, 5, final)


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.integers(1, 2**32 - 1), max_size=30))
def test_contents_are_read_as_they_were_written(counts: dict[int, int]) -> None:
    groups = np.array(sorted(counts), dtype=np.int64)
    held = ChapterCounts(
        groups, np.array([counts[g] for g in sorted(counts)], dtype=np.int64), 0, 0
    )
    read, numbers = _unpacked(_packed(held))
    assert dict(zip(read.tolist(), numbers.tolist(), strict=True)) == counts


def test_chapters_are_read_by_place(tmp_path: Path) -> None:
    store = ChapterStore(tmp_path)
    first = [(chapter(0, 10), content(1, 1, 7)), (chapter(10, 20), content(2, 2, 2))]
    assert store.add(PLACE, NOTHING, first, 0)
    assert store.add(Place(1, "v2"), NOTHING, [(chapter(5, 10), content(9, 9, 9))], 0)
    store.close()
    again = ChapterStore(tmp_path)
    listed = again.chapters(PLACE)
    assert [listed[at] for at in range(2)] == [made for made, _ in first]
    held = list(again.contents(PLACE, range(1, 2)))
    assert [(c.groups.tolist(), c.counts.tolist(), c.rows) for c in held] == [([2], [3], 3)]
    assert len(again.chapters(Place(1, "v2"))) == 1
    assert len(again.chapters(Place(2, "v1"))) == 0
    again.close()


def test_nobody_writes_after_chapters_that_he_does_not_know(tmp_path: Path) -> None:
    one, other = ChapterStore(tmp_path), ChapterStore(tmp_path)
    made = [(chapter(0, 10), content(1, 1, 7))]
    assert one.add(PLACE, NOTHING, made, 0)
    assert not other.add(PLACE, NOTHING, [(chapter(0, 30), content(1, 2, 3))], 0)
    listed = other.chapters(PLACE)
    assert listed[0].end_micros == 10
    assert other.add(PLACE, listed, [(chapter(10, 30), content(4, 4, 4))], 1)
    assert not one.add(PLACE, listed, [(chapter(10, 20), content(4, 4, 4))], 1)
    one.close()
    other.close()


def test_only_a_chapter_that_is_held_back_can_take_more(tmp_path: Path) -> None:
    store = ChapterStore(tmp_path)
    both = [(chapter(0, 10), content(1, 1, 7)), (chapter(10, 20), content(2, 2, 2))]
    store.add(PLACE, NOTHING, both, 0)
    listed = store.chapters(PLACE)
    assert not store.add(PLACE, listed, [(chapter(0, 40, final=True), content(1, 2, 3))], 0)
    assert store.add(PLACE, listed, [(chapter(10, 40, 4, final=True), content(2, 2, 2, 5))], 1)
    listed = store.chapters(PLACE)
    assert (listed.shown_count, listed[1].rows) == (2, 4)
    assert not store.add(PLACE, listed, [(chapter(10, 60, 5, final=True), content(2))], 1)
    store.close()


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    store = ChapterStore(tmp_path)
    broken = [(chapter(0, 10), content(1)), (chapter(10, 20), None)]
    with pytest.raises(AttributeError):
        store.add(PLACE, NOTHING, broken, 0)  # type: ignore[arg-type]
    assert len(store.chapters(PLACE)) == 0
    with sqlite3.connect(tmp_path / FILE, timeout=0.1) as other:  # nobody holds the file
        other.execute("DELETE FROM chapters")
    other.close()
    store.close()


def test_flights_are_kept(tmp_path: Path) -> None:
    store = ChapterStore(tmp_path)
    assert store.flight(3) is None
    store.store_flight(3, Flight(100, None, 7))
    store.store_flight(3, Flight(100, 5, 7))
    assert store.flight(3) == Flight(100, 5, 7)
    store.close()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KreachError, match="store must be a folder that can be written"):
        ChapterStore(tmp_path / "file")
