"""A journal that is shipped, by the parts that bidders and reporting use."""

import json
from pathlib import Path
from typing import Any

from kreach.adsystem.ledger.compaction import compact
from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.shipping.bidder_log import BidderLogShipping
from kreach.adsystem.shipping.file_store import FileStore
from kreach.adsystem.shipping.mirror import BidderMirror
from kreach.adsystem.shipping.settings import ShippingSettings
from kreach.adsystem.shipping.stream import open_stream
from kreach.service.logs import Log
from tests.adsystem.ledger.sample_journals import CAMPAIGNS, FIRST, GROUPS, row, wait


class ShippedJournal:
    """A journal with the threads that ship it."""

    def __init__(self, folder: Path, settings: ShippingSettings) -> None:
        self.folder = folder
        self.told: list[dict[str, Any]] = []
        log = Log("test", lambda line: self.told.append(json.loads(line)))
        self.journal = Journal(folder, log)
        self.shipping = BidderLogShipping(
            folder, "b1", self.journal, settings, lambda: FIRST / 1e6, log
        )
        self.shipping.start()

    def write(self, first: int, count: int) -> None:
        for at in range(first, first + count):
            self.journal.submit("impression", row(at, campaign=1 + at % 2))
        self.journal.submit("moment", (FIRST + first + count,))
        assert wait(self.journal) is None

    def compact(self) -> int:
        return compact(self.journal, self.folder, CAMPAIGNS, GROUPS, FIRST / 1e6 + 90_000.0)

    def close(self) -> None:
        self.shipping.close()
        self.journal.close()


def open_mirror(store: Path, settings: ShippingSettings) -> BidderMirror:
    """The mirror of that journal."""
    return BidderMirror(store, "b1", open_stream(settings, "b1"), FileStore(settings))
