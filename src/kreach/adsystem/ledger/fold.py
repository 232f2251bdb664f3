"""Fold the log into the state a bidder starts from: counts, spend, and notices that may repeat."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from kreach.adsystem.ledger.clock_rows import Step, passed_sql, read_steps
from kreach.adsystem.ledger.compaction import listed_files
from kreach.adsystem.ledger.journal import Journal, open_reader
from kreach.adsystem.ledger.notice_rows import read_losses
from kreach.adsystem.ledger.restored_rows import adjusted_spend
from kreach.boundary.duckdb import new_engine, sql_text
from kreach.boundary.times import DAY_SECONDS, MICROS
from kreach.numeric.types import IntArray

__all__ = ["Folded", "fold_log"]


@dataclass
class Folded:
    """The sums of a log."""

    counts: dict[tuple[int, int], tuple[IntArray, IntArray]] = field(default_factory=dict)
    """(campaign, catalogue): groups and their impressions; groups may come more than once."""
    spent: dict[int, dict[int, int]] = field(default_factory=dict)  # campaign: day: micros
    times: dict[int, list[tuple[int, int, float]]] = field(default_factory=dict)
    """Campaigns with rolling caps: (catalogue, group, seconds) of the impressions in the window."""
    repeatable: list[tuple[int, int]] = field(default_factory=list)  # impression, expires
    steps: tuple[Step, ...] = ()  # of the clock
    lost: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Bids that were lost and whose notices may still come."""
    rows: int = 0


def fold_log(
    journal: Journal,
    folder: Path,
    starts: Mapping[int, float],
    since: Mapping[int, float],
    now: float,
) -> Folded:
    """Fold (sum up) the files and the rows of the journal.

    `starts` gives the start of each campaign's flight, for its days; `since` names the campaigns
    whose impressions are needed one by one, and from when on.
    """
    folded = Folded()
    connection = open_reader(folder)
    connection.execute("BEGIN")  # files and rows of one instant
    files, _ = listed_files(connection, folder)
    parts: dict[tuple[int, int], list[tuple[IntArray, IntArray]]] = {}
    folded.steps = read_steps(connection)
    if files:
        _fold_files(files, folded, parts, starts, since)
    _fold_rows(connection, folded, parts, starts, since, now)
    for campaign, day, micros in adjusted_spend(connection, starts, folded.steps):
        by_day = folded.spent.setdefault(campaign, {})
        by_day[day] = by_day.get(day, 0) + micros
    folded.lost = read_losses(connection, now)
    connection.close()
    for key, pieces in parts.items():
        folded.counts[key] = (
            np.concatenate([groups for groups, _ in pieces]),
            np.concatenate([counts for _, counts in pieces]),
        )
    return folded


def _fold_files(
    files: list[Path],
    folded: Folded,
    parts: dict[tuple[int, int], list[tuple[IntArray, IntArray]]],
    starts: Mapping[int, float],
    since: Mapping[int, float],
) -> None:
    engine = new_engine()
    listed = ", ".join(f"'{sql_text(file)}'" for file in files)
    source = f"read_parquet([{listed}])"
    engine.execute("SET preserve_insertion_order = false")
    found = engine.execute(
        f"""SELECT campaign_number AS c, catalogue_number AS v, group_number AS g,
            count(*) AS n FROM {source} GROUP BY ALL ORDER BY c, v"""
    ).fetchnumpy()
    place = found["c"].astype(np.int64) << 31 | found["v"].astype(np.int64)
    edges = [0, *(np.flatnonzero(np.diff(place)) + 1).tolist(), len(place)]
    for low, high in pairwise(edges):
        if low < high:
            key = (int(found["c"][low]), int(found["v"][low]))
            groups, counts = found["g"][low:high], found["n"][low:high]
            parts.setdefault(key, []).append((groups.astype(np.int64), counts.astype(np.int64)))
    folded.rows += int(found["n"].sum())
    flights = ", ".join(f"({number}, {round(start * MICROS)})" for number, start in starts.items())
    passed = passed_sql(folded.steps, "epoch_us(bid_ts)", "begins", "greatest")
    spend = engine.execute(
        f"""SELECT campaign_number, {passed} // {DAY_SECONDS * MICROS},
            sum(price_micros)::BIGINT FROM {source}
            JOIN (VALUES {flights or "(-1, 0)"}) AS flight(number, begins)
            ON number = campaign_number GROUP BY ALL"""
    ).fetchall()
    for campaign, day, micros in spend:
        by_day = folded.spent.setdefault(campaign, {})
        by_day[int(day)] = by_day.get(int(day), 0) + int(micros)
    for campaign, moment in since.items():
        after = round(moment * MICROS)
        times = engine.execute(
            f"""SELECT catalogue_number, group_number, epoch_us(bid_ts) / 1e6 FROM {source}
                WHERE campaign_number = {campaign} AND epoch_us(bid_ts) > {after}"""
        ).fetchall()
        folded.times.setdefault(campaign, []).extend(times)
    engine.close()


def _fold_rows(
    connection: sqlite3.Connection,
    folded: Folded,
    parts: dict[tuple[int, int], list[tuple[IntArray, IntArray]]],
    starts: Mapping[int, float],
    since: Mapping[int, float],
    now: float,
) -> None:
    """The live rows, each as one number: campaign, catalogue and group side by side."""
    catalogues = [
        row[0] for row in connection.execute("SELECT DISTINCT catalogue FROM impressions")
    ]
    short = " ".join(f"WHEN {number} THEN {at}" for at, number in enumerate(catalogues))
    packed = connection.execute(
        f"""SELECT (campaign << 44) + ((CASE catalogue {short or "WHEN 0 THEN 0"} END) << 32) + grp
        FROM impressions"""
    )
    keys = np.fromiter((row[0] for row in packed), dtype=np.int64)
    folded.rows += len(keys)
    keys, counts = np.unique(keys, return_counts=True)
    places = keys >> 32
    for place in np.unique(places).tolist():
        here = places == place
        key = (place >> 12, catalogues[place & (1 << 12) - 1])
        parts.setdefault(key, []).append((keys[here] & (1 << 32) - 1, counts[here]))
    flights = ", ".join(f"({number}, {round(start * MICROS)})" for number, start in starts.items())
    passed = passed_sql(folded.steps, "bid_ts", "begins", "max")
    spend = connection.execute(
        f"""WITH flight(number, begins) AS (VALUES {flights or "(-1, 0)"})
        SELECT campaign, {passed} / {DAY_SECONDS * MICROS}, sum(micros)
        FROM impressions JOIN flight ON number = campaign GROUP BY 1, 2"""
    )
    for campaign, day, micros in spend:
        by_day = folded.spent.setdefault(campaign, {})
        by_day[day] = by_day.get(day, 0) + micros
    folded.repeatable.extend(
        connection.execute("SELECT impression, expires FROM impressions WHERE expires > ?", (now,))
    )
    for campaign, moment in since.items():
        recent = connection.execute(
            """SELECT catalogue, grp, bid_ts / 1e6 FROM impressions
            WHERE campaign = ? AND bid_ts > ?""",
            (campaign, round(moment * MICROS)),
        )
        folded.times.setdefault(campaign, []).extend(recent)
