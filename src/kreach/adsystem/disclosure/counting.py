"""Views that count: reports on impressions by group, from the log or from chapters."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.log.counts import check_period_count
from kreach.adsystem.measurement.tally import GroupTally
from kreach.adsystem.reports.context import ReportContext
from kreach.adsystem.reports.corrected import CorrectedWindow
from kreach.adsystem.reports.corrections import CountWindow, MeasuredWindow
from kreach.adsystem.reports.measure import described
from kreach.adsystem.reports.policy import Figures, Series, Subject
from kreach.adsystem.reports.report import CurvePoint, CurveReport, SeriesPeriod, Suppressed
from kreach.adsystem.reports.traffic import WindowTraffic
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.times import Window, iso_text
from kreach.errors import KreachError

__all__ = [
    "MAX_PERIODS",
    "MAX_SECONDS",
    "Counted",
    "CountingView",
    "PeriodTally",
    "from_the_start",
    "log_flaws",
]

MAX_PERIODS = 1_000
MAX_SECONDS = 30.0


class Counted(NamedTuple):
    """The impressions of a window, what they cost, and rows that did not count."""

    window: Window
    tally: GroupTally
    spend_micros: int
    rejected: dict[str, int | None]
    warnings: dict[str, int | None]
    traffic: WindowTraffic


class PeriodTally(NamedTuple):
    """The impressions of a period alone, and with all before it."""

    alone: GroupTally
    so_far: GroupTally


def log_flaws(
    catalogue: Catalogue,
    window: Window,
    unknown_group: int | None,
    other_catalogue: int | None,
    before_catalogue: int | None,
) -> tuple[dict[str, int | None], dict[str, int | None]]:
    """Rejected rows and warnings of a live log; None is withheld."""
    rejected: dict[str, int | None] = {
        **dict.fromkeys(("no_time", "no_group", "no_campaign"), 0),  # ledgers write no such rows
        "unknown_group": unknown_group,
        "other_catalogue": other_catalogue,
    }
    early = window.start is None or window.start < catalogue.created
    return rejected, {"before_catalogue": before_catalogue} if early else {}


def from_the_start(subject: Subject, window: Window) -> bool:
    """Whether a window begins with the campaign, as a panel's corrections do."""
    return window.start is None or window.start <= subject.stored.campaign.start


class CountingView(ABC):
    """Figures, series and curves from counts. `max_seconds` bounds the work of a series."""

    row_note: Suppressed | None = None
    pacing_note: Suppressed | None = None
    max_seconds = MAX_SECONDS

    def __init__(self, store: ReportContext) -> None:
        self.store = store

    @abstractmethod
    def catalogue(self, stored: StoredCampaign, version: str | None) -> Catalogue:
        """The requested version; else the newest with something to show."""

    @abstractmethod
    def count(self, subject: Subject, window: Window) -> Counted | None:
        """Count a window; None while nothing may be shown. Raises `Withheld`."""

    @abstractmethod
    def periods(
        self, subject: Subject, window: Window, by: str
    ) -> tuple[Window, Sequence[Window], Iterator[PeriodTally]] | None:
        """The closed window, its periods, and the impressions of each; None without any."""

    def traffic(self, subject: Subject, window: Window) -> WindowTraffic:
        """How busy the site was in a window, and the visit model at that traffic."""
        of, campaign = self.store.traffic.of, subject.stored.campaign
        return of(campaign, subject.catalogue, subject.model, window)

    def nothing(self, subject: Subject) -> Figures:
        """The figures while nothing may be counted; never used with an open log."""
        del subject
        return Figures(Window())

    def figures(
        self, subject: Subject, window: Window, caps: tuple[int, ...], level: float
    ) -> Figures:
        """Reach in a window."""
        begins = from_the_start(subject, window)
        return self._figures(subject, window, caps, level, begins=begins)

    def _figures(
        self, subject: Subject, window: Window, caps: tuple[int, ...], level: float, *, begins: bool
    ) -> Figures:
        """`begins`: whether the window begins with the campaign."""
        counted = self.count(subject, window)
        if counted is None:
            return self.nothing(subject)
        reports = self.store.reports.full(subject.audience, counted.tally, caps, level)
        basis, model = described(subject.audience, counted.tally)
        fixed = None
        if begins:
            end = None if window.end is None else counted.window.end
            fixed = self._corrected(subject, [(end, counted.tally, reports)])[0]
        return Figures(
            window=counted.window,
            impressions=counted.tally.impressions,
            spend_micros=counted.spend_micros,
            basis=basis,
            model=counted.traffic.described(model),
            reports=reports if fixed is None else fixed.reports,
            rejected=counted.rejected,
            warnings=counted.warnings,
            correction=None if fixed is None else fixed.info,
        )

    def _corrected(
        self, subject: Subject, windows: Sequence[MeasuredWindow]
    ) -> list[CorrectedWindow | None]:
        """Windows that begin with the campaign, by what a publisher's panel says of it."""
        return self.store.corrections.correct(subject, windows, self._counter(subject))

    def _counter(self, subject: Subject) -> CountWindow:
        """Counts of a campaign in a window, as this view may see them."""

        def count(window: Window) -> GroupTally | None:
            counted = self.count(subject, window)
            return None if counted is None else counted.tally

        return count

    def people_reached(self, subject: Subject, tally: GroupTally) -> float:
        """The one figure of a list: unique reach so far, corrected."""
        reports = self.store.reports.full(subject.audience, tally, (1,), 0.95)
        fixed = self._corrected(subject, [(None, tally, reports)])[0]
        return (reports if fixed is None else fixed.reports)[0].unique_reach

    def series(
        self, subject: Subject, window: Window, by: str, caps: tuple[int, ...], level: float
    ) -> Series:
        """Reach period by period."""
        split = self.periods(subject, window, by)
        if split is None:
            return Series(self.figures(subject, window, caps, level), ())
        full, audience = self.store.reports.full, subject.audience
        rows, windows = [], []
        for period, (alone, running) in self._in_time(split, by):
            assert period.start is not None
            assert period.end is not None
            so_far = full(audience, running, caps, level)
            windows.append((period.end, running, so_far))
            rows.append(
                SeriesPeriod(
                    start=iso_text(period.start),
                    end=iso_text(period.end),
                    impressions=alone.impressions,
                    period=full(audience, alone, caps, level),
                    cumulative=so_far,
                )
            )
        if from_the_start(subject, window):
            for at, fixed in enumerate(self._corrected(subject, windows)):
                if fixed is not None:
                    rows[at] = structs.replace(rows[at], cumulative=fixed.reports)
        whole = self._figures(
            subject, split[0], caps, level, begins=from_the_start(subject, window)
        )
        return Series(whole, tuple(rows))

    def curve(
        self, subject: Subject, by: str, caps: tuple[int, ...], level: float
    ) -> tuple[tuple[CurvePoint, ...], tuple[Suppressed, ...]]:
        """Reach so far at the end of each period."""
        split = self.periods(subject, Window(), by)
        if split is None:
            return (), self.nothing(subject).notes
        points, windows = [], []
        for period, (_, running) in self._in_time(split, by):
            assert period.end is not None
            points.append(
                CurvePoint(
                    ts=iso_text(period.end),
                    impressions=running.impressions,
                    reports=self.curve_reports(subject, running, caps, level),
                )
            )
            windows.append((period.end, running))
        fixed = self.store.corrections.curve(subject, windows, self._counter(subject), caps, level)
        for at, short in fixed.items():
            known = {report.cap: report for report in short}
            reports = tuple(known.get(report.cap, report) for report in points[at].reports)
            points[at] = structs.replace(points[at], reports=reports)
        return tuple(points), ()

    def curve_reports(
        self, subject: Subject, tally: GroupTally, caps: tuple[int, ...], level: float
    ) -> tuple[CurveReport, ...]:
        """One point of a curve."""
        return self.store.reports.curve(subject.audience, tally, caps, level)

    def _in_time(
        self, split: tuple[Window, Sequence[Window], Iterator[PeriodTally]], by: str
    ) -> Iterator[tuple[Window, PeriodTally]]:
        """Each period with its impressions, until the deadline."""
        _, periods, counts = split
        check_period_count(periods, by, MAX_PERIODS)
        deadline = time.monotonic() + self.max_seconds
        for period, tallies in zip(periods, counts, strict=True):
            if time.monotonic() > deadline:
                rule = f"take at most {self.max_seconds:g} seconds: ask for fewer periods or caps"
                raise KreachError.rule("series", rule, f"{len(periods)} periods")
            yield period, tallies
