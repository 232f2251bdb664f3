"""Repair of a log whose times are wrong: rows and marks that a wrong clock put into the future.

The machine's clock is believed, and what the log holds beyond it moves to now: no row is lost, no
price changes, and what was spent "later" counts for today's budget. Bids that are out are not
honoured any more (the fence): by their own times they might be valid for years.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from kreach.adsystem.ledger.clock_rows import end_doubt
from kreach.adsystem.ledger.compaction import LOG_FOLDER
from kreach.adsystem.ledger.journal import FILE, Journal, open_reader
from kreach.adsystem.store_layout import sync_path
from kreach.boundary.duckdb import new_engine, sql_text
from kreach.boundary.times import HOUR_SECONDS, MICROS, from_seconds
from kreach.errors import KreachError
from kreach.service.logs import Log
from kreach.service.sqlite import store_errors
from kreach.service.steady_clock import SteadyClock, boot_number, boot_seconds

__all__ = ["ClockFacts", "clock_facts", "repair_clock"]

_FUTURE = "SELECT count(*), coalesce(sum(micros), 0) FROM impressions WHERE max(ts, bid_ts) > ?"


@dataclass(frozen=True)
class ClockFacts:
    """How the times in a log compare with the machine's clock."""

    machine_time: str
    latest_in_log: str | None
    doubt: str | None  # why a bidder that starts now would not bid, if so
    rows_in_future: int
    files_in_future: int  # of compacted rows
    micros_in_future: int
    doubts: int  # times that the clock was in doubt, and
    rows_in_doubt: int  # rows that were written meanwhile
    steps: int  # of the clock that were accepted

    def document(self) -> dict[str, object]:
        """As JSON."""
        return asdict(self)


def clock_facts(folder: Path, now: float) -> ClockFacts:
    """The facts of a log, which is only read."""
    if not (folder / FILE).exists():
        raise KreachError.rule("store", "have a log", str(folder))
    with store_errors("hold a log that can be read", folder), closing(open_reader(folder)) as log:
        log.execute("BEGIN")
        at_us = int(now * MICROS)
        rows, micros = log.execute(_FUTURE, (at_us,)).fetchone()
        files = _future_files(log, folder, at_us)
        micros += sum(money for _, money in files)
        doubts, doubtful, steps = _tables(log)
        mark = Journal.mark_of(log)
    clock = SteadyClock(mark, lambda: now, boot=boot_number())
    return ClockFacts(
        from_seconds(now).isoformat(timespec="seconds"),
        _iso(mark.not_before),
        None if clock.doubt is None else clock.doubt.reason,
        rows,
        len(files),
        micros,
        doubts,
        doubtful,
        steps,
    )


def _tables(log: sqlite3.Connection) -> tuple[int, int, int]:
    """Times in doubt, rows written meanwhile, and steps."""
    try:
        doubts, rows = log.execute(
            "SELECT count(*), coalesce(sum(max(last_row - first_row + 1, 0)), 0) FROM doubts"
        ).fetchone()
        return doubts, rows, log.execute("SELECT count(*) FROM steps").fetchone()[0]
    except sqlite3.OperationalError:  # a log of an older kreach has none
        return 0, 0, 0


def _iso(seconds: float) -> str | None:
    return from_seconds(seconds).isoformat(timespec="seconds") if seconds else None


def repair_clock(
    folder: Path,
    now: float,
    log: Log,
    machine: tuple[int, float] | None = None,
    open_journal: Callable[[Path, Log], Journal] = Journal,
) -> ClockFacts:
    """Move everything in the future to now; returns the facts from before. No bidder may run.

    `machine`: its boot and the clock since then, if not of this one.
    """
    facts = clock_facts(folder, now)
    at_us = int(now * MICROS)
    boot, uptime = machine or (boot_number(), boot_seconds())
    journal = open_journal(folder, log)  # refused while a bidder has it
    try:
        moved = _rewrite_files(journal, folder, at_us)

        def repair(connection: sqlite3.Connection) -> None:
            _move_rows(connection, at_us)
            for old, new in moved:
                connection.execute("UPDATE compacted SET file = ? WHERE file = ?", (new, old))
            _set_time(connection, at_us, journal.epoch, boot, int(uptime * MICROS))

        error = journal.run_now(repair)
    finally:
        journal.close()
    if error is not None:
        raise KreachError.rule("store", "hold a log that can be written", str(error))
    for old, _ in moved:
        (folder / LOG_FOLDER / old).unlink(missing_ok=True)
    return facts


def _move_rows(connection: sqlite3.Connection, at_us: int) -> None:
    connection.execute(
        """UPDATE impressions SET ts = min(ts, :now), bid_ts = min(bid_ts, :now),
        expires = min(expires, :now / 1000000) WHERE max(ts, bid_ts) > :now""",
        {"now": at_us},
    )
    connection.execute("DELETE FROM pacing WHERE ts > ?", (at_us,))
    hour = at_us // MICROS // HOUR_SECONDS
    connection.execute(
        """DELETE FROM memory WHERE name LIKE 'requests:%'
        AND CAST(substr(name, -7) AS INTEGER) > ?""",
        (hour,),
    )
    connection.execute("UPDATE memory SET ts = min(ts, ?)", (at_us,))
    connection.execute("DELETE FROM steps WHERE after > ?", (at_us,))


def _set_time(
    connection: sqlite3.Connection, at_us: int, epoch: int, boot: int, uptime_us: int
) -> None:
    end_doubt(connection, at_us, "repaired")
    connection.execute("DELETE FROM losses")  # of bids that are behind the fence
    values = {
        "moment": at_us,
        "mark": at_us,
        "boot": boot,
        "uptime": uptime_us,
        "fence": epoch,
    }
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(values.items()))


def _future_files(
    connection: sqlite3.Connection, folder: Path, at_us: int
) -> list[tuple[str, int]]:
    """Files with rows in the future, and the money in those rows."""
    today = from_seconds(at_us / MICROS).date().isoformat()
    listed = connection.execute("SELECT file FROM compacted WHERE file >= ?", (f"day={today}",))
    files = listed.fetchall()
    if not files:
        return []
    found = []
    engine = new_engine()
    try:
        for (file,) in files:
            path = sql_text(folder / LOG_FOLDER / file)
            late = f"greatest(epoch_us(ts), epoch_us(bid_ts)) > {at_us}"
            count, micros = engine.execute(
                f"SELECT count(*), sum(price_micros)::BIGINT FROM read_parquet('{path}') "
                f"WHERE {late}"
            ).fetchall()[0]
            if count:
                found.append((str(file), int(micros)))
    finally:
        engine.close()
    return found


def _rewrite_files(journal: Journal, folder: Path, at_us: int) -> list[tuple[str, str]]:
    """Write files with rows in the future again, by today's date; old and new names."""
    with closing(open_reader(folder)) as reader:
        late = _future_files(reader, folder, at_us)
    today = from_seconds(at_us / MICROS).date().isoformat()
    if not late:
        return []
    moved = []
    engine = new_engine()
    try:
        for old, _ in late:
            # a name that compaction does not give, and a second repair neither
            stem = Path(old).name.removesuffix(".parquet")
            new = f"day={today}/{stem}.e{journal.epoch}.parquet"
            source, target = (sql_text(folder / LOG_FOLDER / name) for name in (old, new))
            (folder / LOG_FOLDER / new).parent.mkdir(parents=True, exist_ok=True)
            engine.execute(
                f"""COPY (SELECT * REPLACE (least(ts, make_timestamptz({at_us})) AS ts,
                least(bid_ts, make_timestamptz({at_us})) AS bid_ts)
                FROM read_parquet('{source}', hive_partitioning = false) ORDER BY ts)
                TO '{target}' (FORMAT parquet)"""
            )
            sync_path(folder / LOG_FOLDER / new)
            sync_path((folder / LOG_FOLDER / new).parent)
            moved.append((old, new))
    finally:
        engine.close()
    return moved
