"""Reach of a campaign: so far, in a window, and period by period.

The log gives impressions by group, the library does the rest: every number is that of `measure` on
these impressions, to the last digit, whatever kind of groups there are.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from kreach.adsystem.campaigns.campaign import Campaign
from kreach.adsystem.log.snapshot import Snapshot, micros_of
from kreach.adsystem.log.totals import NOTHING, Standing, Total
from kreach.adsystem.measurement.report import ReachReport
from kreach.adsystem.reports.documents import Documents, measured
from kreach.adsystem.reports.window import WindowReport
from kreach.boundary.audience import Audience
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.times import Window, iso_text, start_of_period
from kreach.errors import KreachError
from kreach.numeric.types import IntArray

__all__ = [
    "MAX_PERIODS",
    "MAX_SECONDS",
    "Found",
    "Subject",
    "Totals",
    "curve_of",
    "reach_in",
    "reach_so_far",
    "series_of",
]

MAX_PERIODS = 1_000
_MAX_CELLS = 4_000_000  # periods times groups that are counted at once
MAX_SECONDS = 30.0
_LENGTH = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Totals = dict[tuple[int, int], Total]


@dataclass(frozen=True)
class Subject:
    """What is measured: a campaign on a catalogue. `place`: their numbers in the log."""

    campaign: Campaign
    catalogue: Catalogue
    audience: Audience
    place: tuple[int, int]


@dataclass(frozen=True)
class Found:
    """A report, and what its impressions cost."""

    report: WindowReport
    spend_micros: int


def _window_report(
    subject: Subject,
    window: Window,
    reports: tuple[ReachReport, ...],
    rows: "_Rows",
) -> WindowReport:
    counted = reports[0].impressions
    rejected = {"no_time": 0, "no_group": 0, "no_campaign": 0}  # the ledger writes no such rows
    rejected |= {"unknown_group": rows.ours - counted, "other_catalogue": rows.others}
    created = subject.catalogue.created
    early = window.start is None or window.start < created
    warnings = {"before_catalogue": rows.early} if early else {}
    version = subject.catalogue.version
    return WindowReport(subject.campaign.id, window, version, counted, rejected, warnings, reports)


@dataclass(frozen=True)
class _Rows:
    """Rows of a campaign: on this catalogue, of them from before it was made, and on others."""

    ours: int
    early: int
    others: int
    spend_micros: int


def reach_so_far(
    now: Snapshot, standing: Standing, subject: Subject, caps: tuple[int, ...]
) -> Found:
    """Reach of all impressions so far, from the counts at hand."""
    groups = len(subject.catalogue)
    counts = standing.counts(now, *subject.place, groups)
    totals = standing.totals(now)
    mine = totals.get(subject.place, NOTHING)
    campaign = subject.place[0]
    every = sum(total.impressions for place, total in totals.items() if place[0] == campaign)
    early = 0
    if mine.first_micros < micros_of(subject.catalogue.created):
        early = _rows(now, subject, Window()).early
    rows = _Rows(mine.impressions, early, every - mine.impressions, mine.spend_micros)
    report = _window_report(subject, Window(), measured(subject.audience, counts, caps), rows)
    return Found(report, rows.spend_micros)


def reach_in(now: Snapshot, subject: Subject, window: Window, caps: tuple[int, ...]) -> Found:
    """Reach in a window of the log."""
    counts = np.zeros(len(subject.catalogue), dtype=np.int64)
    found = now.ask(
        f"""SELECT group_number AS g, count(*) AS n FROM {now.rows(window)}
        WHERE {_mine(subject)} AND {_inside(window)} {_known(subject)} GROUP BY ALL"""
    )
    counts[found["g"]] = found["n"]
    rows = _rows(now, subject, window)
    report = _window_report(subject, window, measured(subject.audience, counts, caps), rows)
    return Found(report, rows.spend_micros)


def _rows(now: Snapshot, subject: Subject, window: Window) -> _Rows:
    campaign, catalogue = subject.place
    created = micros_of(subject.catalogue.created)
    found = now.ask(
        f"""SELECT catalogue_number = {catalogue} AS ours, count(*) AS n,
        count(*) FILTER (WHERE ts < make_timestamptz({created})) AS early,
        sum(price_micros)::BIGINT AS micros FROM {now.rows(window)}
        WHERE campaign_number = {campaign} AND {_inside(window)} GROUP BY ALL"""
    )
    names = ("ours", "n", "early", "micros")
    rows = {row[0]: row[1:] for row in zip(*(found[name].tolist() for name in names), strict=True)}
    n, early, micros = rows.get(True, (0, 0, 0))
    return _Rows(n, early, rows.get(False, (0,))[0], micros)


def _mine(subject: Subject) -> str:
    campaign, catalogue = subject.place
    return f"campaign_number = {campaign} AND catalogue_number = {catalogue}"


def _known(subject: Subject) -> str:
    return f"AND group_number BETWEEN 0 AND {len(subject.catalogue) - 1}"


def _inside(window: Window) -> str:
    conditions = ["true"]
    if window.start is not None:
        conditions.append(f"ts >= make_timestamptz({micros_of(window.start)})")
    if window.end is not None:
        conditions.append(f"ts < make_timestamptz({micros_of(window.end)})")
    return " AND ".join(conditions)


def series_of(
    now: Snapshot,
    subject: Subject,
    documents: Documents,
    window: Window,
    by: str,
    caps: tuple[int, ...],
    level: float,
    max_seconds: float = MAX_SECONDS,
) -> tuple[Found, dict[str, Any]]:
    """The report of the whole, and the document of a series as `SeriesReport` makes it."""
    span = _span(now, subject, window, by)
    if span is None:
        whole = reach_in(now, subject, window, caps)
        return whole, {**whole.report.document(level), "by": by, "series": []}
    running = np.zeros(len(subject.catalogue), dtype=np.int64)
    series: list[dict[str, Any]] = []
    for period, counts in _counted_periods(now, subject, span, by, max_seconds):
        running = running + counts
        series.append(
            {
                "start": _iso(period.start),
                "end": _iso(period.end),
                "impressions": int(counts.sum()),
                "period": documents.of(subject.audience, counts, caps, level),
                "cumulative": documents.of(subject.audience, running, caps, level),
            }
        )
    rows = _rows(now, subject, span)
    report = _window_report(subject, span, measured(subject.audience, running, caps), rows)
    document = {**report.document(level), "by": by, "series": series}
    return Found(report, rows.spend_micros), document


def curve_of(
    now: Snapshot,
    subject: Subject,
    documents: Documents,
    by: str,
    caps: tuple[int, ...],
    level: float,
) -> list[dict[str, Any]]:
    """Reach so far at the end of each period: what a series says, in short and quickly."""
    span = _span(now, subject, Window(), by)
    if span is None:
        return []
    running = np.zeros(len(subject.catalogue), dtype=np.int64)
    points = []
    for period, counts in _counted_periods(now, subject, span, by, MAX_SECONDS):
        running = running + counts
        found = documents.of(subject.audience, running, caps, level, "curve")
        points.append({"ts": _iso(period.end), "impressions": int(running.sum()), "reports": found})
    return points


def _counted_periods(
    now: Snapshot, subject: Subject, span: Window, by: str, max_seconds: float
) -> Iterator[tuple[Window, IntArray]]:
    """Impressions by group, period by period, as long as there is time."""
    periods = span.periods(by)
    if len(periods) > MAX_PERIODS:
        rule = f"hold at most {MAX_PERIODS} periods"
        raise KreachError.rule("window", rule, f"{len(periods)} by {by}")
    deadline = time.monotonic() + max_seconds
    at_once = max(min(_MAX_CELLS // max(len(subject.catalogue), 1), 48), 1)
    for low in range(0, len(periods), at_once):
        block = periods[low : low + at_once]
        for period, counts in zip(block, _counts_by_period(now, subject, block, by), strict=True):
            if time.monotonic() > deadline:
                rule = f"take at most {max_seconds:g} seconds: ask for fewer periods or caps"
                raise KreachError.rule("series", rule, f"{len(periods)} periods")
            yield period, counts


def _span(now: Snapshot, subject: Subject, window: Window, by: str) -> Window | None:
    """The window with open ends closed around its impressions; None if it has none."""
    if window.start is not None and window.end is not None:
        return window
    found = now.ask(
        f"""SELECT epoch_us(min(ts)) AS first, epoch_us(max(ts)) AS last FROM {now.rows(window)}
        WHERE {_mine(subject)} AND {_inside(window)}"""
    )
    first, last = (found[name].tolist()[0] for name in ("first", "last"))
    if first is None:
        return None
    moments = [_EPOCH + timedelta(microseconds=micros) for micros in (first, last)]
    return window.holding(moments[0], moments[1], by)


def _counts_by_period(now: Snapshot, subject: Subject, block: list[Window], by: str) -> IntArray:
    """A row of impressions by group for each of some periods that follow each other."""
    assert block[0].start is not None
    stretch = Window(block[0].start, block[-1].end)
    origin = micros_of(start_of_period(block[0].start, by))
    length = _LENGTH[by] // timedelta(microseconds=1)
    found = now.ask(
        f"""SELECT (epoch_us(ts) - {origin}) // {length} AS p, group_number AS g, count(*) AS n
        FROM {now.rows(stretch)} WHERE {_mine(subject)} AND {_inside(stretch)}
        {_known(subject)} GROUP BY ALL"""
    )
    counts = np.zeros((len(block), len(subject.catalogue)), dtype=np.int64)
    counts[found["p"].astype(np.int64), found["g"]] = found["n"]
    return counts


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso_text(moment)
