"""Chapters beside a log that grows: what is shown never changes, and differs by whole chapters."""

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from kreach.adsystem.disclosure.audiences import served_people
from kreach.adsystem.disclosure.chapters import writer as writer_module
from kreach.adsystem.disclosure.chapters.grid import cells_of
from kreach.adsystem.log.place import Place
from kreach.numeric.types import IntArray
from tests.adsystem.disclosure.chapters.sample_log import (
    AUDIENCE,
    CLOSING,
    GROUPS,
    HOUR,
    SETTLE,
    START,
    SampleChapters,
    SampleLog,
    settings,
)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SampleLog]:
    opened = SampleLog(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def sample(log: SampleLog) -> Iterator[SampleChapters]:
    opened = SampleChapters(log, settings())
    yield opened
    opened.close()


def after(hours: float) -> int:
    """When the cells up to an hour are over and settled."""
    return START + round(hours * HOUR) + SETTLE


def fill(log: SampleLog, *hours: int, rows: int = 6, campaign: int = 1) -> None:
    """Enough impressions for a chapter in each hour."""
    for hour in hours:
        moments = [START + hour * HOUR + at * 1_000_000 for at in range(rows)]
        log.write(moments, [at % GROUPS for at in range(rows)], campaign)


def test_a_cell_counts_when_it_is_over_and_settled(log: SampleLog, sample: SampleChapters) -> None:
    fill(log, 0, 1)
    assert len(sample.look(START + HOUR + SETTLE - 1)) == 0
    assert sample.questions == 0
    chapters = sample.look(START + HOUR + SETTLE)
    assert (len(chapters), chapters.shown_count) == (1, 0)
    assert chapters[0][:3] == (START, START + HOUR, 6)
    chapters = sample.look(after(2))
    assert (len(chapters), chapters.shown_count) == (2, 1)
    assert sample.counts().tolist() == log.counts(end=START + HOUR).tolist()
    assert chapters[0].spend_micros == sum(row[-1] for row in log.truth[:6])


def test_chapters_begin_with_the_flight_and_wait_for_both_floors(
    log: SampleLog, sample: SampleChapters
) -> None:
    log.write([START + 5 * HOUR + at for at in range(9)], [2] * 9)  # one person, over and over
    assert len(sample.look(after(6))) == 0
    log.write([START + 7 * HOUR], [0])  # 11 people
    assert len(sample.look(after(8))) == 0
    log.write([START + 9 * HOUR], [3])  # 21
    chapters = sample.look(after(10))
    assert [(c.start_micros, c.end_micros, c.impressions) for c in (chapters[0],)] == [
        (START, START + 10 * HOUR, 11)
    ]


def test_the_tail_joins_the_last_chapter_when_the_campaign_is_over(
    log: SampleLog, sample: SampleChapters
) -> None:
    fill(log, 0, 1)
    fill(log, 4, rows=2)
    over = START + 5 * HOUR
    end = over + HOUR  # the point of the grid after the closing time
    assert CLOSING < HOUR
    chapters = sample.look(end + SETTLE - 1, over)
    assert (len(chapters), chapters.shown_count) == (2, 1)
    chapters = sample.look(end + SETTLE, over)
    assert (len(chapters), chapters.shown_count) == (2, 2)
    assert chapters[1] == (START + HOUR, end, 8, 8, chapters[1].spend_micros, True)
    assert sample.counts().tolist() == log.counts().tolist()
    assert chapters.spend_at(end) == log.spend()
    questions = sample.questions
    assert sample.look(end + 50 * HOUR, over).shown_count == 2
    assert sample.questions == questions  # it stays as it is, and nobody asks again


def test_a_held_chapter_without_a_tail_says_nothing_of_that(
    log: SampleLog, sample: SampleChapters
) -> None:
    fill(log, 0)
    over = START + 9 * HOUR
    chapters = sample.look(after(10), over)
    assert (chapters.shown_count, chapters[0].end_micros) == (1, START + 10 * HOUR)


def test_few_impressions_are_never_shown(log: SampleLog, sample: SampleChapters) -> None:
    fill(log, 0, rows=4)
    assert sample.look(after(30), START + HOUR).shown_count == 0
    fill(log, 20, rows=9)  # after the end
    assert sample.look(after(40), START + HOUR).shown_count == 0


def test_a_flight_that_goes_on_after_its_end_begins_a_new_chapter(
    log: SampleLog, sample: SampleChapters
) -> None:
    fill(log, 0)
    assert sample.look(after(3), START + HOUR).shown_count == 1
    before = sample.counts().tolist()
    fill(log, 5, rows=2)
    later = START + 8 * HOUR
    assert sample.look(after(12), later).shown_count == 1  # two impressions alone are not shown
    assert sample.counts().tolist() == before
    fill(log, 9)
    much_later = START + 20 * HOUR
    assert sample.look(after(15), None).shown_count == 1  # withheld
    chapters = sample.look(after(30), much_later)
    assert (chapters.shown_count, chapters[1].impressions) == (2, 8)
    assert sample.counts().tolist() == log.counts().tolist()


def test_an_end_moved_back_lets_the_held_chapter_go(log: SampleLog, sample: SampleChapters) -> None:
    fill(log, 0, 1, 2)
    assert sample.look(after(3)).shown_count == 2
    chapters = sample.look(after(3), START - HOUR)
    assert (chapters.shown_count, chapters[2].end_micros) == (3, START + 3 * HOUR)


def test_late_rows_go_into_the_next_chapter(log: SampleLog, sample: SampleChapters) -> None:
    fill(log, 0, 1)
    sample.look(after(2))
    shown = sample.counts().tolist()
    log.write([START + 10 * at for at in range(3)], [7, 7, 0])  # of the first hour
    fill(log, 2)
    chapters = sample.look(after(3))
    assert (chapters.shown_count, sample.counts(range(1)).tolist()) == (2, shown)
    assert chapters[2].impressions == 6 + 3
    fill(log, 3)
    sample.look(after(4))
    assert sample.counts(range(3)).tolist() == log.counts(end=START + 3 * HOUR).tolist()
    log.write([START], [11])  # and one for the tail
    assert sample.look(after(9), START + 4 * HOUR).shown_count == 4
    assert sample.counts().tolist() == log.counts().tolist()


def test_rows_from_before_the_flight_are_in_the_first_chapter(
    log: SampleLog, sample: SampleChapters
) -> None:
    log.write([START - 5 * HOUR - at for at in range(3)], [0, 1, 2])
    fill(log, 0, 1, rows=5)
    chapters = sample.look(after(2))
    assert [chapters[at].impressions for at in range(2)] == [8, 5]
    assert chapters[0].start_micros == START


def test_rows_of_groups_that_the_catalogue_lacks_cost_money_only(
    log: SampleLog, sample: SampleChapters
) -> None:
    fill(log, 0, 1)
    log.write([START + 5], [GROUPS + 3])
    chapters = sample.look(after(2))
    assert (chapters[0].impressions, chapters[0].rows) == (6, 7)
    paid = sum(row[-1] for row in log.truth if row[3] < START + HOUR)
    assert chapters[0].spend_micros == paid
    assert sample.counts().sum() == 6


def test_chapters_outlive_a_restart_and_other_settings(
    log: SampleLog, sample: SampleChapters
) -> None:
    fill(log, 0, 1, 2)
    before = sample.look(after(3))
    log.write([START], [11])  # late
    again = SampleChapters(log, settings(min_impressions=2, grid_seconds=1_800))
    chapters = again.look(after(3))
    assert chapters.table[:3].tolist() == before.table.tolist()
    assert again.counts(range(3)).tolist() == (log.counts() - np.eye(GROUPS)[11]).tolist()
    fill(log, 3)
    chapters = again.look(after(4))
    assert chapters[3].end_micros == START + 3 * HOUR + HOUR // 2  # the new grid, and the late row
    assert chapters[3].impressions == 7
    again.close()


def test_two_processes_agree_on_chapters(log: SampleLog, sample: SampleChapters) -> None:
    other = SampleChapters(log, settings(min_impressions=12))
    fill(log, 0, 1, 2)
    assert len(sample.look(after(1))) == 1
    assert len(other.look(after(3))) == 2  # after the first one, which it did not make
    chapters = sample.look(after(3))  # holds an old chapters, tries, and takes over what is there
    assert [chapters[at].end_micros for at in range(2)] == [START + HOUR, START + 3 * HOUR]
    assert chapters.table.tolist() == other.writer.chapters(Place(1, "v1")).table.tolist()
    other.close()


def test_a_log_that_lacks_rows_closes_nothing(tmp_path: Path) -> None:
    log = SampleLog(tmp_path / "full")
    sample = SampleChapters(log, settings())
    fill(log, 0, 1, 2)
    sample.look(after(3))
    shown = sample.counts().tolist()
    short = SampleLog(tmp_path / "short")
    fill(short, 0)
    fill(short, 4, 5, rows=5)
    sample.log = short
    assert len(sample.look(after(7), START + 6 * HOUR)) == 3
    assert sample.writer.behind(Place(1, "v1"))
    queries = sample.questions
    assert sample.look(after(7) + 1, START + 6 * HOUR).shown_count == 2
    assert sample.questions == queries  # until the grid goes on
    fill(short, 6, 7, rows=20)  # enough rows, but others than were shown
    short.truth = []
    assert len(sample.look(after(9))) == 3
    assert sample.counts().tolist() == shown
    sample.log = log  # the rows are back, and there are no others
    assert len(sample.look(after(9) + HOUR)) == 3
    assert not sample.writer.behind(Place(1, "v1"))
    fill(log, 10)
    assert len(sample.look(after(13))) == 4
    sample.close()
    log.close()
    short.close()


def test_nobody_to_name_the_people_shows_no_more_until_the_end(
    log: SampleLog, sample: SampleChapters
) -> None:
    fill(log, 0, 1)
    sample.look(after(2))
    fill(log, 2, 3)
    assert len(sample.look(after(4), people=None)) == 2
    chapters = sample.look(after(9), START + 4 * HOUR, people=None)
    assert (chapters.shown_count, chapters[1].impressions) == (2, 18)


def test_many_campaigns_are_asked_for_together(log: SampleLog, sample: SampleChapters) -> None:
    several = range(1, 41)
    for campaign in several:
        fill(log, 0, 1, campaign=campaign)
    sample.look(after(2), campaigns=several)
    assert sample.questions == 2
    sample.look(after(2), campaigns=several)
    assert sample.questions == 2
    for campaign in several:
        assert sample.writer.chapters(Place(campaign, "v1")).shown_count == 1
        assert sample.counts(campaign=campaign).tolist() == log.counts(1, end=START + HOUR).tolist()
    fill(log, 2, campaign=7)
    sample.look(after(3), campaigns=several)
    assert sample.questions == 4
    assert sample.writer.chapters(Place(7, "v1")).shown_count == 2


def test_a_long_log_is_read_and_written_in_pieces(
    log: SampleLog, sample: SampleChapters, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, *range(40))
    whole = sample.look(after(40))
    pieces = SampleChapters(log, settings())
    pieces.store = type(pieces.store)(log.folder / "other")
    pieces.writer = writer_module.ChapterWriter(pieces.store, settings())
    monkeypatch.setattr(writer_module, "_MAX_UNWRITTEN", 20)
    monkeypatch.setattr(writer_module, "cells_of", partial(cells_of, max_rows=50))
    assert pieces.look(after(40)).table.tolist() == whole.table.tolist()
    assert pieces.questions > 5
    assert pieces.counts().tolist() == sample.counts().tolist()
    assert pieces.look(after(50), START + 45 * HOUR).shown_count == 40
    pieces.close()


def test_catalogues_have_chapters_of_their_own(log: SampleLog, sample: SampleChapters) -> None:
    fill(log, 0, 1)
    log.write([START + HOUR + at for at in range(7)], range(7), version="v2")
    assert sample.look(after(2)).shown_count == 1
    assert sample.look(after(2), version="v2")[0].impressions == 7
    assert sample.writer.chapters(Place(1, "v1"))[1].impressions == 6


# -- the whole of it, with whatever may happen ---------------------------------------------------

served = st.lists(st.integers(0, GROUPS - 1), min_size=1, max_size=9)


class Step(NamedTuple):
    """Impressions, some that come late, time that passes, and what happens then."""

    rows: list[int]
    late: list[int]
    hours: int
    what: str
    least: int


steps = st.lists(
    st.builds(
        Step,
        served,
        st.one_of(st.just([]), st.just([]), st.lists(st.integers(0, GROUPS - 1), max_size=2)),
        st.integers(0, 3),
        st.sampled_from(["", "", "", "end", "end", "go on", "restart"]),
        st.integers(2, 8),
    ),
    min_size=5,
    max_size=16,
)


@hypothesis_settings(max_examples=12)
@given(steps)
def test_whatever_happens_shown_totals_differ_by_many_or_not_at_all(played: list[Step]) -> None:
    with TemporaryDirectory() as folder:
        log = SampleLog(Path(folder))
        try:
            _play(log, played)
        finally:
            log.close()


def _play(log: SampleLog, played: list[Step]) -> None:
    sample = SampleChapters(log, settings())
    now, over = START + SETTLE, None
    least = 5
    seen: dict[tuple[int, ...], IntArray] = {}  # what was shown, by the ends of chapters
    for step in played:
        log.write([now + at for at in range(len(step.rows))], step.rows)
        log.write([max(now - 3 * HOUR, START) for _ in step.late], step.late)
        now += step.hours * HOUR
        if step.what == "restart":
            sample.close()
            sample = SampleChapters(log, settings(min_impressions=step.least))
            least = min(least, step.least)
        elif step.what:
            over = now if step.what == "end" else None
        chapters = sample.look(now, over)
        ends = tuple(chapters.ends.tolist())
        if ends and chapters[-1].final and ends not in seen:  # over, and complete
            assert sample.counts().tolist() == log.counts(end=ends[-1]).tolist()
        for length in range(chapters.shown_count + 1):
            counts = sample.counts(range(length))
            assert seen.setdefault(ends[:length], counts).tolist() == counts.tolist()
        assert max(seen, key=len) == ends  # what was shown is shown
    sample.close()
    for shorter, longer in combinations(sorted(seen, key=len), 2):  # a window, and what it adds
        counts = seen[longer] - seen[shorter]
        assert counts.sum() >= least
        assert served_people(AUDIENCE, np.flatnonzero(counts)) >= 20
