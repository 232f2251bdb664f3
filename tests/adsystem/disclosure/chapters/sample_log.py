"""A real log that a test writes row by row, and a writer of its chapters."""

from collections.abc import Callable, Sequence
from pathlib import Path

import ibis.expr.types as ir
import numpy as np

from kreach.adsystem.disclosure.audiences import served_people
from kreach.adsystem.disclosure.chapters.builder import WatchedPlace
from kreach.adsystem.disclosure.chapters.chapter import ChapterList
from kreach.adsystem.disclosure.chapters.store import ChapterStore
from kreach.adsystem.disclosure.chapters.writer import ChapterWriter
from kreach.adsystem.ledger.journal import Journal
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.running_counts import RunningCounts
from kreach.adsystem.log.snapshot import LiveLog, Snapshot
from kreach.adsystem.settings import GuardSettings
from kreach.boundary.audience import Audience
from kreach.numeric.types import IntArray
from kreach.service.logs import Log

HOUR = 3_600_000_000
START = 1_793_491_200_000_000  # 2026-11-01
GROUPS = 12
AUDIENCE = Audience.disjoint([10] * GROUPS, [10, 5, 1] * (GROUPS // 3))
SETTLE = 60_000_000
CLOSING = 1_800_000_000


def settings(**given: int) -> GuardSettings:
    """Small floors."""
    chosen = {"min_impressions": 5, "min_people": 20, "min_audience": 20} | given
    return GuardSettings(**chosen)  # type: ignore[arg-type]


class SampleLog:
    """A journal and its readers, as bidder and reporting have them."""

    def __init__(self, folder: Path, first_row: int = 0) -> None:
        self.folder = folder
        self.journal = Journal(folder, Log("bidder", write=lambda line: None))
        self.live = LiveLog(folder, "200MB")
        self.running = RunningCounts()
        self._rows = first_row
        self.truth: list[tuple[int, str, int, int, int]] = []
        """Campaign, version, group, time, micros."""

    def write(
        self, moments: Sequence[int], groups: Sequence[int], campaign: int = 1, version: str = "v1"
    ) -> None:
        """Have impressions written, each at a moment of its own."""
        number = self.journal.catalogue_number(version)
        for moment, group in zip(moments, groups, strict=True):
            self._rows += 1
            micros = 100 + self._rows % 7
            row = (self._rows, campaign, number, group, moment, moment, moment // 10**6, micros)
            self.journal.submit("impression", row)
            self.truth.append((campaign, version, group, moment, micros))
        assert self.journal.run_now(lambda _: None) is None  # waits for the log

    def counts(self, campaign: int = 1, version: str = "v1", end: int = 2**62) -> IntArray:
        """The truth about impressions by group before a moment."""
        mine = [g for c, v, g, ts, _ in self.truth if (c, v) == (campaign, version) and ts < end]
        return np.bincount(np.array(mine, dtype=np.int64), minlength=GROUPS)

    def spend(self, campaign: int = 1, version: str = "v1") -> int:
        """The truth about money."""
        return sum(m for c, v, _, _, m in self.truth if (c, v) == (campaign, version))

    def close(self) -> None:
        """Let go of the store."""
        self.live.close()
        self.journal.close()


class SampleChapters:
    """A chapter writer on a log, without campaigns and catalogues: the test sets them."""

    def __init__(self, log: SampleLog, floors: GuardSettings, folder: Path | None = None) -> None:
        """`folder`: of the chapters, if that is not the log's."""
        self.log = log
        self.store = ChapterStore(folder or log.folder)
        self.writer = ChapterWriter(self.store, floors)
        self.questions = 0

    def look(
        self,
        now: int,
        over: int | None = None,
        campaigns: Sequence[int] = (1,),
        version: str = "v1",
        people: Callable[[IntArray], int] | None = lambda groups: served_people(AUDIENCE, groups),
    ) -> ChapterList:
        """Update the chapters of campaigns; returns those of the first."""
        with self.log.live.snapshot() as snapshot:
            totals = self.log.running.totals(snapshot)
            rows = {numbers: total.rows for numbers, total in totals.items()}
            if version in snapshot.catalogue_numbers:
                watched = [
                    WatchedPlace(
                        Place(campaign, version),
                        snapshot.place(campaign, version),
                        GROUPS,
                        START,
                        over,
                        people,
                    )
                    for campaign in campaigns
                ]
                self.writer.update(self._counted(snapshot), rows, watched, now)
        return self.writer.chapters(Place(campaigns[0], version))

    def _counted(self, snapshot: Snapshot) -> Snapshot:
        columns = snapshot.columns

        def counted(query: ir.Table) -> object:
            self.questions += 1
            return columns(query)

        object.__setattr__(snapshot, "columns", counted)
        return snapshot

    def counts(
        self, chosen: range | None = None, campaign: int = 1, version: str = "v1"
    ) -> IntArray:
        """Impressions by group in chapters, by default in all that are shown."""
        place = Place(campaign, version)
        if chosen is None:
            chosen = range(self.writer.chapters(place).shown_count)
        return self.writer.counts(place, chosen, GROUPS)

    def close(self) -> None:
        """Close the chapters."""
        self.store.close()
