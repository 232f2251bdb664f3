"""Campaigns of the live log together: impressions by group, or rows with times."""

from collections.abc import Sequence

import numpy as np

from kreach.adsystem.log.instants import micros
from kreach.adsystem.log.part_queries import LogPart, part_rows
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.snapshot import Snapshot
from kreach.adsystem.measurement.combination import CountedParts, Parts
from kreach.adsystem.measurement.timed_parts import TimedParts, TimedRows
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.times import Window
from kreach.boundary.visit_model import VisitModel

__all__ = ["live_parts"]


def live_parts(
    now: Snapshot,
    places: dict[str, Place],
    audience: Audience,
    window: Window,
    model: VisitModel | None,
) -> Parts:
    """The campaigns by name, all on one catalogue, in a window."""
    names = list(places)
    parts = [LogPart(name, place.campaign, window) for name, place in places.items()]
    catalogue = next(iter(places.values())).catalogue
    rows = part_rows(now.table(window), parts, catalogue)
    count = audience.group_count
    known = rows.filter((rows["group"] >= 0) & (rows["group"] < count))
    if model is not None and isinstance(audience, DisjointAudience):
        flat = known.select("part", "group", us=micros(known["ts"], now.engine.dialect))
        columns = now.columns(flat)
        group, at_us, part = (columns[n].astype(np.int64) for n in ("group", "us", "part"))
        return TimedParts(audience, names, TimedRows.ordered(group, at_us, part), model)
    columns = now.columns(known.group_by("part", "group").aggregate(n=known.count()))
    return CountedParts(audience, _by_name(names, columns, count))


def _by_name(
    names: Sequence[str], columns: dict[str, np.ndarray], count: int
) -> dict[str, np.ndarray]:
    part, group = columns["part"].astype(np.int64), columns["group"].astype(np.int64)
    result = {}
    for at, name in enumerate(names):
        here = part == at
        counts = np.zeros(count, dtype=np.int64)
        counts[group[here]] = columns["n"][here]
        result[name] = counts
    return result
