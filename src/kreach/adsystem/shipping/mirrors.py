"""The mirrors of all remote bidders, each in a thread of reporting."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from kreach.adsystem.shipping.file_store import FileStore
from kreach.adsystem.shipping.mirror import BidderMirror, MirrorStatus
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.stream import open_stream
from kreach.errors import KreachError
from kreach.service.clock import Clock
from kreach.service.logs import Log

__all__ = ["LogMirrors"]

_READ_SECONDS = 0.3
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 5.0


class LogMirrors:
    """Threads that keep the logs of remote bidders in a store."""

    def __init__(
        self, store: Path, bidders: Sequence[str], settings: ShippingSettings, log: Log
    ) -> None:
        if not bidders:
            raise KreachError("bidders of [shipping] or [redis] must name those to mirror")
        self._settings, self._log = settings, log
        files = FileStore(settings)
        self._mirrors = [
            BidderMirror(store, name, open_stream(settings, name), files) for name in bidders
        ]
        self._names = tuple(bidders)
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=pair, name="mirror", daemon=True)
            for pair in zip(bidders, self._mirrors, strict=True)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the threads and close the folders."""
        self._ended.set()
        for thread, mirror in zip(self._threads, self._mirrors, strict=True):
            if thread.is_alive():
                thread.join()
            mirror.close()

    def _run(self, name: str, mirror: BidderMirror) -> None:
        wait = _FIRST_WAIT
        while not self._ended.is_set():
            try:
                mirror.step(_READ_SECONDS, self._settings.files_seconds)
            except Exception as error:  # whatever it is: a thread that ends would go unnoticed
                known = isinstance(error, KreachError)
                self._report(name, mirror, str(error) if known else type(error).__name__)
                self._ended.wait(wait)
                wait = min(2.0 * wait, _LONGEST_WAIT)
            else:
                self._report(name, mirror, mirror.files_failure)
                wait = _FIRST_WAIT

    def _report(self, name: str, mirror: BidderMirror, failure: str | None) -> None:
        if failure is not None and failure != mirror.failure:
            self._log.warning("log not mirrored", bidder=name, reason=failure)
        elif failure is None and mirror.failure is not None:
            self._log.info("log is mirrored again", bidder=name)
        mirror.failure = failure

    def statuses(self) -> list[MirrorStatus]:
        """How each of them stands."""
        now = time.time()
        return [mirror.status(now) for mirror in self._mirrors]

    def is_stale(self, status: MirrorStatus) -> bool:
        """Whether a log is older than the settings allow."""
        return status.seconds_behind > self._settings.max_behind_seconds

    def complete_clock(self, clock: Clock) -> Clock:
        """A clock that does not pass what is complete: what is closed by it is never late."""
        return lambda: min(clock(), *(one.complete_until for one in self.statuses()))
