"""The laws of chapters: whole ones differ by many, and those that are closed stay as they are."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kreach.adsystem.disclosure.chapters.chapter import (
    EMPTY,
    Chapter,
    ChapterCounts,
    ChapterList,
    Edges,
    Floors,
    close_chapters,
)
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

GRID = 3_600_000_000
PEOPLE = np.array([3, 1, 7, 2, 5, 4])  # targeted in each group

groups = st.integers(0, len(PEOPLE) - 1)
hours = st.lists(st.lists(groups, max_size=12), max_size=30)
floors = st.builds(Floors, st.integers(1, 15), st.integers(1, int(PEOPLE.sum())))


def people(served: IntArray) -> int:
    return int(PEOPLE[served].sum())


def content(served: list[int]) -> ChapterCounts:
    found = np.array(served, dtype=np.int64)
    return ChapterCounts.of(found, np.ones(len(found), dtype=np.int64), 10 * len(found))


def cells(log: list[list[int]], since: int = 0) -> list[tuple[int, ChapterCounts]]:
    return [((since + at + 1) * GRID, content(hour)) for at, hour in enumerate(log)]


def list_of(closed: list[tuple[int, ChapterCounts]], final: bool = False) -> ChapterList:
    chapters, begin = [], 0
    for at, (end, held) in enumerate(closed):
        last = final and at == len(closed) - 1
        sums = (held.impressions, held.rows, held.spend_micros)
        chapters.append(Chapter(begin, end, *sums, last))
        begin = end
    return ChapterList.of(chapters)


@given(hours, floors)
def test_any_two_windows_differ_by_many_or_not_at_all(log: list[list[int]], floors: Floors) -> None:
    closed, _ = close_chapters(cells(log), floors, people)
    listed = list_of(closed)
    edges = [0, *listed.ends.tolist()]
    windows = list(combinations(edges, 2))
    inside = {w: {h for h in range(len(log)) if w[0] <= h * GRID < w[1]} for w in windows}
    for one, other in combinations(windows, 2):
        assert listed.within(*one) is not None
        apart = inside[one] ^ inside[other]
        rows = [group for hour in apart for group in log[hour]]
        assert len(rows) >= floors.min_impressions
        assert people(np.unique(rows)) >= floors.min_people


@given(hours, hours, floors, st.data())
def test_chapters_of_a_log_are_the_first_of_every_longer_one(
    log: list[list[int]], more: list[list[int]], floors: Floors, data: st.DataObject
) -> None:
    first, rest = close_chapters(cells(log), floors, people)
    both, left = close_chapters(cells(log + more), floors, people)
    assert [end for end, _ in first] == [end for end, _ in both][: len(first)]
    for (_, one), (_, other) in zip(first, both, strict=False):
        assert one.groups.tolist() == other.groups.tolist()
        assert one.counts.tolist() == other.counts.tolist()
    # going on from where one stopped is the same as beginning anew
    stop = data.draw(st.integers(0, len(more)))
    some, rest = close_chapters(cells(more[:stop], len(log)), floors, people, rest)
    last, rest = close_chapters(cells(more[stop:], len(log) + stop), floors, people, rest)
    assert [end for end, _ in first + some + last] == [end for end, _ in both]
    assert rest.counts.tolist() == left.counts.tolist()


@given(hours, floors)
def test_a_chapter_is_closed_as_early_as_it_can_be_and_nothing_is_lost(
    log: list[list[int]], floors: Floors
) -> None:
    closed, rest = close_chapters(cells(log), floors, people)
    begin = 0
    for end, held in closed:
        assert held.impressions >= floors.min_impressions
        assert people(held.groups) >= floors.min_people
        before = [group for hour in log[begin // GRID : end // GRID - 1] for group in hour]
        assert len(before) < floors.min_impressions or people(np.unique(before)) < floors.min_people
        begin = end
    counted = sum(held.rows for _, held in closed) + rest.rows
    assert counted == sum(map(len, log))
    assert sum(c.spend_micros for _, c in closed) + rest.spend_micros == 10 * counted


@given(st.lists(groups), st.lists(groups))
def test_contents_add_and_subtract(one: list[int], other: list[int]) -> None:
    both = content(one).joined(content(other))
    assert both.counts.tolist() == [(one + other).count(g) for g in sorted({*one, *other})]
    left = both.without(content(other))
    assert left is not None
    assert left.groups.tolist() == sorted(set(one))
    assert (left.rows, left.spend_micros) == (len(one), 10 * len(one))
    if set(other) - set(one):
        assert content(one).without(content(other)) is None


def test_groups_without_impressions_were_not_served() -> None:
    held = ChapterCounts.of(np.arange(4), np.array([0, 2, 0, 1]), 30)
    assert held.groups.tolist() == [1, 3]
    left = held.without(content([1, 1]))
    assert left is not None
    assert left.groups.tolist() == [3]


def test_rows_of_unknown_groups_cost_money_and_are_no_impressions() -> None:
    held = ChapterCounts.of(np.array([2]), np.array([3]), spend_micros=50, rows=5)
    assert (held.impressions, held.rows) == (3, 5)
    both = held.joined(ChapterCounts.of(np.array([2]), np.array([1]), 10))
    assert (both.impressions, both.rows, both.spend_micros) == (4, 6, 60)
    assert EMPTY.joined(both) is both
    assert both.joined(EMPTY) is both


def chapters(*ends: int, final: bool = False) -> ChapterList:
    return list_of([(end * GRID, content([0] * 10)) for end in ends], final)


def test_the_newest_chapter_is_held_back_unless_it_is_the_last() -> None:
    assert (chapters().shown_count, chapters().newest_withheld) == (0, False)
    assert (chapters(2).shown_count, chapters(2).newest_withheld) == (0, True)
    assert (chapters(2, 5).shown_count, chapters(2, 5).rows) == (1, 20)
    over = chapters(2, 5, final=True)
    assert (over.shown_count, over.newest_withheld) == (2, False)


def test_windows_are_of_whole_chapters() -> None:
    listed = chapters(2, 5, 9, 12)  # the last is withheld
    assert listed.within(None, None) == range(3)
    assert listed.within(2 * GRID, None) == range(1, 3)
    assert listed.within(2 * GRID, 5 * GRID) == range(1, 2)
    assert listed.within(-GRID, 5 * GRID) == range(2)  # nothing comes before the first chapter
    for start, end in [(1, None), (None, 3), (None, 12), (None, 13), (9, None), (10, None), (0, 1)]:
        moment = None if end is None else end * GRID
        assert listed.within(None if start is None else start * GRID, moment) is None
    assert listed.within(2 * GRID + 1, None) is None
    assert listed.within(None, 5 * GRID - 1) is None
    assert chapters(2).within(None, None) is None


def test_the_nearest_edges_are_told() -> None:
    listed = chapters(2, 5, 9, 12)
    assert listed.edges(3 * GRID, of_end=False) == Edges(2 * GRID, 5 * GRID)
    assert listed.edges(5 * GRID, of_end=True) == Edges(5 * GRID, 5 * GRID)
    assert listed.edges(11 * GRID, of_end=True) == Edges(9 * GRID, None)
    assert listed.edges(GRID, of_end=True) == Edges(None, 2 * GRID)
    assert listed.edges(10 * GRID, of_end=False) == Edges(5 * GRID, None)


def test_totals_are_those_of_shown_chapters() -> None:
    listed = chapters(2, 5, 9, 12)
    at = [listed.impressions_at(hour * GRID) for hour in (1, 2, 4, 5, 9, 12, 99)]
    assert at == [0, 10, 10, 20, 30, 30, 30]
    assert listed.spend_at(5 * GRID) == 200


@pytest.mark.parametrize(
    ("by", "stops"),
    [
        ("hour", [1, 2, 3, 4, 5, 6]),
        ("day", [2, 4, 5, 6]),  # to the first ends at or after hours 24, 48, 96, and the last
        ("week", [5, 6]),  # Monday 5 January 1970 is at hour 96
    ],
)
def test_periods_end_with_the_chapter_that_is_under_way(by: str, stops: list[int]) -> None:
    listed = chapters(20, 24, 47, 60, 96, 100, final=True)
    merged = listed.merged(range(6), by)
    assert [stretch.stop for stretch in merged] == stops
    assert merged[0].start == 0
    assert all(a.stop == b.start for a, b in pairwise(merged))
    assert listed.merged(range(2, 4), "week") == [range(2, 4)]
    with pytest.raises(KreachError, match="by must be one of hour, day, week"):
        listed.merged(range(1), "month")


@given(st.lists(st.integers(1, 200), min_size=1, max_size=20, unique=True), st.data())
def test_periods_split_a_window_and_add_up(ends: list[int], data: st.DataObject) -> None:
    listed = chapters(*sorted(ends), final=True)
    stop = data.draw(st.integers(1, len(listed)))
    start = data.draw(st.integers(0, stop - 1))
    hours = {"hour": 1, "day": 24, "week": 168}
    for by, length in hours.items():
        merged = listed.merged(range(start, stop), by)
        assert [at for stretch in merged for at in stretch] == list(range(start, stop))
        ahead = 72 if by == "week" else 0
        for stretch in merged[:-1]:  # each holds the end of a period, and ends with the first such
            low = listed[stretch.start].start_micros // GRID + ahead
            inner = listed[stretch.stop - 1].start_micros // GRID + ahead
            high = listed[stretch.stop - 1].end_micros // GRID + ahead
            assert low // length < high // length
            assert low // length == inner // length


def test_floors_and_books_are_checked() -> None:
    with pytest.raises(KreachError, match="min_impressions must be a whole number from 1"):
        Floors(0, 5)
    with pytest.raises(KreachError, match="min_people must be a whole number from 1"):
        Floors(5, 0)
    gap = [Chapter(0, 2, 5, 5, 5, False), Chapter(3, 4, 5, 5, 5, False)]
    with pytest.raises(KreachError, match="follow each other"):
        ChapterList.of(gap)
