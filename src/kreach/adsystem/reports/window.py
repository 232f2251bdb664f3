"""Reach in any window of a log, and as a series of periods.

Reach does not add: somebody reached on Monday and again on Tuesday is one person. So a report
cannot be added to another; ask the log for the joint window instead, which is why a series comes
with the cumulative reports beside those of its periods.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from kreach.adsystem.log.counts import WindowCounts, count_files
from kreach.adsystem.log.impression_log import SLOTS_AT_ONCE, ImpressionLog
from kreach.adsystem.log.place import Place
from kreach.adsystem.log.queries import edges, missing, oddities
from kreach.adsystem.log.tables import GroupTable
from kreach.adsystem.measurement.report import ReachReport
from kreach.adsystem.reports.measure import cap_reports, measure_exposure, model_info
from kreach.adsystem.reports.report import ReachDocument, SeriesDocument, SeriesPeriod
from kreach.boundary.checks import as_whole_number
from kreach.boundary.times import Window, iso_optional, iso_text
from kreach.boundary.visit_model import VisitModel
from kreach.display.objects import HasDocument
from kreach.errors import KreachError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "RELEASED",
    "Period",
    "SeriesReport",
    "WindowReport",
    "as_caps",
    "groups_with_model",
    "measure_series",
    "measure_window",
]


RELEASED = "released"
"""The visit model that came with the groups, where there is one."""


@dataclass(frozen=True, eq=False, repr=False)
class WindowReport(HasDocument):
    """Reach of a campaign in one window, at several caps, from one pass over the log.

    `rejected` counts rows that could not count, by reason; a reason is missing where it was not
    checked (without ids there are no duplicates to find). `warnings` counts rows that did count but
    deserve attention.

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
        """The report at one of the requested caps."""
        for report in self.reports:
            if report.cap == cap:
                return report
        raise KreachError.rule("cap", f"be one of {[r.cap for r in self.reports]}", cap)

    def document(self, level: float = 0.95) -> ReachDocument:
        """The report as a struct, as `kreach measure --json` prints it."""
        return ReachDocument(
            campaign=self.campaign,
            start=iso_optional(self.window.start),
            end=iso_optional(self.window.end),
            catalogue=self.catalogue,
            impressions=self.impressions,
            rejected=dict(self.rejected),
            warnings=dict(self.warnings),
            people=self.reports[0].targeted_user_count,
            basis=self.reports[0].basis,
            model=model_info(self.reports[0].exposure),
            reports=cap_reports(self.reports, level),
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Reach by cap, with intervals."""
        return self.document().plot(ax)

    def __repr__(self) -> str:
        caps = [report.cap for report in self.reports]
        reach = ", ".join(f"{report.reach:,.1f}" for report in self.reports)
        shown = f"{self.campaign or 'all campaigns'}; {self.impressions:,} impressions"
        return f"WindowReport({shown}, caps={caps}, reach=[{reach}])"

    def __add__(self, other: object) -> NoReturn:
        raise TypeError("reach of two windows does not add: measure the joint window instead")

    __radd__ = __add__


@dataclass(frozen=True)
class Period:
    """One period of a series: what happened in it, and all from the start of the series."""

    window: Window
    alone: tuple[ReachReport, ...]
    cumulative: tuple[ReachReport, ...]


@dataclass(frozen=True, repr=False)
class SeriesReport(HasDocument):
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

    def document(self, level: float = 0.95) -> SeriesDocument:
        """The series as a struct, as `kreach measure --by` prints it."""
        whole = self.whole.document(level)
        return SeriesDocument(
            **{name: getattr(whole, name) for name in whole.__struct_fields__},
            by=self.by,
            series=tuple(
                SeriesPeriod(
                    start=iso_text(period.window.start),
                    end=iso_text(period.window.end),
                    impressions=period.alone[0].impressions,
                    period=cap_reports(period.alone, level),
                    cumulative=cap_reports(period.cumulative, level),
                )
                for period in self.periods
                if period.window.start is not None and period.window.end is not None
            ),
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Reach to date with its interval, and each period's own reach as bars."""
        return self.document().plot(ax)

    def __repr__(self) -> str:
        return f"SeriesReport({len(self.periods)} periods by {self.by}; {self.whole!r})"


@dataclass(frozen=True)
class _Question:
    log: ImpressionLog
    groups: GroupTable
    caps: tuple[int, ...]
    place: Place

    def reports(self, counts: WindowCounts) -> tuple[ReachReport, ...]:
        people = self.groups.people
        return measure_exposure(counts.exposure, counts.impressions, people, self.caps)

    def counts(self, windows: list[Window], *, running: bool = False) -> list[WindowCounts]:
        log = self.log
        return count_files(log.engine, log.table, self.groups, self.place, windows, running=running)

    def whole(self, window: Window, counts: WindowCounts) -> WindowReport:
        rejected, warnings = self._flaws(window, counts)
        return WindowReport(
            None if self.place.campaign is None else str(self.place.campaign),
            window,
            self.groups.version,
            counts.impressions,
            rejected,
            warnings,
            self.reports(counts),
        )

    def _flaws(self, window: Window, last: WindowCounts) -> tuple[dict[str, int], dict[str, int]]:
        engine, table = self.log.engine, self.log.table
        lost = engine.row(missing(table, self.place))
        rejected = {"no_time": int(lost["no_time"]), "no_group": last.no_group}
        if self.place.campaign is not None:
            rejected["no_campaign"] = int(lost["no_campaign"])
        rejected["unknown_group"] = last.unknown_group
        if table.may_repeat or table.counted_seconds is not None:
            rejected["duplicate"] = last.duplicates
        warnings: dict[str, int] = {}
        question = oddities(table, self.place, window, self.groups.created)
        if question is not None:
            warnings = {name: int(rows) for name, rows in engine.row(question).items()}
        if "other_catalogue" in warnings:
            rejected["other_catalogue"] = warnings.pop("other_catalogue")
        if self.place.campaign is None:
            row = engine.row(edges(table, self.place, window))
            warnings["several_campaigns"] = int(row["least"] != row["greatest"])
        return rejected, warnings


def groups_with_model(groups: GroupTable, model: VisitModel | str | None) -> GroupTable:
    """The groups with the visit model to measure by: that of their release, another, or none."""
    if isinstance(model, str):
        if model != RELEASED:
            raise KreachError.rule("model", f"be a VisitModel, None or {RELEASED!r}", model)
        return groups
    if model is not None and not isinstance(model, VisitModel):
        raise KreachError.rule("model", "be a VisitModel or None", type(model).__name__)
    return groups.with_model(model)


def as_caps(caps: Iterable[int]) -> tuple[int, ...]:
    """The caps of a report, each once."""
    if isinstance(caps, int):
        caps = [caps]
    checked = tuple(dict.fromkeys(as_whole_number("caps", cap, minimum=1) for cap in caps))
    if not checked:
        raise KreachError.rule("caps", "hold at least one cap", "none")
    return checked


def _question(
    log: ImpressionLog,
    groups: GroupTable,
    caps: Iterable[int],
    campaign: str | None,
    model: VisitModel | str | None,
) -> _Question:
    groups = groups_with_model(groups, model)
    return _Question(log, groups, as_caps(caps), Place.named(campaign, groups.version))


def measure_window(
    log: ImpressionLog,
    groups: GroupTable,
    caps: Iterable[int],
    *,
    campaign: str | None = None,
    start: object = None,
    end: object = None,
    model: VisitModel | str | None = RELEASED,
) -> WindowReport:
    """Reach of a campaign (or of all rows) in [start, end), at several caps in one pass.

    The engine counts and returns a histogram of groups by kind and impressions; what follows does
    not grow with people, groups or impressions. `start` and `end` are datetimes or ISO text.

    `model` says how the site's people visit: by default the visit model that was released with the
    groups, if any. Without one, or with None, the formulas of the paper are used, which know no
    times.

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
    question = _question(log, groups, caps, campaign, model)
    return question.whole(window, question.counts([window])[0])


def measure_series(
    log: ImpressionLog,
    groups: GroupTable,
    caps: Iterable[int],
    *,
    by: str = "day",
    campaign: str | None = None,
    start: object = None,
    end: object = None,
    model: VisitModel | str | None = RELEASED,
) -> SeriesReport:
    """Reach in each hour, day or week (from Monday, UTC), and from the start to its end.

    One scan counts up to 48 periods. Without `start` or `end` the series holds all impressions.
    `model` is that of `measure_window`.

    >>> import kreach as kr
    >>> rows = {"campaign": ["s"] * 2, "group": ["a"] * 2, "ts": ["2026-11-01", "2026-11-02"]}
    >>> with kr.EmbeddedEngine() as engine:
    ...     groups = kr.open_groups(engine, {"group": ["a"], "size": [2]})
    ...     series = kr.measure_series(kr.ImpressionLog.open(engine, rows), groups, [1], by="day")
    >>> series.whole.report(cap=1).reach
    1.5
    """
    question = _question(log, groups, caps, campaign, model)
    window = log.span(question.place, Window.between(start, end), by)
    periods = window.periods(by)
    measured: list[Period] = []
    last: WindowCounts | None = None
    for low in range(0, len(periods), SLOTS_AT_ONCE):
        block = periods[low : low + SLOTS_AT_ONCE]
        before = [Window(window.start, block[0].start)] if low else []
        counts = question.counts(before + block, running=True)
        slots = len(counts) // 2
        for at, period in enumerate(block, len(before)):
            alone, cumulative = counts[at], counts[slots + at]
            reports = question.reports(alone), question.reports(cumulative)
            measured.append(Period(period, *reports))
        last = counts[-1]
    assert last is not None
    return SeriesReport(by, question.whole(window, last), tuple(measured))
