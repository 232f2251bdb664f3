"""How many people of a group a campaign on each audience can see, from targeted counts."""

from collections.abc import Iterable, Iterator

import numpy as np

from kreach.adsystem.catalogues import headcounts, visible_per_group
from kreach.adsystem.reports.catalogue_cache import CatalogueCache
from kreach.adsystem.reports.policy import Policy
from kreach.adsystem.reports.report import VisiblePeople
from kreach.adsystem.settings import EVERYONE
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.catalogue import Catalogue
from kreach.errors import KreachError

__all__ = ["VisibleAudiences"]


class VisibleAudiences:
    """Visible people by audience, as a policy shows them. For use by several threads.

    The ad side knows who is targeted, not who visits: these numbers are upper bounds. Publishers
    check the visitors among them when they release an audience.
    """

    def __init__(self, catalogues: CatalogueCache, policy: Policy) -> None:
        self._catalogues, self._policy = catalogues, policy
        self._known: dict[tuple[str, str], VisiblePeople] = {}

    def of(self, catalogue: Catalogue, name: str) -> VisiblePeople:
        """An audience on a catalogue; computed once, since neither changes under its name."""
        key = (catalogue.version, name)
        if key not in self._known:
            self._known[key] = self._count(catalogue, name)
        return self._known[key]

    def all(self, catalogue: Catalogue, names: Iterable[str]) -> Iterator[VisiblePeople]:
        """Those that can be read on a catalogue."""
        for name in names:
            try:
                yield self.of(catalogue, name)
            except KreachError:
                continue

    def _count(self, catalogue: Catalogue, name: str) -> VisiblePeople:
        audience = self._catalogues.audience(catalogue, name)
        low, median = visible_per_group(audience)
        promised = self._policy.visible_floor(catalogue)
        if promised is not None:
            low = catalogue.group_size if name == EVERYONE else promised
        requests = audience.requests if isinstance(audience, DisjointAudience) else EVERYONE
        return VisiblePeople(
            audience=name,
            people=audience.targeted_user_count,
            groups=int(np.count_nonzero(headcounts(audience))),
            min=low,
            median=median,
            requests=requests,
        )
