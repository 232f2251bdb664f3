"""Windows and series of a log, corrected by a publisher's panel."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec import structs

from kreach.adsystem.log.impression_log import ImpressionLog
from kreach.adsystem.log.tables import GroupTable
from kreach.adsystem.measurement.report import ReachReport
from kreach.adsystem.reports.corrected import CorrectedWindow, corrected
from kreach.adsystem.reports.measure import cap_reports, model_info
from kreach.adsystem.reports.panel_error import ModelFigures, PanelError, Prior, priors_of
from kreach.adsystem.reports.report import CapReport, ReachDocument, SeriesDocument
from kreach.adsystem.reports.window import SeriesReport, WindowReport, measure_window
from kreach.boundary.correction import SET_MARK, Correction, PanelRelease, model_digest
from kreach.boundary.times import iso_text
from kreach.errors import KreachError

__all__ = ["WindowPanel", "corrected_series", "corrected_window"]

_MAX_OTHERS = 50  # campaigns that are measured to learn how far off the model is on this site


def corrected_window(
    log: ImpressionLog,
    groups: GroupTable,
    report: WindowReport,
    corrections: Sequence[Correction],
    level: float = 0.95,
) -> ReachDocument:
    """The document of a window, corrected. The window must begin with the campaign.

    Refuses corrections of another catalogue or model, and windows that a panel says nothing of.

    >>> from datetime import UTC
    >>> import kreach as kr
    >>> from kreach.boundary.correction import PanelRelease
    >>> rows = {"campaign": ["s"] * 40, "group": ["a", "b"] * 20, "ts": ["2026-11-01"] * 40}
    >>> day = datetime(2026, 11, 2, tzinfo=UTC)
    >>> release = PanelRelease(day, (-6.0,), 1.0, (1.0,), (0.1,))  # six people fewer
    >>> panel = kr.Correction("s", "v1", "uniform", None, 2, 2, None, (release,))
    >>> with kr.EmbeddedEngine() as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a", "b"], "size": [20, 20]})
    ...     log = kr.ImpressionLog.open(engine, rows)
    ...     report = kr.measure_window(log, groups, [1], campaign="s")
    ...     document = kr.corrected_window(log, groups, report, [panel])
    >>> round(report.report(cap=1).reach, 1), round(document.reports[0].reach, 1)
    (25.7, 19.7)
    """
    found = WindowPanel(log, groups, report, corrections).corrected(level)
    return structs.replace(report.document(level), reports=found.reports, correction=found.info)


def corrected_series(
    log: ImpressionLog,
    groups: GroupTable,
    series: SeriesReport,
    corrections: Sequence[Correction],
    level: float = 0.95,
) -> SeriesDocument:
    """The document of a series: cumulative reports are corrected, those of single periods are not.

    A panel follows a campaign from its start; what it says of one day alone it does not release.
    Periods before the first release keep the model's numbers.

    >>> from datetime import UTC
    >>> import kreach as kr
    >>> from kreach.boundary.correction import PanelRelease
    >>> rows = {"campaign": ["s"] * 40, "group": ["a", "b"] * 20, "ts": ["2026-11-01"] * 40}
    >>> day = datetime(2026, 11, 2, tzinfo=UTC)
    >>> release = PanelRelease(day, (-6.0,), 1.0, (1.0,), (0.1,))  # six people fewer
    >>> panel = kr.Correction("s", "v1", "uniform", None, 2, 2, None, (release,))
    >>> with kr.EmbeddedEngine() as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a", "b"], "size": [20, 20]})
    ...     log = kr.ImpressionLog.open(engine, rows)
    ...     series = kr.measure_series(log, groups, [1], by="day", campaign="s")
    ...     document = kr.corrected_series(log, groups, series, [panel])
    >>> [round(period.cumulative[0].reach, 1) for period in document.series]
    [19.7]
    """
    panel = WindowPanel(log, groups, series.whole, corrections)
    document = series.document(level)
    ends = {period.window.end: period.cumulative for period in series.periods}
    windows: list[tuple[tuple[CapReport, ...], ModelFigures, ModelFigures, PanelRelease]] = []
    places = []
    for at, (period, shown) in enumerate(zip(series.periods, document.series, strict=True)):
        release = panel.release(period.window.end)
        if release is None or shown.cumulative is None:
            continue
        now = panel.figures(period.cumulative)
        known = ends.get(release.end)
        then = panel.figures(known) if known else panel.at_release(release, None, None)
        windows.append((shown.cumulative, now, then, release))
        places.append(at)
    if not windows:
        rule = "hold a release from before the end of the series"
        raise KreachError.rule("panel", rule, f"none for {series.whole.campaign}")
    found = corrected(windows, panel.correction, panel.priors(*windows[-1][2:]))
    periods = list(document.series)
    for at, each in zip(places, found, strict=True):
        periods[at] = structs.replace(periods[at], cumulative=each.reports)
    last = found[-1]
    whole = {report.cap: report for report in last.reports}
    return structs.replace(
        document,
        series=tuple(periods),
        reports=tuple(whole[report.cap] for report in document.reports)
        if places[-1] == len(periods) - 1
        else document.reports,
        correction=last.info,
    )


@dataclass
class WindowPanel:
    """One campaign's correction beside its log."""

    log: ImpressionLog
    groups: GroupTable
    report: WindowReport
    corrections: Sequence[Correction]

    def __post_init__(self) -> None:
        self.correction = self._find()
        self._refuse_other_model()
        self._refuse_late_start()

    def _find(self) -> Correction:
        campaign, version = self.report.campaign, self.groups.version
        if campaign is None:
            raise KreachError.rule("campaign", "be named to be corrected by a panel", "none")
        found = [each for each in self.corrections if each.campaign == campaign]
        if not found:
            names = ", ".join(dict.fromkeys(each.campaign for each in self.corrections)) or "none"
            rule = f"be a campaign of the panel ({names})"
            raise KreachError.rule("campaign", rule, campaign)
        here = [each for each in found if version is None or each.catalogue == version]
        if not here:
            rule = f"be for the catalogue of the groups ({version})"
            raise KreachError.rule("panel", rule, found[0].catalogue)
        return here[-1]

    def _refuse_other_model(self) -> None:
        name = model_info(self.report.reports[0].exposure).name
        digest = model_digest(self.groups.model)
        if (name, digest) != (self.correction.model, self.correction.digest):
            rule = f"correct the model that measures ({name}{f' {digest}' if digest else ''})"
            other = f"{self.correction.model} {self.correction.digest or ''}".strip()
            raise KreachError.rule("panel", rule, other)
        first = self.report.reports[0]
        if first.exposure.targeted_impressions < first.impressions * (1.0 - 1e-9):
            rule = "come with groups in which everybody is targeted: it counts everybody"
            raise KreachError.rule("panel", rule, "impressions on people who are not")

    def _refuse_late_start(self) -> None:
        start = self.report.window.start
        if start is not None and self.measured(start).impressions:
            rule = "be before the first impression, where a panel starts to count"
            raise KreachError.rule("start", rule, iso_text(start))

    def measured(self, end: datetime, campaign: str | None = None) -> WindowReport:
        """What the model says of this campaign, or another, up to an instant."""
        name = campaign or self.report.campaign
        return measure_window(
            self.log, self.groups, [1], campaign=name, end=end, model=self.groups.model
        )

    def corrected(self, level: float) -> CorrectedWindow:
        """The reports of the window, corrected by the newest release before its end."""
        end, reports = self.report.window.end, self.report.reports
        release = self.release(end)
        if release is None:
            rule = "hold a release from before the end of the window"
            raise KreachError.rule("panel", rule, f"none for {self.report.campaign}")
        now, then = self.figures(reports), self.at_release(release, end, reports)
        window = (cap_reports(reports, level), now, then, release)
        return corrected([window], self.correction, self.priors(then, release))[0]

    def release(self, end: datetime | None) -> PanelRelease | None:
        """The newest release up to the end of a window."""
        return self.correction.release_at(end)

    def figures(self, reports: tuple[ReachReport, ...]) -> ModelFigures:
        """The model's, up to the largest cap of the panel."""
        first = reports[0]
        top = len(self.correction.releases[-1].differences)
        return ModelFigures.of(first.exposure, first.impressions, first.targeted_user_count, top)

    def at_release(
        self,
        release: PanelRelease,
        end: datetime | None,
        reports: tuple[ReachReport, ...] | None,
    ) -> ModelFigures:
        """The model's figures of what the release counted."""
        if reports is not None and end == release.end:
            return self.figures(reports)
        measured = self.measured(release.end)
        if reports is not None and measured.impressions == reports[0].impressions:
            return self.figures(reports)
        return self.figures(measured.reports)

    def priors(self, then: ModelFigures, of: PanelRelease) -> list[Prior]:
        """From all campaigns of the site that the panel knows."""
        own = self.correction
        others: list[list[PanelError]] = []
        for each in self.corrections:
            same = (each.catalogue, each.digest) == (own.catalogue, own.digest)
            if each is own or not same or not each.releases or len(others) >= _MAX_OTHERS:
                continue
            if SET_MARK in each.campaign:
                continue  # its campaigns are here as well
            release = each.releases[-1]
            measured = self.measured(release.end, each.campaign).reports[0]
            figures = ModelFigures.of(
                measured.exposure,
                measured.impressions,
                measured.targeted_user_count,
                len(release.differences),
            )
            others.append(PanelError.by_cap(each, release, figures))
        return priors_of(then, (own, of), others)
