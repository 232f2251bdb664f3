"""The figures that advertisers see with noise: at points of a grid, and in windows between them.

Nothing that is shown, withheld or left out depends on the log but through noisy answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.disclosure.noise.answers import NoisyAnswer
from kreach.adsystem.disclosure.noise.budget import Budget
from kreach.adsystem.disclosure.noise.grid import NOT_OVER, FlightGrid, window_in
from kreach.adsystem.disclosure.noise.questions import BudgetExhausted
from kreach.adsystem.disclosure.noise.reports import noise_info, noisy_cap_reports
from kreach.adsystem.disclosure.noise.source import NoisySource, Point, Points
from kreach.adsystem.disclosure.notes import EVERYTHING, PACING, ROWS, thinned
from kreach.adsystem.log.counts import check_period_count
from kreach.adsystem.measurement.tally import GroupTally
from kreach.adsystem.reports.catalogue_cache import CatalogueCache
from kreach.adsystem.reports.measure import described
from kreach.adsystem.reports.policy import Delivery, Figures, Series, Subject, Together, Withheld
from kreach.adsystem.reports.report import (
    Allowed,
    CapReport,
    CurvePoint,
    CurveReport,
    Pace,
    SeriesPeriod,
    Suppressed,
)
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.discrete_noise import MILLIS, NANOS
from kreach.boundary.times import Window, from_seconds, iso_seconds

__all__ = ["BUDGET_EXHAUSTED", "NOT_ASKED", "NOT_NOISY", "NoiseView"]

BUDGET_EXHAUSTED = "privacy budget exhausted"
NOT_NOISY = "not covered by noise"
NOT_ASKED = "not asked for"
_EXACT = "they would be exact: no noise is drawn for them"
_CLEARLY = 3.0  # σ above 0: a catalogue that has impressions
_MAX_PERIODS = 400
_MAX_FREE = 20

CheckAudience = Callable[[str, Catalogue], Suppressed | None]
Stretch = tuple[int, int]
"""From and up to, in seconds since 1970."""


class NoiseView:
    """The answers that are recorded, and those that the budget still allows."""

    row_note: Suppressed | None = Suppressed(what=ROWS, reason=NOT_NOISY, why=_EXACT)
    pacing_note: Suppressed | None = Suppressed(what=PACING, reason=NOT_NOISY, why=_EXACT)

    def __init__(
        self, catalogues: CatalogueCache, source: NoisySource, budget: Budget, check: CheckAudience
    ) -> None:
        self._catalogues, self._source, self._budget = catalogues, source, budget
        self._audience_refusal = check

    def reach_refusal(self, audience: str, catalogue: Catalogue) -> Suppressed | None:
        """As the policy."""
        return self._audience_refusal(audience, catalogue)

    # -- which catalogue ----------------------------------------------------------------------

    def _followed(self, stored: StoredCampaign) -> list[str]:
        """The catalogue that was the newest when the flight began, and all later ones."""
        versions, start = self._catalogues.versions, stored.campaign.start
        before = [
            at for at, name in enumerate(versions) if self._catalogues.get(name).created <= start
        ]
        return versions[max(before, default=0) :]

    def _points(self, stored: StoredCampaign) -> dict[str, Points]:
        """Points on all catalogues that are followed or have recorded points, the newest last."""
        followed = self._followed(stored)
        recorded = [
            name for name in self._source.recorded_catalogues(stored) if name not in followed
        ]
        return {name: self._source.points(stored, name) for name in [*recorded, *followed]}

    def catalogue(self, stored: StoredCampaign, version: str | None) -> Catalogue:
        """The newest that clearly has impressions, by noisy numbers; else the first followed."""
        if version is not None:
            return self._catalogues.get(version)
        followed, points = self._followed(stored), self._points(stored)
        for name in reversed(followed):
            last = points[name].last
            if last is not None:
                noise = last.answer.strength.parts[1].scale
                if last.answer.noisy.impressions > _CLEARLY * noise:
                    return self._catalogues.get(name)
        return self._catalogues.get(followed[0])

    # -- delivery -----------------------------------------------------------------------------

    def delivery(self, stored: StoredCampaign) -> Delivery:
        """Up to the last point of each catalogue; or nothing, and why."""
        refused = self.reach_refusal(stored.campaign.audience, self._catalogues.newest)
        if refused is not None:
            note = Suppressed(what=EVERYTHING, reason=refused.reason, why=refused.why)
            return Delivery(None, None, None, (note,))
        points = self._points(stored)
        lasts = [one.last for one in points.values() if one.last is not None]
        if not lasts:
            return Delivery(None, None, None, (self._not_over(self._source.grid(stored)),))
        stops = [self._stop_note(one) for one in points.values() if one.refused is not None]
        return Delivery(
            sum(last.answer.shown.impressions for last in lasts),
            sum(last.answer.shown.spend_micros for last in lasts),
            iso_seconds(max(last.end for last in lasts)),
            tuple(stops[:1]),
        )

    def _not_over(self, grid: FlightGrid) -> Suppressed:
        end = grid.next_end(None, grid.stride)
        settle = self._budget.settings.settle_seconds
        first = iso_seconds((grid.last if end is None else end) + settle)
        why = f"figures so far are released at points, the first of this flight after {first}"
        return Suppressed(what=EVERYTHING, reason=NOT_OVER, why=why)

    def _stop_note(self, points: Points) -> Suppressed:
        last = "the first" if points.last is None else iso_seconds(points.last.end)
        maximum = self._budget.settings.max_points
        why = f"the budget of figures so far is exhausted: a flight has at most {maximum} of them"
        return Suppressed(what=f"figures so far after {last}", reason=BUDGET_EXHAUSTED, why=why)

    def unique_reach(
        self, campaigns: Sequence[StoredCampaign]
    ) -> dict[int, tuple[str, float | None]]:
        """People reached up to the last point."""
        result: dict[int, tuple[str, float | None]] = {}
        for stored in campaigns:
            version = self.catalogue(stored, None).version
            last = self._source.points(stored, version).last
            reach = None if last is None else last.answer.shown.at_least[0] / MILLIS
            result[stored.number] = (version, reach)
        return result

    # -- reports ------------------------------------------------------------------------------

    def figures(
        self, subject: Subject, window: Window, caps: tuple[int, ...], level: float
    ) -> Figures:
        """Up to the last point, or in a window of whole cells."""
        stored = subject.stored
        points = self._source.points(stored, subject.catalogue.version)
        grid = self._source.grid(stored)
        if window == Window():
            if points.last is None:
                return Figures(window, notes=(self._not_over(grid),))
            stretch, answer = (grid.first, points.last.end), points.last.answer
        else:
            stretch = window_in(grid, window)
            answer = self._one(subject, points, stretch)
        return self._figures(subject, stretch, answer, caps, level, points)

    def _figures(
        self,
        subject: Subject,
        stretch: Stretch,
        answer: NoisyAnswer,
        caps: tuple[int, ...],
        level: float,
        points: Points,
    ) -> Figures:
        reports, cap_notes = self._reports(answer, caps, level)
        bounds = Suppressed(what="bounds", reason=NOT_NOISY, why=_EXACT)
        nothing = np.zeros(subject.audience.group_count, dtype=np.int64)
        basis, model = described(subject.audience, GroupTally(nothing))  # noise knows no times
        return Figures(
            window=_window(stretch),
            impressions=answer.shown.impressions,
            spend_micros=answer.shown.spend_micros,
            basis=f"{basis}; with noise",
            model=model,
            reports=reports,
            rejected={"unknown_group": None, "other_catalogue": None},
            warnings={"before_catalogue": None},
            notes=(*cap_notes, bounds, *self._stopped(points)),
            noise=noise_info(answer),
        )

    def _stopped(self, points: Points) -> tuple[Suppressed, ...]:
        """The note where the budget ended the figures so far."""
        return () if points.refused is None else (self._stop_note(points),)

    def _reports(
        self, answer: NoisyAnswer, caps: tuple[int, ...], level: float
    ) -> tuple[tuple[CapReport, ...], tuple[Suppressed, ...]]:
        """Reports at the caps that an answer covers: below its largest frequency."""
        maximum = len(answer.shown.at_least) - 1
        counted = tuple(cap for cap in caps if cap <= maximum)
        reports = noisy_cap_reports(answer, counted, level)
        if len(counted) == len(caps):
            return reports, ()
        why = f"people are counted up to {maximum + 1} impressions"
        what = f"reach at caps above {maximum}"
        return reports, (Suppressed(what=what, reason=NOT_NOISY, why=why),)

    def series(
        self, subject: Subject, window: Window, by: str, caps: tuple[int, ...], level: float
    ) -> Series:
        """Each period alone is a window, cumulative are the figures so far."""
        stored, version = subject.stored, subject.catalogue.version
        points, grid = self._source.points(stored, version), self._source.grid(stored)
        if points.last is None and window == Window():
            return Series(Figures(window, notes=(self._not_over(grid),)), ())
        start, end = window_in(grid, window)
        if window.end is None and points.refused is None and points.last is not None:
            end = max(points.last.end, start + grid.cell)
        periods = _periods(grid, start, end, by, cut=window.end is not None)
        whole = self._whole(subject, points, (start, end), caps, level)
        answers = self._answers(subject, points, periods)
        rows, exhausted, between = [], [], []
        for (low, high), alone in zip(periods, answers, strict=True):
            point = points.at(high) if start == grid.first else None
            shown = None if isinstance(alone, BudgetExhausted) else alone
            if shown is None:
                exhausted.append(iso_seconds(low))
            if point is None:
                between.append(iso_seconds(high))
            rows.append(self._period((low, high), shown, point, caps, level))
        notes = whole.notes + _series_notes(exhausted, between)
        return Series(replace(whole, notes=notes), tuple(rows))

    def _whole(
        self,
        subject: Subject,
        points: Points,
        stretch: Stretch,
        caps: tuple[int, ...],
        level: float,
    ) -> Figures:
        """The whole window of a series, if its answer is recorded already."""
        first = self._source.grid(subject.stored).first
        point = points.at(stretch[1]) if stretch[0] == first else None
        recorded = self._source.recorded(subject.stored, subject.catalogue, *stretch)
        answer = recorded if point is None else point.answer
        if answer is not None:
            return self._figures(subject, stretch, answer, caps, level, points)
        why = "it is a question of its own: ask for reach in this window"
        note = Suppressed(what="the whole", reason=NOT_ASKED, why=why)
        return Figures(_window(stretch), notes=(note, *self._stopped(points)))

    def _period(
        self,
        stretch: Stretch,
        alone: NoisyAnswer | None,
        point: Point | None,
        caps: tuple[int, ...],
        level: float,
    ) -> SeriesPeriod:
        return SeriesPeriod(
            start=iso_seconds(stretch[0]),
            end=iso_seconds(stretch[1]),
            impressions=None if alone is None else alone.shown.impressions,
            period=None if alone is None else self._reports(alone, caps, level)[0],
            cumulative=None if point is None else self._reports(point.answer, caps, level)[0],
        )

    def together(self, subjects: Mapping[str, Subject], window: Window) -> Together:
        """Withheld: an answer about a set of campaigns is one more release about its people."""
        del subjects, window
        why = "no noise is drawn for several campaigns together"
        raise Withheld(f"campaigns together are withheld: {why}", NOT_NOISY)

    def curve(
        self, subject: Subject, by: str, caps: tuple[int, ...], level: float
    ) -> tuple[tuple[CurvePoint, ...], tuple[Suppressed, ...]]:
        """The figures so far at their own points, whatever the period: they cost nothing more."""
        del by
        points = self._source.points(subject.stored, subject.catalogue.version)
        rows = [
            CurvePoint(
                ts=iso_seconds(point.end),
                impressions=point.answer.shown.impressions,
                reports=tuple(
                    CurveReport.short(report)
                    for report in self._reports(point.answer, caps, level)[0]
                ),
            )
            for point in points.points
        ]
        return tuple(rows), self._stopped(points)

    # -- pacing -------------------------------------------------------------------------------

    def pacing(self, stored: StoredCampaign, window: Window, points: int) -> tuple[Pace, ...]:
        """Sums over all catalogues at each point of one of them."""
        series = self._points(stored)
        ends = sorted({point.end for one in series.values() for point in one.points})
        if window.start is not None:
            ends = [end for end in ends if end >= window.start.timestamp()]
        if window.end is not None:
            ends = [end for end in ends if end < window.end.timestamp()]
        rows = []
        for end in ends:
            before = [[p for p in one.points if p.end <= end] for one in series.values()]
            shown = [some[-1].answer.shown for some in before if some]
            rows.append(
                Pace(
                    ts=iso_seconds(end),
                    spent_micros=sum(one.spend_micros for one in shown),
                    impressions=sum(one.impressions for one in shown),
                )
            )
        return tuple(thinned(rows, points))

    def last_pace(self, stored: StoredCampaign) -> Pace | None:
        """At the last point."""
        rows = self.pacing(stored, Window(), 2**62)
        return rows[-1] if rows else None

    # -- answers ------------------------------------------------------------------------------

    def _one(self, subject: Subject, points: Points, stretch: Stretch) -> NoisyAnswer:
        """The answer of a stretch: one of the points, or that of a window."""
        answer = self._answers(subject, points, [stretch])[0]
        if isinstance(answer, BudgetExhausted):
            free = self._source.free_stretches(subject.stored, subject.catalogue.version, _MAX_FREE)
            raise self._exhausted(answer, free)
        return answer

    def _exhausted(self, refused: BudgetExhausted, free: list[Stretch]) -> Withheld:
        """Where the budget is short, and which windows still have an answer."""
        charge, question = self._budget.question, refused.question
        message = (
            f"privacy budget exhausted for {iso_seconds(question.start)} to "
            f"{iso_seconds(question.end)}: at {iso_seconds(refused.at)} "
            f"{refused.left_nanos / NANOS:g} of {charge.pot_nanos / NANOS:g} is left, and an "
            f"answer costs {charge.rho_nanos / NANOS:g}; earlier answers remain available"
        )
        allowed = Allowed(
            start=tuple(iso_seconds(start) for start, _ in free),
            end=tuple(iso_seconds(end) for _, end in free),
        )
        return Withheld(message, BUDGET_EXHAUSTED, allowed)

    def _answers(
        self, subject: Subject, points: Points, stretches: list[Stretch]
    ) -> list[NoisyAnswer | BudgetExhausted]:
        """Answers of stretches; one that begins with the flight may be a point."""
        first = self._source.grid(subject.stored).first
        answers: dict[Stretch, NoisyAnswer | BudgetExhausted] = {}
        for start, end in stretches:
            point = points.at(end) if start == first else None
            if point is not None:
                answers[start, end] = point.answer
        others = [stretch for stretch in stretches if stretch not in answers]
        if others:
            drawn = self._source.windows(subject.stored, subject.catalogue, others)
            answers |= dict(zip(others, drawn, strict=True))
        return [answers[stretch] for stretch in stretches]


def _window(stretch: Stretch) -> Window:
    return Window(from_seconds(stretch[0]), from_seconds(stretch[1]))


def _series_notes(exhausted: list[str], between: list[str]) -> tuple[Suppressed, ...]:
    notes = []
    if exhausted:
        why = "the privacy budget of windows there is exhausted"
        what = f"periods from {_some(exhausted)}"
        notes.append(Suppressed(what=what, reason=BUDGET_EXHAUSTED, why=why))
    if between:
        why = "only figures so far are cumulative: from the flight's start, at their points"
        what = f"cumulative at {_some(between)}"
        notes.append(Suppressed(what=what, reason=NOT_NOISY, why=why))
    return tuple(notes)


def _some(times: list[str], maximum: int = 3) -> str:
    more = f" and {len(times) - maximum} more" if len(times) > maximum else ""
    return ", ".join(times[:maximum]) + more


def _periods(grid: FlightGrid, start: int, end: int, by: str, *, cut: bool) -> list[Stretch]:
    """The periods of a series. With an open end the last is left out until it is over: otherwise a
    week that is requested daily would be a new question each day."""
    periods = grid.periods(start, end, by)
    if not cut and end < grid.last and len(periods) > 1:
        low, high = periods[-1]
        if grid.periods(low, high + grid.cell, by) == [(low, high + grid.cell)]:
            periods = periods[:-1]
    check_period_count(periods, by, _MAX_PERIODS)
    return periods
