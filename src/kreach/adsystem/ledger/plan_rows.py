"""Rows of the journal's memory that say what a campaign's plan comes to.

`shortfall:<campaign number>` has the reason why it will not spend its budget, or nothing while it
will. `cost_limit:<campaign number>` has the most that a further reach may cost, in the currency, or
nothing while there is no limit.
"""

import sqlite3
from math import isfinite

__all__ = [
    "cost_limit_row",
    "read_cost_limit",
    "read_shortfall",
    "read_shortfalls",
    "shortfall_row",
]

_MAX_LENGTH = 200


def shortfall_row(campaign: int, reason: str | None, at_us: int) -> tuple[str, int, bytes]:
    """A row to submit as "memory"."""
    return f"shortfall:{campaign}", at_us, (reason or "").encode()


def read_shortfall(reader: sqlite3.Connection, campaign: int) -> str | None:
    """The reason of a campaign, if there is one."""
    return _read(reader, f"shortfall:{campaign}")


def read_shortfalls(reader: sqlite3.Connection) -> dict[int, str]:
    """The reasons of all campaigns that have one, by number."""
    rows = reader.execute(
        "SELECT name, value FROM memory WHERE name >= 'shortfall:' AND name < 'shortfall;'"
    )
    return {
        int(number): bytes(value).decode(errors="replace")[:_MAX_LENGTH]
        for name, value in rows
        if value and (number := str(name).partition(":")[2]).isdigit()
    }


def cost_limit_row(campaign: int, limit: float | None, at_us: int) -> tuple[str, int, bytes]:
    """A row to submit as "memory"."""
    return f"cost_limit:{campaign}", at_us, b"" if limit is None else f"{limit:.6g}".encode()


def read_cost_limit(reader: sqlite3.Connection, campaign: int) -> float | None:
    """The limit of a campaign, if there is one."""
    text = _read(reader, f"cost_limit:{campaign}")
    try:
        limit = float(text or "nan")
    except ValueError:
        return None
    return limit if isfinite(limit) else None


def _read(reader: sqlite3.Connection, name: str) -> str | None:
    row = reader.execute("SELECT value FROM memory WHERE name = ?", (name,)).fetchone()
    return None if row is None else bytes(row[0]).decode(errors="replace")[:_MAX_LENGTH] or None
