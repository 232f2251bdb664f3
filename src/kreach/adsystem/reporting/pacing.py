"""How a campaign's money went: what the bidder wrote down now and then."""

import sqlite3
from datetime import UTC, datetime, timedelta
from math import isfinite
from pathlib import Path
from typing import Any

from kreach.adsystem.reporting.live import journal_reader, micros_of
from kreach.boundary.moments import Window

__all__ = ["last_pace", "pacing_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS = "multiplier, spent, reserved, carried, requests, bids, wins, losses"


def last_pace(folder: Path, campaign: int) -> dict[str, Any] | None:
    """The newest entry of a campaign, if there is one."""
    with journal_reader(folder) as reader:
        if reader is None:
            return None
        row = reader.execute(
            f"SELECT ts, {_COLUMNS} FROM pacing WHERE campaign = ? ORDER BY ts DESC LIMIT 1",
            (campaign,),
        ).fetchone()
    return None if row is None else _entry(row)


def pacing_of(folder: Path, campaign: int, window: Window, points: int) -> list[dict[str, Any]]:
    """The entries of a window; of more than `points`, the last in each of so many stretches."""
    with journal_reader(folder) as reader:
        if reader is None:
            return []
        inside, values = _inside(campaign, window)
        found = reader.execute(
            f"SELECT count(*), min(ts), max(ts) FROM pacing WHERE {inside}", values
        ).fetchone()
        rows = _rows(reader, inside, values, found, points)
    return [_entry(row) for row in rows]


def _rows(
    reader: sqlite3.Connection,
    inside: str,
    values: tuple[int, ...],
    found: tuple[int, int, int],
    points: int,
) -> list[tuple[Any, ...]]:
    count, first, last = found
    if count <= points:
        sql = f"SELECT ts, {_COLUMNS} FROM pacing WHERE {inside} ORDER BY ts"
        return reader.execute(sql, values).fetchall()
    width = (last - first) // points + 1
    return reader.execute(  # beside max(), SQLite shows the other columns of the same row
        f"""SELECT max(ts), {_COLUMNS} FROM pacing WHERE {inside}
        GROUP BY (ts - {first}) / {width} ORDER BY 1""",
        values,
    ).fetchall()


def _inside(campaign: int, window: Window) -> tuple[str, tuple[int, ...]]:
    conditions, values = ["campaign = ?"], [campaign]
    if window.start is not None:
        conditions.append("ts >= ?")
        values.append(micros_of(window.start))
    if window.end is not None:
        conditions.append("ts < ?")
        values.append(micros_of(window.end))
    return " AND ".join(conditions), tuple(values)


def _entry(row: tuple[Any, ...]) -> dict[str, Any]:
    ts, multiplier, spent, reserved, carried, requests, bids, wins, losses = row
    moment = _EPOCH + timedelta(microseconds=ts)
    usable = multiplier is not None and isfinite(multiplier)
    return {
        "ts": moment.isoformat().replace("+00:00", "Z"),
        "multiplier": multiplier if usable else None,
        "spent_micros": spent,
        "reserved_micros": reserved,
        "carried_micros": carried,
        "requests": requests,
        "bids": bids,
        "wins": wins,
        "losses": losses,
        "win_rate": wins / bids if bids else None,
    }
