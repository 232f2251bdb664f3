"""All that a bidder does to have its log leave the machine: publish rows, ship files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kreach.adsystem.ledger.journal import Done, Journal
from kreach.adsystem.shipping.file_store import FileStore
from kreach.adsystem.shipping.publisher import LogPublisher
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.shipper import FileShipper
from kreach.adsystem.shipping.stream import open_stream
from kreach.service.logs import Log

__all__ = ["BidderLogShipping", "ShippingStatus"]


@dataclass(frozen=True)
class ShippingStatus:
    """How far shipping is, for health checks and metrics."""

    acknowledge: str
    rows_behind: int  # of the journal, not known to be in the stream
    age_seconds: float  # since all rows were in the stream
    stream_failure: str | None
    rounds_behind: int  # of compaction, not in the object store
    files_age_seconds: float  # since all files were there
    files_failure: str | None


class BidderLogShipping:
    """Publisher and shipper of one bidder, with their threads."""

    def __init__(
        self,
        folder: Path,
        bidder: str,
        journal: Journal,
        settings: ShippingSettings,
        clock: Callable[[], float],
        log: Log,
    ) -> None:
        self.settings = settings
        files = FileStore(settings)
        self._publisher = LogPublisher(
            folder,
            bidder,
            (journal.id, journal.epoch),
            open_stream(settings, bidder),
            settings,
            clock,
            log,
        )
        self._shipper = FileShipper(folder, bidder, journal.id, files, settings.files_seconds, log)
        if settings.replicated:
            journal.when_replicated = self._publisher.when_stored

    def start(self) -> None:
        """Start the threads."""
        self._publisher.start()
        self._shipper.start()

    def close(self) -> None:
        """Publish and ship what is left, once; the journal must still be open."""
        self._publisher.close()
        self._shipper.close()

    def when_stored(self, done: Done) -> None:
        """Call `done` when the stream has all that the journal holds now, or failed to take it."""
        self._publisher.when_stored(done)

    @property
    def replicated_row(self) -> int | None:
        """The last row that survives the loss of the disk; None if notices do not wait for it."""
        return self._publisher.stored_row if self.settings.replicated else None

    @property
    def status(self) -> ShippingStatus:
        """How far it is."""
        publisher, shipper = self._publisher, self._shipper
        return ShippingStatus(
            self.settings.acknowledge,
            publisher.rows_behind,
            publisher.age_seconds,
            publisher.failure,
            shipper.rounds_behind,
            shipper.age_seconds,
            shipper.failure,
        )
