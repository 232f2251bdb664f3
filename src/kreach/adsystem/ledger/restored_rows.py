"""Rows of the journal about a restore: bids and money that the restored backup does not know.

A log that was restored from a backup lacks the impressions since. Their money is spent all the
same, and notices of bids from before the restore must match no bid after it. So a restored journal
is fenced: no bidder opens it until an operator has said what was spent (`kreach settle`). That is
booked as an adjustment, on the day of the restore, and counts for budgets like any spend.
"""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from kreach.adsystem.ledger.clock_rows import Step, passed_sql
from kreach.boundary.times import DAY_SECONDS, MICROS, iso_seconds
from kreach.errors import KreachError

__all__ = [
    "adjusted_spend",
    "check_settled",
    "fence_journal",
    "restored_micros",
    "settle_journal",
]

EPOCHS_SKIPPED = 1 << 17
"""Runs that the restored log may have had since the backup, of which it knows nothing.

Impressions are numbered by run and bid, in 63 bits, of which 40 are for the bid.
"""
_MAX_EPOCH = 1 << 23
_SET = "INSERT OR REPLACE INTO meta VALUES (?, ?)"


def restored_micros(connection: sqlite3.Connection) -> int:
    """When this journal was restored, in µs, while nobody has said what was spent; else 0."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'restored'").fetchone()
    return 0 if row is None else int(row[0])


def check_settled(connection: sqlite3.Connection, folder: Path) -> None:
    """Refuse a journal that was restored and not settled."""
    restored = restored_micros(connection)
    if restored:
        raise KreachError(
            f"store {folder} was restored from a backup at {iso_seconds(restored / MICROS)}: "
            "say what was spent since the backup with `kreach settle`, then start the bidder"
        )


def fence_journal(connection: sqlite3.Connection, now_us: int) -> None:
    """Fence a restored journal: no bid of any run up to now is honoured, and none begins."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchone()
    epoch = (0 if row is None else int(row[0])) + EPOCHS_SKIPPED
    if epoch >= _MAX_EPOCH:
        raise KreachError(
            "the log was restored too often to number its impressions: begin a new store, with "
            "budgets lowered by what was spent"
        )
    connection.executemany(_SET, [("epoch", epoch), ("fence", epoch), ("restored", now_us)])
    for table in ("losses", "grants"):  # of bids that are behind the fence
        connection.execute(f"DELETE FROM {table}")  # and a fleet may have leased them again


def settle_journal(
    connection: sqlite3.Connection, restored: int, spent: Mapping[int, int] | None
) -> None:
    """Book what campaigns spent that the journal does not know, once; and lift the fence.

    `restored` names the restore. None lifts the fence only: another journal has the spend.
    """
    for campaign, micros in (spent or {}).items():
        connection.execute(
            "INSERT OR IGNORE INTO adjustments VALUES (?, ?, ?)", (restored, campaign, micros)
        )
    connection.execute("DELETE FROM meta WHERE name = 'restored'")


def adjusted_spend(
    connection: sqlite3.Connection, starts: Mapping[int, float], steps: tuple[Step, ...]
) -> list[tuple[int, int, int]]:
    """Campaign, day of its flight and micros of all adjustments."""
    flights = ", ".join(f"({number}, {round(start * MICROS)})" for number, start in starts.items())
    passed = passed_sql(steps, "restored", "begins", "max")
    return connection.execute(
        f"""WITH flight(number, begins) AS (VALUES {flights or "(-1, 0)"})
        SELECT campaign, {passed} / {DAY_SECONDS * MICROS}, sum(micros)
        FROM adjustments JOIN flight ON number = campaign GROUP BY 1, 2"""
    ).fetchall()
