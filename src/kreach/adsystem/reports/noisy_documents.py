"""Noisy answers as documents of the same form as exact ones; null and a reason for the rest."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from kreach.adsystem.campaigns.store import StoredCampaign
from kreach.adsystem.disclosure.guard import Note, Withheld
from kreach.adsystem.disclosure.noise.answers import Answer
from kreach.adsystem.disclosure.noise.budget import Budget
from kreach.adsystem.disclosure.noise.grid import NOT_OVER, Span, iso_of
from kreach.adsystem.disclosure.noise.ledger import Charge, Refused
from kreach.adsystem.disclosure.noise.mechanism import MILLIS, NANOS
from kreach.adsystem.disclosure.noise.reports import cap_documents, noise_document
from kreach.adsystem.measurement.report import measure
from kreach.adsystem.reports.documents import in_short
from kreach.adsystem.reports.noisy_source import Point, Points
from kreach.adsystem.reports.service import Reporting, caps_of, facts_of
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.money import MICROS, as_micros
from kreach.boundary.times import Window
from kreach.errors import KreachError

__all__ = ["NoisyDocuments", "noisy_caps", "spent"]

Document = dict[str, Any]
Stretch = tuple[int, int]

SPENT = "privacy budget spent"
NOT_NOISY = "not covered by noise"
NOT_ASKED = "not asked for"
_ALL = "impressions, spend and reach"
_DIARY = "multiplier, reserved, carried, requests, bids, wins, losses"
_ALWAYS = Window()
_EMPTY = ["multiplier", "reserved_micros", "carried_micros", "requests"]
_EMPTY += ["bids", "wins", "losses", "win_rate"]


def noisy_caps(kept: StoredCampaign, caps: Iterable[int], most: int) -> tuple[int, ...]:
    """The caps asked for, as far as people are counted; without any, 1 and the campaign's own."""
    given = tuple(caps)
    for cap in given:
        if cap > most:
            raise KreachError.rule("cap", f"be at most {most} with noise", cap)
    return caps_of(kept, given)


def spent(refused: Refused, charge: Charge, free: list[Stretch]) -> Withheld:
    """Why a question is not answered: where the budget is short, and what is still told."""
    question = refused.question
    said = (
        f"lie where budget is left: at {iso_of(refused.at)} there is "
        f"{refused.left_nanos / NANOS:g} of {charge.pot_nanos / NANOS:g}, and an answer costs "
        f"{charge.rho_nanos / NANOS:g}; what was told before is told again"
    )
    shown = f"{iso_of(question.start)} to {iso_of(question.end)}"
    allowed = {
        "start": [iso_of(start) for start, _ in free],
        "end": [iso_of(end) for _, end in free],
    }
    return Withheld(str(KreachError.rule("window", said, shown)), SPENT, allowed)


class NoisyDocuments:
    """Makes documents; it sees answers, flights and settings, never the log."""

    def __init__(self, budget: Budget, reporting: Reporting) -> None:
        self._budget, self._shelf = budget, reporting.shelf
        self._currency = reporting.shared.currency

    # -- how campaigns stand ------------------------------------------------------------------

    def tally(self, kept: StoredCampaign, series: dict[str, Points], span: Span) -> Document:
        """Impressions, spend and what is left, up to the last point of each catalogue."""
        lasts = [points.last for points in series.values() if points.last is not None]
        if not lasts:
            return self.nothing_told(NOT_OVER, self._first_at(span))
        spend = sum(last.answer.shown.spend_micros for last in lasts)
        left = max(as_micros("budget", kept.campaign.budget) - spend, 0)
        stops = [self._stop(points) for points in series.values() if points.refused is not None]
        return {
            "impressions": sum(last.answer.shown.impressions for last in lasts),
            "spend_micros": spend,
            "spend": spend / MICROS,
            "budget_left_micros": left,
            "budget_left": left / MICROS,
            "as_of": iso_of(max(last.end for last in lasts)),
            "suppressed": [note.document() for note in stops[:1]],
        }

    def nothing_told(self, reason: str, why: str) -> Document:
        """Nulls, and why."""
        told: Document = dict.fromkeys(("impressions", "spend_micros", "spend"))
        told |= dict.fromkeys(("budget_left_micros", "budget_left", "as_of"))
        return told | {"suppressed": [Note(_ALL, reason, why).document()]}

    def _first_at(self, span: Span) -> str:
        settle = self._budget.settings.settle_seconds
        end = span.next_end(None, span.stride)
        first = iso_of((span.last if end is None else end) + settle)
        return f"numbers so far are told at points, the first of this flight after {first}"

    def _stop(self, points: Points) -> Note:
        last = "the first" if points.last is None else iso_of(points.last.end)
        most = self._budget.settings.max_points
        why = f"the budget of the numbers so far is spent: a flight has at most {most} of them"
        return Note(f"numbers so far after {last}", SPENT, why)

    def brief(self, version: str, last: Point | None) -> Document:
        """For the list of campaigns."""
        reach = None if last is None else last.answer.shown.at_least[0] / MILLIS
        return {"catalogue": version, "unique_reach": reach}

    def standing(
        self,
        kept: StoredCampaign,
        told: Document,
        series: dict[str, Points],
        version: str,
        last: Point | None,
        level: float,
    ) -> Document:
        """For the page of a campaign."""
        told = told | {"catalogue": version, "people": None, "unique_reach": None, "reach": []}
        told |= {"pace": None, "noise": None}
        if last is None:
            return told
        wanted = sorted({1, *(cap.limit for cap in kept.campaign.caps)})
        caps, notes = self._caps(last.answer, tuple(wanted))
        reports = cap_documents(last.answer, caps, level)
        notes += [_exact("bounds"), _exact(_DIARY)]
        return told | {
            "people": last.answer.target.people,
            "unique_reach": reports[0]["unique_reach"],
            "reach": reports,
            "pace": self._paces(series)[-1],
            "noise": noise_document(last.answer),
            "suppressed": [*told["suppressed"], *(note.document() for note in notes)],
        }

    # -- reports ------------------------------------------------------------------------------

    def reach(
        self,
        kept: StoredCampaign,
        catalogue: Catalogue,
        stretch: Stretch,
        answer: Answer | None,
        caps: tuple[int, ...],
        level: float,
    ) -> Document:
        """The report of a stretch; of one that nobody asked for, nothing but its name."""
        if answer is None:
            why = "it is a question of its own: ask for reach in this window"
            return self._unknown(kept, catalogue, stretch, Note("the whole", NOT_ASKED, why))
        caps, notes = self._caps(answer, caps)
        notes += [_exact("bounds"), _exact("rejected and warnings")]
        spend = answer.shown.spend_micros
        return {
            **self._frame(kept, catalogue, stretch),
            "impressions": answer.shown.impressions,
            "people": answer.target.people,
            "basis": f"{self._basis(kept, catalogue)}; with noise",
            "reports": cap_documents(answer, caps, level),
            **facts_of(kept, spend, self._currency),
            "suppressed": [note.document() for note in notes],
            "noise": noise_document(answer),
        }

    def nothing(self, kept: StoredCampaign, catalogue: Catalogue, span: Span) -> Document:
        """The report of a campaign of which nothing is told yet."""
        note = Note(_ALL, NOT_OVER, self._first_at(span))
        return self._unknown(kept, catalogue, None, note)

    def _unknown(
        self, kept: StoredCampaign, catalogue: Catalogue, stretch: Stretch | None, note: Note
    ) -> Document:
        audience = self._shelf.audience(catalogue, kept.campaign.audience)
        return {
            **self._frame(kept, catalogue, stretch),
            "impressions": None,
            "people": audience.targeted_user_count,
            "basis": None,
            "reports": [],
            **facts_of(kept, 0, self._currency),
            "spend_micros": None,
            "spend": None,
            "suppressed": [note.document()],
            "noise": None,
        }

    def stopped(self, document: Document, points: Points) -> Document:
        """The same document, saying so if the numbers so far do not go on."""
        if points.refused is None:
            return document
        return document | {"suppressed": [*document["suppressed"], self._stop(points).document()]}

    def series(
        self,
        whole: Document,
        by: str,
        told: list[tuple[Stretch, Answer | Refused, Point | None]],
        caps: tuple[int, ...],
        level: float,
    ) -> Document:
        """A document of a series: each period alone, and the number so far at its end."""
        rows, short, apart = [], [], []
        for (start, end), alone, point in told:
            row: Document = {"start": iso_of(start), "end": iso_of(end)}
            row |= {"impressions": None, "period": None, "cumulative": None}
            if isinstance(alone, Refused):
                short.append(row["start"])
            else:
                row["impressions"] = alone.shown.impressions
                row["period"] = cap_documents(alone, self._caps(alone, caps)[0], level)
            if point is None:
                apart.append(row["end"])
            else:
                answer = point.answer
                row["cumulative"] = cap_documents(answer, self._caps(answer, caps)[0], level)
            rows.append(row)
        notes = []
        if short:
            why = "what may be told of windows there was told"
            notes.append(Note(f"periods from {_some(short)}", SPENT, why))
        if apart:
            why = "only numbers so far are cumulative: from the flight's start, at their points"
            notes.append(Note(f"cumulative at {_some(apart)}", NOT_NOISY, why))
        suppressed = [*whole["suppressed"], *(note.document() for note in notes)]
        return whole | {"suppressed": suppressed, "by": by, "series": rows}

    def curve(
        self,
        kept: StoredCampaign,
        catalogue: Catalogue,
        points: Points,
        by: str,
        caps: tuple[int, ...],
        level: float,
    ) -> Document:
        """The numbers so far, in short."""
        audience = self._shelf.audience(catalogue, kept.campaign.audience)
        rows = [
            {
                "ts": iso_of(point.end),
                "impressions": point.answer.shown.impressions,
                "reports": [
                    in_short(report)
                    for report in cap_documents(
                        point.answer, self._caps(point.answer, caps)[0], level
                    )
                ],
            }
            for point in points.points
        ]
        document: Document = {"campaign": kept.campaign.id, "catalogue": catalogue.version}
        document |= {"by": by}
        document |= {"people": audience.targeted_user_count, "points": rows, "suppressed": []}
        return self.stopped(document, points)

    def pacing(
        self,
        kept: StoredCampaign,
        told: Document,
        series: dict[str, Points],
        window: Window,
        points: int,
    ) -> Document:
        """Spend and impressions at points of a window; of more than `points`, some."""
        rows: list[Document] = []
        notes = told["suppressed"]
        if told["impressions"] is not None:
            rows = self._paces(series, window)
            notes = [*notes, _exact(_DIARY).document()]
        if len(rows) > points:
            last = np.linspace(0, len(rows), points + 1)[1:].round().astype(int) - 1
            rows = [rows[at] for at in last.tolist()]
        budget = as_micros("budget", kept.campaign.budget)
        document = {"campaign": kept.campaign.id, "budget_micros": budget}
        return document | {"pacing": rows, "suppressed": notes}

    # -- parts --------------------------------------------------------------------------------

    def _paces(self, series: dict[str, Points], window: Window = _ALWAYS) -> list[Document]:
        """What all catalogues came to at each point of one of them."""
        ends = sorted({point.end for points in series.values() for point in points.points})
        low = ends[0] if window.start is None else window.start.timestamp()
        high = ends[-1] + 1 if window.end is None else window.end.timestamp()
        ends = [end for end in ends if low <= end < high]
        rows = []
        for end in ends:
            before = [
                [point for point in points.points if point.end <= end] for points in series.values()
            ]
            shown = [some[-1].answer.shown for some in before if some]
            row: Document = {"ts": iso_of(end)}
            row["spent_micros"] = sum(one.spend_micros for one in shown)
            row["impressions"] = sum(one.impressions for one in shown)
            rows.append(row | dict.fromkeys(_EMPTY))
        return rows

    def _frame(
        self, kept: StoredCampaign, catalogue: Catalogue, stretch: Stretch | None
    ) -> Document:
        start, end = (None, None) if stretch is None else (iso_of(moment) for moment in stretch)
        return {
            "campaign": kept.campaign.id,
            "start": start,
            "end": end,
            "catalogue": catalogue.version,
            "rejected": {"unknown_group": None, "other_catalogue": None},
            "warnings": {"before_catalogue": None},
        }

    def _basis(self, kept: StoredCampaign, catalogue: Catalogue) -> str:
        audience = self._shelf.audience(catalogue, kept.campaign.audience)
        return measure(audience, np.zeros(audience.group_count, dtype=np.int64), 1).basis

    def _caps(self, answer: Answer, caps: tuple[int, ...]) -> tuple[tuple[int, ...], list[Note]]:
        """The caps that an answer can tell: people are counted up to one impression more."""
        most = len(answer.shown.at_least) - 1
        kept = tuple(cap for cap in caps if cap <= most)
        if len(kept) == len(caps):
            return kept, []
        why = f"people are counted up to {most + 1} impressions"
        return kept, [Note(f"reach at caps above {most}", NOT_NOISY, why)]


def _exact(what: str) -> Note:
    return Note(what, NOT_NOISY, "they would be exact: no noise is drawn for them")


def _some(moments: list[str], most: int = 3) -> str:
    more = f" and {len(moments) - most} more" if len(moments) > most else ""
    return ", ".join(moments[:most]) + more
