"""Noisy answers about campaigns: recorded ones from the ledger, new ones within the budget.

The log is read before the ledger is locked; the draw, the charge and the answer are one transaction
of the ledger. What is on the grid, and which catalogues are followed, depends on the clock, the
flight and noisy numbers only.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.disclosure.noise.answers import (
    AudienceFacts,
    NoisyAnswer,
    draw_answer,
    exact_counts,
)
from kreach.adsystem.disclosure.noise.budget import Budget
from kreach.adsystem.disclosure.noise.grid import FlightGrid, flight_grid
from kreach.adsystem.disclosure.noise.ledger import MakeAnswer, PrivacyLedger
from kreach.adsystem.disclosure.noise.mechanism import Vector
from kreach.adsystem.disclosure.noise.questions import (
    BudgetExhausted,
    Charge,
    LedgerQuestion,
    LedgerUnavailable,
    RecordedAnswer,
)
from kreach.adsystem.log.counts import count_window
from kreach.adsystem.log.snapshot import LogUnavailable, Snapshot
from kreach.adsystem.reports.context import ReportContext
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.discrete_noise import Draw
from kreach.boundary.times import Window, from_seconds
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.service.clock import Clock
from kreach.service.lru_cache import LruCache

__all__ = ["NoisySource", "Point", "Points"]

_MAX_SECONDS = 15.0  # of reading the log for one catch-up; the rest is for the next question
_MAX_CACHED = 2_000  # campaigns on catalogues whose points are cached


@dataclass(frozen=True)
class Point:
    """Figures so far, up to `end`."""

    end: int
    answer: NoisyAnswer


@dataclass(frozen=True)
class Points:
    """The figures so far of a campaign on a catalogue; `refused` where the budget ended them."""

    points: tuple[Point, ...]
    refused: BudgetExhausted | None = None

    @property
    def last(self) -> Point | None:
        """The newest, if there is one."""
        return self.points[-1] if self.points else None

    def at(self, end: int) -> Point | None:
        """The one that ends at a time."""
        return next((point for point in self.points if point.end == end), None)


class NoisySource:
    """Answers with noise. For use by several threads."""

    def __init__(
        self, store: ReportContext, ledger: PrivacyLedger, budget: Budget, draw: Draw, clock: Clock
    ) -> None:
        self._store, self._ledger, self._budget = store, ledger, budget
        self._draw, self._clock = draw, clock
        self._lock = threading.Lock()
        self._point_cache = LruCache[tuple[str, str], tuple[Point, ...]](_MAX_CACHED)
        self._targets: dict[tuple[str, str], AudienceFacts] = {}

    def grid(self, stored: StoredCampaign) -> FlightGrid:
        """A campaign's flight on the grid, as of now."""
        return flight_grid(stored.campaign, self._budget.settings, self._clock())

    # -- figures so far -----------------------------------------------------------------------

    def points(self, stored: StoredCampaign, version: str) -> Points:
        """All points that are over; draws those that are due."""
        recorded = self._recorded_points(stored, version)
        grid, last = self.grid(stored), recorded[-1] if recorded else None
        stride = last.answer.stride_seconds if last else grid.stride
        affordable = self._budget.settings.max_points + 1  # one more shows that it is refused
        due = grid.due(last.end if last else None, stride)[:affordable]
        audience = self._audience(stored, version) if due else None
        if audience is None:
            return Points(recorded)
        questions = [
            LedgerQuestion(stored.campaign.id, version, "point", grid.first, end) for end in due
        ]
        with _ledger_errors():
            refused = self._ledger.refusal(questions[0], self._budget.point)
        if refused is not None:
            return Points(recorded, refused)
        answers = self._draw_points(stored, version, audience, questions, stride)
        new = tuple(_point(one) for one in answers if isinstance(one, RecordedAnswer))
        stopped = next((one for one in answers if isinstance(one, BudgetExhausted)), None)
        return Points(recorded + new, stopped)

    def recorded_catalogues(self, stored: StoredCampaign) -> list[str]:
        """The catalogues with recorded points."""
        with _ledger_errors():
            return self._ledger.catalogues(stored.campaign.id)

    def _recorded_points(self, stored: StoredCampaign, version: str) -> tuple[Point, ...]:
        """Cached points, and newer ones of the ledger: points are only ever added."""
        key = (stored.campaign.id, version)
        cached = self._point_cache.get(key) or ()
        with _ledger_errors():
            newer = self._ledger.points(*key, *([cached[-1].end] if cached else []))
        points = cached + tuple(_point(one) for one in newer)
        self._point_cache.put(key, points)
        return points

    def _draw_points(
        self,
        stored: StoredCampaign,
        version: str,
        audience: Audience,
        questions: list[LedgerQuestion],
        stride: int,
    ) -> list[RecordedAnswer | BudgetExhausted]:
        """Each point counts all impressions since the start, so a later one includes late rows."""
        charge = self._budget.point
        strength = self._budget.strength(charge)
        target, exact = self._target(stored, version, audience), {}
        deadline = time.monotonic() + _MAX_SECONDS
        with self._store.live.snapshot() as now:
            catalogue = self._store.catalogues.get(version)
            counts, spend, start = None, 0, questions[0].start
            for question in questions:
                more, micros = self._count(now, stored, catalogue, start, question.end)
                counts = more if counts is None else counts + more
                spend, start = spend + micros, question.end
                exact[question.end] = exact_counts(audience, counts, spend, strength)
                if time.monotonic() > deadline:
                    break

        def make(question: LedgerQuestion, before: RecordedAnswer | None) -> dict[str, Any]:
            last = None if before is None else NoisyAnswer.from_document(before.answer)
            vector = exact[question.end]
            return draw_answer(vector, strength, target, self._draw, last, stride).document()

        with _ledger_errors():
            return self._ledger.ask(questions[: len(exact)], charge, make)

    # -- windows ------------------------------------------------------------------------------

    def windows(
        self, stored: StoredCampaign, catalogue: Catalogue, stretches: Sequence[tuple[int, int]]
    ) -> list[NoisyAnswer | BudgetExhausted]:
        """An answer for each stretch, or what the budget lacks."""
        charge = self._budget.question
        strength = self._budget.strength(charge)
        audience = self._store.catalogues.audience(catalogue, stored.campaign.audience)
        target = self._target(stored, catalogue.version, audience)
        version = catalogue.version
        questions = [
            LedgerQuestion(stored.campaign.id, version, "window", start, end)
            for start, end in stretches
        ]
        exact: dict[LedgerQuestion, Vector] = {}
        new = [question for question in questions if self._is_new(question, charge)]
        if new:
            with self._store.live.snapshot() as now:
                for question in new:
                    counts, spend = self._count(
                        now, stored, catalogue, question.start, question.end
                    )
                    exact[question] = exact_counts(audience, counts, spend, strength)

        def make(question: LedgerQuestion, before: RecordedAnswer | None) -> dict[str, Any]:
            del before
            return draw_answer(exact[question], strength, target, self._draw).document()

        return [
            one if isinstance(one, BudgetExhausted) else NoisyAnswer.from_document(one.answer)
            for one in self._ask(questions, exact, charge, make)
        ]

    def recorded(
        self, stored: StoredCampaign, catalogue: Catalogue, start: int, end: int
    ) -> NoisyAnswer | None:
        """The recorded answer for a window, if there is one."""
        question = LedgerQuestion(stored.campaign.id, catalogue.version, "window", start, end)
        with _ledger_errors():
            answer = self._ledger.recorded(question)
        return None if answer is None else NoisyAnswer.from_document(answer.answer)

    def _is_new(self, question: LedgerQuestion, charge: Charge) -> bool:
        """Whether the log must be read: no answer is recorded, and the budget allows one."""
        with _ledger_errors():
            if self._ledger.recorded(question) is not None:
                return False
            return self._ledger.refusal(question, charge) is None

    def _ask(
        self,
        questions: list[LedgerQuestion],
        exact: dict[LedgerQuestion, Vector],
        charge: Charge,
        make: MakeAnswer,
    ) -> list[RecordedAnswer | BudgetExhausted]:
        """Answers in the order of the questions; what was refused before stays refused."""
        with _ledger_errors():
            new = self._ledger.ask(list(exact), charge, make) if exact else []
            drawn = dict(zip(exact, new, strict=True))
            answers: list[RecordedAnswer | BudgetExhausted] = []
            for question in questions:
                answer = drawn.get(question) or self._ledger.recorded(question)
                if answer is None:
                    answer = self._ledger.refusal(question, charge)
                if answer is None:  # cannot be: charges are never taken back
                    raise LedgerUnavailable("the privacy ledger lost a charge")
                answers.append(answer)
            return answers

    def free_stretches(
        self, stored: StoredCampaign, version: str, limit: int
    ) -> list[tuple[int, int]]:
        """Stretches with a recorded answer, which costs nothing more, the newest first."""
        with _ledger_errors():
            return self._ledger.stretches(stored.campaign.id, version, limit)

    # -- the log ------------------------------------------------------------------------------

    def _count(
        self, now: Snapshot, stored: StoredCampaign, catalogue: Catalogue, start: int, end: int
    ) -> tuple[IntArray, int]:
        """Impressions by group in [start, end), and what they cost, each up to a limit."""
        counted = count_window(
            now,
            now.place(stored.number, catalogue.version),
            len(catalogue),
            Window(from_seconds(start), from_seconds(end)),
            max_price_micros=self._budget.strength(self._budget.point).max_price_micros,
        )
        return counted.by_group, counted.known_spend_micros

    def _audience(self, stored: StoredCampaign, version: str) -> Audience | None:
        catalogues = self._store.catalogues
        try:
            return catalogues.audience(catalogues.get(version), stored.campaign.audience)
        except KreachError:  # unknown catalogue or audience: nothing is bought there
            return None

    def _target(self, stored: StoredCampaign, version: str, audience: Audience) -> AudienceFacts:
        key = (version, stored.campaign.audience)
        with self._lock:
            facts = self._targets.get(key)
        if facts is None:
            facts = AudienceFacts.of(audience)
            with self._lock:
                self._targets[key] = facts
        return facts


@contextmanager
def _ledger_errors() -> Iterator[None]:
    """Report an unusable ledger like an unreadable log: nothing is shown."""
    try:
        yield
    except LedgerUnavailable as error:
        raise LogUnavailable(str(error)) from error


def _point(recorded: RecordedAnswer) -> Point:
    return Point(recorded.question.end, NoisyAnswer.from_document(recorded.answer))
