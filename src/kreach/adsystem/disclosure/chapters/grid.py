"""Cells of the grid: the rows of the log between two points of it, for many places at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kreach.adsystem.disclosure.chapters.chapter import ChapterCounts
from kreach.adsystem.log.engine import Columns
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.queries import grid_cells
from kreach.adsystem.log.snapshot import Snapshot
from kreach.boundary.times import MICROS, Window, from_micros

__all__ = ["Cell", "Stretch", "cells_of", "sizes_of"]

_MAX_ROWS = 2_000_000  # of the log that one query counts by group
_BEFORE_ALL = -(2**53)  # in micros


@dataclass(frozen=True)
class Stretch:
    """Rows of a campaign on a catalogue: those in [since, until).

    Rows from before `begin` count as if they were of that moment. `groups` is how many groups the
    catalogue has, where that is known.
    """

    place: Place
    since_micros: int | None  # None: from the first row on
    begin_micros: int
    until_micros: int
    groups: int | None
    timed: bool = False  # whether the times of impressions are needed


class Cell(NamedTuple):
    """The rows of a stretch between two points of the grid."""

    place: Place
    end_micros: int
    content: ChapterCounts


def sizes_of(
    now: Snapshot, stretches: Sequence[Stretch], grid_micros: int
) -> dict[Place, dict[int, int]]:
    """Rows by end of a cell; those of cells that are not over by `until` under until + 1."""
    if not stretches:
        return {}
    until = {one.place: one.until_micros for one in stretches}
    sizes: dict[Place, dict[int, int]] = {place: {} for place in until}
    columns = _count(now, stretches, grid_micros, by_group=False)
    names = ("campaign", "catalogue", "end", "n")
    for campaign, catalogue, end, n in zip(
        *(columns[name].tolist() for name in names), strict=True
    ):
        place = Place(campaign, catalogue)
        sizes[place][end * MICROS if end else until[place] + 1] = n
    return sizes


def cells_of(
    now: Snapshot,
    stretches: Iterable[Stretch],
    sizes: Mapping[Place, Mapping[int, int]],
    grid_micros: int,
    max_rows: int = _MAX_ROWS,
) -> Iterator[Cell]:
    """Cells that hold rows, those of a stretch in order of time; `sizes` bounds the queries."""
    for batch in _batches(stretches, sizes, max_rows):
        columns = _count(now, batch, grid_micros, by_group=True)
        key = np.stack([columns["campaign"], columns["catalogue"], columns["end"]])
        edges = np.flatnonzero((np.diff(key, axis=1) != 0).any(axis=0)) + 1
        known = {one.place: one for one in batch}
        for part in np.split(np.arange(key.shape[1]), edges):
            if len(part) and key[2, part[0]]:
                campaign, catalogue, end = key[:, part[0]].tolist()
                place = Place(campaign, catalogue)
                here = {name: values[part] for name, values in columns.items()}
                yield Cell(place, end * MICROS, _chapter_counts(here, known[place]))


def _count(
    now: Snapshot, stretches: Sequence[Stretch], grid_micros: int, *, by_group: bool
) -> Columns:
    """Run one query for some stretches; files of other days are not opened."""
    opened = [one.since_micros for one in stretches]
    since = None if None in opened else min(one for one in opened if one is not None)
    until = max(one.until_micros for one in stretches) if by_group else None
    window = Window(
        None if since is None else from_micros(since), None if until is None else from_micros(until)
    )
    table = now.values(
        {
            "campaign": [int(one.place.campaign or 0) for one in stretches],
            "catalogue": [int(one.place.catalogue or 0) for one in stretches],
            "low": [one.begin_micros // MICROS for one in stretches],
            "until": [one.until_micros // MICROS for one in stretches],
        },
        {"since": [_BEFORE_ALL if micros is None else micros for micros in opened]},
    )
    query = grid_cells(
        now.table(window),
        table,
        grid_micros // MICROS,
        by_group=by_group,
        timed=now.engine.dialect if by_group and any(one.timed for one in stretches) else None,
    )
    return now.columns(query)


def _chapter_counts(columns: Columns, stretch: Stretch) -> ChapterCounts:
    groups, counts = columns["group"].astype(np.int64), columns["n"]
    real = groups >= 0
    if stretch.groups is not None:
        real &= groups < stretch.groups
    rows, spend = int(counts.sum()), int(columns["spend"].sum())
    groups, counts, times = groups[real], counts[real], None
    if stretch.timed:
        lists = [np.asarray(one, dtype=np.int64) for one in columns["times"][real]]
        at = np.concatenate([np.zeros(0, dtype=np.int64), *lists])
        times = at[np.lexsort((at, np.repeat(groups, counts.astype(np.int64))))]
    return ChapterCounts.of(groups, counts, spend, rows, times)


def _batches(
    stretches: Iterable[Stretch], sizes: Mapping[Place, Mapping[int, int]], max_rows: int
) -> Iterator[list[Stretch]]:
    """Stretches that are counted together; a long one is cut at ends of cells."""
    batch: list[Stretch] = []
    rows = 0
    for stretch in stretches:
        since = stretch.since_micros
        known = sizes[stretch.place]
        for end in sorted(end for end in known if end <= stretch.until_micros):
            if batch and rows + known[end] > max_rows:
                yield batch
                batch, rows = [], 0
            if not batch or batch[-1].place != stretch.place:
                batch.append(replace(stretch, since_micros=since))
            batch[-1] = replace(batch[-1], until_micros=end)
            since, rows = end, rows + known[end]
    if batch:
        yield batch
