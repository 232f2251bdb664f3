"""Rows of the journal about time: accepted steps of the clock, and times when it was in doubt."""

import sqlite3
from collections.abc import Sequence

__all__ = ["Step", "begin_doubt", "end_doubt", "passed_sql", "read_steps", "skipped_micros"]

Step = tuple[int, int]
"""The time before and after a step forward of the clock, in µs: no time passed in between."""

_SEQUENCE = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'impressions'), 0)"


def read_steps(connection: sqlite3.Connection) -> tuple[Step, ...]:
    """The steps of the clock that were accepted, in their order."""
    return tuple(connection.execute("SELECT before, after FROM steps ORDER BY after"))


def skipped_micros(steps: Sequence[Step], start: int, moment: int) -> int:
    """How much of the time from the start to a moment did not pass.

    >>> skipped_micros([(50, 80)], 10, 90), skipped_micros([(50, 80)], 60, 90)
    (30, 20)
    """
    return sum(after - max(before, start) for before, after in steps if start < after <= moment)


def passed_sql(steps: Sequence[Step], moment: str, start: str, larger: str) -> str:
    """In SQL: the time that passed from a start to a moment, of which `Account.day_of` has days.

    `larger` is the function for the larger of two numbers.
    """
    skipped = "".join(
        f" - CASE WHEN {start} < {after} AND {after} <= {moment}"
        f" THEN {after} - {larger}({before}, {start}) ELSE 0 END"
        for before, after in steps
    )
    return f"({moment} - {start}{skipped})"


def begin_doubt(connection: sqlite3.Connection, at_us: int, lead_seconds: float) -> None:
    """The clock is in doubt from now on: mark the rows that are to come."""
    connection.execute(
        f"""INSERT INTO doubts (began, lead_seconds, first_row)
        VALUES (?, ?, {_SEQUENCE} + 1)""",
        (at_us, lead_seconds),
    )


def end_doubt(connection: sqlite3.Connection, at_us: int, outcome: str) -> None:
    """The clock is in doubt no more: rows from now on are not marked."""
    connection.execute(
        f"""UPDATE doubts SET ended = ?, outcome = ?, last_row = {_SEQUENCE}
        WHERE ended IS NULL""",
        (at_us, outcome),
    )
