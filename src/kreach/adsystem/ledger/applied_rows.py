"""Rows of the journal's memory that say which changes of campaigns a bidder bids by.

`applied` has the newest revision of a campaign that was loaded, `applied:<campaign number>` that of
one campaign whose change was loaded while the bidder ran, and when; `applied families` has the
newest revision of a family. They are written once no bid is made by what was before.
"""

import sqlite3

__all__ = [
    "applied_families_row",
    "applied_row",
    "read_applied",
    "read_applied_at",
    "read_applied_families",
]

_FAMILIES = "applied families"
_ROW = "SELECT value, ts FROM memory WHERE name = ?"


def applied_row(revision: int, at_us: int, campaign: int | None = None) -> tuple[str, int, bytes]:
    """A row to submit as "memory"."""
    name = "applied" if campaign is None else f"applied:{campaign}"
    return name, at_us, str(revision).encode()


def applied_families_row(revision: int, at_us: int) -> tuple[str, int, bytes]:
    """A row to submit as "memory", about families."""
    return _FAMILIES, at_us, str(revision).encode()


def read_applied_families(reader: sqlite3.Connection) -> int:
    """The newest revision of a family that the bidder bids by; 0 if it never said."""
    return _read(reader, _FAMILIES)[0]


def read_applied(reader: sqlite3.Connection) -> int:
    """The newest revision that the bidder bids by; 0 if it never said."""
    return _read(reader, "applied")[0]


def read_applied_at(reader: sqlite3.Connection, campaign: int, revision: int) -> int | None:
    """When the bidder loaded a change, in µs; None if it did not, or had it when it started."""
    applied, at_us = _read(reader, f"applied:{campaign}")
    return at_us if applied == revision else None


def _read(reader: sqlite3.Connection, name: str) -> tuple[int, int]:
    row = reader.execute(_ROW, (name,)).fetchone()
    text = b"" if row is None else bytes(row[0])
    return (int(text), int(row[1])) if text.isdigit() else (0, 0)
