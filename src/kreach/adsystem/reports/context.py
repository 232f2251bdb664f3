"""The inputs of reports: campaigns, catalogues and the live log of one ad system."""

from collections.abc import Callable

import msgspec

from kreach.adsystem.campaigns.store import CampaignStore, StoredCampaign
from kreach.adsystem.log.request_counts import RequestCounts
from kreach.adsystem.log.running_counts import RunningCounts
from kreach.adsystem.log.snapshot import LiveLog
from kreach.adsystem.reports.catalogue_cache import CatalogueCache
from kreach.adsystem.reports.corrections import CorrectionFiles, PanelCorrections
from kreach.adsystem.reports.measure import ReportCache
from kreach.adsystem.reports.policy import Subject
from kreach.adsystem.reports.report import LogSource
from kreach.adsystem.reports.traffic import TrafficModels
from kreach.adsystem.settings import EVERYONE, AdSystemSettings
from kreach.boundary.catalogue import Catalogue
from kreach.errors import KreachError
from kreach.service.logs import Log

__all__ = ["ReportContext"]


class ReportContext:
    """Opened once per process, shared by all policies. For use by several threads."""

    def __init__(
        self,
        settings: AdSystemSettings,
        memory: str,
        log: Log,
        requests: RequestCounts | None = None,
        sources: Callable[[], tuple[LogSource, ...]] = tuple,
    ) -> None:
        """With `requests` that bidders counted, they give the traffic of a window.

        `sources` says how fresh the logs of bidders on other machines are.
        """
        self.sources = sources
        self.settings = settings
        self.audience_names = (EVERYONE, *settings.audiences)
        self.traffic = TrafficModels(requests)
        self.catalogues = CatalogueCache(settings, log)
        self.live = LiveLog(settings.store, memory, self._missing)
        try:
            self.campaigns = CampaignStore(settings.store)
        except KreachError:
            self.live.close()
            raise
        files = CorrectionFiles(settings.corrections, log)
        self.corrections = PanelCorrections(files, self.campaigns, self.catalogues, self.live)
        self.counts = RunningCounts()
        self.reports = ReportCache()

    def _missing(self) -> tuple[str, ...]:
        return tuple(source.bidder for source in self.sources() if not source.ready)

    def take_up(self, settings: AdSystemSettings) -> None:
        """Use other catalogues and audiences, all of them or, if that raises, none."""
        changes = {"catalogues": settings.catalogues, "audiences": settings.audiences}
        changed = msgspec.structs.replace(self.settings, **changes)
        self.catalogues.take_up(changed)
        self.settings = changed  # last: what is named from now on can be read
        self.audience_names = (EVERYONE, *changed.audiences)

    def subject(self, stored: StoredCampaign, catalogue: Catalogue) -> Subject:
        """A campaign on a catalogue; refuses an audience that the catalogue does not have."""
        audience = self.catalogues.audience(catalogue, stored.campaign.audience)
        return Subject(stored, catalogue, audience)

    def close(self) -> None:
        """Close log and campaigns."""
        self.live.close()
        self.campaigns.close()
