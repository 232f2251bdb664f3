"""What an advertiser may be told, and what is said instead of the rest."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

from kreach.adsystem.disclosure.audiences import (
    NOT_HERE,
    Verdict,
    headcounts,
    margins,
    packed,
    verdicts,
)
from kreach.adsystem.disclosure.chapters.chapter import Book
from kreach.adsystem.disclosure.chapters.store import Archive
from kreach.adsystem.disclosure.combinations import check_together
from kreach.adsystem.settings import GuardSettings
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.times import Window, iso_text
from kreach.errors import KreachError

__all__ = [
    "FEW_ROWS",
    "LOG_BEHIND",
    "NOT_WHOLE",
    "TOO_FEW",
    "Audiences",
    "Note",
    "Withheld",
    "chosen_chapters",
    "moment_of",
    "text_of",
]

TOO_FEW = "too few so far"
NOT_WHOLE = "window not of whole chapters"
FEW_ROWS = "may be few rows"
LOG_BEHIND = "log lacks rows"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Allowed = Mapping[str, list[str]]
"""Under `start` and `end`: the nearest times at which a window may start and end."""


class Withheld(KreachError):
    """A question that is not answered to advertisers: why, and what would be."""

    def __init__(self, message: str, reason: str = "", allowed: Allowed | None = None) -> None:
        super().__init__(message)
        self.reason, self.allowed = reason, allowed

    def document(self) -> dict[str, Any]:
        """As the API answers it."""
        allowed = None if self.allowed is None else dict(self.allowed)
        return {"error": str(self), "reason": self.reason, "allowed": allowed}


@dataclass(frozen=True)
class Note:
    """What a document leaves out, and why."""

    what: str
    reason: str
    why: str

    def document(self) -> dict[str, Any]:
        """As documents carry it."""
        return {"what": self.what, "reason": self.reason, "why": self.why, "allowed": None}

    @classmethod
    def too_few(cls, settings: GuardSettings, what: str) -> "Note":
        """Nothing can be shown yet. It says the same of no impressions and of nearly enough."""
        why = (
            f"numbers are shown by chapters of at least {settings.min_impressions} impressions "
            f"on groups with at least {settings.min_people} targeted people, the newest when "
            "the next one is full or the campaign is over"
        )
        return cls(what, TOO_FEW, why)

    @classmethod
    def few_rows(cls, what: str) -> "Note":
        """Numbers that need not be of whole chapters, or of many rows."""
        return cls(what, FEW_ROWS, "these may count few impressions, or not whole chapters")

    @classmethod
    def log_behind(cls) -> "Note":
        """Nothing new can be told: the log is not the one that was told of before."""
        why = "the log lacks rows that were shown: newer ones are shown when it has them again"
        return cls("newer numbers", LOG_BEHIND, why)


class Audiences:
    """Which audiences advertisers may use, by catalogue: looked up once for each."""

    def __init__(
        self,
        read: Callable[[Catalogue, str], Audience],
        names: Sequence[str],
        settings: GuardSettings,
        key: bytes,
        archive: Archive,
    ) -> None:
        if settings.enabled:
            check_together(len(names), settings.audiences_together)
        self._read, self._names, self._settings = read, names, settings
        self._margin = margins(key, settings.min_difference)
        self._archive = archive
        self._lock = Lock()
        self._found: dict[str, dict[str, Verdict]] = {}

    def verdict(self, catalogue: Catalogue, name: str) -> Verdict:
        """Whether advertisers may use an audience on a catalogue."""
        with self._lock:
            if catalogue.version not in self._found:
                self._found[catalogue.version] = self._verdicts(catalogue)
            found = self._found[catalogue.version]
        return found.get(name, Verdict(NOT_HERE, "be one that the settings name"))

    def _verdicts(self, catalogue: Catalogue) -> dict[str, Verdict]:
        """What may be used is written down before anybody is told."""
        floors, version = self._settings, catalogue.version

        def read(name: str) -> Audience:
            return self._read(catalogue, name)

        while True:
            kept = self._archive.audiences(version)
            check_together(len({*kept, *self._names}), floors.audiences_together)
            found = verdicts(
                self._names,
                read,
                floors.min_audience,
                floors.min_difference,
                self._margin,
                floors.audiences_together,
                kept,
            )
            new = [name for name, one in found.items() if one.reason is None and name not in kept]
            people = {name: packed(headcounts(read(name))) for name in new}
            if self._archive.keep_audiences(version, len(kept), people):
                return found


def chosen_chapters(book: Book, window: Window) -> range:
    """The chapters that make up a window; refuses any other window, and says which are near."""
    start, end = _micros(window.start), _micros(window.end)
    chosen = book.within(start, end)
    if chosen is not None:
        return chosen
    allowed: dict[str, list[str]] = {"start": [], "end": []}
    told = []
    for name, moment, of_end in (("start", start, False), ("end", end, True)):
        if moment is None:
            continue
        near = [edge for edge in book.edges(moment, of_end=of_end) if edge is not None]
        allowed[name] = [text_of(edge) for edge in dict.fromkeys(near)]
        early = not of_end and book.shown and moment <= book.starts[0]
        if moment not in near and not early:
            verb = "end" if of_end else "begin"
            where = " or ".join(allowed[name])
            told.append(f"{name} must be where a chapter {verb}s ({where}), got {text_of(moment)}")
    raise Withheld("; ".join(told), NOT_WHOLE, allowed)


def moment_of(micros: int) -> datetime:
    """A time from millionths of a second since 1970."""
    return _EPOCH + timedelta(microseconds=micros)


def text_of(micros: int) -> str:
    """A time as documents write it."""
    return iso_text(moment_of(micros))


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)
