"""Noisy answers about campaigns: kept ones from the ledger, new ones from the log, within budget.

The log is read before the ledger is locked; the draw, the charge and the answer are one transaction
of the ledger. What is on the grid, and which catalogues are followed, depends on the clock, the
flight and noisy numbers only.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
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
from kreach.adsystem.disclosure.noise.ledger import (
    BudgetExhausted,
    Charge,
    LedgerQuestion,
    LedgerUnavailable,
    PrivacyLedger,
    RecordedAnswer,
)
from kreach.adsystem.disclosure.noise.mechanism import Draw, Vector
from kreach.adsystem.log.counts import count_window
from kreach.adsystem.log.snapshot import LogUnavailable, Snapshot
from kreach.adsystem.reports.store import ReportStore
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.times import Window, from_seconds
from kreach.errors import KreachError
from kreach.numeric.types import IntArray
from kreach.service.clock import Clock
from kreach.service.lru_cache import LruCache

__all__ = ["NoisySource", "Point", "Points"]

_MAX_SECONDS = 15.0  # of reading the log for one catch-up; the rest is for the next question
_MAX_HELD = 2_000  # campaigns on catalogues whose points are at hand


@dataclass(frozen=True)
class Point:
    """One of the numbers so far."""

    end: int
    answer: NoisyAnswer


@dataclass(frozen=True)
class Points:
    """The numbers so far of a campaign on a catalogue, and what keeps them from going on."""

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
        self, store: ReportStore, ledger: PrivacyLedger, budget: Budget, draw: Draw, clock: Clock
    ) -> None:
        self._store, self._ledger, self._budget = store, ledger, budget
        self._draw, self._clock = draw, clock
        self._lock = threading.Lock()
        self._held = LruCache[tuple[str, str], tuple[Point, ...]](_MAX_HELD)
        self._targets: dict[tuple[str, str], AudienceFacts] = {}

    def span(self, stored: StoredCampaign) -> FlightGrid:
        """A campaign's flight on the grid, as of now."""
        return flight_grid(stored.campaign, self._budget.settings, self._clock())

    # -- numbers so far -----------------------------------------------------------------------

    def points(self, stored: StoredCampaign, version: str) -> Points:
        """All points that are over, those that are due drawn now."""
        told = self._recorded_points(stored, version)
        span, last = self.span(stored), told[-1] if told else None
        stride = last.answer.stride_seconds if last else span.stride
        affordable = self._budget.settings.max_points + 1  # one more shows that it is refused
        due = span.due(last.end if last else None, stride)[:affordable]
        audience = self._audience(stored, version) if due else None
        if audience is None:
            return Points(told)
        questions = [
            LedgerQuestion(stored.campaign.id, version, "point", span.first, end) for end in due
        ]
        with _ledger_errors():
            refused = self._ledger.refusal(questions[0], self._budget.point)
        if refused is not None:
            return Points(told, refused)
        found = self._drawn_points(stored, version, audience, questions, stride)
        new = tuple(_point(one) for one in found if isinstance(one, RecordedAnswer))
        stopped = next((one for one in found if isinstance(one, BudgetExhausted)), None)
        return Points(told + new, stopped)

    def begun(self, stored: StoredCampaign) -> list[str]:
        """The catalogues on which points were told."""
        with _ledger_errors():
            return self._ledger.catalogues(stored.campaign.id)

    def _recorded_points(self, stored: StoredCampaign, version: str) -> tuple[Point, ...]:
        """Those at hand, and what the ledger has beyond: points are only ever added."""
        key = (stored.campaign.id, version)
        held = self._held.get(key) or ()
        with _ledger_errors():
            found = self._ledger.points(*key, *([held[-1].end] if held else []))
        points = held + tuple(_point(one) for one in found)
        self._held.put(key, points)
        return points

    def _drawn_points(
        self,
        stored: StoredCampaign,
        version: str,
        audience: Audience,
        questions: list[LedgerQuestion],
        stride: int,
    ) -> list[RecordedAnswer | BudgetExhausted]:
        """Each point is of all impressions since the start, so what is late comes in later."""
        charge = self._budget.point
        strength = self._budget.strength(charge)
        target, exact = self._target(stored, version, audience), {}
        deadline = time.monotonic() + _MAX_SECONDS
        with self._store.live.snapshot() as now:
            catalogue = self._store.catalogues.get(version)
            counts, spend, start = None, 0, questions[0].start
            for question in questions:
                more, micros = self._counted(now, stored, catalogue, start, question.end)
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
                    counts, spend = self._counted(
                        now, stored, catalogue, question.start, question.end
                    )
                    exact[question] = exact_counts(audience, counts, spend, strength)

        def make(question: LedgerQuestion, before: RecordedAnswer | None) -> dict[str, Any]:
            del before
            return draw_answer(exact[question], strength, target, self._draw).document()

        found = self._told(questions, exact, charge, make)
        return [
            one if isinstance(one, BudgetExhausted) else NoisyAnswer.from_document(one.answer)
            for one in found
        ]

    def known(
        self, stored: StoredCampaign, catalogue: Catalogue, start: int, end: int
    ) -> NoisyAnswer | None:
        """The answer that was given for a stretch, if it was asked for before."""
        question = LedgerQuestion(stored.campaign.id, catalogue.version, "window", start, end)
        with _ledger_errors():
            found = self._ledger.recorded(question)
        return None if found is None else NoisyAnswer.from_document(found.answer)

    def _is_new(self, question: LedgerQuestion, charge: Charge) -> bool:
        """Whether the log must be read for it: it was not answered, and there is budget for it."""
        with _ledger_errors():
            if self._ledger.recorded(question) is not None:
                return False
            return self._ledger.refusal(question, charge) is None

    def _told(
        self,
        questions: list[LedgerQuestion],
        exact: dict[LedgerQuestion, Vector],
        charge: Charge,
        make: Callable[[LedgerQuestion, RecordedAnswer | None], dict[str, Any]],
    ) -> list[RecordedAnswer | BudgetExhausted]:
        """In the order asked; what was refused before the log was read is refused still."""
        with _ledger_errors():
            found_now = self._ledger.ask(list(exact), charge, make) if exact else []
            drawn = dict(zip(exact, found_now, strict=True))
            told: list[RecordedAnswer | BudgetExhausted] = []
            for question in questions:
                found = drawn.get(question) or self._ledger.recorded(question)
                if found is None:
                    found = self._ledger.refusal(question, charge)
                if found is None:  # cannot be: charges are never taken back
                    raise LedgerUnavailable("the ledger of noise lost a charge")
                told.append(found)
            return told

    def free(self, stored: StoredCampaign, version: str, most: int) -> list[tuple[int, int]]:
        """Stretches that were told before and cost nothing any more, the newest first."""
        with _ledger_errors():
            return self._ledger.stretches(stored.campaign.id, version, most)

    # -- the log ------------------------------------------------------------------------------

    def _counted(
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
        except (
            KreachError
        ):  # not on the catalogues, or it has no such audience: nothing is bought there
            return None

    def _target(self, stored: StoredCampaign, version: str, audience: Audience) -> AudienceFacts:
        key = (version, stored.campaign.audience)
        with self._lock:
            found = self._targets.get(key)
        if found is None:
            found = AudienceFacts.of(audience)
            with self._lock:
                self._targets[key] = found
        return found


@contextmanager
def _ledger_errors() -> Iterator[None]:
    """A ledger that cannot be used is told like a log that cannot be read: nothing is shown."""
    try:
        yield
    except LedgerUnavailable as error:
        raise LogUnavailable(str(error)) from error


def _point(recorded: RecordedAnswer) -> Point:
    return Point(recorded.question.end, NoisyAnswer.from_document(recorded.answer))
