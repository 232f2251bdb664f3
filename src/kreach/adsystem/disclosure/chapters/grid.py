"""Questions to the log: what cells of the grid hold, for many campaigns at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kreach.adsystem.disclosure.chapters.chapter import Content
from kreach.boundary.times import Window

__all__ = ["Cell", "Numbers", "Rows", "Stretch", "cells_of", "sizes_of"]

_MAX_ROWS = 2_000_000  # of the log that one question counts by group
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Numbers = tuple[int, int]
"""The numbers of a campaign and of a catalogue in the log."""


class Rows(Protocol):
    """The log at one instant, as reporting has it."""

    @property
    def numbers(self) -> Mapping[str, int]:
        """Numbers of catalogues by their version."""

    def rows(self, window: Window | None = None) -> str:
        """The name of a table that holds at least the rows of a window."""

    def ask(self, sql: str) -> Mapping[str, npt.NDArray[Any]]:
        """Columns of a query."""


@dataclass(frozen=True)
class Stretch:
    """Rows of a campaign on a catalogue: those in [since, until).

    Rows from before `begin` count as if they were of that moment. `groups` is how many groups the
    catalogue has, where that is known.
    """

    numbers: Numbers
    since_micros: int | None  # None: from the first row on
    begin_micros: int
    until_micros: int
    groups: int | None


class Cell(NamedTuple):
    """What a stretch holds up to a point of the grid, from the point before."""

    numbers: Numbers
    end_micros: int
    content: Content


def sizes_of(
    now: Rows, stretches: Sequence[Stretch], grid_micros: int
) -> dict[Numbers, dict[int, int]]:
    """Rows by end of a cell; those from `until` on are under None's stand-in, until + 1."""
    if not stretches:
        return {}
    found = now.ask(
        f"""SELECT c, v, least({_end(grid_micros)}, until + 1) AS e, count(*) AS n
        FROM {_joined(now, stretches, bounded=False)} GROUP BY ALL"""
    )
    sizes: dict[Numbers, dict[int, int]] = {one.numbers: {} for one in stretches}
    columns = (found[name].tolist() for name in ("c", "v", "e", "n"))
    for c, v, end, n in zip(*columns, strict=True):
        sizes[c, v][end] = n
    return sizes


def cells_of(
    now: Rows,
    stretches: Iterable[Stretch],
    sizes: Mapping[Numbers, Mapping[int, int]],
    grid_micros: int,
    max_rows: int = _MAX_ROWS,
) -> Iterator[Cell]:
    """Cells that hold rows, those of a stretch in order of time; `sizes` bounds the questions."""
    for together in _batches(stretches, sizes, max_rows):
        found = now.ask(
            f"""SELECT c, v, {_end(grid_micros)} AS e, group_number AS g, count(*) AS n,
            sum(price_micros)::BIGINT AS micros FROM {_joined(now, together, bounded=True)}
            GROUP BY ALL ORDER BY c, v, e"""
        )
        key = np.stack([found["c"], found["v"], found["e"]])
        edges = np.flatnonzero((np.diff(key, axis=1) != 0).any(axis=0)) + 1
        groups = {one.numbers: one.groups for one in together}
        for part in np.split(np.arange(key.shape[1]), edges):
            if len(part):
                c, v, end = key[:, part[0]].tolist()
                g, n, micros = (found[name][part] for name in ("g", "n", "micros"))
                yield Cell((c, v), end, _content(g, n, micros, groups[c, v]))


def _content(
    groups: npt.NDArray[Any],
    counts: npt.NDArray[Any],
    micros: npt.NDArray[Any],
    known: int | None,
) -> Content:
    real = groups >= 0
    if known is not None:
        real &= groups < known
    rows, spend = int(counts.sum()), int(micros.sum())
    return Content.of(groups[real].astype(np.int64), counts[real], spend, rows)


def _batches(
    stretches: Iterable[Stretch], sizes: Mapping[Numbers, Mapping[int, int]], max_rows: int
) -> Iterator[list[Stretch]]:
    """Stretches that are counted together; a long one is cut at ends of cells."""
    batch: list[Stretch] = []
    held = 0
    for stretch in stretches:
        since = stretch.since_micros
        known = sizes[stretch.numbers]
        for end in sorted(end for end in known if end <= stretch.until_micros):
            if batch and held + known[end] > max_rows:
                yield batch
                batch, held = [], 0
            if not batch or batch[-1].numbers != stretch.numbers:
                batch.append(replace(stretch, since_micros=since))
            batch[-1] = replace(batch[-1], until_micros=end)
            since, held = end, held + known[end]
    if batch:
        yield batch


def _end(grid_micros: int) -> str:
    return f"(greatest(epoch_us(ts), low) // {grid_micros} + 1) * {grid_micros}"


def _joined(now: Rows, stretches: Sequence[Stretch], *, bounded: bool) -> str:
    """The rows of some stretches beside them; files of other days are not opened."""
    opened = [one.since_micros for one in stretches]
    since = None if None in opened else min(one for one in opened if one is not None)
    until = max(one.until_micros for one in stretches) if bounded else None
    window = Window(_moment(since), _moment(until))
    least = -(2**62)
    listed = ", ".join(
        f"({c}, {v}, {least if one.since_micros is None else one.since_micros}::BIGINT, "
        f"{one.begin_micros}::BIGINT, {one.until_micros}::BIGINT)"
        for one in stretches
        for c, v in (one.numbers,)
    )
    outer = "true" if since is None else f"ts >= make_timestamptz({since}::BIGINT)"
    if until is not None:
        outer += f" AND ts < make_timestamptz({until}::BIGINT) AND epoch_us(ts) < until"
    return f"""{now.rows(window)} JOIN (VALUES {listed}) AS wanted(c, v, since, low, until)
        ON campaign_number = c AND catalogue_number = v
        WHERE epoch_us(ts) >= since AND {outer}"""


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)
