"""Counts impressions of a place in windows of a log, by group. Every report starts here.

The counts are

    WindowCounts   from a log in files: an exposure per window, folded inside the engine, so that
                   only a histogram over kinds of group leaves it (`count_files`)
    GroupCounts    from the live log: a count per group (`count_window`, `count_periods`)

and both end as the same exposures, hence the same reports. The queries are in `queries.py`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import ibis.expr.types as ir
import numpy as np

from kreach.adsystem.log.copies import search_copies
from kreach.adsystem.log.draw_queries import group_key
from kreach.adsystem.log.draws import FileDraws, file_draws, stored_draws
from kreach.adsystem.log.engine import Columns, Engine
from kreach.adsystem.log.exposures import exposure_of
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.queries import (
    KNOWN,
    NO_GROUP,
    UNKNOWN,
    counts,
    edges,
    group_counts,
    histogram,
    place_totals,
    rows_before,
    with_running,
)
from kreach.adsystem.log.share_queries import DIALECTS, keyed_groups, stored_counts
from kreach.adsystem.log.snapshot import Snapshot
from kreach.adsystem.log.stored_shares import slot_heads
from kreach.adsystem.log.tables import GroupTable, LogTable
from kreach.adsystem.measurement.drawn import DrawnExposure
from kreach.adsystem.measurement.exposure import Exposure
from kreach.boundary.times import (
    DAY_SECONDS,
    MONDAY_SECONDS,
    PERIOD_LENGTH,
    Window,
    from_seconds,
    start_of_period,
)
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.service.tracing import traced

__all__ = [
    "GroupCounts",
    "PlaceTotal",
    "WindowCounts",
    "closed_window",
    "count_files",
    "count_periods",
    "count_places",
    "count_window",
    "first_and_last",
    "holds_draws",
]

_MAX_CELLS = 4_000_000  # periods times groups that are counted at once
_PERIODS_AT_ONCE = 48
_UNSERVED = ("size", "targeted", "groups")


@dataclass(frozen=True)
class WindowCounts:
    """One window of a log in files: the exposure, and the rows that could not count."""

    exposure: Exposure
    impressions: int
    no_group: int
    unknown_group: int
    duplicates: int  # in the windows up to this one


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """One window of the live log: impressions by group of the catalogue, and rows and spend.

    `rows` also counts rows of groups that the catalogue does not have: they are no impressions,
    and cost money all the same.
    """

    by_group: IntArray
    rows: int
    spend_micros: int
    known_spend_micros: int  # of groups that the catalogue has
    early_rows: int  # from before the catalogue was created
    other_rows: int  # of the campaign on other catalogues


@dataclass(frozen=True)
class PlaceTotal:
    """Rows of a campaign on a catalogue, what they cost, and the second of the first."""

    rows: int = 0
    spend_micros: int = 0
    first_seconds: int = 2**62

    def __add__(self, other: "PlaceTotal") -> "PlaceTotal":
        return PlaceTotal(
            self.rows + other.rows,
            self.spend_micros + other.spend_micros,
            min(self.first_seconds, other.first_seconds),
        )


# -- logs in files ----------------------------------------------------------------------------


def count_files(
    engine: Engine,
    log: LogTable,
    groups: GroupTable,
    place: Place,
    windows: list[Window],
    *,
    running: bool = False,
) -> list[WindowCounts]:
    """Count each window and, if `running`, each window with all before it, in that order.

    Windows follow each other without gaps. With a model of the groups' visits, impressions count
    as effective draws: as the log holds them, if it does for this place and model.
    """
    if log.counted_seconds is not None:
        _check_counted(log.counted_seconds, groups, windows)
    if groups.model is not None and holds_draws(engine, log, groups, place, windows):
        assert log.shares is not None
        copies = log.shares.copies if log.may_repeat else 0
        with (
            engine.temporary(keyed_groups(groups, engine.dialect)) as keyed,
            engine.temporary(stored_counts(log, place, windows, copies)) as stored,
        ):
            groups = replace(groups, rows=keyed)
            return _drawn_files(
                engine, log, groups, place, windows, stored, stored_draws, running=running
            )
    rows = rows_before(log, place, windows[-1].end)
    with ExitStack() as stack:
        keyed = groups.members is None  # sums over classes follow the names of groups
        searched = stack.enter_context(search_copies(engine, log, rows, keyed=keyed))
        if searched.has_group_keys:
            key = group_key(groups.rows["group"], engine.dialect).cast("string")
            table = stack.enter_context(engine.temporary(groups.rows.mutate(group=key)))
            groups = replace(groups, rows=table)
        if searched is not log:
            place = Place()  # it has no other rows
        return _searched_files(engine, searched, groups, place, windows, running=running)


def _searched_files(
    engine: Engine,
    log: LogTable,
    groups: GroupTable,
    place: Place,
    windows: list[Window],
    *,
    running: bool,
) -> list[WindowCounts]:
    counted, slots = counts(log, place, windows), len(windows)
    if groups.model is not None:
        with engine.temporary(counted) as stored:
            return _drawn_files(
                engine, log, groups, place, windows, stored, file_draws, running=running
            )
    if running:
        counted, slots = with_running(counted, slots), 2 * slots
    if groups.members is not None:
        counted = engine.materialize(counted)
    result = []
    for at, (cells, number) in enumerate(_histograms(engine, counted, groups, slots)):
        known = cells["status"].astype(np.int64) == KNOWN
        served = {name: values[known] for name, values in cells.items()}
        exposure = exposure_of(engine, counted, groups, f"n{at}", served, number[known])
        result.append(_window_counts(cells, number, exposure))
    return result


def _check_counted(seconds: int, groups: GroupTable, windows: list[Window]) -> None:
    """Counts hold no times: refuse a model that needs them, and windows that cut a period."""
    if groups.model is not None:
        raise KreachError.rule("model", "be none for a report on counts", "a visit model")
    for edge in (moment for window in windows for moment in (window.start, window.end)):
        if edge is not None and (edge.timestamp() % seconds or edge.microsecond):
            unit = "day" if seconds == DAY_SECONDS else "hour"
            rule = f"begin and end at a whole {unit}, as the counts do"
            raise KreachError.rule("window", rule, edge.isoformat())


def holds_draws(
    engine: Engine, log: LogTable, groups: GroupTable, place: Place, windows: list[Window]
) -> bool:
    """Whether the draws of windows are sums of shares that the log holds, for the very model."""
    model, shares = groups.model, log.shares
    return (
        model is not None
        and shares is not None
        and engine.dialect in DIALECTS
        and shares.fit(model, place.campaign, place.catalogue, log.may_repeat)
        and slot_heads(windows, model) is not None
    )


def _drawn_files(
    engine: Engine,
    log: LogTable,
    groups: GroupTable,
    place: Place,
    windows: list[Window],
    counted: ir.Table,
    draws: Callable[..., FileDraws],
    *,
    running: bool,
) -> list[WindowCounts]:
    """The same with a visit model: `counted` are the impressions by group of each window."""
    assert groups.model is not None
    slots = len(windows)
    every = with_running(counted, slots) if running else counted
    cells = list(_histograms(engine, every, groups, 2 * slots if running else slots))
    known = [one["status"].astype(np.int64) == KNOWN for one, _ in cells]
    strange = sum(number[~mine].sum() for (_, number), mine in zip(cells, known, strict=True))
    drawn = draws(
        engine, log, groups, place, windows, counted, all_known=not strange, running=running
    )
    result = []
    for at, ((one, number), mine) in enumerate(zip(cells, known, strict=True)):
        none = {name: one[name][mine & (number == 0)] for name in _UNSERVED}
        window = drawn.window(at % slots, none, running=at >= slots)
        result.append(_window_counts(one, number, DrawnExposure(window, groups.model)))
    return result


def _histograms(
    engine: Engine, counted: ir.Table, groups: GroupTable, slots: int
) -> Iterator[tuple[Columns, IntArray]]:
    """The histogram of each slot, and the impressions of its rows."""
    columns = engine.columns(histogram(counted, groups, slots))
    impressions, slot = np.divmod(columns["code"].astype(np.int64), slots)
    for at in range(slots):
        here = slot == at
        yield {name: values[here] for name, values in columns.items()}, impressions[here]


def _window_counts(cells: Columns, impressions: IntArray, exposure: Exposure) -> WindowCounts:
    status = cells["status"].astype(np.int64)
    rows = impressions * cells["groups"].astype(np.int64)
    return WindowCounts(
        exposure,
        impressions=int(rows[status == KNOWN].sum()),
        no_group=int(rows[status == NO_GROUP].sum()),
        unknown_group=int(rows[status == UNKNOWN].sum()),
        duplicates=int(cells["copies"].astype(np.int64).sum()),
    )


def first_and_last(
    engine: Engine, log: LogTable, place: Place, window: Window
) -> tuple[datetime, datetime] | None:
    """The hours of the first and last impression in a window; None without any."""
    return _hours(engine.row(edges(log, place, window)))


def _hours(row: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    if row["first"] is None or row["first"] != row["first"]:
        return None
    return from_seconds(int(row["first"])), from_seconds(int(row["last"]))


def count_places(
    engine: Engine,
    log: LogTable,
    window: Window,
    starts: Mapping[str, datetime] | None = None,
) -> dict[Place, PlaceTotal]:
    """Rows and spend of every place; with `starts` from each campaign's own time on."""
    joined = None
    if starts is not None:
        times = [moment.isoformat() for moment in starts.values()]
        table = engine.read("flights", {"flight": list(starts), "begins": times})
        joined = table.select("flight", begins=table["begins"].cast("timestamp('UTC')"))
    return place_totals_from(engine.columns(place_totals(log, window, joined)))


def place_totals_from(columns: Columns) -> dict[Place, PlaceTotal]:
    """The rows of a `place_totals` query."""
    names = ("campaign", "catalogue", "n", "spend", "first")
    rows = zip(*(columns[name].tolist() for name in names), strict=True)
    return {
        Place(campaign, catalogue): PlaceTotal(int(n), int(spend), int(first))
        for campaign, catalogue, n, spend, first in rows
    }


# -- the live log -----------------------------------------------------------------------------


@traced("count impressions")
def count_window(
    now: Snapshot,
    place: Place,
    groups: int,
    window: Window,
    *,
    created: datetime | None = None,
    max_price_micros: int | None = None,
) -> GroupCounts:
    """Count one window. A price above `max_price_micros` counts as that much."""
    query = group_counts(
        now.table(window), place, window, created=created, max_price_micros=max_price_micros
    )
    return _group_counts(now.columns(query), groups)


def _group_counts(columns: Columns, groups: int) -> GroupCounts:
    ours = columns["ours"].astype(bool)
    group, n = columns["group"][ours].astype(np.int64), columns["n"][ours]
    spend = columns["spend"][ours]
    known = (group >= 0) & (group < groups)
    by_group = np.zeros(groups, dtype=np.int64)
    by_group[group[known]] = n[known]
    return GroupCounts(
        by_group,
        int(n.sum()),
        int(spend.sum()),
        int(spend[known].sum()),
        int(columns["early"][ours].sum()),
        int(columns["n"][~ours].sum()),
    )


@traced("count impressions")
def count_periods(
    now: Snapshot, place: Place, groups: int, periods: Sequence[Window], by: str
) -> Iterator[GroupCounts]:
    """Count hours, days or weeks that follow each other; those at the ends may be cut off."""
    length = int(PERIOD_LENGTH[by].total_seconds())
    at_once = max(min(_MAX_CELLS // max(groups, 1), _PERIODS_AT_ONCE), 1)
    for low in range(0, len(periods), at_once):
        block = periods[low : low + at_once]
        stretch = Window(block[0].start, block[-1].end)
        columns = now.columns(group_counts(now.table(stretch), place, stretch, by_seconds=length))
        slot = columns["slot"].astype(np.int64)
        for period in block:
            here = slot == _slot(period, by, length)
            yield _group_counts({name: column[here] for name, column in columns.items()}, groups)


def _slot(period: Window, by: str, length: int) -> int:
    assert period.start is not None
    first = int(start_of_period(period.start, by).timestamp())
    return (first + MONDAY_SECONDS) // length


def closed_window(now: Snapshot, place: Place, window: Window, by: str) -> Window | None:
    """The window with open ends closed around its impressions; None if it has none."""
    if window.start is not None and window.end is not None:
        return window
    columns = now.columns(edges(now.table(window), place, window))
    hours = _hours({name: values.tolist()[0] for name, values in columns.items()})
    return None if hours is None else window.holding(*hours, by)


def check_period_count(periods: Sequence[object], by: str, maximum: int) -> None:
    """Refuse a series of too many periods."""
    if len(periods) > maximum:
        rule = f"hold at most {maximum} periods"
        raise KreachError.rule("window", rule, f"{len(periods)} by {by}")
