"""Parts of a log in files, read in one scan: what `measurement.combination` needs.

Impressions by part and group leave the engine and, with a visit model, the rows with their times:
every set of parts pools other rows, so none can be folded in advance.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kreach.adsystem.log.copies import search_copies
from kreach.adsystem.log.engine import Columns, Engine
from kreach.adsystem.log.part_queries import (
    LogPart,
    candidate_rows,
    identifying_columns,
    numbered_groups,
    part_counts,
    part_rows,
    part_times,
    repeated_rows,
)
from kreach.adsystem.log.tables import GroupTable, LogTable
from kreach.adsystem.measurement.combination import CountedParts, Parts
from kreach.adsystem.measurement.timed_parts import TimedParts, TimedRows
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.times import Window
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = ["LogPart", "PartsRead", "read_parts", "refuse_shared_rows"]

_NOT_KNOWN, _NO_GROUP = -1, -2
_MAX_TIMED_ROWS = 200_000_000


@dataclass(frozen=True, eq=False)
class PartsRead:
    """Parts of a log, and rows of them that could not count."""

    parts: Parts
    impressions: tuple[int, ...]  # of each part
    rejected: dict[str, int]
    audience: Audience
    groups: tuple[str, ...]  # the audience's, by id
    by_part: tuple[IntArray, ...]  # impressions by group


def read_parts(
    engine: Engine, log: LogTable, groups: GroupTable, parts: Sequence[LogPart]
) -> PartsRead:
    """Count the parts by group, or with a visit model fetch their rows."""
    refuse_shared_rows(parts)
    if log.counted_seconds is not None:
        raise KreachError.rule("impressions", "be rows, not counts, for this report", "counts")
    table, version, copies = numbered_groups(groups), groups.version, 0
    with (
        engine.temporary(table) as numbered,
        search_copies(
            engine, log, candidate_rows(log, parts, version), identifying_columns(parts)
        ) as searched,
        engine.temporary(part_rows(searched, parts, version)) as rows,
    ):
        columns = engine.columns(numbered.order_by("number"))
        audience = _audience(engine, columns, groups)
        counted = engine.columns(part_counts(rows, numbered))
        number, part = counted["number"].astype(np.int64), counted["part"].astype(np.int64)
        n = counted["n"].astype(np.int64)
        by_part = _by_part(part, number, n, len(parts), audience.group_count)
        names = [each.name for each in parts]
        found: Parts = CountedParts(audience, dict(zip(names, by_part, strict=True)))
        if groups.model is not None:
            assert isinstance(audience, DisjointAudience)
            _refuse_too_many(int(n[number >= 0].sum()))
            timed = _timed(engine.columns(part_times(rows, numbered, engine.dialect)))
            found = TimedParts(audience, names, timed, groups.model)
        if searched.may_repeat:
            copies = int(engine.row(repeated_rows(searched, parts, version))["copies"] or 0)
    rejected = {
        "no_group": int(n[number == _NO_GROUP].sum()),
        "unknown_group": int(n[number == _NOT_KNOWN].sum()),
    }
    if log.may_repeat:
        rejected["duplicate"] = copies
    names_of = tuple(str(name) for name in columns["group"].tolist())
    impressions = tuple(int(each.sum()) for each in by_part)
    return PartsRead(found, impressions, rejected, audience, names_of, tuple(by_part))


def refuse_shared_rows(parts: Sequence[LogPart]) -> None:
    """An impression may be of one part only: pooled twice, it would count twice."""
    for at, one in enumerate(parts):
        for other in parts[:at]:
            both = one.campaign, other.campaign
            if (None in both or both[0] == both[1]) and _overlap(one.window, other.window):
                rule = "share no impression: same campaign, overlapping windows"
                raise KreachError.rule("parts", rule, f"{other.name} and {one.name}")


def _overlap(one: Window, other: Window) -> bool:
    apart = one.end is not None and other.start is not None and one.end <= other.start
    before = other.end is not None and one.start is not None and other.end <= one.start
    return not (apart or before)


def _by_part(
    part: IntArray, number: IntArray, n: IntArray, parts: int, groups: int
) -> list[IntArray]:
    result = []
    for at in range(parts):
        here = (part == at) & (number >= 0)
        counts = np.zeros(groups, dtype=np.int64)
        counts[number[here]] = n[here]
        result.append(counts)
    return result


def _timed(columns: Columns) -> TimedRows:
    group, at_us, part = (columns[name].astype(np.int64) for name in ("number", "us", "part"))
    return TimedRows.ordered(group, at_us, part)


def _refuse_too_many(rows: int) -> None:
    if rows > _MAX_TIMED_ROWS:
        rule = (
            f"hold at most {_MAX_TIMED_ROWS:,} impressions of the campaigns to combine with a "
            "visit model: ask for a shorter window, or for no model"
        )
        raise KreachError.rule("impressions", rule, f"{rows:,}")


def _audience(engine: Engine, columns: Columns, groups: GroupTable) -> Audience:
    """The groups of a table, in the order of their numbers."""
    if groups.members is not None:
        members = engine.columns(groups.members)
        at = {name: index for index, name in enumerate(columns["group"].tolist())}
        of_class: dict[str, tuple[list[int], int]] = {}
        rows = zip(members["class"], members["group"], members["headcount"], strict=True)
        for key, group, heads in rows:
            of_class.setdefault(str(key), ([], int(heads)))[0].append(at[group])
        classes = sorted((tuple(sorted(own)), heads) for own, heads in of_class.values())
        return Audience.overlapping(columns["size"].astype(np.int64), classes)
    if groups.kind == ("visit_shares",):
        return Audience.profiled(columns["visit_shares"])
    size, targeted = columns["size"].astype(np.int64), columns["targeted"].astype(np.int64)
    if "dispersion" not in columns:
        return Audience.disjoint(size, targeted)
    return Audience.disjoint(size, targeted, columns["dispersion"].astype(np.float64))
