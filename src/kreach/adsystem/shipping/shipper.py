"""Ships a bidder's closed log files to the object store, and its catalogues' group ids."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path

from kreach.adsystem.ledger.compaction import LOG_FOLDER
from kreach.adsystem.ledger.journal import open_reader
from kreach.adsystem.shipping.file_store import FileStore
from kreach.adsystem.shipping.manifest import (
    ManifestEntry,
    ShippedFile,
    catalogues_folder,
    decode_entry,
    encode_entry,
    entry_name,
    manifest_folder,
    object_name,
    sha256,
)
from kreach.errors import KreachError
from kreach.service.logs import Log

__all__ = ["FileShipper"]

_LONGEST_WAIT = 300.0


class FileShipper:
    """The thread that ships files. What is in the object store is looked up there, not here."""

    def __init__(
        self, folder: Path, bidder: str, log_id: str, store: FileStore, seconds: float, log: Log
    ) -> None:
        self._folder, self._bidder, self._log_id = folder, bidder, log_id
        self._store, self._seconds, self._log = store, seconds, log
        self._shipped: dict[int, set[int]] = {}  # generation: last rows of rounds
        self._catalogues: set[str] | None = None
        self._ended = threading.Event()
        self.failure: str | None = None
        self.files = 0
        self.rounds_behind = 0
        self.shipped_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="shipper", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Ship what is left, once, and end the thread."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def age_seconds(self) -> float:
        """Since all files were shipped."""
        return time.monotonic() - self.shipped_at

    def _run(self) -> None:
        wait = self._seconds
        while True:
            ended = self._ended.wait(wait)
            try:
                self.ship()
            except Exception as error:  # whatever it is: a thread that ends would go unnoticed
                self._report(str(error) if isinstance(error, KreachError) else type(error).__name__)
                wait = min(2.0 * wait, max(_LONGEST_WAIT, self._seconds))
            else:
                self._report(None)
                wait = self._seconds
            if ended:
                return

    def _report(self, failure: str | None) -> None:
        if failure is not None and failure != self.failure:
            self._log.warning("log files not shipped", reason=failure)
        elif failure is None and self.failure is not None:
            self._log.info("log files are shipped again")
        self.failure = failure

    def ship(self) -> int:
        """Ship all rounds that are not in the object store yet; returns how many files."""
        generation, rounds = self._rounds()
        self._ship_catalogues()
        shipped = self._known(generation)
        due = [entry for entry in rounds if entry[1] not in shipped]
        self.rounds_behind = len(due)
        count = 0
        for previous, last, files in due:
            entry = self._upload(generation, previous, files)
            self._store.put_once(entry_name(self._bidder, generation, last), encode_entry(entry))
            shipped.add(last)
            self.rounds_behind -= 1
            count += len(entry.files)
        self.files += count
        self.shipped_at = time.monotonic()
        return count

    def _rounds(self) -> tuple[int, list[tuple[int, int, list[tuple[str, int, int, int]]]]]:
        """The rounds of the journal: the last row before, the last row, and the files."""
        with closing(open_reader(self._folder)) as reader:
            reader.execute("BEGIN")
            listed = reader.execute(
                "SELECT file, first_row, last_row, rows FROM compacted ORDER BY last_row, file"
            ).fetchall()
            fence = reader.execute("SELECT value FROM meta WHERE name = 'fence'").fetchone()
        rounds, previous = [], 0
        for last, files in groupby(listed, key=lambda row: int(row[2])):
            rounds.append((previous, last, list(files)))
            previous = last
        return (0 if fence is None else int(fence[0])), rounds

    def _known(self, generation: int) -> set[int]:
        """The rounds that the object store has; the first of them must be of this log."""
        if generation not in self._shipped:
            folder = manifest_folder(self._bidder, generation)
            names = self._store.list_names(folder)
            if names:
                entry = decode_entry(self._store.get(names[0]), names[0], self._bidder)
                if entry.log != self._log_id:
                    raise KreachError(
                        f"the object store holds another log of bidder {self._bidder}: give a "
                        "bidder with a new log a new name"
                    )
            last = (name.rpartition("/")[2].removesuffix(".json") for name in names)
            self._shipped[generation] = {int(row) for row in last if row.isdigit()}
        return self._shipped[generation]

    def _upload(
        self, generation: int, previous: int, files: list[tuple[str, int, int, int]]
    ) -> ManifestEntry:
        shipped = []
        for name, _, _, rows in files:
            data = (self._folder / LOG_FOLDER / name).read_bytes()
            checksum = sha256(data)
            place = object_name(self._bidder, name, checksum)
            self._store.put_once(place, data)
            shipped.append(
                ShippedFile(name=name, object=place, rows=rows, bytes=len(data), sha256=checksum)
            )
        return ManifestEntry(
            bidder=self._bidder,
            log=self._log_id,
            generation=generation,
            previous=previous,
            first_row=files[0][1],
            last_row=files[0][2],
            files=tuple(shipped),
        )

    def _ship_catalogues(self) -> None:
        """The group ids of catalogues: a rebuilt bidder needs them to write out old rows."""
        place = catalogues_folder(self._bidder)
        if self._catalogues is None:
            names = self._store.list_names(place)
            self._catalogues = {name.rpartition("/")[2] for name in names}
        for path in self._unshipped_catalogues():
            self._store.put_once(f"{place}/{path.name}", path.read_bytes())
            self._catalogues.add(path.name)

    def _unshipped_catalogues(self) -> Iterator[Path]:
        known = self._catalogues or set()
        for path in sorted((self._folder / "catalogues").glob("*.json")):
            if path.name not in known:
                yield path
