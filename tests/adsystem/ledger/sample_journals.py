"""Journals on a folder of their own, rows to write into them, and a plain way to read it all."""

import json
import queue
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from kreach.adsystem.ledger.compaction import LOG_FOLDER
from kreach.adsystem.ledger.journal import ImpressionRow, Journal
from kreach.service.logs import Log

DAY_MICROS = 86_400_000_000
FIRST = 20_000 * DAY_MICROS  # a midnight
CAMPAIGNS = {1: "one", 2: "two"}
GROUPS: dict[int, tuple[str, Any]] = {
    1: ("v1", np.array(["a", "b", "c"], dtype=object)),
    2: ("v2", np.array(["x", "y", "z"], dtype=object)),
}


@contextmanager
def journal(folder: Path, told: list[dict[str, Any]] | None = None) -> Iterator[Journal]:
    """A journal for a while; what it logs goes to `told`."""
    lines: list[dict[str, Any]] = [] if told is None else told
    made = Journal(folder, Log("test", lambda line: lines.append(json.loads(line))))
    try:
        yield made
    finally:
        made.close()


def wait(made: Journal) -> Exception | None:
    """Until all that was submitted so far is written, or not."""
    ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
    made.run(lambda connection: None, ended.put)
    return ended.get(timeout=30)


def row(at: int, *, day: float = 0.0, campaign: int = 1, catalogue: int = 1) -> ImpressionRow:
    """Impression number `at`; its token lives for a minute."""
    ts = FIRST + round(day * DAY_MICROS) + at
    group, price = at % 3, 100 + at
    return (1 << 40 | at, campaign, catalogue, group, ts, ts - 500, ts // 1_000_000 + 60, price)


def all_rows(folder: Path) -> list[tuple[Any, ...]]:
    """What the log holds at one instant, files and live part: number, campaign, price, bid_ts."""
    with closing(sqlite3.connect(f"{(folder / 'live.sqlite3').as_uri()}?mode=ro", uri=True)) as db:
        db.execute("BEGIN")
        files = [name for (name,) in db.execute("SELECT file FROM compacted")]
        found = db.execute(
            "SELECT impression, campaign, micros, bid_ts FROM impressions"
        ).fetchall()
    columns = ["impression_id", "campaign_number", "price_micros", "bid_ts"]
    for file in files:
        table = pq.ParquetFile(folder / LOG_FOLDER / file).read(columns)
        stamps = table.column("bid_ts").cast("int64").to_pylist()
        told = zip(*(table.column(name).to_pylist() for name in columns[:3]), stamps, strict=True)
        found += [
            (int(number.rpartition("-")[2], 16), campaign, price, ts)
            for number, campaign, price, ts in told
        ]
    return sorted(found)
