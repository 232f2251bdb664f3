"""The inputs of reports: campaigns, catalogues and the live log of one ad system."""

from kreach.adsystem.campaigns.store import CampaignStore, StoredCampaign
from kreach.adsystem.log.request_counts import RequestCounts
from kreach.adsystem.log.running_counts import RunningCounts
from kreach.adsystem.log.snapshot import LiveLog
from kreach.adsystem.reports.catalogue_cache import CatalogueCache
from kreach.adsystem.reports.corrections import CorrectionFiles, PanelCorrections
from kreach.adsystem.reports.measure import ReportCache
from kreach.adsystem.reports.policy import Subject
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
    ) -> None:
        """With `requests` that bidders counted, they give the traffic of a window."""
        self.settings = settings
        self.traffic = TrafficModels(requests)
        self.catalogues = CatalogueCache(settings, log)
        self.live = LiveLog(settings.store, memory)
        try:
            self.campaigns = CampaignStore(settings.store)
        except KreachError:
            self.live.close()
            raise
        files = CorrectionFiles(settings.corrections, log)
        self.corrections = PanelCorrections(files, self.campaigns, self.catalogues, self.live)
        self.counts = RunningCounts()
        self.reports = ReportCache()

    @property
    def audience_names(self) -> list[str]:
        """Everyone, and the audiences that the settings name."""
        return [EVERYONE, *self.settings.audiences]

    def subject(self, stored: StoredCampaign, catalogue: Catalogue) -> Subject:
        """A campaign on a catalogue; refuses an audience that the catalogue does not have."""
        audience = self.catalogues.audience(catalogue, stored.campaign.audience)
        return Subject(stored, catalogue, audience)

    def close(self) -> None:
        """Close log and campaigns."""
        self.live.close()
        self.campaigns.close()
