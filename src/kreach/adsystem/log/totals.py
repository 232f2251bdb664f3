"""How campaigns stand: totals and counts by group, carried from one snapshot to the next.

What was counted up to a row of each journal is brought up to a newer snapshot by the rows after it.
Should some of these have moved into files unseen, the log is counted again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from kreach.adsystem.log.engine import Columns
from kreach.adsystem.log.snapshot import Snapshot
from kreach.numeric.types import IntArray
from kreach.service.lru_cache import LruCache

__all__ = ["NOTHING", "Standing", "Total"]

_MAX_COUNTS = 32_000_000  # 8 bytes each
_MAX_TOGETHER = 8_000_000
_TOTALS = """SELECT campaign_number AS c, catalogue_number AS v, count(*) AS n,
    sum(price_micros)::BIGINT AS micros, epoch_us(min(ts)) AS first, epoch_us(max(ts)) AS last"""

T = TypeVar("T")
Place = tuple[int, int]
"""The numbers of a campaign and of a catalogue."""


class Total(NamedTuple):
    """Impressions of a campaign on a catalogue, their cost, and when the first and last were."""

    impressions: int
    spend_micros: int
    first_micros: int
    last_micros: int

    def joined(self, other: "Total") -> "Total":
        """Both together."""
        return Total(
            self.impressions + other.impressions,
            self.spend_micros + other.spend_micros,
            min(self.first_micros, other.first_micros),
            max(self.last_micros, other.last_micros),
        )


NOTHING = Total(0, 0, 2**62, -(2**62))


@dataclass(frozen=True)
class _Held(Generic[T]):
    """What the rows up to one of them add up to."""

    generation: int
    rows: tuple[int, ...]  # of each journal
    value: T

    def serves(self, now: Snapshot) -> bool:
        """Whether all that came since is at hand one by one."""
        if self.generation != now.generation:  # and so other journals, maybe
            return False
        reach = zip(now.compacted_rows, self.rows, now.last_rows, strict=True)
        return all(moved <= row <= last for moved, row, last in reach)


class Standing:
    """Totals of all campaigns; counts by group of those that were asked for lately."""

    def __init__(self, max_counts: int = _MAX_COUNTS) -> None:
        self._totals: _Held[dict[Place, Total]] | None = None
        self._counts = LruCache[Place, _Held[IntArray]](max_counts, lambda held: len(held.value))

    def totals(self, now: Snapshot) -> dict[Place, Total]:
        """Totals by campaign and catalogue."""
        held = self._totals
        if held is None or not held.serves(now):
            found = _totals(now.ask(f"{_TOTALS} FROM {now.rows()} GROUP BY ALL"))
        elif held.rows == now.last_rows:
            return held.value
        else:
            found = dict(held.value)
            newer = _totals(now.ask(f"{_TOTALS} FROM {now.newer(held.rows)} GROUP BY ALL"))
            for place, total in newer.items():
                found[place] = found.get(place, NOTHING).joined(total)
        self._totals = _Held(now.generation, now.last_rows, found)
        return found

    def counts(self, now: Snapshot, campaign: int, catalogue: int, groups: int) -> IntArray:
        """Impressions of a campaign by group of a catalogue."""
        return next(self.counts_of(now, [campaign], catalogue, groups))[1]

    def counts_of(
        self, now: Snapshot, campaigns: Iterable[int], catalogue: int, groups: int
    ) -> Iterator[tuple[int, IntArray]]:
        """Counts of several campaigns, those that are at hand first; the others share scans."""
        missing = []
        for campaign in campaigns:
            held = self._counts.get((campaign, catalogue))
            if held is not None and held.serves(now):
                yield campaign, self._brought_up(now, campaign, catalogue, held)
            else:
                missing.append(campaign)
        together = max(_MAX_TOGETHER // max(groups, 1), 1)
        for low in range(0, len(missing), together):
            part = missing[low : low + together]
            found = now.ask(
                f"""SELECT campaign_number AS c, group_number AS g, count(*) AS n FROM {now.rows()}
                WHERE catalogue_number = {catalogue} AND campaign_number IN ({_listed(part)})
                AND group_number BETWEEN 0 AND {groups - 1} GROUP BY ALL"""
            )
            for campaign in part:
                mine = found["c"] == campaign
                counts = np.zeros(groups, dtype=np.int64)
                counts[found["g"][mine]] = found["n"][mine]
                self._keep(now, (campaign, catalogue), counts)
                yield campaign, counts

    def _brought_up(
        self, now: Snapshot, campaign: int, catalogue: int, held: _Held[IntArray]
    ) -> IntArray:
        if held.rows == now.last_rows:
            return held.value
        found = now.ask(
            f"""SELECT group_number AS g, count(*) AS n FROM {now.newer(held.rows)}
            WHERE campaign_number = {campaign} AND catalogue_number = {catalogue}
            AND group_number BETWEEN 0 AND {len(held.value) - 1} GROUP BY ALL"""
        )
        counts = held.value
        if len(found["g"]):
            counts = counts.copy()  # the other may be in use
            counts[found["g"]] += found["n"]
        self._keep(now, (campaign, catalogue), counts)
        return counts

    def _keep(self, now: Snapshot, place: Place, counts: IntArray) -> None:
        self._counts.put(place, _Held(now.generation, now.last_rows, counts))


def _totals(found: Columns) -> dict[Place, Total]:
    names = ("c", "v", "n", "micros", "first", "last")
    columns = zip(*(found[name].tolist() for name in names), strict=True)
    return {(c, v): Total(n, micros, first, last) for c, v, n, micros, first, last in columns}


def _listed(numbers: list[int]) -> str:
    return ", ".join(str(number) for number in numbers)
