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
from kreach.adsystem.disclosure.noise.answers import Answer, Target, draw_answer, exact_counts
from kreach.adsystem.disclosure.noise.budget import Budget
from kreach.adsystem.disclosure.noise.grid import Span, span_of
from kreach.adsystem.disclosure.noise.ledger import (
    Charge,
    Kept,
    LedgerFailing,
    Question,
    Refused,
    Spending,
)
from kreach.adsystem.disclosure.noise.mechanism import Draw, Vector
from kreach.adsystem.log.snapshot import LogFailing, Snapshot
from kreach.adsystem.reports.noisy_log import counted
from kreach.adsystem.reports.service import Reporting
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.errors import KreachError
from kreach.service.clock import Clock
from kreach.service.lru_cache import LruCache

__all__ = ["NoisySource", "Point", "Points"]

_MAX_SECONDS = 15.0  # of reading the log for one catch-up; the rest is for the next question
_MAX_HELD = 2_000  # campaigns on catalogues whose points are at hand
_NO_NUMBER = -1  # of a catalogue that the bidder has not met


@dataclass(frozen=True)
class Point:
    """One of the numbers so far."""

    end: int
    answer: Answer


@dataclass(frozen=True)
class Points:
    """The numbers so far of a campaign on a catalogue, and what keeps them from going on."""

    points: tuple[Point, ...]
    refused: Refused | None = None

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
        self, reporting: Reporting, spending: Spending, budget: Budget, draw: Draw, clock: Clock
    ) -> None:
        self._reporting, self._spending, self._budget = reporting, spending, budget
        self._draw, self._clock = draw, clock
        self._lock = threading.Lock()
        self._held = LruCache[tuple[str, str], tuple[Point, ...]](_MAX_HELD)
        self._targets: dict[tuple[str, str], Target] = {}

    def span(self, kept: StoredCampaign) -> Span:
        """A campaign's flight on the grid, as of now."""
        return span_of(kept.campaign, self._budget.settings, self._clock())

    # -- numbers so far -----------------------------------------------------------------------

    def points(self, kept: StoredCampaign, version: str) -> Points:
        """All points that are over, those that are due drawn now."""
        told = self._kept_points(kept, version)
        span, last = self.span(kept), told[-1] if told else None
        stride = last.answer.stride_seconds if last else span.stride
        affordable = self._budget.settings.max_points + 1  # one more shows that it is refused
        due = span.due(last.end if last else None, stride)[:affordable]
        audience = self._audience(kept, version) if due else None
        if audience is None:
            return Points(told)
        questions = [Question(kept.campaign.id, version, "point", span.first, end) for end in due]
        with _ledger():
            refused = self._spending.refusal(questions[0], self._budget.point)
        if refused is not None:
            return Points(told, refused)
        found = self._drawn_points(kept, version, audience, questions, stride)
        new = tuple(_point(one) for one in found if isinstance(one, Kept))
        stopped = next((one for one in found if isinstance(one, Refused)), None)
        return Points(told + new, stopped)

    def begun(self, kept: StoredCampaign) -> list[str]:
        """The catalogues on which points were told."""
        with _ledger():
            return self._spending.catalogues(kept.campaign.id)

    def _kept_points(self, kept: StoredCampaign, version: str) -> tuple[Point, ...]:
        """Those at hand, and what the ledger has beyond: points are only ever added."""
        key = (kept.campaign.id, version)
        held = self._held.get(key) or ()
        with _ledger():
            found = self._spending.points(*key, *([held[-1].end] if held else []))
        points = held + tuple(_point(one) for one in found)
        self._held.put(key, points)
        return points

    def _drawn_points(
        self,
        kept: StoredCampaign,
        version: str,
        audience: Audience,
        questions: list[Question],
        stride: int,
    ) -> list[Kept | Refused]:
        """Each point is of all impressions since the start, so what is late comes in later."""
        charge = self._budget.point
        strength = self._budget.strength(charge)
        target, exact = self._target(kept, version, audience), {}
        deadline = time.monotonic() + _MAX_SECONDS
        with self._reporting.live.snapshot() as now:
            catalogue = self._reporting.shelf.get(version)
            counts, spend, start = None, 0, questions[0].start
            for question in questions:
                more, micros = self._counted(now, kept, catalogue, start, question.end)
                counts = more if counts is None else counts + more
                spend, start = spend + micros, question.end
                exact[question.end] = exact_counts(audience, counts, spend, strength)
                if time.monotonic() > deadline:
                    break

        def make(question: Question, before: Kept | None) -> dict[str, Any]:
            last = None if before is None else Answer.from_document(before.answer)
            vector = exact[question.end]
            return draw_answer(vector, strength, target, self._draw, last, stride).document()

        with _ledger():
            return self._spending.ask(questions[: len(exact)], charge, make)

    # -- windows ------------------------------------------------------------------------------

    def windows(
        self, kept: StoredCampaign, catalogue: Catalogue, stretches: Sequence[tuple[int, int]]
    ) -> list[Answer | Refused]:
        """An answer for each stretch, or what the budget lacks."""
        charge = self._budget.question
        strength = self._budget.strength(charge)
        audience = self._reporting.shelf.audience(catalogue, kept.campaign.audience)
        target = self._target(kept, catalogue.version, audience)
        version = catalogue.version
        questions = [
            Question(kept.campaign.id, version, "window", start, end) for start, end in stretches
        ]
        exact: dict[Question, Vector] = {}
        new = [question for question in questions if self._is_new(question, charge)]
        if new:
            with self._reporting.live.snapshot() as now:
                for question in new:
                    counts, spend = self._counted(
                        now, kept, catalogue, question.start, question.end
                    )
                    exact[question] = exact_counts(audience, counts, spend, strength)

        def make(question: Question, before: Kept | None) -> dict[str, Any]:
            del before
            return draw_answer(exact[question], strength, target, self._draw).document()

        found = self._told(questions, exact, charge, make)
        return [
            one if isinstance(one, Refused) else Answer.from_document(one.answer) for one in found
        ]

    def known(
        self, kept: StoredCampaign, catalogue: Catalogue, start: int, end: int
    ) -> Answer | None:
        """The answer that was given for a stretch, if it was asked for before."""
        question = Question(kept.campaign.id, catalogue.version, "window", start, end)
        with _ledger():
            found = self._spending.kept(question)
        return None if found is None else Answer.from_document(found.answer)

    def _is_new(self, question: Question, charge: Charge) -> bool:
        """Whether the log must be read for it: it was not answered, and there is budget for it."""
        with _ledger():
            if self._spending.kept(question) is not None:
                return False
            return self._spending.refusal(question, charge) is None

    def _told(
        self,
        questions: list[Question],
        exact: dict[Question, Vector],
        charge: Charge,
        make: Callable[[Question, Kept | None], dict[str, Any]],
    ) -> list[Kept | Refused]:
        """In the order asked; what was refused before the log was read is refused still."""
        with _ledger():
            found_now = self._spending.ask(list(exact), charge, make) if exact else []
            drawn = dict(zip(exact, found_now, strict=True))
            told: list[Kept | Refused] = []
            for question in questions:
                found = drawn.get(question) or self._spending.kept(question)
                if found is None:
                    found = self._spending.refusal(question, charge)
                if found is None:  # cannot be: charges are never taken back
                    raise LedgerFailing("the ledger of noise lost a charge")
                told.append(found)
            return told

    def free(self, kept: StoredCampaign, version: str, most: int) -> list[tuple[int, int]]:
        """Stretches that were told before and cost nothing any more, the newest first."""
        with _ledger():
            return self._spending.stretches(kept.campaign.id, version, most)

    # -- the log ------------------------------------------------------------------------------

    def _counted(
        self, now: Snapshot, kept: StoredCampaign, catalogue: Catalogue, start: int, end: int
    ) -> Any:
        place = (kept.number, now.numbers.get(catalogue.version, _NO_NUMBER))
        limit = self._budget.strength(self._budget.point).max_price_micros
        return counted(now, place, len(catalogue), start, end, limit)

    def _audience(self, kept: StoredCampaign, version: str) -> Audience | None:
        shelf = self._reporting.shelf
        try:
            return shelf.audience(shelf.get(version), kept.campaign.audience)
        except KreachError:  # not on the shelf, or it has no such audience: nothing is bought there
            return None

    def _target(self, kept: StoredCampaign, version: str, audience: Audience) -> Target:
        key = (version, kept.campaign.audience)
        with self._lock:
            found = self._targets.get(key)
        if found is None:
            found = Target.of(audience)
            with self._lock:
                self._targets[key] = found
        return found


@contextmanager
def _ledger() -> Iterator[None]:
    """A ledger that cannot be used is told like a log that cannot be read: nothing is shown."""
    try:
        yield
    except LedgerFailing as error:
        raise LogFailing(str(error)) from error


def _point(kept: Kept) -> Point:
    return Point(kept.question.end, Answer.from_document(kept.answer))
