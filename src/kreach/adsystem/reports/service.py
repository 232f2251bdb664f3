"""What reporting answers, without HTTP. For use by several threads."""

from collections.abc import Iterable
from typing import Any

from kreach.adsystem.campaigns.campaign import campaign_from, check_runnable
from kreach.adsystem.campaigns.questions import PlanQuestion, ReachQuestion
from kreach.adsystem.campaigns.store import CampaignStore, StoredCampaign, UnknownCampaign
from kreach.adsystem.log.snapshot import LiveLog, LogFailing, Snapshot
from kreach.adsystem.log.totals import NOTHING, Standing
from kreach.adsystem.measurement.report import measure
from kreach.adsystem.reports.catalogue_cache import Shelf
from kreach.adsystem.reports.documents import Documents
from kreach.adsystem.reports.pacing import last_pace, pacing_of
from kreach.adsystem.reports.plans import outlooks
from kreach.adsystem.reports.reach import (
    Found,
    Subject,
    Totals,
    curve_of,
    reach_in,
    reach_so_far,
    series_of,
)
from kreach.adsystem.settings import EVERYONE, AdSystemSettings, ReportingSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.money import MICROS, as_micros
from kreach.boundary.times import Window, iso_text
from kreach.errors import KreachError
from kreach.service.logs import Log
from kreach.service.lru_cache import LruCache

__all__ = ["Reporting", "caps_of", "facts_of", "page_of"]

_REMEMBERED = 256
_NO_NUMBER = -1  # of a catalogue that the bidder has not met


class Reporting:
    """Campaigns, the log, and what can be told of them."""

    def __init__(self, shared: AdSystemSettings, settings: ReportingSettings, log: Log) -> None:
        self._shared = shared
        self.shelf = Shelf(shared, log)
        self.live = LiveLog(shared.store, settings.memory)
        try:
            self.campaigns = CampaignStore(shared.store)
        except KreachError:
            self.live.close()
            raise
        self._standing = Standing()
        self.documents = Documents()
        self._remembered = LruCache[tuple[Any, ...], dict[str, Any]](_REMEMBERED)
        self._unique: dict[int, tuple[tuple[int, ...], float | None]] = {}  # by campaign

    @property
    def shared(self) -> AdSystemSettings:
        """What bidder and reporting share."""
        return self._shared

    @property
    def standing(self) -> Standing:
        """Totals and counts at hand."""
        return self._standing

    def close(self) -> None:
        """Let go of the store."""
        self.live.close()
        self.campaigns.close()

    # -- campaigns ----------------------------------------------------------------------------

    def create(self, document: dict[str, Any]) -> dict[str, Any]:
        """Keep a new campaign that can be played on the newest catalogue."""
        campaign = campaign_from(document)
        check_runnable(campaign, self.shelf.audience(self.shelf.newest, campaign.audience))
        return self.campaigns.add(campaign).campaign.document()

    def change(self, campaign_id: str, changes: dict[str, Any]) -> dict[str, Any]:
        """Change what may change: pause, resume, end, budget, limits, creative."""
        return self.campaigns.change(campaign_id, changes).campaign.document()

    def listing(self, after: str | None, limit: int, owner: str | None = None) -> dict[str, Any]:
        """Campaigns in the order they were made, with what each has come to.

        With an owner, that advertiser's only: pages and `next` are as if there were no others.
        """
        kept = self.campaigns.all(owner=owner)
        page, following = page_of(kept, after, limit)
        with self.live.snapshot() as now:
            self.shelf.meet(now.numbers)
            totals = self._standing.totals(now)
            reach = self._unique_reach(now, page, totals)
        shown = [
            one.campaign.document() | {"status": _money(one, totals) | reach[one.number]}
            for one in page
        ]
        return {"currency": self._shared.currency, "campaigns": shown, "next": following}

    def _unique_reach(
        self, now: Snapshot, page: list[StoredCampaign], totals: Totals
    ) -> dict[int, dict[str, Any]]:
        """Unique reach of each campaign on its default catalogue; None where it cannot be told."""
        result: dict[int, dict[str, Any]] = {}
        wanted: dict[str, list[StoredCampaign]] = {}
        for one in page:
            catalogue = self._catalogue(now, one, totals, None)
            wanted.setdefault(catalogue.version, []).append(one)
        for version, several in wanted.items():
            catalogue = self.shelf.get(version)
            number = now.numbers.get(version, _NO_NUMBER)
            stale = {}
            for one in several:
                n = totals.get((one.number, number), NOTHING).impressions
                key = (now.generation, number, n)  # as many impressions are the same ones
                before, value = self._unique.get(one.number, (None, None))
                result[one.number] = {"catalogue": version, "unique_reach": value}
                if before != key:
                    stale[one.number] = (one, key)
            groups = len(catalogue)
            for campaign, counts in self._standing.counts_of(now, stale, number, groups):
                one, key = stale[campaign]
                try:
                    audience = self.shelf.audience(catalogue, one.campaign.audience)
                    value = measure(audience, counts, cap=1).reach
                except KreachError:  # this catalogue has no such audience
                    value = None
                result[campaign]["unique_reach"] = value
                self._unique[campaign] = (key, value)
        return result

    def status(self, campaign_id: str, level: float) -> dict[str, Any]:
        """A campaign and how it stands."""
        kept = self.campaigns.get(campaign_id)
        caps = tuple(sorted({1, *(cap.limit for cap in kept.campaign.caps)}))
        found: dict[str, Any]
        with self.live.snapshot() as now:
            totals = self._standing.totals(now)
            found = _money(kept, totals)
            try:
                subject = self._subject(now, kept, None)
                told, _ = self._so_far(now, subject, caps, level)
                found |= {
                    "catalogue": told["catalogue"],
                    "people": told["people"],
                    "unique_reach": told["reports"][0]["unique_reach"],
                    "reach": told["reports"],
                }
            except KreachError:  # this catalogue has no such audience
                found |= {"catalogue": None, "people": None, "unique_reach": None, "reach": []}
        pace = last_pace(self._shared.store, kept.number)
        return kept.campaign.document() | {"status": found | {"pace": pace}}

    # -- reports ------------------------------------------------------------------------------

    def _catalogue(
        self, now: Snapshot, kept: StoredCampaign, totals: Totals, asked: str | None
    ) -> Catalogue:
        """The one asked for; else the newest with impressions of the campaign, else the newest."""
        if asked is not None:
            return self.shelf.get(asked)
        for version in reversed(self.shelf.versions):
            if (kept.number, now.numbers.get(version, _NO_NUMBER)) in totals:
                return self.shelf.get(version)
        return self.shelf.newest

    def _subject(self, now: Snapshot, kept: StoredCampaign, asked: str | None) -> Subject:
        self.shelf.meet(now.numbers)
        catalogue = self._catalogue(now, kept, self._standing.totals(now), asked)
        audience = self.shelf.audience(catalogue, kept.campaign.audience)
        number = now.numbers.get(catalogue.version, _NO_NUMBER)
        return Subject(kept.campaign, catalogue, audience, (kept.number, number))

    def _so_far(
        self, now: Snapshot, subject: Subject, caps: tuple[int, ...], level: float
    ) -> tuple[dict[str, Any], int]:
        """The document of all impressions so far: as many as before mean the same document."""
        totals = self._standing.totals(now)
        mine = totals.get(subject.place, NOTHING)
        every = sum(t.impressions for place, t in totals.items() if place[0] == subject.place[0])
        key = ("so far", now.generation, subject.place, mine.impressions, every, caps, level)
        document = self._remembered.of(
            key,
            lambda: reach_so_far(now, self._standing, subject, caps).report.document(level),
        )
        return document, mine.spend_micros

    def reach(self, campaign_id: str, asked: ReachQuestion) -> dict[str, Any]:
        """Reach so far, or in a window."""
        kept = self.campaigns.get(campaign_id)
        caps = caps_of(kept, asked.caps)
        with self.live.snapshot() as now:
            subject = self._subject(now, kept, asked.catalogue)
            if asked.so_far:
                document, spend = self._so_far(now, subject, caps, asked.level)
                return document | facts_of(kept, spend, self._shared.currency)
            found = reach_in(now, subject, asked.window, caps)
        document = found.report.document(asked.level)
        return document | facts_of(kept, found.spend_micros, self._shared.currency)

    def series(self, campaign_id: str, by: str, asked: ReachQuestion) -> dict[str, Any]:
        """Reach period by period."""
        kept = self.campaigns.get(campaign_id)
        found: Found
        with self.live.snapshot() as now:
            subject = self._subject(now, kept, asked.catalogue)
            caps = caps_of(kept, asked.caps)
            found, document = series_of(
                now, subject, self.documents, asked.window, by, caps, asked.level
            )
        return document | facts_of(kept, found.spend_micros, self._shared.currency)

    def curve(self, campaign_id: str, by: str, asked: ReachQuestion) -> dict[str, Any]:
        """Reach so far over time, for a chart."""
        kept = self.campaigns.get(campaign_id)
        with self.live.snapshot() as now:
            subject = self._subject(now, kept, asked.catalogue)
            caps = caps_of(kept, asked.caps)
            points = curve_of(now, subject, self.documents, by, caps, asked.level)
        return {
            "campaign": campaign_id,
            "catalogue": subject.catalogue.version,
            "people": subject.audience.targeted_user_count,
            "by": by,
            "points": points,
        }

    def pacing(self, campaign_id: str, window: Window, points: int) -> dict[str, Any]:
        """How the money went."""
        kept = self.campaigns.get(campaign_id)
        rows = pacing_of(self._shared.store, kept.number, window, points)
        budget = as_micros("budget", kept.campaign.budget)
        return {"campaign": campaign_id, "budget_micros": budget, "pacing": rows}

    def plan(self, campaign_id: str, asked: PlanQuestion) -> dict[str, Any]:
        """What budgets would reach, on the newest catalogue."""
        kept = self.campaigns.get(campaign_id)
        newest = self.shelf.newest
        key = ("plan", kept.number, kept.revision, newest.version, asked)
        found = self._remembered.of(
            key,
            lambda: outlooks(
                kept.campaign, self.shelf.audience(newest, kept.campaign.audience), asked
            ),
        )
        return {"catalogue": newest.version, "currency": self._shared.currency, **found}

    def catalogues(self) -> dict[str, Any]:
        """The releases, the newest last, and the audiences that campaigns can have on them."""
        with self.live.snapshot() as now:
            self.shelf.meet(now.numbers)
        return {
            "catalogues": [_release(self.shelf.get(version)) for version in self.shelf.versions],
            "audiences": [EVERYONE, *self._shared.audiences],
            "currency": self._shared.currency,
        }

    # -- health -------------------------------------------------------------------------------

    def health(self) -> dict[str, Any]:
        """Whether log and campaigns can be read."""
        failure = self.look()
        return {
            "status": "ok" if failure is None else "failing",
            "log": failure or "ok",
            "catalogues": self.shelf.versions,
            "campaigns": sum(one.campaign.state == "running" for one in self.campaigns.all()),
        }

    def look(self) -> str | None:
        """Take over what is new in the log; what keeps us from it, if anything."""
        try:
            with self.live.snapshot():
                return None
        except LogFailing as error:
            return str(error)


def page_of(
    kept: list[StoredCampaign], after: str | None, limit: int
) -> tuple[list[StoredCampaign], str | None]:
    """Some campaigns after one of them, and the id to go on from if there are more."""
    if after is not None:
        at = next((at for at, one in enumerate(kept) if one.campaign.id == after), None)
        if at is None:
            raise UnknownCampaign(after)
        kept = kept[at + 1 :]
    page = kept[:limit]
    return page, page[-1].campaign.id if len(kept) > limit else None


def caps_of(kept: StoredCampaign, caps: Iterable[int]) -> tuple[int, ...]:
    """The caps asked for; without any, 1 and the campaign's own."""
    return tuple(dict.fromkeys(caps)) or tuple(dict.fromkeys([1, kept.campaign.largest_cap]))


def _release(catalogue: Catalogue) -> dict[str, Any]:
    sizes, visits, floor = catalogue.sizes, "evenly", None
    people = int(sizes.sum())
    if catalogue.classes is not None:
        people = sum(headcount for _, headcount in catalogue.classes)
        floor = catalogue.class_floor
    if catalogue.visit_shares is not None:
        visits = "shares"
    elif catalogue.dispersion is not None:
        visits = "dispersion"
    return {
        "version": catalogue.version,
        "created": iso_text(catalogue.created),
        "group_size": catalogue.group_size,
        "groups": len(catalogue),
        "people": people,
        "min_group": int(sizes.min(initial=people)),
        "mean_group": float(sizes.mean()) if len(sizes) else 0.0,
        "visits": visits,
        "dispersion": catalogue.dispersion,
        "class_floor": floor,
    }


def _money(kept: StoredCampaign, totals: Totals) -> dict[str, Any]:
    mine = [total for place, total in totals.items() if place[0] == kept.number]
    spent = sum(total.spend_micros for total in mine)
    budget = as_micros("budget", kept.campaign.budget)
    return {
        "impressions": sum(total.impressions for total in mine),
        "spend_micros": spent,
        "spend": spent / MICROS,
        "budget_left_micros": max(budget - spent, 0),
        "budget_left": max(budget - spent, 0) / MICROS,
    }


def facts_of(kept: StoredCampaign, spend_micros: int, currency: str) -> dict[str, Any]:
    """Of the campaign, beside a report; the spend is that of the impressions in the report."""
    campaign = kept.campaign.document()
    return {
        "audience": campaign["audience"],
        "state": campaign["state"],
        "flight": {"start": campaign["start"], "end": campaign["end"]},
        "spend_micros": spend_micros,
        "spend": spend_micros / MICROS,
        "currency": currency,
    }
