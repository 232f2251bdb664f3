"""The groups and audiences of each catalogue, opened once in the engine of a job."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.campaigns.store import FILE, CampaignStore
from kreach.adsystem.catalogues import read_audience, read_catalogues
from kreach.adsystem.log.engine import Engine
from kreach.adsystem.log.group_table import open_groups
from kreach.adsystem.log.tables import GroupTable
from kreach.adsystem.settings import EVERYONE, AdSystemSettings
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.files import write_groups
from kreach.errors import KreachError

__all__ = ["JobAudiences", "read_campaigns"]


def read_campaigns(store: Path) -> dict[str, Campaign]:
    """All campaigns of a store by id; a store that reporting has not written to is refused."""
    if not (store / FILE).is_file():
        raise KreachError.rule("store", f"hold campaigns ({FILE})", str(store))
    with closing(CampaignStore(store)) as campaigns:
        return {stored.campaign.id: stored.campaign for stored in campaigns.all()}


class JobAudiences:
    """Groups by catalogue and audience. `folder` takes the groups files of targeted audiences."""

    def __init__(self, engine: Engine, settings: AdSystemSettings, folder: Path) -> None:
        self._engine, self._settings, self._folder = engine, settings, folder
        self._catalogues = {one.version: one for one in read_catalogues(settings)}
        self._paths = dict(zip(self._catalogues, settings.catalogues, strict=True))
        self._opened: dict[tuple[str, str], GroupTable | KreachError] = {}

    def groups(self, version: str, audience: str) -> GroupTable:
        """The groups of a catalogue with the people of an audience; refuses unknown ones."""
        key = (version, audience)
        if key not in self._opened:
            try:
                self._opened[key] = self._open(version, audience)
            except KreachError as error:
                self._opened[key] = error
        groups = self._opened[key]
        if isinstance(groups, KreachError):
            raise groups
        return groups

    def _open(self, version: str, audience: str) -> GroupTable:
        if version not in self._catalogues:
            rule = f"be one of {', '.join(self._catalogues)}"
            raise KreachError.rule("catalogue", rule, version)
        if audience == EVERYONE:
            path = self._paths[version]
            released = path / "release" if (path / "release").is_dir() else path
            return open_groups(self._engine, released)
        catalogue = self._catalogues[version]
        people = read_audience(self._settings, catalogue, audience)
        assert isinstance(people, DisjointAudience)  # no other kind has head-counts
        file = self._folder / f"groups-{len(self._opened)}.parquet"
        write_groups(catalogue, file, people.targeted_counts, people.requests)
        table = open_groups(self._engine, file)
        table = replace(table, version=version, created=catalogue.created)
        return table.with_model(catalogue.model)
