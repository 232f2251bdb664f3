"""Reporting as advertisers see it with differential privacy: noisy answers, each drawn once.

Numbers so far are told at points of a grid, windows between them for a part of the budget. Nothing
that is shown, refused or left out depends on the log but through noisy answers; what they do not
cover is null, with the reason.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kreach.adsystem.campaigns.questions import PlanQuestion, ReachQuestion
from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.disclosure.audiences import NOT_HERE
from kreach.adsystem.disclosure.guard import Withheld
from kreach.adsystem.disclosure.noise.answers import Answer
from kreach.adsystem.disclosure.noise.budget import Budget
from kreach.adsystem.disclosure.noise.grid import Span, iso_of, window_in
from kreach.adsystem.disclosure.noise.ledger import Refused, Spending, check_ledger
from kreach.adsystem.disclosure.noise.mechanism import Draw, opendp_draw
from kreach.adsystem.disclosure.suppressions import Suppressions
from kreach.adsystem.log.snapshot import LogFailing
from kreach.adsystem.reports.guarded import GuardedReporting
from kreach.adsystem.reports.noisy_documents import NoisyDocuments, noisy_caps, spent
from kreach.adsystem.reports.noisy_source import NoisySource, Points
from kreach.adsystem.reports.service import Reporting, page_of
from kreach.adsystem.settings import GuardSettings, NoiseSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.times import Window
from kreach.errors import KreachError
from kreach.service.clock import Clock

__all__ = ["NoisyReporting", "check_noise"]

Document = dict[str, Any]

_CLEARLY = 3.0  # σ above 0: a catalogue that has impressions
_MAX_PERIODS = 400
_MAX_FREE = 20


def check_noise(settings: NoiseSettings, store: Path) -> Document:
    """What `[noise]` promises, for --check-config; refuses where it could not be kept."""
    if not settings.enabled:
        return {"noise": "off"}
    opendp_draw()
    return {"noise": Budget(settings).facts() | {"answers": check_ledger(store)}}


class NoisyReporting:
    """Campaigns and reports for advertisers, with noise. For use by several threads.

    It takes the place of `guarded`, which goes on to keep campaigns and plans; from `guard` come
    the rules for audiences. Reports are read from `reporting`, on a grid of their own. `draw` is
    for tests of what follows a draw.
    """

    def __init__(
        self,
        reporting: Reporting,
        guarded: GuardedReporting,
        settings: NoiseSettings,
        guard: GuardSettings,
        clock: Clock,
        draw: Draw | None = None,
    ) -> None:
        self._inner, self._guarded = reporting, guarded
        self._guard = guard
        drawing = opendp_draw() if draw is None else draw
        self._budget = Budget(settings)
        self._max_cap = settings.max_frequency - 1
        self._spending = Spending(reporting.shared.store)
        self._source = NoisySource(reporting, self._spending, self._budget, drawing, clock)
        self._documents = NoisyDocuments(self._budget, reporting)
        self._suppressions = Suppressions(clock)

    def close(self) -> None:
        """Let go of the ledger and of `guarded`; `reporting` is its owner's."""
        self._spending.close()
        self._guarded.close()

    def suppressions(self) -> Document:
        """What was withheld lately, and why: for operators and publishers."""
        told = [self._suppressions.document(), self._guarded.suppressions()]
        entries = [entry for one in told for entry in one["suppressions"]]
        entries.sort(key=lambda entry: str(entry["last"]), reverse=True)
        reasons = Counter(told[0]["by_reason"])
        reasons.update(told[1]["by_reason"])
        return {"by_reason": dict(reasons), "suppressions": entries}

    def suppressed_by_reason(self) -> dict[str, float]:
        """How often something was withheld since the start, for metrics."""
        reasons = self._guarded.suppressed_by_reason()
        for reason, times in self._suppressions.by_reason().items():
            reasons[reason] = reasons.get(reason, 0.0) + times
        return reasons

    # -- campaigns ----------------------------------------------------------------------------

    def create(self, document: Document) -> Document:
        """Keep a new campaign, if advertisers may use its audience."""
        return self._guarded.create(document)

    def change(self, campaign_id: str, changes: Document) -> Document:
        """Change what may change."""
        return self._guarded.change(campaign_id, changes)

    def plan(self, campaign_id: str, asked: PlanQuestion) -> Document:
        """What budgets would reach. It looks at no log, only at the audience."""
        return self._guarded.plan(campaign_id, asked)

    def catalogues(self) -> Document:
        """The releases, and the audiences that advertisers may use."""
        return self._guarded.catalogues()

    def listing(self, after: str | None, limit: int, owner: str | None = None) -> Document:
        """Campaigns in the order they were made, with what each has come to."""
        page, following = page_of(self._inner.campaigns.all(owner=owner), after, limit)
        self._meet()
        shown = []
        for kept in page:
            series = self._series_of(kept)
            told = self._tally(kept, series, "list")
            version = self._default(kept, series)
            last = series[version].last if told["impressions"] is not None else None
            told |= self._documents.brief(version, last)
            shown.append(kept.campaign.document() | {"status": told})
        currency = self._inner.shared.currency
        return {"currency": currency, "campaigns": shown, "next": following}

    def status(self, campaign_id: str, level: float) -> Document:
        """A campaign and how it stands, as of the last point."""
        kept = self._inner.campaigns.get(campaign_id)
        self._meet()
        series = self._series_of(kept)
        told = self._tally(kept, series, "status")
        version = self._default(kept, series)
        last = series[version].last if told["impressions"] is not None else None
        told = self._documents.standing(kept, told, series, version, last, level)
        return kept.campaign.document() | {"status": told}

    def _tally(self, kept: StoredCampaign, series: dict[str, Points], asked: str) -> Document:
        """Impressions, spend and what is left on all catalogues; or nothing, and why."""
        try:
            self._check_audience(kept, self._inner.shelf.newest)
            told = self._documents.tally(kept, series, self._source.span(kept))
        except Withheld as error:
            told = self._documents.nothing_told(error.reason, str(error))
        for note in told["suppressed"]:
            self._suppressions.add(note["reason"], kept.campaign.id, asked)
        return told

    # -- reports ------------------------------------------------------------------------------

    def reach(self, campaign_id: str, asked: ReachQuestion) -> Document:
        """Reach up to the last point, or in a window of whole cells."""
        kept, chosen, points = self._subject(campaign_id, asked.catalogue)
        caps, window = noisy_caps(kept, asked.caps, self._max_cap), asked.window
        with self._noting(campaign_id, f"reach {_words(window)}"):
            self._check_audience(kept, chosen)
            span = self._source.span(kept)
            if asked.so_far:
                if points.last is None:
                    return self._documents.nothing(kept, chosen, span)
                start, end, answer = span.first, points.last.end, points.last.answer
            else:
                start, end = window_in(span, window)
                answer = self._told(kept, chosen, points, start, end)
            found = self._documents.reach(kept, chosen, (start, end), answer, caps, asked.level)
            return self._documents.stopped(found, points)

    def series(self, campaign_id: str, by: str, asked: ReachQuestion) -> Document:
        """Reach period by period: each alone a window, cumulative the numbers so far."""
        kept, chosen, points = self._subject(campaign_id, asked.catalogue)
        caps, window = noisy_caps(kept, asked.caps, self._max_cap), asked.window
        with self._noting(campaign_id, f"series {_words(window)}"):
            self._check_audience(kept, chosen)
            span = self._source.span(kept)
            if points.last is None and asked.so_far:
                return self._documents.nothing(kept, chosen, span) | {"by": by, "series": []}
            start, end = window_in(span, window)
            if window.end is None and points.refused is None and points.last is not None:
                end = max(points.last.end, start + span.cell)
            periods = _periods(span, start, end, by, cut=window.end is not None)
            whole = self._known(kept, chosen, points, start, end)
            found = self._documents.reach(kept, chosen, (start, end), whole, caps, asked.level)
            alone = self._alone(kept, chosen, points, periods)
            so_far = [points.at(high) if start == span.first else None for _, high in periods]
            told = list(zip(periods, alone, so_far, strict=True))
            found = self._documents.series(found, by, told, caps, asked.level)
            return self._documents.stopped(found, points)

    def curve(self, campaign_id: str, by: str, asked: ReachQuestion) -> Document:
        """The numbers so far, at their own points, whatever the period: they cost nothing more."""
        kept, chosen, points = self._subject(campaign_id, asked.catalogue)
        caps = noisy_caps(kept, asked.caps, self._max_cap)
        with self._noting(campaign_id, "curve"):
            self._check_audience(kept, chosen)
        return self._documents.curve(kept, chosen, points, by, caps, asked.level)

    def pacing(self, campaign_id: str, window: Window, points: int) -> Document:
        """Spend and impressions at points."""
        kept = self._inner.campaigns.get(campaign_id)
        self._meet()
        series = self._series_of(kept)
        told = self._tally(kept, series, "pacing")
        return self._documents.pacing(kept, told, series, window, points)

    # -- what is asked ------------------------------------------------------------------------

    def _meet(self) -> None:
        """Take up catalogues that are new; what was told before is told without a log, too."""
        with suppress(LogFailing), self._inner.live.snapshot() as now:
            self._inner.shelf.meet(now.numbers)

    def _followed(self, kept: StoredCampaign) -> list[str]:
        """The catalogue that was the newest when the flight began, and all later ones."""
        shelf = self._inner.shelf
        versions, start = shelf.versions, kept.campaign.start
        before = [at for at, name in enumerate(versions) if shelf.get(name).created <= start]
        return versions[max(before, default=0) :]

    def _series_of(self, kept: StoredCampaign) -> dict[str, Points]:
        """Numbers so far on all catalogues that are followed or were asked for, the newest last."""
        followed = self._followed(kept)
        begun = [name for name in self._source.begun(kept) if name not in followed]
        return {name: self._source.points(kept, name) for name in [*begun, *followed]}

    def _default(self, kept: StoredCampaign, series: dict[str, Points]) -> str:
        """The newest catalogue that clearly has impressions, by noisy numbers; else the first."""
        followed = self._followed(kept)
        for name in reversed(followed):
            last = series[name].last
            if last is not None:
                noise = last.answer.strength.parts[1].scale
                if last.answer.noisy.impressions > _CLEARLY * noise:
                    return name
        return followed[0]

    def _subject(
        self, campaign_id: str, asked: str | None
    ) -> tuple[StoredCampaign, Catalogue, Points]:
        """What a report is about: a campaign, a catalogue, and its numbers so far."""
        kept, shelf = self._inner.campaigns.get(campaign_id), self._inner.shelf
        self._meet()
        if asked is None:
            series = self._series_of(kept)
            asked = self._default(kept, series)
            return kept, shelf.get(asked), series[asked]
        catalogue = shelf.get(asked)
        shelf.audience(catalogue, kept.campaign.audience)  # refuses one that it does not have
        return kept, catalogue, self._source.points(kept, asked)

    def _told(
        self, kept: StoredCampaign, catalogue: Catalogue, points: Points, start: int, end: int
    ) -> Answer:
        """The answer of a stretch: one of the numbers so far, or that of a window."""
        found = self._alone(kept, catalogue, points, [(start, end)])[0]
        if isinstance(found, Refused):
            free = self._source.free(kept, catalogue.version, _MAX_FREE)
            raise spent(found, self._budget.question, free)
        return found

    def _known(
        self, kept: StoredCampaign, catalogue: Catalogue, points: Points, start: int, end: int
    ) -> Answer | None:
        """The answer of a stretch, if it is there without a new question."""
        point = points.at(end) if start == self._source.span(kept).first else None
        return self._source.known(kept, catalogue, start, end) if point is None else point.answer

    def _alone(
        self,
        kept: StoredCampaign,
        catalogue: Catalogue,
        points: Points,
        stretches: list[tuple[int, int]],
    ) -> list[Answer | Refused]:
        """Answers of stretches; what begins with the flight may be told already."""
        first = self._source.span(kept).first
        told: dict[tuple[int, int], Answer | Refused] = {}
        for start, end in stretches:
            point = points.at(end) if start == first else None
            if point is not None:
                told[start, end] = point.answer
        others = [stretch for stretch in stretches if stretch not in told]
        found = self._source.windows(kept, catalogue, others) if others else []
        told |= dict(zip(others, found, strict=True))
        return [told[stretch] for stretch in stretches]

    def _check_audience(self, kept: StoredCampaign, catalogue: Catalogue) -> None:
        if not self._guard.enabled:
            return
        verdict = self._guarded.verdict(kept.campaign.audience, catalogue)
        if verdict.reason is not None and verdict.reason != NOT_HERE:
            rule = f"{verdict.rule} to be used by advertisers"
            said = str(KreachError.rule("audience", rule, kept.campaign.audience))
            raise Withheld(said, verdict.reason)

    @contextmanager
    def _noting(self, campaign_id: str, asked: str) -> Iterator[None]:
        try:
            yield
        except Withheld as error:
            self._suppressions.add(error.reason, campaign_id, asked)
            raise


def _periods(span: Span, start: int, end: int, by: str, *, cut: bool) -> list[tuple[int, int]]:
    """The periods of a series. With an open end the last is left out until it is over: told day by
    day, a week would be another question each day."""
    periods = span.periods(start, end, by)
    if not cut and end < span.last and len(periods) > 1:
        low, high = periods[-1]
        if span.periods(low, high + span.cell, by) == [(low, high + span.cell)]:
            periods = periods[:-1]
    if len(periods) > _MAX_PERIODS:
        rule = f"hold at most {_MAX_PERIODS} periods"
        raise KreachError.rule("window", rule, f"{len(periods)} by {by}")
    return periods


def _words(window: Window) -> str:
    ends = (window.start, window.end)
    told = [None if end is None else iso_of(end.timestamp()) for end in ends]
    return f"from {told[0] or 'the first'} to {told[1] or 'the last'}"
