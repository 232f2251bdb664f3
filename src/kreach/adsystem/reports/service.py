"""The report service: campaigns and their reports, under a disclosure policy. No HTTP here.

One service serves operators and advertisers alike: the policy decides what a caller may see, the
route whose campaigns a caller may name (`api.scope`). For use by several threads.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from kreach.adsystem.campaigns.campaign import (
    Campaign,
    campaign_from,
    check_runnable,
    owner_of,
)
from kreach.adsystem.campaigns.family import Family, check_family, family_from
from kreach.adsystem.campaigns.quota import Quota
from kreach.adsystem.campaigns.store import (
    NoSuchFamily,
    StoredCampaign,
    StoredFamily,
    UnknownCampaign,
    UnknownFamily,
)
from kreach.adsystem.log.snapshot import LogIncomplete, LogUnavailable
from kreach.adsystem.reports.combined_report import CombinedDocument
from kreach.adsystem.reports.context import ReportContext
from kreach.adsystem.reports.delivery import delivery_state
from kreach.adsystem.reports.flight_plans import campaign_flight, flight_plan
from kreach.adsystem.reports.live_panel_together import panel_document
from kreach.adsystem.reports.observed import observed_requests
from kreach.adsystem.reports.pacing import (
    applied_at,
    applied_family_revision,
    applied_revision,
    shortfalls,
)
from kreach.adsystem.reports.policy import Delivery, Figures, Policy, Subject, View, Withheld
from kreach.adsystem.reports.questions import EVER, FlightQuestion, PlanQuestion, ReachQuestion
from kreach.adsystem.reports.report import (
    CampaignDefinition,
    CampaignList,
    CampaignStatus,
    CampaignSummary,
    CatalogueList,
    CatalogueSummary,
    Crossed,
    CurveDocument,
    FamilyDefinition,
    FamilyList,
    Flight,
    Health,
    PacingDocument,
    PlanDocument,
    ReachDocument,
    SeriesDocument,
    Status,
    Summary,
    Suppressed,
)
from kreach.adsystem.reports.suppressions import Suppressions
from kreach.adsystem.reports.together import check_together, together_document
from kreach.adsystem.reports.visible import VisibleAudiences
from kreach.adsystem.settings import EVERYONE, AdvertiserLimits
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.money import MICROS, as_micros
from kreach.boundary.times import Window, from_seconds, iso_optional, iso_text
from kreach.errors import KreachError
from kreach.service.clock import Clock
from kreach.service.lru_cache import LruCache

__all__ = ["ReportService"]

_MAX_PLANS = 256
_OBSERVED_SECONDS = 600.0


class ReportService:
    """Campaigns, reach, series, pacing and plans as one policy shows them."""

    def __init__(
        self, store: ReportContext, policy: Policy, clock: Clock, *, review_required: bool = False
    ) -> None:
        """With `review_required` new creatives wait until an operator approves them."""
        self.store, self.policy, self._clock = store, policy, clock
        self._review_required = review_required
        self.suppressions = Suppressions(clock)
        self._plans = LruCache[tuple[Any, ...], PlanDocument](_MAX_PLANS)
        self._visible = VisibleAudiences(store.catalogues, policy)

    def close(self) -> None:
        """Close the policy; the caller owns the store."""
        self.policy.close()

    # -- campaigns ----------------------------------------------------------------------------

    def create(
        self, document: dict[str, Any], limits: AdvertiserLimits | None = None
    ) -> CampaignDefinition:
        """Store a new campaign that can bid on the newest catalogue, within its owner's limits."""
        name, newest = document.get("audience", EVERYONE), self.store.catalogues.newest
        if name in self.store.audience_names:
            self._check_audience(
                str(document.get("id")), name, newest, "a new campaign", field="audience"
            )
        campaign = campaign_from(document, new_creatives=True)
        self._check_known(campaign.audience)
        audience = self.store.catalogues.audience(newest, campaign.audience)
        check_runnable(campaign, audience)
        if campaign.family is not None:
            check_family(self._family_of(campaign), audience)
        stored = self.store.campaigns.add(
            campaign, self._quota(limits), review_required=self._review_required
        )
        return self._definition(stored)

    def _family_of(self, campaign: Campaign) -> Family:
        assert campaign.family is not None
        try:
            return self.store.campaigns.get_family(campaign.family).family
        except UnknownFamily:
            raise NoSuchFamily(campaign.family) from None

    def change(
        self, campaign_id: str, changes: dict[str, Any], limits: AdvertiserLimits | None = None
    ) -> CampaignDefinition:
        """Change state, budget, end, bid limits, creatives or deals."""
        stored = self.store.campaigns.change(
            campaign_id, changes, self._quota(limits), review_required=self._review_required
        )
        self.policy.campaign_changed(stored)
        return self._definition(stored)

    def _definition(self, stored: StoredCampaign) -> CampaignDefinition:
        return _definition(stored.campaign, self._in_force(stored))

    def _in_force(self, stored: StoredCampaign) -> bool | None:
        return _in_force(stored, applied_revision(self.store.settings.store))

    def _quota(self, limits: AdvertiserLimits | None) -> Quota | None:
        return None if limits is None else Quota(limits, self._clock())

    def review(
        self,
        campaign_id: str,
        creative: str,
        decision: str,
        reason: str | None,
        version: str | None,
    ) -> CampaignDefinition:
        """Approve or reject a creative."""
        stored = self.store.campaigns.review(campaign_id, creative, decision, reason, version)
        return self._definition(stored)

    def create_family(
        self, document: dict[str, Any], limits: AdvertiserLimits | None = None
    ) -> FamilyDefinition:
        """Store a new family."""
        family, quota = family_from(document), self._quota(limits)
        return self._family(self.store.campaigns.add_family(family, quota))

    def change_family(self, family_id: str, changes: dict[str, Any]) -> FamilyDefinition:
        """Change a family's budget."""
        return self._family(self.store.campaigns.change_family(family_id, changes))

    def family(self, family_id: str) -> FamilyDefinition:
        """A family and its campaigns."""
        return self._family(self.store.campaigns.get_family(family_id))

    def families(self, owner: str | None = None) -> FamilyList:
        """Families in the order they were created; with an owner, that advertiser's only."""
        members: dict[str, list[str]] = {}
        for each in self.store.campaigns.all(owner=owner):
            if each.campaign.family is not None:
                members.setdefault(each.campaign.family, []).append(each.campaign.id)
        applied = applied_family_revision(self.store.settings.store)
        found = [
            _family_definition(each, members.get(each.family.id, []), applied)
            for each in self.store.campaigns.families(owner=owner)
        ]
        return FamilyList(currency=self.store.settings.currency, families=tuple(found))

    def _family(self, stored: StoredFamily) -> FamilyDefinition:
        family = stored.family
        campaigns = self.store.campaigns.all(owner=owner_of(family.id))
        members = [each.campaign.id for each in campaigns if each.campaign.family == family.id]
        applied = applied_family_revision(self.store.settings.store)
        return _family_definition(stored, members, applied)

    def listing(self, after: str | None, limit: int, owner: str | None = None) -> CampaignList:
        """Campaigns in the order they were created, with the delivery of each.

        With an owner, that advertiser's only: pages and `next` are as if there were no others.
        """
        page, following = _page(self.store.campaigns.all(owner=owner), after, limit)
        summaries = []
        applied = applied_revision(self.store.settings.store)
        with self.policy.view(page) as view:
            unique, short = view.unique_reach(page), self._shortfalls(view)
            for stored in page:
                delivery = self._delivery(view, stored, "list")
                version, reach = unique[stored.number]
                visible = delivery.impressions is not None
                notes = self._reach_notes(view, stored, version) if visible else ()
                summaries.append(
                    CampaignSummary(
                        **_fields(_definition(stored.campaign, _in_force(stored, applied))),
                        status=Summary(
                            **_money(stored, delivery, notes),
                            **self._delivery_state(stored, delivery, short),
                            not_bidding=_not_bidding(stored),
                            catalogue=version,
                            unique_reach=reach if visible else None,
                        ),
                    )
                )
        currency = self.store.settings.currency
        return CampaignList(currency=currency, campaigns=tuple(summaries), next=following)

    def status(self, campaign_id: str, level: float) -> CampaignStatus:
        """A campaign, its delivery, and reach so far at its own caps."""
        stored = self.store.campaigns.get(campaign_id)
        caps = stored.campaign.report_caps
        with self.policy.view([stored]) as view:
            delivery = self._delivery(view, stored, "status")
            catalogue = view.catalogue(stored, None)
            notes: tuple[Suppressed, ...] = ()
            figures, pace, people = Figures(EVER), None, None
            if delivery.impressions is not None:
                pace = view.last_pace(stored)
                notes = self._reach_notes(view, stored, catalogue.version)
                subject = None if notes else self._subject(stored, catalogue)
                if subject is not None:
                    figures = view.figures(subject, EVER, caps, level)
                    people = subject.audience.targeted_user_count
                notes += figures.notes + _as_tuple(view.pacing_note)
            state = self._delivery_state(stored, delivery, self._shortfalls(view))
        reports = figures.reports
        definition = self._definition(stored)  # first: what it says is in force has a time then
        status = Status(
            **_money(stored, delivery, notes),
            **state,
            not_bidding=_not_bidding(stored),
            catalogue=catalogue.version,
            unique_reach=reports[0].unique_reach if reports else None,
            people=people if reports else None,
            reach=reports,
            pace=pace,
            in_force_since=applied_at(self.store.settings.store, stored.number, stored.revision),
            noise=figures.noise,
            correction=figures.correction,
            log_behind_seconds=self._log_behind(),
        )
        return CampaignStatus(**_fields(definition), status=status)

    def _log_behind(self) -> float | None:
        ages = [source.seconds_behind for source in self.store.sources()]
        known = [age for age in ages if age is not None]
        return round(max(known), 3) if known else None

    def _delivery(self, view: View, stored: StoredCampaign, question: str) -> Delivery:
        delivery = view.delivery(stored)
        for note in delivery.notes:
            self.suppressions.add(note.reason, stored.campaign.id, question)
        return delivery

    def _shortfalls(self, view: View) -> dict[int, str]:
        """Why campaigns cannot spend their budgets; nothing where bidders' records are withheld."""
        return {} if view.pacing_note is not None else shortfalls(self.store.settings.store)

    def _delivery_state(
        self, stored: StoredCampaign, delivery: Delivery, short: Mapping[int, str]
    ) -> dict[str, Any]:
        """The state for people and its reason, as far as the policy shows them."""
        now, spend = from_seconds(self._clock()), delivery.spend_micros
        state, reason = delivery_state(stored.campaign, now, spend, short.get(stored.number))
        return {"delivery": state, "delivery_reason": reason}

    def _subject(self, stored: StoredCampaign, catalogue: Catalogue) -> Subject | None:
        """What is measured; None on an older catalogue without the campaign's audience."""
        try:
            return self.store.subject(stored, catalogue)
        except KreachError:
            return None

    def _reach_notes(
        self, view: View, stored: StoredCampaign, version: str
    ) -> tuple[Suppressed, ...]:
        """Why there is no reach beside figures that are shown."""
        catalogue = self.store.catalogues.get(version)
        return _as_tuple(view.reach_refusal(stored.campaign.audience, catalogue))

    # -- reports ------------------------------------------------------------------------------

    def reach(self, campaign_id: str, question: ReachQuestion) -> ReachDocument:
        """Reach so far, or in a window."""
        with self._report(campaign_id, question, "reach") as (view, subject):
            caps = self._caps(subject.stored, question.caps)
            figures = view.figures(subject, question.window, caps, question.level)
            self._note_nothing(subject, figures, "reach")
            return ReachDocument(**self._document(view, subject, figures))

    def series(self, campaign_id: str, by: str, question: ReachQuestion) -> SeriesDocument:
        """Reach period by period, alone and cumulative."""
        with self._report(campaign_id, question, "series") as (view, subject):
            caps = self._caps(subject.stored, question.caps)
            series = view.series(subject, question.window, by, caps, question.level)
            self._note_nothing(subject, series.whole, "series")
            whole = self._document(view, subject, series.whole)
            return SeriesDocument(**whole, by=by, series=series.periods)

    def together(
        self, campaign_ids: Sequence[str], names: Sequence[str], question: ReachQuestion
    ) -> CombinedDocument:
        """Several campaigns alone and together, under the names that the caller uses.

        Caps default to 1; the catalogue to the newest that the first campaign ran on.
        """
        campaigns = [self.store.campaigns.get(campaign) for campaign in campaign_ids]
        text = f"together {_window_text(question.window)}"
        with self.policy.view(campaigns) as view:
            catalogue = view.catalogue(campaigns[0], question.catalogue)
            for stored in campaigns:
                audience = stored.campaign.audience
                self._check_audience(stored.campaign.id, audience, catalogue, text)
            subjects = {
                name: self.store.subject(stored, catalogue)
                for name, stored in zip(names, campaigns, strict=True)
            }
            check_together(subjects)
            caps = self._caps(campaigns[0], question.caps or (1,))
            try:
                shown = view.together(subjects, question.window)
            except Withheld as error:
                self.suppressions.add(error.reason, campaigns[0].campaign.id, text)
                raise
            if shown.parts is None:
                for note in shown.notes:
                    self.suppressions.add(note.reason, campaigns[0].campaign.id, text)
            document = together_document(subjects, shown, caps, question.level)
            return panel_document(
                self.store.corrections, view, subjects, shown, document, question.level
            )

    def curve(self, campaign_id: str, by: str, question: ReachQuestion) -> CurveDocument:
        """Reach so far over time, for a chart."""
        with self._report(campaign_id, question, "curve") as (view, subject):
            caps = self._caps(subject.stored, question.caps)
            points, notes = view.curve(subject, by, caps, question.level)
            return CurveDocument(
                campaign=campaign_id,
                catalogue=subject.catalogue.version,
                people=subject.audience.targeted_user_count,
                by=by,
                points=points,
                suppressed=notes,
            )

    def pacing(self, campaign_id: str, window: Window, points: int) -> PacingDocument:
        """Spend of the budget over time."""
        stored = self.store.campaigns.get(campaign_id)
        with self.policy.view([stored]) as view:
            delivery = self._delivery(view, stored, "pacing")
            visible = delivery.impressions is not None
            rows = view.pacing(stored, window, points) if visible else ()
            notes = delivery.notes + (_as_tuple(view.pacing_note) if visible else ())
        budget = as_micros("budget", stored.campaign.budget)
        return PacingDocument(
            campaign=campaign_id, budget_micros=budget, pacing=rows, suppressed=notes
        )

    def plan(self, campaign_id: str, question: PlanQuestion) -> PlanDocument:
        """Forecast reach of budgets for a campaign's flight, on the newest catalogue."""
        stored = self.store.campaigns.get(campaign_id)
        self._check_audience(
            campaign_id, stored.campaign.audience, self.store.catalogues.newest, "plan"
        )
        made = self._flight_plan(campaign_flight(stored.campaign, question))
        return msgspec.structs.replace(made, campaign=campaign_id)

    def plan_flight(self, question: FlightQuestion) -> PlanDocument:
        """Forecast a flight that no campaign has yet, on the newest catalogue."""
        newest, name = self.store.catalogues.newest, question.audience
        self._check_known(name)
        self._check_audience("(a plan)", name, newest, "plan", field="audience")
        return self._flight_plan(question)

    def _flight_plan(self, question: FlightQuestion) -> PlanDocument:
        """The one answer to a question, whoever asks it in whatever way."""
        newest, name = self.store.catalogues.newest, question.audience
        audience = self.store.catalogues.audience(newest, name)
        rounds = self.policy.visible_floor(newest) is not None
        age = int(self._clock() // _OBSERVED_SECONDS)  # what was observed changes
        made = self._plans.get_or_make(
            (newest.version, question, age),
            lambda: flight_plan(question, audience, newest, self.store.settings, rounds=rounds),
        )
        return msgspec.structs.replace(made, visible=self._visible.of(newest, name))

    def _usable_audiences(self) -> list[str]:
        """Those that a caller may know of and use on the newest catalogue."""
        newest = self.store.catalogues.newest
        names = self.store.audience_names
        return [name for name in names if self.policy.audience_refusal(name, newest) is None]

    def _check_known(self, name: object) -> None:
        if name not in self.store.audience_names:
            known = ", ".join(self._usable_audiences())
            raise KreachError.rule("audience", f"be one of {known}", name)

    def catalogues(self, advertisers: Policy | None = None) -> CatalogueList:
        """The releases, the newest last, and the audiences that campaigns can target on it.

        `advertisers` is the policy whose spent noise is shown, to who may see what crossed.
        """
        cache = self.store.catalogues
        with self.store.live.snapshot() as now:
            cache.refresh(now.catalogue_numbers)
        newest, usable = cache.newest, self._usable_audiences()
        return CatalogueList(
            catalogues=tuple(_catalogue_summary(cache.get(version)) for version in cache.versions),
            audiences=tuple(usable),
            currency=self.store.settings.currency,
            visible=tuple(self._visible.all(newest, usable)),
            **(self._spent(advertisers) if self.policy.visible_floor(newest) is None else {}),
        )

    def _spent(self, advertisers: Policy | None) -> dict[str, Any]:
        return {
            "crossed": self._crossed(),
            "noise": None if advertisers is None else advertisers.noise_budget(),
            "panel": self.store.corrections.budget(),
        }

    def _crossed(self) -> Crossed:
        corrections, rho = self.store.corrections.crossed()
        return Crossed(
            catalogues=len(self.store.catalogues.versions),
            group_ids=observed_requests(self.store.settings.store),
            corrections=corrections,
            panel_rho=rho,
        )

    @contextmanager
    def _report(
        self, campaign_id: str, question: ReachQuestion, kind: str
    ) -> Iterator[tuple[View, Subject]]:
        """The view and the subject of a report; records what the policy withholds."""
        stored = self.store.campaigns.get(campaign_id)
        text = kind if kind == "curve" else f"{kind} {_window_text(question.window)}"
        with self.policy.view([stored]) as view:
            catalogue = view.catalogue(stored, question.catalogue)
            self._check_audience(campaign_id, stored.campaign.audience, catalogue, text)
            subject = self.store.subject(stored, catalogue)
            try:
                yield view, subject
            except Withheld as error:
                self.suppressions.add(error.reason, campaign_id, text)
                raise

    def _note_nothing(self, subject: Subject, figures: Figures, kind: str) -> None:
        if figures.impressions is None:
            for note in figures.notes:
                self.suppressions.add(note.reason, subject.stored.campaign.id, kind)

    def _check_audience(
        self,
        campaign_id: str,
        audience: str,
        catalogue: Catalogue,
        question: str,
        field: str | None = None,
    ) -> None:
        note = self.policy.audience_refusal(audience, catalogue)
        if note is not None:
            self.suppressions.add(note.reason, campaign_id, question)
            raise Withheld(f"audience {audience!r}: {note.why}", note.reason, field=field)

    def _caps(self, stored: StoredCampaign, caps: Iterable[int]) -> tuple[int, ...]:
        """The requested caps; without any, 1 and the campaign's own."""
        maximum = self.policy.max_cap()
        for cap in caps:
            if maximum is not None and cap > maximum:
                raise KreachError.rule("cap", f"be at most {maximum} with noise", cap)
        return tuple(dict.fromkeys(caps)) or stored.campaign.report_caps

    def _document(self, view: View, subject: Subject, figures: Figures) -> dict[str, Any]:
        campaign = _definition(subject.stored.campaign)
        shown = figures.impressions is not None
        spend = figures.spend_micros
        return {
            "campaign": campaign.id,
            "start": iso_optional(figures.window.start),
            "end": iso_optional(figures.window.end),
            "catalogue": subject.catalogue.version,
            "impressions": figures.impressions,
            "rejected": figures.rejected or {},
            "warnings": figures.warnings or {},
            "people": subject.audience.targeted_user_count,
            "basis": figures.basis,
            "reports": figures.reports,
            "model": figures.model,
            "correction": figures.correction,
            "audience": campaign.audience,
            "state": campaign.state,
            "flight": Flight(start=campaign.start, end=campaign.end),
            "spend_micros": spend,
            "spend": None if spend is None else spend / MICROS,
            "currency": self.store.settings.currency,
            "suppressed": (_as_tuple(view.row_note) if shown else ()) + figures.notes,
            "noise": figures.noise,
        }

    # -- health -------------------------------------------------------------------------------

    def health(self) -> Health:
        """Whether log and campaigns can be read."""
        failure = self.log_failure(incomplete=False)
        running = (one.campaign.state == "running" for one in self.store.campaigns.all())
        return Health(
            status="ok" if failure is None else "failing",
            log=failure or "ok",
            catalogues=tuple(self.store.catalogues.versions),
            campaigns=sum(running),
            sources=self.store.sources() or None,
        )

    def waiting_for(self) -> tuple[str, ...]:
        """What is missing before requests can be answered."""
        missing: tuple[str, ...] = () if self.log_failure() is None else ("log",)
        sources = [one for one in self.store.sources() if one.stale or not one.ready]
        missing += tuple(f"log of {one.bidder}" for one in sources)
        missing += () if self.store.catalogues.versions else ("catalogues",)
        try:
            self.store.campaigns.check_writable()
        except (sqlite3.Error, OSError):
            missing += ("store",)
        return missing

    def log_failure(self, *, incomplete: bool = True) -> str | None:
        """Refresh the log; the error message if that fails, or None.

        That logs have not arrived yet is a failure only if `incomplete` is one: they will.
        """
        try:
            with self.store.live.snapshot():
                return None
        except LogIncomplete as error:
            return str(error) if incomplete else None
        except LogUnavailable as error:
            return str(error)


def _definition(campaign: Campaign, in_force: bool | None = None) -> CampaignDefinition:
    document = campaign.document() | {"in_force": in_force}
    for creative, shown in zip(campaign.creatives, document["creatives"], strict=True):
        shown |= {"key": creative.key, "version": creative.version}
    if campaign.creatives:
        document["creative"] = document["creatives"][0]
    return msgspec.convert(document, CampaignDefinition)


def _in_force(stored: StoredCampaign | StoredFamily, applied: int | None) -> bool | None:
    return None if applied is None else stored.revision <= applied


def _family_definition(
    stored: StoredFamily, members: Sequence[str], applied: int | None
) -> FamilyDefinition:
    more = {"campaigns": list(members), "in_force": _in_force(stored, applied)}
    document = stored.family.document() | more
    return msgspec.convert(document, FamilyDefinition)


def _fields(document: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(document, name) for name in document.__struct_fields__}


def _as_tuple(note: Suppressed | None) -> tuple[Suppressed, ...]:
    return () if note is None else (note,)


def _money(
    stored: StoredCampaign, delivery: Delivery, notes: tuple[Suppressed, ...]
) -> dict[str, Any]:
    """The fields of a summary that come from delivery."""
    spent, left = delivery.spend_micros, None
    if spent is not None:
        left = max(as_micros("budget", stored.campaign.budget) - spent, 0)
    return {
        "impressions": delivery.impressions,
        "spend_micros": spent,
        "spend": None if spent is None else spent / MICROS,
        "budget_left_micros": left,
        "budget_left": None if left is None else left / MICROS,
        "as_of": delivery.as_of,
        "suppressed": delivery.notes + notes,
    }


def _page(
    campaigns: Sequence[StoredCampaign], after: str | None, limit: int
) -> tuple[list[StoredCampaign], str | None]:
    """A page of campaigns after one of them, and the id for the next page if there is one."""
    rest = list(campaigns)
    if after is not None:
        at = next((at for at, one in enumerate(rest) if one.campaign.id == after), None)
        if at is None:
            raise UnknownCampaign(after)
        rest = rest[at + 1 :]
    page = rest[:limit]
    return page, page[-1].campaign.id if len(rest) > limit else None


def _window_text(window: Window) -> str:
    start, end = iso_optional(window.start), iso_optional(window.end)
    return f"from {start or 'the start'} to {end or 'now'}"


def _catalogue_summary(catalogue: Catalogue) -> CatalogueSummary:
    sizes, visits, floor = catalogue.sizes, "evenly", None
    people = int(sizes.sum())
    if catalogue.classes is not None:
        people = sum(headcount for _, headcount in catalogue.classes)
        floor = catalogue.class_floor
    if catalogue.visit_shares is not None:
        visits = "shares"
    elif catalogue.dispersion is not None:
        visits = "dispersion"
    return CatalogueSummary(
        version=catalogue.version,
        created=iso_text(catalogue.created),
        group_size=catalogue.group_size,
        groups=len(catalogue),
        people=people,
        min_group=int(sizes.min(initial=people)),
        mean_group=float(sizes.mean()) if len(sizes) else 0.0,
        visits=visits,
        dispersion=catalogue.dispersion,
        class_floor=floor,
    )


def _not_bidding(stored: StoredCampaign) -> str | None:
    campaign = stored.campaign
    return campaign.not_bidding if campaign.state == "running" else None
