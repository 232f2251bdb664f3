"""From the histograms of an engine to exposures: the only place where Python touches counts."""

from dataclasses import dataclass

import ibis.expr.types as ir
import numpy as np

from kreach.adsystem.log.engine import Columns, Engine
from kreach.adsystem.log.overlap_queries import (
    class_histogram,
    class_totals,
    pair_histogram,
    served_members,
)
from kreach.adsystem.log.queries import (
    KNOWN,
    NO_GROUP,
    UNKNOWN,
    Scope,
    counts,
    histogram,
    with_running,
)
from kreach.adsystem.log.tables import GroupTable, LogTable
from kreach.adsystem.measurement.disjoint import Cells, DisjointExposure
from kreach.adsystem.measurement.exposure import Exposure
from kreach.adsystem.measurement.overlapping import OverlappingExposure
from kreach.adsystem.measurement.profiled import ProfiledExposure
from kreach.adsystem.measurement.tallied import ClassTallies, TalliedExposure
from kreach.boundary.audience import Audience
from kreach.boundary.times import Window
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["Fold", "fold"]

_MAX_MEMBERSHIPS = 50_000  # up to here overlapping classes are looked at one by one


@dataclass(frozen=True)
class Fold:
    """One window, folded: what a report is made from, and the rows that could not count."""

    exposure: Exposure
    impressions: int
    no_group: int
    unknown_group: int
    copies: int  # in the slots up to the last


def fold(
    engine: Engine,
    log: LogTable,
    groups: GroupTable,
    scope: Scope,
    slots: list[Window],
    *,
    running: bool = False,
) -> list[Fold]:
    """A fold for each slot and, if `running`, for each slot with all before it, in that order."""
    counted = counts(log, scope, slots)
    numbers = len(slots)
    if running:
        counted, numbers = with_running(counted, numbers), 2 * numbers
    if groups.members is not None:
        counted = engine.keep(counted)
    columns = engine.columns(histogram(counted, groups, numbers))
    impressions, slot = np.divmod(columns["code"].astype(np.int64), numbers)
    result = []
    for at in range(numbers):
        here = {name: values[slot == at] for name, values in columns.items()}
        result.append(_fold(engine, counted, groups, f"n{at}", here, impressions[slot == at]))
    return result


def _fold(
    engine: Engine,
    counted: ir.Table,
    groups: GroupTable,
    slot: str,
    cells: Columns,
    impressions: IntArray,
) -> Fold:
    status = cells["status"].astype(np.int64)
    rows = impressions * cells["groups"].astype(np.int64)
    known = status == KNOWN
    mine = {name: values[known] for name, values in cells.items()}
    if groups.members is not None:
        exposure = _overlapping(engine, counted, groups, slot, mine, impressions[known])
    else:
        exposure = _disjoint(groups, mine, impressions[known])
    return Fold(
        exposure,
        int(rows[known].sum()),
        int(rows[status == NO_GROUP].sum()),
        int(rows[status == UNKNOWN].sum()),
        int(cells["copies"].astype(np.int64).sum()),
    )


def _disjoint(groups: GroupTable, cells: Columns, impressions: IntArray) -> Exposure:
    if groups.kind == ("visit_shares",):
        profiles = cells["visit_shares"]
        told = [(tuple(shares), n) for shares, n in zip(profiles, impressions, strict=True)]
        order = sorted(range(len(told)), key=told.__getitem__)  # engines answer in any order
        audience = Audience.profiled(profiles[order])
        return ProfiledExposure(
            audience, impressions[order], cells["groups"][order].astype(np.int64)
        )
    return DisjointExposure(_cells(cells, impressions))


def _cells(cells: Columns, impressions: IntArray) -> Cells:
    """In a fixed order, so that every engine's report is the same to the last digit."""
    size = cells["size"].astype(np.float64)
    dispersion = cells.get("dispersion", np.full(len(size), np.inf)).astype(np.float64)
    targeted, number = cells["targeted"].astype(np.float64), impressions.astype(np.float64)
    order = np.lexsort((number, dispersion, targeted, size))
    order = order[targeted[order] > 0.0]
    columns = (size, targeted, dispersion, number, cells["groups"].astype(np.float64))
    return Cells(*(column[order] for column in columns))


def _overlapping(
    engine: Engine,
    counted: ir.Table,
    groups: GroupTable,
    slot: str,
    cells: Columns,
    impressions: IntArray,
) -> Exposure:
    if not groups.sizes:  # no class, so nobody is targeted
        nobody = Cells(*(np.zeros(0) for _ in range(5)))
        return DisjointExposure(nobody)
    members = engine.keep(served_members(counted, groups, slot))
    if groups.memberships <= _MAX_MEMBERSHIPS:
        return _class_by_class(engine.columns(members))
    totals = engine.keep(class_totals(members, groups.sizes))
    classes = engine.columns(class_histogram(totals, groups.sizes))
    pairs = engine.columns(pair_histogram(members, totals, groups.sizes))
    width = range(len(groups.sizes))
    (trials,), (people, in_class) = _in_order(classes, "t", width, ("people", "pairs"))
    (shared, first, second), (weights,) = _in_order(pairs, "bfs", width, ("people",))
    return TalliedExposure(
        ClassTallies(
            np.array(groups.sizes, dtype=np.float64),
            trials,
            people,
            in_class,
            shared,
            first,
            second,
            weights,
            _cells(cells, impressions),
            int(classes["groups"].max(initial=1)),
        )
    )


def _class_by_class(members: Columns) -> Exposure:
    """Few classes: the library's own report, with sharp bounds and a simulated law."""
    names, group = np.unique(members["group"].astype(str), return_inverse=True)
    sizes = np.zeros(len(names), dtype=np.int64)
    sizes[group] = members["size"].astype(np.int64)
    impressions = np.zeros(len(names), dtype=np.int64)
    impressions[group] = members["n"].astype(np.int64)
    of_class: dict[str, tuple[list[int], int]] = {}
    rows = zip(members["class"], group.tolist(), members["headcount"], strict=True)
    for key, at, headcount in rows:
        of_class.setdefault(str(key), ([], int(headcount)))[0].append(at)
    classes = sorted((tuple(sorted(held)), heads) for held, heads in of_class.values())
    return OverlappingExposure(Audience.overlapping(sizes, classes), impressions)


def _in_order(
    columns: Columns, letters: str, width: range, numbers: tuple[str, ...]
) -> tuple[list[IntArray], list[FloatArray]]:
    """The tables t0, t1, ... of each letter and the further columns, rows in a fixed order."""
    tables = [
        np.stack([columns[f"{letter}{at}"].astype(np.int64) for at in width], axis=1)
        for letter in letters
    ]
    order = np.lexsort(np.concatenate(tables, axis=1).T[::-1])
    further = [columns[name].astype(np.float64)[order] for name in numbers]
    return [table[order] for table in tables], further
