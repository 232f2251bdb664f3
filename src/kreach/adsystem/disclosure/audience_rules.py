"""Verdicts on the audiences of each catalogue, decided once and stored."""

from collections.abc import Callable, Sequence
from threading import Lock

from kreach.adsystem.catalogues import headcounts
from kreach.adsystem.disclosure.audiences import (
    NOT_HERE,
    Verdict,
    margins,
    pack_counts,
    verdicts,
    visible_floor,
)
from kreach.adsystem.disclosure.chapters.store import ChapterStore
from kreach.adsystem.disclosure.combinations import check_together
from kreach.adsystem.reports.report import Suppressed
from kreach.adsystem.settings import GuardSettings
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue

__all__ = ["AudienceRules"]


class AudienceRules:
    """Verdicts on audiences by catalogue. For use by several threads."""

    def __init__(
        self,
        read: Callable[[Catalogue, str], Audience],
        named: Callable[[], Sequence[str]],
        settings: GuardSettings,
        key: bytes,
        store: ChapterStore,
    ) -> None:
        """`named` returns the audiences of the settings: another list once they were reloaded."""
        check_together(len(named()), settings.audiences_together)
        self._read, self._named, self._settings = read, named, settings
        self._margin = margins(key, settings.min_difference)
        self._store = store
        self._lock = Lock()
        self._names: Sequence[str] = ()  # that the verdicts are on
        self._verdicts: dict[str, dict[str, Verdict]] = {}

    def verdict(self, catalogue: Catalogue, name: str) -> Verdict:
        """Whether advertisers may use an audience on a catalogue."""
        with self._lock:
            names = self._named()
            if names is not self._names:
                self._names, self._verdicts = names, {}
            if catalogue.version not in self._verdicts:
                self._verdicts[catalogue.version] = self._decide(catalogue)
            verdict = self._verdicts[catalogue.version].get(name)
        return verdict or Verdict(NOT_HERE, "be one that the settings name")

    def note(self, catalogue: Catalogue, name: str) -> Suppressed | None:
        """Why an audience may not be used; None if it may, or is not on this catalogue at all."""
        verdict = self.verdict(catalogue, name)
        if verdict.reason in (None, NOT_HERE):
            return None
        why = f"the audience must {verdict.rule} to be used by advertisers"
        return Suppressed(what="everything", reason=str(verdict.reason), why=why)

    def _decide(self, catalogue: Catalogue) -> dict[str, Verdict]:
        """Store usable audiences before anybody sees a verdict."""
        floors, version = self._settings, catalogue.version

        def read(name: str) -> Audience:
            return self._read(catalogue, name)

        while True:
            stored = self._store.audiences(version)
            check_together(len({*stored, *self._names}), floors.audiences_together)
            decided = verdicts(
                self._names,
                read,
                floors.min_audience,
                floors.min_difference,
                self._margin,
                floors.audiences_together,
                stored,
                visible_floor(catalogue, floors.min_visible),
            )
            new = [
                name
                for name, verdict in decided.items()
                if verdict.reason is None and name not in stored
            ]
            people = {name: pack_counts(headcounts(read(name))) for name in new}
            if self._store.store_audiences(version, len(stored), people):
                return decided
