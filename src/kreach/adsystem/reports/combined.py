"""Campaigns or windows of a log together: union, overlap, what each adds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kreach.adsystem.log.impression_log import ImpressionLog
from kreach.adsystem.log.parts import LogPart, PartsRead, read_parts
from kreach.adsystem.log.tables import GroupTable
from kreach.adsystem.measurement.combination import MAX_PARTS, Combination, Parts
from kreach.adsystem.measurement.report import ReachReport
from kreach.adsystem.reports.combined_report import (
    CombinedDocument,
    CombinedReport,
    Increment,
    PartReport,
    SetReport,
)
from kreach.adsystem.reports.measure import cap_reports, measure_exposure, model_info
from kreach.adsystem.reports.window import RELEASED, as_caps, groups_with_model
from kreach.boundary.checks import as_probability
from kreach.boundary.times import Window, iso_optional
from kreach.boundary.visit_model import VisitModel
from kreach.display.objects import HasDocument
from kreach.errors import KreachError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CombinedReports", "combined_document", "measure_together", "set_report"]

_MAX_FREQUENCY = 10


@dataclass(frozen=True, eq=False, repr=False)
class CombinedReports(HasDocument):
    """Parts of a log together, at several caps, from one scan.

    >>> import kreach as kr
    >>> rows = {"campaign": ["s", "t"] * 2, "group": ["a"] * 4, "ts": ["2026-11-01"] * 4}
    >>> with kr.EmbeddedEngine() as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a"], "size": [4]})
    ...     log = kr.ImpressionLog.open(engine, rows)
    ...     both = kr.measure_together(log, groups, [1], campaigns=["s", "t"])
    >>> round(both.at(cap=1).union.reach, 3), round(both.at(cap=1).overlap.reach, 3)
    (2.734, 0.766)
    """

    listed: tuple[LogPart, ...]
    window: Window
    catalogue: str | None
    read: PartsRead
    caps: tuple[int, ...]

    def at(self, cap: int) -> Combination:
        """The combination at one of the caps."""
        if cap not in self.caps:
            raise KreachError.rule("cap", f"be one of {list(self.caps)}", cap)
        return Combination(self.read.parts, cap)

    def document(self, level: float = 0.95) -> CombinedDocument:
        """The report as a struct, as `kreach measure --json` prints it."""
        parts = self.read.parts
        return CombinedDocument(
            start=iso_optional(self.window.start),
            end=iso_optional(self.window.end),
            catalogue=self.catalogue,
            impressions=sum(self.read.impressions),
            rejected=dict(self.read.rejected),
            parts=tuple(
                PartReport(
                    name=part.name,
                    campaign=None if part.campaign is None else str(part.campaign),
                    start=iso_optional(part.window.start),
                    end=iso_optional(part.window.end),
                    impressions=self.read.impressions[at],
                    reports=cap_reports(
                        measure_exposure(
                            parts.together((at,)), parts.impressions((at,)), parts.people, self.caps
                        ),
                        level,
                    ),
                )
                for at, part in enumerate(self.listed)
            ),
            **combined_document(parts, self.caps, level),
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """For each part: whom only it reached, and whom another part reached as well."""
        return self.document().plot(ax)

    def __repr__(self) -> str:
        first = self.at(self.caps[0])
        return f"CombinedReports({first!r}, caps={list(self.caps)})"


def combined_document(parts: Parts, caps: Sequence[int], level: float) -> dict[str, Any]:
    """The fields of a document that the figures of all parts fill."""
    level = as_probability("level", level)
    found = [Combination(parts, cap) for cap in caps]
    reports = [_combined(each, level) for each in found]
    union = found[0].union.exposure
    matrix = found[0].overlap_matrix
    return {
        "people": parts.people,
        "basis": union.basis,
        "model": model_info(parts.together((0,))),
        "combined": reports[0],
        "more_caps": tuple(reports[1:]),
        "overlap_matrix": tuple(tuple(row) for row in matrix.tolist()),
    }


def _combined(found: Combination, level: float) -> CombinedReport:
    steps, so_far = [], 0.0
    for name, report in found.incremental().items():
        adds = set_report(report, level)
        so_far += adds.unique_reach
        steps.append(Increment(part=name, adds=adds, unique_reach_so_far=so_far))
    return CombinedReport(
        cap=found.cap,
        union=set_report(found.union, level),
        overlap=set_report(found.overlap, level),
        only={name: set_report(report, level) for name, report in found.only.items()},
        incremental=tuple(steps),
    )


def set_report(report: ReachReport, level: float) -> SetReport:
    """A report of the library as a struct, in short."""
    attained_low, attained_high = report.bounds_attained
    unique = report
    if report.cap != 1:
        unique = ReachReport(1, report.impressions, report.targeted_user_count, report.exposure)
    return SetReport(
        cap=report.cap,
        reach=report.reach,
        std=report.std,
        interval=report.interval(level, "normal"),
        level=level,
        bounds=(report.bounds.least, report.bounds.most),
        bounds_attained=(attained_low, attained_high),
        over_exposed=report.over_exposed,
        unique_reach=unique.reach,
        unique_reach_interval=unique.interval(level, "normal"),
        average_frequency=report.average_frequency,
        frequency=tuple(report.frequency(_MAX_FREQUENCY).tolist()),
        at_least=tuple(report.at_least(_MAX_FREQUENCY).tolist()),
    )


def measure_together(
    log: ImpressionLog,
    groups: GroupTable,
    caps: Iterable[int],
    *,
    campaigns: Sequence[str] | None = None,
    windows: Mapping[str, tuple[object, object]] | None = None,
    start: object = None,
    end: object = None,
    model: VisitModel | str | None = RELEASED,
) -> CombinedReports:
    """Reach of campaigns together, or of windows of time, at several caps from one scan.

    The parts are the `campaigns` in [start, end); or, with `windows`, windows by name (start and
    end of each) of the one campaign given, or of all rows without any: March and April together,
    who came back, who did not. Their order is that in which each adds to those before it.

    >>> import kreach as kr
    >>> rows = {"campaign": ["s"] * 2, "group": ["a"] * 2, "ts": ["2026-10-30", "2026-11-02"]}
    >>> months = {"october": (None, "2026-11-01"), "november": ("2026-11-01", None)}
    >>> with kr.EmbeddedEngine() as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a"], "size": [4]})
    ...     log = kr.ImpressionLog.open(engine, rows)
    ...     both = kr.measure_together(log, groups, [1], campaigns=["s"], windows=months)
    >>> round(both.at(cap=1).overlap.reach, 2)  # returning people
    0.25
    """
    window = Window.between(start, end)
    listed = _parts(campaigns, windows, window)
    groups = groups_with_model(groups, model)
    read = read_parts(log.engine, log.table, groups, listed)
    return CombinedReports(listed, window, groups.version, read, as_caps(caps))


def _parts(
    campaigns: Sequence[str] | None,
    windows: Mapping[str, tuple[object, object]] | None,
    window: Window,
) -> tuple[LogPart, ...]:
    named = tuple(dict.fromkeys(campaigns or ()))
    for campaign in named:
        if not isinstance(campaign, str) or not campaign:
            raise KreachError.rule("campaigns", "be text", campaign)
    if windows is None:
        if not 2 <= len(named) <= MAX_PARTS:
            rule = f"name 2 to {MAX_PARTS} different campaigns to combine"
            raise KreachError.rule("campaigns", rule, ", ".join(named) or "none")
        return tuple(LogPart(campaign, campaign, window) for campaign in named)
    if len(named) > 1:
        rule = "name one campaign at most, where windows are combined"
        raise KreachError.rule("campaigns", rule, ", ".join(named))
    if not 2 <= len(windows) <= MAX_PARTS:
        raise KreachError.rule("windows", f"name 2 to {MAX_PARTS} windows", len(windows))
    if window != Window():
        raise KreachError.rule("start and end", "be left out where windows are combined", window)
    one = named[0] if named else None
    return tuple(LogPart(name, one, Window.between(*ends)) for name, ends in windows.items())
