"""The chapter policy: advertisers see whole chapters of a log, and a reason for what is withheld.

Impressions by group come from chapters as they were written when they were closed; the reports on
them are those of every other policy.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial

import numpy as np

from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.disclosure.audience_rules import AudienceRules
from kreach.adsystem.disclosure.audiences import Verdict, served_people, visible_floor
from kreach.adsystem.disclosure.chapters.builder import WatchedPlace
from kreach.adsystem.disclosure.chapters.chapter import ChapterList, Floors
from kreach.adsystem.disclosure.chapters.set_releases import MAX_TOGETHER, SetReleases, SetState
from kreach.adsystem.disclosure.chapters.store import ChapterStore
from kreach.adsystem.disclosure.chapters.writer import ChapterWriter
from kreach.adsystem.disclosure.counting import Counted, CountingView, PeriodTally, log_flaws
from kreach.adsystem.disclosure.notes import EVERYTHING, PACING, ROWS, thinned
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.snapshot import Snapshot
from kreach.adsystem.measurement.combination import CountedParts, Parts
from kreach.adsystem.measurement.tally import GroupTally
from kreach.adsystem.measurement.timed_parts import TimedParts, TimedRows
from kreach.adsystem.reports.context import ReportContext
from kreach.adsystem.reports.policy import Delivery, Figures, Subject, Together, Withheld
from kreach.adsystem.reports.report import (
    Allowed,
    CurveReport,
    Pace,
    Suppressed,
)
from kreach.adsystem.reports.traffic import WindowTraffic
from kreach.adsystem.settings import GuardSettings
from kreach.adsystem.store_layout import guard_key
from kreach.boundary.audience import DisjointAudience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.times import MICROS, Window, from_micros, iso_micros, to_micros
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.service.clock import Clock

__all__ = ["FEW_IN_COMMON", "FEW_ROWS", "LOG_BEHIND", "NOT_WHOLE", "TOO_FEW", "ChapterPolicy"]

TOO_FEW = "too few so far"
NOT_WHOLE = "window not of whole chapters"
FEW_ROWS = "may be few rows"
LOG_BEHIND = "log lacks rows"
FEW_IN_COMMON = "too few in common"
SO_FAR_ONLY = "campaigns together are shown so far only: leave out start and end"
_FOREVER_MICROS = 2**62


class ChapterPolicy:
    """Chapters of the campaigns of a store. For use by several threads.

    `clock` gives seconds since 1970; it decides which points of the grid are over.
    """

    def __init__(self, store: ReportContext, settings: GuardSettings, clock: Clock) -> None:
        self.store, self.settings, self._clock = store, settings, clock
        self._chapters = ChapterStore(store.settings.store)
        self.writer = ChapterWriter(self._chapters, settings)
        floors = Floors(settings.min_impressions, settings.min_people)
        self.sets = SetReleases(self._chapters, floors)
        read, key = store.catalogues.audience, guard_key(store.settings.store)
        self._rules = AudienceRules(
            read, lambda: store.audience_names, settings, key, self._chapters
        )
        self.versions: tuple[str, ...] = ()  # of catalogues that the log has rows of
        self.unique: dict[Place, tuple[tuple[int, datetime | None], float]] = {}

    def close(self) -> None:
        """Close the chapters."""
        self._chapters.close()

    def noise_budget(self) -> None:
        """There is no noise."""

    def chapters_behind(self) -> int:
        """As of the last look at each campaign."""
        return self.writer.behind_count

    def max_cap(self) -> int | None:
        """Any cap."""
        return None

    def verdict(self, audience: str, catalogue: Catalogue) -> Verdict:
        """Whether advertisers may use an audience on a catalogue."""
        return self._rules.verdict(catalogue, audience)

    def audience_refusal(self, audience: str, catalogue: Catalogue) -> Suppressed | None:
        """Why advertisers may not use an audience."""
        return self._rules.note(catalogue, audience)

    def visible_floor(self, catalogue: Catalogue) -> int | None:
        """What the publisher and the settings promise: a head-count would be of few people."""
        promised = max(self.settings.min_visible, catalogue.min_visible)
        return visible_floor(catalogue, promised)

    def campaign_changed(self, stored: StoredCampaign) -> None:
        """Record when the flight ended or its end was moved."""
        self._last_bid(stored)

    def _last_bid(self, stored: StoredCampaign) -> int | None:
        """Record the campaign's end; the time of its last bid, if that is past."""
        end, now = to_micros(stored.campaign.end), int(self._clock() * MICROS)
        ended = stored.campaign.state == "ended"
        return self.writer.last_bid(stored.number, end, ended=ended, now_micros=now)

    @contextmanager
    def view(self, campaigns: Sequence[StoredCampaign]) -> Iterator["ChapterView"]:
        """Close the chapters of these campaigns that can be closed, and look at them."""
        store, now_micros = self.store, int(self._clock() * MICROS)
        with store.live.snapshot() as now:
            store.catalogues.refresh(now.catalogue_numbers)
            rows = {place: total.rows for place, total in store.counts.totals(now).items()}
            watched = [
                place
                for stored in campaigns
                for place in self._watched(now, stored, rows, self._last_bid(stored))
            ]
            self.writer.update(now, rows, watched, now_micros)
            self.versions = tuple(dict.fromkeys((*self.versions, *now.catalogue_numbers)))
        yield ChapterView(self)

    def _watched(
        self, now: Snapshot, stored: StoredCampaign, rows: dict[Place, int], over: int | None
    ) -> Iterator[WatchedPlace]:
        catalogues, start = self.store.catalogues, to_micros(stored.campaign.start)
        for version in now.catalogue_numbers:
            place, log_place = Place(stored.number, version), now.place(stored.number, version)
            if log_place not in rows:
                continue
            if version in catalogues.versions:
                catalogue = catalogues.get(version)
                people = partial(self._people, stored.campaign.audience, catalogue)
                timed = catalogue.model is not None
                yield WatchedPlace(place, log_place, len(catalogue), start, over, people, timed)
            else:
                yield WatchedPlace(place, log_place, None, start, over, None)

    def _people(self, audience: str, catalogue: Catalogue, groups: IntArray) -> int:
        """Targeted people in these groups; nobody, where advertisers may not use the audience."""
        if self.verdict(audience, catalogue).reason is not None:
            return 0
        return served_people(self.store.catalogues.audience(catalogue, audience), groups)


class ChapterView(CountingView):
    """The chapters that may be shown now."""

    row_note: Suppressed | None = Suppressed(
        what=ROWS, reason=FEW_ROWS, why="these may count few impressions, or not whole chapters"
    )
    pacing_note: Suppressed | None = Suppressed(
        what=PACING, reason=FEW_ROWS, why="these may count few impressions, or not whole chapters"
    )

    def __init__(self, policy: ChapterPolicy) -> None:
        super().__init__(policy.store)
        self._policy, self._writer = policy, policy.writer

    # -- what may be shown --------------------------------------------------------------------

    def reach_refusal(self, audience: str, catalogue: Catalogue) -> Suppressed | None:
        """Why reach on an audience is withheld, also where the catalogue does not have it."""
        verdict = self._policy.verdict(audience, catalogue)
        if verdict.reason is None:
            return None
        why = f"the audience must {verdict.rule}"
        return Suppressed(what="reach", reason=verdict.reason, why=why)

    def _chapters(self, stored: StoredCampaign, version: str) -> ChapterList:
        return self._writer.chapters(Place(stored.number, version))

    def _visible(self, stored: StoredCampaign) -> list[ChapterList]:
        """The chapters on all catalogues of which something is shown."""
        each = [self._chapters(stored, version) for version in self._policy.versions]
        return [chapters for chapters in each if chapters.shown_count]

    def delivery(self, stored: StoredCampaign) -> Delivery:
        """Up to the last chapters shown; or nothing at all."""
        visible, notes = self._visible(stored), []
        places = [Place(stored.number, version) for version in self._policy.versions]
        if any(self._writer.behind(place) for place in places):
            why = (
                "the log lacks rows that were shown: newer ones are shown when it has them again, "
                "or an operator has accepted the loss"
            )
            notes.append(Suppressed(what="newer numbers", reason=LOG_BEHIND, why=why))
        newest = self.store.catalogues.newest
        refused = self._policy.audience_refusal(stored.campaign.audience, newest)
        if refused is not None:
            notes.append(Suppressed(what=EVERYTHING, reason=refused.reason, why=refused.why))
            visible = []
        elif not visible:
            notes.append(self._too_few())
        if not visible:
            return Delivery(None, None, None, tuple(notes))
        last = max(int(chapters.ends[-1]) for chapters in visible)
        return Delivery(
            sum(chapters.impressions_at(last) for chapters in visible),
            sum(chapters.spend_at(last) for chapters in visible),
            iso_micros(last),
            tuple(notes),
        )

    def _too_few(self) -> Suppressed:
        """Nothing can be shown yet: the same for no impressions and for nearly enough."""
        settings = self._policy.settings
        why = (
            f"figures appear in batches of at least {settings.min_impressions} impressions on "
            f"groups with at least {settings.min_people} targeted people, the newest when the next "
            "one is full or the campaign is over"
        )
        return Suppressed(what=EVERYTHING, reason=TOO_FEW, why=why)

    def catalogue(self, stored: StoredCampaign, version: str | None) -> Catalogue:
        """The requested one; else the newest with something to show, else the newest."""
        catalogues = self.store.catalogues
        if version is not None:
            return catalogues.get(version)
        for known in reversed(catalogues.versions):
            if self._chapters(stored, known).shown_count:
                return catalogues.get(known)
        return catalogues.newest

    # -- counts -------------------------------------------------------------------------------

    def count(self, subject: Subject, window: Window) -> Counted | None:
        """Impressions of whole chapters; any other window is withheld."""
        chapters = self._chapters(subject.stored, subject.catalogue.version)
        if not chapters.shown_count:
            if window == Window():
                return None
            raise Withheld(f"not enough data yet: {self._too_few().why}", TOO_FEW)
        chosen = whole_chapters(chapters, window)
        exact = _window(chapters, chosen)
        spend = sum(chapters[at].spend_micros for at in chosen)
        flaws = log_flaws(subject.catalogue, exact, None, None, None)
        traffic = self.traffic(subject, exact)
        return Counted(exact, self._tally(subject, chosen), spend, *flaws, traffic)

    def _tally(self, subject: Subject, chosen: range) -> GroupTally:
        """Of some chapters: always at their own traffic, so that they have one figure."""
        place = Place(subject.stored.number, subject.catalogue.version)
        groups, draws = len(subject.catalogue), None
        by_group = self._writer.counts(place, chosen, groups)
        chapters = self._chapters(subject.stored, subject.catalogue.version)
        model = self.traffic(subject, _window(chapters, chosen)).model if chosen else subject.model
        if model is not None:
            draws = self._writer.draws(place, chosen, groups, model)
        return GroupTally(by_group, draws)

    def periods(
        self, subject: Subject, window: Window, by: str
    ) -> tuple[Window, Sequence[Window], Iterator[PeriodTally]] | None:
        """Chapters merged by period; a period ends with the chapter under way at its end."""
        if self.count(subject, window) is None:
            return None
        chapters = self._chapters(subject.stored, subject.catalogue.version)
        chosen = whole_chapters(chapters, window)
        merged = chapters.merged(chosen, by)
        windows = [_window(chapters, part) for part in merged]
        tallies = (
            PeriodTally(
                self._tally(subject, one), self._tally(subject, range(chosen.start, one.stop))
            )
            for one in merged
        )
        return _window(chapters, chosen), windows, tallies

    def nothing(self, subject: Subject) -> Figures:
        """Too few impressions so far."""
        del subject
        return Figures(Window(), notes=(self._too_few(),))

    def unique_reach(
        self, campaigns: Sequence[StoredCampaign]
    ) -> dict[int, tuple[str, float | None]]:
        """People reached in all chapters shown."""
        result: dict[int, tuple[str, float | None]] = {}
        for stored in campaigns:
            catalogue = self.catalogue(stored, None)
            reach = None
            if self.reach_refusal(stored.campaign.audience, catalogue) is None:
                reach = self._people_reached(self.store.subject(stored, catalogue))
            result[stored.number] = (catalogue.version, reach)
        return result

    def _people_reached(self, subject: Subject) -> float | None:
        place = Place(subject.stored.number, subject.catalogue.version)
        shown = self._writer.chapters(place).shown_count
        if not shown:
            return None
        newest = self.store.corrections.newest(
            subject.stored.campaign.id, subject.catalogue.version
        )
        known, reach = self._policy.unique.get(place, ((0, None), 0.0))
        if known != (shown, newest):
            tally = self._tally(subject, range(shown))
            reach = self.people_reached(subject, tally)
            self._policy.unique[place] = ((shown, newest), reach)
        return reach

    def curve_reports(
        self, subject: Subject, tally: GroupTally, caps: tuple[int, ...], level: float
    ) -> tuple[CurveReport, ...]:
        """As the series reports them, with its intervals."""
        reports = self.store.reports.full(subject.audience, tally, caps, level)
        return tuple(CurveReport.short(report) for report in reports)

    # -- campaigns together ---------------------------------------------------------------------

    def together(self, subjects: Mapping[str, Subject], window: Window) -> Together:
        """Whole chapters of each, as far as the groups in common allow."""
        campaigns, policy = list(subjects.values()), self._policy
        first = campaigns[0]
        nothing = partial(Together, window, None, WindowTraffic(None))
        if window != Window():
            raise Withheld(SO_FAR_ONLY, NOT_WHOLE)
        if len(subjects) > MAX_TOGETHER:
            rule = f"be at most {MAX_TOGETHER} for an advertiser"
            raise KreachError.rule("campaigns", rule, len(subjects))
        version, groups = first.catalogue.version, len(first.catalogue)
        shown = {one.stored.number: self._shown(one) for one in campaigns}
        if not all(shown.values()):
            return nothing((self._too_few(),))

        def counts(campaign: int, chapters: int) -> IntArray:
            return self._writer.counts(Place(campaign, version), range(chapters), groups)

        state = policy.sets.state(version, shown, counts, partial(served_people, first.audience))
        if state is None:
            return nothing((self._too_few_in_common(EVERYTHING),))
        notes = () if state == shown else (self._too_few_in_common("newer numbers"),)
        ends = [self._chapters(one.stored, version) for one in campaigns]
        last = max(
            int(chapters.ends[state[one.stored.number] - 1])
            for one, chapters in zip(campaigns, ends, strict=True)
        )
        exact = Window(None, from_micros(last))
        traffic = self.traffic(first, exact)
        parts = self._parts(subjects, state, counts, traffic.model)
        return Together(exact, parts, traffic, notes)

    def _shown(self, subject: Subject) -> int:
        return self._chapters(subject.stored, subject.catalogue.version).shown_count

    def _parts(
        self,
        subjects: Mapping[str, Subject],
        state: SetState,
        counts: Callable[[int, int], IntArray],
        model: VisitModel | None,
    ) -> Parts:
        first = next(iter(subjects.values()))
        audience, version = first.audience, first.catalogue.version
        names = {name: one.stored.number for name, one in subjects.items()}
        times = [self._writer.times(Place(number, version)) for number in names.values()]
        if model is None or not isinstance(audience, DisjointAudience) or None in times:
            return CountedParts(
                audience, {name: counts(one, state[one]) for name, one in names.items()}
            )
        columns = []
        for at, (number, known) in enumerate(zip(names.values(), times, strict=True)):
            assert known is not None
            here = (known.chapter < state[number]) & (known.group < audience.group_count)
            columns.append((known.group[here], known.at_us[here], np.full(here.sum(), at)))
        rows = TimedRows.ordered(*(np.concatenate(c) for c in zip(*columns, strict=True)))
        return TimedParts(audience, list(names), rows, model)

    def _too_few_in_common(self, what: str) -> Suppressed:
        settings = self._policy.settings
        why = (
            "campaigns together are shown when groups that all of them newly served hold at least "
            f"{settings.min_people} targeted people and {settings.min_impressions} impressions"
        )
        return Suppressed(what=what, reason=FEW_IN_COMMON, why=why)

    def pacing(self, stored: StoredCampaign, window: Window, points: int) -> tuple[Pace, ...]:
        """Spend and impressions at the end of each chapter in a window, on all catalogues.

        The bidder's own records are withheld: they are of other times than the ends of chapters,
        and bids or wins beside exact impressions would count those of seconds.
        """
        visible = self._visible(stored)
        low = -_FOREVER_MICROS if window.start is None else to_micros(window.start)
        high = _FOREVER_MICROS if window.end is None else to_micros(window.end)
        ends = {end for chapters in visible for end in chapters.ends.tolist() if low <= end < high}
        return tuple(
            Pace(
                ts=iso_micros(end),
                spent_micros=sum(chapters.spend_at(end) for chapters in visible),
                impressions=sum(chapters.impressions_at(end) for chapters in visible),
            )
            for end in thinned(sorted(ends), points)
        )

    def last_pace(self, stored: StoredCampaign) -> Pace | None:
        """At the end of the last chapter."""
        rows = self.pacing(stored, Window(), _FOREVER_MICROS)
        return rows[-1] if rows else None


def whole_chapters(chapters: ChapterList, window: Window) -> range:
    """The chapters that make up a window; any other window is withheld, naming those nearby."""
    start = None if window.start is None else to_micros(window.start)
    end = None if window.end is None else to_micros(window.end)
    chosen = chapters.within(start, end)
    if chosen is not None:
        return chosen
    allowed: dict[str, tuple[str, ...]] = {}
    wrong = []
    for name, moment, of_end in (("start", start, False), ("end", end, True)):
        if moment is None:
            continue
        near = [edge for edge in chapters.edges(moment, of_end=of_end) if edge is not None]
        allowed[name] = tuple(iso_micros(edge) for edge in dict.fromkeys(near))
        early = not of_end and chapters.shown_count and moment <= chapters.starts[0]
        if moment not in near and not early:
            verb, where = "end" if of_end else "begin", " or ".join(allowed[name])
            given = iso_micros(moment)
            wrong.append(f"{name} must be where a chapter {verb}s ({where}), got {given}")
    raise Withheld("; ".join(wrong), NOT_WHOLE, Allowed(**allowed))


def _window(chapters: ChapterList, chosen: range) -> Window:
    start, end = chapters[chosen.start].start_micros, chapters[chosen.stop - 1].end_micros
    return Window(from_micros(start), from_micros(end))
