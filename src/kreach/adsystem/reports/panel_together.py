"""Campaigns together, corrected by a publisher's panel that counted them together.

The panel has a correction for each campaign and one for the set, as if it were a campaign
(`kreach panel --together`). The union is corrected by the latter. Of two campaigns `only` is the
union less the other one, both corrected; of more, whom one campaign alone reached keeps its share
of the union. What is left is the overlap, so the rows still add up to the union.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import structs

from kreach.adsystem.log.impression_log import ImpressionLog
from kreach.adsystem.log.tables import GroupTable
from kreach.adsystem.reports.combined import CombinedReports, measure_together
from kreach.adsystem.reports.combined_report import (
    CombinedDocument,
    CombinedReport,
    Increment,
    SetReport,
)
from kreach.adsystem.reports.corrected import CorrectedWindow
from kreach.adsystem.reports.measure import measure_exposure
from kreach.adsystem.reports.panel_window import WindowPanel
from kreach.adsystem.reports.report import CapReport
from kreach.adsystem.reports.window import WindowReport, measure_window
from kreach.boundary.correction import Correction, set_name
from kreach.errors import KreachError

__all__ = ["corrected_together"]


def corrected_together(
    log: ImpressionLog,
    groups: GroupTable,
    found: CombinedReports,
    corrections: Sequence[Correction],
    level: float = 0.95,
) -> CombinedDocument:
    """The document of several campaigns, each and their union corrected.

    >>> from datetime import UTC
    >>> import kreach as kr
    >>> from kreach.boundary.correction import PanelRelease
    >>> rows = {"campaign": ["s", "t"] * 20, "group": ["a"] * 40, "ts": ["2026-11-01"] * 40}
    >>> day = datetime(2026, 11, 2, tzinfo=UTC)
    >>> release = PanelRelease(day, (-3.0,), 1.0, (1.0,), (0.1,))  # three people fewer
    >>> panel = [
    ...     kr.Correction(name, "v1", "uniform", None, 2, 2, None, (release,))
    ...     for name in ("s", "t", "s + t")
    ... ]
    >>> with kr.EmbeddedEngine() as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a"], "size": [40]})
    ...     log = kr.ImpressionLog.open(engine, rows)
    ...     both = kr.measure_together(log, groups, [1], campaigns=["s", "t"])
    ...     document = kr.corrected_together(log, groups, both, panel)
    >>> round(both.at(cap=1).union.reach, 1), round(document.combined.union.reach, 1)
    (25.5, 22.5)
    """
    campaigns = [part.campaign for part in found.listed]
    if len(set(campaigns)) < len(campaigns) or None in campaigns:
        rule = "be left out where windows are combined: a panel follows whole campaigns"
        raise KreachError.rule("panel", rule, f"{len(campaigns)} windows")
    names = [str(campaign) for campaign in campaigns]
    document = found.document(level)
    alone = {name: _alone(log, groups, found, name, corrections, level) for name in names}
    union = _Union(log, groups, found, names, corrections).corrected(level)
    assert document.combined is not None
    reports = [
        _corrected(report, at, {name: each.reports[at] for name, each in alone.items()}, union)
        for at, report in enumerate((document.combined, *document.more_caps))
    ]
    return structs.replace(
        document,
        parts=tuple(
            structs.replace(part, reports=alone[part.name].reports) for part in document.parts
        ),
        combined=reports[0],
        more_caps=tuple(reports[1:]),
        overlap_matrix=_matrix(document, alone, union) if len(names) == 2 else (),
        correction=union.info,
    )


def _alone(
    log: ImpressionLog,
    groups: GroupTable,
    found: CombinedReports,
    name: str,
    corrections: Sequence[Correction],
    level: float,
) -> CorrectedWindow:
    start, end = found.window.start, found.window.end
    report = measure_window(
        log, groups, found.caps, campaign=name, start=start, end=end, model=groups.model
    )
    return WindowPanel(log, groups, report, corrections).corrected(level)


class _Union(WindowPanel):
    """Several campaigns as one, beside the panel's correction of them."""

    def __init__(
        self,
        log: ImpressionLog,
        groups: GroupTable,
        found: CombinedReports,
        names: Sequence[str],
        corrections: Sequence[Correction],
    ) -> None:
        self._names = list(names)
        name = set_name(names)
        if not any(each.campaign == name for each in corrections):
            rule = f"count these campaigns together (kreach panel --together {','.join(names)})"
            raise KreachError.rule("panel", rule, "no correction of the set")
        super().__init__(log, groups, _as_one(found, name), corrections)

    def measured(self, end: datetime, campaign: str | None = None) -> WindowReport:
        """What the model says of the set, or of another campaign, up to an instant."""
        if campaign is not None and campaign != self.report.campaign:
            return super().measured(end, campaign)
        found = measure_together(
            self.log, self.groups, [1], campaigns=self._names, end=end, model=self.groups.model
        )
        return _as_one(found, set_name(self._names))


def _as_one(found: CombinedReports, name: str) -> WindowReport:
    """The union as the report of a campaign."""
    parts, everything = found.read.parts, tuple(range(len(found.listed)))
    impressions = sum(found.read.impressions)
    reports = measure_exposure(parts.together(everything), impressions, parts.people, found.caps)
    return WindowReport(name, found.window, found.catalogue, impressions, {}, {}, reports)


def _corrected(
    report: CombinedReport, at: int, alone: Mapping[str, CapReport], union: CorrectedWindow
) -> CombinedReport:
    """One cap: the union as corrected, and every row of the partition scaled to add up to it."""
    whole = union.reports[at]
    people = _people(report, {name: each.unique_reach for name, each in alone.items()}, whole)
    rows = {name: _scaled(row, people[name]) for name, row in report.only.items()}
    overlap = _scaled(report.overlap, max(whole.unique_reach - sum(people.values()), 0.0))
    total = overlap.reach + sum(row.reach for row in rows.values())
    fit = whole.reach / total if total > 0.0 else 1.0
    if report.cap > 1:
        rows = {name: _fitted(row, fit) for name, row in rows.items()}
        overlap = _fitted(overlap, fit)
    so_far, steps = 0.0, []
    ratio = whole.unique_reach / max(report.union.unique_reach, 1e-12)
    for step in report.incremental:
        adds = _scaled(step.adds, step.adds.unique_reach * ratio)
        if len(alone) == 2:
            first = so_far == 0.0
            added = alone[step.part].unique_reach if first else whole.unique_reach - so_far
            adds = _scaled(step.adds, max(added, 0.0))
        so_far += adds.unique_reach
        steps.append(Increment(part=step.part, adds=adds, unique_reach_so_far=so_far))
    return CombinedReport(
        cap=report.cap,
        union=_as_set(report.union, whole),
        overlap=overlap,
        only=rows,
        incremental=tuple(steps),
    )


def _people(
    report: CombinedReport, alone: Mapping[str, float], whole: CapReport
) -> dict[str, float]:
    """People whom one campaign alone reached."""
    if len(alone) == 2:
        first, second = alone
        return {
            first: min(max(whole.unique_reach - alone[second], 0.0), alone[first]),
            second: min(max(whole.unique_reach - alone[first], 0.0), alone[second]),
        }
    ratio = whole.unique_reach / max(report.union.unique_reach, 1e-12)
    return {name: row.unique_reach * ratio for name, row in report.only.items()}


def _scaled(row: SetReport, people: float) -> SetReport:
    """A report of so many people: every figure in proportion."""
    ratio = people / row.unique_reach if row.unique_reach > 0.0 else 0.0
    seen = tuple(ratio * number for number in row.frequency[1:])
    everybody = sum(row.frequency)
    return structs.replace(
        row,
        reach=row.reach * ratio,
        std=row.std * ratio,
        interval=_times(row.interval, ratio),
        over_exposed=row.over_exposed * ratio,
        unique_reach=people,
        unique_reach_interval=_times(row.unique_reach_interval, ratio),
        frequency=(max(everybody - sum(seen), 0.0), *seen),
        at_least=tuple(ratio * number for number in row.at_least),
    )


def _fitted(row: SetReport, ratio: float) -> SetReport:
    """Impressions within the cap so that rows add up to the union's; people stay."""
    return structs.replace(
        row, reach=row.reach * ratio, std=row.std * ratio, interval=_times(row.interval, ratio)
    )


def _times(interval: tuple[float, float], ratio: float) -> tuple[float, float]:
    return interval[0] * ratio, interval[1] * ratio


def _as_set(model: SetReport, whole: CapReport) -> SetReport:
    shared = [name for name in model.__struct_fields__ if hasattr(whole, name)]
    return SetReport(**{name: getattr(whole, name) for name in shared})


def _matrix(
    document: CombinedDocument, alone: Mapping[str, CorrectedWindow], union: CorrectedWindow
) -> tuple[tuple[float, ...], ...]:
    """Of two campaigns: each, and both."""
    first, second = (alone[part.name].reports[0].unique_reach for part in document.parts)
    both = max(first + second - union.reports[0].unique_reach, 0.0)
    return (first, both), (both, second)
