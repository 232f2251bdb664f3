"""Campaigns together, corrected by a publisher's panel that counted them together.

The panel has a correction for each campaign and one for the set, as if it were a campaign
(`kreach panel --together`).
"""

from collections.abc import Sequence
from datetime import datetime

from kreach.adsystem.log.impression_log import ImpressionLog
from kreach.adsystem.log.tables import GroupTable
from kreach.adsystem.reports.combined import CombinedReports, measure_together
from kreach.adsystem.reports.combined_report import CombinedDocument
from kreach.adsystem.reports.corrected import CorrectedWindow
from kreach.adsystem.reports.corrected_set import corrected_document
from kreach.adsystem.reports.measure import measure_exposure
from kreach.adsystem.reports.panel_window import WindowPanel
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
    return corrected_document(document, alone, union)


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
