"""Campaigns of the live log together, corrected by a panel that counted them together.

The gateway's panel counts sets of campaigns that its settings name (`[gateway.panel] together`), as
if each were a campaign. Each part is then the number that the campaign's own report shows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from msgspec import structs

from kreach.adsystem.measurement.combination import Parts
from kreach.adsystem.reports.combined_report import CombinedDocument
from kreach.adsystem.reports.corrected import CorrectedWindow, corrected
from kreach.adsystem.reports.corrected_set import corrected_document
from kreach.adsystem.reports.corrections import PanelCorrections
from kreach.adsystem.reports.measure import cap_reports, measure_exposure
from kreach.adsystem.reports.panel_error import ModelFigures
from kreach.adsystem.reports.policy import Subject, Together, View, Withheld
from kreach.boundary.correction import set_name
from kreach.boundary.times import Window

__all__ = ["UNCORRECTED", "panel_document"]

UNCORRECTED = (
    "the panel corrects each campaign's own report; it did not count these campaigns together "
    "([gateway.panel] together), so the figures here are the model's"
)


def panel_document(
    corrections: PanelCorrections,
    view: View,
    subjects: Mapping[str, Subject],
    shown: Together,
    document: CombinedDocument,
    level: float,
) -> CombinedDocument:
    """The document corrected; with a note where a panel corrects single campaigns only."""
    named = [(one.stored.campaign.id, one.catalogue.version) for one in subjects.values()]
    if document.combined is None or not any(corrections.newest(*each) for each in named):
        return document

    def parts_at(end: datetime) -> Parts | None:
        try:
            return view.together(subjects, Window(None, end)).parts
        except Withheld:
            return None

    caps = tuple(each.cap for each in (document.combined, *document.more_caps))
    found = _SetPanel(corrections, subjects, shown, parts_at).corrected(document, caps, level)
    return found or structs.replace(document, notes=(UNCORRECTED,))


@dataclass(frozen=True, eq=False)
class _SetPanel:
    """Several campaigns beside what panels say of each, and of all as one.

    `parts_at` gives the same campaigns up to an instant, where they may be seen.
    """

    corrections: PanelCorrections
    subjects: Mapping[str, Subject]
    shown: Together
    parts_at: Callable[[datetime], Parts | None]

    def corrected(
        self, document: CombinedDocument, caps: tuple[int, ...], level: float
    ) -> CombinedDocument | None:
        """The document corrected; None where a panel did not count all of it."""
        parts = self.shown.parts
        if parts is None or not self._from_the_start():
            return None
        ids = [subject.stored.campaign.id for subject in self.subjects.values()]
        union = self._corrected(set_name(ids), tuple(range(len(ids))), parts, caps, level)
        if union is None:
            return None
        alone = {}
        for at, (name, campaign) in enumerate(zip(self.subjects, ids, strict=True)):
            one = self._corrected(campaign, (at,), parts, caps, level)
            if one is None:
                return None
            alone[name] = one
        return corrected_document(document, alone, union)

    def _from_the_start(self) -> bool:
        """Whether the window begins with the first campaign, as a panel's corrections do."""
        start = self.shown.window.start
        first = min(subject.stored.campaign.start for subject in self.subjects.values())
        return start is None or start <= first

    def _corrected(
        self,
        name: str,
        chosen: tuple[int, ...],
        parts: Parts,
        caps: tuple[int, ...],
        level: float,
    ) -> CorrectedWindow | None:
        version = next(iter(self.subjects.values())).catalogue.version
        exposure, impressions = parts.together(chosen), parts.impressions(chosen)
        model = self.shown.traffic.model
        correction = self.corrections.matching(name, version, exposure, impressions, model)
        release = None if correction is None else correction.release_at(self.shown.window.end)
        if correction is None or release is None:
            return None
        before = self.parts_at(release.end) or parts
        top = len(correction.releases[-1].differences)
        now, then = (
            ModelFigures.of(each.together(chosen), each.impressions(chosen), each.people, top)
            for each in (parts, before)
        )
        reports = cap_reports(measure_exposure(exposure, impressions, parts.people, caps), level)
        priors = self.corrections.priors(correction, release, then)
        return corrected([(reports, now, then, release)], correction, priors)[0]
