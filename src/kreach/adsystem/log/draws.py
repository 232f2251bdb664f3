"""Effective draws of windows of a log, beside its counts (`counts.py`).

Both ways run the expressions of `draw_queries.py` and end as the same exposures:

    file_draws     a log in files: folded inside the engine, so that only a histogram leaves it
    stored_draws   the same, of a log whose rows hold their shares
    window_draws   the live log: draws by group of a catalogue
    period_draws   the same for periods, each alone and with all before it
    place_draws    the same for several campaigns, all so far
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta

import ibis.expr.types as ir
import numpy as np
import numpy.typing as npt

from kreach.adsystem.log.draw_queries import (
    UNITS,
    draw_cells,
    draws_by_group,
    group_counts,
    group_losses,
    losses,
    near_rows,
    part_counts,
    part_losses,
    running_draws,
    timed_rows,
)
from kreach.adsystem.log.engine import Columns, Engine
from kreach.adsystem.log.instants import micros
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.queries import campaign_rows, counted_rows
from kreach.adsystem.log.share_queries import (
    changed_parts,
    head_changes,
    stored_losses,
    stored_parts,
    stored_rows,
)
from kreach.adsystem.log.snapshot import Snapshot
from kreach.adsystem.log.stored_shares import slot_heads
from kreach.adsystem.log.tables import GroupTable, LogTable
from kreach.adsystem.measurement.drawn import DrawCells, GroupDraws, WindowDraws
from kreach.adsystem.measurement.times import group_draws
from kreach.boundary.times import Window
from kreach.boundary.visit_model import VisitModel
from kreach.numeric.draws import HOUR_US, sum_by
from kreach.numeric.meetings import calendar
from kreach.numeric.types import FloatArray, IntArray
from kreach.service.tracing import traced

__all__ = ["FEW_ROWS", "FileDraws", "file_draws", "period_draws", "place_draws", "stored_draws"]
__all__ += ["window_draws"]

Mask = npt.NDArray[np.bool_]

_EVER = Window()
FEW_ROWS = 1_000_000  # that are fetched
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
    def of(
        cls, counted: Columns, lost: Columns, chosen: Callable[[Columns], Mask], running: bool
    ) -> "_Parts":
        """The chosen rows of `part_counts`, less those of `part_losses`."""
        here = _where(counted, chosen(counted))
        less = _where(lost, chosen(lost))
        part, first, last = (here[name].astype(np.int64) for name in ("part", "first", "last"))
        draws = here["n"].astype(np.float64)
        if len(less["part"]):
            lacks = less["running_lost" if running else "lost"].astype(np.float64) / UNITS
            start = int(part.min())
            width = int(part.max()) - start + 1
            by_part = sum_by(part - start, draws, width)
            by_part -= sum_by(less["part"].astype(np.int64) - start, lacks, width)
            # a part may be in several slots: the first row of each has all of it
            part, at = np.unique(part, return_index=True)
            times = np.full(len(at), first.min()), np.full(len(at), last.max())
            return cls(part, by_part[part - start], *times)
        return cls(part, draws, first, last)

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


def _where(columns: Columns, mask: Mask) -> Columns:
    return {name: values[mask] for name, values in columns.items()}


def _all(columns: Columns) -> Mask:
    return np.ones(len(columns["slot"]), dtype=bool)


# -- logs in files ----------------------------------------------------------------------------


@dataclass(frozen=True)
class FileDraws:
    """The draws of the windows of a log in files, as histograms."""

    alone: Columns
    running: Columns | None
    parts: Columns
    lost: Columns

    def window(self, at: int, unserved: Columns, *, running: bool = False) -> WindowDraws:
        """One window, or with `running` all windows up to it.

        `unserved` are the groups without impressions in it: size, targeted, groups.
        """
        cells = self.running if running else self.alone
        assert cells is not None
        held = _where(cells, (cells["slot"] <= at) & (at < cells["until"]))

        def chosen(columns: Columns) -> Mask:
            slot = columns["slot"].astype(np.int64)
            mask: Mask = slot <= at if running else slot == at
            return mask

        parts = _Parts.of(self.parts, self.lost, chosen, running)
        return WindowDraws(_cells(held, unserved), parts.days, parts.hours)


def file_draws(
    engine: Engine,
    log: LogTable,
    groups: GroupTable,
    place: Place,
    windows: Sequence[Window],
    counted: ir.Table,
    *,
    all_known: bool,
    running: bool = False,
) -> FileDraws:
    """The draws of windows that follow each other without gaps.

    `counted` are the impressions by group of each window (`queries.counts`). With `all_known` no
    row has a group that the table does not have.
    """
    model, slots, dialect = groups.model, len(windows), engine.dialect
    assert model is not None
    rows = counted_rows(log, place, Window(windows[0].start, windows[-1].end))
    known = rows
    if not all_known:
        named = rows.mutate(served=rows["group"].cast("string"))
        known = named.semi_join(groups.rows, named["served"] == groups.rows["group"])
    timed = timed_rows(known, dialect)
    near = near_rows(timed, ["key"], model)
    with engine.temporary(losses(near, ["key"], model, windows)) as lost:
        by_group = draws_by_group(counted, group_losses(lost, ["key"]), slots, dialect)
        alone = by_group.mutate(until=by_group["slot"] + 1)
        so_far = None
        if running:
            so_far = engine.columns(draw_cells(running_draws(by_group, slots), groups))
        return FileDraws(
            engine.columns(draw_cells(alone, groups)),
            so_far,
            engine.columns(part_counts(timed, windows)),
            engine.columns(part_losses(lost)),
        )


def stored_draws(
    engine: Engine,
    log: LogTable,
    groups: GroupTable,
    place: Place,
    windows: Sequence[Window],
    counted: ir.Table,
    *,
    all_known: bool,
    running: bool = False,
) -> FileDraws:
    """The same of a log that holds shares: sums of what is stored, but for the heads of windows.

    `groups` are `keyed_groups`, `counted` are `stored_counts`.
    """
    model, slots, dialect = groups.model, len(windows), engine.dialect
    assert model is not None
    known = None if all_known else groups.rows
    heads = slot_heads(list(windows), model)
    with ExitStack() as stack:
        changes = None
        if heads:
            rows = stored_rows(log, place, heads, dialect, known)
            few = stack.enter_context(engine.temporary(rows))
            changes = stack.enter_context(engine.temporary(head_changes(few, model, windows)))
        whole = [Window(windows[0].start, windows[-1].end)]
        rows = stored_rows(log, place, whole, dialect, known)
        lost = group_losses(stored_losses(rows, changes, windows), ["key"])
        by_group = draws_by_group(counted, lost, slots, dialect)
        so_far = None
        if running:  # summed up once for both
            by_group = stack.enter_context(engine.temporary(by_group))
            so_far = engine.columns(draw_cells(running_draws(by_group, slots), groups))
        alone = by_group.mutate(until=by_group["slot"] + 1)
        parts = stack.enter_context(engine.temporary(stored_parts(rows, windows, dialect)))
        return FileDraws(
            engine.columns(draw_cells(alone, groups)),
            so_far,
            engine.columns(parts.drop("lost")),
            engine.columns(changed_parts(parts, changes, dialect)),
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
    groups, fraction, doubt = np.add.reduceat(table[4:], first, axis=1) if len(first) else table[4:]
    size, targeted, n, whole = table[:4, first]
    return DrawCells(size, targeted, n, whole, groups, fraction / UNITS, doubt / UNITS)


# -- the live log -----------------------------------------------------------------------------


def _known_rows(now: Snapshot, rows: ir.Table, keys: Sequence[str], groups: int) -> ir.Table:
    rows = rows.filter((rows["group"] >= 0) & (rows["group"] < groups))
    return rows.select(*keys, us=micros(rows["ts"], now.engine.dialect))


def _drawn(columns: Columns, mask: Mask, groups: int, model: VisitModel) -> GroupDraws:
    """The draws of a few rows, computed here: planning the query would take longer."""
    group, us = columns["group"][mask].astype(np.int64), columns["us"][mask].astype(np.int64)
    order = np.lexsort((us, group))
    return group_draws(groups, group[order], us[order], model)


class _LiveDraws:
    """The draws of some rows of the live log by keys and slot; the last key is the group."""

    def __init__(
        self,
        now: Snapshot,
        rows: ir.Table,
        keys: Sequence[str],
        groups: int,
        slots: Sequence[Window],
        model: VisitModel,
    ) -> None:
        self._groups, self._model = groups, model
        rows = _known_rows(now, rows, keys, groups)
        self._counts = now.columns(group_counts(rows, slots, keys))
        self._parts = now.columns(part_counts(rows, slots, keys[:-1]))
        with now.temporary(losses(near_rows(rows, keys, model), keys, model, slots)) as lost:
            self._lost = now.columns(group_losses(lost, keys))
            self._lost_parts = now.columns(part_losses(lost, keys[:-1]))

    def by_group(
        self, chosen: Callable[[Columns], Mask], *, running: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Draws and doubt of the chosen rows."""
        which = "running_" if running else ""
        counts, lost = _where(self._counts, chosen(self._counts)), self._lost
        lost = _where(lost, chosen(lost))
        group, of_lost = (one["group"].astype(np.int64) for one in (counts, lost))
        draws = sum_by(group, counts["n"].astype(np.float64), self._groups)
        draws -= sum_by(of_lost, lost[f"{which}lost"].astype(np.float64), self._groups) / UNITS
        doubt = sum_by(of_lost, lost[f"{which}doubt"].astype(np.float64), self._groups)
        return draws, doubt / UNITS

    def parts(self, chosen: Callable[[Columns], Mask], *, running: bool = False) -> _Parts:
        """Draws by part of the day of the chosen rows."""
        return _Parts.of(self._parts, self._lost_parts, chosen, running)

    def draws(self, chosen: Callable[[Columns], Mask] = _all) -> GroupDraws:
        """All of the chosen rows, each slot alone."""
        parts = self.parts(chosen)
        return GroupDraws(self._model, *self.by_group(chosen), parts.days, parts.hours)


@traced("count visits")
def window_draws(
    now: Snapshot, place: Place, groups: int, window: Window, model: VisitModel, count: int
) -> GroupDraws:
    """The draws of one window by group; it has at most `count` rows."""
    rows = counted_rows(now.table(window), place, window)
    if count <= FEW_ROWS:
        columns = now.columns(_known_rows(now, rows, ["group"], groups))
        return _drawn(columns, np.ones(len(columns["us"]), dtype=bool), groups, model)
    return _LiveDraws(now, rows, ["group"], groups, [window], model).draws()


@traced("count visits")
def period_draws(
    now: Snapshot, place: Place, groups: int, periods: Sequence[Window], model: VisitModel
) -> Iterator[tuple[GroupDraws, GroupDraws]]:
    """Each period that follows the one before, alone and with all before it.

    Rows shortly before a block of periods are read again: its first rows may continue them.
    """
    at_once = max(min(_MAX_CELLS // max(groups, 1), _PERIODS_AT_ONCE), 1)
    draws, doubt, so_far = np.zeros(groups), np.zeros(groups), None
    reach_back = timedelta(seconds=model.gap_edges_seconds[-1])
    for low in range(0, len(periods), at_once):
        block, lookback = list(periods[low : low + at_once]), 0
        start, first = block[0].start, periods[0].start
        if low and start is not None and first is not None:
            block.insert(0, Window(max(first, start - reach_back), start))
            lookback = 1
        stretch = Window(block[0].start, block[-1].end)
        rows = counted_rows(now.table(stretch), place, stretch)
        found = _LiveDraws(now, rows, ["group"], groups, block, model)
        for at in range(lookback, len(block)):

            def chosen(columns: Columns, at: int = at) -> Mask:
                mask: Mask = columns["slot"].astype(np.int64) == at
                return mask

            more, more_doubt = found.by_group(chosen, running=True)
            draws, doubt = draws + more, doubt + more_doubt
            mine = found.parts(chosen, running=True)
            so_far = mine if so_far is None else so_far.joined(mine)
            yield (
                found.draws(chosen),
                GroupDraws(model, draws, doubt, so_far.days, so_far.hours),
            )


def place_draws(
    now: Snapshot, places: Sequence[Place], groups: int, model: VisitModel, count: int
) -> Iterator[tuple[Place, GroupDraws]]:
    """All so far of several campaigns on one catalogue; they have at most `count` rows."""
    rows, keys = campaign_rows(now.table(), places), ["campaign", "group"]
    found, columns = None, None
    if count <= FEW_ROWS:
        columns = now.columns(_known_rows(now, rows, keys, groups))
    else:
        found = _LiveDraws(now, rows, keys, groups, [_EVER], model)
    for place in places:

        def chosen(columns: Columns, campaign: int = int(place.campaign or 0)) -> Mask:
            mask: Mask = columns["campaign"].astype(np.int64) == campaign
            return mask

        if columns is not None:
            yield place, _drawn(columns, chosen(columns), groups, model)
        elif found is not None:
            yield place, found.draws(chosen)
