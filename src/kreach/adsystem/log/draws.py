"""Effective draws of windows of a log, beside its counts (`counts.py`).

Both ways run the expressions of `draw_queries.py` and end as the same exposures:

    file_draws     a log in files: folded inside the engine, so that only a histogram leaves it
    window_draws   the live log: draws by group of a catalogue
    period_draws   the same for periods, each alone and with all before it
    place_draws    the same for several campaigns, all so far
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt

from kreach.adsystem.log.draw_queries import (
    draw_cells,
    drawn_rows,
    group_draws,
    part_draws,
    running_draws,
    timed_rows,
)
from kreach.adsystem.log.engine import Columns, Engine
from kreach.adsystem.log.instants import micros
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.queries import campaign_rows, counted_rows
from kreach.adsystem.log.snapshot import Snapshot
from kreach.adsystem.log.tables import GroupTable, LogTable
from kreach.adsystem.measurement.drawn import DrawCells, GroupDraws, WindowDraws
from kreach.boundary.times import Window
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.draws import HOUR_US
from kreach.numeric.meetings import calendar
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["FileDraws", "file_draws", "period_draws", "place_draws", "window_draws"]

_EVER = Window()
_MAX_CELLS = 2_000_000  # periods times groups that are counted at once
_PERIODS_AT_ONCE = 48


@dataclass(frozen=True, eq=False)
class _Parts:
    """Draws by part of a day since 1970, and the first and last time, of some rows."""

    part: IntArray
    draws: FloatArray
    first_us: IntArray
    last_us: IntArray

    @classmethod
    def of(cls, columns: Columns, chosen: npt.NDArray[Any], draws: str) -> "_Parts":
        """The rows of a `part_draws` query that a mask or an index picks."""
        order = np.argsort(columns["part"][chosen].astype(np.int64), kind="stable")
        names = ("part", "first", "last")
        part, first, last = (columns[name][chosen].astype(np.int64)[order] for name in names)
        return cls(part, columns[draws][chosen].astype(np.float64)[order], first, last)

    def joined(self, other: "_Parts") -> "_Parts":
        """Both together."""
        return _Parts(
            np.concatenate([self.part, other.part]),
            np.concatenate([self.draws, other.draws]),
            np.concatenate([self.first_us, other.first_us]),
            np.concatenate([self.last_us, other.last_us]),
        )

    @property
    def days(self) -> FloatArray:
        """Draws by day and part of the day."""
        return calendar(self.part, self.draws)

    @property
    def hours(self) -> float:
        """From the first row to the last."""
        if not len(self.part):
            return 0.0
        return float(self.last_us.max() - self.first_us.min()) / HOUR_US


# -- logs in files ----------------------------------------------------------------------------


@dataclass(frozen=True)
class FileDraws:
    """The draws of the windows of a log in files, as histograms."""

    alone: Columns
    running: Columns | None
    parts: Columns

    def window(self, at: int, unserved: Columns, *, running: bool = False) -> WindowDraws:
        """One window, or with `running` all windows up to it.

        `unserved` are the groups without impressions in it: size, targeted, groups.
        """
        cells = self.running if running else self.alone
        assert cells is not None
        here = (cells["slot"] <= at) & (at < cells["until"])
        chosen = self.parts["slot"] <= at if running else self.parts["slot"] == at
        parts = _Parts.of(self.parts, chosen, "running_draws" if running else "draws")
        held = {name: values[here] for name, values in cells.items()}
        return WindowDraws(_cells(held, unserved), parts.days, parts.hours)


def file_draws(
    engine: Engine,
    log: LogTable,
    groups: GroupTable,
    place: Place,
    windows: Sequence[Window],
    model: VisitModel,
    *,
    running: bool = False,
) -> FileDraws:
    """The draws of windows that follow each other without gaps, from one pass over their rows."""
    whole = Window(windows[0].start, windows[-1].end)
    rows = timed_rows(counted_rows(log, place, whole), groups, engine.dialect)
    with engine.temporary(drawn_rows(rows, ["group"], model, windows)) as drawn:
        by_group = group_draws(drawn, ["group"])
        alone = by_group.mutate(until=by_group["slot"] + 1)
        so_far = None
        if running:
            so_far = engine.columns(draw_cells(running_draws(by_group, len(windows)), groups))
        return FileDraws(
            engine.columns(draw_cells(alone, groups)), so_far, engine.columns(part_draws(drawn))
        )


def _cells(columns: Columns, unserved: Columns) -> DrawCells:
    """Cells in a fixed order, so that all engines report the same last digit."""
    none = np.zeros(len(unserved["size"]))
    empty = dict.fromkeys(("n", "whole", "fraction", "doubt"), none) | unserved
    names = ("size", "targeted", "n", "whole", "groups", "fraction", "doubt")
    table = np.stack(
        [
            np.concatenate([columns[name].astype(np.float64), empty[name].astype(np.float64)])
            for name in names
        ]
    )
    table = table[:, table[1] > 0.0]
    order = np.lexsort(table[3::-1])
    table = table[:, order]
    new = np.ones(table.shape[1], dtype=bool)
    new[1:] = (table[:4, 1:] != table[:4, :-1]).any(axis=0)
    first = np.flatnonzero(new)
    sums = np.add.reduceat(table[4:], first, axis=1) if len(first) else table[4:]
    return DrawCells(*table[:4, first], *sums)


# -- the live log -----------------------------------------------------------------------------


def _known(now: Snapshot, rows: ir.Table, keys: Sequence[str], groups: int) -> ir.Table:
    rows = rows.filter((rows["group"] >= 0) & (rows["group"] < groups))
    return rows.select(*keys, us=micros(rows["ts"], now.engine.dialect))


def window_draws(
    now: Snapshot, place: Place, groups: int, window: Window, model: VisitModel
) -> GroupDraws:
    """The draws of one window by group."""
    rows = _known(now, counted_rows(now.table(window), place, window), ["group"], groups)
    with now.temporary(drawn_rows(rows, ["group"], model, [window])) as drawn:
        by_group = now.columns(group_draws(drawn, ["group"]))
        parts = now.columns(part_draws(drawn))
    found = _Parts.of(parts, np.arange(len(parts["part"])), "draws")
    return _group_draws(model, groups, by_group, found)


def _group_draws(model: VisitModel, groups: int, columns: Columns, parts: _Parts) -> GroupDraws:
    draws, doubt = _by_group(columns, groups, "")
    return GroupDraws(model, draws, doubt, parts.days, parts.hours)


def _by_group(columns: Columns, groups: int, which: str) -> tuple[FloatArray, FloatArray]:
    group = columns["group"].astype(np.int64)
    draws, doubt = np.zeros(groups), np.zeros(groups)
    draws[group] = columns[f"{which}draws"].astype(np.float64)
    doubt[group] = columns[f"{which}doubt"].astype(np.float64)
    return draws, doubt


def period_draws(
    now: Snapshot,
    place: Place,
    groups: int,
    periods: Sequence[Window],
    model: VisitModel,
) -> Iterator[tuple[GroupDraws, GroupDraws]]:
    """Each period that follows the one before, alone and with all before it.

    Rows shortly before a block of periods are read again: its first rows may continue them.
    """
    at_once = max(min(_MAX_CELLS // max(groups, 1), _PERIODS_AT_ONCE), 1)
    draws, doubt, so_far = np.zeros(groups), np.zeros(groups), None
    reach_back = timedelta(seconds=model.gap_edges_seconds[-1])
    for low in range(0, len(periods), at_once):
        block = list(periods[low : low + at_once])
        start, first = block[0].start, periods[0].start
        lookback = 0
        if low and start is not None and first is not None:
            block.insert(0, Window(max(first, start - reach_back), start))
            lookback = 1
        stretch = Window(block[0].start, block[-1].end)
        rows = _known(now, counted_rows(now.table(stretch), place, stretch), ["group"], groups)
        with now.temporary(drawn_rows(rows, ["group"], model, block)) as drawn:
            by_group = now.columns(group_draws(drawn, ["group"]))
            parts = now.columns(part_draws(drawn))
        for at in range(lookback, len(block)):
            here = by_group["slot"] == at
            chosen = {name: values[here] for name, values in by_group.items()}
            more, more_doubt = _by_group(chosen, groups, "running_")
            draws, doubt = draws + more, doubt + more_doubt
            mine = _Parts.of(parts, parts["slot"] == at, "running_draws")
            so_far = mine if so_far is None else so_far.joined(mine)
            alone = _Parts.of(parts, parts["slot"] == at, "draws")
            yield (
                _group_draws(model, groups, chosen, alone),
                GroupDraws(model, draws, doubt, so_far.days, so_far.hours),
            )


def place_draws(
    now: Snapshot, places: Sequence[Place], groups: int, model: VisitModel
) -> Iterator[tuple[Place, GroupDraws]]:
    """All so far of several campaigns on one catalogue."""
    keys = ["campaign", "group"]
    rows = _known(now, campaign_rows(now.table(), places), keys, groups)
    with now.temporary(drawn_rows(rows, keys, model, [_EVER])) as drawn:
        by_group = now.columns(group_draws(drawn, keys))
        parts = now.columns(part_draws(drawn, ["campaign"]))
    for place in places:
        here = by_group["campaign"] == place.campaign
        chosen = {name: values[here] for name, values in by_group.items()}
        mine = _Parts.of(parts, parts["campaign"] == place.campaign, "draws")
        yield place, _group_draws(model, groups, chosen, mine)
