"""The privacy ledger: every noisy answer, recorded for ever with its charge.

An impression is of one campaign, on one catalogue, at one moment. An answer about a stretch that
costs ρ for m impressions of a person costs ρ(d/m)² ≤ ρ d/m for d ≤ m of them: each impression bears
at most an m-th of every answer about its moment. So m impressions together cost at most the largest
sum of charges over any one moment of a campaign on a catalogue, and that is what is spent. Answers
about stretches apart do not add up.

A row holds the question, its charge and the answer. It is committed before the answer is shown: a
process that is killed has at most charged without showing. A recorded answer is repeated for free.
A marker file beside the ledger holds its id and its number of answers: a ledger that is gone,
another one or an older copy is refused, since drawing the same answers again would disclose more
than the budget allows.

A ledger that `kreach restore` put back may lack answers that were shown. Nobody knows what they
cost, so about any moment before the restore nothing new is answered (`fence_ledger`), until an
operator accepts that lost answers are drawn a second time (`reopen_ledger`).
"""

import json
import os
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from kreach.adsystem.disclosure.noise.marker import Marker, MarkerContent
from kreach.adsystem.disclosure.noise.questions import (
    BudgetExhausted,
    Charge,
    LedgerQuestion,
    LedgerUnavailable,
    Peak,
    RecordedAnswer,
    cost_of,
)
from kreach.boundary.discrete_noise import NANOS
from kreach.errors import KreachError
from kreach.service.sqlite import (
    Schema,
    check_intact,
    open_read_only,
    open_store,
    store_errors,
    transaction,
)

__all__ = [
    "FILE",
    "MARKER",
    "SCHEMA",
    "MakeAnswer",
    "PrivacyLedger",
    "check_ledger",
    "fence_ledger",
    "reopen_ledger",
]

FILE = "noise.sqlite3"
MARKER = "noise.mark"
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
    number INTEGER PRIMARY KEY AUTOINCREMENT, campaign TEXT NOT NULL, catalogue TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('point', 'window')),
    start INTEGER NOT NULL, end INTEGER NOT NULL CHECK (start < end),
    rho_nanos INTEGER NOT NULL CHECK (rho_nanos > 0),
    max_per_person INTEGER NOT NULL CHECK (max_per_person > 0),
    answer TEXT NOT NULL, UNIQUE (campaign, catalogue, kind, start, end)
);
"""
_RULE = "hold a privacy ledger that can be used"
_BUSY_SECONDS = 30.0
_NEVER = -(2**62)
_MINE = "campaign = ? AND catalogue = ?"

MakeAnswer = Callable[[LedgerQuestion, RecordedAnswer | None], dict[str, Any]]
"""Draws an answer to a question; for a point it also gets the last point before it."""


def _rename_limits(connection: sqlite3.Connection) -> None:
    """From version 1: the limits of a drawing were called most_..., now max_...."""
    columns = [row[1] for row in connection.execute("PRAGMA table_info(answers)")]
    if "most_per_person" in columns:
        connection.execute("ALTER TABLE answers RENAME COLUMN most_per_person TO max_per_person")
    for number, text in connection.execute("SELECT number, answer FROM answers").fetchall():
        answer = json.loads(text)
        if "strength" in answer:
            strength = answer["strength"].items()
            answer["strength"] = {_RENAMED.get(name, name): value for name, value in strength}
            values = (json.dumps(answer), number)
            connection.execute("UPDATE answers SET answer = ? WHERE number = ?", values)


_RENAMED = {f"most_{name}": f"max_{name}" for name in ("per_person", "frequency", "price_micros")}
SCHEMA = Schema(2, _TABLES, {1: _rename_limits})


class PrivacyLedger:
    """The ledger in a folder. For use by several threads; several processes may have it open."""

    def __init__(self, folder: Path) -> None:
        self._path, self._marker = folder / FILE, Marker(folder / MARKER)
        self._lock = threading.Lock()
        with store_errors(_RULE, self._path):
            folder.mkdir(parents=True, exist_ok=True)
            self._id = self._open()

    # -- the file and its marker --------------------------------------------------------------

    def _open(self) -> str:
        marker = self._marker.read()
        if marker is not None and not self._path.exists():
            raise KreachError.rule(
                "store", "hold the privacy ledger that its marker names", self._path
            )
        self._connection = open_store(self._path, SCHEMA, busy_seconds=_BUSY_SECONDS)
        try:
            facts = os.stat(self._path)
            self._inode = (facts.st_dev, facts.st_ino)
            check_intact(self._connection)
            ledger = self._ledger_id(fresh=marker is None)
            if marker is not None and (marker.ledger != ledger or self._count() < marker.answers):
                rule = "hold the privacy ledger that its marker names, not another or an older one"
                raise KreachError.rule("store", rule, self._path)
            self._marker.write(MarkerContent(ledger, self._count()))
        except BaseException:
            self._connection.close()
            raise
        return ledger

    def _ledger_id(self, *, fresh: bool) -> str:
        """The id of the ledger in the file; a new one where there has been none."""
        with self._changing(check=False) as connection:
            if fresh:
                values = (uuid.uuid4().hex,)
                connection.execute("INSERT OR IGNORE INTO meta VALUES ('ledger', ?)", values)
            row = connection.execute("SELECT value FROM meta WHERE name = 'ledger'").fetchone()
        if row is None:
            rule = "hold the privacy ledger that its marker names, not an empty file"
            raise KreachError.rule("store", rule, self._path)
        return str(row[0])

    def _count(self) -> int:
        sql = "SELECT coalesce(max(number), 0) FROM answers"
        return int(self._connection.execute(sql).fetchone()[0])

    def _check_same(self) -> None:
        """Refuse a file that was removed or replaced while open."""
        try:
            facts = os.stat(self._path)
        except OSError as error:
            raise LedgerUnavailable("the privacy ledger is gone") from error
        if (facts.st_dev, facts.st_ino) != self._inode:
            raise LedgerUnavailable("the privacy ledger is another one than at the start")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def __len__(self) -> int:
        """The number of recorded answers."""
        with self._reading():
            return self._count()

    # -- reading ------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._check_same()
            try:
                yield self._connection
            except sqlite3.Error as error:
                message = f"the privacy ledger cannot be read ({type(error).__name__})"
                raise LedgerUnavailable(message) from error

    def recorded(self, question: LedgerQuestion) -> RecordedAnswer | None:
        """The recorded answer, if there is one."""
        with self._reading():
            return self._recorded(question)

    def points(self, campaign: str, catalogue: str, after: int = _NEVER) -> list[RecordedAnswer]:
        """Recorded figures so far that end after a time."""
        with self._reading():
            return self._rows(
                f"{_MINE} AND kind = 'point' AND end > ?", (campaign, catalogue, after)
            )

    def catalogues(self, campaign: str) -> list[str]:
        """The catalogues with recorded figures so far."""
        sql = "SELECT DISTINCT catalogue FROM answers WHERE campaign = ? AND kind = 'point'"
        with self._reading() as connection:
            return [str(row[0]) for row in connection.execute(sql, (campaign,))]

    def stretches(self, campaign: str, catalogue: str, limit: int) -> list[tuple[int, int]]:
        """The newest stretches with a recorded answer, of either kind."""
        sql = f"SELECT start, end FROM answers WHERE {_MINE} ORDER BY number DESC LIMIT ?"
        with self._reading() as connection:
            return list(connection.execute(sql, (campaign, catalogue, limit)))

    def spent(self, max_per_person: int) -> list[tuple[str, str, int, float]]:
        """By campaign and catalogue: the number of answers, and ρ spent on any one moment."""
        sql = """SELECT campaign, catalogue, count(*), min(start), max(end) FROM answers
        GROUP BY campaign, catalogue"""
        with self._reading() as connection:
            return [
                (
                    campaign,
                    catalogue,
                    answers,
                    self._peak(whole, max_per_person, True).nanos / NANOS,
                )
                for campaign, catalogue, answers, start, end in connection.execute(sql).fetchall()
                for whole in (LedgerQuestion(campaign, catalogue, "window", start, end),)
            ]

    def peak(
        self, question: LedgerQuestion, max_per_person: int, *, any_kind: bool = False
    ) -> Peak:
        """The largest total charge over any one moment of a question's stretch."""
        with self._reading():
            return self._peak(question, max_per_person, any_kind)

    def _rows(self, where: str, values: tuple[Any, ...]) -> list[RecordedAnswer]:
        rows = self._connection.execute(
            f"""SELECT campaign, catalogue, kind, start, end, answer FROM answers
            WHERE {where} ORDER BY catalogue, end, start""",
            values,
        )
        return [RecordedAnswer(LedgerQuestion(*row[:5]), json.loads(row[5])) for row in rows]

    def _recorded(self, question: LedgerQuestion) -> RecordedAnswer | None:
        key = (question.campaign, question.catalogue, question.kind, question.start, question.end)
        rows = self._rows(f"{_MINE} AND kind = ? AND start = ? AND end = ?", key)
        return rows[0] if rows else None

    def _peak(self, question: LedgerQuestion, max_per_person: int, any_kind: bool) -> Peak:
        rows = self._connection.execute(
            f"""SELECT start, end, rho_nanos, max_per_person FROM answers
            WHERE {_MINE} AND start < ? AND end > ? AND (? OR kind = ?)""",
            (
                *(question.campaign, question.catalogue, question.end, question.start),
                *(any_kind, question.kind),
            ),
        )
        steps: dict[int, int] = {question.start: 0}
        for start, end, rho, m in rows:
            cost = cost_of(rho, m, max_per_person)
            low = max(start, question.start)
            steps[low] = steps.get(low, 0) + cost
            steps[end] = steps.get(end, 0) - cost
        running, best = 0, Peak(-1, question.start)
        for moment in sorted(steps):
            running += steps[moment]
            if moment < question.end and running > best.nanos:
                best = Peak(running, moment)
        return best

    # -- charging -----------------------------------------------------------------------------

    @contextmanager
    def _changing(self, *, check: bool = True) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if check:
                self._check_same()
            with transaction(self._connection) as connection:
                yield connection

    def refusal(self, question: LedgerQuestion, charge: Charge) -> BudgetExhausted | None:
        """Why the budget does not allow a new question, or None."""
        with self._reading():
            return self._refusal(question, charge)

    def _refusal(self, question: LedgerQuestion, charge: Charge) -> BudgetExhausted | None:
        if question.start < _restored_until(self._connection):
            return BudgetExhausted(question, question.start, 0)
        balances = []
        for limit, any_kind in ((charge.pot_nanos, False), (charge.total_nanos, True)):
            peak = self._peak(question, charge.max_per_person, any_kind)
            balances.append((limit - peak.nanos, peak.at))
        left, at = min(balances)
        return BudgetExhausted(question, at, max(left, 0)) if left < charge.rho_nanos else None

    def ask(
        self, questions: Sequence[LedgerQuestion], charge: Charge, make: MakeAnswer
    ) -> list[RecordedAnswer | BudgetExhausted]:
        """Answer each question: as recorded, or newly within the budget.

        All new answers are committed in one transaction before any is returned. Points must come in
        order of time.
        """
        try:
            with self._changing() as connection:
                answers = [self._answer(connection, one, charge, make) for one in questions]
                count = self._count()
            self._marker.write(MarkerContent(self._id, count))
        except (sqlite3.Error, OSError) as error:
            message = f"the privacy ledger cannot be written ({type(error).__name__})"
            raise LedgerUnavailable(message) from error
        return answers

    def _answer(
        self,
        connection: sqlite3.Connection,
        question: LedgerQuestion,
        charge: Charge,
        make: MakeAnswer,
    ) -> RecordedAnswer | BudgetExhausted:
        recorded = self._recorded(question)
        if recorded is not None:
            return recorded
        refused = self._refusal(question, charge)
        if refused is not None:
            return refused
        before = self._last_point(question) if question.kind == "point" else None
        answer = make(question, before)
        connection.execute(
            """INSERT INTO answers (campaign, catalogue, kind, start, end, rho_nanos,
            max_per_person, answer) VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                *(question.campaign, question.catalogue, question.kind),
                *(question.start, question.end, charge.rho_nanos, charge.max_per_person),
                json.dumps(answer),
            ),
        )
        return RecordedAnswer(question, answer)

    def _last_point(self, question: LedgerQuestion) -> RecordedAnswer | None:
        rows = self._rows(
            f"""{_MINE} AND kind = 'point' AND end = (SELECT max(end) FROM answers
            WHERE {_MINE} AND kind = 'point')""",
            (question.campaign, question.catalogue) * 2,
        )
        if rows and rows[0].question.end >= question.end:
            rule = f"come after the last one ({rows[0].question.end})"
            raise KreachError.rule("point", rule, question.end)
        return rows[0] if rows else None


def _restored_until(connection: sqlite3.Connection) -> int:
    """Moments before this, in seconds, may have been answered by a ledger that was lost."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'restored_until'").fetchone()
    return _NEVER if row is None else int(row[0])


def fence_ledger(path: Path, until: int) -> None:
    """Have a restored ledger answer nothing new about moments before `until`, in seconds."""
    with closing(open_store(path, SCHEMA)) as connection, transaction(connection):
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('restored_until', ?)", (until,))


def reopen_ledger(path: Path, now: int) -> int | None:
    """Lift the fence of a restored ledger; the moment up to which it was. It stays on record."""
    with closing(open_store(path, SCHEMA)) as connection, transaction(connection):
        until = _restored_until(connection)
        if until == _NEVER:
            return None
        record = (f"redrawn_{now}", until)
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", record)
        connection.execute("DELETE FROM meta WHERE name = 'restored_until'")
        return until


def check_ledger(folder: Path) -> int:
    """The number of answers in the ledger of a folder, for checks before a service opens it."""
    path = folder / FILE
    if not path.exists() and not (folder / MARKER).exists():
        return 0  # the service will create one
    if not path.exists():
        raise KreachError.rule("store", "hold the privacy ledger that its marker names", path)
    with (
        store_errors(_RULE, path),
        closing(open_read_only(path, SCHEMA, older=True)) as connection,
    ):
        row = connection.execute("SELECT coalesce(max(number), 0) FROM answers").fetchone()
        return int(row[0])
