"""Reach in any window of a log, and as a series of periods.

Reach does not add: somebody reached on Monday and again on Tuesday is one person. So a report
cannot be added to another; ask the log for the joint window instead, which is why a series comes
with the cumulative reports beside those of its periods.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from kreach.adsystem.log.exposures import Fold, fold
from kreach.adsystem.log.impression_log import SLOTS_AT_ONCE, ImpressionLog
from kreach.adsystem.log.queries import Scope, edges, missing, oddities
from kreach.adsystem.log.tables import GroupTable
from kreach.adsystem.measurement.distribution import exact_cost
from kreach.adsystem.measurement.report import ReachReport
from kreach.boundary.checks import as_probability, as_whole_number
from kreach.boundary.times import Window, iso_text
from kreach.errors import KreachError

__all__ = ["Period", "SeriesReport", "WindowReport", "measure_series", "measure_window"]

_EXACT_STEPS = 3e7  # up to here an exact interval takes a second or so
_EXACT_GROUPS = 5_000  # a sum over more is normal: its quantiles are within 0.01 of a std
_MAX_SIMULATED = 1_000  # impressions, each drawn some thousand times
_TOP = 10


@dataclass(frozen=True, eq=False)
class WindowReport:
    """Reach of a campaign in one window, at several caps, from one pass over the log.

    `rejected` counts rows that could not count and why; a reason that is missing was not looked
    for (without ids there are no copies to find). `warnings` counts rows that did count but that
    one should know of.

    >>> import kreach as kr
    >>> rows = {"campaign": ["s"] * 3, "group": ["a", "a", "x"], "ts": ["2026-11-01"] * 3}
    >>> with kr.EmbeddedEngine() as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a"], "size": [2]})
    ...     report = kr.measure_window(kr.ImpressionLog.open(engine, rows), groups, [1])
    >>> report.report(cap=1).reach, report.impressions, report.rejected["unknown_group"]
    (1.5, 2, 1)
    """

    campaign: str | None
    window: Window
    catalogue: str | None
    impressions: int
    rejected: dict[str, int]
    warnings: dict[str, int]
    reports: tuple[ReachReport, ...]

    def report(self, cap: int) -> ReachReport:
        """The report at one of the caps that were asked for."""
        for report in self.reports:
            if report.cap == cap:
                return report
        raise KreachError.rule("cap", f"be one of {[r.cap for r in self.reports]}", cap)

    def document(self, level: float = 0.95) -> dict[str, Any]:
        """The report as plain values, as `kreach measure --json` prints it."""
        level = as_probability("level", level)
        return {
            "campaign": self.campaign,
            **_window_document(self.window),
            "catalogue": self.catalogue,
            "impressions": self.impressions,
            "rejected": dict(self.rejected),
            "warnings": dict(self.warnings),
            "people": self.reports[0].targeted_user_count,
            "basis": self.reports[0].basis,
            "reports": reach_documents(self.reports, level),
        }

    def __add__(self, other: object) -> NoReturn:
        raise TypeError("reach of two windows does not add: measure the joint window instead")

    __radd__ = __add__


@dataclass(frozen=True)
class Period:
    """One period of a series: what happened in it, and all from the start of the series."""

    window: Window
    alone: tuple[ReachReport, ...]
    cumulative: tuple[ReachReport, ...]


@dataclass(frozen=True)
class SeriesReport:
    """Reach period by period. `whole` is the report of the whole window.

    >>> import kreach as kr
    >>> rows = {"campaign": ["s"] * 2, "group": ["a"] * 2, "ts": ["2026-11-01", "2026-11-02"]}
    >>> with kr.EmbeddedEngine() as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a"], "size": [2]})
    ...     series = kr.measure_series(kr.ImpressionLog.open(engine, rows), groups, [1], by="day")
    >>> [period.cumulative[0].reach for period in series.periods]
    [1.0, 1.5]
    """

    by: str
    whole: WindowReport
    periods: tuple[Period, ...]

    def document(self, level: float = 0.95) -> dict[str, Any]:
        """The series as plain values, as `kreach measure --by` prints it."""
        level = as_probability("level", level)
        series = [
            {
                **_window_document(period.window),
                "impressions": period.alone[0].impressions,
                "period": reach_documents(period.alone, level),
                "cumulative": reach_documents(period.cumulative, level),
            }
            for period in self.periods
        ]
        return {**self.whole.document(level), "by": self.by, "series": series}


def _window_document(window: Window) -> dict[str, str | None]:
    return {"start": _iso(window.start), "end": _iso(window.end)}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else iso_text(moment)


def reach_documents(reports: tuple[ReachReport, ...], level: float) -> list[dict[str, Any]]:
    """The reports of one window as plain values; what no cap changes is computed once."""
    first = reports[0]
    unique = next((report for report in reports if report.cap == 1), None)
    if unique is None:
        unique = ReachReport(1, first.impressions, first.targeted_user_count, first.exposure)
    low, high = unique.interval(level, interval_method(unique))
    targeted = first.exposure.targeted_impressions
    max_often = targeted / low if low > 0.0 else float(first.impressions)
    shared = {
        "unique_reach": unique.reach,
        "unique_reach_interval": [low, high],
        "average_frequency": first.average_frequency,
        "average_frequency_interval": [targeted / high if high > 0.0 else 0.0, max_often],
        "frequency": first.frequency(_TOP).tolist(),
        "at_least": first.at_least(_TOP).tolist(),
        "at_least_intervals": [
            list(first.at_least_interval(count, level)) for count in range(1, _TOP + 1)
        ],
    }
    return [_capped_document(report, level) | shared for report in reports]


def _capped_document(report: ReachReport, level: float) -> dict[str, Any]:
    method = interval_method(report)
    return {
        "cap": report.cap,
        "impressions": report.impressions,
        "reach": report.reach,
        "std": report.std,
        "interval": list(report.interval(level, method)),
        "level": level,
        "interval_method": report.distribution().method if method == "exact" else method,
        "bounds": list(report.bounds),
        "bounds_attained": list(report.bounds_attained),
        "over_exposed": report.over_exposed,
    }


def interval_method(report: ReachReport) -> str:
    """Exact where that takes a moment; elsewhere groups are so many that their sum is normal."""
    kinds = report.exposure.served_kinds()
    if kinds is None:  # simulated
        few = report.impressions <= _MAX_SIMULATED and report.exposure.unfolded() is not None
        return "exact" if few else "normal"
    many = sum(kind.groups for kind in kinds if kind.impressions) > _EXACT_GROUPS
    costly = many or exact_cost(kinds, report.cap) > _EXACT_STEPS
    return "normal" if costly else "exact"


@dataclass(frozen=True)
class _Question:
    log: ImpressionLog
    groups: GroupTable
    caps: tuple[int, ...]
    scope: Scope

    def reports(self, fold: Fold) -> tuple[ReachReport, ...]:
        people = self.groups.people
        return tuple(ReachReport(cap, fold.impressions, people, fold.exposure) for cap in self.caps)

    def folds(self, slots: list[Window], *, running: bool = False) -> list[Fold]:
        log = self.log
        return fold(log.engine, log.table, self.groups, self.scope, slots, running=running)

    def whole(self, window: Window, last: Fold) -> WindowReport:
        rejected, warnings = self._flaws(window, last)
        return WindowReport(
            self.scope.campaign,
            window,
            self.groups.version,
            last.impressions,
            rejected,
            warnings,
            self.reports(last),
        )

    def _flaws(self, window: Window, last: Fold) -> tuple[dict[str, int], dict[str, int]]:
        engine, table = self.log.engine, self.log.table
        lost = engine.one(missing(table, self.scope))
        rejected = {"no_time": int(lost["no_time"]), "no_group": last.no_group}
        if self.scope.campaign is not None:
            rejected["no_campaign"] = int(lost["no_campaign"])
        rejected["unknown_group"] = last.unknown_group
        if table.may_repeat:
            rejected["duplicate"] = last.copies
        warnings: dict[str, int] = {}
        question = oddities(table, self.scope, window, self.groups.created)
        if question is not None:
            warnings = {name: int(rows) for name, rows in engine.one(question).items()}
        if "other_catalogue" in warnings:
            rejected["other_catalogue"] = warnings.pop("other_catalogue")
        if self.scope.campaign is None:
            found = engine.one(edges(table, self.scope, window))
            warnings["several_campaigns"] = int(found["least"] != found["greatest"])
        return rejected, warnings


def _question(
    log: ImpressionLog, groups: GroupTable, caps: Iterable[int], campaign: str | None
) -> _Question:
    if isinstance(caps, int):
        caps = [caps]
    checked = tuple(dict.fromkeys(as_whole_number("caps", cap, minimum=1) for cap in caps))
    if not checked:
        raise KreachError.rule("caps", "hold at least one cap", "none")
    return _Question(log, groups, checked, Scope(campaign, groups.version))


def measure_window(
    log: ImpressionLog,
    groups: GroupTable,
    caps: Iterable[int],
    *,
    campaign: str | None = None,
    start: object = None,
    end: object = None,
) -> WindowReport:
    """Reach of a campaign (or of all rows) in [start, end), at several caps in one pass.

    The engine counts and returns a histogram of groups by kind and impressions; what follows does
    not grow with people, groups or impressions. `start` and `end` are datetimes or ISO text.

    >>> import kreach as kr
    >>> rows = {"campaign": ["s"] * 2, "group": ["a"] * 2, "ts": ["2026-11-01", "2026-11-02"]}
    >>> with kr.EmbeddedEngine() as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a"], "size": [2]})
    ...     log = kr.ImpressionLog.open(engine, rows)
    ...     report = kr.measure_window(log, groups, [1, 2], campaign="s", end="2026-11-02")
    >>> report.impressions, report.report(cap=2).reach
    (1, 1.0)
    """
    window = Window.between(start, end)
    question = _question(log, groups, caps, campaign)
    return question.whole(window, question.folds([window])[0])


def measure_series(
    log: ImpressionLog,
    groups: GroupTable,
    caps: Iterable[int],
    *,
    by: str = "day",
    campaign: str | None = None,
    start: object = None,
    end: object = None,
) -> SeriesReport:
    """Reach in each hour, day or week (from Monday, UTC), and from the start to its end.

    One scan counts up to 48 periods. Without `start` or `end` the series holds all impressions.

    >>> import kreach as kr
    >>> rows = {"campaign": ["s"] * 2, "group": ["a"] * 2, "ts": ["2026-11-01", "2026-11-02"]}
    >>> with kr.EmbeddedEngine() as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a"], "size": [2]})
    ...     series = kr.measure_series(kr.ImpressionLog.open(engine, rows), groups, [1], by="day")
    >>> series.whole.report(cap=1).reach
    1.5
    """
    question = _question(log, groups, caps, campaign)
    window = log.span(question.scope, Window.between(start, end), by)
    periods = window.periods(by)
    made: list[Period] = []
    last: Fold | None = None
    for low in range(0, len(periods), SLOTS_AT_ONCE):
        block = periods[low : low + SLOTS_AT_ONCE]
        before = [Window(window.start, block[0].start)] if low else []
        folds = question.folds(before + block, running=True)
        slots = len(folds) // 2
        skip = len(before)
        for at, period in enumerate(block):
            alone, cumulative = folds[skip + at], folds[slots + skip + at]
            made.append(Period(period, question.reports(alone), question.reports(cumulative)))
        last = folds[-1]
    assert last is not None
    return SeriesReport(by, question.whole(window, last), tuple(made))
