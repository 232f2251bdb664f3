"""Publishes a bidder's journal in a thread of its own, and tells who waits when it is stored."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kreach.adsystem.ledger.journal import Done
from kreach.adsystem.shipping.journal_changes import JournalChanges
from kreach.adsystem.shipping.messages import Batch, decode_batch, encode_batch
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.stream import Fenced, LogStream
from kreach.boundary.times import MICROS
from kreach.errors import KreachError
from kreach.service.logs import Log

__all__ = ["LogPublisher", "NotStored"]

_FULL_SECONDS = 600.0  # between complete copies of the small tables
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0


class NotStored(RuntimeError):
    """The stream does not have what was written to the journal."""


class LogPublisher:
    """The thread that publishes. All methods may be called from any thread."""

    def __init__(
        self,
        folder: Path,
        bidder: str,
        identity: tuple[str, int],
        stream: LogStream,
        settings: ShippingSettings,
        clock: Callable[[], float],
        log: Log,
    ) -> None:
        """`identity`: the id of the journal and its epoch."""
        self._bidder, self._stream, self._settings = bidder, stream, settings
        self._clock, self._log = clock, log
        self._id, self._epoch = identity
        self._changes = JournalChanges(folder, bidder, *identity)
        self._lock = threading.Lock()
        self._waiting: list[Done] = []
        self._wake = threading.Event()
        self._ended = False
        self._resumed = False
        self._tables_at = self._full_at = float("-inf")
        self.failure: str | None = None
        self.stored_row = 0  # rows up to this one are in the stream, or were in files before
        self.stored_at = time.monotonic()
        self.batches = 0
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def rows_behind(self) -> int:
        """Rows of the journal that are not known to be in the stream."""
        return max(self._changes.last_row - self.stored_row, 0)

    @property
    def age_seconds(self) -> float:
        """Since all there was had been stored."""
        return time.monotonic() - self.stored_at

    def when_stored(self, done: Done) -> None:
        """Call `done` when all that the journal holds now is stored, or has failed to be."""
        with self._lock:
            if not self._ended:
                self._waiting.append(done)
                self._wake.set()
                return
        done(NotStored("the bidder is stopping"))

    def close(self) -> None:
        """Publish the last rows, once, and end the thread."""
        with self._lock:
            self._ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._changes.close()
        self._stream.close()

    def _run(self) -> None:
        wait = _FIRST_WAIT
        while True:
            self._wake.wait(self._settings.publish_seconds)
            with self._lock:
                self._wake.clear()
                waiting, self._waiting, ended = self._waiting, [], self._ended
            error = self.publish_new(tables=bool(waiting), stopped=ended)
            self._report(error)
            for done in waiting:
                done(None if error is None else NotStored(str(error)))
            if ended:
                return
            if error is None:
                wait = _FIRST_WAIT
            else:
                self._pause(wait)
                wait = min(2.0 * wait, _LONGEST_WAIT)

    def _pause(self, seconds: float) -> None:
        """Wait before the next try; those who wait meanwhile get its outcome."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._ended:
            time.sleep(min(0.05, seconds))

    def publish_new(self, *, tables: bool, stopped: bool = False) -> Exception | None:
        """Publish what is new; returns the error, if any."""
        now = time.monotonic()
        tables = tables or stopped or now - self._tables_at >= self._settings.heartbeat_seconds
        try:
            for batch in self._batches(tables=tables, stopped=stopped):
                self._stream.publish(encode_batch(batch), batch.key)
                self.batches += 1
        except Exception as error:  # no stream, a second publisher, a journal that cannot be read
            self._resumed = False  # look again what it has: it may have lost some
            return error
        if tables:
            self._tables_at = now
        self.stored_row = self._changes.read_row
        self.stored_at = time.monotonic()
        return None

    def _batches(self, *, tables: bool, stopped: bool) -> Iterator[Batch]:
        if not self._resumed:
            self._resume()
        if time.monotonic() - self._full_at > _FULL_SECONDS:
            self._changes.forget_sent()
            self._full_at, tables = time.monotonic(), True
        at_us = int(self._clock() * MICROS)
        yield from self._changes.batches(at_us, tables=tables, stopped=stopped)

    def _resume(self) -> None:
        """Go on after what the stream has; what it may have lost is sent again."""
        newest = self._stream.newest()
        batch = None if newest is None else decode_batch(newest.data, self._bidder)
        if batch is not None and batch.log != self._id:
            raise Fenced(
                f"the stream holds another log of bidder {self._bidder}: give a bidder with a new "
                "log a new name"
            )
        if batch is not None and batch.epoch > self._epoch:
            raise Fenced(
                f"another process publishes for bidder {self._bidder}: stop one of them, or, if "
                "its log was restored from a backup, rebuild it (kreach repair bidder)"
            )
        self._changes.resume(batch)
        self._full_at = float("-inf")
        self._resumed = True

    def _report(self, error: Exception | None) -> None:
        if error is None:
            if self.failure is not None:
                self._log.info("log is published again")
            self.failure = None
            return
        reason = str(error) if isinstance(error, KreachError) else type(error).__name__
        if self.failure != reason:
            self._log.warning("log not published", reason=reason)
        self.failure = reason
