"""The times of chapters: stored as they were, joined and taken apart like counts."""

import sqlite3
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kreach.adsystem.disclosure.chapters.chapter import EMPTY, Chapter, ChapterCounts, ChapterList
from kreach.adsystem.disclosure.chapters.store import FILE, ChapterStore
from kreach.adsystem.disclosure.chapters.times import ChapterTimes, packed_times, unpacked_times
from kreach.adsystem.log.place import Place
from kreach.adsystem.measurement.times import group_draws
from tests.adsystem.visit_models import sample_model

PLACE = Place(1, "v1")
MODEL = sample_model()

rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 40)), max_size=25)


def _content(rows: list[tuple[int, int]]) -> ChapterCounts:
    ordered = sorted((group, 1_793_491_200_000_000 + at * 250_000_000) for group, at in rows)
    group = np.array([one for one, _ in ordered], dtype=np.int64)
    times = np.array([at for _, at in ordered], dtype=np.int64)
    return ChapterCounts.of(group, np.ones(len(group), dtype=np.int64), len(group), None, times)


def _same(one: ChapterCounts | None, other: ChapterCounts) -> None:
    assert one is not None
    assert one.times is not None
    assert other.times is not None
    assert one.groups.tolist() == other.groups.tolist()
    assert one.counts.tolist() == other.counts.tolist()
    assert one.times.tolist() == other.times.tolist()


@given(rows, rows)
def test_joined_and_without_are_inverse(
    mine: list[tuple[int, int]], more: list[tuple[int, int]]
) -> None:
    one, other, both = _content(mine), _content(more), _content(mine + more)
    _same(one.joined(other), both)
    _same(both.without(other), one)
    _same(EMPTY.joined(one), one)
    _same(one.without(EMPTY), one)


def test_rows_at_other_times_are_not_contained() -> None:
    assert _content([(0, 1), (0, 2)]).without(_content([(0, 3)])) is None


@given(rows)
def test_times_are_read_as_they_were_written(mine: list[tuple[int, int]]) -> None:
    content = _content(mine)
    assert content.times is not None
    read = unpacked_times(packed_times(content))
    assert read is not None
    assert read.tolist() == content.times.tolist()
    assert unpacked_times(packed_times(ChapterCounts(content.groups, content.counts, 1, 1))) is None


@given(st.lists(rows, min_size=1, max_size=4))
def test_draws_of_chapters_are_those_of_their_rows(chapters: list[list[tuple[int, int]]]) -> None:
    contents = [_content(rows) for rows in chapters]
    half = ChapterTimes.of(contents[:1])
    assert half is not None
    times = ChapterTimes.of(contents[1:], half)
    assert times is not None
    assert times.chapters == len(chapters)
    for first in range(len(chapters)):
        chosen = range(first, len(chapters))
        whole = _content([row for rows in chapters[first:] for row in rows])
        assert whole.times is not None
        wanted = group_draws(5, np.repeat(whole.groups, whole.counts), whole.times, MODEL)
        found = times.draws(chosen, 5, MODEL)
        np.testing.assert_allclose(found.draws, wanted.draws, rtol=1e-12)
        np.testing.assert_allclose(found.doubt, wanted.doubt, atol=1e-12)
        np.testing.assert_allclose(found.days, wanted.days, rtol=1e-12)
        assert found.hours == wanted.hours


def test_a_store_from_before_has_no_times(tmp_path: Path) -> None:
    store = ChapterStore(tmp_path)
    chapter = Chapter(0, 10, 3, 3, 5, False)
    assert store.add(PLACE, ChapterList.of([]), [(chapter, _content([(1, 1)] * 3))], 0)
    store.close()
    with sqlite3.connect(tmp_path / FILE) as connection:  # as version 1 was
        connection.execute("ALTER TABLE chapters DROP COLUMN times")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    again = ChapterStore(tmp_path)
    (content,) = again.contents(PLACE, range(1))
    assert content.counts.tolist() == [3]
    assert content.times is None
    assert ChapterTimes.of([content]) is None
    again.close()
