"""A cache of the catalogues that publishers released, and of the audiences on them."""

import threading
from collections.abc import Iterable
from hashlib import sha256

from kreach.adsystem.catalogues import headcounts, read_audience, read_catalogues
from kreach.adsystem.settings import AdSystemSettings
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.errors import KreachError
from kreach.service.logs import Log
from kreach.service.lru_cache import LruCache

__all__ = ["CatalogueCache"]

_MAX_GROUPS = 20_000_000  # of the audiences that are kept


class CatalogueCache:
    """Catalogues by version, the newest last, and an LRU cache of the audiences on them."""

    def __init__(self, shared: AdSystemSettings, log: Log) -> None:
        self._shared, self._log = shared, log
        self._lock = threading.Lock()
        self._catalogues = {catalogue.version: catalogue for catalogue in read_catalogues(shared)}
        self._unknown: set[str] = set()
        self._digests: dict[tuple[str, str], bytes] = {}
        self._failures: dict[tuple[str, str], str] = {}
        self._audiences = LruCache[tuple[str, str], Audience](
            _MAX_GROUPS, lambda audience: audience.group_count
        )

    @property
    def versions(self) -> list[str]:
        """The versions, the newest last."""
        return list(self._catalogues)

    @property
    def newest(self) -> Catalogue:
        """The catalogue that campaigns are made on."""
        return self._catalogues[self.versions[-1]]

    def get(self, version: str) -> Catalogue:
        """One of them."""
        found = self._catalogues.get(version)
        if found is None:
            raise KreachError.rule("catalogue", f"be one of {', '.join(self.versions)}", version)
        return found

    def audience(self, catalogue: Catalogue, name: str) -> Audience:
        """The people that a campaign targets, as far as this catalogue tells."""
        return self._audiences.get_or_make(
            (catalogue.version, name), lambda: self._read(catalogue, name)
        )

    def _read(self, catalogue: Catalogue, name: str) -> Audience:
        """An audience is for all the time what it was when it was first read, or could not be.

        What advertisers may be told was decided by that.
        """
        key = (catalogue.version, name)
        failure = self._failures.get(key)
        if failure is not None:
            raise KreachError(failure)
        try:
            made = read_audience(self._shared, catalogue, name)
        except KreachError as error:
            self._failures[key] = f"{error} (when it was first read: restart to read it again)"
            raise
        digest = sha256(headcounts(made).tobytes()).digest()
        if self._digests.setdefault(key, digest) != digest:
            rule = "stay as it is while the service runs: restart to take up a change"
            raise KreachError.rule("audience", rule, name)
        return made

    def refresh(self, versions: Iterable[str]) -> None:
        """Read the folders again if a bidder has met a version that is not cached."""
        with self._lock:
            new = set(versions) - set(self._catalogues) - self._unknown
            if not new:
                return
            self._unknown |= new
            try:
                found = {
                    catalogue.version: catalogue for catalogue in read_catalogues(self._shared)
                }
            except KreachError as error:
                self._log.warning("catalogues not read again", reason=str(error))
                return
            older = {v: c for v, c in self._catalogues.items() if v not in found}
            self._catalogues = older | found
            self._log.info("catalogues read again", catalogues=list(self._catalogues))
