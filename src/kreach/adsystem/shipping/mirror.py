"""Keeps the log of one remote bidder: reads its stream and its manifest, step by step.

A new mirror, and one of a log that a repair rewrote, is filled in a folder beside the store and
linked into it when it is complete: reports never see half of a log.
"""

import time
from dataclasses import dataclass
from math import inf
from pathlib import Path

from kreach.adsystem.shipping.file_store import FileStore, FilesUnavailable
from kreach.adsystem.shipping.manifest import decode_entry, manifest_folder
from kreach.adsystem.shipping.messages import Batch, decode_batch
from kreach.adsystem.shipping.mirror_store import MirrorStore, RowsMissing
from kreach.adsystem.shipping.stream import LogStream
from kreach.adsystem.store_layout import BIDDERS_FOLDER, MIRRORS_FOLDER, link_mirror
from kreach.errors import KreachError

__all__ = ["BidderMirror", "MirrorStatus"]

_NEWEST_SECONDS = 1.0


@dataclass(frozen=True)
class MirrorStatus:
    """How a mirror stands.

    It is `ready` when reports may read it: complete, or of a bidder that never published.
    `seconds_behind` is the age of the newest that came from the bidder, `rows_behind` how many rows
    it has published that are not here. `complete_until` is when its rows are complete up to, in
    seconds since 1970; 0 while the mirror is being filled.
    """

    bidder: str
    ready: bool
    seconds_behind: float
    rows_behind: int
    complete_until: float
    failure: str | None


class BidderMirror:
    """One bidder's mirror. `step` is called by one thread, `status` by any."""

    def __init__(self, store: Path, bidder: str, stream: LogStream, files: FileStore) -> None:
        self._store, self._bidder = store, bidder
        self._stream, self._files = stream, files
        self._link = store / BIDDERS_FOLDER / bidder
        self._root = store / MIRRORS_FOLDER / bidder
        if self._link.exists() and not self._link.is_symlink():
            raise KreachError(
                f"{self._link} is a bidder's own folder and cannot be a mirror: leave {bidder} out "
                "of bidders of [shipping]"
            )
        self._mirror = MirrorStore(self._current_folder())
        self._newest_row = self._mirror["newest_row"]
        self._newest_read = float("-inf")
        self._files_read = float("-inf")
        self._checked_at = 0.0  # when the end of the stream was reached
        self._rereads = 0
        self._empty = False  # neither stream nor manifest has anything of this bidder
        self._has_manifest = False  # it was read, for this generation
        self.failure: str | None = None
        self.files_failure: str | None = None

    # -- status -------------------------------------------------------------------------------

    def status(self, now: float) -> MirrorStatus:
        """How it stands at a time (seconds since 1970)."""
        mirror, ready = self._mirror, self._empty or self._is_linked()
        came, complete = mirror["at_us"] / 1e6, mirror.moment_us / 1e6
        if mirror["stopped"] or self._empty:  # no row can have come since the stream was read
            came = complete = self._checked_at
        return MirrorStatus(
            self._bidder,
            ready,
            max(now - came, 0.0) if came else inf,
            max(self._newest_row - mirror.known_row, 0),
            complete if ready else 0.0,
            self.failure,
        )

    # -- folders ------------------------------------------------------------------------------

    def _is_linked(self) -> bool:
        return self._link.is_symlink() and self._link.resolve() == self._mirror.folder.resolve()

    def _current_folder(self) -> Path:
        """The folder that is linked; else the newest that is being filled."""
        if self._link.is_symlink() and self._link.exists():
            return self._link.resolve()
        known = sorted(self._root.glob("g*")) if self._root.is_dir() else []
        return known[-1] if known else self._folder_of(0)

    def _folder_of(self, generation: int) -> Path:
        return self._root / f"g{generation:08d}"

    def _link_when_complete(self) -> None:
        """Link the folder into the store, in one step, once it has all that the stream has."""
        if not self._mirror["complete"] or self._is_linked():
            return
        newest = self._stream.newest()
        if newest is None or decode_batch(newest.data, self._bidder).order > self._mirror.order:
            return
        link_mirror(self._store, self._bidder, self._mirror.folder)

    def _begin_generation(self, generation: int) -> None:
        """A repair rewrote the log: fill a new folder, and leave the old one until it is done."""
        self._mirror.close()
        self._mirror = MirrorStore(self._folder_of(generation), generation)
        self._has_manifest = False
        self.read_files()

    # -- steps --------------------------------------------------------------------------------

    def step(self, seconds: float, files_seconds: float) -> int:
        """Read what is new, waiting for it at most so long; returns how many messages came.

        While the object store cannot be read, rows come through the stream all the same. Those that
        are in files only are missed by their numbers, and then the step fails.
        """
        if time.monotonic() - self._files_read >= files_seconds:
            try:
                self.read_files()
                self.files_failure = None
            except FilesUnavailable as error:
                self.files_failure = str(error)
                self._files_read = time.monotonic()
        count = self._read_stream(seconds)
        self._link_when_complete()
        return count

    def _read_stream(self, seconds: float) -> int:
        mirror = self._mirror
        messages = self._stream.read(mirror["position"], seconds)
        batches = [(each.position, decode_batch(each.data, self._bidder)) for each in messages]
        if not batches:
            nothing = not mirror.log and self._stream.newest() is None
            self._empty = nothing and self._has_manifest  # there may be files that were not seen
            self._checked_at = time.time()
            self._newest_row = max(mirror["newest_row"], mirror.known_row)
            return 0
        self._empty = False
        generation = max(batch.generation for _, batch in batches)
        if generation > mirror.generation:
            self._begin_generation(generation)
            return len(batches)
        if self._skips(batches) and self._rereads < 2:
            self._rereads += 1  # the stream reads again from the position that we have
            if self._rereads == 2:
                mirror.rewind()  # it may have begun anew, and our position be in the middle
            return len(batches)
        self._apply(batches)
        self._rereads = 0
        self._look_ahead()
        return len(batches)

    def _skips(self, batches: list[tuple[int, Batch]]) -> bool:
        """Whether messages are missing between what is here and these, or among them."""
        epoch, sequence = self._mirror.order
        for _, batch in batches:
            if batch.order <= (epoch, sequence):
                continue
            follows = batch.epoch == epoch and batch.sequence == sequence + 1
            if sequence and not follows and not batch.resumed:
                return True
            epoch, sequence = batch.order
        return False

    def _apply(self, batches: list[tuple[int, Batch]]) -> None:
        try:
            self._mirror.apply(batches)
        except RowsMissing:
            self.read_files()  # rows that moved into files before they were published
            try:
                self._mirror.apply(batches)
            except RowsMissing:
                self._mirror.rewind()  # the stream may have begun anew, and have them further up
                raise

    def _look_ahead(self) -> None:
        """How far the bidder is ahead, while there is a lot to read."""
        if time.monotonic() - self._newest_read < _NEWEST_SECONDS:
            return
        self._newest_read = time.monotonic()
        newest = self._stream.newest()
        if newest is not None:
            self._newest_row = decode_batch(newest.data, self._bidder).last_row

    def read_files(self) -> int:
        """Take over the rounds of the manifest that are new; returns how many."""
        mirror = self._mirror
        folder = manifest_folder(self._bidder, mirror.generation)
        after = f"{folder}/{mirror['file_row']:012d}.json" if mirror["file_row"] else ""
        names = self._files.list_names(folder, after)
        for name in names:
            entry = decode_entry(self._files.get(name), name, self._bidder)
            for file in entry.files:
                mirror.add_file(file, self._files.get(file.object))
            mirror.add_round(entry)
        self._files_read, self._has_manifest = time.monotonic(), True
        return len(names)

    def close(self) -> None:
        """Close folder and stream."""
        self._mirror.close()
        self._stream.close()
