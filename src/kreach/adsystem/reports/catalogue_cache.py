"""A cache of the catalogues that publishers released, and of the audiences on them."""

import threading
from collections.abc import Iterable
from hashlib import sha256

from kreach.adsystem.catalogues import (
    check_unchanged,
    headcounts,
    read_audience,
    read_catalogues,
)
from kreach.adsystem.settings import AdSystemSettings
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.errors import KreachError
from kreach.service.logs import Log
from kreach.service.lru_cache import LruCache

__all__ = ["CatalogueCache"]

_MAX_GROUPS = 20_000_000  # of cached audiences


def _audience_cache() -> LruCache[tuple[str, str], Audience]:
    return LruCache(_MAX_GROUPS, lambda audience: audience.group_count)


class CatalogueCache:
    """Catalogues by version, the newest last, and an LRU cache of the audiences on them."""

    def __init__(self, shared: AdSystemSettings, log: Log) -> None:
        self._shared, self._log = shared, log
        self._lock = threading.Lock()
        self._catalogues = {catalogue.version: catalogue for catalogue in read_catalogues(shared)}
        self._unknown: set[str] = set()
        self._digests: dict[tuple[str, str], bytes] = {}
        self._failures: dict[tuple[str, str], str] = {}
        self._audiences = _audience_cache()

    @property
    def versions(self) -> list[str]:
        """The versions, the newest last."""
        return list(self._catalogues)

    @property
    def newest(self) -> Catalogue:
        """The catalogue for new campaigns."""
        return self._catalogues[self.versions[-1]]

    def get(self, version: str) -> Catalogue:
        """The catalogue of a version."""
        catalogue = self._catalogues.get(version)
        if catalogue is None:
            raise KreachError.rule("catalogue", f"be one of {', '.join(self.versions)}", version)
        return catalogue

    def audience(self, catalogue: Catalogue, name: str) -> Audience:
        """The audience that a campaign targets on a catalogue."""
        return self._audiences.get_or_make(
            (catalogue.version, name), lambda: self._read(catalogue, name)
        )

    def _read(self, catalogue: Catalogue, name: str) -> Audience:
        """Read an audience; refuse one that has changed since it was first read, or failed then.

        Disclosure rules were decided on that first reading.
        """
        key, failures = (catalogue.version, name), self._failures  # before the settings: see below
        failure = failures.get(key)
        if failure is not None:
            raise KreachError(failure)
        try:
            audience = read_audience(self._shared, catalogue, name)
        except KreachError as error:
            failures[key] = f"{error} (when it was first read: reload or restart to read it again)"
            raise
        self._check_people(key, audience)
        return audience

    def _check_people(self, key: tuple[str, str], audience: Audience) -> None:
        both = headcounts(audience).tobytes() + audience.group_sizes.tobytes()
        digest = sha256(both).digest()
        if self._digests.setdefault(key, digest) != digest:
            rule = "stay as it is while the service runs: restart to take up a change"
            raise KreachError.rule("audience", rule, key[1])

    def take_up(self, shared: AdSystemSettings) -> None:
        """Use what other settings name; if they cannot be used, raise and change nothing.

        An audience may come from another file, as it must for a new catalogue. It may not have
        other people on a catalogue on which reports have used it.
        """
        read = {catalogue.version: catalogue for catalogue in read_catalogues(shared)}
        check_unchanged(self._catalogues, read.values())
        for version, name in list(self._digests):
            if version not in read:
                continue
            try:
                audience = read_audience(shared, read[version], name)
            except KreachError:  # not on this catalogue any more, as after a restart
                what = "audience no longer on a catalogue: its campaigns there have no reports"
                self._log.warning(what, audience=name, catalogue=version)
                continue
            self._check_people((version, name), audience)
        with self._lock:
            self._shared, self._catalogues = shared, read
            self._failures = {}  # after the settings: no failure under former ones gets in
            self._audiences = _audience_cache()
            self._unknown.clear()

    def refresh(self, versions: Iterable[str]) -> None:
        """Read the folders again if the log has a version that is not cached."""
        with self._lock:
            new = set(versions) - set(self._catalogues) - self._unknown
            if not new:
                return
            self._unknown |= new
            try:
                read = {one.version: one for one in read_catalogues(self._shared)}
            except KreachError as error:
                self._log.warning("catalogues not read again", reason=str(error))
                return
            older = {v: c for v, c in self._catalogues.items() if v not in read}
            self._catalogues = older | read
            self._log.info("catalogues read again", catalogues=list(self._catalogues))
