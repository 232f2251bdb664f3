"""Reads what is new in a bidder's journal, batch by batch.

Impressions are read by row number. Of the other tables, rows are sent that differ from what was
sent before, and now and then all of them, so that a reader can begin in the middle of the stream.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from kreach.adsystem.ledger.journal import open_reader
from kreach.adsystem.shipping.messages import Batch

__all__ = ["TABLES", "JournalChanges"]

_MAX_ROWS = 5_000  # of a batch: NATS takes messages of up to a megabyte
_MAX_TABLE_ROWS = 1_000
_PACING_MARGIN_US = 60_000_000
_ROWS = """SELECT row, impression, campaign, catalogue, grp, ts, bid_ts, expires, micros
    FROM impressions WHERE row > ? ORDER BY row LIMIT ?"""
TABLES = {
    "meta": "SELECT name, value FROM meta WHERE name IN ('id', 'epoch', 'moment', 'fence')",
    "catalogues": "SELECT number, version FROM catalogues",
    "grants": "SELECT campaign, micros FROM grants",
    "adjustments": "SELECT restored, campaign, micros FROM adjustments",
    "steps": "SELECT before, after FROM steps",
    "doubts": """SELECT number, began, lead_seconds, ended, outcome, first_row, last_row
        FROM doubts""",
    "conflicts": "SELECT impression, campaign, micros, other_micros, ts FROM conflicts",
    "memory": """SELECT name, ts, value FROM memory WHERE name LIKE 'applied%'
        OR name LIKE 'shortfall:%' OR name LIKE 'cost_limit:%' OR name LIKE 'requests:%'""",
    "pacing": "",
}
"""What is read of each table. Pacing is read by time."""
_PACING = """WITH RECURSIVE known(campaign) AS (
    SELECT min(campaign) FROM pacing UNION ALL
    SELECT (SELECT min(campaign) FROM pacing WHERE campaign > known.campaign) FROM known
    WHERE known.campaign IS NOT NULL)
    SELECT pacing.* FROM known JOIN pacing ON pacing.campaign = known.campaign
    WHERE pacing.ts > ? ORDER BY pacing.ts"""
_KEYS = {"doubts": 1, "meta": 1, "catalogues": 1, "grants": 1, "memory": 1}

Rows = list[tuple[str, list[Any]]]


class JournalChanges:
    """The changes of one journal since they were read last. Used by one thread."""

    def __init__(self, folder: Path, bidder: str, log: str, epoch: int) -> None:
        self._folder, self._bidder, self._log, self._epoch = folder, bidder, log, epoch
        self._sequence = 0
        self._reader: sqlite3.Connection | None = None
        self._sent: dict[tuple[str, Any], tuple[Any, ...]] = {}
        self._pacing_us = -1
        self._resumed = True
        self.read_row = 0  # the last that is in a batch
        self.last_row = 0

    def resume(self, newest: Batch | None) -> None:
        """Go on after the newest batch that the stream has; none of this log, from the start.

        A process that has published nothing yet begins with all rows that are not in files: what
        a stream may have lost of them long ago is there again.
        """
        self._sent.clear()
        self._resumed = True
        self.read_row, self._pacing_us = 0, -1
        if newest is not None and newest.log == self._log:
            if self._sequence and newest.generation == self._generation():
                self.read_row = newest.rows[-1][0] if newest.rows else newest.after
            self._pacing_us = newest.at_us - _PACING_MARGIN_US
            if newest.epoch == self._epoch:
                self._sequence = max(self._sequence, newest.sequence)

    def forget_sent(self) -> None:
        """Have the next batches hold all rows of the small tables."""
        self._sent.clear()

    def close(self) -> None:
        """Close the journal."""
        if self._reader is not None:
            self._reader.close()

    def batches(self, at_us: int, *, tables: bool, stopped: bool = False) -> Iterator[Batch]:
        """What is new. Tables are read in the same instant as the last rows.

        The next batch is read when it is asked for: by then the one before must be stored.
        """
        if self._reader is None:
            self._reader = open_reader(self._folder)
        reader = self._reader
        more = True
        while more:
            reader.execute("BEGIN")
            try:
                after, rows, generation = self._new_rows(reader)
                more = len(rows) == _MAX_ROWS
                full = not self._sent
                changed = list(self._changed(reader)) if tables and not more else []
            finally:
                reader.execute("ROLLBACK")
            if not rows and not changed and not (tables and not more):
                return
            yield from self._split(at_us, after, rows, generation, changed, full, stopped)

    def _new_rows(self, reader: sqlite3.Connection) -> tuple[int, list[Any], int]:
        compacted = reader.execute("SELECT max(last_row) FROM compacted").fetchone()[0] or 0
        after = max(self.read_row, int(compacted))  # rows in files are shipped with the files
        rows = reader.execute(_ROWS, (after, _MAX_ROWS)).fetchall()
        newest = reader.execute("SELECT max(row) FROM impressions").fetchone()[0] or 0
        self.last_row = max(int(newest), after)
        fence = reader.execute("SELECT value FROM meta WHERE name = 'fence'").fetchone()
        self.read_row = int(rows[-1][0]) if rows else after
        return after, rows, 0 if fence is None else int(fence[0])

    def _split(
        self,
        at_us: int,
        after: int,
        rows: list[Any],
        generation: int,
        changed: Rows,
        full: bool,
        stopped: bool,
    ) -> Iterator[Batch]:
        """As many batches as it takes; the first has the rows."""
        starts = range(0, len(changed), _MAX_TABLE_ROWS)
        pieces = [changed[at : at + _MAX_TABLE_ROWS] for at in starts] or [[]]
        full_from = self._sequence + 1 if full and changed else 0
        for at, piece in enumerate(pieces):
            tables: dict[str, list[list[Any]]] = {}
            for table, values in piece:
                tables.setdefault(table, []).append(values)
            last = at == len(pieces) - 1
            resumed, self._resumed = self._resumed, False
            self._sequence += 1
            yield Batch(
                bidder=self._bidder,
                log=self._log,
                generation=generation,
                epoch=self._epoch,
                sequence=self._sequence,
                at_us=at_us,
                after=after if at == 0 else self.read_row,
                last_row=self.last_row,
                rows=tuple(rows) if at == 0 else (),
                tables=tables,
                full_from=full_from if last else 0,
                resumed=resumed,
                stopped=stopped and last,
            )

    def _changed(self, reader: sqlite3.Connection) -> Iterator[tuple[str, list[Any]]]:
        for table, sql in TABLES.items():
            if not sql:
                continue
            width = _KEYS.get(table)
            for row in reader.execute(sql).fetchall():
                key = (table, row[:width])
                if self._sent.get(key) != row:
                    self._sent[key] = row
                    yield table, list(row)
        for row in reader.execute(_PACING, (self._pacing_us,)).fetchall():
            self._pacing_us = max(self._pacing_us, int(row[1]))
            yield "pacing", list(row)

    def _generation(self) -> int:
        with closing(open_reader(self._folder)) as reader:
            fence = reader.execute("SELECT value FROM meta WHERE name = 'fence'").fetchone()
        return 0 if fence is None else int(fence[0])
