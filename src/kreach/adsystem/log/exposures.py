"""Turns the histograms of a log in files into exposures."""

import ibis.expr.types as ir
import numpy as np

from kreach.adsystem.log.engine import Columns, Engine
from kreach.adsystem.log.overlap_queries import (
    class_histogram,
    class_totals,
    pair_histogram,
    served_members,
)
from kreach.adsystem.log.tables import GroupTable
from kreach.adsystem.measurement.disjoint import Cells, DisjointExposure
from kreach.adsystem.measurement.exposure import Exposure
from kreach.adsystem.measurement.overlapping import OverlappingExposure
from kreach.adsystem.measurement.profiled import ProfiledExposure
from kreach.adsystem.measurement.tallied import ClassTallies, TalliedExposure
from kreach.boundary.audience import Audience
from kreach.numeric.types import FloatArray, IntArray

__all__ = ["exposure_of"]

_MAX_MEMBERSHIPS = 50_000  # up to here overlapping classes are measured one by one


def exposure_of(
    engine: Engine,
    counted: ir.Table,
    groups: GroupTable,
    slot: str,
    cells: Columns,
    impressions: IntArray,
) -> Exposure:
    """The exposure of one slot: `cells` are the rows of its histogram, for known groups."""
    if groups.members is not None:
        return _overlapping(engine, counted, groups, slot, cells, impressions)
    return _disjoint(groups, cells, impressions)


def _disjoint(groups: GroupTable, cells: Columns, impressions: IntArray) -> Exposure:
    if groups.kind == ("visit_shares",):
        profiles = cells["visit_shares"]
        keys = [(tuple(shares), n) for shares, n in zip(profiles, impressions, strict=True)]
        order = sorted(range(len(keys)), key=keys.__getitem__)  # engines return rows in any order
        audience = Audience.profiled(profiles[order])
        return ProfiledExposure(
            audience, impressions[order], cells["groups"][order].astype(np.int64)
        )
    return DisjointExposure(_cells(cells, impressions))


def _cells(cells: Columns, impressions: IntArray) -> Cells:
    """Cells in a fixed order, so that all engines report the same last digit."""
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
    members = engine.materialize(served_members(counted, groups, slot))
    if groups.memberships <= _MAX_MEMBERSHIPS:
        return _class_by_class(engine.columns(members))
    totals = engine.materialize(class_totals(members, groups.sizes))
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
    classes = sorted((tuple(sorted(own)), heads) for own, heads in of_class.values())
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
