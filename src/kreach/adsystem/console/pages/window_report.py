"""Reach over time, and a report on any window that is dragged on the chart or typed in."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import UNSET
from nicegui import ui
from nicegui.events import GenericEventArguments

from kreach.adsystem.console import charts
from kreach.adsystem.console import formatting as fmt
from kreach.adsystem.console.chart_options import Flight
from kreach.adsystem.console.client import Query, RequestRefused, curve_query, reach_query
from kreach.adsystem.console.date_range import CUSTOM, PRESETS, TO_DATE, DateRange
from kreach.adsystem.console.forms import show_field_errors
from kreach.adsystem.console.layout import Frame
from kreach.adsystem.console.poller import Answers
from kreach.adsystem.console.status import flight_of, max_cap, reach_line, withheld_note
from kreach.adsystem.console.tables import curve_rows, report_rows
from kreach.adsystem.console.widgets import (
    Chart,
    Notes,
    Table,
    Text,
    box,
    button,
    card,
    csv_button,
    date_presets,
    png_button,
)
from kreach.adsystem.reports.report import (
    CampaignDefinition,
    CapReport,
    CurveDocument,
    ErrorInfo,
    ReachDocument,
)
from kreach.boundary.times import EPOCH, iso_text

__all__ = ["CAPS", "WindowPanel", "cap_rows", "cap_table"]

CAPS = (1, 2, 3, 4, 5)
_MAX_BY_HOUR = timedelta(days=14)  # of a flight; later, days are enough
_AUTO = "auto"
_PERIODS = {_AUTO: "auto", "hour": "hours", "day": "days"}
_HOUR, _MINUTE = timedelta(hours=1), timedelta(minutes=1)


def cap_table(name: str) -> Table:
    """A table for `cap_rows`."""
    heads = ["cap", "within the cap", "interval", "people above it"]
    return Table(heads, numeric=(0, 1, 2, 3), name=name)


def cap_rows(reports: Sequence[CapReport]) -> list[tuple[str, ...]]:
    """Rows of a table: cap, impressions within it, interval, people above it."""
    return [
        (
            str(report.cap),
            fmt.count(report.reach),
            fmt.interval(report.interval),
            fmt.count(report.over_exposed),
        )
        for report in reports
    ]


def _round(millis: float, unit: timedelta, *, up: bool) -> datetime:
    """A time on the chart, rounded to a whole minute or hour."""
    since = timedelta(milliseconds=millis)
    return EPOCH + unit * (-(-since // unit) if up else since // unit)


class WindowPanel:
    """The card with the chart; the page calls `queries` and `show`."""

    def __init__(self, frame: Frame, name: str, parameters: Sequence[tuple[str, str]] = ()) -> None:
        self._frame, self._console, self._name = frame, frame.console, name
        given = dict(parameters)
        self._by = given["by"] if given.get("by") in _PERIODS else _AUTO
        self._cap: int | None = None
        cap = given.get("cap", "")
        self._first_cap = int(cap) if cap.isascii() and cap.isdigit() and len(cap) < 5 else None
        self._range = DateRange.of_query(parameters)
        self._flight: Flight | None = None
        self._curve: CurveDocument | None = None
        self._report: ReachDocument | None = None
        self.report: ReachDocument | None = None  # on the chosen range, if one is chosen
        self._own_cap = 1
        with card(name="over time"):
            self._add_head()
            with box("k-live"):
                self.chart = Chart("Reach to date over time, with its interval", name="over time")
            with self._png_place:
                png_button("reach over time", self.chart, self._about)
            self._notes = Notes()
            self._add_inputs()
            self._window_notes = Notes()
            with box("k-live") as self._result:
                self._title = Text("", "h3", name="window title")
                self._facts = Text("", "p", "k-sub", name="window facts")
                self._table = cap_table("window report")
            self._result.set_visibility(False)
        self.chart.element.classes("k-drag").on("chart:brushEnd", self._drag, ["areas"])

    def _add_head(self) -> None:
        with box("k-row k-between"):
            with box("k-title"):
                Text("Reach over time", "h2")
                self._subtitle = Text("", "p", "k-sub")
            with box("k-row"):
                self._caps = ui.select([1], value=1, on_change=self._pick_cap)
                self._caps.props("outlined dense").props["aria-label"] = "Frequency cap"
                toggle = ui.toggle(_PERIODS, value=self._by, on_change=self._pick_period)
                toggle.props("no-caps unelevated dense padding='4px 12px'")
                name = "reach over time"
                csv_button(name, lambda: curve_rows(self._curve), self._about)
                self._png_place = box()

    def _add_inputs(self) -> None:
        with box("k-row"):
            self._inputs = {"start": ui.input("Window from (UTC)"), "end": ui.input("to (UTC)")}
            for name, field in self._inputs.items():
                field.props("outlined dense stack-label type=datetime-local")
                field.props["data-name"] = f"window {name}"
                field.without_auto_validation()
                field.on("keydown.enter", self._submit)
            button("Report this window", self._submit)
            self._allowed = box("k-row")
            csv_button("window report", lambda: report_rows(self._report), self._about)
        Text("Or drag across the chart.", "p", "k-sub")

    def add_presets(self) -> None:
        """Buttons for usual ranges, which all figures of the page follow."""
        self._presets = date_presets(PRESETS, self._range.preset, self._pick_preset)

    def _about(self) -> tuple[str, ...]:
        return (self._name, self._range.preset, *self._frame.today())

    @property
    def _window(self) -> tuple[str, str] | None:
        if self._flight is None:
            return None
        return self._range.window(self._console.now(), self._flight)

    @property
    def range_text(self) -> str:
        """The chosen range in words."""
        window = self._window
        if window is None:
            return PRESETS[TO_DATE]
        return f"{fmt.date_time(window[0])} to {fmt.date_time(window[1])} UTC"

    # -- choices ------------------------------------------------------------------------------

    @property
    def has_range(self) -> bool:
        """Whether figures are to be of a range, not to date."""
        return self._range.preset != TO_DATE

    @property
    def view(self) -> tuple[Any, ...]:
        """The choices; another choice shows another chart."""
        return (self._by, self._cap, self._window)

    def _keep_address(self) -> None:
        pairs = self._range.parameters
        pairs += [("by", self._by)] if self._by != _AUTO else []
        pairs += [("cap", str(self._cap))] if self._cap not in (None, self._own_cap) else []
        query = f"?{urlencode(pairs, safe=':')}" if pairs else ""
        self._frame.set_address(f"/campaign/{quote(self._name)}{query}")

    def _pick_cap(self, event: Any) -> None:
        self._cap = event.value
        self._keep_address()

    def _pick_period(self, event: Any) -> None:
        self._by = event.value
        self._keep_address()

    def _pick_preset(self, event: Any) -> None:
        """A preset; "custom" waits for two times, from what is shown now."""
        window = self._window
        if event.value == self._range.preset:
            return
        if event.value == CUSTOM:
            if self._flight is not None:
                start, end = window or (iso_text(self._flight[0]), iso_text(self._console.now()))
                self._choose(start, end)
            return
        self._range = DateRange(event.value)
        self._window_notes.show()
        self._result.set_visibility(False)
        self._allowed.clear()
        for field in self._inputs.values():
            field.error, field.value = None, ""
        self._keep_address()

    def _drag(self, event: GenericEventArguments) -> None:
        areas = event.args.get("areas") or []
        if not areas or len(areas[0].get("coordRange") or []) != 2:
            return
        low, high = (float(end) for end in areas[0]["coordRange"])
        unit = _HOUR if timedelta(milliseconds=high - low) >= 3 * _HOUR else _MINUTE
        self._choose(iso_text(_round(low, unit, up=False)), iso_text(_round(high, unit, up=True)))

    def _submit(self) -> None:
        for field in self._inputs.values():
            field.error = None if field.value else "choose a time"
        if all(field.value for field in self._inputs.values()):
            start, end = (f"{field.value}:00Z" for field in self._inputs.values())
            self._choose(start, end)

    def _choose(self, start: str, end: str) -> None:
        self._range = DateRange(CUSTOM, start, end)
        self._presets.value = CUSTOM
        self._window_notes.show()
        for field, text in zip(self._inputs.values(), (start, end), strict=True):
            field.error = None
            field.value = text[:16]  # seconds do not fit
        self._keep_address()

    # -- queries ------------------------------------------------------------------------------

    def _curve_query(self, campaign: CampaignDefinition, cap: int) -> Query[CurveDocument]:
        by = self._by
        if by == _AUTO:
            since_start = self._console.now() - flight_of(campaign)[0]
            by = "hour" if since_start <= _MAX_BY_HOUR else "day"
        return curve_query(self._name, by, cap)

    def _window_query(self, campaign: CampaignDefinition) -> Query[ReachDocument] | None:
        if self._window is None:
            return None
        caps = (*CAPS, *(cap.limit for cap in campaign.caps))
        return reach_query(self._name, caps, self._window)

    def queries(self, campaign: CampaignDefinition | None) -> list[Query[Any]]:
        """The curve, and the report on the window if one is chosen."""
        if campaign is None or self._cap is None:
            return []
        window = self._window_query(campaign)
        return [self._curve_query(campaign, self._cap), *([] if window is None else [window])]

    # -- display ------------------------------------------------------------------------------

    def show(
        self, campaign: CampaignDefinition, to_date: ReachDocument | None, answers: Answers
    ) -> None:
        """Draw the chart and the report on the window."""
        self._flight = flight_of(campaign)
        if self._cap is None:
            self._own_cap = max_cap(campaign)
            caps = sorted({*CAPS, *(cap.limit for cap in campaign.caps)})
            self._cap = self._first_cap if self._first_cap in caps else self._own_cap
            self._caps.set_options({cap: f"cap {cap}" for cap in caps}, value=self._cap)
        answer = answers.of(self._curve_query(campaign, self._cap))
        self._curve = answer.document
        waiting = None if answer.version else "Waiting for reporting."
        withheld = withheld_note(self._curve.suppressed) if self._curve is not None else None
        self._notes.show(waiting, answer.refusal, withheld)
        self._draw(campaign, self._cap, to_date)
        window = self._window_query(campaign)
        self.report = None
        if window is not None:
            report = answers.of(window)
            self.report = report.document
            if isinstance(report.error, RequestRefused):
                self._show_refusal(report.error.error)
            elif report.document is not None:
                self._show_report(report.document)

    def _draw(self, campaign: CampaignDefinition, cap: int, to_date: ReachDocument | None) -> None:
        truth = self._console.truth.content
        actual = None if truth is None else truth.over_time(self._name, cap)
        unit = "people" if cap == 1 else "impressions within the cap"
        text = "People reached" if cap == 1 else f"Impressions, at most {cap} per person,"
        text += " to date."
        if to_date is not None and to_date.reports:
            level = fmt.level(to_date.reports[0].level)
            text += f" The band holds the true number with {level} probability."
        if actual:
            text += " Dashed: actual reach, which only the simulation knows."
        self._subtitle.set_text(text)
        start, end = flight_of(campaign)
        points = []
        if self._curve is not None:
            last = min(self._console.now(), end)
            points = reach_line(start, last, self._curve.points, to_date, cap)
        window = None
        if self._window is not None:
            window = (fmt.parse_time(self._window[0]), fmt.parse_time(self._window[1]))
        self.chart.show(charts.reach_over_time(points, actual, (start, end), unit, window))

    def _show_report(self, report: ReachDocument) -> None:
        self._allowed.clear()
        self._report = report
        self._result.set_visibility(True)
        self._title.set_text(f"{fmt.date_time(report.start)} to {fmt.date_time(report.end)}")
        facts = []
        if report.impressions is not None:
            facts.append(fmt.plural(report.impressions, "impression"))
        if report.reports:
            first = report.reports[0]
            ends = fmt.interval(first.unique_reach_interval)
            facts.append(f"{fmt.count(first.unique_reach)} people reached ({ends})")
        spend = None if report.spend is UNSET else report.spend
        facts.append(f"spend {fmt.money(spend, report.currency or '')}")
        self._facts.set_text(f"{', '.join(facts)}. {withheld_note(report.suppressed) or ''}")
        self._table.show(cap_rows(report.reports))

    def _show_refusal(self, error: ErrorInfo) -> None:
        """Show errors at their inputs, and offer the nearest allowed times."""
        _, others = show_field_errors(error, self._inputs)
        self._window_notes.show(*others, tone="k-bad")
        self._result.set_visibility(False)
        self._allowed.clear()
        if error.allowed is None or self._window is None:
            return
        start, end = self._window
        with self._allowed:
            for text in error.allowed.start:
                if text != start:
                    self._offer(f"from {fmt.date_time(text)}", text, end)
            for text in error.allowed.end:
                if text != end:
                    self._offer(f"to {fmt.date_time(text)}", start, text)

    def _offer(self, label: str, start: str, end: str) -> None:
        button(label, lambda: self._choose(start, end))
