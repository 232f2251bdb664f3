"""The open policy: everything in the log, for operators."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat

import numpy as np

from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.disclosure.counting import Counted, CountingView, PeriodTally, log_flaws
from kreach.adsystem.log.counts import PlaceTotal, closed_window, count_periods, count_window
from kreach.adsystem.log.draws import period_draws, window_draws
from kreach.adsystem.log.live_parts import live_parts
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.snapshot import Snapshot
from kreach.adsystem.measurement.drawn import GroupDraws
from kreach.adsystem.measurement.tally import GroupTally
from kreach.adsystem.reports.context import ReportContext
from kreach.adsystem.reports.pacing import last_pace, pacing_of
from kreach.adsystem.reports.policy import Delivery, Subject, Together
from kreach.adsystem.reports.report import Pace, Suppressed
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.times import Window
from kreach.boundary.visit_model import VisitModel
from kreach.errors import KreachError

__all__ = ["OpenPolicy"]

_NOTHING = PlaceTotal()


class OpenPolicy:
    """Shows the log as it is. For use by several threads."""

    def __init__(self, store: ReportContext) -> None:
        self._store = store
        self._unique: dict[int, tuple[tuple[object, ...], float | None]] = {}  # by campaign

    @contextmanager
    def view(self, campaigns: Sequence[StoredCampaign]) -> Iterator["OpenView"]:
        """The log at one instant."""
        del campaigns
        with self._store.live.snapshot() as now:
            self._store.catalogues.refresh(now.catalogue_numbers)
            yield OpenView(self._store, now, self._unique)

    def audience_refusal(self, audience: str, catalogue: Catalogue) -> Suppressed | None:
        """Every audience may be used."""
        del audience, catalogue
        return None

    def visible_floor(self, catalogue: Catalogue) -> int | None:
        """Operators see head-counts."""
        del catalogue
        return None

    def campaign_changed(self, stored: StoredCampaign) -> None:
        """Nothing depends on it."""

    def noise_budget(self) -> None:
        """There is no noise."""

    def chapters_behind(self) -> int:
        """There are no chapters."""
        return 0

    def max_cap(self) -> int | None:
        """Any cap."""
        return None

    def close(self) -> None:
        """Nothing to close: the caller owns the store."""


class OpenView(CountingView):
    """One snapshot of the log."""

    def __init__(
        self,
        store: ReportContext,
        now: Snapshot,
        unique: dict[int, tuple[tuple[object, ...], float | None]],
    ) -> None:
        super().__init__(store)
        self._now, self._unique = now, unique

    def reach_refusal(self, audience: str, catalogue: Catalogue) -> Suppressed | None:
        """Every audience may be used."""
        del audience, catalogue
        return None

    def delivery(self, stored: StoredCampaign) -> Delivery:
        """On all catalogues."""
        totals = self.store.counts.totals(self._now)
        mine = [total for place, total in totals.items() if place.campaign == stored.number]
        spend = sum(total.spend_micros for total in mine)
        return Delivery(sum(total.rows for total in mine), spend)

    def catalogue(self, stored: StoredCampaign, version: str | None) -> Catalogue:
        """The requested one; else the newest with impressions of the campaign, else the newest."""
        catalogues, totals = self.store.catalogues, self.store.counts.totals(self._now)
        if version is not None:
            return catalogues.get(version)
        for known in reversed(catalogues.versions):
            if self._now.place(stored.number, known) in totals:
                return catalogues.get(known)
        return catalogues.newest

    def unique_reach(
        self, campaigns: Sequence[StoredCampaign]
    ) -> dict[int, tuple[str, float | None]]:
        """People reached on each campaign's default catalogue, all of a catalogue in one scan."""
        totals = self.store.counts.totals(self._now)
        result: dict[int, tuple[str, float | None]] = {}
        together: dict[tuple[str, float, float], tuple[VisitModel | None, list[StoredCampaign]]]
        together = {}
        for stored in campaigns:
            catalogue = self.catalogue(stored, None)
            model = self._model(stored, catalogue)
            seen = self.store.traffic.of(stored.campaign, catalogue, model, Window())
            behind = 0.0 if seen.model is None else seen.model.group_size
            alike = together.setdefault((catalogue.version, seen.traffic, behind), (seen.model, []))
            alike[1].append(stored)
        for (version, traffic, _), (model, several) in together.items():
            stale: dict[Place, tuple[StoredCampaign, tuple[object, ...]]] = {}
            for stored in several:
                place = self._now.place(stored.number, version)
                rows = totals.get(place, _NOTHING).rows
                # logs only grow: as many rows are the same ones
                newest = self.store.corrections.newest(stored.campaign.id, version)
                key: tuple[object, ...] = (self._now.generation, place, rows, traffic, newest)
                known, reach = self._unique.get(stored.number, ((), None))
                result[stored.number] = (version, reach)
                if known != key:
                    stale[place] = (stored, key)
            groups = len(self.store.catalogues.get(version))
            for place, tally in self._tallies(stale, groups, model):
                stored, key = stale[place]
                reach = self._people_reached(stored, version, tally)
                result[stored.number] = (version, reach)
                self._unique[stored.number] = (key, reach)
        return result

    def _model(self, stored: StoredCampaign, catalogue: Catalogue) -> VisitModel | None:
        """The visit model for a campaign's audience; that of the catalogue where it has none."""
        try:
            return self.store.subject(stored, catalogue).model
        except KreachError:
            return catalogue.model

    def _tallies(
        self, places: Iterable[Place], groups: int, model: VisitModel | None
    ) -> Iterator[tuple[Place, GroupTally]]:
        """All so far of several campaigns on a catalogue, at one traffic."""
        running = self.store.counts
        if model is None:
            for place, by_group in running.counts_of(self._now, places, groups):
                yield place, GroupTally(by_group)
            return
        draws = dict(running.draws_of(self._now, places, groups, model))
        for place, by_group in running.counts_of(self._now, draws, groups):
            yield place, GroupTally(by_group, draws[place])

    def _people_reached(
        self, stored: StoredCampaign, version: str, tally: GroupTally
    ) -> float | None:
        try:
            subject = self.store.subject(stored, self.store.catalogues.get(version))
        except KreachError:  # this catalogue has no such audience
            return None
        return self.people_reached(subject, tally)

    def _place(self, subject: Subject) -> Place:
        return self._now.place(subject.stored.number, subject.catalogue.version)

    def count(self, subject: Subject, window: Window) -> Counted:
        """All so far from running counts, any other window from the log."""
        catalogue, place = subject.catalogue, self._place(subject)
        groups, created = len(catalogue), catalogue.created
        traffic = self.traffic(subject, window)
        model, draws = traffic.model, None
        if window != Window():
            counted = count_window(self._now, place, groups, window, created=created)
            by_group, rows, spend = counted.by_group, counted.rows, counted.spend_micros
            if model is not None:
                draws = window_draws(self._now, place, groups, window, model, rows)
            early, others = counted.early_rows, counted.other_rows
        else:
            totals = self.store.counts.totals(self._now)
            mine = totals.get(place, _NOTHING)
            by_group = self.store.counts.counts(self._now, place, groups)
            if model is not None:
                draws = next(self.store.counts.draws_of(self._now, [place], groups, model))[1]
            rows, spend, early = mine.rows, mine.spend_micros, 0
            every = (n.rows for at, n in totals.items() if at.campaign == place.campaign)
            others = sum(every) - rows
            if mine.first_seconds < created.timestamp():
                early = count_window(self._now, place, groups, window, created=created).early_rows
        unknown = rows - int(by_group.sum())
        flaws = log_flaws(catalogue, window, unknown, others, early)
        return Counted(window, GroupTally(by_group, draws), spend, *flaws, traffic)

    def periods(
        self, subject: Subject, window: Window, by: str
    ) -> tuple[Window, Sequence[Window], Iterator[PeriodTally]] | None:
        """Hours, days or weeks of the log."""
        place = self._place(subject)
        span = closed_window(self._now, place, window, by)
        if span is None:
            return None
        periods = span.periods(by)
        model = self.traffic(subject, span).model  # of all: the last period so far is the whole
        return span, periods, self._period_tallies(subject, periods, by, model)

    def _period_tallies(
        self, subject: Subject, periods: Sequence[Window], by: str, model: VisitModel | None
    ) -> Iterator[PeriodTally]:
        now, place, groups = self._now, self._place(subject), len(subject.catalogue)
        running = np.zeros(groups, dtype=np.int64)
        drawn: Iterable[tuple[GroupDraws | None, GroupDraws | None]] = repeat((None, None))
        if model is not None:
            drawn = period_draws(now, place, groups, periods, model)
        counts = count_periods(now, place, groups, periods, by)
        for counted, (alone, so_far) in zip(counts, drawn, strict=False):
            running = running + counted.by_group
            yield PeriodTally(GroupTally(counted.by_group, alone), GroupTally(running, so_far))

    def together(self, subjects: Mapping[str, Subject], window: Window) -> Together:
        """The log of all of them; traffic is that of the first campaign's flight in the window."""
        first = next(iter(subjects.values()))
        traffic = self.traffic(first, window)
        places = {name: self._place(subject) for name, subject in subjects.items()}
        parts = live_parts(self._now, places, first.audience, window, traffic.model)
        return Together(window, parts, traffic)

    def pacing(self, stored: StoredCampaign, window: Window, points: int) -> tuple[Pace, ...]:
        """The bidders' own records."""
        return pacing_of(self.store.settings.store, stored.number, window, points)

    def last_pace(self, stored: StoredCampaign) -> Pace | None:
        """The newest record."""
        return last_pace(self.store.settings.store, stored.number)
