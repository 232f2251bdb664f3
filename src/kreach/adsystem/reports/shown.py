"""Chapters of campaigns and the numbers on them: all that advertisers' documents are made of.

Impressions by group come from chapters as they were written down when they were closed; the rest
is the library's, so every number is that of `measure` on these impressions.
"""

import time
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np

from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.disclosure.audiences import Verdict, served_people
from kreach.adsystem.disclosure.chapters.builder import Watched
from kreach.adsystem.disclosure.chapters.chapter import Book
from kreach.adsystem.disclosure.chapters.store import Archive
from kreach.adsystem.disclosure.chapters.writer import Keeper
from kreach.adsystem.disclosure.guard import Audiences, Note, moment_of, text_of
from kreach.adsystem.log.snapshot import Snapshot, micros_of
from kreach.adsystem.measurement.report import measure
from kreach.adsystem.reports.documents import measured
from kreach.adsystem.reports.reach import MAX_PERIODS, MAX_SECONDS, Subject
from kreach.adsystem.reports.service import Reporting
from kreach.adsystem.reports.window import WindowReport
from kreach.adsystem.settings import EVERYONE, GuardSettings
from kreach.adsystem.store_layout import guard_key
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.times import Window, iso_text
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.service.clock import Clock
from kreach.service.lru_cache import LruCache

__all__ = ["ROWS", "Shown", "iso"]

Document = dict[str, Any]

_REMEMBERED = 256
ROWS = "rejected, warnings"  # counts of rows, of which there may be few
_OF_THE_DIARY = (
    *("multiplier", "reserved_micros", "carried_micros"),
    *("requests", "bids", "wins", "losses", "win_rate"),
)


class Shown:
    """What may be shown of the campaigns of a store. For use by several threads."""

    def __init__(self, inner: Reporting, settings: GuardSettings, clock: Clock) -> None:
        self._inner, self._clock = inner, clock
        self._archive = Archive(inner.shared.store)
        self._keeper = Keeper(self._archive, settings)
        names = [EVERYONE, *inner.shared.audiences]
        key = guard_key(inner.shared.store)
        self._audiences = Audiences(inner.shelf.audience, names, settings, key, self._archive)
        self._remembered = LruCache[tuple[Any, ...], Any](_REMEMBERED)  # chapters do not change
        self._unique: dict[tuple[int, str], tuple[int, float]] = {}
        self._versions: dict[str, None] = {}  # of catalogues that the log has rows of

    def close(self) -> None:
        """Let go of the chapters."""
        self._archive.close()

    def verdict(self, audience: str, catalogue: Catalogue) -> Verdict:
        """Whether advertisers may use an audience on a catalogue."""
        return self._audiences.verdict(catalogue, audience)

    # -- chapters -----------------------------------------------------------------------------

    def bring_up(self, several: list[StoredCampaign]) -> None:
        """Close the chapters that can be closed, of all these campaigns together."""
        inner, moment = self._inner, int(self._clock() * 1e6)
        with inner.live.snapshot() as now:
            inner.shelf.meet(now.numbers)
            totals = inner.standing.totals(now)
            rows = {numbers: total.impressions for numbers, total in totals.items()}
            watched = [
                one for kept in several for one in self._watched(now, kept, rows, self.over(kept))
            ]
            self._keeper.bring_up(now, rows, watched, moment)
            self._versions |= dict.fromkeys(now.numbers)

    def _watched(
        self,
        now: Snapshot,
        kept: StoredCampaign,
        rows: dict[tuple[int, int], int],
        over: int | None,
    ) -> Iterable[Watched]:
        shelf, start = self._inner.shelf, micros_of(kept.campaign.start)
        for version, number in now.numbers.items():
            place, numbers = (kept.number, version), (kept.number, number)
            if numbers not in rows:
                continue
            if version in shelf.versions:
                catalogue = shelf.get(version)
                people = partial(self._people, kept.campaign.audience, catalogue)
                yield Watched(place, numbers, len(catalogue), start, over, people)
            else:
                yield Watched(place, numbers, None, start, over, None)

    def _people(self, audience: str, catalogue: Catalogue, groups: IntArray) -> int:
        """Targeted people in these groups; nobody, where the audience is not for advertisers."""
        if self.verdict(audience, catalogue).reason is not None:
            return 0
        return served_people(self._inner.shelf.audience(catalogue, audience), groups)

    def over(self, kept: StoredCampaign) -> int | None:
        """Take note of a campaign's end: when its last bid was made, if that is past."""
        end, moment = micros_of(kept.campaign.end), int(self._clock() * 1e6)
        ended = kept.campaign.state == "ended"
        return self._keeper.over(kept.number, end, ended=ended, now_micros=moment)

    def book(self, kept: StoredCampaign, catalogue: Catalogue) -> Book:
        """The chapters of a campaign on a catalogue."""
        return self._keeper.book((kept.number, catalogue.version))

    def books(self, kept: StoredCampaign) -> list[Book]:
        """The chapters of a campaign on all catalogues of which something is shown."""
        found = [self._keeper.book((kept.number, version)) for version in self._versions]
        return [book for book in found if book.shown]

    def behind(self, kept: StoredCampaign) -> bool:
        """Whether the log lacks rows of a campaign that were shown before."""
        return any(self._keeper.behind((kept.number, version)) for version in self._versions)

    def catalogue(self, kept: StoredCampaign, asked: str | None) -> Catalogue:
        """The one asked for; else the newest with something to show, else the newest."""
        shelf = self._inner.shelf
        if asked is not None:
            return shelf.get(asked)
        for version in reversed(shelf.versions):
            if self._keeper.book((kept.number, version)).shown:
                return shelf.get(version)
        return shelf.newest

    def subject(self, kept: StoredCampaign, catalogue: Catalogue) -> Subject:
        """What is measured."""
        audience = self._inner.shelf.audience(catalogue, kept.campaign.audience)
        return Subject(kept.campaign, catalogue, audience, (kept.number, 0))

    # -- numbers ------------------------------------------------------------------------------

    def unique_reach(self, kept: StoredCampaign, catalogue: Catalogue) -> float | None:
        """People reached in all chapters shown; None where that cannot be told."""
        shown = self.book(kept, catalogue).shown
        if not shown or self.verdict(kept.campaign.audience, catalogue).reason is not None:
            return None
        place = (kept.number, catalogue.version)
        chapters, value = self._unique.get(place, (0, 0.0))
        if chapters != shown:
            subject = self.subject(kept, catalogue)
            value = measure(subject.audience, self._counts(subject, range(shown)), cap=1).reach
            self._unique[place] = (shown, value)
        return value

    def report(
        self, subject: Subject, chosen: range, caps: tuple[int, ...], level: float
    ) -> Document:
        """The document of some chapters, with what they cost."""
        key = ("report", _place(subject), chosen, caps, level)
        found: Document = self._remembered.of(
            key, partial(self._report, subject, chosen, caps, level)
        )
        return found

    def _report(
        self, subject: Subject, chosen: range, caps: tuple[int, ...], level: float
    ) -> Document:
        book = self._keeper.book(_place(subject))
        reports = measured(subject.audience, self._counts(subject, chosen), caps)
        window = _window(book, chosen)
        made = WindowReport(
            subject.campaign.id,
            window,
            subject.catalogue.version,
            reports[0].impressions,
            {"no_time": 0, "no_group": 0, "no_campaign": 0},  # the ledger writes no such rows
            {},
            reports,
        ).document(level)
        made["rejected"] |= {"unknown_group": None, "other_catalogue": None}
        if window.start is None or window.start < subject.catalogue.created:
            made["warnings"] = {"before_catalogue": None}
        note = Note.few_rows(ROWS)
        return made | {"suppressed": [note.document()]}

    def spend(self, subject: Subject, chosen: range) -> int:
        """What the impressions of some chapters cost, in micros."""
        book = self._keeper.book(_place(subject))
        return sum(book[at].spend_micros for at in chosen)

    def series(
        self, subject: Subject, chosen: range, by: str, caps: tuple[int, ...], level: float
    ) -> list[Document]:
        """Chapters put together by periods, each alone and cumulative."""
        key = ("series", _place(subject), chosen, by, caps, level)
        made = partial(self._series, subject, chosen, by, caps, level)
        found: list[Document] = self._remembered.of(key, made)
        return found

    def _series(
        self, subject: Subject, chosen: range, by: str, caps: tuple[int, ...], level: float
    ) -> list[Document]:
        book = self._keeper.book(_place(subject))
        stretches = book.merged(chosen, by)
        if len(stretches) > MAX_PERIODS:
            rule = f"hold at most {MAX_PERIODS} periods"
            raise KreachError.rule("window", rule, f"{len(stretches)} by {by}")
        deadline = time.monotonic() + MAX_SECONDS
        running = np.zeros(len(subject.catalogue), dtype=np.int64)
        documents = self._inner.documents
        series = []
        for stretch in stretches:
            if time.monotonic() > deadline:
                rule = f"take at most {MAX_SECONDS:g} seconds: ask for fewer periods or caps"
                raise KreachError.rule("series", rule, f"{len(stretches)} periods")
            counts = self._counts(subject, stretch)
            running = running + counts
            window = _window(book, stretch)
            series.append(
                {
                    "start": iso(window.start),
                    "end": iso(window.end),
                    "impressions": int(counts.sum()),
                    "period": documents.of(subject.audience, counts, caps, level),
                    "cumulative": documents.of(subject.audience, running, caps, level),
                }
            )
        return series

    def pacing(self, books: list[Book], window: Window) -> list[Document]:
        """Where a campaign stood at the end of each chapter in a window, on all catalogues.

        What the bidder wrote down is left out: it did so at other moments than those where
        chapters end, and bids or wins beside exact impressions would count those of seconds.
        """
        low = -(2**62) if window.start is None else micros_of(window.start)
        high = 2**62 if window.end is None else micros_of(window.end)
        ends = sorted({end for book in books for end in book.ends.tolist() if low <= end < high})
        return [
            {
                "ts": text_of(end),
                "spent_micros": sum(book.spend_at(end) for book in books),
                "impressions": sum(book.impressions_at(end) for book in books),
            }
            | dict.fromkeys(_OF_THE_DIARY)
            for end in ends
        ]

    def _counts(self, subject: Subject, chosen: range) -> IntArray:
        return self._keeper.counts(_place(subject), chosen, len(subject.catalogue))


def _place(subject: Subject) -> tuple[int, str]:
    return subject.place[0], subject.catalogue.version


def _window(book: Book, chosen: range) -> Window:
    start, end = book[chosen.start].start_micros, book[chosen.stop - 1].end_micros
    return Window(moment_of(start), moment_of(end))


def iso(moment: datetime | None) -> str | None:
    """A time as documents write it; None stays None."""
    return None if moment is None else iso_text(moment)
