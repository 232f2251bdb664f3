"""Corrections that publishers released, beside the live log: which one a report may use."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kreach.adsystem.campaigns.store import CampaignStore, UnknownCampaign
from kreach.adsystem.log.counts import count_window
from kreach.adsystem.log.draws import window_draws
from kreach.adsystem.log.snapshot import LiveLog
from kreach.adsystem.measurement.exposure import Exposure
from kreach.adsystem.measurement.tally import GroupTally
from kreach.adsystem.reports.catalogue_cache import CatalogueCache
from kreach.adsystem.reports.corrected import CorrectedWindow, corrected, corrected_curve
from kreach.adsystem.reports.panel_error import ModelFigures, PanelError, Prior, priors_of
from kreach.adsystem.reports.policy import Subject, Withheld
from kreach.adsystem.reports.privacy_budget import DELTA, privacy_budget
from kreach.adsystem.reports.report import CapReport, CurveReport, PrivacyBudget
from kreach.boundary.audience import Audience, DisjointAudience
from kreach.boundary.correction import Correction, PanelRelease, model_digest, read_corrections
from kreach.boundary.times import Window
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.service.logs import Log
from kreach.service.lru_cache import LruCache

__all__ = ["CorrectionFiles", "MeasuredWindow", "PanelCorrections"]

_LOOK_SECONDS = 1.0
_MAX_FIGURES = 20_000
_MAX_OTHERS = 50

CountedWindow = tuple[datetime | None, GroupTally]
"""The end of a window that began with the campaign (None: now), and its counts."""
MeasuredWindow = tuple[datetime | None, GroupTally, tuple[CapReport, ...]]
"""The same with its reports."""
CountWindow = Callable[[Window], GroupTally | None]


@dataclass(frozen=True)
class _Panel:
    """A correction, and for each window that it covers the model now, the model then, a release."""

    correction: Correction
    points: dict[int, tuple[ModelFigures, ModelFigures, PanelRelease]]
    priors: list[Prior]


class CorrectionFiles:
    """The newest of some files. One that cannot be read keeps its last good corrections."""

    def __init__(self, paths: Sequence[Path], log: Log) -> None:
        self._paths, self._log = tuple(paths), log
        self._lock = threading.Lock()
        self._found: dict[Path, tuple[Correction, ...]] = {}
        self._states: dict[Path, tuple[int, int] | None] = {}
        self._look_at = 0.0

    def all(self) -> list[Correction]:
        """Every correction; files are looked at once a second."""
        with self._lock:
            if time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + _LOOK_SECONDS
                for path in self._paths:
                    self._refresh(path)
            return [each for found in self._found.values() for each in found]

    def _refresh(self, path: Path) -> None:
        try:
            facts = path.stat()
            state = (facts.st_mtime_ns, facts.st_size)
        except OSError:
            state = None
        if path in self._states and self._states[path] == state:
            return
        self._states[path] = state
        if state is None:
            self._log.info("no corrections yet", file=path.name)
            return
        try:
            self._found[path] = read_corrections(path)
            self._log.info("corrections read", file=path.name, count=len(self._found[path]))
        except KreachError as error:
            self._log.error("corrections refused", file=path.name, why=str(error))


class PanelCorrections:
    """Corrects the live reports of campaigns that a panel follows. For use by several threads."""

    def __init__(
        self,
        files: CorrectionFiles,
        campaigns: CampaignStore,
        catalogues: CatalogueCache,
        live: LiveLog,
    ) -> None:
        self._files, self._campaigns = files, campaigns
        self._catalogues, self._live = catalogues, live
        self._figures = LruCache[tuple[int, bytes, int], tuple[Audience, ModelFigures]](
            _MAX_FIGURES
        )
        self._others = LruCache[tuple[str, str, datetime], list[PanelError]](_MAX_FIGURES)
        self.alarms: dict[str, bool] = {}  # by campaign, as its last report found

    def crossed(self) -> tuple[int, float | None]:
        """How many corrections publishers released, and what all of them cost in privacy (ρ).

        Somebody who saw several campaigns with a panel is in all of them: their costs add up.
        """
        found = self._files.all()
        costs = [each.rho for each in found if each.rho is not None and each.releases]
        return sum(len(each.releases) for each in found), sum(costs) if costs else None

    def budget(self) -> PrivacyBudget | None:
        """What panels promise to spend at most on each campaign; None before there is any.

        A correction names what all its releases cost together, those to come included.
        """
        spent = [
            (each.campaign, each.catalogue, len(each.releases), each.rho)
            for each in self._files.all()
            if each.rho is not None and each.releases
        ]
        return privacy_budget(max(one[3] for one in spent), DELTA, spent) if spent else None

    def newest(self, campaign: str, version: str | None) -> datetime | None:
        """When a campaign's newest correction was released: figures so far change with it."""
        for each in self._files.all():
            if (each.campaign, each.catalogue) == (campaign, version) and each.releases:
                return each.releases[-1].end
        return None

    def correction(self, subject: Subject, tally: GroupTally) -> Correction | None:
        """The correction of a campaign on a catalogue, if it is of the model that measures.

        A panel counts everybody: it says nothing of audiences that are only part of their groups,
        nor of campaigns that are sent the requests of a part only.
        """
        audience = subject.audience
        if isinstance(audience, DisjointAudience) and audience.requests != "everyone":
            return None
        name, version = subject.stored.campaign.id, subject.catalogue.version
        if self.newest(name, version) is None:
            return None
        model = None if tally.draws is None else tally.draws.model
        return self.matching(name, version, tally.exposure(audience), tally.impressions, model)

    def matching(
        self,
        name: str,
        version: str,
        exposure: Exposure,
        impressions: int,
        model: VisitModel | None,
    ) -> Correction | None:
        """The correction of a campaign, or of a set by its name, if it is of this model."""
        whole = exposure.targeted_impressions >= impressions * (1.0 - 1e-9)
        wanted = (name, version, exposure.visits, model_digest(model))
        for each in self._files.all():
            known = (each.campaign, each.catalogue, each.model, each.digest)
            if whole and each.releases and known == wanted:
                return each
        return None

    def figures(self, audience: Audience, tally: GroupTally, top: int) -> ModelFigures:
        """The model's numbers of some counts."""
        people = audience.targeted_user_count
        return self._figures.get_or_make(
            (id(audience), tally.digest(), top),
            lambda: (
                audience,
                ModelFigures.of(tally.exposure(audience), tally.impressions, people, top),
            ),
        )[1]

    def correct(
        self, subject: Subject, windows: Sequence[MeasuredWindow], count: CountWindow
    ) -> list[CorrectedWindow | None]:
        """Correct windows that began with the campaign, in order of time.

        None where there was no release yet. `count` gives the counts up to a release, if they may
        be seen; else the release is taken to be of the window itself.
        """
        result: list[CorrectedWindow | None] = [None] * len(windows)
        panel = self._panel(subject, [window[:2] for window in windows], count)
        if panel is None:
            return result
        rows = [(windows[at][2], *point) for at, point in panel.points.items()]
        found = corrected(rows, panel.correction, panel.priors)
        for at, each in zip(panel.points, found, strict=True):
            result[at] = each
        self.alarms[subject.stored.campaign.id] = found[-1].info.alarm is not None
        return result

    def curve(
        self,
        subject: Subject,
        windows: Sequence[CountedWindow],
        count: CountWindow,
        caps: Sequence[int],
        level: float,
    ) -> dict[int, tuple[CurveReport, ...]]:
        """The same for charts: by place in the list, caps that the panel knows."""
        panel = self._panel(subject, windows, count)
        if panel is None:
            return {}
        known = [cap for cap in caps if cap <= len(panel.correction.releases[-1].differences)]
        points = list(panel.points.values())
        found = corrected_curve(points, panel.correction, panel.priors, known, level)
        return dict(zip(panel.points, found, strict=True))

    def _panel(
        self, subject: Subject, windows: Sequence[CountedWindow], count: CountWindow
    ) -> "_Panel | None":
        """What a panel says of windows; None without one, or before its first release."""
        correction = self.correction(subject, windows[-1][1]) if windows else None
        if correction is None:
            return None
        top = len(correction.releases[-1].differences)
        at_end = {end: tally for end, tally in windows if end is not None}
        points = {}
        for at, (end, tally) in enumerate(windows):
            release = correction.release_at(end)
            if release is None:
                continue
            then = at_end.get(release.end)
            if then is None:
                try:
                    then = at_end[release.end] = count(Window(None, release.end)) or tally
                except Withheld:
                    then = tally
            now = self.figures(subject.audience, tally, top)
            points[at] = (now, self.figures(subject.audience, then, top), release)
        if not points:
            return None
        _, last, release = points[max(points)]
        return _Panel(correction, points, self.priors(correction, release, last))

    def priors(
        self, correction: Correction, release: PanelRelease, then: ModelFigures
    ) -> list[Prior]:
        """By cap: how far off the model is on campaigns of the site, this one among them."""
        return priors_of(then, (correction, release), self._errors_of_others(correction))

    def _errors_of_others(self, own: Correction) -> list[list[PanelError]]:
        """How far off the model is on other campaigns of the site, by cap."""
        found = []
        for each in self._files.all()[:_MAX_OTHERS]:
            same = (each.catalogue, each.model, each.digest) == (
                own.catalogue,
                own.model,
                own.digest,
            )
            if not same or each.campaign == own.campaign or not each.releases:
                continue
            release = each.releases[-1]
            errors = self._others.get((each.campaign, each.catalogue, release.end))
            if errors is None:
                errors = self._measured_errors(each, release)
                self._others.put((each.campaign, each.catalogue, release.end), errors)
            found.append(errors)
        return [errors for errors in found if errors]

    def _measured_errors(self, correction: Correction, release: PanelRelease) -> list[PanelError]:
        """Of one campaign, measured up to its release; none where that is not possible."""
        try:
            stored = self._campaigns.get(correction.campaign)
            catalogue = self._catalogues.get(correction.catalogue)
            audience = self._catalogues.audience(catalogue, stored.campaign.audience)
        except (KreachError, UnknownCampaign):
            return []
        with self._live.snapshot() as now:
            place = now.place(stored.number, catalogue.version)
            window = Window(None, release.end)
            counted = count_window(now, place, len(catalogue), window)
            draws = None
            if catalogue.model is not None:
                draws = window_draws(
                    now, place, len(catalogue), window, catalogue.model, counted.rows
                )
        tally = GroupTally(counted.by_group, draws)
        top = len(release.differences)
        figures = self.figures(audience, tally, top)
        return PanelError.by_cap(correction, release, figures)
