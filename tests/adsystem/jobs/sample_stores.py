"""Sample stores of one or several bidders, and the expected counts of their logs."""

import hashlib
import shutil
from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import kreach as kr
from kreach.adsystem.campaigns.campaign import Campaign, Cap
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.jobs.options import JobOptions
from kreach.adsystem.jobs.periods import chosen_periods
from kreach.adsystem.jobs.reach import Period
from kreach.adsystem.ledger.compaction import compact
from kreach.adsystem.settings import AdSystemSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.boundary.times import to_micros
from kreach.numeric.types import IntArray
from tests.adsystem.api.live_stores import make_catalogue
from tests.adsystem.ledger.sample_journals import journal, wait

__all__ = ["DAY", "HOUR", "NOW", "START", "SampleStore", "Sold", "days", "hours", "rows_of", "tree"]

START = datetime(2025, 11, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = START + 20 * DAY  # when jobs run
EXPIRY_SECONDS = 900


@dataclass(frozen=True)
class Sold:
    """One impression."""

    bidder: str
    campaign: str
    version: str
    group: int
    ts: datetime
    micros: int


class SampleStore:
    """A store with campaigns, and bidders that write and move rows as they do in service."""

    def __init__(self, folder: Path, *catalogues: Catalogue, bidders: Sequence[str] = ("",)):
        self.folder = folder
        self.catalogues = catalogues or (make_catalogue("disjoint"),)
        for catalogue in self.catalogues:
            write_catalogue(catalogue, folder / catalogue.version)
        self.settings = AdSystemSettings(
            store=folder / "store",
            catalogues=tuple(folder / catalogue.version for catalogue in self.catalogues),
        )
        self.bidders = {
            name: self.settings.store / "bidders" / name if name else self.settings.store
            for name in bidders
        }
        self.numbers: dict[str, int] = {}
        self.sold: list[Sold] = []
        self._next = dict.fromkeys(bidders, 1)

    def copy(self, folder: Path) -> "SampleStore":
        """A copy to be changed freely: writing a new one takes longer."""
        other = copy(self)
        other.folder, other.sold = folder, list(self.sold)
        other.numbers, other._next = dict(self.numbers), dict(self._next)
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)

        def moved(path: Path) -> Path:
            return folder / path.relative_to(self.folder)

        catalogues = tuple(map(moved, self.settings.catalogues))
        other.settings = AdSystemSettings(store=moved(self.settings.store), catalogues=catalogues)
        other.bidders = {name: moved(path) for name, path in self.bidders.items()}
        return other

    def add(self, name: str, **more: Any) -> Campaign:
        """Store a campaign."""
        given: dict[str, Any] = {
            "id": name,
            "budget": 10_000.0,
            "start": START,
            "end": START + 30 * DAY,
            "caps": (Cap(limit=2),),
            "max_cpm": 100.0,
        }
        store = CampaignStore(self.settings.store)
        stored = store.add(Campaign(**(given | more)))
        store.close()
        self.numbers[name] = stored.number
        return stored.campaign

    def write(self, rows: Sequence[Sold]) -> None:
        """Have bidders write rows, each its own, in their order."""
        for name, folder in self.bidders.items():
            own = [row for row in rows if row.bidder == name]
            if not own and (folder / "live.sqlite3").exists():
                continue
            with journal(folder) as writer:
                by_version = {
                    c.version: writer.catalogue_number(c.version) for c in self.catalogues
                }
                for row in own:
                    ts = to_micros(row.ts)
                    number = 1 << 40 | self._next[name]
                    self._next[name] += 1
                    bid = ts - 2_000_000
                    place = (self.numbers[row.campaign], by_version[row.version], row.group)
                    expires = bid // 1_000_000 + EXPIRY_SECONDS
                    writer.submit("impression", (number, *place, ts, bid, expires, row.micros))
                assert wait(writer) is None
        self.sold += rows

    def move(self, now: datetime = NOW, bidder: str | None = None) -> None:
        """Have bidders move what has expired into files."""
        campaigns = {number: name for name, number in self.numbers.items()}
        for name, folder in self.bidders.items():
            if bidder not in {None, name}:
                continue
            with journal(folder) as writer:
                groups = {
                    writer.catalogue_number(c.version): (
                        c.version,
                        np.array(c.groups, dtype=object),
                    )
                    for c in self.catalogues
                }
                compact(writer, folder, campaigns, groups, now.timestamp(), 1, name)

    def write_random(
        self, rows: int, seed: int, start: datetime = START, span: timedelta = DAY
    ) -> None:
        """Rows at random: of all campaigns, bidders, catalogues and groups, in order of time."""
        generator = np.random.default_rng(seed)
        whens = np.sort(generator.uniform(0.0, span / timedelta(seconds=1), rows))
        rows_sold = []
        for seconds in whens.tolist():
            catalogue = self.catalogues[generator.integers(len(self.catalogues))]
            skewed = int(len(catalogue) * generator.random() ** 2)
            rows_sold.append(
                Sold(
                    list(self.bidders)[generator.integers(len(self.bidders))],
                    list(self.numbers)[generator.integers(len(self.numbers))],
                    catalogue.version,
                    skewed,
                    start + timedelta(seconds=seconds),
                    int(generator.integers(100, 5_000)),
                )
            )
        self.write(rows_sold)

    def options(self, **more: Any) -> JobOptions:
        """Options with `out` beside the store."""
        given: dict[str, Any] = {"settings": self.settings, "out": self.folder / "out"}
        return JobOptions(**(given | more))

    def rows(self, campaign: str, version: str, start: datetime, end: datetime) -> list[Sold]:
        """The truth about a window."""
        return [
            row
            for row in self.sold
            if (row.campaign, row.version) == (campaign, version) and start <= row.ts < end
        ]

    def counts(
        self, campaign: str, catalogue: Catalogue, start: datetime, end: datetime
    ) -> IntArray:
        """The truth about impressions by group."""
        tally = Counter(row.group for row in self.rows(campaign, catalogue.version, start, end))
        return np.array([tally[group] for group in range(len(catalogue))], dtype=np.int64)

    def measured(
        self, campaign: str, catalogue: Catalogue, cap: int, start: datetime, end: datetime
    ) -> "kr.ReachReport":
        """What the library says of the truth."""
        counts = self.counts(campaign, catalogue, start, end)
        return kr.measure(catalogue.audience(), counts, cap)


def hours(*starts: datetime) -> list[Period]:
    return [chosen_periods("hour", NOW, at=start.isoformat())[0] for start in starts]


def days(*starts: datetime) -> list[Period]:
    return [chosen_periods("day", NOW, at=start.isoformat())[0] for start in starts]


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of one table of reach."""
    rows: list[dict[str, Any]] = pq.ParquetFile(folder / "reach.parquet").read().to_pylist()
    return rows


def tree(out: Path) -> dict[str, str]:
    """Every file of the output that is not a lock, by what is in it."""
    return {
        str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and not path.name.endswith(".lock")
    }
