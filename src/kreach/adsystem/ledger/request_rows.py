"""Rows of the journal's memory that hold the requests of one catalogue in one hour.

`requests:<version>:<hour since 1970>` has the total of all groups as digits, or nothing if the
bidder was not there for all of the hour.
"""

import sqlite3
from collections.abc import Iterator

__all__ = ["read_request_rows", "request_row"]

_PREFIX, _AFTER = "requests:", "requests;"  # the next character
_ROWS = "SELECT name, value FROM memory WHERE name >= ? AND name < ?"


def request_row(
    version: str, hour: int, requests: int | None, at_us: int
) -> tuple[str, int, bytes]:
    """A row to submit as "memory"."""
    value = b"" if requests is None else str(requests).encode()
    return f"{_PREFIX}{version}:{hour:07d}", at_us, value


def read_request_rows(reader: sqlite3.Connection) -> Iterator[tuple[str, int, int | None]]:
    """Version, hour and requests of every row; others are skipped."""
    for name, value in reader.execute(_ROWS, (_PREFIX, _AFTER)):
        version, _, hour = str(name).removeprefix(_PREFIX).rpartition(":")
        if hour.isdigit():
            text = bytes(value)
            yield version, int(hour), int(text) if text.isdigit() else None
