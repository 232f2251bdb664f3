"""How long a bidder takes to start on a log of ten million impressions."""

import argparse
import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.bidder import make_store
from benchmarks.timing import memory_megabytes
from kreach.adsystem.ledger.compaction import compact
from kreach.adsystem.ledger.journal import FILE, Journal
from kreach.boundary.files import read_catalogue
from kreach.lab.processes import ServiceProcess
from kreach.service.logs import Log

__all__ = ["run"]


def _fill(store: Path, rows: int, groups: int, campaigns: int, first: int) -> None:
    """Rows in the live part, as a bidder of a week ago would have left them."""
    generator = np.random.default_rng(first)
    connection = sqlite3.connect(store / FILE, isolation_level=None)
    begins = int((time.time() - 6 * 86_400) * 1e6)
    step = 5 * 86_400_000_000 // max(rows, 1)
    connection.execute("BEGIN")
    for low in range(0, rows, 500_000):
        count = min(500_000, rows - low)
        at = np.arange(first + low, first + low + count)
        stamp = begins + (at - first) * step
        columns = (
            at,
            generator.integers(1, campaigns + 1, count),
            np.ones(count, dtype=np.int64),
            generator.integers(0, groups, count),
            stamp,
            stamp,
            stamp // 1_000_000 + 900,
            generator.integers(100, 2_000, count),
        )
        connection.executemany(
            """INSERT INTO impressions (impression, campaign, catalogue, grp, ts, bid_ts, expires,
               micros) VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
            zip(*(column.tolist() for column in columns), strict=True),
        )
    connection.execute("COMMIT")
    connection.close()


def _start(config: Path) -> float:
    begun = time.perf_counter()
    with ServiceProcess("bidder", config, config.parent / "bidder.log") as bidder:
        bidder.port(seconds=600.0)
        seconds = time.perf_counter() - begun
        folded = next(event for event in bidder.events() if event["event"] == "log loaded")
        memory = memory_megabytes(bidder.pid)
    rows = folded["impressions"]
    print(f"  ready after {seconds:.1f} s with {rows:,} impressions, {memory:,.0f} MB")
    return seconds


def run(rows: int = 10_000_000, groups: int = 1_000_000, campaigns: int = 100) -> None:
    """Start on an empty log, on one that is all live, and on one in files with a live end."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        config = make_store(root, groups, campaigns)
        store = root / "store"
        print("no impressions:")
        _start(config)
        _fill(store, rows, groups, campaigns, 1 << 40)
        print("all of them in the live part (no compaction for days):")
        _start(config)
        ids = np.array(read_catalogue(root / "release").groups, dtype=object)
        journal = Journal(store, Log("bench", lambda line: None))
        names = {number: f"campaign-{number - 1}" for number in range(1, campaigns + 1)}
        begun = time.perf_counter()
        left = rows - rows // 20
        while left > 0:
            left -= compact(journal, store, names, {1: ("bench-1", ids)}, time.time())
        journal.close()
        print(f"compacted in {time.perf_counter() - begun:.0f} s; now 95 % are in files:")
        _start(config)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    run(parser.parse_args().rows)
