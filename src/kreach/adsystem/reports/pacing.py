"""Pacing: the spend records that bidders write every few seconds."""

import sqlite3
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kreach.adsystem.ledger.applied_rows import (
    read_applied,
    read_applied_at,
    read_applied_families,
)
from kreach.adsystem.ledger.notice_rows import count_conflicts
from kreach.adsystem.ledger.plan_rows import read_cost_limit, read_shortfall, read_shortfalls
from kreach.adsystem.log.snapshot import LogUnavailable, journal_reader
from kreach.adsystem.reports.report import Pace
from kreach.adsystem.store_layout import log_folders
from kreach.boundary.times import Window, iso_micros, to_micros

__all__ = [
    "applied_at",
    "applied_family_revision",
    "applied_revision",
    "last_pace",
    "pacing_of",
    "shortfalls",
]

T = TypeVar("T")
_COLUMNS = "multiplier, spent, reserved, carried, requests, bids, wins, losses"


def last_pace(store: Path, campaign: int) -> Pace | None:
    """The newest entry of a campaign, if there is one; summed over bidders."""
    rows, reasons, limits, conflicts = [], [], [], 0
    for folder in log_folders(store):
        with journal_reader(folder) as reader:
            if reader is not None:
                rows += reader.execute(
                    f"""SELECT ts, {_COLUMNS} FROM pacing WHERE campaign = ?
                    ORDER BY ts DESC LIMIT 1""",
                    (campaign,),
                ).fetchall()
                reasons.append(read_shortfall(reader, campaign))
                limits.append(read_cost_limit(reader, campaign))
                conflicts += count_conflicts(reader, campaign)
    if not rows:
        return None
    # of several bidders all must fall short: what one cannot spend another may
    reason = reasons[0] if all(reasons) else None
    limit = max((most for most in limits if most is not None), default=None)
    return msgspec.structs.replace(
        _pace(_together(rows)),
        under_delivery=reason,
        max_cost_per_reach=limit,
        conflicts=conflicts,
    )


def shortfalls(store: Path) -> dict[int, str]:
    """Why campaigns cannot spend their budgets, by number; of several bidders all must say so."""
    found = _of_bidders(store, read_shortfalls)
    numbers = set.intersection(*map(set, found)) if found else set()
    return {number: found[0][number] for number in numbers}


def applied_revision(store: Path) -> int | None:
    """The newest revision of campaigns that all bidders bid by; None if that cannot be known."""
    return min(_of_bidders(store, read_applied), default=None)


def applied_family_revision(store: Path) -> int | None:
    """The newest revision of families that all bidders bid by; None if that cannot be known."""
    return min(_of_bidders(store, read_applied_families), default=None)


def _of_bidders(store: Path, read: Callable[[sqlite3.Connection], T]) -> list[T]:
    """What each bidder's log says; nothing if one cannot be read: a campaign is stored anyway."""
    found = []
    try:
        for folder in log_folders(store):
            with journal_reader(folder) as reader:
                if reader is not None:
                    found.append(read(reader))
    except LogUnavailable:
        return []
    return found


def applied_at(store: Path, campaign: int, revision: int) -> str | None:
    """When the last bidder loaded a change; None if one did not, or had it when it started."""
    found = _of_bidders(store, lambda reader: read_applied_at(reader, campaign, revision))
    known = [at_us for at_us in found if at_us is not None]
    return iso_micros(max(known)) if known and len(known) == len(found) else None


def pacing_of(store: Path, campaign: int, window: Window, points: int) -> tuple[Pace, ...]:
    """The entries of a window; of more than `points`, the last in each of so many stretches.

    With several bidders, each entry sums the newest of each. Where the window has the campaign's
    newest entry, that is `last_pace`: only it says why a campaign will not spend its budget, and
    what a further reach may cost.
    """
    entries = _entries(store, campaign, window, points)
    newest = last_pace(store, campaign) if entries else None
    if newest is not None and entries[-1].ts == newest.ts:
        return (*entries[:-1], newest)
    return entries


def _entries(store: Path, campaign: int, window: Window, points: int) -> tuple[Pace, ...]:
    inside, values = _inside(campaign, window)
    by_bidder = []
    for folder in log_folders(store):
        with journal_reader(folder) as reader:
            if reader is not None:
                by_bidder.append(_rows(reader, inside, values, points))
    if len(by_bidder) <= 1:
        return tuple(_pace(row) for rows in by_bidder for row in rows)
    newest: dict[int, tuple[Any, ...]] = {}
    entries = []
    rows_of_all = [(row, who) for who, rows in enumerate(by_bidder) for row in rows]
    for row, who in sorted(rows_of_all, key=lambda entry: entry[0][0]):
        newest[who] = row
        entries.append(_together(list(newest.values())))
    step = -(-len(entries) // points)
    return tuple(_pace(row) for row in entries[::-1][::step][::-1])


def _together(rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Sums of several bidders' entries; the multiplier is their mean, weighted by bids."""
    if len(rows) == 1:
        return rows[0]
    sums = [sum(column) for column in zip(*(row[2:] for row in rows), strict=True)]
    known = [(row[1], row[6] + 1) for row in rows if row[1] is not None and isfinite(row[1])]
    weight = sum(bids for _, bids in known)
    multiplier = sum(value * bids for value, bids in known) / weight if known else None
    return (max(row[0] for row in rows), multiplier, *sums)


def _rows(
    reader: sqlite3.Connection,
    inside: str,
    values: tuple[int, ...],
    points: int,
) -> list[tuple[Any, ...]]:
    sql = f"SELECT count(*), min(ts), max(ts) FROM pacing WHERE {inside}"
    count, first, last = reader.execute(sql, values).fetchone()
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
        values.append(to_micros(window.start))
    if window.end is not None:
        conditions.append("ts < ?")
        values.append(to_micros(window.end))
    return " AND ".join(conditions), tuple(values)


def _pace(row: tuple[Any, ...]) -> Pace:
    ts, multiplier, spent, reserved, carried, requests, bids, wins, losses = row
    usable = multiplier is not None and isfinite(multiplier)
    return Pace(
        ts=iso_micros(ts),
        multiplier=multiplier if usable else None,
        cost_per_reach=1.0 / multiplier if usable and multiplier > 0.0 else None,
        spent_micros=spent,
        reserved_micros=reserved,
        carried_micros=carried,
        requests=requests,
        bids=bids,
        wins=wins,
        losses=losses,
        open_exposure_micros=reserved + carried,
        win_rate=wins / bids if bids else None,
    )
