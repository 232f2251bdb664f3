"""Reach by segment of a log, where groups were formed along it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kreach.adsystem.log.engine import Source, source_name
from kreach.adsystem.log.impression_log import ImpressionLog
from kreach.adsystem.log.parts import LogPart, PartsRead, read_parts
from kreach.adsystem.log.tables import GroupTable, require
from kreach.adsystem.measurement.exposure import Exposure
from kreach.adsystem.measurement.report import ReachReport
from kreach.adsystem.measurement.segment_exposures import counted_segment, timed_segment
from kreach.adsystem.measurement.timed_parts import TimedParts
from kreach.adsystem.reports.combined import set_report
from kreach.adsystem.reports.combined_report import SegmentDocument, SegmentReport
from kreach.adsystem.reports.measure import measure_exposure, model_info
from kreach.adsystem.reports.window import RELEASED, as_caps, groups_with_model
from kreach.boundary.times import Window, iso_optional
from kreach.boundary.visit_model import VisitModel
from kreach.display.objects import HasDocument
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BySegment", "measure_segments"]

_MAX_SEGMENTS = 1_000
_ALL = (0,)  # the one part


@dataclass(frozen=True, eq=False, repr=False)
class BySegment(HasDocument):
    """Reports of segments at several caps; at each cap they add up to that of the whole.

    >>> import kreach as kr
    >>> rows = {"campaign": ["s"] * 3, "group": ["a", "a", "b"], "ts": ["2026-11-01"] * 3}
    >>> with kr.EmbeddedEngine() as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a", "b"], "size": [4, 5]})
    ...     log = kr.ImpressionLog.open(engine, rows)
    ...     segments = {"group": ["a", "b"], "segment": ["at", "ch"]}
    ...     found = kr.measure_segments(log, groups, [1], segments=segments)
    >>> {name: round(reports[0].reach, 2) for name, reports in found.segments.items()}
    {'at': 1.75, 'ch': 1.0}
    >>> round(found.whole[0].reach, 2)
    2.75
    """

    campaign: str | None
    window: Window
    catalogue: str | None
    read: PartsRead
    whole: tuple[ReachReport, ...]
    segments: dict[str, tuple[ReachReport, ...]]
    groups_of: dict[str, IntArray]

    def document(self, level: float = 0.95) -> SegmentDocument:
        """The report as a struct, as `kreach measure --by segment` prints it."""
        first = self.whole[0]
        return SegmentDocument(
            campaign=self.campaign,
            start=iso_optional(self.window.start),
            end=iso_optional(self.window.end),
            catalogue=self.catalogue,
            impressions=first.impressions,
            rejected=dict(self.read.rejected),
            people=first.targeted_user_count,
            basis=first.basis,
            model=model_info(first.exposure),
            reports=tuple(set_report(report, level) for report in self.whole),
            segments=tuple(
                SegmentReport(
                    segment=name,
                    people=reports[0].targeted_user_count,
                    groups=len(self.groups_of[name]),
                    impressions=reports[0].impressions,
                    reports=tuple(set_report(report, level) for report in reports),
                )
                for name, reports in self.segments.items()
            ),
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Reach of each segment at the first cap, with intervals."""
        return self.document().plot(ax)

    def __repr__(self) -> str:
        reach = {name: round(reports[0].reach, 1) for name, reports in self.segments.items()}
        return f"BySegment({self.campaign or 'all campaigns'}; cap={self.whole[0].cap}, {reach})"


def measure_segments(
    log: ImpressionLog,
    groups: GroupTable,
    caps: Iterable[int],
    *,
    segments: Source,
    campaign: str | None = None,
    start: object = None,
    end: object = None,
    model: VisitModel | str | None = RELEASED,
) -> BySegment:
    """Reach in each segment of a window, where every group lies in one segment.

    `segments` has a row per group: `group` and `segment`. A group that mixes segments (null, or two
    rows) is refused: its impressions cannot be told apart. `kreach groups segments` writes it.

    >>> import kreach as kr
    >>> rows = {"campaign": ["s"], "group": ["a"], "ts": ["2026-11-01"]}
    >>> with kr.EmbeddedEngine() as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a"], "size": [4]})
    ...     log = kr.ImpressionLog.open(engine, rows)
    ...     segments = {"group": ["a"], "segment": ["x"]}
    ...     found = kr.measure_segments(log, groups, [1], segments=segments)
    >>> list(found.segments)
    ['x']
    """
    window, asked = Window.between(start, end), as_caps(caps)
    groups = groups_with_model(groups, model)
    if groups.members is not None:
        rule = "share no members, for reach by segment"
        raise KreachError.rule("groups", rule, "overlapping groups")
    read = read_parts(log.engine, log.table, groups, [LogPart("whole", campaign, window)])
    groups_of = _groups_by_segment(log, segments, read.groups)
    whole = read.parts.together(_ALL)
    return BySegment(
        campaign,
        window,
        groups.version,
        read,
        measure_exposure(whole, read.impressions[0], read.parts.people, asked),
        {name: _reports(read, mine, asked) for name, mine in groups_of.items()},
        groups_of,
    )


def _reports(read: PartsRead, groups: IntArray, caps: tuple[int, ...]) -> tuple[ReachReport, ...]:
    exposure: Exposure
    if isinstance(read.parts, TimedParts):
        exposure = timed_segment(read.parts, groups)
    else:
        exposure = counted_segment(read.audience, read.by_part[0], groups)
    people = round(float(exposure.people.sum()))
    return measure_exposure(exposure, int(read.by_part[0][groups].sum()), people, caps)


def _groups_by_segment(
    log: ImpressionLog, segments: Source, names: tuple[str, ...]
) -> dict[str, IntArray]:
    """Numbers of the groups of each segment, segments in the order of their names."""
    table = log.engine.read("segments", segments)
    require("segments", table, source_name(segments), ("group", "segment"))
    columns = log.engine.columns(
        table.select(group=table["group"].cast("string"), segment=table["segment"].cast("string"))
    )
    of_group: dict[str, str] = {}
    mixed = set()
    for group, segment in zip(columns["group"].tolist(), columns["segment"].tolist(), strict=True):
        known = isinstance(segment, str)
        if not known or of_group.setdefault(str(group), segment) != segment:
            mixed.add(str(group))
    wrong = [name for name in names if name in mixed]
    if wrong:
        rule = "have one segment for every group: groups must be formed along it"
        raise KreachError.rule(
            "segments", rule, f"{len(wrong)} groups that mix, such as {wrong[0]}"
        )
    missing = [name for name in names if name not in of_group]
    if missing:
        rule = "have a row for every group"
        raise KreachError.rule("segments", rule, f"none for {len(missing)}, such as {missing[0]}")
    result: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        result.setdefault(of_group[name], []).append(number)
    if len(result) > _MAX_SEGMENTS:
        raise KreachError.rule("segments", f"be at most {_MAX_SEGMENTS}", len(result))
    return {name: np.array(result[name], dtype=np.int64) for name in sorted(result)}
