"""Rows of the journal's memory that say why a campaign will not spend its budget.

`shortfall:<campaign number>` has the reason, or nothing while the plan spends the budget.
"""

import sqlite3

__all__ = ["read_shortfall", "shortfall_row"]

_MAX_LENGTH = 200


def shortfall_row(campaign: int, reason: str | None, at_us: int) -> tuple[str, int, bytes]:
    """A row to submit as "memory"."""
    return f"shortfall:{campaign}", at_us, (reason or "").encode()


def read_shortfall(reader: sqlite3.Connection, campaign: int) -> str | None:
    """The reason of a campaign, if there is one."""
    row = reader.execute(
        "SELECT value FROM memory WHERE name = ?", (f"shortfall:{campaign}",)
    ).fetchone()
    return None if row is None else bytes(row[0]).decode(errors="replace")[:_MAX_LENGTH] or None
