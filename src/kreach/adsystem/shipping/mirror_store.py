"""A bidder's log as reporting holds it: the bidder's own layout, filled from stream and manifest.

Each step is one transaction: what came, and how far the sources were read. Rows of the stream are
taken up to once by their number; a round of files replaces the rows that moved into it. So at every
instant each row that arrived is in exactly one place, as in the bidder's own folder.
"""

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kreach.adsystem.ledger.compaction import LOG_FOLDER
from kreach.adsystem.ledger.journal import open_copy
from kreach.adsystem.shipping.journal_changes import TABLES
from kreach.adsystem.shipping.manifest import ManifestEntry, RefusedEntry, ShippedFile, sha256
from kreach.adsystem.shipping.messages import Batch
from kreach.adsystem.store_layout import sync_path
from kreach.errors import KreachError
from kreach.service.sqlite import transaction

__all__ = ["MirrorStore", "OtherLog", "RowsMissing"]

_INSERT = "INSERT OR IGNORE INTO impressions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_PREFIX = "mirror "  # of what is about the mirror, in the journal's meta


class RowsMissing(KreachError):
    """Rows between those that are here and those that came."""


class OtherLog(KreachError):
    """Rows of another log than the one that is here."""


class MirrorStore:
    """One folder. Used by one thread."""

    def __init__(self, folder: Path, generation: int = 0) -> None:
        """`generation`: of the log that a new folder is to hold."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._connection = open_copy(folder)
        names = self._connection.execute("SELECT name, value FROM meta").fetchall()
        self._facts: dict[str, int] = {
            name.removeprefix(_PREFIX): value for name, value in names if name.startswith(_PREFIX)
        }
        self._meta: dict[str, int] = {n: v for n, v in names if not n.startswith(_PREFIX)}
        self._facts.setdefault("generation", generation)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __getitem__(self, name: str) -> int:
        """A fact about the mirror: position, epoch, sequence, row, file_row, …; 0 if unknown."""
        return self._facts.get(name, 0)

    @property
    def log(self) -> str:
        """The id of the journal that is mirrored, empty if none came yet."""
        return format(self._meta["id"], "x") if "id" in self._meta else ""

    @property
    def generation(self) -> int:
        """Of the log that is here: it rises when a repair rewrites it."""
        return self["generation"]

    @property
    def moment_us(self) -> int:
        """Up to here the bidder's rows are complete, by its clock."""
        return self._meta.get("moment", 0)

    @property
    def order(self) -> tuple[int, int]:
        """Of the newest batch that was applied."""
        return self["epoch"], self["sequence"]

    @property
    def known_row(self) -> int:
        """The last row that is here, in the journal or in files."""
        return max(self["row"], self["file_row"])

    def apply(self, batches: Sequence[tuple[int, Batch]]) -> None:
        """Apply batches with their positions, in one transaction."""
        facts, meta = dict(self._facts), dict(self._meta)
        try:
            with transaction(self._connection) as connection:
                for position, batch in batches:
                    if batch.order > self.order and batch.generation == self.generation:
                        self._apply(connection, batch)
                    self._facts["position"] = position
                self._write_facts(connection)
        except BaseException:
            self._facts, self._meta = facts, meta
            raise

    def rewind(self) -> None:
        """Read the stream from its first message on: what is here already changes nothing."""
        with transaction(self._connection) as connection:
            self._facts["position"] = 0
            self._write_facts(connection)

    def _apply(self, connection: sqlite3.Connection, batch: Batch) -> None:
        if self.log not in ("", batch.log):
            raise OtherLog(
                f"bidder {batch.bidder} has another log than the one mirrored in {self.folder}: "
                "give a bidder with a new log a new name"
            )
        if batch.after > self.known_row:
            raise RowsMissing(
                f"rows {self.known_row + 1} to {batch.after} of bidder {batch.bidder} are neither "
                "in the stream nor in files yet"
            )
        rows = [row for row in batch.rows if row[0] > self.known_row]
        connection.executemany(_INSERT, rows)
        for table, values in batch.tables.items():
            self._upsert(connection, table, values)
        gap = batch.epoch == self["epoch"] and batch.sequence > self["sequence"] + 1
        if gap or batch.epoch != self["epoch"]:
            self._facts["contiguous_from"] = batch.sequence
            self._facts["complete"] = 0
        if batch.full_from and batch.full_from >= self["contiguous_from"]:
            self._facts["complete"] = 1
        if rows:
            self._facts["row"] = rows[-1][0]
        self._facts["row"] = max(self["row"], batch.after)
        self._facts |= {
            "epoch": batch.epoch,
            "sequence": batch.sequence,
            "at_us": batch.at_us,
            "newest_row": max(self["newest_row"], batch.last_row),
            "stopped": int(batch.stopped),
        }
        if not self.log:  # before the first of its tables
            self._upsert(connection, "meta", [["id", int(batch.log, 16)]])

    def _upsert(self, connection: sqlite3.Connection, table: str, rows: list[list[Any]]) -> None:
        if table not in TABLES or not rows:
            return  # of a newer kreach
        if table == "meta":
            rows = [row for row in rows if row[0] in ("id", "epoch", "moment", "fence")]
            self._meta |= {str(name): int(value) for name, value in rows}
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows)

    def _write_facts(self, connection: sqlite3.Connection) -> None:
        connection.executemany(
            "INSERT OR REPLACE INTO meta VALUES (?, ?)",
            [(_PREFIX + name, value) for name, value in self._facts.items()],
        )

    def add_file(self, file: ShippedFile, data: bytes) -> None:
        """Write a file of a round; it counts when its round is added."""
        if len(data) != file.bytes or sha256(data) != file.sha256:
            raise RefusedEntry(
                f"{file.object} in the object store is damaged or foreign: its checksum is not "
                "that of the manifest. Restore it"
            )
        path = self.folder / LOG_FOLDER / file.name
        if path.exists() and sha256(path.read_bytes()) == file.sha256:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.draft")
        with draft.open("wb") as writing:
            writing.write(data)
            writing.flush()
            os.fsync(writing.fileno())
        draft.rename(path)
        sync_path(path.parent)
        sync_path(self.folder / LOG_FOLDER)

    def add_round(self, entry: ManifestEntry) -> None:
        """List the files of a round and drop the rows that moved into them."""
        if self.log not in ("", entry.log):
            raise OtherLog(f"the manifest of bidder {entry.bidder} is of another log")
        if entry.previous != self["file_row"]:
            raise RowsMissing(
                f"the manifest of bidder {entry.bidder} lacks the files between rows "
                f"{self['file_row']} and {entry.previous}: restore them"
            )
        facts, meta = dict(self._facts), dict(self._meta)
        try:
            with transaction(self._connection) as connection:
                connection.executemany(
                    "INSERT OR REPLACE INTO compacted VALUES (?, ?, ?, ?)",
                    [(f.name, entry.first_row, entry.last_row, f.rows) for f in entry.files],
                )
                connection.execute("DELETE FROM impressions WHERE row <= ?", (entry.last_row,))
                self._facts["file_row"] = entry.last_row
                self._facts["newest_row"] = max(self["newest_row"], entry.last_row)
                if not self.log:
                    self._upsert(connection, "meta", [["id", int(entry.log, 16)]])
                self._write_facts(connection)
        except BaseException:
            self._facts, self._meta = facts, meta
            raise
