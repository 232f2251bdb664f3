"""The privacy ledger: exact to the billionth, one answer for ever, whatever is killed or lost."""

import itertools
import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kreach.adsystem.disclosure.noise.ledger import (
    FILE,
    MARKER,
    PrivacyLedger,
    check_ledger,
    fence_ledger,
    reopen_ledger,
)
from kreach.adsystem.disclosure.noise.questions import (
    BudgetExhausted,
    Charge,
    LedgerQuestion,
    LedgerUnavailable,
    RecordedAnswer,
)
from kreach.errors import KreachError

WINDOW = Charge(10, 35, 100, 10)
POINT = Charge(10, 65, 100, 10)


def window(start: int, end: int, campaign: str = "spring", catalogue: str = "v1") -> LedgerQuestion:
    return LedgerQuestion(campaign, catalogue, "window", start, end)


def point(end: int, campaign: str = "spring") -> LedgerQuestion:
    return LedgerQuestion(campaign, "v1", "point", 0, end)


class Drawer:
    """Answers that are never the same twice, and how many were drawn."""

    def __init__(self) -> None:
        self.drawn = 0
        self.before: list[RecordedAnswer | None] = []

    def __call__(self, question: LedgerQuestion, before: RecordedAnswer | None) -> dict[str, Any]:
        self.drawn += 1
        self.before.append(before)
        return {"value": random.SystemRandom().getrandbits(60), "end": question.end}


def one(answers: list[RecordedAnswer | BudgetExhausted]) -> RecordedAnswer:
    assert len(answers) == 1
    assert isinstance(answers[0], RecordedAnswer)
    return answers[0]


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    opened = PrivacyLedger(tmp_path)
    yield opened
    opened.close()


def test_the_same_question_is_answered_the_same_and_for_free(tmp_path: Path) -> None:
    draw = Drawer()
    first = PrivacyLedger(tmp_path)
    answer = one(first.ask([window(0, 2)], WINDOW, draw))
    assert one(first.ask([window(0, 2)], WINDOW, draw)) == answer
    first.close()
    again = PrivacyLedger(tmp_path)
    assert one(again.ask([window(0, 2)], WINDOW, draw)) == answer == again.recorded(window(0, 2))
    assert draw.drawn == 1
    assert again.peak(window(0, 2), 10).nanos == 10
    assert again.recorded(window(0, 1)) is None
    other = [window(0, 2, campaign="autumn"), window(0, 2, catalogue="v2"), point(2)]
    values = {one(again.ask([q], WINDOW, draw)).answer["value"] for q in other}
    assert draw.drawn == 4
    assert len(values | {answer.answer["value"]}) == 4
    again.close()


def test_a_question_that_does_not_fit_is_refused_where_it_is_short(ledger: PrivacyLedger) -> None:
    draw = Drawer()
    for start, end in [(0, 3), (2, 5), (2, 9)]:
        one(ledger.ask([window(start, end)], WINDOW, draw))
    refused = BudgetExhausted(window(1, 4), 2, 5)
    assert ledger.refusal(window(1, 4), WINDOW) == refused
    assert ledger.ask([window(1, 4)], WINDOW, draw) == [refused]
    assert ledger.recorded(window(1, 4)) is None
    assert ledger.refusal(window(0, 2), WINDOW) is None  # apart from the full stretch
    assert ledger.refusal(window(3, 9), WINDOW) is None
    assert one(ledger.ask([window(2, 5)], WINDOW, draw)).question == window(2, 5)
    assert draw.drawn == 3
    assert ledger.stretches("spring", "v1", 2) == [(2, 9), (2, 5)]


def test_answers_in_one_call_count_against_each_other(ledger: PrivacyLedger) -> None:
    stretches = [window(0, end) for end in (1, 2, 3, 4)]
    answers = ledger.ask(stretches, WINDOW, Drawer())
    assert [type(one) for one in answers] == [
        RecordedAnswer,
        RecordedAnswer,
        RecordedAnswer,
        BudgetExhausted,
    ]
    assert ledger.peak(window(0, 9), 10) == (30, 0)


def test_both_kinds_keep_to_the_total(ledger: PrivacyLedger) -> None:
    """Also where pots were changed in between, so that they add up to more."""
    draw = Drawer()
    for end in range(1, 7):
        one(ledger.ask([point(end)], POINT, draw))
    assert isinstance(ledger.ask([point(7)], POINT, draw)[0], BudgetExhausted)  # the pot
    wide = Charge(10, 90, 100, 10)
    answers = [ledger.ask([window(0, end)], wide, draw)[0] for end in range(1, 7)]
    assert [type(one) for one in answers] == [RecordedAnswer] * 4 + [BudgetExhausted] * 2
    assert ledger.peak(window(0, 9), 10, any_kind=True) == (100, 0)
    one(ledger.ask([window(3, 4, "other")], WINDOW, draw))
    assert ledger.spent(10) == [("other", "v1", 1, 10e-9), ("spring", "v1", 10, 100e-9)]
    assert ledger.spent(20)[0][3] == 40e-9  # of twice as many impressions of a person


def test_points_are_told_the_one_before_and_come_in_order(ledger: PrivacyLedger) -> None:
    draw = Drawer()
    answers = ledger.ask([point(1), point(2), point(3)], POINT, draw)
    assert [before and before.question.end for before in draw.before] == [None, 1, 2]
    assert draw.before[2] == answers[1]
    assert ledger.points("spring", "v1") == answers
    assert ledger.points("spring", "v1", after=1) == answers[1:]
    assert ledger.catalogues("spring") == ["v1"]
    with pytest.raises(KreachError, match="point must come after the last one"):
        ledger.ask([LedgerQuestion("spring", "v1", "point", 1, 3)], POINT, draw)
    assert len(ledger) == 3


def test_other_numbers_of_impressions_change_what_was_spent(ledger: PrivacyLedger) -> None:
    """An answer for 10 impressions of a person costs four times as much for 20."""
    one(ledger.ask([window(0, 2)], WINDOW, Drawer()))
    assert [ledger.peak(window(0, 1), m).nanos for m in (1, 5, 10, 11, 20)] == [1, 5, 10, 13, 40]
    doubled = Charge(10, 45, 100, 20)
    assert isinstance(ledger.ask([window(0, 1)], doubled, Drawer())[0], BudgetExhausted)


@settings(max_examples=25)
@given(
    stretches=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 7)), max_size=25),
    cost=st.integers(1, 20),
)
def test_no_moment_is_charged_more_than_the_pot(
    stretches: list[tuple[int, int]], cost: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    ledger, charge = PrivacyLedger(folder), Charge(cost, 35, 35, 10)
    answers: set[tuple[int, int]] = set()
    for start, length in stretches:
        question = window(start, start + length)
        covering = [sum(a <= cell < b for a, b in answers) for cell in range(start, start + length)]
        reply = ledger.ask([question], charge, Drawer())[0]
        fits = (max(covering) + 1) * cost <= 35 or (start, start + length) in answers
        assert isinstance(reply, RecordedAnswer) == fits  # neither too much nor too little
        if fits:
            answers.add((start, start + length))
    ledger.close()
    shutil.rmtree(folder)


def test_many_threads_and_two_ledgers_draw_once_and_keep_to_the_budget(tmp_path: Path) -> None:
    ledgers, draw = [PrivacyLedger(tmp_path), PrivacyLedger(tmp_path)], Drawer()
    questions = [window(start, end) for start, end in itertools.combinations(range(6), 2)]

    def ask(at: int) -> RecordedAnswer | BudgetExhausted:
        return ledgers[at % 2].ask([questions[at % len(questions)]], WINDOW, draw)[0]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(120)))
    values_of: dict[LedgerQuestion, set[int]] = {}
    for reply in answers:
        if isinstance(reply, RecordedAnswer):
            values_of.setdefault(reply.question, set()).add(reply.answer["value"])
    assert all(len(values) == 1 for values in values_of.values())
    assert draw.drawn == len(values_of) == len(ledgers[0])
    for cell in range(5):
        assert sum(q.start <= cell < q.end for q in values_of) * 10 <= 35
    for one_of_them in ledgers:
        one_of_them.close()


# -- what can go wrong ---------------------------------------------------------------------------

_TELLER = """
import json, random, sys
from pathlib import Path
from kreach.adsystem.disclosure.noise.ledger import PrivacyLedger
from kreach.adsystem.disclosure.noise.questions import Charge, LedgerQuestion, RecordedAnswer
ledger = PrivacyLedger(Path(sys.argv[1]))
charge = Charge(10, 500, 500, 10)
for at in range(100_000):
    question = LedgerQuestion("spring", "v1", "window", at % 7, at % 7 + 1 + at // 7 % 50)
    answer = ledger.ask([question], charge, lambda q, _: {"value": random.getrandbits(60)})[0]
    if isinstance(answer, RecordedAnswer):
        print(json.dumps([question.start, question.end, answer.answer["value"]]), flush=True)
"""


def test_a_killed_process_has_shown_nothing_that_is_not_charged(tmp_path: Path) -> None:
    shown: dict[tuple[int, int], int] = {}
    for kill_after in (3, 10, 25, 60):
        with subprocess.Popen(
            [sys.executable, "-c", _TELLER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as teller:
            assert teller.stdout is not None
            lines = list(itertools.islice(teller.stdout, kill_after))
            teller.send_signal(signal.SIGKILL)
            lines += [line for line in teller.stdout if line.endswith("\n")]
        for line in lines:
            start, end, value = json.loads(line)
            assert shown.setdefault((start, end), value) == value  # the same after every kill
    ledger = PrivacyLedger(tmp_path)
    for (start, end), value in shown.items():
        reply = ledger.recorded(window(start, end))
        assert reply is not None
        assert reply.answer == {"value": value}
    assert ledger.peak(window(0, 100), 10).nanos <= 500
    ledger.close()


def test_a_draw_that_fails_charges_nothing(ledger: PrivacyLedger) -> None:
    def broken(question: LedgerQuestion, before: RecordedAnswer | None) -> dict[str, Any]:
        raise RuntimeError("no entropy")

    with pytest.raises(RuntimeError, match="no entropy"):
        ledger.ask([window(0, 2)], WINDOW, broken)
    assert len(ledger) == 0
    assert one(ledger.ask([window(0, 2)], WINDOW, Drawer())).question == window(0, 2)


def spoil_gone(folder: Path) -> None:
    (folder / FILE).unlink()


def spoil_empty(folder: Path) -> None:
    (folder / FILE).write_bytes(b"")


def spoil_torn(folder: Path) -> None:
    data = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(data[:5_000] + bytes(len(data) - 5_000))


def spoil_text(folder: Path) -> None:
    (folder / FILE).write_text("this is no ledger " * 100)


def spoil_other(folder: Path) -> None:
    (folder / "other").mkdir()
    other = PrivacyLedger(folder / "other")
    other.ask([window(0, 1), window(1, 2), window(2, 3)], WINDOW, Drawer())
    other.close()
    shutil.copy(folder / "other" / FILE, folder / FILE)


def spoil_older(folder: Path) -> None:
    shutil.copy(folder / "older", folder / FILE)


def spoil_mark(folder: Path) -> None:
    (folder / MARKER).write_text("[]")


@pytest.mark.parametrize(
    "spoil",
    [spoil_gone, spoil_empty, spoil_torn, spoil_text, spoil_other, spoil_older, spoil_mark],
)
def test_a_ledger_that_is_not_the_one_that_was_here_is_refused(spoil: Any, tmp_path: Path) -> None:
    ledger = PrivacyLedger(tmp_path)
    ledger.ask([window(0, 1)], WINDOW, Drawer())
    ledger.close()
    shutil.copy(tmp_path / FILE, tmp_path / "older")
    ledger = PrivacyLedger(tmp_path)
    ledger.ask([window(1, 2)], WINDOW, Drawer())
    ledger.close()
    spoil(tmp_path)
    with pytest.raises(KreachError, match="store must hold"):
        PrivacyLedger(tmp_path)
    with pytest.raises(KreachError, match="store must hold"):
        PrivacyLedger(tmp_path)  # and again: it did not make a new one


@pytest.mark.parametrize("swap", [False, True])
def test_a_ledger_that_is_taken_away_meanwhile_is_not_used(swap: bool, tmp_path: Path) -> None:
    ledger = PrivacyLedger(tmp_path)
    one(ledger.ask([window(0, 1)], WINDOW, Drawer()))
    copy = tmp_path / "copy"
    shutil.copy(tmp_path / FILE, copy)
    (tmp_path / FILE).unlink()
    if swap:
        copy.rename(tmp_path / FILE)
    for call in (
        lambda: ledger.recorded(window(0, 1)),
        lambda: ledger.ask([window(1, 2)], WINDOW, Drawer()),
        lambda: ledger.refusal(window(1, 2), WINDOW),
    ):
        with pytest.raises(LedgerUnavailable, match="the privacy ledger is"):
            call()
    ledger.close()


def test_a_ledger_that_cannot_be_written_shows_nothing_new(tmp_path: Path) -> None:
    ledger, draw = PrivacyLedger(tmp_path), Drawer()
    known = one(ledger.ask([window(0, 1)], WINDOW, draw))
    spoiler = sqlite3.connect(tmp_path / FILE)
    spoiler.execute(
        "CREATE TRIGGER full BEFORE INSERT ON answers BEGIN SELECT raise(ABORT, ''); END"
    )
    spoiler.commit()
    with pytest.raises(LedgerUnavailable, match="cannot be written"):
        ledger.ask([window(1, 2)], WINDOW, draw)
    assert ledger.recorded(window(1, 2)) is None
    assert one(ledger.ask([window(0, 1)], WINDOW, draw)) == known
    spoiler.execute("DROP TRIGGER full")
    spoiler.commit()
    spoiler.close()
    assert one(ledger.ask([window(1, 2)], WINDOW, draw)).question == window(1, 2)
    ledger.close()


def test_a_start_that_was_cut_off_is_made_good(tmp_path: Path) -> None:
    """A file without tables and without a mark is one that never told anything."""
    (tmp_path / FILE).write_bytes(b"")
    ledger = PrivacyLedger(tmp_path)
    one(ledger.ask([window(0, 1)], WINDOW, Drawer()))
    ledger.close()
    (tmp_path / MARKER).unlink()  # killed between the ledger and its mark
    ledger = PrivacyLedger(tmp_path)
    assert len(ledger) == 1
    assert json.loads((tmp_path / MARKER).read_text())["answers"] == 1
    ledger.close()


def test_looking_at_a_ledger_changes_nothing(tmp_path: Path) -> None:
    assert check_ledger(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []
    ledger = PrivacyLedger(tmp_path)
    ledger.ask([window(0, 1), window(1, 2)], WINDOW, Drawer())
    assert check_ledger(tmp_path) == 2
    ledger.close()
    assert check_ledger(tmp_path) == 2
    (tmp_path / FILE).write_text("no ledger")
    with pytest.raises(KreachError, match="store must hold a privacy ledger that can be used"):
        check_ledger(tmp_path)
    (tmp_path / FILE).unlink()
    with pytest.raises(
        KreachError, match="store must hold the privacy ledger that its marker names"
    ):
        check_ledger(tmp_path)


def test_questions_and_charges_are_checked() -> None:
    with pytest.raises(KreachError, match="kind must be one of point, window, got 'day'"):
        LedgerQuestion("spring", "v1", "day", 0, 1)
    with pytest.raises(KreachError, match=r"end must come after start \(3\), got 3"):
        window(3, 3)
    with pytest.raises(KreachError, match="rho_nanos must be at least 1, and at most its pot"):
        Charge(10, 9, 100, 10)
    with pytest.raises(KreachError, match="max_per_person must be at least 1"):
        Charge(10, 10, 10, 0)


def test_a_store_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    with pytest.raises(KreachError, match="store must hold a privacy ledger that can be used"):
        PrivacyLedger(tmp_path / "store")


def test_a_closed_ledger_is_told_as_failing(tmp_path: Path) -> None:
    ledger = PrivacyLedger(tmp_path)
    ledger.close()
    with pytest.raises(LedgerUnavailable):
        ledger.recorded(window(0, 1))


def test_a_ledger_with_the_former_names_is_migrated(tmp_path: Path) -> None:
    """Its charges still count, and its answers are still given."""
    strength = {"max_per_person": 10, "max_frequency": 5, "max_price_micros": 20_000}
    with closing(PrivacyLedger(tmp_path)) as ledger:
        for end in (5, 6, 7):
            ledger.ask([window(1, end)], WINDOW, lambda question, before: {"strength": strength})
        peak = ledger.peak(window(1, 9), 10)
    with closing(sqlite3.connect(tmp_path / FILE)) as old:
        old.execute("ALTER TABLE answers RENAME COLUMN max_per_person TO most_per_person")
        old.execute("""UPDATE answers SET answer = replace(answer, '"max_', '"most_')""")
        old.execute("PRAGMA user_version = 0")
        old.commit()
        assert '"most_frequency"' in old.execute("SELECT answer FROM answers").fetchone()[0]
    assert check_ledger(tmp_path) == 3
    with closing(PrivacyLedger(tmp_path)) as ledger:
        assert ledger.peak(window(1, 9), 10) == peak
        assert isinstance(ledger.ask([window(1, 9)], WINDOW, Drawer())[0], BudgetExhausted)
        stored = ledger.recorded(window(1, 5))
        assert stored is not None
        assert stored.answer == {"strength": strength}


def test_a_restored_ledger_answers_nothing_new_about_the_time_before(tmp_path: Path) -> None:
    """What was asked since the backup is lost: drawing it again would be a second disclosure."""
    draw = Drawer()
    with closing(PrivacyLedger(tmp_path)) as ledger:
        known = one(ledger.ask([window(0, 10)], WINDOW, draw))
    fence_ledger(tmp_path / FILE, 20)
    with closing(PrivacyLedger(tmp_path)) as ledger:
        assert one(ledger.ask([window(0, 10)], WINDOW, draw)) == known
        for question in (window(1, 10), window(19, 30), point(40)):
            refused = ledger.refusal(question, WINDOW)
            assert refused == BudgetExhausted(question, question.start, 0)
            assert ledger.ask([question], WINDOW, draw) == [refused]
        assert draw.drawn == 1
        one(ledger.ask([window(20, 30)], WINDOW, draw))  # a time that nobody has asked about
    assert reopen_ledger(tmp_path / FILE, 50) == 20
    assert reopen_ledger(tmp_path / FILE, 51) is None
    with closing(PrivacyLedger(tmp_path)) as ledger:
        one(ledger.ask([window(1, 10)], WINDOW, draw))
    with closing(sqlite3.connect(tmp_path / FILE)) as file:  # that it was accepted stays known
        assert ("redrawn_50", "20") in file.execute("SELECT name, value FROM meta").fetchall()
