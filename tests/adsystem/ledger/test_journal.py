"""The live log: what was told to be written is, or somebody hears of it."""

import random
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.ledger.journal import Journal
from kreach.errors import KreachError
from kreach.service.logs import Log
from tests.adsystem.ledger.sample_journals import all_rows, journal, row, wait


def broken(connection: sqlite3.Connection) -> None:
    raise sqlite3.OperationalError("the disk is on fire")


class Held:
    """A writer that stands still until it is let go, so that records pile up behind it."""

    def __init__(self, made: Journal) -> None:
        self._go, self._standing = threading.Event(), threading.Event()
        made.run(self._stand)
        self._standing.wait(30)

    def _stand(self, connection: sqlite3.Connection) -> None:
        self._standing.set()
        assert self._go.wait(30)

    def go(self) -> None:
        self._go.set()


def test_what_piles_up_is_written_in_one_commit(tmp_path: Path) -> None:
    with journal(tmp_path) as made:
        held = Held(made)
        told: list[Exception | None] = []
        for at in range(1_000):
            made.submit("impression", row(at), told.append)
        made.submit("grant", (1, 5_000))
        before = made.commits
        held.go()
        assert wait(made) is None
        assert told == [None] * 1_000
        assert made.commits - before in {2, 3}  # what stood, the pile, and perhaps our question
        assert len(all_rows(tmp_path)) == 1_000
        assert list(made.read("SELECT * FROM grants")) == [(1, 5_000)]


def test_a_commit_that_fails_is_told_to_all_of_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = []
    with journal(tmp_path, lines) as made:
        made.submit("impression", row(0))
        assert wait(made) is None
        held = Held(made)
        told: list[Exception | None] = []
        for at in range(1, 50):
            made.submit("impression", row(at), told.append)
            if at == 25:
                made.run(broken, told.append)
        held.go()
        made.run(broken, told.append)  # in the pile or behind it
        while len(told) < 51:
            threading.Event().wait(0.01)
        assert [str(error) for error in told] == ["the disk is on fire"] * 51
        assert len(all_rows(tmp_path)) == 1
        assert str(made.failure) == "the disk is on fire"
        for at in range(1, 50):
            made.submit("impression", row(at))
        assert wait(made) is None
        assert made.failure is None
        assert len(all_rows(tmp_path)) == 50
    assert [line["event"] for line in lines] == [
        "log cannot be written",
        "log can be written again",
    ]
    assert lines[0]["reason"] == "the disk is on fire"


def test_failures_that_are_not_the_databases_are_told_by_kind_only(tmp_path: Path) -> None:
    def quoting(connection: sqlite3.Connection) -> None:
        raise ValueError("user 4711")

    lines: list[dict[str, Any]] = []
    with journal(tmp_path, lines) as made:
        made.run(quoting)
        wait(made)
    assert "4711" not in str(lines)


def test_a_full_database_fails_and_recovers(tmp_path: Path) -> None:
    with journal(tmp_path) as made:

        def full(connection: sqlite3.Connection) -> None:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")

        made.run(full)
        assert wait(made) is None
        told: list[Exception | None] = []
        for at in range(5_000):
            made.submit("impression", row(at), told.append)
        wait(made)
        while len(told) < 5_000:
            threading.Event().wait(0.01)
        assert made.failure is None or "full" in made.failure
        kept = sum(error is None for error in told)
        assert kept < 5_000
        assert len(all_rows(tmp_path)) == kept
        made.run(lambda connection: connection.execute("PRAGMA max_page_count = 1000000"))
        for at in range(5_000):
            made.submit("impression", row(at))  # all again, those that are there too
        assert wait(made) is None
        assert len(all_rows(tmp_path)) == 5_000


def test_the_first_of_two_rows_with_a_number_stays(tmp_path: Path) -> None:
    with journal(tmp_path) as made:
        first, again = row(7), (*row(7)[:-1], 99_999)
        made.submit("impression", first)
        made.submit("impression", again)
        assert wait(made) is None
        made.submit("impression", again)
        assert wait(made) is None
    assert [(number, price) for number, _, price, _ in all_rows(tmp_path)] == [(first[0], 107)]


def test_the_newest_grant_counts(tmp_path: Path) -> None:
    with journal(tmp_path) as made:
        for micros in (10, 30, 20):
            made.submit("grant", (1, micros))
        wait(made)
        assert list(made.read("SELECT micros FROM grants WHERE campaign = 1")) == [(20,)]


def test_closing_writes_what_was_submitted(tmp_path: Path) -> None:
    made = Journal(tmp_path, Log("test", lambda line: None))
    for at in range(3_000):
        made.submit("impression", row(at))
    made.close()
    assert len(all_rows(tmp_path)) == 3_000


def test_many_threads_submit_and_each_hears_of_its_own(tmp_path: Path) -> None:
    chance = random.Random(5)
    failing = set(chance.sample(range(400), 20))
    heard: dict[int, Exception | None] = {}

    def some(made: Journal, first: int) -> None:
        for at in range(first, first + 100):
            if at in failing:
                made.run(broken)
            made.submit("impression", row(at), lambda error, at=at: heard.update({at: error}))  # type: ignore[misc]

    with journal(tmp_path) as made:
        threads = [threading.Thread(target=some, args=(made, 100 * n)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait(made)
    assert len(heard) == 400
    written = {number & 0xFFFF for number, *_ in all_rows(tmp_path)}
    assert written == {at for at, error in heard.items() if error is None}


def test_a_second_bidder_on_a_store_is_refused(tmp_path: Path) -> None:
    with journal(tmp_path):
        for _ in range(2):
            with pytest.raises(KreachError, match="is in use by another bidder: stop it first"):
                Journal(tmp_path, Log("test", lambda line: None))
    with journal(tmp_path):
        pass


def test_every_opening_is_another_epoch(tmp_path: Path) -> None:
    epochs = []
    for _ in range(4):
        with journal(tmp_path) as made:
            epochs.append(made.epoch)
    assert epochs == [1, 2, 3, 4]


def test_the_epoch_is_not_in_what_a_torn_tail_can_take_away(tmp_path: Path) -> None:
    """Two runs of one epoch would take each other's tokens for their own."""
    epochs = []
    for _ in range(3):
        with journal(tmp_path) as made:
            epochs.append(made.epoch)
            tail = tmp_path / "live.sqlite3-wal"
            assert not tail.exists() or tail.stat().st_size == 0
            main = (tmp_path / "live.sqlite3").read_bytes()
        (tmp_path / "live.sqlite3").write_bytes(main)  # as if no more had come to the disk
        tail.unlink(missing_ok=True)
        (tmp_path / "live.sqlite3-shm").unlink(missing_ok=True)
    assert epochs == [1, 2, 3]


def test_the_last_moment_is_the_latest_of_what_was_written(tmp_path: Path) -> None:
    with journal(tmp_path) as made:
        assert made.last_moment() == 0.0
        made.submit("moment", (5_000_000,))
        wait(made)
        assert made.last_moment() == 5.0
        made.submit("impression", row(3))
        wait(made)
        assert made.last_moment() == row(3)[4] / 1e6


def test_catalogues_keep_their_numbers(tmp_path: Path) -> None:
    with journal(tmp_path / "one") as made:
        first = [made.catalogue_number(name) for name in ("a", "b", "a", "c")]
        assert first[0] == first[2]
        assert len(set(first)) == 3
        assert all(0 <= number < 2**31 for number in first)
    with journal(tmp_path / "one") as made:
        assert [made.catalogue_number(name) for name in ("c", "b")] == [first[3], first[1]]
    with journal(tmp_path / "two") as made:  # another bidder's, who never met the first
        assert [made.catalogue_number(name) for name in ("c", "a")] == [first[3], first[0]]


def test_two_catalogues_never_share_a_number(tmp_path: Path) -> None:
    with journal(tmp_path) as made:
        number = made.catalogue_number("a")
        taken = ("UPDATE catalogues SET version = 'another' WHERE number = ?", (number,))
        assert made.run_now(lambda connection: connection.execute(*taken)) is None
        with pytest.raises(KreachError, match="version"):
            made.catalogue_number("a")


@pytest.mark.parametrize("content", [b"not a database at all, " * 500, b"\0" * 8192 + b"x"])
def test_what_is_no_database_is_refused_and_let_go_of(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "live.sqlite3").write_bytes(content)
    for _ in range(2):
        with pytest.raises(KreachError, match="store must hold a log that can be written"):
            Journal(tmp_path, Log("test", lambda line: None))
    assert (tmp_path / "live.sqlite3").read_bytes() == content
    (tmp_path / "live.sqlite3").unlink()
    with journal(tmp_path):
        pass


def test_a_store_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("x")
    with pytest.raises(KreachError, match="store must be a folder that can be written"):
        Journal(tmp_path / "store", Log("test", lambda line: None))


def test_damaged_pages_are_refused_or_hold_nothing(tmp_path: Path) -> None:
    """Random bytes over any page of the main file: refused, or all rows are there all the same."""
    whole = tmp_path / "whole"
    with journal(whole) as made:
        for at in range(4_000):
            made.submit("impression", row(at))
        wait(made)
    content = (whole / "live.sqlite3").read_bytes()
    rows = all_rows(whole)
    chance = random.Random(11)
    refused = 0
    pages = len(content) // 4096
    for page in [0, *chance.sample(range(1, pages), 25)]:
        store = tmp_path / f"page-{page}"
        store.mkdir()
        damaged = bytearray(content)
        damaged[page * 4096 : (page + 1) * 4096] = chance.randbytes(4096)
        (store / "live.sqlite3").write_bytes(damaged)
        try:
            with journal(store):
                pass
        except KreachError:
            refused += 1
        else:
            assert all_rows(store) == rows
    assert refused >= 20
    for size in (600, 4096, 5_000, len(content) // 2):
        store = tmp_path / f"cut-{size}"
        store.mkdir()
        (store / "live.sqlite3").write_bytes(content[:size])
        with pytest.raises(KreachError, match="store must hold a log that can be written"):
            Journal(store, Log("test", lambda line: None))
