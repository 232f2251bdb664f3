"""Reporting as advertisers see it: whole chapters, and a reason for all that is not told."""

from dataclasses import replace
from typing import Any

import numpy as np

from kreach.adsystem.campaigns.questions import EVER, PlanQuestion, ReachQuestion
from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.disclosure.audiences import NOT_HERE, Verdict
from kreach.adsystem.disclosure.chapters.chapter import Book
from kreach.adsystem.disclosure.guard import TOO_FEW, Note, Withheld, chosen_chapters, text_of
from kreach.adsystem.disclosure.suppressions import Suppressions
from kreach.adsystem.reports.documents import in_short
from kreach.adsystem.reports.reach import Subject
from kreach.adsystem.reports.service import Reporting, caps_of, facts_of, page_of
from kreach.adsystem.reports.shown import ROWS, Shown, iso
from kreach.adsystem.settings import EVERYONE, GuardSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.money import MICROS, as_micros
from kreach.boundary.times import Window
from kreach.errors import KreachError
from kreach.service.clock import Clock

__all__ = ["GuardedReporting"]

Document = dict[str, Any]

_ALL = "impressions, spend, reach"
_DIARY = "multiplier, reserved, carried, requests, bids, wins, losses"


class GuardedReporting:
    """Campaigns and reports for advertisers, as `Reporting` has them. For use by several threads.

    Without `enabled` in the settings it shows what `reporting` shows. `clock` gives seconds since
    1970; it decides which points of the grid are over.
    """

    def __init__(self, reporting: Reporting, settings: GuardSettings, clock: Clock) -> None:
        self._inner, self._settings = reporting, settings
        self._shown = Shown(reporting, settings, clock)
        self._suppressions = Suppressions(clock)

    def close(self) -> None:
        """Let go of the chapters; `reporting` is its owner's."""
        self._shown.close()

    def suppressions(self) -> Document:
        """What was withheld lately, and why: for operators and publishers."""
        return self._suppressions.document()

    def suppressed_by_reason(self) -> dict[str, float]:
        """How often something was withheld since the start, for metrics."""
        return self._suppressions.by_reason()

    # -- campaigns ----------------------------------------------------------------------------

    def create(self, document: Document) -> Document:
        """Keep a new campaign, if advertisers may use its audience."""
        name = document.get("audience", EVERYONE)
        if self._settings.enabled and name in (EVERYONE, *self._inner.shared.audiences):
            newest = self._inner.shelf.newest
            self._check_audience(str(document.get("id")), name, newest, "a new campaign")
        return self._inner.create(document)

    def change(self, campaign_id: str, changes: Document) -> Document:
        """Change what may change."""
        changed = self._inner.change(campaign_id, changes)
        if self._settings.enabled:
            self._shown.over(self._inner.campaigns.get(campaign_id))  # bids may be out from now on
        return changed

    def listing(self, after: str | None, limit: int, owner: str | None = None) -> Document:
        """Campaigns in the order they were made, with what each has come to."""
        if not self._settings.enabled:
            return self._inner.listing(after, limit, owner)
        page, following = page_of(self._inner.campaigns.all(owner=owner), after, limit)
        self._shown.bring_up(page)
        shown = []
        for kept in page:
            told = self._tally(kept, "list")
            catalogue = self._shown.catalogue(kept, None)
            told["suppressed"] += self._reach_note(kept, catalogue, told)
            reach = self._shown.unique_reach(kept, catalogue) if _tells(told) else None
            told |= {"catalogue": catalogue.version, "unique_reach": reach}
            shown.append(kept.campaign.document() | {"status": told})
        currency = self._inner.shared.currency
        return {"currency": currency, "campaigns": shown, "next": following}

    def status(self, campaign_id: str, level: float) -> Document:
        """A campaign and how it stands, as of the end of the last chapter that is shown."""
        if not self._settings.enabled:
            return self._inner.status(campaign_id, level)
        kept = self._inner.campaigns.get(campaign_id)
        self._shown.bring_up([kept])
        told = self._tally(kept, "status")
        catalogue = self._shown.catalogue(kept, None)
        told |= {"catalogue": catalogue.version, "people": None, "unique_reach": None}
        told |= {"reach": [], "pace": None}
        if _tells(told):
            told["pace"] = self._shown.pacing(self._shown.books(kept), Window())[-1]
            told["suppressed"] += self._reach_note(kept, catalogue, told)
            told["suppressed"].append(Note.few_rows(_DIARY).document())
            told |= self._reach(kept, catalogue, level)
        return kept.campaign.document() | {"status": told}

    def _reach_note(
        self, kept: StoredCampaign, catalogue: Catalogue, told: Document
    ) -> list[Document]:
        """Why there is no reach beside numbers that there are."""
        verdict = self._shown.verdict(kept.campaign.audience, catalogue)
        if verdict.reason is None or not _tells(told):
            return []
        note = Note("reach", verdict.reason, f"the audience must {verdict.rule}")
        return [note.document()]

    def _reach(self, kept: StoredCampaign, catalogue: Catalogue, level: float) -> Document:
        """Reach so far by cap; nothing where the catalogue has no such audience."""
        chosen = range(self._shown.book(kept, catalogue).shown)
        if not chosen or self._shown.verdict(kept.campaign.audience, catalogue).reason is not None:
            return {}
        caps = tuple(sorted({1, *(cap.limit for cap in kept.campaign.caps)}))
        found = self._shown.report(self._shown.subject(kept, catalogue), chosen, caps, level)
        reports = found["reports"]
        told = {"people": found["people"], "reach": reports}
        return told | {"unique_reach": reports[0]["unique_reach"]}

    def verdict(self, audience: str, catalogue: Catalogue) -> Verdict:
        """Whether advertisers may use an audience on a catalogue."""
        return self._shown.verdict(audience, catalogue)

    # -- reports ------------------------------------------------------------------------------

    def reach(self, campaign_id: str, asked: ReachQuestion) -> Document:
        """Reach in all chapters that are shown, or in some."""
        if not self._settings.enabled:
            return self._inner.reach(campaign_id, asked)
        kept, subject, chosen = self._asked(campaign_id, asked, "reach")
        if chosen is None:
            return self._nothing(kept, subject, "reach")
        found = self._shown.report(subject, chosen, caps_of(kept, asked.caps), asked.level)
        return found | self._facts(kept, subject, chosen)

    def series(self, campaign_id: str, by: str, asked: ReachQuestion) -> Document:
        """Reach period by period; a period ends with the chapter that is under way at its end."""
        if not self._settings.enabled:
            return self._inner.series(campaign_id, by, asked)
        kept, subject, chosen = self._asked(campaign_id, asked, "series")
        if chosen is None:
            return self._nothing(kept, subject, "series") | {"by": by, "series": []}
        caps = caps_of(kept, asked.caps)
        series = self._shown.series(subject, chosen, by, caps, asked.level)
        whole = self._shown.report(subject, chosen, caps, asked.level)
        return whole | {"by": by, "series": series} | self._facts(kept, subject, chosen)

    def curve(self, campaign_id: str, by: str, asked: ReachQuestion) -> Document:
        """Reach so far at the ends of periods, as the series tells it."""
        if not self._settings.enabled:
            return self._inner.curve(campaign_id, by, asked)
        told = self.series(campaign_id, by, replace(asked, window=EVER))
        names = ("campaign", "catalogue", "people", "by")
        notes = [note for note in told["suppressed"] if note["what"] != ROWS]  # it has none
        points, so_far = [], 0
        for period in told["series"]:
            so_far += period["impressions"]
            reports = [in_short(report) for report in period["cumulative"]]
            points.append({"ts": period["end"], "impressions": so_far, "reports": reports})
        return {name: told[name] for name in names} | {"points": points, "suppressed": notes}

    def pacing(self, campaign_id: str, window: Window, points: int) -> Document:
        """Spend and impressions at the ends of chapters."""
        if not self._settings.enabled:
            return self._inner.pacing(campaign_id, window, points)
        kept = self._inner.campaigns.get(campaign_id)
        self._shown.bring_up([kept])
        told = self._tally(kept, "pacing")
        rows: list[Document] = []
        suppressed = told["suppressed"]
        if _tells(told):
            rows = _thinned(self._shown.pacing(self._shown.books(kept), window), points)
            suppressed = [*suppressed, Note.few_rows(_DIARY).document()]
        budget = as_micros("budget", kept.campaign.budget)
        document = {"campaign": campaign_id, "budget_micros": budget}
        return document | {"pacing": rows, "suppressed": suppressed}

    def plan(self, campaign_id: str, asked: PlanQuestion) -> Document:
        """What budgets would reach. It looks at no log, only at the audience."""
        if self._settings.enabled:
            audience = self._inner.campaigns.get(campaign_id).campaign.audience
            self._check_audience(campaign_id, audience, self._inner.shelf.newest, "plan")
        return self._inner.plan(campaign_id, asked)

    def catalogues(self) -> Document:
        """The releases, and the audiences that advertisers may use on the newest of them."""
        found = self._inner.catalogues()
        if not self._settings.enabled:
            return found
        newest = self._inner.shelf.newest
        verdicts = {name: self._shown.verdict(name, newest) for name in found["audiences"]}
        usable = [name for name, verdict in verdicts.items() if verdict.reason is None]
        return found | {"audiences": usable}

    # -- what may be told ---------------------------------------------------------------------

    def _check_audience(self, campaign_id: str, name: str, on: Catalogue, asked: str) -> None:
        verdict = self._shown.verdict(name, on)
        if verdict.reason not in (None, NOT_HERE):
            self._suppressions.add(str(verdict.reason), campaign_id, asked)
            rule = f"{verdict.rule} to be used by advertisers"
            said = str(KreachError.rule("audience", rule, name))
            raise Withheld(said, str(verdict.reason))

    def _tally(self, kept: StoredCampaign, asked: str) -> Document:
        """Impressions, spend and what is left, up to the last chapters shown; or nothing at all."""
        books = self._shown.books(kept)
        notes = []
        if self._shown.behind(kept):
            notes.append(Note.log_behind())
        verdict = self._shown.verdict(kept.campaign.audience, self._inner.shelf.newest)
        if verdict.reason not in (None, NOT_HERE):
            why = f"the audience must {verdict.rule} to be used by advertisers"
            notes.append(Note(_ALL, str(verdict.reason), why))
            books = []
        elif not books:
            notes.append(Note.too_few(self._settings, _ALL))
        for note in notes:
            self._suppressions.add(note.reason, kept.campaign.id, asked)
        return _money(kept, books) | {"suppressed": [note.document() for note in notes]}

    def _asked(
        self, campaign_id: str, asked: ReachQuestion, what: str
    ) -> tuple[StoredCampaign, Subject, range | None]:
        """What a report is about; no chapters if there are none yet. Refuses what is withheld."""
        kept = self._inner.campaigns.get(campaign_id)
        self._shown.bring_up([kept])
        catalogue = self._shown.catalogue(kept, asked.catalogue)
        words = f"{what} {_words(asked.window)}"
        self._check_audience(campaign_id, kept.campaign.audience, catalogue, words)
        subject = self._shown.subject(kept, catalogue)
        book = self._shown.book(kept, catalogue)
        if not book.shown and asked.so_far:
            return kept, subject, None
        try:
            if not book.shown:
                why = Note.too_few(self._settings, _ALL).why
                raise Withheld(f"window must wait: {why}, got {_words(asked.window)}", TOO_FEW)
            return kept, subject, chosen_chapters(book, asked.window)
        except Withheld as error:
            self._suppressions.add(error.reason, campaign_id, words)
            raise

    def _nothing(self, kept: StoredCampaign, subject: Subject, asked: str) -> Document:
        """A report of a campaign of which nothing is shown yet."""
        note = Note.too_few(self._settings, _ALL)
        self._suppressions.add(note.reason, kept.campaign.id, asked)
        document: Document = {"campaign": kept.campaign.id, "start": None, "end": None}
        document |= {"catalogue": subject.catalogue.version, "impressions": None}
        document |= {"rejected": {}, "warnings": {}, "basis": None, "reports": []}
        document |= {"people": subject.audience.targeted_user_count}
        document |= self._facts(kept, subject, range(0))
        return document | {"spend_micros": None, "spend": None, "suppressed": [note.document()]}

    def _facts(self, kept: StoredCampaign, subject: Subject, chosen: range) -> Document:
        return facts_of(kept, self._shown.spend(subject, chosen), self._inner.shared.currency)


def _tells(told: Document) -> bool:
    return told["impressions"] is not None


def _money(kept: StoredCampaign, books: list[Book]) -> Document:
    """What shown chapters come to; nulls without any."""
    if not books:
        names = ("impressions", "spend_micros", "spend", "budget_left_micros", "budget_left")
        return dict.fromkeys((*names, "as_of"))
    last = max(int(book.ends[-1]) for book in books)
    spent = sum(book.spend_at(last) for book in books)
    left = max(as_micros("budget", kept.campaign.budget) - spent, 0)
    return {
        "impressions": sum(book.impressions_at(last) for book in books),
        "spend_micros": spent,
        "spend": spent / MICROS,
        "budget_left_micros": left,
        "budget_left": left / MICROS,
        "as_of": text_of(last),
    }


def _thinned(rows: list[Document], points: int) -> list[Document]:
    """At most so many, the last of each stretch."""
    if len(rows) <= points:
        return rows
    last = np.linspace(0, len(rows), points + 1)[1:].round().astype(int) - 1
    return [rows[at] for at in last.tolist()]


def _words(window: Window) -> str:
    return f"from {iso(window.start) or 'the first'} to {iso(window.end) or 'the last'}"
