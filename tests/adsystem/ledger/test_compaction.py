"""From rows to files: whenever it stops, each row is in exactly one of the two."""

import os
import random
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kreach.adsystem.ledger import compaction
from kreach.adsystem.ledger.compaction import LOG_FOLDER, compact, listed_files, sweep_unlisted
from kreach.adsystem.ledger.journal import Journal, open_reader
from kreach.errors import KreachError
from tests.adsystem.ledger.sample_journals import (
    CAMPAIGNS,
    FIRST,
    GROUPS,
    all_rows,
    journal,
    row,
    wait,
)

LATE = FIRST / 1e6 + 20 * 86_400


def filled(made: Journal, rows: int = 300) -> None:
    """Rows of three days, two campaigns and two catalogues."""
    for at in range(rows):
        day, campaign, catalogue = at * 3 // rows, 1 + at % 2, 1 + at // 7 % 2
        made.submit("impression", row(at, day=day, campaign=campaign, catalogue=catalogue))
    assert wait(made) is None


def files_of(folder: Path) -> set[Path]:
    return set((folder / LOG_FOLDER).rglob("*.parquet*"))


def listed(folder: Path) -> set[Path]:
    reader = open_reader(folder)
    found, _ = listed_files(reader, folder)
    reader.close()
    return set(found)


def live(made: Journal) -> int:
    return next(iter(made.read("SELECT count(*) FROM impressions")))[0]  # type: ignore[no-any-return]


def test_rows_come_out_as_they_went_in(tmp_path: Path) -> None:
    with journal(tmp_path) as made:
        filled(made)
        before = all_rows(tmp_path)
        assert compact(made, tmp_path, CAMPAIGNS, GROUPS, LATE) == 300
        assert live(made) == 0
        assert compact(made, tmp_path, CAMPAIGNS, GROUPS, LATE) == 0
    assert all_rows(tmp_path) == before
    assert len(files_of(tmp_path)) == 3
    shown = [
        (line["impression_id"], line["campaign"], line["group"], line["catalogue"], line["price"])
        for file in sorted(files_of(tmp_path))
        for line in pq.ParquetFile(file).read().to_pylist()
    ]
    expected = [
        (
            f"{1 << 40 | at:x}",
            CAMPAIGNS[1 + at % 2],
            GROUPS[1 + at // 7 % 2][1][at % 3],
            GROUPS[1 + at // 7 % 2][0],
            (100 + at) / 1e6,
        )
        for at in range(300)
    ]
    assert sorted(shown) == sorted(expected)
    for file in files_of(tmp_path):
        days = {str(ts.date()) for ts in pq.ParquetFile(file).read()["ts"].to_pylist()}
        assert file.parent.name == f"day={days.pop()}"
        assert not days


class Died(BaseException):
    """The power went."""


class Dying:
    """Dies at the n-th step that leaves a trace outside of this process."""

    def __init__(self, patch: pytest.MonkeyPatch, last: int, after: bool) -> None:
        self.left, self._after = last, after
        self._wrap(patch, os, "fsync")
        self._wrap(patch, Path, "rename")
        self._wrap(patch, Path, "mkdir")
        self._wrap(patch, compaction, "_write_day")
        self._wrap(patch, Journal, "run_now")

    def _wrap(self, patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def step(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            now = self.left == 0
            if now and not self._after:
                raise Died
            answer = original(*arguments, **named)
            if now:
                raise Died
            return answer

        patch.setattr(owner, name, step)


@pytest.mark.parametrize("after", [False, True])
def test_death_at_any_step_loses_and_doubles_nothing(tmp_path: Path, after: bool) -> None:
    died = 0
    for step in range(1, 1_000):
        folder = tmp_path / str(step)
        with journal(folder) as made:
            filled(made, 60)
            before = all_rows(folder)
            with pytest.MonkeyPatch.context() as patch:
                dying = Dying(patch, step, after)
                try:
                    compact(made, folder, CAMPAIGNS, GROUPS, LATE)
                except Died:
                    died += 1
            wait(made)
            assert all_rows(folder) == before
        with journal(folder) as made:  # the next run
            reader = open_reader(folder)
            sweep_unlisted(reader, folder)
            reader.close()
            assert files_of(folder) == listed(folder)
            assert all_rows(folder) == before
            compact(made, folder, CAMPAIGNS, GROUPS, LATE)
            assert live(made) == 0
            assert all_rows(folder) == before
            assert files_of(folder) == listed(folder)
        if dying.left > 0:
            break
    assert died == step - 1 >= 15


def test_a_compaction_that_is_not_written_down_did_not_happen(tmp_path: Path) -> None:
    with journal(tmp_path) as made:
        filled(made, 60)
        before = all_rows(tmp_path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(made, "run_now", lambda job: OSError("full"))
            assert compact(made, tmp_path, CAMPAIGNS, GROUPS, LATE) == 0
        assert all_rows(tmp_path) == before
        made.submit("impression", row(1_000, day=0.5))
        wait(made)
        assert compact(made, tmp_path, CAMPAIGNS, GROUPS, LATE) == 61
        assert len(all_rows(tmp_path)) == 61


def test_readers_see_every_row_once_at_every_instant(tmp_path: Path) -> None:
    over = threading.Event()
    seen: list[int] = []
    wrong: list[str] = []

    def read() -> None:
        while not over.is_set():
            numbers = [number for number, *_ in all_rows(tmp_path)]
            if len(numbers) != len(set(numbers)) or (seen and len(numbers) < seen[-1]):
                wrong.append(f"{len(numbers)} rows, {len(set(numbers))} numbers")
            seen.append(len(numbers))

    with journal(tmp_path) as made:
        reader = threading.Thread(target=read)
        reader.start()
        chance = random.Random(2)
        at = 0
        for day in range(8):
            for _ in range(chance.randint(1, 120)):
                made.submit("impression", row(at, day=day))
                at += 1
            wait(made)
            compact(
                made, tmp_path, CAMPAIGNS, GROUPS, FIRST / 1e6 + (day + chance.random()) * 86_400
            )
        over.set()
        reader.join()
    assert not wrong
    assert len(all_rows(tmp_path)) == at
    assert len(seen) > 3


def test_what_may_still_be_repeated_stays_and_so_does_all_behind_it(tmp_path: Path) -> None:
    with journal(tmp_path) as made:
        for at, day in enumerate([0.0, 0.1, 5.0, 0.2, 0.3]):
            made.submit("impression", row(at, day=day))
        wait(made)
        expires = row(1, day=0.1)[6]
        assert compact(made, tmp_path, CAMPAIGNS, GROUPS, expires) == 1  # at its second: not yet
        assert compact(made, tmp_path, CAMPAIGNS, GROUPS, expires + 0.1) == 1
        assert compact(made, tmp_path, CAMPAIGNS, GROUPS, row(2, day=4.0)[6]) == 0
        assert live(made) == 3
        assert compact(made, tmp_path, CAMPAIGNS, GROUPS, LATE, min_rows=4) == 0
        assert compact(made, tmp_path, CAMPAIGNS, GROUPS, LATE, min_rows=3) == 3
        assert len(all_rows(tmp_path)) == 5


def test_rows_without_names_stay(tmp_path: Path) -> None:
    with journal(tmp_path) as made:
        made.submit("impression", row(0))
        made.submit("impression", row(1, catalogue=2))
        made.submit("impression", row(2, campaign=2))
        wait(made)
        before = all_rows(tmp_path)
        assert compact(made, tmp_path, CAMPAIGNS, {1: GROUPS[1]}, LATE) == 1
        assert compact(made, tmp_path, {1: "one"}, GROUPS, LATE) == 1
        assert live(made) == 1
        assert compact(made, tmp_path, CAMPAIGNS, GROUPS, LATE) == 1
        assert all_rows(tmp_path) == before


def test_row_numbers_go_on_where_they_were(tmp_path: Path) -> None:
    """Files are named by rows: a number must not come again when all rows have moved."""
    for day in range(4):
        with journal(tmp_path) as made:
            made.submit("impression", row(day, day=day))
            wait(made)
            assert compact(made, tmp_path, CAMPAIGNS, GROUPS, LATE) == 1
    assert len(all_rows(tmp_path)) == len(files_of(tmp_path)) == 4


def test_what_has_expired_stays_expired(tmp_path: Path) -> None:
    """Nobody looks for the number of a moved row: the next run must not think it is earlier."""
    with journal(tmp_path) as made:
        filled(made, 30)
        made.submit("moment", (FIRST,))
        wait(made)
        compact(made, tmp_path, CAMPAIGNS, GROUPS, LATE)
        made.submit("moment", (FIRST,))
        wait(made)
        assert made.last_moment() >= LATE - 1e-6


def test_sweeping_leaves_what_is_listed_and_takes_the_rest(tmp_path: Path) -> None:
    with journal(tmp_path) as made:
        filled(made, 60)
        compact(made, tmp_path, CAMPAIGNS, GROUPS, LATE)
        good = files_of(tmp_path)
        day = next(iter(good)).parent
        for name in ("part-000000000001-000000000009.parquet", "part-x.parquet.draft"):
            (day / name).write_bytes(b"half")
        reader = open_reader(tmp_path)
        assert sweep_unlisted(reader, tmp_path) == 2
        assert sweep_unlisted(reader, tmp_path) == 0
        reader.close()
        assert files_of(tmp_path) == good


def test_files_of_another_database_are_not_swept(tmp_path: Path) -> None:
    """Whoever deletes a damaged database must not lose the files as well."""
    with journal(tmp_path) as made:
        filled(made, 60)
        compact(made, tmp_path, CAMPAIGNS, GROUPS, LATE)
    before = files_of(tmp_path)
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / LOG_FOLDER, kept)
    for file in tmp_path.glob("live.sqlite3*"):
        file.unlink()
    with journal(tmp_path):
        reader = open_reader(tmp_path)
        with pytest.raises(KreachError, match="but not the journal that wrote it"):
            sweep_unlisted(reader, tmp_path)
        reader.close()
    assert files_of(tmp_path) == before
